/* SPDX-License-Identifier: MIT
 *
 * For tests of kernels from source, which NVRTC compiles: on the fake driver the stand-in for it (fake/nvrtc), on a GPU
 * the one that is found there, or the test is skipped.
 */
#ifndef GPU_KERNEL_KIT_H
#define GPU_KERNEL_KIT_H

#include <sluice/sluice.h>

#include "gpu/kit.h"

/* gpu_begin, a device, a stream of it, and no cache. */
struct kernel_test {
    struct sluice_device device;
    struct sluice_stream stream;
};
struct kernel_test kernel_test_begin(void);
void kernel_test_end(struct kernel_test *test);

/* A module named "fx.cu", compiled without contracting multiplications and additions. */
struct sluice_module kernel_source(const struct kernel_test *test, const char *text);
int kernel_source_load(const struct kernel_test *test, const char *text, struct sluice_module *module);

struct sluice_kernel kernel_of(struct sluice_module module, const char *name);

/* Launches it over so many threads. */
#define KERNEL_RUN(kernel, stream, threads, ...) \
    sluice_launch(kernel, stream, \
                  &(struct sluice_launch){ .size = sizeof(struct sluice_launch), .over = { threads } }, \
                  (struct sluice_argument[]){ __VA_ARGS__ }, \
                  sizeof((struct sluice_argument[]){ __VA_ARGS__ }) / sizeof(struct sluice_argument))

/* The kernels that most tests use. */
#define SAXPY \
    "__global__ void saxpy(float *y, const float *x, float a, unsigned n)\n" \
    "{\n" \
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n" \
    "    if (i < n)\n" \
    "        y[i] = a * x[i] + y[i];\n" \
    "}\n"
#define FILL \
    "__global__ void set(unsigned *words, unsigned value, unsigned n)\n" \
    "{\n" \
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n" \
    "    if (i < n)\n" \
    "        words[i] = value;\n" \
    "}\n"

#endif
