/* SPDX-License-Identifier: MIT
 *
 * See cuda_runtime_api.h. As CUDA's, it uses the first GPU's primary context, and makes it current on the thread.
 */
#include <cuda_runtime_api.h>

#include <stdint.h>

struct sl_cu_context;

/* The fake driver's functions, as the program itself calls them (tests/fake/fake.h). */
int test_cuDevicePrimaryCtxRetain(struct sl_cu_context **context, int device);
int test_cuCtxSetCurrent(struct sl_cu_context *context);
int test_cuMemHostAlloc(void **memory, size_t size, unsigned flags);
int test_cuMemFreeHost(void *memory);
int test_cuMemsetD8Async(uint64_t address, unsigned char value, size_t size, cudaStream_t stream);
int test_cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, cudaStream_t stream);
int test_cuStreamSynchronize(cudaStream_t stream);

static int use(void)
{
    static _Thread_local struct sl_cu_context *context;
    int code = context ? 0 : test_cuDevicePrimaryCtxRetain(&context, 0);

    return code ? code : test_cuCtxSetCurrent(context);
}

cudaError_t cudaMallocHost(void **memory, size_t size)
{
    int code = use();
    return code ? code : test_cuMemHostAlloc(memory, size, 0);
}

cudaError_t cudaFreeHost(void *memory)
{
    int code = use();
    return code ? code : test_cuMemFreeHost(memory);
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t size, cudaStream_t stream)
{
    int code = use();
    return code ? code : test_cuMemsetD8Async((uintptr_t)memory, (unsigned char)value, size, stream);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, cudaStream_t stream)
{
    int code = use();
    if (code == 0 && kind != cudaMemcpyDeviceToHost)
        code = 1;
    return code ? code : test_cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, size, stream);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    int code = use();
    return code ? code : test_cuStreamSynchronize(stream);
}
