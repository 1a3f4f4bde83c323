/* SPDX-License-Identifier: MIT
 *
 * Frames that are taken ahead of their readiness: the program's stream waits for a word of ours, which the service thread
 * raises when it has seen the slot's event, or when that has taken too long. So no stream waits for a writer that may
 * be dead for longer than ahead_ns; one that waited for the event itself could not be released by anybody.
 */
#include <stdlib.h>

#include "cipd/cipd.h"
#include "core/behind.h"
#include "device/device.h"
#include "sync/sync.h"
#include "util/result.h"

#define LOOK (50 * INT64_C(1000)) /* ns between looks of the service thread */

extern const struct sl_sync_ops sl_sync_cuda;

struct sl_cipd_ahead {
    struct sl_cipd_reader *reader;
    sl_word *words; /* one for each entry */
    uint64_t bytes;
    struct sl_sync_pages *pages;
    struct sl_watch watch;
    uint64_t number;  /* of the last wait; the acquiring thread's */
    sl_word32 untold; /* 1: of frames that were released, some have not come; those are the `owner` of what is behind them */
};

/* ---- the service thread ---- */

/* The stream goes on. With the service lock, and the reader's. */
static void raise(struct sl_cipd_ahead *ahead, struct sl_cipd_held *held, enum sl_cipd_wait how)
{
    bool released = sl_load(&held->token, relaxed) == SL_CIPD_RELEASED;

    if (how == SL_CIPD_CAME)
        sl_behind_end(ahead, held->ahead_number);
    else
        sl_behind_lose(ahead, held->ahead_number, released ? (void *)&ahead->untold : ahead);
    if (how != SL_CIPD_CAME && released)
        sl_store(&ahead->untold, 1, relaxed);
    sl_store(&ahead->words[held - ahead->reader->held], held->ahead_value, release);
    held->waits = how;
    sl_sync_unpark();
    if (released)
        sl_cipd_held_end(ahead->reader, held);
}

static bool look_at(struct sl_cipd_ahead *ahead, struct sl_cipd_held *held, int64_t now)
{
    struct sl_cipd_reader *reader = ahead->reader;
    const struct sl_cipd_slot *slot = &held->link->pool->slots[held->frame.slot];
    int r = sl_cuda_event_look(reader->context, sl_cuda_signal_event(slot->signal));

    if (r == SLUICE_NOT_READY && now < held->ahead_until && held->link == reader->link &&
        !sl_cipd_consume_gone(&reader->consumer, &held->frame))
        return true;
    if (r != 0)
        sl_store(&reader->timeouts, sl_load(&reader->timeouts, relaxed) + 1, relaxed);
    raise(ahead, held, r == 0 ? SL_CIPD_CAME : SL_CIPD_CAME_NOT);
    return false;
}

static void look(struct sl_watch *watch)
{
    struct sl_cipd_ahead *ahead = (struct sl_cipd_ahead *)((char *)watch - offsetof(struct sl_cipd_ahead, watch));
    struct sl_cipd_reader *reader = ahead->reader;
    struct sl_cuda_scope scope;
    bool more = false;

    sl_mutex_lock(&reader->lock);
    bool lost = sl_cuda_enter(reader->context, SL_CUDA_RELAXED, &scope) != 0;
    int64_t now = sl_os_now();
    for (uint32_t i = 0; i < reader->params.hold; i++) {
        struct sl_cipd_held *held = &reader->held[i];
        if (held->waits != SL_CIPD_WAITS)
            continue;
        if (lost)
            raise(ahead, held, SL_CIPD_CAME_NOT);
        else
            more = look_at(ahead, held, now) || more;
    }
    if (!lost)
        sl_cuda_leave(&scope);
    sl_mutex_unlock(&reader->lock);
    if (more)
        sl_service_set_deadline(watch, sl_os_deadline(LOOK));
}

/* ---- the acquiring thread ---- */

static int equip(struct sl_cipd_ahead *ahead, const char *device)
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

static void destroy(struct sl_cipd_ahead *ahead)
{
    sl_sync_cuda.detach(ahead->pages);
    if (ahead->words)
        sl_os_unmap(ahead->words, ahead->bytes);
    free(ahead);
}

int sl_cipd_ahead_begin(struct sl_cipd_reader *reader)
{
    struct sl_cipd_ahead *ahead = calloc(1, sizeof *ahead);
    int r;

    if (!ahead)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel 'cipd:%s': no memory for waits of streams", reader->name);
    ahead->reader = reader;
    ahead->watch = (struct sl_watch){ .fd = -1, .timer = look };
    if ((r = equip(ahead, reader->device)) != 0) {
        destroy(ahead);
        if (r != SLUICE_E_UNSUPPORTED)
            return r;
        sl_log(SLUICE_LOG_INFO, "channel 'cipd:%s': the CPU waits for frames, not streams: %s", reader->name, sluice_last_error());
        return 0;
    }
    sl_service_lock();
    r = sl_service_add(&ahead->watch);
    sl_service_unlock();
    if (r != 0)
        destroy(ahead);
    else
        reader->ahead = ahead;
    return r;
}

void sl_cipd_ahead_told(struct sl_cipd_ahead *ahead, uint64_t number)
{
    sl_service_lock();
    sl_behind_end(ahead, number);
    sl_service_unlock();
}

void sl_cipd_ahead_goes_on(struct sl_cipd_reader *reader)
{
    struct sl_cipd_ahead *ahead = reader->ahead;

    if (!ahead || sl_load(&ahead->untold, relaxed) == 0)
        return;
    sl_service_lock();
    sl_store(&ahead->untold, 0, relaxed);
    sl_behind_end_all(&ahead->untold);
    sl_service_unlock();
}

static int await(struct sl_cipd_ahead *ahead, struct sluice_stream handle, sl_word *word, uint64_t value)
{
    struct sl_stream *stream;
    int r = sl_sync_cuda.check(ahead->pages, handle);

    if (r != 0 || (r = sl_stream_hold(handle, &stream)) != 0)
        return r;
    if (!sl_behind_begin(ahead, ++ahead->number, stream))
        r = SLUICE_NO_SLOT;
    else if ((r = sl_sync_cuda.await(ahead->pages, stream, word, value)) != 0)
        sl_cipd_ahead_told(ahead, ahead->number);
    sl_object_drop(&stream->object);
    return r;
}

int sl_cipd_ahead_wait(struct sl_cipd_reader *reader, struct sl_cipd_held *held, struct sluice_stream stream)
{
    struct sl_cipd_ahead *ahead = reader->ahead;
    sl_word *word = &ahead->words[held - reader->held];
    int r;

    if (!sl_sync_park())
        return SLUICE_NO_SLOT;
    uint64_t value = sl_load(word, relaxed) + 1;
    if ((r = await(ahead, stream, word, value)) != 0) {
        sl_sync_unpark();
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
    sl_service_lock();
    sl_mutex_lock(&reader->lock);
    held->waits = SL_CIPD_WAITS;
    sl_mutex_unlock(&reader->lock);
    sl_service_set_deadline(&reader->ahead->watch, sl_os_now());
    sl_service_unlock();
}

/* The streams go on, though their frames may never come. */
void sl_cipd_ahead_end(struct sl_cipd_reader *reader)
{
    struct sl_cipd_ahead *ahead = reader->ahead;

    if (!ahead)
        return;
    sl_service_lock();
    sl_service_remove(&ahead->watch);
    sl_mutex_lock(&reader->lock);
    for (uint32_t i = 0; i < reader->params.hold; i++)
        if (reader->held[i].waits == SL_CIPD_WAITS)
            raise(ahead, &reader->held[i], SL_CIPD_CAME_NOT);
    sl_mutex_unlock(&reader->lock);
    sl_behind_end_all(ahead);
    sl_behind_end_all(&ahead->untold);
    sl_service_unlock();
    destroy(ahead);
    reader->ahead = NULL;
}
