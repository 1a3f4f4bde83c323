/* SPDX-License-Identifier: MIT
 *
 * Opening, describing and closing a reader.
 */
#include "native/reader/reader.h"
#include "native/reader/peer_copy.h"

#include <stdio.h>
#include <string.h>

#include "channel/fetch.h"
#include "format/format.h"
#include "native/reader/gpu_wait.h"
#include "util/result.h"

#define DEFAULT_SPIN         (SLUICE_MS / 100)
#define DEFAULT_AHEAD        (2 * SLUICE_S)
#define FIRST_ANSWER_TIMEOUT SLUICE_S /* even SLUICE_LATER waits for the first answer, if there is a writer */

static int complete_params(struct sluice_reader_params *params)
{
    const char *name = params->name;

    if (params->mode > SLUICE_IN_ORDER)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': %u is no mode", name, params->mode);
    if (params->hold == 0)
        params->hold = 1;
    if (params->every == 0)
        params->every = 1;
    if ((params->hold > SLUICE_MAX_SLOTS && params->hold != SLUICE_MOST) || params->depth > SLUICE_MAX_SLOTS)
        return sl_fail(
            SLUICE_E_LIMIT,
            "channel '%s': %s %u is too much: a channel allows two less than it has slots, which are %d at most", name,
            params->depth > SLUICE_MAX_SLOTS ? "depth" : "hold",
            params->depth > SLUICE_MAX_SLOTS ? params->depth : params->hold, SLUICE_MAX_SLOTS);
    if (params->writable > 1)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': writable is 0 or 1, not %u", name, params->writable);
    if (params->ahead > 1)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': ahead is 0 or 1, not %u", name, params->ahead);
    if (params->staged > SLUICE_STAGED_ALWAYS || params->reserved)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': staged is 0, 1 or 2, not %u, and reserved is 0", name,
                       params->staged);
    if (params->staged && params->writable)
        return sl_fail(SLUICE_E_INVALID,
                       "channel '%s': what is changed in a copy changes no frame: staged or writable, not both", name);
    if (params->ahead_ns == 0)
        params->ahead_ns = DEFAULT_AHEAD;
    if (params->open_timeout_ns < SLUICE_LATER || params->spin_ns < -1 || params->ahead_ns < 0)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': a time may not be negative", name);
    if (params->spin_ns == 0)
        params->spin_ns = DEFAULT_SPIN;
    if (params->uid_count && !params->uids)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': a count of users without the list", name);
    return 0;
}

/* On a thread of its own, without a lock. */
static void outlast_captures(void *argument)
{
    struct sl_reader *reader = argument;

    do {
        sl_os_sleep(SLUICE_MS);
        sl_release_settle(reader);
    } while (sl_release_deferred(reader));
    sl_object_drop(&reader->base.object);
}

/* Releases are deferred while a stream captures, and this thread may be the one that will end the capture, so it must
 * not wait here. True if the end of the reader is deferred, too. */
static bool defer_end(struct sl_reader *reader)
{
    sl_release_settle(reader);
    if (!sl_release_deferred(reader))
        return false;
    sl_object_defer_finish(&reader->base.object);
    if (sl_os_start_thread(outlast_captures, reader) == 0)
        return true;
    sl_log(SLUICE_LOG_WARN,
           "channel '%s': closed while a graph capture defers a release, and no thread could be started to wait for "
           "its end: its frame stays "
           "held until the process ends: %s",
           reader->base.name, sl_last_error());
    return true;
}

/* Dropping the last reference to the object ends the reader. */
static void finish(struct sl_object *object)
{
    struct sl_reader *reader = (struct sl_reader *)object;

    if (defer_end(reader))
        return;
    sl_gpu_wait_drain(reader);
    /* While a release is queued, we still hold the slot, and the page is in use (protocol 1.2). */
    bool done = sl_release_drain(reader);

    sl_frame_streams_end(&reader->base.streams);
    bool device = reader->session && reader->session->pages;
    bool copied = sl_fetch_end(&reader->base, !done);
    sl_service_lock();
    if (reader->session)
        sl_poll_fd_remove(reader, reader->session);
    if (reader->join)
        sl_join_close(reader->join, done);
    reader->join = NULL;
    sl_service_unlock();
    if (done && copied) {
        sl_session_end_all(reader);
        sl_peer_copy_free_buffers(reader);
        if (device)
            sl_background_await(reader->base.name);
    } else {
        sl_log(SLUICE_LOG_WARN,
               "channel '%s': closed with %s work that does not end: the memory of its frames stays until the process "
               "ends",
               reader->base.name, done ? "copies behind" : "releases queued behind");
    }
    sl_os_close(reader->poll.epoll);
    sl_os_close(reader->poll.note);
    reader->poll.epoll = reader->poll.note = -1;
    sl_trace_close();
}

/* ---- open ---- */

static bool is_linked(const struct sl_reader *reader)
{
    return reader->session && !sl_load(&reader->session->link->gone, acquire);
}

static bool has_format(const struct sl_reader *reader)
{
    return reader->session && sl_load(&reader->session->link->memory_count, acquire) > 0;
}

/* The result of the attempts to connect so far: 0 if there is none, or an answer is pending; else the last failure,
 * with its message. */
static int check_attempts(struct sl_reader *reader, int64_t *answer_by)
{
    char text[sizeof reader->join->text];
    int result;

    sl_service_lock();
    *answer_by = reader->join->answer_by;
    result = reader->join->attempts && !*answer_by ? reader->join->result : 0;
    snprintf(text, sizeof text, "%s", reader->join->text);
    sl_service_unlock();
    return result ? sl_fail_text(result, text) : 0;
}

/* Ends the attempts, unless one has reached a writer meanwhile, for which we may already be a reader that it
 * sends frames to. */
static bool stop_joining(struct sl_reader *reader, int64_t now)
{
    sl_service_lock();
    bool over = reader->join->answer_by <= now;
    if (over) {
        sl_join_close(reader->join, true);
        reader->join = NULL;
    }
    sl_service_unlock();
    return over;
}

static int wait_for_writer(struct sl_reader *reader)
{
    bool later = reader->params.open_timeout_ns == SLUICE_LATER;
    int64_t patience = later ? 0 : reader->params.open_timeout_ns;
    int64_t absent_until = sl_os_deadline(patience), answer_until = sl_os_deadline(FIRST_ANSWER_TIMEOUT);

    for (;;) {
        uint32_t bell_count = sl_load(&reader->bell, acquire);
        sl_session_handle_news(reader);
        int r = is_linked(reader) ? 0 : sl_session_switch(reader);
        if (r < 0)
            return r;
        if (has_format(reader))
            return 0;
        int64_t now = sl_os_now(), until = absent_until, answer_by;
        r = check_attempts(reader, &answer_by);
        bool absent = r == SLUICE_E_NOT_FOUND || r == SLUICE_TIMEOUT || r == SLUICE_AGAIN;
        if (r != 0 && !absent)
            return r;
        if (absent && later)
            return 0;
        /* A writer that hung up, or whose queue of connections is full, may answer later. */
        int64_t answer = answer_by ? answer_by : r == 0 || r == SLUICE_AGAIN ? answer_until : 0;
        if (answer > until)
            until = answer;
        if (now < until) {
            (void)sl_os_futex_wait(&reader->bell, bell_count, until);
        } else if (later) {
            return 0;
        } else if (stop_joining(reader, now)) {
            if (r == 0)
                return sl_fail(SLUICE_TIMEOUT, "the writer of channel '%s' does not answer: is it stopped?",
                               reader->base.name);
            return r == SLUICE_AGAIN ? SLUICE_TIMEOUT : r;
        }
    }
}

static int start_joining(struct sl_reader *reader)
{
    struct sl_join_params params = {
        .name = reader->base.name,
        .reader = &reader->params,
        .linked = sl_session_linked,
        .changed = sl_session_changed,
        .context = reader,
    };

    sl_service_lock();
    int r = sl_join_open(&params, &reader->join);
    reader->holds_most = reader->params.hold == SLUICE_MOST;
    if (reader->holds_most)
        reader->params.hold = SLUICE_MAX_SLOTS; /* entries; each writer grants its own number */
    sl_service_unlock();
    return r;
}

int sl_native_reader_open(struct sluice_reader *base, const struct sluice_reader_params *params)
{
    struct sl_reader *reader = sl_reader_of(base);
    struct sluice_reader_params complete = *params;
    int r;

    base->object.finish = finish;
    reader->poll.epoll = reader->poll.note = -1;
    complete.name = base->name;
    complete.device = NULL;
    if ((r = complete_params(&complete)) != 0)
        return r;
    reader->params = complete; /* not before: `finish` relies on them */
    if (params->device && !sl_device_kind(params->device))
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "channel '%s': there is no device '%.80s'; leave it out, or use \"host\" or \"cuda:0\"",
                       base->name, params->device);
    if (params->device)
        snprintf(reader->device, sizeof reader->device, "%s", params->device);
    if ((r = start_joining(reader)) != 0 || (r = wait_for_writer(reader)) != 0)
        return r;
    reader->params.uids = NULL;
    sl_service_lock();
    reader->next.use_thread = true;
    (void)sl_session_open_begin(reader); /* one that came just now */
    sl_service_unlock();
    return 0;
}

void sl_native_reader_stop(struct sluice_reader *base)
{
    sl_session_stop(sl_reader_of(base));
}

void sl_native_reader_stopped(struct sluice_reader *base)
{
    sl_session_open_wait(sl_reader_of(base));
}

/* ---- format, device, stats ---- */

int sl_native_reader_format(struct sluice_reader *base, struct sluice_format *format)
{
    struct sl_reader *reader = sl_reader_of(base);
    int r;

    sl_session_handle_news(reader);
    if (!reader->session)
        (void)sl_session_switch(reader);
    sl_service_lock();
    if (reader->session && reader->session->link->memories)
        r = sl_format_store(format, &reader->session->link->memories->format);
    else
        r = sl_fail(SLUICE_NO_WRITER, "channel '%s': no writer has announced a format yet", base->name);
    sl_service_unlock();
    return r;
}

void sl_native_reader_device(struct sluice_reader *base, char name[SL_DEVICE_NAME])
{
    struct sl_reader *reader = sl_reader_of(base);

    sl_service_lock();
    snprintf(name, SL_DEVICE_NAME, "%s", reader->session ? reader->session->device : reader->device);
    sl_service_unlock();
}

/* Counts the slots in memory of the last generation announced. Under the service lock. */
static uint32_t count_slots(const struct sl_link *link)
{
    uint32_t slots = 0;

    for (uint32_t s = 0; link->memories && s < link->words.ids; s++) {
        uint32_t number = sl_load(&link->words.slot_memory[s], acquire);
        const struct sl_link_memory *memory = number ? link->memories : NULL;
        while (memory && memory->memory != number)
            memory = memory->next;
        slots += memory && memory->generation == link->memories->generation;
    }
    return slots;
}

static uint32_t count_held(const struct sl_reader *reader)
{
    uint32_t held = 0;

    for (uint32_t i = 0; i < reader->params.hold; i++)
        held += sl_load(&reader->held[i].token, relaxed) != 0;
    return held;
}

void sl_native_reader_stats(struct sluice_reader *base, struct sluice_reader_stats *stats)
{
    struct sl_reader *reader = sl_reader_of(base);

    *stats = (struct sluice_reader_stats){
        .taken = sl_load(&reader->counts.taken, relaxed),
        .missed = sl_load(&reader->counts.missed, relaxed),
        .lost = sl_load(&reader->counts.lost, relaxed),
        .retries = sl_load(&reader->counts.retries, relaxed),
        .sessions = sl_load(&reader->counts.sessions, relaxed),
        .held = count_held(reader),
        .latency_ns = sl_load(&reader->counts.latency_ns, relaxed),
    };
    sl_service_lock();
    if (reader->session) {
        const struct sl_link *link = reader->session->link;
        uint64_t head = sl_head_sequence(sl_load(link->words.head, acquire));
        uint64_t last = sl_load(link->page.last, relaxed);
        stats->connected = !sl_load(&link->gone, acquire);
        stats->session = link->session;
        stats->depth = link->depth;
        stats->hold = sl_held_most(reader);
        stats->clock_offset_ns = link->clock_offset_ns;
        stats->lag = head > last ? head - last : 0;
        stats->slots = count_slots(link);
        stats->generation = link->memories ? link->memories->generation : 0;
    }
    sl_service_unlock();
}
