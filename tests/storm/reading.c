/* SPDX-License-Identifier: MIT
 *
 * A reader in a storm: takes frames, and checks everything.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "harness/test.h"
#include "storm/worker.h"

#define LONG_WAIT (3 * SLUICE_S / 2)
#define MANY      50

void reading_open(struct reading *reading, int64_t timeout_ns)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;

    params.name = reading->channel;
    params.mode = reading->mode;
    params.depth = reading->depth;
    params.hold = reading->hold;
    params.every = reading->every;
    params.open_timeout_ns = timeout_ns;
    if (worker_chance(reading->worker, 3))
        params.spin_ns = -1;
    state_doing(reading->worker->seat, "open");
    int r = sluice_reader_open(&reading->reader, &params);
    state_beat(reading->worker->seat);
    reading->session = 0;
    if (r == SLUICE_E_NOT_FOUND || r == SLUICE_TIMEOUT || r == SLUICE_AGAIN)
        reading->reader = NULL;
    else
        CHECK_OK(r);
}

void reading_close(struct reading *reading)
{
    state_doing(reading->worker->seat, "close");
    CHECK_OK(sluice_reader_close(&reading->reader));
    state_beat(reading->worker->seat);
    reading->held_count = 0;
}

/* ---- what must hold for a frame ---- */

static void torn(const struct reading *reading, const struct sluice_frame *frame, const char *when, const char *why)
{
    FAIL("channel %s: frame %llu of session %016llx in slot %u, %s: %s", reading->channel,
         (unsigned long long)frame->sequence, (unsigned long long)frame->session, frame->slot, when, why);
}

/* Within a session sequences grow, and the frames taken and missed add up to all there were. */
static void check_order(struct reading *reading, const struct sluice_frame *frame, const struct label *label)
{
    if (frame->session == reading->session) {
        uint64_t every = reading->every ? reading->every : 1, want = reading->last + every;
        CHECK((frame->flags & SLUICE_FRAME_NEW_SESSION) == 0);
        CHECK_GE(frame->sequence, want);
        uint64_t missed = frame->sequence - want + label->dropped - reading->dropped;
        reading->lost += frame->sequence - want;
        /* A wanted frame that was lost hides the unwanted ones after it. */
        if (frame->missed > missed || frame->missed * every < missed)
            FAIL("channel %s: frame %llu after %llu, %llu dropped after %llu, and %llu missed", reading->channel,
                 (unsigned long long)frame->sequence, (unsigned long long)reading->last,
                 (unsigned long long)label->dropped, (unsigned long long)reading->dropped,
                 (unsigned long long)frame->missed);
    } else if (reading->session) {
        CHECK((frame->flags & SLUICE_FRAME_NEW_SESSION) != 0);
    }
    if (frame->session != reading->session)
        reading->lost = 0;
    reading->session = frame->session;
    reading->last = frame->sequence;
    reading->dropped = label->dropped;
}

/* Frames that a reader in order did not get were taken back by the writer, which may report it a little later; a dead
 * one never does. */
static void check_lost(const struct reading *reading)
{
    const struct shared_state *state = reading->worker->state;
    const struct seat *writer = &state->seats[reading->far ? SEAT_CHAIN : SEAT_WRITER];
    uint64_t beat = atomic_load(&writer->beat);
    int64_t until = test_now() + SLUICE_S;

    if (reading->mode != SLUICE_IN_ORDER || reading->every > 1)
        return;
    while (atomic_load(&writer->session) == reading->session && atomic_load(&writer->stolen) < reading->lost) {
        if (test_now() > until) {
            if (atomic_load(&writer->beat) - beat > MANY)
                FAIL("channel %s: %llu frames of session %016llx are lost, the writer has taken "
                     "%llu back",
                     reading->channel, (unsigned long long)reading->lost, (unsigned long long)reading->session,
                     (unsigned long long)atomic_load(&writer->stolen));
            return;
        }
        test_nap(SLUICE_MS);
    }
}

/* Was the frame taken back while the GPU worked on it, before the release that was queued after that? */
static bool was_evicted(struct reading *reading)
{
    struct sluice_frame frame;
    struct frame_io *io = reading->worker->io;
    int r = frame_io_is_gpu() ? sluice_reader_acquire(reading->reader, io->stream, 0, &frame) : 0;

    if (frame_io_is_gpu() && r == 0)
        CHECK_OK(sluice_reader_release(reading->reader, &frame, io->stream));
    return r == SLUICE_E_LOST;
}

bool reading_give_back(struct reading *reading, uint32_t index)
{
    struct sluice_frame *frame = &reading->held[index], copy = *frame;
    struct frame_io *io = reading->worker->io;
    struct content content;
    struct label label;
    char why[256];
    bool good = true;

    frame_io_begin_check(io, frame, &content);
    if (!frame_io_is_gpu())
        good = frame_io_check(io, &copy, &content, &label, why, sizeof why);
    state_doing(reading->worker->seat, "release");
    int r = sluice_reader_release(reading->reader, frame, io->stream);
    state_beat(reading->worker->seat);
    if (frame_io_is_gpu()) /* the check may run only now, and the release after it */
        good = frame_io_check(io, &copy, &content, &label, why, sizeof why);
    reading->held[index] = reading->held[--reading->held_count];
    if (r == SLUICE_E_LOST) {
        reading->session = 0; /* evicted: it was taken back, and the reader joins again */
        return false;
    }
    CHECK_OK(r);
    if (!good && was_evicted(reading)) {
        reading->session = 0;
        return false;
    }
    if (!good)
        torn(reading, &copy, "before its release", why);
    return true;
}

/* True if the frame is right; else it was evicted, and is released. */
static bool check_taken(struct reading *reading)
{
    struct worker *worker = reading->worker;
    struct sluice_frame *frame = &reading->held[reading->held_count - 1], copy = *frame;
    struct content content;
    struct label label;
    char why[256];

    frame_io_begin_check(worker->io, frame, &content);
    bool good = frame_io_check(worker->io, frame, &content, &label, why, sizeof why);

    if (good && !content_check_meta(frame, reading->far)) {
        good = false;
        snprintf(why, sizeof why, "its metadata are not its own");
    }
    if (!good) {
        int r = sluice_reader_release(reading->reader, frame, worker->io->stream);
        if (r != SLUICE_E_LOST)
            torn(reading, &copy, "just taken", why);
        reading->held_count--;
        reading->session = 0;
        return false;
    }
    check_order(reading, frame, &label);
    check_lost(reading);
    atomic_store(&worker->seat->session, frame->session);
    atomic_fetch_add(&worker->seat->frames, 1);
    atomic_fetch_add(&worker->seat->checked, 1);
    return true;
}

/* ---- taking ---- */

/* The descriptor alone says when. */
static int poll_and_acquire(struct reading *reading, int64_t timeout_ns, struct sluice_frame *frame)
{
    int fd = sluice_reader_fd(reading->reader);

    CHECK_GE(fd, 0);
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    if (poll(&poll_fd, 1, 0) <= 0) {
        reading->spurious_since = 0;
        if (poll(&poll_fd, 1, (int)(timeout_ns / SLUICE_MS)) <= 0)
            return SLUICE_TIMEOUT;
    }
    int r = sluice_reader_acquire(reading->reader, reading->worker->io->stream, 0, frame);
    if (r != SLUICE_TIMEOUT && r != SLUICE_NO_WRITER) {
        reading->spurious_since = 0;
        return r;
    }
    if (reading->spurious_since == 0)
        reading->spurious_since = test_now();
    /* The socket of a writer that ended is readable until the service thread, which may be stopped, has seen that. */
    if (test_now() - reading->spurious_since > 10 * SLUICE_S)
        FAIL("channel %s: the descriptor was readable for 10 s without a frame", reading->channel);
    test_nap(SLUICE_MS / 5);
    return r;
}

/* In a calm phase nobody may sleep until the timeout when a frame was ready well before it. A reader that woke in time,
 * however late that was, waited for the driver, whose calls are serialized for all processes. A real GPU may have been
 * busy. */
static void check_wake(const struct reading *reading, const struct seat *writer, uint64_t before, int64_t start,
                       int64_t timeout_ns)
{
    int64_t took = test_now() - start;
    uint64_t ready = atomic_load(&writer->ready) - before;
    /* The first ones may have been taken before: a frame is there before its commit returns. */
    uint64_t enough = frame_io_is_slow() ? MANY : 1 + (reading->every ? reading->every : 1);

    if (took < timeout_ns || ready < enough || state_first_ready(writer, before + enough - 1) > start + timeout_ns / 2)
        return;
    FAIL("channel %s: slept for %.3f s while %llu frames were ready", reading->channel, (double)took / 1e9,
         (unsigned long long)ready);
}

bool reading_take(struct reading *reading, int64_t timeout_ns)
{
    struct worker *worker = reading->worker;
    struct shared_state *state = worker->state;
    struct seat *writer = &state->seats[reading->far ? SEAT_CHAIN : SEAT_WRITER];

    if (reading->held_count >= (reading->hold ? reading->hold : 1))
        reading_give_back(reading, (uint32_t)worker_random(worker, reading->held_count));
    struct sluice_frame *frame = &reading->held[reading->held_count];
    uint32_t change = atomic_load(&state->change);
    uint64_t before = atomic_load(&writer->ready);
    bool connected = reading->session != 0; /* in order: what was committed before that is not its own */
    int64_t start = test_now();
    state_doing(worker->seat, reading->poll ? "poll" : "acquire");
    int r = reading->poll ? poll_and_acquire(reading, timeout_ns, frame)
                          : sluice_reader_acquire(reading->reader, worker->io->stream, timeout_ns, frame);
    state_beat(worker->seat);
    if (timeout_ns >= LONG_WAIT && connected && state_still(state, CALM, change))
        check_wake(reading, writer, before, start, timeout_ns);
    switch (r) {
    case 0: reading->held_count++; return check_taken(reading);
    case SLUICE_E_LOST: reading->session = 0; return false;
    case SLUICE_CLOSED:
    case SLUICE_NO_WRITER: test_nap(SLUICE_MS); return false;
    case SLUICE_TIMEOUT:
    case SLUICE_AGAIN: return false;
    default: FAIL("channel %s: acquire gave %s: %s", reading->channel, sluice_result_name(r), sluice_last_error());
    }
}

static int64_t some_timeout(struct worker *worker)
{
    if (atomic_load(&worker->state->phase) == CALM)
        return LONG_WAIT;
    switch (worker_random(worker, 4)) {
    case 0: return 0;
    case 1: return (int64_t)worker_random(worker, 20) * SLUICE_MS;
    default: return LONG_WAIT;
    }
}

/* Holds nothing while the writer counts its slots. */
static void rest(struct reading *reading)
{
    while (reading->held_count)
        reading_give_back(reading, 0);
    while (atomic_load(&reading->worker->state->phase) == SLOTS) {
        state_beat(reading->worker->seat);
        test_nap(SLUICE_MS);
    }
}

void reading_run(struct reading *reading)
{
    struct worker *worker = reading->worker;
    uint32_t phase;

    while ((phase = atomic_load(&worker->state->phase)) != END) {
        if (!reading->reader)
            reading_open(reading,
                         worker_chance(worker, 2) ? SLUICE_LATER : (int64_t)worker_random(worker, 100) * SLUICE_MS);
        if (!reading->reader)
            continue;
        if (phase == SLOTS)
            rest(reading);
        if (!reading_take(reading, reading->poll ? LONG_WAIT : some_timeout(worker)))
            continue;
        if (worker_chance(worker, 4))
            test_nap((int64_t)worker_random(worker, 500) * 1000);
        if (phase == STORM && worker_chance(worker, 200))
            test_nap((int64_t)worker_random(worker, 20) * SLUICE_MS);
        if (phase == STORM && worker_chance(worker, 300))
            reading_close(reading);
    }
    if (reading->reader)
        reading_close(reading);
}
