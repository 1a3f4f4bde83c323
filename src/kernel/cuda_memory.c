/* SPDX-License-Identifier: MIT
 *
 * Memory of a GPU in the order of a stream, and copies between it and host memory.
 */
#include "kernel/cuda.h"

#include <stdlib.h>

#include "util/result.h"

static struct sl_cu_stream *native_of(const struct sl_stream *stream)
{
    return (struct sl_cu_stream *)stream->native;
}

/* Refuses a stream that captures: the call would invalidate the capture. */
static int check_capture(struct sl_cuda_context *context, struct sl_stream *stream)
{
    enum sl_cuda_capture state;

    if (sl_cuda_is_not_capturing(native_of(stream)))
        return 0;
    int r = sl_cuda_capture(context, native_of(stream), &state, NULL);
    if (r != 0 || state == SL_CUDA_CAPTURE_NONE)
        return r;
    return sl_fail(SLUICE_E_CAPTURING, "%s: %s", context->name, sl_cuda_code_remedy(SL_CU_CAPTURE_UNSUPPORTED));
}

/* Makes the context current for calls on the stream, in the relaxed capture mode. In another mode even a stream-ordered
 * allocation invalidates another thread's global capture (measured, driver 580), and copies of pageable memory wait. */
static int enter(struct sl_stream *stream, struct sl_cuda_scope *scope)
{
    struct sl_cuda_context *context = stream->object.device->state;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, scope);

    if (r == 0 && (r = check_capture(context, stream)) != 0)
        sl_cuda_leave(scope);
    return r;
}

/* ---- allocation ---- */

static bool has_pools(struct sl_cuda_context *context)
{
    int has = 0;

    return sl_cuda.DeviceGetAttribute(&has, SL_CU_MEMORY_POOLS, context->device) == SL_CU_OK && has;
}

int sl_cuda_scratch_alloc(struct sl_stream *stream, size_t bytes, void **memory)
{
    struct sl_cuda_context *context = stream->object.device->state;
    bool pools = has_pools(context);
    struct sl_cuda_scope scope;
    uint64_t address;

    int r = enter(stream, &scope);
    if (r != 0)
        return r;
    if (pools)
        r = sl_cu(context, MemAllocAsync, &address, bytes, native_of(stream));
    else
        r = sl_cu(context, MemAlloc, &address, bytes);
    sl_cuda_leave(&scope);
    if (r == 0)
        *memory = (void *)(uintptr_t)address;
    return r;
}

struct freeing {
    struct sl_device *device; /* a reference */
    uint64_t address;
};

/* Waits for all work in the context. */
static void free_now(struct sl_device *device, uint64_t address)
{
    struct sl_cuda_context *context = device->state;
    struct sl_cuda_scope scope;

    if (sl_cuda_enter(context, SL_CUDA_RELAXED, &scope) != 0)
        return; /* it ended with the context */
    if (sl_cu(context, MemFree, address) != 0)
        sl_log(SLUICE_LOG_WARN, "memory for kernels could not be freed: %s", sl_last_error());
    sl_cuda_leave(&scope);
}

static void free_in_background(void *argument)
{
    struct freeing *freeing = argument;

    free_now(freeing->device, freeing->address);
    sl_object_drop(&freeing->device->object);
    free(freeing);
}

/* After everything that is queued so far. */
static void free_apart(struct sl_device *device, uint64_t address)
{
    struct freeing *freeing = malloc(sizeof *freeing);

    if (!freeing) {
        free_now(device, address);
        return;
    }
    *freeing = (struct freeing){ device, address };
    sl_object_keep(&device->object);
    sl_background_run(free_in_background, freeing);
}

int sl_cuda_scratch_free(struct sl_device *device, struct sl_stream *stream, void *memory)
{
    struct sl_cuda_context *context = device->state;
    uint64_t address = (uintptr_t)memory;
    struct sl_cuda_scope scope;

    if (!stream || !has_pools(context)) {
        free_apart(device, address);
        return 0;
    }
    int r = enter(stream, &scope);
    if (r != 0)
        return r;
    r = sl_cu(context, MemFreeAsync, address, native_of(stream));
    sl_cuda_leave(&scope);
    return r;
}

/* ---- copies ---- */

/* Both ends are in one buffer of pinned memory. */
bool sl_cuda_is_pinned(struct sl_device *device, const void *memory, size_t bytes)
{
    int attributes[] = { SL_CU_POINTER_MEMORY_TYPE, SL_CU_POINTER_BUFFER_ID };
    unsigned long long first = 0, last = 0;
    unsigned type = 0;
    struct sl_cuda_scope scope;

    if (sl_cuda_enter(device->state, SL_CUDA_PLAIN, &scope) != 0)
        return false;
    bool known = sl_cuda.PointerGetAttributes(2, attributes, (void *[]){ &type, &first }, (uintptr_t)memory) == 0 &&
                 type == SL_CU_MEMORY_HOST;
    known = known &&
            sl_cuda.PointerGetAttributes(2, attributes, (void *[]){ &type, &last }, (uintptr_t)memory + bytes - 1) == 0;
    sl_cuda_leave(&scope);
    return known && first == last;
}

/* The driver copies pageable memory of more than 64 KiB when the stream gets there, before the call returns. Meanwhile
 * other threads can launch (measured, driver 580). */
int sl_cuda_copy_in(struct sl_stream *stream, void *to, const void *from, size_t bytes)
{
    struct sl_cuda_scope scope;
    int r = enter(stream, &scope);

    if (r != 0)
        return r;
    r = sl_cu(stream->object.device->state, MemcpyHtoDAsync, (uintptr_t)to, from, bytes, native_of(stream));
    sl_cuda_leave(&scope);
    return r;
}

int sl_cuda_copy_out(struct sl_stream *stream, void *to, const void *from, size_t bytes)
{
    struct sl_cuda_scope scope;
    int r = enter(stream, &scope);

    if (r != 0)
        return r;
    r = sl_cu(stream->object.device->state, MemcpyDtoHAsync, to, (uintptr_t)from, bytes, native_of(stream));
    sl_cuda_leave(&scope);
    return r;
}
