/* SPDX-License-Identifier: MIT
 *
 * The whole life of a channel on a GPU, both sides, while each driver call fails in turn: nobody hangs, frames are
 * whole, the failure is reported or handled, threads keep their state, and nothing is left behind.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "fake/fake.h"
#include "gpu/kit.h"
#include "harness/test.h"

#define BYTES (64 * 1024)

int test_cuDevicePrimaryCtxRetain(struct sl_cu_context **context, int device);
int test_cuDevicePrimaryCtxRelease_v2(int device);
int test_cuCtxSetCurrent(struct sl_cu_context *context);
int test_cuMemHostAlloc(void **memory, size_t size, unsigned flags);
int test_cuMemFreeHost(void *memory);
int test_cuMemsetD8Async(uint64_t address, unsigned char value, size_t size, struct sl_cu_stream *stream);
int test_cuStreamWaitValue64_v2(struct sl_cu_stream *stream, uint64_t address, uint64_t value, unsigned flags);
int test_cuStreamSynchronize(struct sl_cu_stream *stream);

/* What the channel is built on. */
enum about { USUAL, FUNCTIONS, HANDLES, PEERS, COPIES };

struct life {
    enum about about;
    unsigned long long state; /* of this thread, which no call may change */
    struct sl_cu_context *contexts[2];
    struct sluice_device devices[2]; /* the writer's, the readers' */
    struct sluice_stream writing, reading;
    _Atomic uint64_t *gate; /* frames wait for it */
    uint64_t gates;
    sluice_writer *writer;
    sluice_reader *readers[2]; /* the second one takes frames ahead */
    uint64_t sessions;
    int frames, ahead;              /* that were read */
    int result;                     /* the first failure, */
    char sentence[1024], odd[1024]; /* its message, and that of the last "not now" */
};

static bool good(struct life *life, int result)
{
    if (fake_thread_state() != life->state)
        FAIL("a call left another context or mode: %s", sluice_last_error());
    if (result < 0 && life->result == 0) {
        life->result = result;
        snprintf(life->sentence, sizeof life->sentence, "%s", sluice_last_error());
    }
    if (result > 0)
        snprintf(life->odd, sizeof life->odd, "%s", sluice_last_error());
    return result == 0;
}

/* The program's own calls, in its GPUs' contexts. */
static void enter(const struct life *life, int device)
{
    CHECK_EQ(test_cuCtxSetCurrent(life->contexts[device]), 0);
}
static void leave(void)
{
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
}

static struct sl_cu_stream *native(struct sluice_stream stream)
{
    uintptr_t address;

    CHECK_OK(sluice_stream_native(stream, &address));
    return (struct sl_cu_stream *)address;
}

static void finish(const struct life *life)
{
    atomic_store(life->gate, life->gates);
    enter(life, 0);
    CHECK_EQ(test_cuStreamSynchronize(native(life->writing)), 0);
    leave();
    enter(life, life->about >= PEERS);
    CHECK_EQ(test_cuStreamSynchronize(native(life->reading)), 0);
    leave();
}

static unsigned char *words_of(const struct sluice_frame *frame)
{
    struct sluice_array array;

    CHECK_OK(sluice_frame_array(frame, NULL, &array));
    return array.data;
}

/* ---- frames ---- */

static bool write_frame(struct life *life, bool gated)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };
    struct sluice_frame frame;

    if (!good(life, sluice_writer_begin(life->writer, 20 * SLUICE_S, &frame)))
        return false;
    CHECK_OK(sluice_writer_stats(life->writer, &stats));
    if (gated)
        gpu_settle(); /* memory that is freed meanwhile would wait for the gate, and later work for that */
    enter(life, 0);
    if (gated)
        CHECK_EQ(
            test_cuStreamWaitValue64_v2(native(life->writing), (uintptr_t)life->gate, ++life->gates, SL_CU_WAIT_GEQ),
            0);
    CHECK_EQ(test_cuMemsetD8Async((uintptr_t)words_of(&frame), (unsigned char)(stats.committed + 1), BYTES,
                                  native(life->writing)),
             0);
    leave();
    if (good(life, sluice_writer_commit(life->writer, &frame, life->writing)))
        return true;
    finish(life);
    if (!good(life, sluice_writer_cancel(life->writer, &frame, life->writing)))
        (void)good(life, sluice_writer_cancel(life->writer, &frame, life->writing));
    return false;
}

static bool all_say(const unsigned char *words, unsigned char value)
{
    for (int i = 0; i < BYTES; i++)
        if (words[i] != value)
            return false;
    return true;
}

static void fetch(struct life *life, sluice_reader *reader, const struct sluice_frame *frame)
{
    static unsigned char plain[2 * BYTES]; /* the largest frame */
    struct sluice_array array;

    CHECK_OK(sluice_frame_array(frame, NULL, &array));
    CHECK(array.nbytes <= sizeof plain);
    array.data = plain;
    array.read_only = 0;
    memset(plain, 0, sizeof plain);
    if (good(life, sluice_reader_fetch(reader, frame, &array, 1, life->reading, NULL)))
        CHECK(all_say(plain, (unsigned char)frame->sequence));
}

/* The newest frame; if it is gated, by a stream that waits for it. */
static void read_frame(struct life *life, sluice_reader *reader, bool fetches)
{
    struct sluice_frame frame;
    int r = sluice_reader_acquire(reader, life->reading, 0, &frame);

    finish(life);
    if (r == SLUICE_TIMEOUT || r == SLUICE_AGAIN) /* it does not go ahead any more, or its memory is not there yet */
        r = sluice_reader_acquire(reader, life->reading, 20 * SLUICE_S, &frame);
    if (!good(life, r))
        return;
    if (fetches)
        fetch(life, reader, &frame);
    if (!all_say(words_of(&frame), (unsigned char)frame.sequence))
        FAIL("frame %d is torn; the first failure: %s", (int)frame.sequence, life->sentence);
    life->frames++;
    life->ahead += (frame.flags & SLUICE_FRAME_AHEAD) != 0;
    if (!good(life, sluice_reader_release(reader, &frame, life->reading)))
        (void)good(life, sluice_reader_release(reader, &frame, life->reading));
    finish(life);
}

static void pass_frames(struct life *life)
{
    for (int i = 0; i < 3; i++) {
        bool gated = i == 2;
        if (!write_frame(life, gated))
            continue;
        if (!gated)
            finish(life);
        for (int k = 1; k >= 0; k--)
            if (life->readers[k])
                read_frame(life, life->readers[k], i == 1);
    }
}

/* From pageable memory, by the writer's own stream. */
static void send_frame(struct life *life)
{
    static unsigned char plain[BYTES];
    struct sluice_writer_stats stats = { .size = sizeof stats };
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_array array;
    int64_t bytes = BYTES;

    CHECK_OK(sluice_writer_stats(life->writer, &stats));
    memset(plain, (unsigned char)(stats.committed + 1), BYTES);
    CHECK_OK(sluice_array_wrap(&array, NULL, plain, u8, 1, &bytes, NULL));
    if (good(life, sluice_writer_send(life->writer, &array, 1, SLUICE_ON_CPU, NULL)) && life->readers[0])
        read_frame(life, life->readers[0], false);
}

/* ---- both sides ---- */

static struct sluice_format format_of(int64_t bytes)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    CHECK_OK(sluice_format_add_tensor(&format, "data", (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 1, &bytes));
    CHECK_OK(sluice_format_complete(&format));
    return format;
}

static bool open_writer(struct life *life)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = format_of(BYTES);

    params.name = "cam";
    params.device = "cuda:0";
    params.format = &format;
    params.slots = 3;
    params.max_slots = 5;
    if (good(life, sluice_writer_open(&life->writer, &params)))
        return true;
    life->writer = NULL;
    return false;
}

static void open_readers(struct life *life)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
        params.name = "cam";
        params.device = life->about >= PEERS ? "cuda:1" : "cuda:0";
        params.hold = 2;
        params.ahead = i;
        params.ahead_ns = 20 * SLUICE_S;
        params.staged = life->about == COPIES ? SLUICE_STAGED_ALWAYS : SLUICE_STAGED_NEVER;
        params.open_timeout_ns = 20 * SLUICE_S;
        if (!good(life, sluice_reader_open(&life->readers[i], &params)))
            life->readers[i] = NULL;
    }
}

/* Another session, to which readers switch. */
static void restart(struct life *life)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_close(&life->writer));
    if (!open_writer(life))
        return;
    for (int tries = 0, i = 0; i < 2 && tries < 2; i++) {
        if (!life->readers[i] || !write_frame(life, false))
            continue;
        finish(life);
        int r;
        while ((r = sluice_reader_acquire(life->readers[i], life->reading, 20 * SLUICE_S, &frame)) == SLUICE_CLOSED)
            ; /* the next writer was not found yet */
        if (!good(life, r)) {
            tries++;
            i--;
            continue;
        }
        CHECK(all_say(words_of(&frame), (unsigned char)frame.sequence));
        (void)good(life, sluice_reader_release(life->readers[i], &frame, life->reading));
    }
}

static void live(struct life *life)
{
    struct sluice_format larger = format_of(2 * BYTES), smaller = format_of(BYTES);

    for (int i = 0; i < 2; i++) {
        if (!good(life, sluice_device_open(&life->devices[i], i && life->about >= PEERS ? "cuda:1" : "cuda:0")))
            return;
    }
    if (!good(life, sluice_stream_create(life->devices[0], NULL, &life->writing)) ||
        !good(life, sluice_stream_create(life->devices[1], NULL, &life->reading)) || !open_writer(life))
        return;
    open_readers(life);
    pass_frames(life);
    send_frame(life);
    (void)good(life, sluice_writer_reformat(life->writer, &larger));
    (void)good(life, sluice_writer_reformat(life->writer, &smaller));
    pass_frames(life);
    restart(life);
}

static void end(struct life *life)
{
    for (int i = 0; i < 2; i++)
        (void)good(life, sluice_reader_close(&life->readers[i]));
    (void)good(life, sluice_writer_close(&life->writer));
    for (int i = 0; i < 2; i++)
        (void)good(life, sluice_device_close(&life->devices[i]));
}

static struct life run(enum about about)
{
    struct life life = { .about = about, .state = fake_thread_state() };
    void *word;

    CHECK(setenv("SLUICE_WITHOUT", about == FUNCTIONS ? "memops" : about == HANDLES ? "vmm" : "", 1) == 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(test_cuDevicePrimaryCtxRetain(&life.contexts[i], i), 0);
    enter(&life, 0);
    CHECK_EQ(test_cuMemHostAlloc(&word, 4096, SL_CU_HOST_PORTABLE), 0);
    leave();
    life.gate = word;
    atomic_store(life.gate, 0);
    live(&life);
    end(&life);
    enter(&life, 0);
    CHECK_EQ(test_cuMemFreeHost(word), 0);
    leave();
    for (int i = 0; i < 2; i++)
        CHECK_EQ(test_cuDevicePrimaryCtxRelease_v2(i), 0);
    return life;
}

/* ---- failures ---- */

static long sum(struct fake_things things)
{
    return things.streams + things.events + things.handles + things.reservations + things.mappings +
           things.registrations + things.pinned + things.graphs + things.allocations;
}

/* If these fail, what they should free is left, or what should be freed after them. */
static bool frees(enum fake_function function)
{
    switch (function) {
    case FAKE_StreamDestroy:
    case FAKE_EventDestroy:
    case FAKE_MemRelease:
    case FAKE_MemUnmap:
    case FAKE_MemAddressFree:
    case FAKE_MemHostUnregister:
    case FAKE_MemFree:
    case FAKE_MemFreeHost:
    case FAKE_IpcCloseMemHandle:
    case FAKE_DevicePrimaryCtxRelease:
    case FAKE_CtxGetCurrent:
    case FAKE_CtxGetId:
    case FAKE_CtxPushCurrent:
    case FAKE_GraphExecDestroy:
    case FAKE_GraphDestroy:
    case FAKE_StreamIsCapturing: return true;
    default: return false;
    }
}

/* Which of these calls restore a thread's state cannot be identified by a number where several threads make them. */
static bool puts_back(enum fake_function function)
{
    return function == FAKE_CtxPopCurrent || function == FAKE_ThreadExchangeStreamCaptureMode;
}

static void fail_call(enum fake_function function, long nth, int code, enum about about, int frames)
{
    struct fake_things before = fake_things();

    fake_fail(function, nth, code);
    int64_t began = test_now();
    struct life life = run(about);
    bool failed = fake_failed();
    long left, most = frees(function) ? 8 : 0;
    int64_t closed = test_now();
    while (((left = sum(fake_things()) - sum(before)) > most || fake_things().contexts - before.contexts > most) &&
           test_now() - closed < 20 * SLUICE_S)
        test_nap(SLUICE_MS); /* on threads of its own, for which close waits a limited time */
    struct fake_things after = fake_things();
    if (left > most || after.contexts - before.contexts > most)
        FAIL("%s failed in call %ld: left were %ld contexts, %ld streams, %ld events, %ld handles, %ld reservations, "
             "%ld mappings, "
             "%ld registrations, %ld pinned, %ld graphs, %ld allocations",
             fake_name(function), nth, after.contexts - before.contexts, after.streams - before.streams,
             after.events - before.events, after.handles - before.handles, after.reservations - before.reservations,
             after.mappings - before.mappings, after.registrations - before.registrations, after.pinned - before.pinned,
             after.graphs - before.graphs, after.allocations - before.allocations);
    if (closed - began > 60 * SLUICE_S)
        FAIL("%s failed in call %ld, and it took %d s", fake_name(function), nth, (int)((closed - began) / SLUICE_S));
    if (failed && life.result == 0 && life.frames < frames)
        FAIL("%s failed in call %ld, nobody said so, and %d of %d frames were read: %s", fake_name(function), nth,
             life.frames, frames, life.odd);
    if (life.result != 0 && !strstr(life.sentence, fake_name(function)))
        FAIL("%s failed in call %ld; the sentence: %s", fake_name(function), nth, life.sentence);
    fake_end_contexts();
    const char *rule = fake_broken_rule();
    if (rule)
        FAIL("%s failed in call %ld, and a rule was broken: %s", fake_name(function), nth, rule);
}

static void fail_each(enum about about)
{
    long calls[FAKE_FUNCTION_COUNT];

    TEST_KEEPS_FDS();
    fake_use();
    test_dir();
    (void)run(about);
    fake_forget();
    struct life life = run(about);
    if (life.result != 0)
        FAIL("without a failure: %s", life.sentence);
    CHECK_EQ(life.frames, 13);
    CHECK_EQ(life.ahead, about == USUAL || about == HANDLES || about == PEERS ? 2 : 0);
    CHECK_EQ(sum(fake_things()), 0);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        calls[f] = fake_calls((enum fake_function)f);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++) {
        enum fake_function function = (enum fake_function)f;
        long step = test_slowness() > 1 ? 2 : 8;
        for (long nth = 1; nth <= calls[f] && function != FAKE_GetErrorName && !puts_back(function);
             nth += 1 + nth / step)
            fail_call(function, nth, SL_CU_UNKNOWN, about, life.frames);
    }
}

TEST_TIMEOUT(each_call_of_a_channel_fails_in_turn, 400)
{
    fail_each(USUAL);
}
TEST_TIMEOUT(each_call_of_a_channel_of_functions_fails_in_turn, 400)
{
    fail_each(FUNCTIONS);
}
TEST_TIMEOUT(each_call_of_a_channel_of_handles_fails_in_turn, 400)
{
    fail_each(HANDLES);
}
TEST_TIMEOUT(each_call_of_a_channel_between_peers_fails_in_turn, 400)
{
    fail_each(PEERS);
}
TEST_TIMEOUT(each_call_of_a_channel_of_copies_fails_in_turn, 400)
{
    fail_each(COPIES);
}
