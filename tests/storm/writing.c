/* SPDX-License-Identifier: MIT
 *
 * A writer in a storm: knows the sequence of each frame before it commits it, and writes all of it.
 */
#include <stdio.h>

#include "harness/test.h"
#include "storm/worker.h"

static uint64_t choose_format(struct writing *writing, struct sluice_format *format)
{
    writing->kind = (unsigned)worker_random(writing->worker, 3);
    uint64_t rows = 4 + worker_random(writing->worker, MAX_ROWS - 4);
    content_format(format, writing->kind, (uint32_t)rows);
    return rows;
}

static struct sluice_writer_stats stats_of(sluice_writer *writer)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_writer_stats(writer, &stats));
    return stats;
}

void writing_open(struct writing *writing)
{
    struct worker *worker = writing->worker;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format;

    writing->rows = choose_format(writing, &format);
    params.name = writing->channel;
    params.format = &format;
    params.device = frame_io_device();
    params.slots = 4 + (uint32_t)worker_random(worker, 3);
    params.max_slots = params.slots + 1 + (uint32_t)worker_random(worker, 4); /* readers ask for a depth of 3 */
    if (worker_chance(worker, 3)) {
        params.policy = SLUICE_WAIT;
        params.wait_ns = 20 * SLUICE_MS;
    }
    if (worker_chance(worker, 4))
        params.lease_timeout_ns = 20 * SLUICE_MS;
    state_doing(worker->seat, "open");
    CHECK_OK(sluice_writer_open(&writing->writer, &params));
    state_beat(worker->seat);
    writing->session = stats_of(writing->writer).session;
    writing->last = writing->dropped = 0;
    atomic_store(&worker->seat->stolen, 0);
    atomic_store(&worker->seat->session, writing->session);
}

void writing_close(struct writing *writing)
{
    state_doing(writing->worker->seat, "close");
    CHECK_OK(sluice_writer_close(&writing->writer));
    state_beat(writing->worker->seat);
}

/* ---- frames ---- */

static bool begin(struct writing *writing, int64_t timeout_ns, struct sluice_frame *frame)
{
    state_doing(writing->worker->seat, "begin");
    int r = sluice_writer_begin(writing->writer, timeout_ns, frame);
    atomic_store(&writing->worker->seat->stolen, stats_of(writing->writer).stolen);
    state_beat(writing->worker->seat);
    if (r == SLUICE_NO_SLOT) {
        writing->dropped++;
        return false;
    }
    CHECK_OK(r);
    return true;
}

static struct label next_label(const struct writing *writing)
{
    return (struct label){
        .sequence = writing->last + 1, .session = writing->session, .dropped = writing->dropped, .rows = writing->rows
    };
}

static void ready(void *seat)
{
    state_ready(seat);
}

static void committed(struct writing *writing, uint64_t sequence)
{
    CHECK_EQ(sequence, writing->last + 1);
    writing->last++;
    atomic_fetch_add(&writing->worker->seat->frames, 1);
    frame_io_call_after(writing->worker->io, ready, writing->worker->seat);
}

static void fill_and_commit(struct writing *writing, struct sluice_frame *frame, struct reading *from)
{
    struct label label = next_label(writing);

    frame_io_fill(writing->worker->io, frame, &label, from == NULL);
    if (from) {
        CHECK_OK(sluice_frame_inherit(frame, &from->held[0]));
        if (!reading_give_back(from, 0)) { /* what it inherited may be anything */
            CHECK_OK(sluice_writer_cancel(writing->writer, frame, writing->worker->io->stream));
            return;
        }
    }
    state_doing(writing->worker->seat, "commit");
    CHECK_OK(sluice_writer_commit(writing->writer, frame, writing->worker->io->stream));
    state_beat(writing->worker->seat);
    committed(writing, frame->sequence);
}

/* Two frames at once, committed in either order, or cancelled. */
static void two_frames(struct writing *writing)
{
    struct sluice_frame frames[2];
    bool reverse = worker_chance(writing->worker, 2), cancel = worker_chance(writing->worker, 2);

    if (!begin(writing, SLUICE_DEFAULT, &frames[reverse]))
        return;
    if (begin(writing, 0, &frames[!reverse])) {
        if (cancel)
            CHECK_OK(sluice_writer_cancel(writing->writer, &frames[0], SLUICE_ON_CPU));
        else
            fill_and_commit(writing, &frames[0], NULL);
        fill_and_commit(writing, &frames[1], NULL);
    } else {
        fill_and_commit(writing, &frames[reverse], NULL);
    }
}

void writing_reformat(struct writing *writing)
{
    struct sluice_format format;
    uint64_t rows = choose_format(writing, &format);

    state_doing(writing->worker->seat, "reformat");
    int r = sluice_writer_reformat(writing->writer, &format);
    state_beat(writing->worker->seat);
    if (r == SLUICE_E_BUSY)
        return; /* readers hold frames of too many formats */
    CHECK_OK(r);
    writing->rows = rows;
}

void writing_frame(struct writing *writing, struct reading *from)
{
    struct worker *worker = writing->worker;
    struct sluice_frame frame;

    if (!from && worker_chance(worker, 20)) {
        two_frames(writing);
        return;
    }
    if (begin(writing, worker_chance(worker, 10) ? 2 * SLUICE_MS : SLUICE_DEFAULT, &frame))
        fill_and_commit(writing, &frame, from);
}

/* ---- no lost slot ---- */

static uint32_t begin_all(struct writing *writing)
{
    struct sluice_frame frames[SLUICE_MAX_SLOTS];
    uint32_t count = 0;

    while (count < SLUICE_MAX_SLOTS && begin(writing, 0, &frames[count]))
        count++;
    for (uint32_t i = 0; i < count; i++)
        CHECK_OK(sluice_writer_cancel(writing->writer, &frames[i], SLUICE_ON_CPU));
    return count;
}

void writing_count_slots(struct writing *writing)
{
    int64_t until = test_now() + (int64_t)(8e9 * test_slowness());

    for (;;) {
        uint32_t begun = begin_all(writing);
        uint32_t slots = stats_of(writing->writer).slots;
        if (begun + 1 >= slots)
            return;
        if (test_now() > until)
            FAIL("channel %s: with no lease left %u of %u slots can be begun; %s", writing->channel, begun, slots,
                 sluice_last_error());
        test_nap(SLUICE_MS);
    }
}
