/* SPDX-License-Identifier: MIT
 *
 * Opens and closes a writer of cuda-link's protocol, and begins its sessions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "format/format.h"
#include "util/result.h"

#define TEND (500 * SLUICE_MS)
#define CLOSE_PATIENCE SLUICE_S /* how long to wait for work on its slots */
#define FREE_PATIENCE (500 * SLUICE_MS) /* how long close waits for memory to be freed */

/* ---- sessions ---- */

/* Frees a pool after `grace_ns`, and at once the copier's graphs that copy into it. */
static void retire(struct sl_cipd_writer *writer, struct sl_cipd_pool *pool, int64_t grace_ns)
{
    for (uint32_t i = 0; pool && i < pool->count; i++)
        sl_copier_forget(&writer->copier, (void *)(uintptr_t)pool->slots[i].address, pool->bytes);
    sl_cipd_bin_put(writer->bin, pool, grace_ns);
}

int sl_cipd_writer_session(struct sl_cipd_writer *writer, const struct sluice_format *format, uint32_t slots)
{
    struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS];
    struct sl_cipd_metadata metadata;
    struct sl_cipd_pool *pool, *old = writer->pool;
    int r = sl_cipd_format_of(writer->base.name, format, &writer->params, &metadata);

    if (r != 0)
        return r;
    r = sl_cipd_pool_make(writer->bin, writer->base.name, writer->device, slots, metadata.bytes, handles, &pool);
    if (r != 0) {
        (void)sl_cipd_bin_wait(writer->bin, FREE_PATIENCE); /* so that a smaller session finds room */
        return r;
    }
    sl_service_lock(); /* locked first, as in `tend` */
    sl_mutex_lock(&writer->lock);
    r = old ? sl_cipd_produce_tend(&writer->producer) : 0; /* is the segment still ours? */
    if (r >= 0)
        r = sl_cipd_produce_begin(&writer->producer, slots, handles, &metadata);
    if (r == 0) {
        writer->pool = pool;
        writer->spoilt = false;
        writer->finished = 0;
        writer->slots = slots;
        writer->format = *format;
        writer->metadata = metadata;
        writer->generation++;
    }
    sl_mutex_unlock(&writer->lock);
    sl_service_unlock();
    if (r != 0) {
        sl_cipd_bin_put(writer->bin, pool, 0);
        return r;
    }
    memset(&writer->geometry, 0, sizeof writer->geometry);
    sl_geometry_from_array(&writer->geometry, &format->arrays[0]);
    writer->reshaped = false;
    retire(writer, old, writer->params.close_grace_ns);
    return 0;
}

/* ---- now and then ---- */

/* On the service thread, under its lock. */
static void tend(struct sl_watch *watch)
{
    struct sl_cipd_writer *writer = (struct sl_cipd_writer *)((char *)watch - offsetof(struct sl_cipd_writer, tender));

    sl_mutex_lock(&writer->lock);
    int r = sl_cipd_produce_tend(&writer->producer);
    if (r == 1) {
        writer->relinked++;
        sl_log(SLUICE_LOG_INFO, "channel 'cipd:%s': another program took its segment's name away; it was given back", writer->base.name);
    } else if (r < 0 && writer->tended == 0) {
        snprintf(writer->tended_text, sizeof writer->tended_text, "%s", sl_last_error());
        sl_log(SLUICE_LOG_ERROR, "channel 'cipd:%s': %s", writer->base.name, writer->tended_text);
    }
    writer->tended = r < 0 ? r : 0;
    sl_store(&writer->troubled, r < 0, release);
    if (writer->holds)
        sl_cipd_barrier_tend(&writer->holder);
    sl_mutex_unlock(&writer->lock);
    sl_service_set_deadline(watch, sl_os_deadline(TEND));
}

int sl_cipd_writer_trouble(struct sl_cipd_writer *writer)
{
    char text[sizeof writer->tended_text];

    sl_mutex_lock(&writer->lock);
    int r = writer->tended;
    memcpy(text, writer->tended_text, sizeof text);
    sl_mutex_unlock(&writer->lock);
    return r != 0 ? sl_fail_text(r, text) : 0;
}

static int begin_tending(struct sl_cipd_writer *writer)
{
    writer->tender = (struct sl_watch){ .fd = -1, .timer = tend, .deadline = sl_os_deadline(TEND) };
    sl_service_lock();
    int r = sl_service_add(&writer->tender);
    sl_service_unlock();
    return r;
}

/* ---- parts of opening ---- */

void sl_cipd_writer_heed(struct sl_cipd_writer *writer)
{
    writer->checks = writer->params.barrier != SLUICE_CIPD_OFF && !(writer->holds && writer->holder.held);
}

static int begin_barriers(struct sl_cipd_writer *writer)
{
    const char *name = writer->barrier_name[0] ? writer->barrier_name : NULL;
    int r;

    sl_cipd_writer_heed(writer);
    if (writer->checks) {
        if ((r = sl_cipd_barrier_init(&writer->checker, name)) != 0)
            return r;
        writer->checker.stale_ns = writer->params.barrier_stale_ns;
        if (sl_cipd_names_join(&writer->watched, writer->checker.name))
            writer->checker.changes = &writer->watched.changes;
    }
    if (!writer->params.holds_barrier)
        return 0;
    if ((r = sl_cipd_barrier_init(&writer->holder, name)) != 0)
        return r;
    writer->holder.settle = writer->params.settle_frames;
    writer->holds = true;
    if (sl_cipd_barrier_enter(&writer->holder, sl_os_now()) != 0)
        sl_log(SLUICE_LOG_WARN, "channel 'cipd:%s': the barrier stays down: %s", writer->base.name, sl_last_error());
    sl_cipd_writer_heed(writer);
    return 0;
}

static int begin_copying(struct sl_cipd_writer *writer)
{
    writer->copier = (struct sl_copier){ .graph = writer->params.graph == SLUICE_CIPD_ON,
                                         .hurried = writer->params.priority != SLUICE_CIPD_OFF };
    return sl_copier_open_so(&writer->copier, writer->device, writer->base.name);
}

static int open_channel(struct sl_cipd_writer *writer, const struct sluice_format *format)
{
    int r = sl_cuda_context_open(writer->device, &writer->context);

    if (r != 0 || (r = sl_cipd_bin_make(writer->base.name, &writer->bin)) != 0 ||
        (r = sl_cipd_produce_open(&writer->producer, writer->base.name)) != 0)
        return r;
    writer->open = true;
    memcpy(writer->producer.gpu, writer->context->uuid, sizeof writer->producer.gpu);
    writer->producer.silent = writer->params.doorbell == SLUICE_CIPD_OFF;
    if ((r = begin_barriers(writer)) != 0 || (r = begin_copying(writer)) != 0 ||
        (r = sl_cipd_writer_session(writer, format, writer->slots)) != 0)
        return r;
    if (writer->holds)
        sl_cipd_barrier_settle(&writer->holder, sl_os_now());
    sl_cipd_writer_heed(writer);
    return begin_tending(writer);
}

static int check_device(const char *name, const char *device)
{
    const struct sl_device_ops *kind = device ? sl_device_kind(device) : NULL;

    if (kind == &sl_device_cuda)
        return 0;
    return sl_fail(SLUICE_E_UNSUPPORTED,
                   "channel 'cipd:%s': cuda-link's protocol hands over memory of a GPU alone, not of \"%.60s\": say \"cuda:0\", "
                   "or use a channel without \"cipd:\"",
                   name, device ? device : "host");
}

/* ---- close ---- */

static void end_barriers(struct sl_cipd_writer *writer)
{
    if (writer->holds)
        sl_cipd_barrier_finish(&writer->holder, sl_os_now());
    if (writer->params.barrier != SLUICE_CIPD_OFF && writer->checker.name[0])
        sl_cipd_barrier_finish(&writer->checker, sl_os_now());
    if (writer->checker.changes)
        sl_cipd_names_leave(&writer->watched);
}

/* Keeps the error message of a failed open. */
static void finish(struct sl_object *object)
{
    struct sl_cipd_writer *writer = (struct sl_cipd_writer *)object;
    char why[640];

    snprintf(why, sizeof why, "%s", sl_last_error());
    sl_service_lock();
    sl_service_remove(&writer->tender);
    sl_service_unlock();
    if (writer->open)
        sl_cipd_produce_shut(&writer->producer);
    bool working = writer->context && sl_cuda_alive(writer->context) == 0 && !sl_cipd_drain(writer, CLOSE_PATIENCE);
    end_barriers(writer);
    if (writer->pool) {
        sl_os_sleep(writer->params.close_grace_ns);
        sl_cipd_produce_free(&writer->producer);
    }
    retire(writer, writer->pool, 0);
    (void)sl_copier_close(&writer->copier, working);
    uint32_t left = 0;
    if (writer->bin) {
        left = sl_cipd_bin_wait(writer->bin, FREE_PATIENCE);
        if (left)
            sl_log(SLUICE_LOG_WARN, "channel 'cipd:%s': the memory of %u sessions could not be given back in time: it goes when "
                   "that is possible, or the process ends",
                   writer->base.name, left);
        sl_cipd_bin_leave(writer->bin);
    }
    if (writer->open)
        sl_cipd_produce_close(&writer->producer);
    if (!working) /* otherwise freeing could wait for that work; pools have references of their own */
        sl_cuda_context_close(writer->context);
    sl_mutex_finish(&writer->lock);
    sl_apart_await(writer->base.name);
    sl_trace_close();
    sl_fail_text(0, why);
}

/* ---- opening ---- */

int sl_cipd_writer_open(struct sluice_writer *base, const struct sluice_writer_params *params)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);
    struct sluice_format format;
    int r;

    sl_mutex_init(&writer->lock);
    writer->producer = (struct sl_cipd_producer)SL_CIPD_PRODUCER_INIT;
    base->object.finish = finish;
    if ((r = sl_cipd_writer_params(base->name, params, &writer->params, &writer->slots)) != 0 ||
        (r = check_device(base->name, params->device)) != 0 || (r = sl_format_load(&format, params->format)) != 0)
        return r;
    writer->wait_ns = params->wait_ns ? params->wait_ns : SLUICE_S;
    writer->session = sl_os_random();
    snprintf(writer->device, sizeof writer->device, "%s", params->device);
    if (writer->params.barrier_name)
        snprintf(writer->barrier_name, sizeof writer->barrier_name, "%s", writer->params.barrier_name);
    writer->params.barrier_name = NULL;
    return open_channel(writer, &format);
}

/* ---- format, stats ---- */

int sl_cipd_reformat(struct sluice_writer *base, const struct sluice_format *format)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);

    if (writer->token)
        return sl_fail(SLUICE_E_BUSY, "channel 'cipd:%s': a frame is begun: commit or cancel it before the format changes",
                       writer->base.name);
    int r = sl_cipd_writer_session(writer, format, writer->slots);
    return r < 0 ? sl_format_refused(r, format) : r;
}

int sl_cipd_writer_renew(struct sl_cipd_writer *writer, uint32_t slots)
{
    struct sluice_format format = writer->format; /* which is written to */

    return sl_cipd_writer_session(writer, &format, slots);
}

static bool same_shape(const struct sluice_array *a, const struct sluice_array *b)
{
    uint32_t one[3], other[3];

    return sl_cipd_shape(a, one) && sl_cipd_shape(b, other) && memcmp(one, other, sizeof one) == 0;
}

static int another_type(const struct sl_cipd_writer *writer, const struct sluice_array *array, const struct sluice_array *mine)
{
    char sent[SLUICE_DTYPE_TEXT] = "?", has[SLUICE_DTYPE_TEXT] = "?";

    (void)sl_dtype_format(array->dtype, sent, sizeof sent);
    (void)sl_dtype_format(mine->dtype, has, sizeof has);
    return sl_fail(SLUICE_E_FORMAT,
                   "channel 'cipd:%s': array '%s' is of data type %s, and the channel's is %s: sluice_writer_reformat changes that",
                   writer->base.name, mine->name, sent, has); /* by the channel's name, as the program's array may have none */
}

int sl_cipd_make_room(struct sl_cipd_writer *writer, const struct sluice_array *array)
{
    const struct sluice_array *mine = &writer->format.arrays[0];
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int r;

    if (!sl_dtype_equal(array->dtype, mine->dtype))
        return another_type(writer, array, mine);
    if (same_shape(array, mine))
        return 0;
    if (mine->image.pixel_format)
        r = sl_format_add_image(&format, mine->name, (enum sluice_pixel_format)mine->image.pixel_format,
                                    (uint32_t)array->shape[1], (uint32_t)array->shape[0]);
    else
        r = sl_format_add_tensor(&format, mine->name, array->dtype, array->ndim, array->shape);
    if (r == 0 && (r = sl_format_complete(&format)) == 0)
        r = sl_cipd_reformat(&writer->base, &format);
    if (r == 0 && !same_shape(array, &writer->format.arrays[0]))
        r = sl_fail(SLUICE_E_FORMAT, "channel 'cipd:%s': array '%s' is no frame of this channel", writer->base.name, mine->name);
    return r;
}

int sl_cipd_writer_set_slots(struct sl_cipd_writer *writer, uint32_t slots)
{
    if (slots < 1 || slots > SLUICE_CIPD_MAX_SLOTS)
        return sl_fail(SLUICE_E_LIMIT, "channel 'cipd:%s': %u slots, the protocol has 1 to %d", writer->base.name, slots,
                       SLUICE_CIPD_MAX_SLOTS);
    if (writer->token)
        return sl_fail(SLUICE_E_BUSY, "channel 'cipd:%s': a frame is begun: commit or cancel it before the slots change",
                       writer->base.name);
    return slots == writer->slots ? 0 : sl_cipd_writer_renew(writer, slots);
}

int sl_cipd_writer_format(struct sluice_writer *base, struct sluice_format *format)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);

    sl_mutex_lock(&writer->lock);
    int r = sl_format_store(format, &writer->format);
    sl_mutex_unlock(&writer->lock);
    return r;
}

void sl_cipd_writer_stats(struct sluice_writer *base, struct sluice_writer_stats *stats)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);

    sl_mutex_lock(&writer->lock);
    *stats = (struct sluice_writer_stats){
        .session = writer->session,
        .committed = writer->published,
        .dropped = writer->dropped,
        .cancelled = writer->cancelled,
        .bytes = writer->bytes,
        .copied_bytes = writer->copied_bytes,
        .waited_ns = writer->waited_ns,
        .slots = writer->slots,
        .generation = writer->generation,
        .graph_sends = writer->graph_frames,
    };
    sl_mutex_unlock(&writer->lock);
}
