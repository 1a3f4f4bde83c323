/* SPDX-License-Identifier: MIT
 *
 * Opens and closes a reader of cuda-link's protocol, and follows its sessions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "channel/fetch.h"
#include "format/format.h"
#include "util/result.h"

#define CLOSE_PATIENCE (500 * SLUICE_MS) /* for other sessions' handles to be closed */
#define CLOSE_MOMENT   (2 * SLUICE_MS) /* also in a call that is not to wait: mostly they are closed by then */
#define SETTLE_PATIENCE SLUICE_S /* how long to wait for a writer that is filling in its segment */
#define DEFAULT_DEVICE "cuda:0"

/* ---- sessions ---- */

void sl_cipd_link_drop(struct sl_cipd_reader *reader, struct sl_cipd_link *link)
{
    if (--link->users > 0)
        return;
    sl_cipd_marks_end(reader, link->marks);
    sl_cipd_bin_put(reader->bin, link->pool, 0);
    free(link);
}

void sl_cipd_reader_drop(struct sl_cipd_reader *reader, enum sl_cipd_reason reason, bool again)
{
    struct sl_cipd_link *link = reader->link;

    sl_mutex_lock(&reader->lock);
    reader->link = NULL;
    if (link)
        sl_cipd_link_drop(reader, link);
    sl_cipd_consume_drop(&reader->consumer, reason);
    if (again)
        sl_cipd_consume_retry_now(&reader->consumer);
    sl_mutex_unlock(&reader->lock);
    reader->pending.index = reader->tries = 0;
    if (link && reader->cipd.reconnect == SLUICE_CIPD_OFF)
        reader->over = true;
}

static bool holds_frames(const struct sl_cipd_reader *reader)
{
    for (uint32_t i = 0; i < reader->params.hold; i++)
        if (sl_load(&reader->held[i].token, acquire))
            return true;
    return false;
}

/* Does this process have any of these handles open? The caller only asks if this reader's frames of the last session may have
 * them open; another reader of this process has the current memory open. */
static bool is_doubtful(const struct sl_cipd_session *session)
{
    for (uint32_t i = 0; i < session->layout.slots; i++) {
        struct sl_cu_memory_handle handle;
        memcpy(&handle, session->handles[i].memory, sizeof handle);
        if (sl_cuda_ipc_listed(&handle))
            return true;
    }
    return false;
}

static void set_close_until(struct sl_cipd_reader *reader, int64_t until)
{
    sl_mutex_lock(&reader->lock);
    reader->close_until = until;
    sl_mutex_unlock(&reader->lock);
}

/* A handle cannot be opened twice in one process, so those of the last session are closed first. The driver waits for this
 * program's work with that, and the call for the driver, as long as the caller lets it: SLUICE_AGAIN leaves the rest to the next
 * one. 0 with `closing`: not even in CLOSE_PATIENCE. */
static int await_closed(struct sl_cipd_reader *reader, bool *closing)
{
    int64_t now = sl_os_now(), until = reader->until;

    if (reader->close_until == 0) {
        set_close_until(reader, now + CLOSE_PATIENCE);
        until = until > now + CLOSE_MOMENT ? until : now + CLOSE_MOMENT;
    }
    until = until < reader->close_until ? until : reader->close_until;
    *closing = sl_cipd_bin_wait(reader->bin, until > now ? until - now : 0) != 0;
    if (*closing && sl_os_now() < reader->close_until)
        return sl_fail(SLUICE_AGAIN,
                       "channel 'cipd:%s': its writer has begun anew, and the memory from before is not closed here yet: the driver "
                       "waits for work of this program",
                       reader->base.name);
    set_close_until(reader, 0);
    return 0;
}

static int open_link(struct sl_cipd_reader *reader)
{
    const struct sl_cipd_session *session = &reader->consumer.session;
    struct sl_cipd_link *link = calloc(1, sizeof *link);
    bool closing;
    int r;

    if (!link)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel 'cipd:%s': no memory for a session", reader->base.name);
    if ((r = sl_cipd_format_as(&session->format, &reader->cipd, &link->format)) == 0 && (r = await_closed(reader, &closing)) == 0) {
        link->doubtful = (closing || holds_frames(reader)) && is_doubtful(session);
        r = sl_cipd_pool_open(reader->bin, reader->base.name, reader->device, session, &link->pool);
    }
    if (r != 0) {
        free(link);
        return r;
    }
    link->users = 1;
    link->session = sl_os_random();
    sl_geometry_from_array(&link->geometry, &link->format.arrays[0]);
    sl_mutex_lock(&reader->lock);
    link->generation = ++reader->generation;
    reader->link = link;
    reader->last_index = 0;
    sl_mutex_unlock(&reader->lock);
    reader->oldest = reader->counted = 0;
    reader->shut = false;
    sl_store(&reader->sessions, sl_load(&reader->sessions, relaxed) + 1, relaxed);
    return 0;
}

/* Without GPU resources. */
static int find_session(struct sl_cipd_reader *reader, int64_t now)
{
    int r = 0;

    sl_mutex_lock(&reader->lock);
    if (sl_exchange(&reader->retry, 0))
        sl_cipd_consume_retry_now(&reader->consumer);
    SL_STAGE_BEGIN(CONNECT);
    if (!reader->consumer.session.layout.slots)
        r = sl_cipd_consume_connect(&reader->consumer, now);
    SL_STAGE_END(CONNECT);
    sl_mutex_unlock(&reader->lock);
    return r;
}

int sl_cipd_reader_connect(struct sl_cipd_reader *reader, int64_t now)
{
    int r;

    if (reader->link)
        return 0;
    if (reader->over)
        return sl_fail(SLUICE_CLOSED, "channel 'cipd:%s': its session has ended, and this reader does not reconnect", reader->base.name);
    if ((r = sl_cuda_alive(reader->context)) != 0)
        return r;
    if ((r = find_session(reader, now)) != 0)
        return reader->consumer.reason == SL_CIPD_REASON_HANDLES_FAILED ? sl_fail_text(r, reader->unopened) : r;
    r = open_link(reader);
    if (r == SLUICE_AGAIN)
        return r;
    if (r != 0) {
        snprintf(reader->unopened, sizeof reader->unopened, "%s", sl_last_error());
        sl_cipd_reader_drop(reader, SL_CIPD_REASON_HANDLES_FAILED, false);
        /* Not a failure if the writer has just ended or begun a new session: handles and format may be of two sessions then. */
        return sl_fail_text(r == SLUICE_E_UNSUPPORTED || r == SLUICE_E_PROTOCOL ? SLUICE_NO_WRITER : r, reader->unopened);
    }
    return 0;
}

/* ---- parts of opening ---- */

bool sl_cipd_is_gone(enum sl_cipd_reason reason)
{
    return reason == SL_CIPD_REASON_NOT_TRIED || reason == SL_CIPD_REASON_ABSENT || reason == SL_CIPD_REASON_SHUT ||
           reason == SL_CIPD_REASON_DEAD;
}

bool sl_cipd_is_refusal(int result) { return result == SLUICE_E_FORMAT || result == SLUICE_E_UNSUPPORTED; }

static int wait_for_writer(struct sl_cipd_reader *reader, int64_t began, int (*attempt)(struct sl_cipd_reader *, int64_t))
{
    bool later = reader->params.open_timeout_ns == SLUICE_LATER;
    int64_t patience = later ? 0 : reader->params.open_timeout_ns;
    int64_t absent_until = sl_os_later(began, patience);
    int64_t settled_until = sl_os_later(began, patience > SETTLE_PATIENCE ? patience : SETTLE_PATIENCE);

    reader->until = settled_until;
    for (;;) {
        int64_t now = sl_os_now();
        int r = attempt(reader, now);
        if (r <= 0 && !sl_cipd_is_refusal(r))
            return r;
        bool gone = sl_cipd_is_gone(reader->consumer.reason);
        int64_t until = gone ? absent_until : settled_until, next = sl_cipd_consume_next_try(&reader->consumer);
        if (now >= until || (gone && later)) {
            if (later)
                return 0;
            return sl_fail_text(sl_cipd_is_refusal(r) ? r : gone ? SLUICE_E_NOT_FOUND : SLUICE_TIMEOUT, sl_last_error());
        }
        sl_os_sleep((next < until ? next : until) - now);
    }
}

/* If no GPU was requested: the one that the writer uses, if there is a writer. Errors of its handles are reported
 * when they are opened. */
static int choose_device(struct sl_cipd_reader *reader, int64_t began)
{
    struct sl_cipd_consumer *consumer = &reader->consumer;
    const struct sl_cipd_session *session = &consumer->session;
    unsigned char uuid[SL_CIPD_GPU];
    struct sl_cu_memory_handle handle;
    char home[SL_CUDA_NAME];
    int count, r = sl_cuda_count(&count);

    if (r != 0 || count < 2)
        return r;
    if ((r = wait_for_writer(reader, began, find_session)) != 0 || !session->layout.slots)
        return r;
    bool told = consumer->extra && sl_cipd_extra_gpu(consumer->extra, session->version, uuid);
    memcpy(&handle, session->handles[0].memory, sizeof handle);
    if (sl_cuda_home(told ? uuid : NULL, &handle, home) == 0)
        snprintf(reader->device, sizeof reader->device, "%s", home);
    return 0;
}

static int check_device(const char *name, const char *device)
{
    if (sl_device_kind(device) == &sl_device_cuda)
        return 0;
    return sl_fail(SLUICE_E_UNSUPPORTED,
                   "channel 'cipd:%s': cuda-link's protocol hands over memory of a GPU alone, which cannot be used on \"%.60s\": "
                   "say \"cuda:0\", and sluice_reader_fetch for the CPU",
                   name, device);
}

/* ---- the end ---- */

void sl_cipd_reader_end(struct sl_cipd_reader *reader)
{
    sl_cipd_ahead_end(reader);
    if (reader->bin) {
        sl_cipd_copies_end(reader);
        if (sl_cipd_bin_wait(reader->bin, CLOSE_PATIENCE) != 0)
            sl_log(SLUICE_LOG_WARN, "channel 'cipd:%s': its memory could not be closed in time, for work that does not end", reader->base.name);
        sl_cipd_bin_leave(reader->bin);
    }
    if (reader->note >= 0)
        sl_os_close(reader->note);
    sl_cuda_context_close(reader->context);
    sl_mutex_finish(&reader->lock);
    sl_apart_await(reader->base.name);
    sl_trace_close();
    reader->base.object.finish = NULL;
    sl_object_drop(&reader->base.object);
}

void sl_cipd_reader_stop(struct sluice_reader *base)
{
    struct sl_cipd_reader *reader = sl_cipd_reader_of(base);

    sl_store(&reader->closing, 1, release);
    sl_add(&reader->bell, 1);
    sl_os_wake(&reader->bell, INT32_MAX);
    if (reader->note >= 0)
        sl_os_note_set(reader->note);
}

static void finish(struct sl_object *object)
{
    struct sl_cipd_reader *reader = (struct sl_cipd_reader *)object;
    char why[640];

    snprintf(why, sizeof why, "%s", sl_last_error());
    (void)sl_fetch_end(&reader->base, false);
    sl_service_lock();
    sl_service_remove(&reader->watch);
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
    sl_object_put_off(object); /* until sl_cipd_reader_end */
    if (sl_cipd_ahead_leave(reader))
        sl_cipd_reader_end(reader);
    else
        sl_log(SLUICE_LOG_WARN, "channel 'cipd:%s': closed while the driver keeps a look at a frame waiting: it ends behind that", reader->base.name);
    sl_fail_text(0, why);
}

void sl_cipd_reader_stopped(struct sluice_reader *base) { (void)base; }

/* ---- opening ---- */

int sl_cipd_reader_open(struct sluice_reader *base, const struct sluice_reader_params *params)
{
    struct sl_cipd_reader *reader = sl_cipd_reader_of(base);
    const char *device = params->device ? params->device : DEFAULT_DEVICE;
    int64_t began = sl_os_now();
    int r;

    sl_mutex_init(&reader->lock);
    reader->note = -1;
    sl_cipd_turns_begin(&reader->turns);
    r = sl_cipd_consume_init(&reader->consumer, base->name);
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
    if ((r = sl_cuda_context_open(reader->device, &reader->context)) != 0 || (r = sl_cipd_bin_make(base->name, &reader->bin)) != 0)
        return r;
    if (reader->cipd.ahead == SLUICE_CIPD_ON && !reader->cipd.copy && (r = sl_cipd_ahead_begin(reader)) != 0)
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
        r = sl_fail(SLUICE_NO_WRITER, "channel 'cipd:%s': %s", reader->base.name, sl_cipd_consume_why(&reader->consumer));
    sl_mutex_unlock(&reader->lock);
    return r;
}

void sl_cipd_reader_device(struct sluice_reader *base, char name[SL_DEVICE_NAME])
{
    snprintf(name, SL_DEVICE_NAME, "%s", sl_cipd_reader_of(base)->device);
}

/* How many frames of this session are available and were not taken. Before the first one it is only known that there are some.
 * With the lock. */
static uint64_t lag_of(const struct sl_cipd_reader *reader)
{
    const struct sl_cipd_consumer *consumer = &reader->consumer;
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

void sl_cipd_reader_retry(struct sl_cipd_reader *reader)
{
    sl_store(&reader->retry, 1, release);
    sl_add(&reader->bell, 1);
    sl_os_wake(&reader->bell, INT32_MAX);
}
