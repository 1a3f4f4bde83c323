/* SPDX-License-Identifier: MIT
 *
 * Kernels on host, for the files host*.c and the code that host_compile.c compiles.
 */
#ifndef SL_KERNEL_HOST_MODULE_H
#define SL_KERNEL_HOST_MODULE_H

#include "kernel/embedded.h"
#include "kernel/kernel.h"

/* A range of a launch's blocks; prelude.cuh has the same struct. The compiled code exports, for each kernel, a function
 * that runs a range. If it has barriers, it also exports the size of `fibers`, a uint64_t, as SL_HOST_FIBERS. */
struct sl_host_job {
    uint32_t grid[3], block[3];
    void *const *values;
    void *shared;         /* dynamic shared memory of a block */
    void *fibers;         /* zeroed before its first range; one range at a time */
    uint64_t first, last; /* blocks */
    uint32_t check;       /* look for barriers that only some threads reach */
    uint32_t lines[2];    /* the check sets it: two barriers' lines, if threads of one block wait at both */
};
typedef void sl_host_function(struct sl_host_job *job);

#define SL_HOST_SYMBOL "sl_run_%u" /* of the source's k-th kernel */
#define SL_HOST_FIBERS "sl_fibers_bytes"

/* ---- host_compile.c ---- */

int sl_host_compiler(struct sl_device *device, char *text, size_t size);
int sl_host_compiler_name(char *text, size_t size);
int sl_host_compile(struct sl_device *device, const struct sl_source *source, struct sl_code *code);

/* ---- host_errors.c ---- */

/* Makes a message of what the compiler wrote: the first error of the source, or what of it "host" cannot run. Returns
 * SLUICE_E_COMPILE, or SLUICE_E_INVALID for kernels that it does not know. */
int sl_host_compile_failed(const struct sl_source *source, const char *log, int status);

#endif
