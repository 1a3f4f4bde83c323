/* SPDX-License-Identifier: MIT
 *
 * A frame that several streams use ends behind the work on all of them.
 */
#include <stdatomic.h>

#include "gpu/frames.h"

#define WORDS 1024
#define MANY  9

struct stage {
    struct sluice_device device;
    struct sluice_stream named, last; /* named by sluice_frame_used_on; given at the end */
    struct gpu_gate named_gate, last_gate;
    sluice_writer *writer;
    sluice_reader *reader;
};

static struct stage prepare(void)
{
    struct stage stage = { 0 };

    gpu_begin();
    gpu_use(0);
    stage.device = gpu_open();
    CHECK_OK(sluice_stream_create(stage.device, NULL, &stage.named));
    CHECK_OK(sluice_stream_create(stage.device, NULL, &stage.last));
    frames_warm_up(gpu_native(stage.named));
    stage.named_gate = gpu_gate_new();
    stage.last_gate = gpu_gate_new();
    stage.writer = frames_writer("cam", WORDS, 3);
    stage.reader = frames_reader("cam", 1);
    return stage;
}

static void finish(struct stage *stage)
{
    CHECK_OK(sluice_reader_close(&stage->reader));
    CHECK_OK(sluice_writer_close(&stage->writer));
    CHECK_OK(sluice_device_close(&stage->device));
    gpu_gate_end(&stage->named_gate);
    gpu_gate_end(&stage->last_gate);
    gpu_end();
}

static struct sluice_frame acquire(struct stage *stage)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(stage->writer, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_writer_commit(stage->writer, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_acquire(stage->reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    return frame;
}

/* Also once what was queued has had time to run. */
static void check_held(struct stage *stage)
{
    test_nap(20 * SLUICE_MS);
    CHECK_EQ(frames_held(stage->reader, SLUICE_ON_CPU), 1);
}

static void close_gates(struct stage *stage)
{
    gpu_gate_close(&stage->named_gate, gpu_native(stage->named));
    gpu_gate_close(&stage->last_gate, gpu_native(stage->last));
}

static void begin_capture(struct sluice_stream stream)
{
    CU(StreamBeginCapture, gpu_native(stream), CAPTURE_RELAXED);
}

static void count(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

/* ---- release ---- */

/* The frame is held until both gates are open, in either order. */
static void release_and_open(struct stage *stage, struct sluice_frame *frame, bool named_first)
{
    CHECK_OK(sluice_reader_release(stage->reader, frame, stage->last));
    CHECK_RESULT(sluice_reader_release(stage->reader, frame, stage->last), SLUICE_E_STALE);
    check_held(stage);
    gpu_gate_open(named_first ? &stage->named_gate : &stage->last_gate);
    check_held(stage);
    gpu_gate_open(named_first ? &stage->last_gate : &stage->named_gate);
    CHECK_SOON(frames_held(stage->reader, SLUICE_ON_CPU) == 0, 5);
}

TEST(a_frame_is_released_behind_all_its_streams)
{
    struct stage stage = prepare();

    for (int i = 0; i < 4; i++) {
        struct sluice_frame frame = acquire(&stage);
        atomic_int released = 0;
        CHECK_OK(sluice_frame_used_on(&frame, stage.named, count, &released));
        CHECK_EQ(released, 0);
        CHECK_OK(sluice_frame_used_on(&frame, stage.named, count, &released)); /* it is named already */
        CHECK_EQ(released, 1);
        close_gates(&stage);
        release_and_open(&stage, &frame, i % 2);
        CHECK_EQ(released, 2);
    }
    finish(&stage);
}

TEST(a_stream_that_is_destroyed_still_holds_the_frame)
{
    struct stage stage = prepare();
    struct sluice_frame frame = acquire(&stage);

    CHECK_OK(sluice_frame_used_on(&frame, stage.named, NULL, NULL));
    close_gates(&stage);
    CHECK_OK(sluice_stream_destroy(&stage.named));
    release_and_open(&stage, &frame, false);
    finish(&stage);
}

TEST(a_frame_is_released_behind_its_only_stream)
{
    struct stage stage = prepare();
    struct sluice_frame frame = acquire(&stage);

    CHECK_OK(sluice_frame_used_on(&frame, stage.named, NULL, NULL));
    gpu_gate_close(&stage.named_gate, gpu_native(stage.named));
    CHECK_OK(sluice_reader_release(stage.reader, &frame, SLUICE_ON_CPU));
    check_held(&stage);
    gpu_gate_open(&stage.named_gate);
    CHECK_SOON(frames_held(stage.reader, SLUICE_ON_CPU) == 0, 5);
    finish(&stage);
}

TEST(a_frame_is_released_behind_the_default_stream_and_another)
{
    struct stage stage = prepare();
    struct sluice_frame frame = acquire(&stage);
    struct sluice_stream all;

    CHECK_OK(sluice_stream_default(stage.device, &all));
    CHECK_OK(sluice_frame_used_on(&frame, all, NULL, NULL));
    gpu_gate_close(&stage.named_gate, NULL);
    gpu_gate_close(&stage.last_gate, gpu_native(stage.last));
    release_and_open(&stage, &frame, true);
    finish(&stage);
}

TEST(a_frame_is_released_behind_many_streams)
{
    struct stage stage = prepare();
    struct sluice_frame frame = acquire(&stage);
    struct sluice_stream streams[MANY];
    atomic_int released = 0;

    for (int i = 0; i < MANY; i++) {
        CHECK_OK(sluice_stream_create(stage.device, NULL, &streams[i]));
        CHECK_OK(sluice_frame_used_on(&frame, streams[i], count, &released));
    }
    gpu_gate_close(&stage.named_gate, gpu_native(streams[MANY - 1]));
    gpu_gate_close(&stage.last_gate, gpu_native(stage.last));
    release_and_open(&stage, &frame, false);
    CHECK_EQ(released, MANY);
    finish(&stage);
}

TEST(a_reset_of_the_device_ends_no_frame_early)
{
    struct stage stage = prepare();
    struct sluice_frame frame = acquire(&stage);
    struct sl_cu_stream *theirs = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    struct sluice_stream borrowed;

    CHECK_OK(sluice_stream_wrap(stage.device, (uintptr_t)theirs, NULL, NULL, &borrowed));
    CHECK_OK(sluice_frame_used_on(&frame, borrowed, NULL, NULL));
    CHECK_OK(sluice_frame_used_on(&frame, stage.named, NULL, NULL));
    CHECK_OK(sluice_device_reset(stage.device));
    gpu_gate_close(&stage.named_gate, theirs); /* it lives on */
    CHECK_RESULT(sluice_reader_release(stage.reader, &frame, stage.last), SLUICE_E_STALE);
    CHECK_OK(sluice_reader_release(stage.reader, &frame, SLUICE_ON_CPU));
    check_held(&stage);
    gpu_gate_open(&stage.named_gate);
    CHECK_SOON(frames_held(stage.reader, SLUICE_ON_CPU) == 0, 5);
    CU(StreamDestroy, theirs);
    finish(&stage);
}

/* ---- release in a capture ---- */

TEST(a_frame_is_released_after_the_captures_of_its_streams)
{
    struct stage stage = prepare();
    struct sluice_frame frame = acquire(&stage);
    atomic_int released = 0;

    CHECK_OK(sluice_frame_used_on(&frame, stage.named, count, &released));
    close_gates(&stage);
    begin_capture(stage.named);
    begin_capture(stage.last);
    CHECK_EQ(sluice_frame_captures(&frame), 1);
    CHECK_OK(sluice_reader_release(stage.reader, &frame, stage.last));
    CHECK_RESULT(sluice_frame_captures(&frame), SLUICE_E_STALE);
    frames_end_capture(gpu_native(stage.named));
    check_held(&stage);
    frames_end_capture(gpu_native(stage.last));
    gpu_gate_open(&stage.named_gate);
    check_held(&stage);
    CHECK_EQ(cu.StreamQuery(gpu_native(stage.last)), SL_CU_NOT_READY);
    gpu_gate_open(&stage.last_gate);
    CHECK_SOON(frames_held(stage.reader, SLUICE_ON_CPU) == 0, 5);
    CHECK_SOON(released == 1, 5);
    finish(&stage);
}

static bool has_reader(void)
{
    struct sluice_channel_info info = { .size = sizeof info };

    CHECK_OK(sluice_channel_info("cam", SLUICE_S, &info, NULL, 0));
    return info.readers > 0;
}

TEST(a_reader_that_is_closed_in_a_capture_holds_the_frame_until_its_end)
{
    struct stage stage = prepare();
    struct sluice_frame frame = acquire(&stage);
    atomic_int released = 0;

    CHECK_OK(sluice_frame_used_on(&frame, stage.named, count, &released));
    begin_capture(stage.named);
    CHECK_OK(sluice_reader_release(stage.reader, &frame, stage.last));
    CHECK_OK(sluice_reader_close(&stage.reader)); /* does not wait for it */
    CHECK(has_reader());
    CHECK_EQ(released, 0);
    frames_end_capture(gpu_native(stage.named));
    CHECK_SOON(released == 1, 5);
    CHECK_SOON(!has_reader(), 5);
    finish(&stage);
}

/* ---- commit, cancel ---- */

static struct sluice_frame begin_on_both(struct stage *stage)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(stage->writer, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_frame_used_on(&frame, stage->named, NULL, NULL));
    return frame;
}

TEST(a_frame_is_committed_behind_all_its_streams)
{
    struct stage stage = prepare();
    struct sluice_frame frame = begin_on_both(&stage);

    close_gates(&stage);
    CHECK_OK(sluice_writer_commit(stage.writer, &frame, stage.last));
    CHECK_RESULT(sluice_frame_used_on(&frame, stage.named, NULL, NULL), SLUICE_E_STALE);
    CHECK_RESULT(sluice_reader_acquire(stage.reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
    gpu_gate_open(&stage.last_gate);
    test_nap(20 * SLUICE_MS);
    CHECK_RESULT(sluice_reader_acquire(stage.reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
    gpu_gate_open(&stage.named_gate);
    CHECK_OK(sluice_reader_acquire(stage.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(stage.reader, &frame, SLUICE_ON_CPU));
    finish(&stage);
}

TEST(a_frame_stays_begun_while_one_of_its_streams_captures)
{
    struct stage stage = prepare();
    struct sluice_frame frame = begin_on_both(&stage);

    begin_capture(stage.named);
    CHECK_SAYS(sluice_writer_commit(stage.writer, &frame, stage.last), SLUICE_E_CAPTURING, "capture");
    CHECK_RESULT(sluice_writer_cancel(stage.writer, &frame, stage.last), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_frame_wait(&frame, stage.last), SLUICE_E_CAPTURING);
    frames_end_capture(gpu_native(stage.named));
    CHECK_OK(sluice_writer_commit(stage.writer, &frame, stage.last));
    frame = begin_on_both(&stage);
    CHECK_OK(sluice_writer_cancel(stage.writer, &frame, stage.last));
    finish(&stage);
}

/* ---- waiting for a frame's streams ---- */

TEST(a_stream_waits_for_all_streams_of_a_frame)
{
    struct stage stage = prepare();
    struct sluice_frame frame = begin_on_both(&stage);
    struct sluice_stream behind, other;

    CHECK_OK(sluice_stream_create(stage.device, NULL, &other));
    CHECK_OK(sluice_frame_stream(&frame, &behind));
    CHECK_EQ(behind.id, stage.named.id); /* the only one */
    CHECK_OK(sluice_frame_used_on(&frame, stage.last, NULL, NULL));
    close_gates(&stage);
    CHECK_OK(sluice_frame_wait(&frame, other));
    CHECK_OK(sluice_frame_stream(&frame, &behind));
    CHECK(behind.id != stage.named.id && behind.id != stage.last.id);
    gpu_gate_open(&stage.last_gate);
    test_nap(20 * SLUICE_MS);
    CHECK_RESULT(sluice_stream_query(other), SLUICE_NOT_READY);
    CHECK_RESULT(sluice_stream_query(behind), SLUICE_NOT_READY);
    gpu_gate_open(&stage.named_gate);
    CHECK_OK(sluice_stream_synchronize(other));
    CHECK_OK(sluice_stream_synchronize(behind));
    CHECK_OK(sluice_writer_cancel(stage.writer, &frame, SLUICE_ON_CPU));
    finish(&stage);
}

TEST(streams_that_cannot_use_a_frame)
{
    struct stage stage = prepare();
    struct sluice_frame frame = acquire(&stage);
    struct sluice_device host;
    struct sluice_stream of_host, gone = stage.last;
    atomic_int released = 0;

    CHECK_OK(sluice_device_open(&host, "host"));
    CHECK_OK(sluice_stream_create(host, NULL, &of_host));
    CHECK_SAYS(sluice_frame_used_on(&frame, of_host, count, &released), SLUICE_E_WRONG_DEVICE, "host");
    CHECK_OK(sluice_stream_destroy(&stage.last));
    CHECK_RESULT(sluice_frame_used_on(&frame, gone, count, &released), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_frame_used_on(&frame, (struct sluice_stream){ 0 }, count, &released), SLUICE_E_INVALID);
    CHECK_EQ(released, 0);
    CHECK_OK(sluice_frame_used_on(&frame, SLUICE_ON_CPU, count, &released)); /* done when it is called */
    CHECK_EQ(released, 1);
    CHECK_OK(sluice_frame_used_on(&frame, stage.named, NULL, NULL));
    CHECK_RESULT(sluice_reader_release(stage.reader, &frame, of_host), SLUICE_E_WRONG_DEVICE);
    CHECK_RESULT(sluice_reader_release(stage.reader, &frame, gone), SLUICE_E_CLOSED);
    check_held(&stage);
    CHECK_OK(sluice_reader_release(stage.reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_device_close(&host));
    finish(&stage);
}

/* ---- one handle ---- */

TEST(a_native_stream_has_one_handle)
{
    struct stage stage = prepare();
    struct sl_cu_stream *theirs = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    struct sluice_stream first, second, ours;
    atomic_int released = 0;

    CHECK_OK(sluice_stream_wrap(stage.device, (uintptr_t)theirs, count, &released, &first));
    CHECK_OK(sluice_stream_wrap(stage.device, (uintptr_t)theirs, count, &released, &second));
    CHECK_EQ(first.id, second.id);
    CHECK_OK(sluice_stream_destroy(&first));
    CHECK_OK(sluice_stream_query(second));
    CHECK_EQ(released, 0);
    CHECK_OK(sluice_stream_destroy(&second));
    CHECK_EQ(released, 2);
    CU(StreamDestroy, theirs);

    CHECK_OK(sluice_stream_wrap(stage.device, (uintptr_t)gpu_native(stage.named), NULL, NULL, &ours));
    CHECK_EQ(ours.id, stage.named.id);
    CHECK_OK(sluice_stream_destroy(&stage.named));
    CHECK_OK(sluice_stream_synchronize(ours)); /* lives until its last count */
    CHECK_OK(sluice_stream_destroy(&ours));
    finish(&stage);
}
