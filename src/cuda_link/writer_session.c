/* SPDX-License-Identifier: MIT
 *
 * The sessions of a writer: a new one for another format, another number of slots, or an array of another size.
 */
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "format/format.h"
#include "util/result.h"

#define FREE_TIMEOUT (500 * SLUICE_MS) /* how long a session that cannot be made waits for memory to be freed */

void sl_cipd_writer_retire(struct sl_cipd_writer *writer, struct sl_cipd_pool *pool, int64_t grace_ns)
{
    for (uint32_t i = 0; pool && i < pool->count; i++)
        sl_copier_forget(&writer->copier, (void *)(uintptr_t)pool->slots[i].address, pool->bytes);
    sl_cipd_free_queue_add(writer->free_queue, pool, grace_ns);
}

int sl_cipd_writer_session(struct sl_cipd_writer *writer, const struct sluice_format *format, uint32_t slots)
{
    struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS];
    struct sl_cipd_metadata metadata;
    struct sl_cipd_pool *pool, *old = writer->pool;
    int r = sl_cipd_format_of(writer->base.name, format, &writer->params, &metadata);

    if (r != 0)
        return r;
    r = sl_cipd_pool_make(writer->free_queue, writer->base.name, writer->device, slots, metadata.bytes, handles, &pool);
    if (r != 0) {
        (void)sl_cipd_free_queue_wait(writer->free_queue, FREE_TIMEOUT); /* so that a smaller session finds room */
        return r;
    }
    sl_service_lock(); /* locked first, as in `tick` */
    sl_mutex_lock(&writer->lock);
    r = old ? sl_cipd_write_refresh(&writer->producer) : 0; /* is the segment still ours? */
    if (r >= 0)
        r = sl_cipd_write_begin(&writer->producer, slots, handles, &metadata);
    if (r == 0) {
        writer->pool = pool;
        writer->pool_in_use = false;
        writer->finished = 0;
        writer->slots = slots;
        writer->format = *format;
        writer->metadata = metadata;
        writer->generation++;
    }
    sl_mutex_unlock(&writer->lock);
    sl_service_unlock();
    if (r != 0) {
        sl_cipd_free_queue_add(writer->free_queue, pool, 0);
        return r;
    }
    memset(&writer->geometry, 0, sizeof writer->geometry);
    sl_geometry_from_array(&writer->geometry, &format->arrays[0]);
    writer->reshaped = false;
    sl_cipd_writer_retire(writer, old, writer->params.close_grace_ns);
    return 0;
}

/* ---- for another format or number of slots ---- */

int sl_cipd_reformat(struct sluice_writer *base, const struct sluice_format *format)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);

    if (writer->token)
        return sl_fail(SLUICE_E_BUSY,
                       "channel 'cipd:%s': a frame is begun: commit or cancel it before the format changes",
                       writer->base.name);
    int r = sl_cipd_writer_session(writer, format, writer->slots);
    return r < 0 ? sl_format_refused(r, format) : r;
}

int sl_cipd_writer_renew(struct sl_cipd_writer *writer, uint32_t slots)
{
    struct sluice_format format = writer->format; /* which is written to */

    return sl_cipd_writer_session(writer, &format, slots);
}

int sl_cipd_writer_set_slots(struct sl_cipd_writer *writer, uint32_t slots)
{
    if (slots < 1 || slots > SLUICE_CIPD_MAX_SLOTS)
        return sl_fail(SLUICE_E_LIMIT, "channel 'cipd:%s': %u slots, the protocol has 1 to %d", writer->base.name,
                       slots, SLUICE_CIPD_MAX_SLOTS);
    if (writer->token)
        return sl_fail(SLUICE_E_BUSY,
                       "channel 'cipd:%s': a frame is begun: commit or cancel it before the slots change",
                       writer->base.name);
    return slots == writer->slots ? 0 : sl_cipd_writer_renew(writer, slots);
}

/* ---- for another array ---- */

static bool same_shape(const struct sluice_array *a, const struct sluice_array *b)
{
    uint32_t one[3], other[3];

    return sl_cipd_shape(a, one) && sl_cipd_shape(b, other) && memcmp(one, other, sizeof one) == 0;
}

static int another_type(const struct sl_cipd_writer *writer, const struct sluice_array *array,
                        const struct sluice_array *mine)
{
    char sent[SLUICE_DTYPE_TEXT] = "?", has[SLUICE_DTYPE_TEXT] = "?";

    (void)sl_dtype_format(array->dtype, sent, sizeof sent);
    (void)sl_dtype_format(mine->dtype, has, sizeof has);
    return sl_fail(SLUICE_E_FORMAT,
                   "channel 'cipd:%s': array '%s' is of data type %s, and the channel's is %s: sluice_writer_reformat "
                   "changes that",
                   writer->base.name, mine->name, sent,
                   has); /* by the channel's name, as the program's array may have none */
}

int sl_cipd_writer_fit_array(struct sl_cipd_writer *writer, const struct sluice_array *array)
{
    const struct sluice_array *mine = &writer->format.arrays[0];
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int r;

    if (!sl_dtype_equal(array->dtype, mine->dtype))
        return another_type(writer, array, mine);
    if (same_shape(array, mine))
        return 0;
    if ((r = sl_format_check_sent(&writer->format, array, 0, writer->resize)) != 0)
        return r;
    if (mine->image.pixel_format)
        r = sl_format_add_image(&format, mine->name, (enum sluice_pixel_format)mine->image.pixel_format,
                                (uint32_t)array->shape[1], (uint32_t)array->shape[0]);
    else
        r = sl_format_add_tensor(&format, mine->name, array->dtype, array->ndim, array->shape);
    if (r == 0 && (r = sl_format_complete(&format)) == 0)
        r = sl_cipd_reformat(&writer->base, &format);
    if (r == 0 && !same_shape(array, &writer->format.arrays[0]))
        r = sl_fail(SLUICE_E_FORMAT, "channel 'cipd:%s': array '%s' is no frame of this channel", writer->base.name,
                    mine->name);
    return r;
}
