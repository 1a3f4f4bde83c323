/* SPDX-License-Identifier: MIT
 *
 * gpu-limit: the best that two processes can do with a GPU, its driver, and words and memory that they
 * share. It checks nothing and has one reader, except in `crowd`.
 */
#include <string.h>

#include "driver.h"
#include "limit.h"
#include "rounds.h"

static struct cu_stream *stream;

/* ---- what calls cost the CPU ---- */

static void write_words(uint32_t round)
{
    union cu_mem_op ops[WORDS];
    int count = (int)job->ops;
    if (count == 1) {
        CU(StreamWriteValue64, stream, word_address(WORD_READY), round, 0);
        return;
    }
    memset(ops, 0, sizeof *ops * (size_t)count);
    for (int i = 0; i < count; i++) {
        ops[i].op.operation = CU_WRITE_64;
        ops[i].op.address = word_address(WORD_MORE + i);
        ops[i].op.value = round;
    }
    CU(StreamBatchMemOp, stream, (unsigned)count, ops, 0);
}

static void settle(uint32_t round)
{
    atomic_store(word(WORD_GATE), round);
    spin_for(INT64_C(5000));
    CU(StreamSynchronize, stream);
}

static void begin_calls(void)
{
    if (job->ops > WORDS - WORD_MORE)
        die("a batch has at most %d operations", WORDS - WORD_MORE);
    stream = gpu_stream();
}

static void calls(int index)
{
    (void)index;
    begin_calls();
    measure_calls("call", write_words, settle);
    CU(StreamDestroy, stream);
}

/* The same call while streams of other processes wait, each for one of its words: they compete with it for the GPU. */

static void write_to_crowd(uint32_t turn)
{
    CU(StreamWaitValue64, stream, word_address(WORD_GATE), turn, 0);
    int64_t start = clock_ns();
    write_words(turn);
    int64_t end = clock_ns();
    if (turn > WARM_UP)
        sample("call", end - start);
}

static void wait_in_crowd(uint32_t turn, int index)
{
    CU(StreamWaitValue64, stream, word_address(WORD_MORE + index), turn, 0);
    CU(StreamWriteValue64, stream, word_address(WORD_MORE + MAX_READERS + index), turn, 0);
}

static void crowd(int index)
{
    begin_calls();
    if (job->ops != 1 + job->readers || job->ops > WORDS - WORD_MORE - MAX_READERS)
        die("each reader has a word of its own, and there are %d", WORDS - WORD_MORE - MAX_READERS - 1);
    measure_turns(&(struct turns){ .put = write_to_crowd, .take = wait_in_crowd, .stream = stream }, index);
    CU(StreamDestroy, stream);
}

/* ---- what a reader's calls cost its CPU, in a process that has waited for another's frames, job->group at a time ----
 */

static uint64_t number_of(uint32_t turn, int64_t i)
{
    return (uint64_t)((turn - 1) * job->group + i + 1);
}

static void hand_over(uint32_t turn)
{
    if (job->gated)
        CU(StreamWaitValue64, stream, word_address(WORD_GATE), turn, 0);
    for (int64_t i = 0; i < job->group; i++)
        CU(StreamWriteValue64, stream, word_address(WORD_READY), number_of(turn, i), 0);
    if (!job->gated)
        CU(StreamSynchronize, stream);
}

/* What a reader that waits on its GPU must do. Its work comes between the two, so it needs two calls (job->apart). */
static void wait_and_write(uint64_t number)
{
    union cu_mem_op ops[2] = { 0 };
    if (job->apart) {
        CU(StreamWaitValue64, stream, word_address(WORD_READY), number, 0);
        CU(StreamWriteValue64, stream, word_address(WORD_ANSWER), number, 0);
        return;
    }
    ops[0].op.operation = CU_WAIT_64;
    ops[0].op.address = word_address(WORD_READY);
    ops[0].op.value = number;
    ops[1].op.operation = CU_WRITE_64;
    ops[1].op.address = word_address(WORD_ANSWER);
    ops[1].op.value = number;
    CU(StreamBatchMemOp, stream, 2, ops, 0);
}

static void write_answer(uint64_t number)
{
    CU(StreamWriteValue64, stream, word_address(WORD_ANSWER), number, 0);
}

static void answer(uint32_t turn, int index)
{
    if (!job->gated)
        await_word(word(WORD_READY), number_of(turn, job->group - 1));
    int64_t start = clock_ns();
    for (int64_t i = 0; i < job->group; i++)
        (job->ahead ? wait_and_write : write_answer)(number_of(turn, i));
    int64_t end = clock_ns();
    if (index == 1 && turn > WARM_UP)
        sample("call", (end - start) / job->group);
}

static void answers(int index)
{
    stream = gpu_stream();
    measure_turns(&(struct turns){ .put = hand_over, .take = answer, .stream = stream }, index);
    CU(StreamDestroy, stream);
}

/* The size of the GPU's memory, and whether a second GPU can reach it. */
static void machine(int index)
{
    size_t left, total;
    (void)index;
    CU(MemGetInfo, &left, &total);
    value("memory_kib", (int64_t)(total / 1024));
    value("peer", gpu_has_peer());
}

/* ---- */

static const struct kind kinds[] = {
    { "machine", machine, true },
    { "handoff", limit_handoff, false },
    { "events", limit_events, false },
    { "calls", calls, true },
    { "crowd", crowd, false },
    { "answers", answers, false },
    { "driver", limit_driver, true },
    { "fetch", limit_fetch, true },
    { "pipeline", limit_pipeline, true },
    { "convert", limit_copies, true },
    { "far", limit_far, false },
    { "parked", limit_parked, false },
    { "sleeping", limit_sleeping, false },
    { "launch", limit_launch, true },
    { "graph", limit_kernel_graph, true },
    { "recapture", limit_recapture, true },
    { "staged", limit_staged, true },
    { "fork", limit_fork, true },
    { "load", limit_load, true },
};

int main(void)
{
    return stage_main(kinds, sizeof kinds / sizeof *kinds);
}
