/* SPDX-License-Identifier: MIT
 *
 * Opens and closes a reader of cuda-link's protocol.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel/fetch.h"
#include "cuda_link/cuda_link.h"
#include "format/format.h"
#include "util/result.h"

#define CLOSE_TIMEOUT  (500 * SLUICE_MS) /* for other sessions' handles to be closed */
#define SETTLE_TIMEOUT SLUICE_S          /* how long to wait for a writer that is filling in its segment */
#define DEFAULT_DEVICE "cuda:0"

/* ---- parts of opening ---- */

static int wait_for_writer(struct sl_cipd_reader *reader, int64_t began,
                           int (*attempt)(struct sl_cipd_reader *, int64_t))
{
    bool later = reader->params.open_timeout_ns == SLUICE_LATER;
    int64_t patience = later ? 0 : reader->params.open_timeout_ns;
    int64_t absent_until = sl_os_later(began, patience);
    int64_t settled_until = sl_os_later(began, patience > SETTLE_TIMEOUT ? patience : SETTLE_TIMEOUT);

    reader->until = settled_until;
    for (;;) {
        int64_t now = sl_os_now();
        int r = attempt(reader, now);
        if (r <= 0 && !sl_cipd_is_refusal(r))
            return r;
        bool gone = sl_cipd_is_gone(reader->consumer.reason);
        int64_t until = gone ? absent_until : settled_until, next = sl_cipd_read_next_try(&reader->consumer);
        if (now >= until || (gone && later)) {
            if (later)
                return 0;
            return sl_fail_text(sl_cipd_is_refusal(r) ? r
                                : gone                ? SLUICE_E_NOT_FOUND
                                                      : SLUICE_TIMEOUT,
                                sl_last_error());
        }
        sl_os_sleep((next < until ? next : until) - now);
    }
}

/* If no GPU was requested: the one that the writer uses, if there is a writer. Errors of its handles are reported
 * when they are opened. */
static int choose_device(struct sl_cipd_reader *reader, int64_t began)
{
    struct sl_cipd_segment_reader *consumer = &reader->consumer;
    const struct sl_cipd_session *session = &consumer->session;
    unsigned char uuid[SL_CIPD_GPU];
    struct sl_cu_memory_handle handle;
    char home[SL_CUDA_NAME];
    int count, r = sl_cuda_count(&count);

    if (r != 0 || count < 2)
        return r;
    if ((r = wait_for_writer(reader, began, sl_cipd_reader_find_session)) != 0 || !session->layout.slots)
        return r;
    bool told = consumer->ext && sl_cipd_ext_gpu(consumer->ext, session->version, uuid);
    memcpy(&handle, session->handles[0].memory, sizeof handle);
    if (sl_cuda_ipc_owner(told ? uuid : NULL, &handle, home) == 0)
        snprintf(reader->device, sizeof reader->device, "%s", home);
    return 0;
}

static int check_device(const char *name, const char *device)
{
    if (sl_device_kind(device) == &sl_device_cuda)
        return 0;
    return sl_fail(
        SLUICE_E_UNSUPPORTED,
        "channel 'cipd:%s': cuda-link's protocol hands over memory of a GPU alone, which cannot be used on \"%.60s\": "
        "say \"cuda:0\", and sluice_reader_fetch for the CPU",
        name, device);
}

/* ---- the end ---- */

static void end_reader(struct sl_cipd_reader *reader)
{
    sl_cipd_ahead_end(reader);
    if (reader->free_queue) {
        sl_cipd_copies_end(reader);
        if (sl_cipd_free_queue_wait(reader->free_queue, CLOSE_TIMEOUT) != 0)
            sl_log(SLUICE_LOG_WARN,
                   "channel 'cipd:%s': its memory was not closed in time, as the GPU has work that does not end",
                   reader->base.name);
        sl_cipd_free_queue_release(reader->free_queue);
    }
    if (reader->note >= 0)
        sl_os_close(reader->note);
    sl_cuda_context_close(reader->context);
    sl_mutex_finish(&reader->lock);
    sl_background_await(reader->base.name);
    sl_trace_close();
    reader->base.object.finish = NULL;
    sl_object_drop(&reader->base.object);
}

void sl_cipd_reader_stop(struct sluice_reader *base)
{
    struct sl_cipd_reader *reader = sl_cipd_reader_of(base);

    sl_store(&reader->closing, 1, release);
    sl_add(&reader->bell, 1);
    sl_os_futex_wake(&reader->bell, INT32_MAX);
    if (reader->note >= 0)
        sl_os_eventfd_set(reader->note);
}

static void finish(struct sl_object *object)
{
    struct sl_cipd_reader *reader = (struct sl_cipd_reader *)object;
    char why[640];

    snprintf(why, sizeof why, "%s", sl_last_error());
    sl_frame_streams_end(&reader->base.streams);
    (void)sl_fetch_end(&reader->base, false);
    sl_service_lock();
    sl_service_remove(&reader->watch);
    sl_name_watch_leave(&reader->name_watch);
    sl_service_unlock();
    sl_cipd_ahead_stop(reader);
    sl_mutex_lock(&reader->lock); /* the thread that watches waiting streams may still use it */
    for (uint32_t i = 0; i < SLUICE_CIPD_MAX_SLOTS; i++) {
        struct sl_cipd_held *held = &reader->held[i];
        if (sl_load(&held->token, relaxed))
            sl_cipd_link_drop(reader, held->link);
        SL_SPAN_END(READ, &held->span);
    }
    sl_mutex_unlock(&reader->lock);
    sl_cipd_reader_drop(reader, SL_CIPD_REASON_NOT_TRIED, false);
    sl_object_defer_finish(object); /* until end_reader */
    if (sl_cipd_ahead_leave(reader))
        end_reader(reader);
    else
        sl_log(
            SLUICE_LOG_WARN,
            "channel 'cipd:%s': closed while a call of the driver blocks: the reader is freed when that call returns",
            reader->base.name);
    sl_fail_text(0, why);
}

void sl_cipd_reader_stopped(struct sluice_reader *base)
{
    (void)base;
}

/* ---- opening ---- */

int sl_cipd_reader_open(struct sluice_reader *base, const struct sluice_reader_params *params)
{
    struct sl_cipd_reader *reader = sl_cipd_reader_of(base);
    const char *device = params->device ? params->device : DEFAULT_DEVICE;
    int64_t began = sl_os_now();
    int r;

    sl_mutex_init(&reader->lock);
    reader->note = -1;
    sl_cipd_timeslice_init(&reader->timeslice);
    r = sl_cipd_read_init(&reader->consumer, base->name);
    base->object.finish = finish;
    reader->params = *params;
    if (r != 0 || (r = sl_cipd_reader_params(base->name, &reader->params, &reader->cipd)) != 0 ||
        (r = check_device(base->name, device)) != 0)
        return r;
    reader->params.name = reader->params.device = NULL;
    reader->params.cipd = NULL;
    reader->consumer.copies = reader->cipd.copy;
    snprintf(reader->device, sizeof reader->device, "%s", device);
    snprintf(reader->nothing, sizeof reader->nothing, "channel 'cipd:%s': no new frame came in time", base->name);
    if (!params->device && (r = choose_device(reader, began)) != 0)
        return r;
    if ((r = sl_cuda_context_open(reader->device, &reader->context)) != 0 ||
        (r = sl_cipd_free_queue_create(base->name, &reader->free_queue)) != 0)
        return r;
    if (reader->cipd.ahead == SLUICE_CIPD_ON && !reader->cipd.copy &&
        (r = sl_cipd_ahead_begin(reader, end_reader)) != 0)
        return r;
    return wait_for_writer(reader, began, sl_cipd_reader_connect);
}

/* ---- format, stats ---- */

int sl_cipd_reader_format(struct sluice_reader *base, struct sluice_format *format)
{
    struct sl_cipd_reader *reader = sl_cipd_reader_of(base);
    int r;

    sl_mutex_lock(&reader->lock);
    if (reader->link)
        r = sl_format_store(format, &reader->link->format);
    else
        r = sl_fail(SLUICE_NO_WRITER, "channel 'cipd:%s': %s", reader->base.name, sl_cipd_read_why(&reader->consumer));
    sl_mutex_unlock(&reader->lock);
    return r;
}

void sl_cipd_reader_device(struct sluice_reader *base, char name[SL_DEVICE_NAME])
{
    snprintf(name, SL_DEVICE_NAME, "%s", sl_cipd_reader_of(base)->device);
}

/* How many frames of this session are available and were not taken. Before the first one it is only known that there
 * are some. With the lock. */
static uint64_t lag_of(const struct sl_cipd_reader *reader)
{
    const struct sl_cipd_segment_reader *consumer = &reader->consumer;
    const struct sl_cipd_session *session = &consumer->session;
    const unsigned char *at = consumer->segment.at;

    if (sl_cipd_load_shut(at, &session->layout) || sl_cipd_load_version(at) != session->version)
        return 0;
    uint32_t index = sl_cipd_load_index(at);
    if (index == 0 || reader->last_index == 0)
        return index != 0;
    uint32_t frames = sl_cipd_index_distance(reader->last_index, index, session->layout.slots);
    return frames < UINT32_MAX / 2 ? frames : 1;
}

void sl_cipd_reader_stats(struct sluice_reader *base, struct sluice_reader_stats *stats)
{
    struct sl_cipd_reader *reader = sl_cipd_reader_of(base);
    uint32_t held = 0;

    for (uint32_t i = 0; i < reader->params.hold; i++)
        held += sl_load(&reader->held[i].token, relaxed) != 0;
    *stats = (struct sluice_reader_stats){
        .taken = sl_load(&reader->taken, relaxed),
        .missed = sl_load(&reader->dropped, relaxed),
        .lost = sl_load(&reader->timeouts, relaxed),
        .retries = sl_load(&reader->repeated, relaxed),
        .sessions = sl_load(&reader->sessions, relaxed),
        .held = held,
        .depth = 1,
        .hold = reader->params.hold,
        .latency_ns = sl_load(&reader->latency_ns, relaxed),
    };
    sl_mutex_lock(&reader->lock);
    if (reader->link) {
        stats->connected = 1;
        stats->session = reader->link->session;
        stats->slots = reader->link->pool->count;
        stats->generation = reader->link->generation;
        stats->lag = lag_of(reader);
    }
    sl_mutex_unlock(&reader->lock);
}
