/* SPDX-License-Identifier: MIT
 *
 * The processes of a soak: a writer that keeps changing its rate, format and session, readers of every kind, and an
 * observer. Each frame is checked; each process ends on command.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "harness/resources.h"
#include "multi/kit.h"
#include "soak/soak.h"

unsigned step_of(int64_t ns)
{
    uint64_t value = ns < 8 ? 8 : (uint64_t)ns;
    unsigned bits = 63 - (unsigned)__builtin_clzll(value);

    return bits * 8 + (unsigned)(value >> (bits - 3) & 7);
}

double step_ns(unsigned step)
{
    return (double)(UINT64_C(1) << step / 8) * (1 + (step % 8 + 0.5) / 8);
}

static bool runs(const struct shared_state *shared, enum stage until)
{
    return atomic_load_explicit(&shared->stage, memory_order_relaxed) < until;
}

/* ---- the writer ---- */

static const int64_t sizes[] = { 64 << 10, 1 << 20, 300000 };

static sluice_writer *open_writer(unsigned chapter)
{
    struct sluice_format format = kit_format(sizes[chapter % 3]);
    struct sluice_writer_params params = kit_writer_params(CHANNEL, &format);
    sluice_writer *writer;

    params.slots = 6;
    params.max_slots = 16;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

/* Frames at one rate for a while. */
static void write_chapter(struct shared_state *shared, sluice_writer *writer, unsigned chapter)
{
    struct seat *seat = &shared->seats[SEAT_WRITER];
    int64_t now = test_now(), end = now + atomic_load(&shared->chapter_ns), next = now;
    int64_t every = SLUICE_S / (60 + (chapter % CHAPTERS) * 40); /* 60 to 500 a second */

    while (now < end && runs(shared, ALL_LEAVE)) {
        int r = kit_commit(writer);
        if (r != SLUICE_NO_SLOT)
            CHECK_OK(r);
        atomic_fetch_add(r == 0 ? &seat->frames : &seat->dropped, 1);
        next += every;
        now = test_now();
        if (next > now)
            test_nap(next - now);
        else
            next = now;
    }
}

ROLE(writer)
{
    struct shared_state *shared = test_shared_memory(sizeof *shared);
    struct resources before = resources_now();

    test_dir();
    sluice_writer *writer = open_writer(0);
    for (unsigned chapter = 0; runs(shared, ALL_LEAVE); chapter++) {
        struct sluice_format format = kit_format(sizes[chapter % 3]);
        if (chapter % 4 == 3) {
            CHECK_OK(sluice_writer_close(&writer));
            writer = open_writer(chapter);
            atomic_fetch_add(&shared->seats[SEAT_WRITER].openings, 1);
        } else {
            int r = sluice_writer_reformat(writer, &format);
            if (r != SLUICE_E_BUSY) /* readers hold frames of too many formats */
                CHECK_OK(r);
        }
        write_chapter(shared, writer, chapter);
    }
    CHECK_OK(sluice_writer_close(&writer));
    resources_check(&before, "the writer has closed");
    return 0;
}

/* ---- readers ---- */

#define MOST_HELD 3

struct part {
    struct shared_state *shared;
    struct seat *seat;
    sluice_reader *reader;
    bool polls;
    uint32_t hold, held_count;
    struct sluice_frame held[MOST_HELD];
    uint64_t session, last;
};

static const struct {
    uint32_t mode, depth, hold, every;
    bool polls;
} kinds[SEATS] = {
    [SEAT_NEWEST] = { SLUICE_NEWEST, 0, 1, 1, false },    [SEAT_IN_ORDER] = { SLUICE_IN_ORDER, 4, 1, 1, false },
    [SEAT_HOLDING] = { SLUICE_IN_ORDER, 2, 3, 1, false }, [SEAT_POLLING] = { SLUICE_NEWEST, 0, 2, 1, true },
    [SEAT_THIRD] = { SLUICE_IN_ORDER, 3, 1, 3, false },
};

/* At once, with or without a writer; or only with a writer. */
static bool open_reader(struct part *part, unsigned kind, bool later)
{
    struct sluice_reader_params params = kit_reader_params(CHANNEL);

    params.mode = kinds[kind].mode;
    params.depth = kinds[kind].depth;
    params.hold = kinds[kind].hold;
    params.every = kinds[kind].every;
    params.open_timeout_ns = later ? SLUICE_LATER : 20 * SLUICE_MS;
    int r = sluice_reader_open(&part->reader, &params);
    if (!later && (r == SLUICE_E_NOT_FOUND || r == SLUICE_TIMEOUT))
        return false;
    CHECK_OK(r);
    part->polls = kinds[kind].polls;
    part->hold = params.hold;
    part->session = part->last = 0;
    atomic_fetch_add(&part->seat->openings, 1);
    return true;
}

static void give(struct part *part, uint32_t index)
{
    kit_give(part->reader, &part->held[index]);
    part->held[index] = part->held[--part->held_count];
}

static void look_at(struct part *part, const struct sluice_frame *frame)
{
    unsigned step = step_of(test_now() - frame->commit_ns);

    atomic_fetch_add(&part->seat->latency[step < STEPS ? step : STEPS - 1], 1);
    atomic_fetch_add(&part->seat->frames, 1);
    CHECK(kit_whole(frame, frame->sequence));
    if (frame->session == part->session)
        CHECK_GE(frame->sequence, part->last + 1);
    part->session = frame->session;
    part->last = frame->sequence;
}

/* True if a frame came. */
static bool take(struct part *part)
{
    struct sluice_frame *frame = &part->held[part->held_count];
    int64_t wait = 50 * SLUICE_MS;

    if (part->polls) {
        struct pollfd fd = { .fd = sluice_reader_fd(part->reader), .events = POLLIN };
        CHECK_GE(fd.fd, 0);
        if (poll(&fd, 1, 50) <= 0)
            return false;
        wait = 0;
    }
    int r = sluice_reader_acquire(part->reader, SLUICE_ON_CPU, wait, frame);
    if (r == SLUICE_CLOSED)
        test_nap(SLUICE_MS);
    if (r == SLUICE_TIMEOUT || r == SLUICE_NO_WRITER || r == SLUICE_CLOSED || r == SLUICE_AGAIN)
        return false;
    CHECK_OK(r);
    part->held_count++;
    look_at(part, frame);
    if (part->held_count == part->hold)
        give(part, (uint32_t)(part->last % part->held_count));
    return true;
}

static void leave(struct part *part)
{
    while (part->held_count > part->last % 2) /* close releases the other one */
        give(part, 0);
    part->held_count = 0;
    CHECK_OK(sluice_reader_close(&part->reader));
}

ROLE(reader)
{
    struct shared_state *shared = test_shared_memory(sizeof *shared);
    unsigned kind = (unsigned)atoi(argv[1]);
    struct part part = { .shared = shared, .seat = &shared->seats[kind] };
    struct resources before = resources_now();

    test_dir();
    open_reader(&part, kind, true);
    while (runs(shared, READERS_LEAVE))
        take(&part);
    leave(&part);
    resources_check(&before, "a reader has closed");
    return 0;
}

/* A few frames, then the next one. */
ROLE(opener)
{
    struct shared_state *shared = test_shared_memory(sizeof *shared);
    struct part part = { .shared = shared, .seat = &shared->seats[SEAT_OPENER] };
    struct resources before = resources_now();

    test_dir();
    for (unsigned turn = 0; runs(shared, READERS_LEAVE); turn++) {
        if (!open_reader(&part, SEAT_NEWEST + turn % (SEAT_THIRD - SEAT_NEWEST + 1), turn & 8))
            continue;
        for (unsigned i = 0; i < turn % 7; i++)
            take(&part);
        leave(&part);
    }
    resources_check(&before, "the last reader of many has closed");
    return 0;
}

/* ---- the observer ---- */

ROLE(observer)
{
    struct shared_state *shared = test_shared_memory(sizeof *shared);
    struct resources before = resources_now();
    sluice_watch *watch = NULL;

    test_dir();
    for (unsigned turn = 0; runs(shared, READERS_LEAVE); turn++) {
        struct sluice_channel_info info = { .size = sizeof info };
        struct sluice_registry_entry entry;
        size_t count;

        if (turn % 50 == 0) {
            CHECK_OK(sluice_registry_watch_close(&watch));
            CHECK_OK(sluice_registry_watch_open(&watch, NULL));
        }
        int r = sluice_channel_info(CHANNEL, SLUICE_DEFAULT, &info, NULL, 0);
        if (r != SLUICE_E_NOT_FOUND && r != SLUICE_TIMEOUT)
            CHECK_OK(r);
        CHECK_OK(sluice_registry_list(NULL, &entry, 1, &count));
        CHECK_LE(count, 1);
        atomic_fetch_add(&shared->seats[SEAT_OBSERVER].asked, r == 0);
        r = sluice_registry_watch_next(watch, 20 * SLUICE_MS);
        if (r != SLUICE_TIMEOUT)
            CHECK_OK(r);
    }
    CHECK_OK(sluice_registry_watch_close(&watch));
    resources_check(&before, "the observer has closed");
    return 0;
}
