/* SPDX-License-Identifier: MIT
 *
 * Opening, describing and closing a reader.
 */
#include "native/reader/reader.h"

#include <stdio.h>
#include <string.h>

#include "channel/channel.h"
#include "format/format.h"
#include "util/params.h"
#include "native/reader/gpu_wait.h"
#include "util/result.h"

#define DEFAULT_SPIN (SLUICE_MS / 100)
#define DEFAULT_AHEAD (2 * SLUICE_S)
#define FIRST_ATTEMPT SLUICE_S /* even SLUICE_LATER waits for the first answer, if there is a writer */
#define LEAST_PARAMS offsetof(struct sluice_reader_params, depth)

int sl_reader_hold(sluice_reader *handle, struct sluice_reader **reader)
{
    struct sl_object *object;
    int r = sl_object_hold((uint64_t)(uintptr_t)handle, SL_HANDLE_READER, &object);

    if (r == 0)
        *reader = (struct sluice_reader *)object;
    return r;
}

static int complete_params(struct sluice_reader_params *params)
{
    const char *name = params->name;

    if (params->mode > SLUICE_IN_ORDER)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': %u is no mode", name, params->mode);
    if (params->hold == 0)
        params->hold = 1;
    if (params->every == 0)
        params->every = 1;
    if (params->hold > SLUICE_MAX_SLOTS || params->depth > SLUICE_MAX_SLOTS)
        return sl_fail(SLUICE_E_LIMIT, "channel '%s': hold %u and depth %u, %d at most", name, params->hold,
                       params->depth, SLUICE_MAX_SLOTS);
    if (params->writable > 1)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': writable is 0 or 1, not %u", name, params->writable);
    if (params->ahead > 1)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': ahead is 0 or 1, not %u", name, params->ahead);
    if (params->staged > SLUICE_STAGED_ALWAYS || params->reserved)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': staged is 0, 1 or 2, not %u, and reserved is 0", name, params->staged);
    if (params->staged && params->writable)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': what is changed in a copy changes no frame: staged or writable, not both",
                       name);
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
    struct sluice_reader *reader = argument;

    do {
        sl_os_sleep(SLUICE_MS);
        sl_release_settle(reader);
    } while (sl_release_deferred(reader));
    sl_object_drop(&reader->object);
}

/* Releases are deferred while a stream captures, and this thread may be the one that will end the capture, so it must
 * not wait here. True if the end of the reader is deferred, too. */
static bool put_off(struct sluice_reader *reader)
{
    sl_release_settle(reader);
    if (!sl_release_deferred(reader))
        return false;
    sl_object_put_off(&reader->object);
    if (sl_os_start_thread(outlast_captures, reader) == 0)
        return true;
    sl_log(SLUICE_LOG_WARN,
           "channel '%s': closed while a capture holds a release back, and nobody can outlast that: its frame stays held "
           "until the process ends: %s",
           reader->name, sluice_last_error());
    return true;
}

/* Dropping the last reference to the object ends the reader. */
static void finish(struct sl_object *object)
{
    struct sluice_reader *reader = (struct sluice_reader *)object;

    if (put_off(reader))
        return;
    sl_park_drain(reader);
    /* While a release is queued, we still hold the slot, and the page is in use (protocol 1.2). */
    bool done = sl_release_drain(reader);

    bool device = reader->session && reader->session->pages;
    bool copied = sl_fetch_end(reader, !done);
    sl_service_lock();
    if (reader->session)
        sl_gate_leave(reader, reader->session);
    if (reader->join)
        reader->join->ops->join_close(reader->join, done);
    reader->join = NULL;
    sl_service_unlock();
    if (done && copied) {
        sl_session_reap(reader, true);
        sl_staged_end(reader);
        if (device)
            sl_apart_await(reader->name);
    } else {
        sl_log(SLUICE_LOG_WARN, "channel '%s': closed with %s work that does not end: the memory of its frames stays until the process ends",
               reader->name, done ? "copies behind" : "releases queued behind");
    }
    sl_os_close(reader->gate);
    sl_os_close(reader->note);
    reader->gate = reader->note = -1;
    sl_trace_close();
}

/* ---- open ---- */

static bool is_linked(const struct sluice_reader *reader)
{
    return reader->session && !sl_load(&reader->session->link->gone, acquire);
}

static bool has_format(const struct sluice_reader *reader)
{
    return reader->session && sl_load(&reader->session->link->memory_count, acquire) > 0;
}

/* The result of the attempts to connect so far: 0 if there is none, or an answer is pending; else the last failure,
 * with its message. */
static int attempts_said(struct sluice_reader *reader, int64_t *answer_by)
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
static bool give_up(struct sluice_reader *reader, int64_t now)
{
    sl_service_lock();
    bool over = reader->join->answer_by <= now;
    if (over) {
        reader->join->ops->join_close(reader->join, true);
        reader->join = NULL;
    }
    sl_service_unlock();
    return over;
}

static int wait_for_writer(struct sluice_reader *reader)
{
    bool later = reader->params.open_timeout_ns == SLUICE_LATER;
    int64_t patience = later ? 0 : reader->params.open_timeout_ns;
    int64_t absent_until = sl_os_deadline(patience), answer_until = sl_os_deadline(FIRST_ATTEMPT);

    for (;;) {
        uint32_t rung = sl_load(&reader->bell, acquire);
        sl_session_attend(reader);
        int r = is_linked(reader) ? 0 : sl_session_switch(reader);
        if (r < 0)
            return r;
        if (has_format(reader))
            return 0;
        int64_t now = sl_os_now(), until = absent_until, answer_by;
        r = attempts_said(reader, &answer_by);
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
            (void)sl_os_wait(&reader->bell, rung, until);
        } else if (later) {
            return 0;
        } else if (give_up(reader, now)) {
            if (r == 0)
                return sl_fail(SLUICE_TIMEOUT, "the writer of channel '%s' does not answer: is it stopped?", reader->name);
            return r == SLUICE_AGAIN ? SLUICE_TIMEOUT : r;
        }
    }
}

static int start_joining(struct sluice_reader *reader, const struct sl_wire_ops *wire)
{
    struct sl_join_params params = {
        .name = reader->name,
        .reader = &reader->params,
        .linked = sl_session_linked,
        .changed = sl_session_changed,
        .context = reader,
    };

    sl_service_lock();
    int r = wire->join(&params, &reader->join);
    sl_service_unlock();
    return r;
}

int sluice_reader_open(sluice_reader **out, const struct sluice_reader_params *caller)
{
    struct sluice_reader_params params;
    const struct sl_wire_ops *wire;
    const char *name, *device;
    uint64_t handle;
    int r;

    if (!out)
        return sl_fail(SLUICE_E_INVALID, "no place for the reader's handle was given");
    if ((r = sl_object_forked()) != 0)
        return r;
    if ((r = sl_params_load(&params, sizeof params, LEAST_PARAMS, caller, "struct sluice_reader_params")) != 0 ||
        (r = sl_wire_of(params.name, &wire, &name)) != 0)
        return r;
    if (sl_bare_of(wire))
        return sl_bare_reader_open(out, sl_bare_of(wire), name, &params);
    if (params.cipd)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': `cipd` is for channels named \"cipd:NAME\"", name);
    device = params.device;
    params.name = name;
    params.device = NULL;
    if ((r = complete_params(&params)) != 0)
        return r;

    struct sluice_reader *reader = (struct sluice_reader *)sl_object_new(SL_HANDLE_READER, sizeof *reader);
    if (!reader)
        return SLUICE_E_NO_MEMORY;
    reader->gate = reader->note = -1;
    reader->object.finish = finish;
    sl_trace_open();
    SL_STAGE_BEGIN(OPEN);
    sl_mutex_init(&reader->copier_lock);
    reader->params = params;
    snprintf(reader->name, sizeof reader->name, "%s", name);
    if (device && !sl_device_kind(device))
        r = sl_fail(SLUICE_E_UNSUPPORTED,
                    "channel '%s': there is no device '%.80s'; leave it out, or use \"host\" or \"cuda:0\"", name, device);
    if (device)
        snprintf(reader->device, sizeof reader->device, "%s", device);
    if (r == 0 && (r = start_joining(reader, wire)) == 0)
        r = wait_for_writer(reader);
    if (r == 0)
        r = sl_object_name(&reader->object, &handle);
    SL_STAGE_END(OPEN);
    if (r != 0) {
        sl_object_drop(&reader->object);
        return r;
    }
    reader->params.name = reader->name;
    reader->params.uids = NULL;
    sl_service_lock();
    reader->opened = true;
    (void)sl_prepare_begin(reader); /* one that came just now */
    sl_service_unlock();
    *out = (sluice_reader *)(uintptr_t)handle;
    return 0;
}

static void stop(struct sluice_reader *reader)
{
    if (reader->bare)
        reader->bare->reader_stop(reader->state);
    else
        sl_session_stop(reader);
}

int sluice_reader_stop(sluice_reader *handle)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    stop(reader);
    sl_object_drop(&reader->object);
    return 0;
}

int sluice_reader_close(sluice_reader **handle)
{
    struct sluice_reader *reader;
    int r;

    if (!handle || !*handle)
        return 0;
    if ((r = sl_reader_hold(*handle, &reader)) != 0) {
        if (r == SLUICE_E_FORKED)
            *handle = NULL;
        return r;
    }
    stop(reader); /* also wakes an acquire on another thread */
    sl_prepare_settle(reader);
    if (sl_object_unname(&reader->object, SL_END_CLOSED))
        sl_object_drop(&reader->object);
    sl_object_drop(&reader->object);
    *handle = NULL;
    return 0;
}

/* ---- format, stats ---- */

int sluice_reader_format(sluice_reader *handle, struct sluice_format *format)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    if (reader->bare) {
        r = reader->bare->reader_format(reader->state, format);
        sl_object_drop(&reader->object);
        return r;
    }
    sl_session_attend(reader);
    if (!reader->session)
        (void)sl_session_switch(reader);
    sl_service_lock();
    if (reader->session && reader->session->link->memories)
        r = sl_format_store(format, &reader->session->link->memories->format);
    else
        r = sl_fail(SLUICE_NO_WRITER, "channel '%s': no writer has announced a format yet", reader->name);
    sl_service_unlock();
    sl_object_drop(&reader->object);
    return r;
}

int sluice_reader_device(sluice_reader *handle, char *name, size_t size)
{
    char device[SL_DEVICE_NAME];
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    sl_service_lock();
    snprintf(device, sizeof device, "%s", reader->session ? reader->session->device : reader->device);
    sl_service_unlock();
    if (reader->bare && (r = reader->bare->reader_device(reader->state, device)) != 0)
        goto out;
    size_t length = strlen(device) + 1;
    if (!name)
        r = sl_fail(SLUICE_E_INVALID, "channel '%s': no place for the device's name was given", reader->name);
    else if (!device[0])
        r = sl_fail(SLUICE_NO_WRITER, "channel '%s': no writer has told yet on which device it lies", reader->name);
    else if (size < length)
        r = sl_fail(SLUICE_E_LIMIT, "the device's name needs %zu bytes, there is room for %zu; %d are always enough", length,
                    size, SL_DEVICE_NAME);
    else
        memcpy(name, device, length);
out:
    sl_object_drop(&reader->object);
    return r;
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

static uint32_t count_held(const struct sluice_reader *reader)
{
    uint32_t held = 0;

    for (uint32_t i = 0; i < reader->params.hold; i++)
        held += sl_load(&reader->held[i].token, relaxed) != 0;
    return held;
}

static void own_stats(struct sluice_reader *reader, struct sluice_reader_stats *stats)
{
    *stats = (struct sluice_reader_stats){
        .taken = sl_load(&reader->taken, relaxed),
        .missed = sl_load(&reader->missed, relaxed),
        .lost = sl_load(&reader->lost, relaxed),
        .retries = sl_load(&reader->retries, relaxed),
        .sessions = sl_load(&reader->sessions, relaxed),
        .held = count_held(reader),
        .latency_ns = sl_load(&reader->latency_ns, relaxed),
    };
    sl_service_lock();
    if (reader->session) {
        const struct sl_link *link = reader->session->link;
        uint64_t head = sl_head_sequence(sl_load(link->words.head, acquire));
        uint64_t last = sl_load(link->page.last, relaxed);
        stats->connected = !sl_load(&link->gone, acquire);
        stats->session = link->session;
        stats->depth = link->depth;
        stats->clock_offset_ns = link->clock_offset_ns;
        stats->lag = head > last ? head - last : 0;
        stats->slots = count_slots(link);
        stats->generation = link->memories ? link->memories->generation : 0;
    }
    sl_service_unlock();
}

int sluice_reader_stats(sluice_reader *handle, struct sluice_reader_stats *caller)
{
    struct sluice_reader_stats stats = { .size = 0 };
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    if (reader->bare)
        reader->bare->reader_stats(reader->state, &stats);
    else
        own_stats(reader, &stats);
    r = sl_params_store(caller, &stats, sizeof stats, offsetof(struct sluice_reader_stats, sessions),
                        "struct sluice_reader_stats");
    sl_object_drop(&reader->object);
    return r;
}
