/* SPDX-License-Identifier: MIT
 *
 * A release that a capture defers, and the end of the stream's handle: the frame stays held until the capture has ended
 * and the stream has done its earlier work, with or without the handle.
 */
#include <stdatomic.h>

#include "gpu/frames.h"

#define WORDS 1024

struct stage {
    struct sluice_device device;
    struct sluice_stream other;  /* captures nothing */
    struct sl_cu_stream *theirs; /* captures */
    struct gpu_gate gate;        /* work on `theirs` waits for it */
    atomic_int let_go;           /* how often the owner of `theirs` was notified that nobody uses it */
    sluice_writer *writer;
    sluice_reader *reader;
};

static struct stage prepare(void)
{
    struct stage stage = { 0 };

    gpu_begin();
    gpu_use(0);
    stage.theirs = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    frames_warm_up(stage.theirs);
    stage.gate = gpu_gate_new();
    stage.device = gpu_open();
    CHECK_OK(sluice_stream_create(stage.device, NULL, &stage.other));
    stage.writer = frames_writer("cam", WORDS, 3);
    stage.reader = frames_reader("cam", 1);
    return stage;
}

static void finish(struct stage *stage)
{
    CHECK_OK(sluice_reader_close(&stage->reader));
    CHECK_OK(sluice_writer_close(&stage->writer));
    CHECK_OK(sluice_device_close(&stage->device));
    gpu_gate_end(&stage->gate);
    gpu_end();
}

static void let_go(void *user)
{
    struct stage *stage = user;

    stage->let_go++;
}

/* Work on the stream does not end before the gate is opened; then a frame is released in a capture. */
static struct sluice_stream release_in_capture(struct stage *stage, int mode)
{
    struct sluice_stream stream;
    struct sluice_frame frame;

    CHECK_OK(sluice_stream_wrap(stage->device, (uintptr_t)stage->theirs, let_go, stage, &stream));
    CHECK_OK(sluice_writer_begin(stage->writer, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_writer_commit(stage->writer, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_acquire(stage->reader, stream, 20 * SLUICE_S, &frame));
    gpu_gate_close(&stage->gate, stage->theirs);
    CU(StreamBeginCapture, stage->theirs, mode);
    CHECK_OK(sluice_reader_release(stage->reader, &frame, stream));
    CHECK_EQ(frames_held(stage->reader, stage->other), 1);
    return stream;
}

static void open_gate(struct stage *stage)
{
    CHECK_EQ(cu.StreamQuery(stage->theirs), SL_CU_NOT_READY);
    gpu_gate_open(&stage->gate);
}

TEST(a_handle_that_ends_in_the_capture_ends_no_lease)
{
    for (int mode = CAPTURE_GLOBAL; mode <= CAPTURE_RELAXED; mode++) {
        struct stage stage = prepare();
        struct sluice_stream stream = release_in_capture(&stage, mode);

        CHECK_OK(sluice_stream_destroy(&stream));
        CHECK_EQ(frames_held(stage.reader, stage.other), 1);
        CHECK_EQ(stage.let_go, 0); /* the stream's capture has yet to be queried */
        frames_end_capture(stage.theirs);
        CHECK_EQ(frames_held(stage.reader, stage.other), 1); /* the capture is over, the work before it is not */
        CHECK_EQ(stage.let_go, 1);
        open_gate(&stage);
        CHECK_SOON(frames_held(stage.reader, stage.other) == 0, 5);
        CU(StreamDestroy, stage.theirs);
        finish(&stage);
    }
}

/* The owner may end its stream right after the handle: the library does not use it later. */
TEST(a_handle_that_ends_after_the_capture_leaves_its_release_behind)
{
    struct stage stage = prepare();
    struct sluice_stream stream = release_in_capture(&stage, CAPTURE_GLOBAL);

    frames_end_capture(stage.theirs);
    CHECK_OK(sluice_stream_destroy(&stream));
    CHECK_EQ(stage.let_go, 1);
    CHECK_EQ(frames_held(stage.reader, stage.other), 1);
    open_gate(&stage);
    CU(StreamDestroy, stage.theirs);
    CHECK_SOON(frames_held(stage.reader, stage.other) == 0, 5);
    finish(&stage);
}

TEST(a_device_that_is_closed_after_the_capture_leaves_its_release_behind)
{
    struct stage stage = prepare();
    struct sluice_stream stream = release_in_capture(&stage, CAPTURE_GLOBAL);

    CHECK_RESULT(sluice_device_reset(stage.device), SLUICE_E_CAPTURING);
    frames_end_capture(stage.theirs);
    open_gate(&stage);
    CHECK_OK(sluice_device_reset(stage.device)); /* ends the handle */
    CHECK_RESULT(sluice_stream_query(stream), SLUICE_E_STALE);
    CHECK_EQ(stage.let_go, 1);
    CU(StreamDestroy, stage.theirs);
    stage.other = SLUICE_ON_CPU;
    CHECK_SOON(frames_held(stage.reader, stage.other) == 0, 5);
    finish(&stage);
}

/* No caller is left: the closed reader checks by itself. */
TEST(a_reader_and_a_handle_that_end_in_the_capture)
{
    struct stage stage = prepare();
    struct sluice_stream stream = release_in_capture(&stage, CAPTURE_RELAXED);
    struct sluice_writer_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_reader_close(&stage.reader));
    CHECK_OK(sluice_stream_destroy(&stream));
    test_nap(20 * SLUICE_MS); /* it checks meanwhile */
    CHECK_EQ(stage.let_go, 0);
    CHECK_OK(sluice_writer_stats(stage.writer, &stats));
    CHECK_EQ(stats.readers, 1);
    frames_end_capture(stage.theirs);
    open_gate(&stage);
    CHECK_SOON(sluice_writer_stats(stage.writer, &stats) == 0 && stats.readers == 0, 5);
    CHECK_EQ(stage.let_go, 1);
    CU(StreamDestroy, stage.theirs);
    finish(&stage);
}
