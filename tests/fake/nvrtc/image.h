/* SPDX-License-Identifier: MIT
 *
 * What the stand-in for NVRTC makes, and the fake driver loads: a shared object of the host's compiler that is labelled
 * as a GPU's machine code. It runs on the fake GPU's thread.
 */
#ifndef FAKE_IMAGE_H
#define FAKE_IMAGE_H

#include "kernel/host_module.h"

#define MACHINE_CUDA 190 /* in its ELF header, instead of the host's */

/* In PTX it is the last line, each byte as two letters from 'a' to 'p'. */
#define PTX_MARK "// image: "

/* The object exports an array of them, `fake_kernels`, which ends with one without a name; and, if its kernels have
 * barriers, SL_HOST_FIBERS. */
struct fake_kernel {
    const char *name;
    sl_host_function *run;
    size_t count; /* of parameters */
    const size_t *sizes;
};

#endif
