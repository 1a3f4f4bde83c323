/* SPDX-License-Identifier: MIT */
#include "native/reader/gpu_wait.h"

#include <stdio.h>

#include "channel/stream_deps.h"
#include "util/result.h"

#define CHECK_INTERVAL (5 * SLUICE_MS)
#define DRIVER_TIMEOUT (SLUICE_S / 4) /* how long a dead writer's GPU may still work (protocol 4.1) */
#define MIN_PAUSE      (SLUICE_MS / 50)
#define MAX_PAUSE      SLUICE_MS
#define CLOSE_TIMEOUT  (2 * SLUICE_S) /* how long the close of a reader waits */

/* A stream that waits for a frame of a reader, or a lost frame that was not reported yet. Guarded by the service lock.
 */
static struct gpu_wait {
    struct sl_reader *reader; /* NULL: the entry is free */
    struct sl_session *session;
    struct sl_stream_wait *dependency;
    uint64_t sequence; /* 0: lost, and already reported */
    int64_t deadline;
    uint32_t slot;
    uint32_t merged; /* lost frames of the session that were merged into this entry */
    bool knows_gone; /* the deadline was shortened, as the writer is gone */
} waits[SL_STREAM_WAITS];
static uint32_t waiting; /* entries that are not lost: each holds a place of sl_sync_wait_reserve */

static void on_timer(struct sl_watch *watch);

static struct sl_watch watch = { .fd = -1, .timer = on_timer };

static bool is_lost(const struct gpu_wait *wait)
{
    return wait->dependency->lost;
}

/* Adds `change`, which may be -1 as unsigned. */
static void count_waiting(struct sl_session *session, uint32_t change)
{
    waiting += change;
    session->waiting += change;
    sl_store(session->link->page.waiting_streams, session->waiting, relaxed);
}

static void stop_waiting(const struct gpu_wait *wait)
{
    count_waiting(wait->session, (uint32_t)-1);
    sl_sync_wait_release();
}

static void remove_wait(struct gpu_wait *wait)
{
    if (!is_lost(wait))
        stop_waiting(wait);
    sl_stream_wait_remove(wait->dependency);
    wait->reader = NULL;
}

/* How many lost frames must be reported to its reader. */
static uint32_t count_losses(const struct gpu_wait *wait)
{
    return wait->merged + (wait->sequence != 0);
}

static void lose_frame(struct gpu_wait *wait)
{
    struct sl_session *session = wait->session;

    wait->dependency->lost =
        true; /* before the poison: whoever sees that also sees this, and that a loss must be reported */
    sl_add(&wait->reader->unreported, 1);
    sl_store(&session->poisoned[wait->slot], 1, relaxed);
    sl_store(&session->link->page.semaphores[wait->slot], SL_POISON, seq_cst);
    sl_add(&wait->reader->counts.lost, 1);
    stop_waiting(wait);
    sl_wake_with_news(wait->reader); /* acquire has this to report */
    sl_log(SLUICE_LOG_WARN,
           "channel '%s': frame %llu was not finished in time: a stream that waited for it continues without it",
           wait->reader->base.name, (unsigned long long)wait->sequence);
}

static void check_wait(struct gpu_wait *wait, int64_t now)
{
    const struct sl_link *link = wait->session->link;

    if (sl_reached(sl_load(&link->page.semaphores[wait->slot], acquire), wait->sequence)) {
        remove_wait(wait);
        return;
    }
    if (!wait->knows_gone && sl_load(&link->gone, acquire)) {
        wait->knows_gone = true;
        if (wait->deadline > now + DRIVER_TIMEOUT)
            wait->deadline = now + DRIVER_TIMEOUT;
    }
    if (now >= wait->deadline || sl_load(&link->words.ready[wait->slot], acquire) == SL_POISON)
        lose_frame(wait);
}

static void check_all(int64_t now)
{
    for (int i = 0; i < SL_STREAM_WAITS; i++)
        if (waits[i].reader && !is_lost(&waits[i]))
            check_wait(&waits[i], now);
}

static void on_timer(struct sl_watch *self)
{
    check_all(sl_os_now());
    if (waiting > 0)
        sl_service_set_deadline(self, sl_os_deadline(CHECK_INTERVAL));
    else
        sl_service_remove(self);
}

/* Merges two lost frames of one session. Both are reported, but the second without its number. */
static bool merge_lost(void)
{
    for (int i = 0; i < SL_STREAM_WAITS; i++) {
        struct gpu_wait *first = &waits[i];
        for (int j = i + 1; first->reader && is_lost(first) && j < SL_STREAM_WAITS; j++) {
            struct gpu_wait *second = &waits[j];
            if (!second->reader || !is_lost(second) || second->session != first->session)
                continue;
            first->merged += count_losses(second);
            sl_stream_wait_merge(first->dependency, second->dependency);
            second->reader = NULL;
            return true;
        }
    }
    return false;
}

static const struct sl_stream_wait_source source = { .refresh = check_all, .make_room = merge_lost };

/* ---- begin, end ---- */

/* Does an existing entry prevent a new one? If not, the service thread checks them soon enough: their words are on
 * cache lines that a GPU has written, and fetching those takes as long as most of acquire. */
static bool is_blocked(const struct sl_session *session, uint32_t slot)
{
    bool same = false;

    for (int i = 0; i < SL_STREAM_WAITS; i++) /* they would share the word to be poisoned */
        same = same || (waits[i].reader && waits[i].session == session && waits[i].slot == slot);
    return same || !sl_sync_wait_available();
}

static struct gpu_wait *find_free(void)
{
    for (int i = 0; i < SL_STREAM_WAITS; i++)
        if (!waits[i].reader)
            return &waits[i];
    return NULL;
}

/* Takes a place of sl_sync_wait_reserve, and has the service thread check the entries. */
static bool reserve_wait(void)
{
    if (!sl_sync_wait_reserve())
        return false;
    if (watch.added || sl_service_add(&watch) == 0)
        return true;
    sl_sync_wait_release();
    return false;
}

/* Under the service lock. */
static bool add_wait(struct sl_reader *reader, uint32_t slot, uint64_t sequence, const struct sl_stream_point *first)
{
    struct sl_stream_wait *dependency = sl_stream_wait_add(reader->session, sequence, first, &source);
    struct gpu_wait *wait = find_free();

    if (!dependency)
        return false;
    if (!wait || !reserve_wait()) {
        sl_stream_wait_remove(dependency);
        return false;
    }
    *wait = (struct gpu_wait){ .reader = reader,
                               .session = reader->session,
                               .dependency = dependency,
                               .sequence = sequence,
                               .slot = slot,
                               .deadline = sl_os_later(reader->now, reader->params.ahead_ns) };
    count_waiting(reader->session, 1);
    if (!watch.deadline)
        sl_service_set_deadline(&watch, reader->now + CHECK_INTERVAL);
    return true;
}

bool sl_gpu_wait_begin(struct sl_reader *reader, uint32_t slot, uint64_t sequence, const struct sl_stream *stream)
{
    struct sl_stream_point first = sl_stream_point(stream);

    sl_service_lock();
    if (is_blocked(reader->session, slot))
        check_all(reader->now);
    bool begun = add_wait(reader, slot, sequence, &first);
    sl_service_unlock();
    return begun;
}

static struct gpu_wait *find_wait(const struct sl_session *session, uint32_t slot, uint64_t sequence)
{
    for (int i = 0; i < SL_STREAM_WAITS; i++)
        if (waits[i].reader && waits[i].session == session && waits[i].slot == slot && waits[i].sequence == sequence)
            return &waits[i];
    return NULL;
}

void sl_gpu_wait_cancel(const struct sl_reader *reader, uint32_t slot, uint64_t sequence)
{
    sl_service_lock();
    struct gpu_wait *wait = find_wait(reader->session, slot, sequence);
    if (wait)
        remove_wait(wait);
    sl_service_unlock();
}

static void mark_reported(struct gpu_wait *wait)
{
    sl_add(&wait->reader->unreported, -count_losses(wait));
    remove_wait(wait);
}

/* For its own frame only. */
static void mark_one_reported(struct gpu_wait *wait)
{
    if (wait->merged == 0) {
        mark_reported(wait);
    } else {
        sl_add(&wait->reader->unreported, (uint32_t)-1);
        wait->sequence = 0;
    }
}

bool sl_gpu_wait_was_lost(const struct sl_session *session, uint32_t slot, uint64_t sequence)
{
    sl_service_lock();
    struct gpu_wait *wait = find_wait(session, slot, sequence);
    bool lost = wait && is_lost(wait);
    if (lost)
        mark_one_reported(wait);
    sl_service_unlock();
    return lost;
}

int sl_gpu_wait_report_all(struct sl_reader *reader)
{
    char list[160] = "", rest[32] = "";
    uint32_t count = 0, named = 0;
    size_t at = 0;

    sl_service_lock();
    for (int i = 0; i < SL_STREAM_WAITS; i++) {
        if (waits[i].reader != reader || !is_lost(&waits[i]))
            continue;
        if (waits[i].sequence != 0 && at < sizeof list - 24)
            at += (size_t)snprintf(list + at, sizeof list - at, named++ ? ", %llu" : "frame %llu",
                                   (unsigned long long)waits[i].sequence);
        count += count_losses(&waits[i]);
        mark_reported(&waits[i]);
    }
    sl_service_unlock();
    if (count == 0)
        return 0;
    if (count > named)
        (void)snprintf(rest, sizeof rest, named ? " and %u more" : "%u frames", count - named);
    return sl_fail(SLUICE_E_LOST, "channel '%s': its writer did not finish %s%s: discard everything computed from it",
                   reader->base.name, list, rest);
}

/* ---- the end of a reader ---- */

/* Does a stream wait for a frame of this reader? `give_up`: lets it continue. */
static bool is_waited_for(struct sl_reader *reader, bool give_up)
{
    bool any = false;

    sl_service_lock();
    check_all(sl_os_now());
    for (int i = 0; i < SL_STREAM_WAITS; i++) {
        if (waits[i].reader != reader || is_lost(&waits[i]))
            continue;
        if (give_up)
            lose_frame(&waits[i]);
        else
            any = true;
    }
    sl_service_unlock();
    return any;
}

void sl_gpu_wait_drain(struct sl_reader *reader)
{
    int64_t deadline = sl_os_deadline(CLOSE_TIMEOUT), pause = MIN_PAUSE;

    while (sl_load(&sl_stream_waits_used, relaxed) > 0 && is_waited_for(reader, sl_os_now() >= deadline)) {
        sl_os_sleep(pause);
        pause = pause * 2 < MAX_PAUSE ? pause * 2 : MAX_PAUSE;
    }
}

void sl_gpu_wait_forget(const struct sl_session *session)
{
    for (int i = 0; i < SL_STREAM_WAITS; i++) {
        if (!waits[i].reader || waits[i].session != session)
            continue;
        if (is_lost(&waits[i]))
            mark_reported(&waits[i]);
        else
            remove_wait(&waits[i]);
    }
}
