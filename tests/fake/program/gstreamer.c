/* SPDX-License-Identifier: MIT
 *
 * What GStreamer's CUDA library also looks for in the driver. Copies and memory are the fake GPU's; it has no graphics,
 * no textures and no limits, and says so.
 */
#include "fake/fake.h"

int test_cuGetErrorName(int code, const char **name);
int test_cuIpcOpenMemHandle_v2(uint64_t *address, struct sl_cu_memory_handle handle, unsigned flags);
int test_cuMemAlloc_v2(uint64_t *address, size_t size);
int test_cuMemHostAlloc(void **memory, size_t size, unsigned flags);
int test_cuMemcpy2DAsync_v2(const struct sl_cu_copy_2d *copy, struct sl_cu_stream *stream);
int test_cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, struct sl_cu_stream *stream);
int test_cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, struct sl_cu_stream *stream);
int test_cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, struct sl_cu_stream *stream);
int test_cuMemsetD8Async(uint64_t address, unsigned char value, size_t size, struct sl_cu_stream *stream);
int test_cuStreamCreateWithPriority(struct sl_cu_stream **stream, unsigned flags, int priority);
int test_cuStreamSynchronize(struct sl_cu_stream *stream);

#define PITCH 512

#define CALL(name, parameters) \
    FAKE_API int name parameters; \
    FAKE_API int name parameters

static int finish(int code)
{
    return code == SL_CU_OK ? test_cuStreamSynchronize(NULL) : code;
}

CALL(cuGetErrorString, (int code, const char **text))
{
    return test_cuGetErrorName(code, text);
}

CALL(cuIpcOpenMemHandle, (uint64_t * address, struct sl_cu_memory_handle handle, unsigned flags))
{
    return test_cuIpcOpenMemHandle_v2(address, handle, flags);
}

CALL(cuStreamCreate, (struct sl_cu_stream * *stream, unsigned flags))
{
    return test_cuStreamCreateWithPriority(stream, flags, 0);
}

CALL(cuMemAllocHost_v2, (void **memory, size_t size))
{
    return test_cuMemHostAlloc(memory, size, 0);
}

CALL(cuMemAllocPitch_v2, (uint64_t * address, size_t *pitch, size_t width, size_t rows, unsigned element))
{
    (void)element;
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    return test_cuMemAlloc_v2(address, *pitch * rows);
}

CALL(cuMemcpy2D_v2, (const struct sl_cu_copy_2d *copy))
{
    return finish(test_cuMemcpy2DAsync_v2(copy, NULL));
}

CALL(cuMemcpyDtoD_v2, (uint64_t to, uint64_t from, size_t size))
{
    return finish(test_cuMemcpyDtoDAsync_v2(to, from, size, NULL));
}

CALL(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t size))
{
    return finish(test_cuMemcpyDtoHAsync_v2(to, from, size, NULL));
}

CALL(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t size))
{
    return finish(test_cuMemcpyHtoDAsync_v2(to, from, size, NULL));
}

CALL(cuMemsetD2D8Async,
     (uint64_t address, size_t pitch, unsigned char value, size_t width, size_t rows, struct sl_cu_stream *stream))
{
    int code = SL_CU_OK;

    for (size_t row = 0; row < rows && code == SL_CU_OK; row++)
        code = test_cuMemsetD8Async(address + row * pitch, value, width, stream);
    return code;
}

CALL(cuMemsetD2D8_v2, (uint64_t address, size_t pitch, unsigned char value, size_t width, size_t rows))
{
    return finish(cuMemsetD2D8Async(address, pitch, value, width, rows, NULL));
}

#define MISSING(name) \
    CALL(name, (void)) \
    { \
        return SL_CU_NOT_SUPPORTED; \
    }
MISSING(cuCtxDisablePeerAccess)
MISSING(cuCtxGetLimit)
MISSING(cuCtxSetLimit)
MISSING(cuGLGetDevices_v2)
MISSING(cuGraphicsGLRegisterBuffer)
MISSING(cuGraphicsGLRegisterImage)
MISSING(cuGraphicsMapResources)
MISSING(cuGraphicsResourceGetMappedPointer_v2)
MISSING(cuGraphicsResourceSetMapFlags_v2)
MISSING(cuGraphicsSubResourceGetMappedArray)
MISSING(cuGraphicsUnmapResources)
MISSING(cuGraphicsUnregisterResource)
MISSING(cuMemsetD2D16Async)
MISSING(cuMemsetD2D16_v2)
MISSING(cuMemsetD2D32Async)
MISSING(cuMemsetD2D32_v2)
MISSING(cuTexObjectCreate)
MISSING(cuTexObjectDestroy)
