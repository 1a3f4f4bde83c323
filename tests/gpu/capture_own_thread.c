/* SPDX-License-Identifier: MIT
 *
 * Frames used by the thread that captures: whatever it does with them on the capturing stream, nothing of the library's
 * gets into its graph, and every lease is right afterwards.
 */
#include <string.h>

#include "gpu/frames.h"

#define WORDS   1024
#define REPLAYS 100

struct stage {
    struct sluice_device device;
    struct sluice_stream stream, other; /* the first one captures */
    struct sl_cu_stream *native, *theirs;
    struct sl_cu_graph *graph;
    struct sl_cu_exec *exec;
    sluice_writer *writer;
    uint64_t memory;
    bool late; /* a call that should not wait took long: to be repeated, as the machine may have been suspended */
};

/* A device and a stream to capture on, of ours or wrapped. */
static struct stage prepare(bool wrapped)
{
    struct stage stage = { 0 };

    gpu_begin();
    gpu_use(0);
    stage.theirs = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    frames_warm_up(stage.theirs);
    stage.memory = gpu_memory(WORDS * 4);
    stage.device = gpu_open();
    if (wrapped)
        CHECK_OK(sluice_stream_wrap(stage.device, (uintptr_t)stage.theirs, NULL, NULL, &stage.stream));
    else
        CHECK_OK(sluice_stream_create(stage.device, NULL, &stage.stream));
    CHECK_OK(sluice_stream_create(stage.device, NULL, &stage.other));
    stage.native = gpu_native(stage.stream);
    return stage;
}

static void finish(struct stage *stage)
{
    CHECK_OK(sluice_device_close(&stage->device));
    CU(StreamDestroy, stage->theirs);
    gpu_end();
}

static void begin_capture(struct stage *stage, int mode)
{
    CU(StreamBeginCapture, stage->native, mode);
    gpu_fill(stage->native, stage->memory, WORDS, 1);
}

/* It must be whole, and hold the test's own two nodes. */
static void end_capture(struct stage *stage)
{
    size_t nodes;

    gpu_fill(stage->native, stage->memory, WORDS, 2);
    CU(StreamEndCapture, stage->native, &stage->graph);
    CU(GraphGetNodes, stage->graph, NULL, &nodes);
    CHECK_EQ(nodes, 2);
    CU(GraphInstantiateWithFlags, &stage->exec, stage->graph, 0);
}

static void replay(struct stage *stage)
{
    for (int i = 0; i < REPLAYS; i++)
        CU(GraphLaunch, stage->exec, stage->native);
    CHECK_OK(sluice_stream_synchronize(stage->stream));
    CHECK_EQ(gpu_differ(stage->native, stage->memory, WORDS, 2), 0);
}

static void drop_graph(struct stage *stage)
{
    CU(GraphExecDestroy, stage->exec);
    CU(GraphDestroy, stage->graph);
}

static void commit(sluice_writer *writer, struct sluice_stream stream, uint32_t value)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
    gpu_fill(gpu_native(stream), channel_words(&frame), WORDS, value);
    CHECK_OK(sluice_writer_commit(writer, &frame, stream));
}

static struct sluice_frame acquire(sluice_reader *reader, struct sluice_stream stream)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
    return frame;
}

/* How many slots the writer can begin now. */
static uint32_t count_free(sluice_writer *writer)
{
    struct sluice_frame frames[8];
    uint32_t count = 0;

    while (count < 8 && sluice_writer_begin(writer, 0, &frames[count]) == 0)
        count++;
    for (uint32_t i = 0; i < count; i++)
        CHECK_OK(sluice_writer_cancel(writer, &frames[i], SLUICE_ON_CPU));
    return count;
}

static uint32_t held_by(sluice_reader *reader)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_reader_stats(reader, &stats));
    return stats.held;
}

static uint32_t readers_of(sluice_writer *writer)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_writer_stats(writer, &stats));
    return stats.readers;
}

/* Is it late each time? */
static bool is_late(void (*scenario)(struct stage *stage, int mode), bool wrapped, int mode)
{
    bool late = true;

    for (int turn = 0; turn < 10 && late; turn++) {
        struct stage stage = prepare(wrapped);
        scenario(&stage, mode);
        drop_graph(&stage);
        finish(&stage);
        late = stage.late;
    }
    return late;
}

/* Six modes and streams for each scenario. */
static void each(void (*scenario)(struct stage *stage, int mode))
{
    for (int wrapped = 0; wrapped < 2; wrapped++)
        for (int mode = CAPTURE_GLOBAL; mode <= CAPTURE_RELAXED; mode++)
            CHECK(!is_late(scenario, wrapped, mode));
}

/* ---- releases ---- */

static void release_scenario(struct stage *stage, int mode)
{
    struct sluice_stream on = stage->stream;
    stage->writer = frames_writer("cam", WORDS, 5);
    sluice_reader *reader = frames_reader("cam", 3);

    commit(stage->writer, on, 1);
    struct sluice_frame first = acquire(reader, on);
    commit(stage->writer, stage->other, 2);
    CHECK_EQ(count_free(stage->writer), 3); /* neither the newest one nor the one that is held */
    begin_capture(stage, mode);
    struct sluice_frame second = acquire(reader, on);
    CHECK_EQ(second.sequence, 2);
    CHECK_OK(sluice_reader_release(reader, &first, on));
    CHECK_RESULT(sluice_reader_release(reader, &first, on), SLUICE_E_STALE);
    commit(stage->writer, stage->other, 3);
    struct sluice_frame third = acquire(reader, stage->other);
    CHECK_EQ(held_by(reader), 3); /* the first one still is */
    CHECK_EQ(count_free(stage->writer), 2);
    CHECK_RESULT(sluice_reader_acquire(reader, stage->other, 0, &first), SLUICE_TIMEOUT);
    CHECK_OK(sluice_reader_release(reader, &third, stage->other)); /* another stream is independent of the capture */
    CHECK_OK(sluice_stream_synchronize(stage->other));
    CHECK_EQ(held_by(reader), 3);
    CHECK_EQ(count_free(stage->writer), 2);
    end_capture(stage);

    /* The reader's next call ends the first lease, and no replay ends any. */
    CHECK_RESULT(sluice_reader_acquire(reader, on, 0, &first), SLUICE_TIMEOUT);
    replay(stage);
    CHECK_EQ(count_free(stage->writer), 3);
    for (uint32_t i = 4; i < 12; i++) {
        commit(stage->writer, stage->other, i);
        CHECK_OK(sluice_reader_release(reader, &second, on));
        second = acquire(reader, on);
        CHECK_EQ(second.sequence, i);
        replay(stage);
        CHECK_EQ(gpu_differ(stage->native, channel_words(&second), WORDS, i), 0);
        CHECK_RESULT(sluice_reader_acquire(reader, on, 0, &first), SLUICE_TIMEOUT); /* checks its pending releases */
        CHECK_EQ(held_by(reader), 1);
        CHECK_EQ(count_free(stage->writer), 4);
    }
    CHECK_OK(sluice_reader_release(reader, &second, on));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_SOON(count_free(stage->writer) == 4, 5);
    CHECK_OK(sluice_writer_close(&stage->writer));
}

TEST_TIMEOUT(a_release_inside_a_capture_waits_for_its_end, 60)
{
    each(release_scenario);
}

/* ---- commit, cancel, send, fetch ---- */

static void commit_scenario(struct stage *stage, int mode)
{
    static uint32_t host[WORDS];
    struct sluice_stream on = stage->stream;
    struct sluice_array source = frames_array(stage->memory, WORDS), target = frames_array((uintptr_t)host, WORDS);
    struct sluice_frame kept, given, dropped, seen;
    stage->writer = frames_writer("cam", WORDS, 4);
    sluice_reader *reader = frames_reader("cam", 1);

    CHECK_OK(sluice_writer_begin(stage->writer, 0, &kept));
    CHECK_OK(sluice_writer_begin(stage->writer, 0, &dropped));
    gpu_fill(stage->native, channel_words(&kept), WORDS, 1);
    begin_capture(stage, mode);
    CHECK_SAYS(sluice_writer_commit(stage->writer, &kept, on), SLUICE_E_CAPTURING, "capturing a graph");
    CHECK_RESULT(sluice_writer_cancel(stage->writer, &dropped, on), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_writer_cancel(stage->writer, &kept, on), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_writer_send(stage->writer, &source, 1, on, NULL), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_reader_acquire(reader, on, 0, &seen), SLUICE_TIMEOUT); /* nothing was published */
    CHECK_OK(sluice_writer_begin(stage->writer, 0, &given));
    gpu_fill(gpu_native(stage->other), channel_words(&given), WORDS, 2);
    CHECK_OK(sluice_writer_commit(stage->writer, &given, stage->other)); /* it works on another stream */
    CHECK_EQ(given.sequence, 1);
    seen = acquire(reader, stage->other);
    CHECK_RESULT(sluice_reader_fetch(reader, &seen, &target, 1, on, NULL), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_reader_fetch(reader, &seen, &target, 1, stage->other, NULL));
    CHECK_EQ(host[0] + host[WORDS - 1], 4);
    CHECK_OK(sluice_reader_release(reader, &seen, stage->other));
    end_capture(stage);

    CHECK_OK(sluice_writer_commit(stage->writer, &kept, on)); /* still begun */
    CHECK_EQ(kept.sequence, 2);
    CHECK_OK(sluice_writer_cancel(stage->writer, &dropped, on));
    seen = acquire(reader, on);
    replay(stage);
    CHECK_EQ(seen.sequence, 2);
    CHECK_EQ(gpu_differ(stage->native, channel_words(&seen), WORDS, 1), 0);
    CHECK_RESULT(sluice_reader_acquire(reader, on, 0, &given), SLUICE_E_LIMIT);
    CHECK_OK(sluice_reader_release(reader, &seen, on));
    CHECK_RESULT(sluice_reader_acquire(reader, on, 0, &given), SLUICE_TIMEOUT);
    CHECK_EQ(count_free(stage->writer), 3);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&stage->writer));
}

TEST_TIMEOUT(calls_that_a_capture_refuses_work_after_it, 60)
{
    each(commit_scenario);
}

/* ---- open and close, and ends, inside a capture ---- */

static void end_scenario(struct stage *stage, int mode)
{
    struct sluice_stream on = stage->stream;
    struct sluice_format format = channel_format(2 * WORDS);
    struct sluice_frame frame, begun;
    stage->writer = frames_writer("cam", WORDS, 4);
    sluice_reader *releasing = frames_reader("cam", 1), *holding = frames_reader("cam", 1);

    commit(stage->writer, on, 1);
    frame = acquire(releasing, on);
    struct sluice_frame lost = acquire(holding, on);
    commit(stage->writer, stage->other, 2);
    begin_capture(stage, mode);

    /* A reader with a deferred release, and one with a frame that it never released. */
    CHECK_OK(sluice_reader_release(releasing, &frame, on));
    int64_t began = test_now();
    CHECK_OK(sluice_reader_close(&releasing));
    CHECK_OK(sluice_reader_close(&holding));
    stage->late = test_now() - began > SLUICE_S; /* the capture ends on this very thread */
    CHECK_RESULT(sluice_reader_release(holding, &lost, on), SLUICE_E_INVALID);
    CHECK_SOON(readers_of(stage->writer) == 1, 5);
    CHECK_EQ(count_free(stage->writer), 2);

    /* Others from open to close, with a new format and a frame that stays begun. */
    sluice_writer *writer = frames_writer("mic", WORDS, 3);
    sluice_reader *reader = frames_reader("mic", 1);
    commit(writer, stage->other, 7);
    frame = acquire(reader, on);
    CHECK_OK(sluice_reader_release(reader, &frame, stage->other));
    CHECK_OK(sluice_writer_reformat(writer, &format));
    commit(writer, stage->other, 8);
    frame = acquire(reader, on);
    CHECK_OK(sluice_writer_begin(writer, 0, &begun));
    CHECK_RESULT(sluice_writer_commit(writer, &begun, on), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_reader_release(reader, &frame, stage->other));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    end_capture(stage);

    CHECK_SOON(readers_of(stage->writer) == 0, 5); /* without a call of the program's */
    CHECK_EQ(count_free(stage->writer), 3);
    replay(stage);
    CHECK_EQ(count_free(stage->writer), 3);
    CHECK_OK(sluice_writer_close(&stage->writer));
}

TEST_TIMEOUT(lives_that_begin_and_end_inside_a_capture, 60)
{
    each(end_scenario);
}

/* ---- the same without the library's guards ---- */

static const struct {
    const char *name;
    void (*act)(struct stage *stage, int mode);
} scenarios[] = { { "release", release_scenario }, { "commit", commit_scenario }, { "end", end_scenario } };

/* For capture_guards.c. */
ROLE(inside)
{
    if (strcmp(argv[3], "quiet") == 0)
        CHECK(freopen("/dev/null", "w", stderr));
    for (int i = 0; i < 3; i++) {
        if (strcmp(scenarios[i].name, argv[1]) != 0)
            continue;
        CHECK(!is_late(scenarios[i].act, false, CAPTURE_GLOBAL));
        return 0;
    }
    FAIL("no scenario is called '%s'", argv[1]);
}

/* ---- frames that a graph writes ---- */

/* A graph for each slot, of the program's own work: here a copy of what it rendered. */
static struct sl_cu_exec *record_copy(struct stage *stage, uint64_t slot)
{
    struct sl_cu_exec *exec;

    CU(StreamBeginCapture, stage->theirs, CAPTURE_THREAD_LOCAL);
    CU(MemcpyDtoDAsync, slot, stage->memory, WORDS * 4, stage->theirs);
    CU(StreamEndCapture, stage->theirs, &stage->graph);
    CU(GraphInstantiateWithFlags, &exec, stage->graph, 0);
    CU(GraphDestroy, stage->graph);
    return exec;
}

TEST(frames_written_by_graphs_are_read_whole)
{
    struct {
        uint64_t slot;
        struct sl_cu_exec *exec;
    } graphs[8] = { 0 };
    struct stage stage = prepare(false);
    struct sluice_frame frame;

    stage.writer = frames_writer("cam", WORDS, 4);
    sluice_reader *reader = frames_reader("cam", 2);
    for (uint32_t value = 1; value <= 200; value++) {
        int i = 0;
        CHECK_OK(sluice_writer_begin(stage.writer, 20 * SLUICE_S, &frame));
        uint64_t slot = channel_words(&frame);
        while (graphs[i].slot && graphs[i].slot != slot)
            i++;
        CHECK(i < 4);
        if (!graphs[i].slot) {
            graphs[i].slot = slot;
            graphs[i].exec = record_copy(&stage, slot);
        }
        gpu_fill(stage.native, stage.memory, WORDS, value);
        CU(GraphLaunch, graphs[i].exec, stage.native);
        CHECK_OK(sluice_writer_commit(stage.writer, &frame, stage.stream));

        frame = acquire(reader, stage.other);
        CHECK_EQ(frame.sequence, value);
        CHECK_EQ(gpu_differ(gpu_native(stage.other), channel_words(&frame), WORDS, value), 0);
        CHECK_OK(sluice_reader_release(reader, &frame, stage.other));
    }
    CHECK(graphs[2].slot); /* there were several */
    for (int i = 0; i < 8 && graphs[i].slot; i++)
        CU(GraphExecDestroy, graphs[i].exec);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&stage.writer));
    finish(&stage);
}
