/* SPDX-License-Identifier: MIT
 *
 * Kernels, as the text that the driver compiles for the GPU at hand; also for tests/gpu.
 */
#ifndef BENCH_GPU_KERNELS_H
#define BENCH_GPU_KERNELS_H

extern const char gpu_kernels[];

#endif
