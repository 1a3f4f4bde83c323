/* SPDX-License-Identifier: MIT
 *
 * Kernels, as the text that the driver compiles for the GPU at hand; also for tests/gpu. `fill` and `check` of them
 * also as CUDA C++.
 */
#ifndef BENCH_GPU_KERNELS_H
#define BENCH_GPU_KERNELS_H

extern const char gpu_kernels[];
extern const char gpu_source[];

/* For the jobs of kernels, the same in both programs. */
#define KERNEL_BYTES   4096
#define GRAPH_LAUNCHES 10
#define FORK_STREAMS   4
#define UNLOAD_GAP     (INT64_C(1000) * 1000) /* ns */

#endif
