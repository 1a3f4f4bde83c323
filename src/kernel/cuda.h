/* SPDX-License-Identifier: MIT
 *
 * Kernels on GPUs, for the files cuda*.c.
 */
#ifndef SL_KERNEL_CUDA_H
#define SL_KERNEL_CUDA_H

#include "cuda/cuda.h"
#include "kernel/kernel.h"

/* ---- cuda_compile.c ---- */
int sl_cuda_compiler(struct sl_device *device, char *text, size_t size);
int sl_cuda_compiler_name(char *text, size_t size);
int sl_cuda_compile(struct sl_device *device, const struct sl_source *source, struct sl_code *code);

/* ---- cuda_image.c ---- */

/* Refuses bytes with which the driver might read past their end or crash, as it is not given their size. `own`: our
 * compiler made them. Returns SLUICE_E_INVALID. */
int sl_cuda_image_check(const char *name, const void *bytes, size_t size, bool own);

/* ---- cuda_memory.c ---- */
int sl_cuda_scratch_alloc(struct sl_stream *stream, size_t bytes, void **memory);
int sl_cuda_scratch_free(struct sl_device *device, struct sl_stream *stream, void *memory);
bool sl_cuda_is_pinned(struct sl_device *device, const void *memory, size_t bytes);
int sl_cuda_copy_in(struct sl_stream *stream, void *to, const void *from, size_t bytes);
int sl_cuda_copy_out(struct sl_stream *stream, void *to, const void *from, size_t bytes);

#endif
