/* SPDX-License-Identifier: MIT
 *
 * Kernels, as the text that the driver compiles for the GPU at hand; also for bench/gpu.
 */
#ifndef GPU_KERNELS_H
#define GPU_KERNELS_H

extern const char gpu_kernels[];

#endif
