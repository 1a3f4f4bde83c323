/* SPDX-License-Identifier: MIT
 *
 * What the fake GPU runs when convert.ptx is loaded: its source, compiled for the CPU.
 */
#define SL_FIBERS
#include "kernel/prelude.cuh"
#define __syncwarp __syncthreads /* threads of a warp do not run together */

#include "convert/pixels.cuh"

#include "convert/job.cuh"

#include "convert/sources.cuh"

#include "convert/convert.cu"

#include "convert/resize.cu"

#include "convert/same.cu"

struct fake_kernel {
    const char *name;
    void (*run)(sl_host_job *job);
    unsigned long count;
    const unsigned long *sizes;
};

SL_RUN(0, sl_convert_any)
SL_RUN(1, sl_convert_rgba)
SL_RUN(2, sl_share_any)
SL_RUN(3, sl_share_rgba)
SL_RUN(4, sl_resize_rgba)
SL_RUN(5, sl_resize_nv12)
SL_RUN(6, sl_same_rgba)
SL_RUN(7, sl_same_planes)
SL_RUN(8, sl_same_to_planes)
SL_RUN(9, sl_same_nv12)
SL_RUN(10, sl_same_to_nv12)

static const unsigned long sizes[] = { sizeof(sl_job) };
extern "C" __attribute__((visibility("default"))) const fake_kernel fake_kernels[];
const fake_kernel fake_kernels[] = {
    { "sl_convert_any", sl_run_0, 1, sizes },
    { "sl_convert_rgba", sl_run_1, 1, sizes },
    { "sl_share_any", sl_run_2, 1, sizes },
    { "sl_share_rgba", sl_run_3, 1, sizes },
    { "sl_resize_rgba", sl_run_4, 1, sizes },
    { "sl_resize_nv12", sl_run_5, 1, sizes },
    { "sl_same_rgba", sl_run_6, 1, sizes },
    { "sl_same_planes", sl_run_7, 1, sizes },
    { "sl_same_to_planes", sl_run_8, 1, sizes },
    { "sl_same_nv12", sl_run_9, 1, sizes },
    { "sl_same_to_nv12", sl_run_10, 1, sizes },
    { nullptr, nullptr, 0, nullptr },
};
