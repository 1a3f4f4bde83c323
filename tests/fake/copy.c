/* SPDX-License-Identifier: MIT
 *
 * Copies.
 */
#include "fake/internal.h"

static size_t span(size_t width, size_t rows, size_t pitch)
{
    return rows ? (rows - 1) * pitch + width : 0;
}

void *fake_copy_end(const struct op *op, int device, bool writing)
{
    uint64_t address = writing ? op->address : op->target;
    size_t size = span(op->size, op->rows, writing ? op->address_pitch : op->target_pitch);
    const struct sl_cu_context *context = writing ? op->to : op->from;
    struct fake_range *range = fake_range_at(address);

    if (writing ? op->address_loose : op->target_loose)
        return (void *)(uintptr_t)address;
    if (range && (range->kind == FAKE_ALLOCATED || range->kind == FAKE_OPENED))
        device = range->device;
    else if (context)
        device = context->device;
    return fake_see(device, address, size, writing);
}

/* Is it host memory that no GPU knows of? */
static bool loose(uint64_t address)
{
    return !fake_range_at(address);
}

/* Is it host memory, whether a GPU knows of it or not? */
static bool of_host(uint64_t address)
{
    const struct fake_range *range = fake_range_at(address);

    return !range || range->kind == FAKE_REGISTERED || range->kind == FAKE_PINNED;
}

/* Pageable memory is copied while the caller waits, after everything that was queued before; so is any host memory into
 * other such memory (measured on an H200). The library says by the relaxed mode that it means to wait. */
static int wait_for(struct sl_cu_stream *stream)
{
    bool expected = fake_thread.function == FAKE_MemcpyHtoDAsync || fake_thread.function == FAKE_MemcpyDtoHAsync;

    if (!expected || fake_thread.mode != SL_CU_CAPTURE_MODE_RELAXED)
        fake_break_rule("of memory that is not pinned, or from the host's to the host's: that waits for the stream");
    return stream->capture ? 0 : fake_wait(stream, stream->last_id);
}

/* Can it be done? */
static int check(struct op *op, bool to_host, bool from_host, int device)
{
    op->kind = OP_COPY;
    op->address_loose = to_host && loose(op->address);
    op->target_loose = from_host && loose(op->target);
    return fake_copy_end(op, device, true) && fake_copy_end(op, device, false) ? SL_CU_OK : SL_CU_INVALID_VALUE;
}

/* `to_host` and `from_host`: that side may be memory which no GPU knows of. */
static int copy(struct op *op, bool to_host, bool from_host, struct sl_cu_stream *handle)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (!stream || op->size == 0 || op->rows == 0)
        goto done;
    code = check(op, to_host, from_host, stream->context->device);
    if (code == 0)
        code = fake_queue(stream, op);
    if (code == 0 && (op->address_loose || op->target_loose || (of_host(op->address) && of_host(op->target))))
        code = wait_for(stream);
done:
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static struct op row(uint64_t to, uint64_t from, size_t size, int to_type, int from_type)
{
    return (struct op){ .address = to,
                        .target = from,
                        .size = size,
                        .rows = 1,
                        .address_pitch = size,
                        .target_pitch = size,
                        .to_type = to_type,
                        .from_type = from_type };
}

int fake_cuMemcpyHtoDAsync(uint64_t to, const void *from, size_t size, struct sl_cu_stream *stream)
{
    struct op op = row(to, (uintptr_t)from, size, SL_CU_MEMORY_DEVICE, SL_CU_MEMORY_HOST);

    return copy(&op, false, true, stream);
}

int fake_cuMemcpyDtoHAsync(void *to, uint64_t from, size_t size, struct sl_cu_stream *stream)
{
    struct op op = row((uintptr_t)to, from, size, SL_CU_MEMORY_HOST, SL_CU_MEMORY_DEVICE);

    return copy(&op, true, false, stream);
}

int fake_cuMemcpyDtoDAsync(uint64_t to, uint64_t from, size_t size, struct sl_cu_stream *stream)
{
    struct op op = row(to, from, size, SL_CU_MEMORY_DEVICE, SL_CU_MEMORY_DEVICE);

    return copy(&op, false, false, stream);
}

int fake_cuMemcpyAsync(uint64_t to, uint64_t from, size_t size, struct sl_cu_stream *stream)
{
    struct op op = row(to, from, size, SL_CU_MEMORY_UNIFIED, SL_CU_MEMORY_UNIFIED);

    return copy(&op, true, true, stream);
}

int fake_cuMemcpyPeerAsync(uint64_t to, struct sl_cu_context *to_context, uint64_t from,
                           struct sl_cu_context *from_context, size_t size, struct sl_cu_stream *stream)
{
    struct op op = row(to, from, size, SL_CU_MEMORY_DEVICE, SL_CU_MEMORY_DEVICE);

    if (!to_context || !from_context)
        return SL_CU_INVALID_CONTEXT;
    op.to = to_context;
    op.from = from_context;
    return copy(&op, false, false, stream);
}

/* One side of a 2D copy: where it begins, and whether it may be host memory. False if it is not valid. */
static bool side(int type, const void *host, uint64_t device, size_t x, size_t y, size_t pitch, uint64_t *address,
                 bool *of_host)
{
    *of_host = type != SL_CU_MEMORY_DEVICE;
    *address = (type == SL_CU_MEMORY_HOST ? (uintptr_t)host : device) + y * pitch + x;
    return type == SL_CU_MEMORY_HOST || type == SL_CU_MEMORY_DEVICE || type == SL_CU_MEMORY_UNIFIED;
}

int fake_cuMemcpy2DAsync(const struct sl_cu_copy_2d *c, struct sl_cu_stream *stream)
{
    size_t to_pitch = c->to_pitch ? c->to_pitch : c->width;
    size_t from_pitch = c->from_pitch ? c->from_pitch : c->width;
    struct op op = { .size = c->width,
                     .rows = c->height,
                     .address_pitch = to_pitch,
                     .target_pitch = from_pitch,
                     .to_type = c->to_type,
                     .from_type = c->from_type };
    bool to_host, from_host;

    if (!side(c->to_type, c->to_host, c->to_device, c->to_x, c->to_y, to_pitch, &op.address, &to_host) ||
        !side(c->from_type, c->from_host, c->from_device, c->from_x, c->from_y, from_pitch, &op.target, &from_host) ||
        c->width + c->to_x > to_pitch || c->width + c->from_x > from_pitch)
        return SL_CU_INVALID_VALUE;
    return copy(&op, to_host, from_host, stream);
}

static bool of_gpu(int type)
{
    return type == SL_CU_MEMORY_DEVICE || type == SL_CU_MEMORY_UNIFIED;
}

/* Between two addresses of GPU memory, in rows; layers are not used here. */
int fake_copy_3d(const struct sl_cu_copy_3d *c, int device, struct op *op)
{
    size_t to_pitch = c->to_pitch ? c->to_pitch : c->width;
    size_t from_pitch = c->from_pitch ? c->from_pitch : c->width;

    if (!of_gpu(c->to_type) || !of_gpu(c->from_type) || c->depth != 1 || c->height == 0 || c->width == 0 || c->to_x ||
        c->to_y || c->to_z || c->from_x || c->from_y || c->from_z || c->width > to_pitch || c->width > from_pitch)
        return SL_CU_INVALID_VALUE;
    *op = (struct op){ .address = c->to_device,
                       .target = c->from_device,
                       .size = c->width,
                       .rows = c->height,
                       .address_pitch = to_pitch,
                       .target_pitch = from_pitch,
                       .to_type = c->to_type,
                       .from_type = c->from_type };
    return check(op, false, false, device);
}

int fake_cuMemsetD8Async(uint64_t address, unsigned char value, size_t size, struct sl_cu_stream *handle)
{
    struct op op = { .kind = OP_CLEAR, .address = address, .value = value, .size = size };
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (stream && size && !fake_see(stream->context->device, address, size, true))
        code = SL_CU_INVALID_VALUE;
    if (code == 0 && size)
        code = fake_queue(stream, &op);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
