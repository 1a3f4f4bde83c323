/* SPDX-License-Identifier: MIT
 *
 * Host arrays as arguments: copied to the GPU before the kernel and back after it, all on the launch's stream. On host
 * they are used in place.
 */
#include <inttypes.h>

#include "kernel/launch.h"
#include "util/result.h"

static const struct sl_kernel_ops *ops_of(const struct sl_launching *launching)
{
    return sl_kernel_kind(launching->kernel->object.device);
}

static bool is_host(const struct sl_launching *launching, uint32_t at)
{
    return launching->arguments[at].given->kind == SLUICE_ARGUMENT_HOST;
}

/* ---- which there are ---- */

static bool overlaps(const struct sl_staged *a, const struct sl_staged *b)
{
    return (uintptr_t)a->host < (uintptr_t)b->host + b->bytes && (uintptr_t)b->host < (uintptr_t)a->host + a->bytes;
}

static struct sl_staged staged_of(const struct sl_launching *launching, uint32_t at)
{
    const struct sl_kernel *kernel = launching->kernel;
    const struct sluice_argument *given = launching->arguments[at].given;
    bool constant = kernel->count != UINT32_MAX && kernel->parameters[at].constant;

    return (struct sl_staged){
        .host = (void *)given->data,
        .bytes = given->bytes,
        .in = given->access != SLUICE_ACCESS_OUT,
        .out = given->access == SLUICE_ACCESS_OUT || given->access == SLUICE_ACCESS_INOUT ||
               (given->access == SLUICE_ACCESS_DEFAULT && !constant),
    };
}

/* The same memory twice is copied once. */
static int add(const struct sl_launching *launching, struct sl_stage *stage, const struct sl_staged *array, uint32_t at)
{
    for (uint32_t i = 0; i < stage->count; i++) {
        struct sl_staged *other = &stage->arrays[i];
        if (other->host == array->host && other->bytes == array->bytes) {
            other->in = other->in || array->in;
            other->out = other->out || array->out;
            return 0;
        }
        if (overlaps(other, array))
            return sl_fail(SLUICE_E_INVALID,
                           "kernel '%s' (%s): the host array of parameter %" PRIu32
                           " overlaps another one; pass the same memory, or separate arrays",
                           launching->kernel->name, launching->kernel->module->name, at + 1);
    }
    stage->arrays[stage->count++] = *array;
    return 0;
}

int sl_stage_check(const struct sl_launching *launching, struct sl_stage *stage)
{
    const struct sl_kernel_ops *ops = ops_of(launching);
    int r = sl_stream_not_capturing(launching->stream, "host arrays cannot be copied");

    stage->count = 0;
    for (uint32_t i = 0; i < launching->call.count && r == 0; i++) {
        if (!is_host(launching, i))
            continue;
        struct sl_staged array = staged_of(launching, i);
        r = add(launching, stage, &array, i);
    }
    if (!ops->is_pinned)
        stage->count = 0;
    for (uint32_t i = 0; i < stage->count && r == 0; i++)
        stage->arrays[i].pinned =
            ops->is_pinned(launching->kernel->object.device, stage->arrays[i].host, stage->arrays[i].bytes);
    return r;
}

/* ---- before and after ---- */

static void use(struct sl_launching *launching, const struct sl_staged *array)
{
    for (uint32_t i = 0; i < launching->call.count; i++)
        if (is_host(launching, i) && launching->arguments[i].given->data == array->host)
            launching->slots[i].pointer = array->device;
}

int sl_stage_before(struct sl_launching *launching, struct sl_stage *stage)
{
    const struct sl_kernel_ops *ops = ops_of(launching);
    int r = 0;

    for (uint32_t i = 0; i < stage->count && r == 0; i++) {
        struct sl_staged *array = &stage->arrays[i];
        if ((r = ops->memory_alloc(launching->stream, array->bytes, &array->device)) != 0)
            break;
        use(launching, array);
        if (array->in)
            r = ops->copy_in(launching->stream, array->device, array->host, array->bytes);
    }
    return r;
}

/* Frees and waits even if something fails, and reports the first failure. */
int sl_stage_after(struct sl_launching *launching, struct sl_stage *stage, int result)
{
    const struct sl_kernel_ops *ops = ops_of(launching);
    bool wait = result != 0;
    int r;

    for (uint32_t i = 0; i < stage->count && result == 0; i++) {
        struct sl_staged *array = &stage->arrays[i];
        wait = wait || !array->pinned;
        if (array->out)
            result = ops->copy_out(launching->stream, array->host, array->device, array->bytes);
    }
    for (uint32_t i = 0; i < stage->count; i++) {
        if (!stage->arrays[i].device)
            continue;
        r = ops->memory_free(launching->kernel->object.device, launching->stream, stage->arrays[i].device);
        result = result ? result : r;
    }
    if (wait && stage->count > 0) {
        r = launching->stream->object.device->ops->stream_synchronize(launching->stream);
        result = result ? result : r;
        sl_stream_add_host_wait(sl_object_id(&launching->stream->object));
    }
    return result;
}
