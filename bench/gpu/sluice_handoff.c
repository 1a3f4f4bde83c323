/* SPDX-License-Identifier: MIT
 *
 * From commit or send until a reader in another process has the frame: its CPU by acquire, or its
 * stream, which then writes a word.
 */
#include <sys/mman.h>

#include "channel.h"

static struct sluice_frame frame;
static uint64_t source; /* GPU memory */
static void *host;
static int64_t taken, taken_ahead; /* frames */

/* ---- the writer ---- */

static void writer_open(void)
{
    channel_write(CHANNEL_SLOTS);
    if (job->from == FROM_DEVICE)
        CU(MemAlloc, &source, frame_bytes());
    else if (job->from == FROM_PINNED)
        host = gpu_pinned(frame_bytes());
    else if (job->from == FROM_HOST)
        host = memory_of(frame_bytes());
}

static void prepare(uint32_t round)
{
    (void)round;
    if (job->from == IN_PLACE)
        check(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame), "begin");
}

static void send_frame(void)
{
    struct sluice_array array = channel_array(job->from == FROM_DEVICE ? (void *)(uintptr_t)source : host);
    struct sluice_ticket ticket; /* costs a word besides the event */
    check(sluice_writer_send(writer, &array, 1, stream, job->cipd ? NULL : &ticket), "send");
}

static void hand(uint32_t round)
{
    if (job->gated)
        CU(StreamWaitValue64, native, word_address(WORD_GATE), round, 0);
    if (job->from == IN_PLACE)
        check(sluice_writer_commit(writer, &frame, stream), "commit");
    else
        send_frame();
}

/* The share of the sends that were graphs. */
static void report_graphs(void)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };
    check(sluice_writer_stats(writer, &stats), "stats");
    value("graph_percent", (int64_t)(stats.graph_sends * 100 / stats.committed));
}

static void writer_close(void)
{
    if (job->graph)
        report_graphs();
    const int64_t *of_reader = stage->lanes[1].values;
    if (job->ahead && of_reader[0])
        value("ahead_percent", of_reader[1] * 100 / of_reader[0]);
    channel_close();
    if (job->from == FROM_DEVICE)
        CU(MemFree, source);
    else if (job->from == FROM_PINNED)
        gpu_pinned_free(host, frame_bytes());
    else if (job->from == FROM_HOST)
        munmap(host, frame_bytes());
}

/* ---- a reader ---- */

static void reader_open(int index)
{
    (void)index;
    taken = taken_ahead = 0;
    channel_read(1, job->ahead);
}

/* The reader's stream uses and ends the frame, or its CPU alone, as in the bare limit. A stream would end
 * each frame only in its process's own time slice of a busy GPU. */
static struct sluice_stream user(void)
{
    return job->until == UNTIL_GPU ? stream : SLUICE_ON_CPU;
}

static void take_frame(void)
{
    check(sluice_reader_acquire(reader, user(), CHANNEL_WAIT, &frame), "acquire");
    taken++;
    taken_ahead += (frame.flags & SLUICE_FRAME_AHEAD) != 0;
}

/* Queues the reader's work on its stream, after the frame: the answer. */
static void use_frame(uint32_t round)
{
    take_frame();
    CU(StreamWriteValue64, native, word_address(WORD_ANSWER), round, 0);
    check(sluice_reader_release(reader, &frame, stream), "release");
}

static void expect(uint32_t round)
{
    if (job->gated)
        use_frame(round);
}

static void take(uint32_t round)
{
    if (job->until == UNTIL_CPU) {
        take_frame();
        return;
    }
    if (!job->gated)
        use_frame(round);
    await_word(word(WORD_ANSWER), round);
}

static void give(uint32_t round)
{
    (void)round;
    if (job->until == UNTIL_CPU)
        check(sluice_reader_release(reader, &frame, user()), "release");
    stage->lanes[1].values[0] = taken;
    stage->lanes[1].values[1] = taken_ahead;
}

void sluice_handoff(int index)
{
    static const struct way sluice = {
        .writer_open = writer_open,
        .prepare = prepare,
        .hand = hand,
        .writer_close = writer_close,
        .reader_open = reader_open,
        .expect = expect,
        .take = take,
        .give = give,
        .reader_close = channel_close,
    };
    measure_rounds(&sluice, index);
}
