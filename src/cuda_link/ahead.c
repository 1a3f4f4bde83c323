/* SPDX-License-Identifier: MIT
 *
 * Frames that are taken before they are ready: the program's stream waits for a word of the library, which a thread
 * raises when the slot's event is done, or the service thread when that takes too long. So a stream waits no longer
 * than ahead_ns even if the writer is dead; a stream that waited for the event itself could not be released.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "channel/stream_deps.h"
#include "cuda_link/cuda_link.h"
#include "device/device.h"
#include "sync/sync.h"
#include "util/result.h"

#define POLL_INTERVAL          (50 * INT64_C(1000)) /* ns between queries of events */
#define TIMEOUT_CHECK_INTERVAL (5 * SLUICE_MS)      /* between checks for frames that are too late */
#define CLOSE_TIMEOUT          (2 * SLUICE_S)       /* how long close waits if the driver blocks the thread */

enum { RUNNING, ENDED, ABANDONED /* when it returns, it frees the reader */ };

extern const struct sl_sync_ops sl_sync_cuda;

struct sl_cipd_ahead {
    struct sl_cipd_reader *reader;
    void (*end_reader)(struct sl_cipd_reader *reader);
    sl_word *words; /* one for each entry */
    uint64_t bytes;
    struct sl_sync_pages *pages;
    struct sl_watch watch;
    uint64_t number; /* of the last wait; the acquiring thread's */
    sl_word32 bell;  /* a futex: changed when there is something to check, or when to end */
    sl_word32 ends, thread;
    sl_word32
        unreported; /* how many frames were lost after their release; its address is the `owner` of work behind them */
    uint32_t
        lost[SLUICE_CIPD_MAX_SLOTS]; /* their indices; the service lock. No more frames are waited for than are held */
};

/* ---- the service thread ---- */

/* The program has released the frame, so acquire reports its loss. */
static void add_lost(struct sl_cipd_ahead *ahead, const struct sl_cipd_held *held)
{
    uint32_t count = sl_load(&ahead->unreported, relaxed);

    ahead->lost[count] = held->frame.index;
    sl_store(&ahead->unreported, count + 1, relaxed);
}

/* The frame has come, or its loss was reported. Under the service lock. */
static void remove_wait(const struct sl_cipd_ahead *ahead, uint64_t number)
{
    struct sl_stream_wait *wait = sl_stream_wait_find(ahead, number);

    if (wait)
        sl_stream_wait_remove(wait);
}

/* The frame is lost; before the stream is let go on. From then on `owner` is the wait's. Under the service lock. */
static void lose_wait(const struct sl_cipd_ahead *ahead, uint64_t number, const void *owner)
{
    struct sl_stream_wait *wait = sl_stream_wait_find(ahead, number);

    if (!wait)
        return;
    wait->lost = true;
    wait->owner = owner;
}

/* Before the wait is queued, on a stream that the caller holds. False if there is no room. With no lock held. */
static bool add_wait(const struct sl_cipd_ahead *ahead, uint64_t number, const struct sl_stream *stream)
{
    struct sl_stream_point first = sl_stream_point(stream);

    sl_service_lock();
    bool added = sl_stream_wait_add(ahead, number, &first, NULL) != NULL;
    sl_service_unlock();
    return added;
}

/* Lets the stream continue. With the service lock, and the reader's. */
static void signal_wait(struct sl_cipd_ahead *ahead, struct sl_cipd_held *held, enum sl_cipd_wait how)
{
    bool released = sl_load(&held->token, relaxed) == SL_CIPD_RELEASED;

    if (how == SL_CIPD_CAME)
        remove_wait(ahead, held->ahead_number);
    else
        lose_wait(ahead, held->ahead_number, released ? (void *)&ahead->unreported : ahead);
    if (how != SL_CIPD_CAME && released)
        add_lost(ahead, held);
    sl_store(&ahead->words[held - ahead->reader->held], held->ahead_value, release);
    held->waits = how;
    sl_sync_wait_release();
    if (released)
        sl_cipd_held_end(ahead->reader, held);
}

static void lose_frame(struct sl_cipd_ahead *ahead, struct sl_cipd_held *held)
{
    sl_word *timeouts = &ahead->reader->timeouts;

    sl_store(timeouts, sl_load(timeouts, relaxed) + 1, relaxed);
    signal_wait(ahead, held, SL_CIPD_CAME_NOT);
}

/* Only the driver can tell whether the frame is finished. This thread does not call it, as that may
 * block until this very stream continues (protocol 3.6). */
static void check_timeouts(struct sl_watch *watch)
{
    struct sl_cipd_ahead *ahead = (struct sl_cipd_ahead *)((char *)watch - offsetof(struct sl_cipd_ahead, watch));
    struct sl_cipd_reader *reader = ahead->reader;
    bool more = false;

    sl_mutex_lock(&reader->lock);
    int64_t now = sl_os_now();
    for (uint32_t i = 0; i < reader->params.hold; i++) {
        struct sl_cipd_held *held = &reader->held[i];
        if (held->waits != SL_CIPD_WAITS)
            continue;
        if (now >= held->ahead_until || held->link != reader->link ||
            sl_cipd_read_is_gone(&reader->consumer, &held->frame))
            lose_frame(ahead, held);
        else
            more = true;
    }
    sl_mutex_unlock(&reader->lock);
    if (more)
        sl_service_set_deadline(watch, sl_os_deadline(TIMEOUT_CHECK_INTERVAL));
}

/* ---- the thread that asks the driver ---- */

/* Without a lock: the driver may block. */
static int query_event(struct sl_cipd_reader *reader, struct sl_cu_event *event)
{
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(reader->context, SL_CUDA_RELAXED, &scope);

    if (r != 0)
        return r;
    r = sl_cuda_query_event(reader->context, event);
    sl_cuda_leave(&scope);
    return r;
}

/* True if it must be checked again. */
static bool check_held(struct sl_cipd_ahead *ahead, struct sl_cipd_held *held)
{
    struct sl_cipd_reader *reader = ahead->reader;

    sl_mutex_lock(&reader->lock);
    struct sl_cipd_link *link = held->waits == SL_CIPD_WAITS ? held->link : NULL;
    uint64_t number = link ? held->ahead_number : 0;
    if (link)
        link->users++; /* the event is kept while it is queried */
    const struct sl_cuda_signal *signal = link ? link->pool->slots[held->frame.slot].signal : NULL;
    sl_mutex_unlock(&reader->lock);
    if (!link)
        return false;
    int r = query_event(reader, sl_cuda_signal_event(signal));
    sl_service_lock();
    sl_mutex_lock(&reader->lock);
    bool waits = held->waits == SL_CIPD_WAITS && held->ahead_number == number;
    if (waits && r == 0)
        signal_wait(ahead, held, SL_CIPD_CAME);
    else if (waits && r != SLUICE_NOT_READY)
        lose_frame(ahead, held);
    sl_cipd_link_drop(reader, link);
    sl_mutex_unlock(&reader->lock);
    sl_service_unlock();
    return waits && r == SLUICE_NOT_READY;
}

static void poll_events(void *argument)
{
    struct sl_cipd_ahead *ahead = argument;
    struct sl_cipd_reader *reader = ahead->reader;
    uint32_t rung, running = RUNNING;

    while (rung = sl_load(&ahead->bell, acquire), sl_load(&ahead->ends, acquire) == 0) {
        bool more = false;
        for (uint32_t i = 0; i < reader->params.hold && sl_load(&ahead->ends, relaxed) == 0; i++)
            more = check_held(ahead, &reader->held[i]) || more;
        if (more)
            (void)sl_os_futex_wait_precise(&ahead->bell, rung, sl_os_now() + POLL_INTERVAL);
        else
            (void)sl_os_futex_wait(&ahead->bell, rung, SLUICE_FOREVER);
    }
    if (atomic_compare_exchange_strong(&ahead->thread, &running, ENDED))
        sl_os_futex_wake(&ahead->thread, INT32_MAX);
    else
        ahead->end_reader(reader);
}

/* ---- the acquiring thread ---- */

static int map_words(struct sl_cipd_ahead *ahead, const char *device)
{
    uint64_t page = sl_os_page_size();
    void *words;
    int fd, r = sl_os_memory_create("waits", page, &fd);

    if (r != 0)
        return r;
    r = sl_os_map(fd, page, true, &words);
    sl_os_close(fd);
    if (r != 0)
        return r;
    ahead->words = words;
    ahead->bytes = page;
    r = sl_sync_cuda.attach(device, words, page, true, &ahead->pages);
    return r == 0 ? sl_sync_cuda.can_wait(ahead->pages) : r;
}

/* May wait for the program's GPU work. */
static void destroy(void *argument)
{
    struct sl_cipd_ahead *ahead = argument;

    sl_sync_cuda.detach(ahead->pages);
    if (ahead->words)
        sl_os_unmap(ahead->words, ahead->bytes);
    free(ahead);
}

int sl_cipd_ahead_begin(struct sl_cipd_reader *reader, void (*end_reader)(struct sl_cipd_reader *reader))
{
    struct sl_cipd_ahead *ahead = calloc(1, sizeof *ahead);
    int r;

    if (!ahead)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel 'cipd:%s': no memory for waits of streams", reader->base.name);
    ahead->reader = reader;
    ahead->end_reader = end_reader;
    ahead->watch = (struct sl_watch){ .fd = -1, .timer = check_timeouts };
    if ((r = map_words(ahead, reader->device)) != 0) {
        destroy(ahead);
        if (r != SLUICE_E_UNSUPPORTED)
            return r;
        sl_log(SLUICE_LOG_INFO, "channel 'cipd:%s': the CPU waits for frames, not streams: %s", reader->base.name,
               sl_last_error());
        return 0;
    }
    sl_service_lock();
    r = sl_service_add(&ahead->watch);
    sl_service_unlock();
    if (r == 0 && (r = sl_os_start_thread(poll_events, ahead)) != 0) {
        sl_service_lock();
        sl_service_remove(&ahead->watch);
        sl_service_unlock();
    }
    if (r != 0)
        destroy(ahead);
    else
        reader->ahead = ahead;
    return r;
}

void sl_cipd_ahead_reported(struct sl_cipd_ahead *ahead, uint64_t number)
{
    sl_service_lock();
    remove_wait(ahead, number);
    sl_service_unlock();
}

int sl_cipd_ahead_report_lost(struct sl_cipd_reader *reader)
{
    struct sl_cipd_ahead *ahead = reader->ahead;
    char list[SLUICE_CIPD_MAX_SLOTS * 12] = "";
    size_t length = 0;

    if (!ahead || sl_load(&ahead->unreported, relaxed) == 0)
        return 0;
    sl_service_lock();
    uint32_t count = sl_load(&ahead->unreported, relaxed);
    for (uint32_t i = 0; i < count; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%" PRIu32, i ? ", " : "", ahead->lost[i]);
    sl_store(&ahead->unreported, 0, relaxed);
    sl_stream_wait_remove_all(&ahead->unreported);
    sl_service_unlock();
    return sl_fail(SLUICE_E_LOST,
                   "channel 'cipd:%s': frame %s never completed on the writer's GPU, and was already released: discard "
                   "everything computed from it",
                   reader->base.name, list);
}

static int await(struct sl_cipd_ahead *ahead, struct sluice_stream handle, sl_word *word, uint64_t value)
{
    struct sl_stream *stream;
    int r = sl_sync_cuda.check(ahead->pages, handle);

    if (r != 0 || (r = sl_stream_hold(handle, &stream)) != 0)
        return r;
    if (!add_wait(ahead, ++ahead->number, stream))
        r = SLUICE_NO_SLOT;
    else if ((r = sl_sync_cuda.await(ahead->pages, stream, word, value)) != 0)
        sl_cipd_ahead_reported(ahead, ahead->number);
    sl_object_drop(&stream->object);
    return r;
}

int sl_cipd_ahead_wait(struct sl_cipd_reader *reader, struct sl_cipd_held *held, struct sluice_stream stream)
{
    struct sl_cipd_ahead *ahead = reader->ahead;
    sl_word *word = &ahead->words[held - reader->held];
    int r;

    if (!sl_sync_wait_reserve())
        return SLUICE_NO_SLOT;
    uint64_t value = sl_load(word, relaxed) + 1;
    if ((r = await(ahead, stream, word, value)) != 0) {
        sl_sync_wait_release();
        return r;
    }
    held->ahead_value = value;
    held->ahead_number = ahead->number;
    held->ahead_until = sl_os_deadline(reader->params.ahead_ns);
    held->ahead_stream = stream;
    return 0;
}

void sl_cipd_ahead_watch(struct sl_cipd_reader *reader, struct sl_cipd_held *held)
{
    int64_t soon = sl_os_deadline(TIMEOUT_CHECK_INTERVAL);

    sl_service_lock();
    sl_mutex_lock(&reader->lock);
    held->waits = SL_CIPD_WAITS;
    sl_mutex_unlock(&reader->lock);
    sl_service_set_deadline(&reader->ahead->watch, held->ahead_until < soon ? held->ahead_until : soon);
    sl_service_unlock();
    sl_add(&reader->ahead->bell, 1);
    sl_os_futex_wake(&reader->ahead->bell, INT32_MAX);
}

void sl_cipd_ahead_stop(struct sl_cipd_reader *reader)
{
    struct sl_cipd_ahead *ahead = reader->ahead;

    if (!ahead)
        return;
    sl_store(&ahead->ends, 1, release);
    sl_add(&ahead->bell, 1);
    sl_os_futex_wake(&ahead->bell, INT32_MAX);
    sl_service_lock();
    sl_service_remove(&ahead->watch);
    sl_mutex_lock(&reader->lock);
    for (uint32_t i = 0; i < reader->params.hold; i++)
        if (reader->held[i].waits == SL_CIPD_WAITS)
            signal_wait(ahead, &reader->held[i], SL_CIPD_CAME_NOT);
    sl_mutex_unlock(&reader->lock);
    sl_stream_wait_remove_all(ahead);
    sl_stream_wait_remove_all(&ahead->unreported);
    sl_service_unlock();
}

bool sl_cipd_ahead_leave(struct sl_cipd_reader *reader)
{
    struct sl_cipd_ahead *ahead = reader->ahead;
    int64_t now = sl_os_now(), deadline = sl_os_deadline(CLOSE_TIMEOUT);
    uint32_t running = RUNNING;

    if (!ahead)
        return true;
    while (sl_load(&ahead->thread, acquire) == RUNNING && now < deadline) {
        (void)sl_os_futex_wait(&ahead->thread, RUNNING, deadline);
        now = sl_os_now();
    }
    return !atomic_compare_exchange_strong(&ahead->thread, &running, ABANDONED);
}

void sl_cipd_ahead_end(struct sl_cipd_reader *reader)
{
    if (reader->ahead)
        sl_cipd_free_queue_run(reader->free_queue, destroy, reader->ahead, 0);
    reader->ahead = NULL;
}
