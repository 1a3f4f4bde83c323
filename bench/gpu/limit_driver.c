/* SPDX-License-Identifier: MIT
 *
 * The CPU time of single driver calls, those that a frame needs. They have the order of DRIVER_CALLS in
 * cases.py.
 */
#include <unistd.h>

#include "driver.h"
#include "limit.h"
#include "rounds.h"

enum { RELAXED = 2, BUFFER_ID = 7 };

static struct cu_stream *stream;
static uint64_t own, other;      /* GPU memory */
static struct gpu_shared shared; /* of the kind that slots are in */
static struct cu_event *event;   /* like those of cuda-link's channels */
static struct cu_event *over;    /* one whose work has ended */

static void nothing(uint32_t round)
{
    (void)round;
}

static void context_id(uint32_t round)
{
    unsigned long long id;
    (void)round;
    CU(CtxGetId, NULL, &id);
}

static void push_and_pop(uint32_t round)
{
    struct cu_context *context;
    (void)round;
    CU(CtxPushCurrent, gpu_context());
    CU(CtxPopCurrent, &context);
}

static void exchange_twice(uint32_t round)
{
    int mode = RELAXED;
    (void)round;
    CU(ThreadExchangeStreamCaptureMode, &mode);
    CU(ThreadExchangeStreamCaptureMode, &mode);
}

static void is_capturing(uint32_t round)
{
    int status;
    (void)round;
    CU(StreamIsCapturing, stream, &status);
}

static void one_attribute(uint32_t round)
{
    unsigned long long buffer;
    (void)round;
    CU(PointerGetAttribute, &buffer, BUFFER_ID, own);
}

static void attributes(uint32_t round)
{
    unsigned long long buffer;
    int which = BUFFER_ID;
    void *value = &buffer;
    (void)round;
    CU(PointerGetAttributes, 1, &which, &value, own);
}

static void write_one(uint32_t round)
{
    CU(StreamWriteValue64, stream, word_address(WORD_READY), round, 0);
}

static void write_two(uint32_t round)
{
    union cu_mem_op ops[2] = { 0 };
    for (int i = 0; i < 2; i++) {
        ops[i].op.operation = CU_WRITE_64;
        ops[i].op.address = word_address(WORD_MORE + i);
        ops[i].op.value = round;
    }
    CU(StreamBatchMemOp, stream, 2, ops, 0);
}

static void copy_typed(uint32_t round)
{
    (void)round;
    CU(MemcpyDtoDAsync, other, own, frame_bytes(), stream);
}

static void copy_any(uint32_t round)
{
    (void)round;
    CU(MemcpyAsync, other, own, frame_bytes(), stream);
}

static void copy_typed_into_slot(uint32_t round)
{
    (void)round;
    CU(MemcpyDtoDAsync, shared.address, own, frame_bytes(), stream);
}

static void copy_any_into_slot(uint32_t round)
{
    (void)round;
    CU(MemcpyAsync, shared.address, own, frame_bytes(), stream);
}

static void wait_for_word(uint32_t round)
{
    (void)round;
    CU(StreamWaitValue64, stream, word_address(WORD_GATE), 0, 0);
}

static void record_event(uint32_t round)
{
    (void)round;
    CU(EventRecord, event, stream);
}

static void query_event(uint32_t round)
{
    (void)round;
    CU(EventQuery, over);
}

static void launch_graph(uint32_t round)
{
    (void)round;
    graph_launch_alone(stream);
}

static void settle(uint32_t round)
{
    (void)round;
    CU(StreamSynchronize, stream);
    spin_for(INT64_C(5000));
}

void limit_driver(int index)
{
    static void (*const calls[])(uint32_t round) = {
        nothing,       context_id,           push_and_pop,       exchange_twice, is_capturing,
        one_attribute, attributes,           write_one,          write_two,      copy_typed,
        copy_any,      copy_typed_into_slot, copy_any_into_slot, wait_for_word,  record_event,
        query_event,   launch_graph,
    };
    int fd;
    (void)index;
    if (job->call < 0 || (size_t)job->call >= sizeof calls / sizeof *calls)
        die("there is no call %d", (int)job->call);
    stream = gpu_stream();
    CU(MemAlloc, &own, frame_bytes());
    CU(MemAlloc, &other, frame_bytes());
    shared = gpu_shared_make(frame_bytes(), &fd);
    close(fd);
    CU(EventCreate, &event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    CU(EventCreate, &over, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    graph_open(other, own, 0);
    CU(EventRecord, over, stream);
    CU(StreamSynchronize, stream);
    measure_calls("call", calls[job->call], settle);
    graph_close();
    CU(EventDestroy, over);
    CU(EventDestroy, event);
    gpu_shared_free(shared);
    CU(MemFree, other);
    CU(MemFree, own);
    CU(StreamDestroy, stream);
}
