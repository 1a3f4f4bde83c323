/* SPDX-License-Identifier: MIT
 *
 * What the documents' programs use of CUDA's runtime, for machines without it: runtime.c implements it on the fake
 * driver. A program built with it does nothing on a GPU.
 */
#ifndef CUDA_RUNTIME_API_H
#define CUDA_RUNTIME_API_H

#include <stddef.h>

typedef struct sl_cu_stream *cudaStream_t;
typedef int cudaError_t;

enum { cudaSuccess = 0, cudaMemcpyDeviceToHost = 2 };

cudaError_t cudaMallocHost(void **memory, size_t size);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t size, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);

#endif
