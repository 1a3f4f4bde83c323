/* SPDX-License-Identifier: MIT
 *
 * From a write-value in one process, alone or after a copy, until another process has seen the word.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"
#include "limit.h"
#include "rounds.h"

static struct cu_stream *stream;
static struct gpu_shared shared; /* the word in GPU memory */
static uint64_t ready;           /* where this process's GPU sees the word */
static uint64_t source, slot;    /* GPU memory */
static struct gpu_shared others; /* the slot, if others can map it */
static void *host;

static void write_word(uint32_t round)
{
    union cu_mem_op ops[WORDS];
    int count = (int)job->ops;
    if (count == 1) {
        CU(StreamWriteValue64, stream, ready, round, 0);
        return;
    }
    memset(ops, 0, sizeof *ops * (size_t)count);
    int at = job->first ? 0 : count - 1; /* the one that the reader waits for */
    for (int i = 0; i < count; i++) {
        ops[i].op.operation = CU_WRITE_64;
        ops[i].op.address = i == at ? ready : word_address(WORD_MORE + i);
        ops[i].op.value = round;
    }
    CU(StreamBatchMemOp, stream, (unsigned)count, ops, 0);
}

static void hand(uint32_t round)
{
    if (job->gated)
        CU(StreamWaitValue64, stream, word_address(WORD_GATE), round, 0);
    if (job->graph) {
        graph_launch(stream, round);
        return;
    }
    if (job->from == FROM_DEVICE)
        CU(MemcpyDtoDAsync, slot, source, frame_bytes(), stream);
    else if (job->from != IN_PLACE)
        CU(MemcpyHtoDAsync, slot, host, frame_bytes(), stream);
    write_word(round);
    if (job->late)
        atomic_store(word(WORD_OWN), round);
}

/* Memory of the kind that slots are in, which another process could map. */
static void slot_open(void)
{
    int fd;
    others = gpu_shared_make(frame_bytes(), &fd);
    close(fd);
    slot = others.address;
}

static void copies_open(void)
{
    if (job->from == IN_PLACE)
        return;
    if (job->in_slot)
        slot_open();
    else
        CU(MemAlloc, &slot, frame_bytes());
    if (job->from == FROM_DEVICE)
        CU(MemAlloc, &source, frame_bytes());
    else
        host = job->from == FROM_PINNED ? gpu_pinned(frame_bytes()) : memory_of(frame_bytes());
    if (job->graph)
        graph_open(slot, source, ready);
}

static void copies_close(void)
{
    if (job->from == IN_PLACE)
        return;
    if (job->graph)
        graph_close();
    if (job->in_slot)
        gpu_shared_free(others);
    else
        CU(MemFree, slot);
    if (job->from == FROM_DEVICE)
        CU(MemFree, source);
    else if (job->from == FROM_PINNED)
        gpu_pinned_free(host, frame_bytes());
    else
        munmap(host, frame_bytes());
}

static void open_side(void)
{
    if (job->ops > WORDS - WORD_MORE)
        die("a batch has at most %d operations", WORDS - WORD_MORE);
    if (job->in_device && !(job->ahead && job->until == UNTIL_GPU))
        die("no CPU can look at a word in GPU memory");
    if (job->graph && job->from != FROM_DEVICE)
        die("graphs copy GPU memory");
    stream = gpu_stream();
    ready = job->in_device ? shared.address : word_address(WORD_READY);
}

static void close_side(void)
{
    CU(StreamSynchronize, stream);
    CU(StreamDestroy, stream);
    if (job->in_device)
        gpu_shared_free(shared);
}

static void writer_open(void)
{
    int fd;
    if (job->in_device) {
        shared = gpu_shared_make(GPU_PAGE, &fd);
        pass_fd(fd);
    }
    open_side();
    if (job->in_device) { /* another program may have left something there */
        CU(StreamWriteValue64, stream, ready, 0, 0);
        CU(StreamSynchronize, stream);
    }
    copies_open();
}

static void writer_close(void)
{
    copies_close();
    close_side();
}

static void reader_open(int index)
{
    (void)index;
    if (job->in_device)
        shared = gpu_shared_take(GPU_PAGE, take_fd());
    open_side();
}

static void answer(uint32_t round)
{
    CU(StreamWriteValue64, stream, word_address(WORD_ANSWER), round, 0);
    if (job->gives)
        CU(StreamWriteValue64, stream, word_address(WORD_MORE), round, 0);
}

static void wait_and_answer(uint32_t round)
{
    CU(StreamWaitValue64, stream, ready, round, 0);
    answer(round);
}

/* Ahead: the reader's stream waits by itself. */
static void expect(uint32_t round)
{
    if (job->until == UNTIL_GPU && job->ahead && !job->late)
        wait_and_answer(round);
}

static void take(uint32_t round)
{
    if (job->late) {
        await_word(word(WORD_OWN), round);
        wait_and_answer(round);
    }
    if (!job->ahead)
        await_word(word(WORD_READY), round);
    if (job->until == UNTIL_GPU && !job->ahead)
        answer(round);
    if (job->until == UNTIL_GPU)
        await_word(word(WORD_ANSWER), round);
}

void limit_handoff(int index)
{
    static const struct way bare = {
        .writer_open = writer_open,
        .hand = hand,
        .writer_close = writer_close,
        .reader_open = reader_open,
        .expect = expect,
        .take = take,
        .reader_close = close_side,
    };
    measure_rounds(&bare, index);
}
