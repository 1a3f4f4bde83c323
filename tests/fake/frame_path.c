/* SPDX-License-Identifier: MIT
 *
 * What the way of a frame asks of the driver: nothing on it waits for the GPU, nothing asks how far
 * it is.
 */
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "fake/fake.h"
#include "fake/batching.h"
#include "gpu/kit.h"
#include "harness/test.h"

#define FRAMES 100
#define BYTES  4096

int test_cuDevicePrimaryCtxRetain(struct sl_cu_context **context, int device);
int test_cuCtxGetCurrent(struct sl_cu_context **context);
int test_cuCtxSetCurrent(struct sl_cu_context *context);
int test_cuStreamCreateWithPriority(struct sl_cu_stream **stream, unsigned flags, int priority);
int test_cuStreamSynchronize(struct sl_cu_stream *stream);
int test_cuMemAlloc_v2(uint64_t *address, size_t size);

enum where { OWN, WRAPPED, DEFAULT };

struct scene {
    struct sluice_device device;
    struct sluice_stream stream;
    struct sl_cu_stream *native;
    sluice_writer *writer;
    sluice_reader *reader;
    struct sluice_array source; /* memory of the program's on the GPU */
};

static void open_stream(struct scene *scene, enum where where)
{
    uintptr_t native;

    if (where == OWN) {
        CHECK_OK(sluice_stream_create(scene->device, NULL, &scene->stream));
    } else if (where == WRAPPED) {
        CHECK_EQ(test_cuStreamCreateWithPriority(&scene->native, SL_CU_STREAM_NON_BLOCKING, 0), 0);
        CHECK_OK(sluice_stream_wrap(scene->device, (uintptr_t)scene->native, NULL, NULL,
                                    &scene->stream));
    } else {
        CHECK_OK(sluice_stream_default(scene->device, &scene->stream));
    }
    CHECK_OK(sluice_stream_native(scene->stream, &native));
    scene->native = (struct sl_cu_stream *)native;
}

static struct scene begin(enum where where)
{
    struct sluice_writer_params writing = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params reading = SLUICE_READER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sl_cu_context *context;
    struct scene scene = { .writer = NULL };
    int64_t bytes = BYTES;
    uint64_t address;

    fake_use();
    test_dir();
    CHECK_OK(sluice_device_open(&scene.device, "cuda:0"));
    CHECK_EQ(test_cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    open_stream(&scene, where);
    CHECK_EQ(test_cuMemAlloc_v2(&address, BYTES), 0);
    CHECK_OK(
        sluice_array_wrap(&scene.source, "data", (void *)(uintptr_t)address, u8, 1, &bytes, NULL));
    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &bytes));
    writing.name = reading.name = "cam";
    writing.device = "cuda:0";
    writing.format = &format;
    reading.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_writer_open(&scene.writer, &writing));
    CHECK_OK(sluice_reader_open(&scene.reader, &reading));
    return scene;
}

static void end(struct scene *scene)
{
    CHECK_OK(sluice_reader_close(&scene->reader));
    CHECK_OK(sluice_writer_close(&scene->writer));
    CHECK_OK(sluice_device_close(&scene->device));
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
    gpu_settle();
    fake_end_contexts();
}

static void write_frame(struct scene *scene, bool by_copy)
{
    struct sluice_frame frame, dropped;

    if (by_copy) {
        CHECK_OK(sluice_writer_send(scene->writer, &scene->source, 1, scene->stream, NULL));
        return;
    }
    CHECK_OK(sluice_writer_begin(scene->writer, 0, &frame));
    CHECK_OK(sluice_writer_begin(scene->writer, 0, &dropped));
    CHECK_OK(sluice_writer_commit(scene->writer, &frame, scene->stream));
    CHECK_OK(sluice_writer_cancel(scene->writer, &dropped, scene->stream));
}

/* The test itself waits for the GPU, by a door of its own, so that each call finds what it wants.
 */
static void pass_frames(struct scene *scene, int count, bool by_copy)
{
    struct sluice_frame frame;

    for (int i = 0; i < count; i++) {
        write_frame(scene, by_copy);
        CHECK_EQ(test_cuStreamSynchronize(scene->native), 0);
        CHECK_OK(sluice_reader_acquire(scene->reader, scene->stream, 0, &frame));
        CHECK_OK(sluice_reader_release(scene->reader, &frame, scene->stream));
        CHECK_EQ(test_cuStreamSynchronize(scene->native), 0);
    }
}

/* Those that wait for the GPU, and those that ask how far it is: some of NVIDIA's wait, too, for
 * others. */
static bool waits(const char *name)
{
    return strstr(name, "Synchronize") || (strstr(name, "Query") && !gathers()) || strstr(name, "WaitValue") ||
           strstr(name, "Alloc") || strstr(name, "Register") || strstr(name, "Create") ||
           strstr(name, "Destroy") || strstr(name, "Map");
}

static void check_calls(enum where where, bool by_copy)
{
    struct scene scene = begin(where);
    long words;

    pass_frames(&scene, 10, by_copy); /* the first ones map memory, and get to know the stream */
    fake_forget();
    pass_frames(&scene, FRAMES, by_copy);
    words = fake_calls(FAKE_StreamWriteValue64) + fake_calls(FAKE_StreamBatchMemOp) + fake_calls(FAKE_GraphLaunch);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        if (waits(fake_name((enum fake_function)f)) && fake_calls((enum fake_function)f) > 0)
            FAIL("%s was called %ld times for %d frames", fake_name((enum fake_function)f),
                 fake_calls((enum fake_function)f), FRAMES);
    CHECK_EQ(words, (by_copy ? 2 : 3) * FRAMES); /* commit, cancel, release: one each */
    end(&scene);
}

/* ---- a driver that keeps work in its hands, as on WSL2 ---- */

/* Behind each signal its stream is asked about, once. `without`: also what graphs or functions of the driver's raise. */
static void check_asked(enum where where, bool by_copy, const char *without)
{
    CHECK(setenv("SLUICE_WITHOUT", without, 1) == 0);
    struct scene scene = begin(where);

    pass_frames(&scene, 10, by_copy);
    fake_forget();
    pass_frames(&scene, FRAMES, by_copy);
    CHECK_EQ(fake_calls(FAKE_StreamQuery), gathers() ? (by_copy ? 2 : 3) * FRAMES : 0);
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), by_copy && !strstr(without, "graphs") ? FRAMES : 0);
    CHECK(!fake_broken_rule());
    end(&scene);
}

TEST_TIMEOUT(a_driver_that_gathers_work_is_asked_behind_each_signal, 60)
{
    for (enum where where = OWN; where <= DEFAULT; where++) {
        check_asked(where, false, "prompt");
        check_asked(where, true, "prompt");
        check_asked(where, true, "graphs,prompt");
        check_asked(where, false, "memops,prompt");
        check_asked(where, false, "memops");
        check_asked(where, true, "graphs");
    }
}

/* The frame is committed whatever the question comes to. */
TEST(what_a_question_says_fails_no_commit)
{
    CHECK(setenv("SLUICE_WITHOUT", "prompt", 1) == 0);
    struct scene scene = begin(OWN);
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(scene.writer, 0, &frame));
    fake_fail(FAKE_StreamQuery, 1, SL_CU_OUT_OF_MEMORY);
    CHECK_OK(sluice_writer_commit(scene.writer, &frame, scene.stream));
    CHECK(fake_failed());
    CHECK_EQ(test_cuStreamSynchronize(scene.native), 0);
    CHECK_OK(sluice_reader_acquire(scene.reader, scene.stream, 0, &frame));
    CHECK_OK(sluice_reader_release(scene.reader, &frame, scene.stream));
    end(&scene);
}

/* A reader whose streams may wait ahead, and never have to. */
TEST(a_reader_that_waits_for_nothing_ahead_costs_no_words)
{
    struct scene scene = begin(OWN);
    struct sluice_reader_params reading = SLUICE_READER_PARAMS_INIT;
    sluice_reader *plain = scene.reader;

    reading.name = "cam";
    reading.ahead = 1;
    reading.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&scene.reader, &reading));
    gpu_settle();
    fake_forget();
    pass_frames(&scene, 2, false);
    CHECK_EQ(fake_calls(FAKE_StreamBatchMemOp), 2); /* who comes might */
    pass_frames(&scene, 98, false);
    fake_forget();
    pass_frames(&scene, FRAMES, false);
    CHECK_EQ(fake_calls(FAKE_StreamBatchMemOp), 0);
    CHECK_EQ(fake_calls(FAKE_StreamWaitValue64), 0);
    CHECK_EQ(fake_calls(FAKE_StreamWriteValue64), 3 * FRAMES);
    CHECK_OK(sluice_reader_close(&plain));
    end(&scene);
}

/* Streams that wait for one another keep the event that they are waited for by. */
TEST(streams_that_wait_for_streams_make_no_events)
{
    for (enum where where = OWN; where <= DEFAULT; where++) {
        struct scene scene = begin(where);
        struct sluice_stream other;
        long calls = 0;
        CHECK_OK(sluice_stream_create(scene.device, NULL, &other));
        CHECK_OK(sluice_stream_wait_stream(other, scene.stream));
        CHECK_OK(sluice_stream_wait_stream(scene.stream, other));
        fake_forget();
        for (int i = 0; i < FRAMES; i++) {
            CHECK_OK(sluice_stream_wait_stream(other, scene.stream));
            CHECK_OK(sluice_stream_wait_stream(scene.stream, other));
        }
        for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
            calls += fake_calls((enum fake_function)f);
        CHECK_EQ(fake_calls(FAKE_EventCreate) + fake_calls(FAKE_EventDestroy), 0);
        CHECK_EQ(fake_calls(FAKE_EventRecord), 2 * FRAMES);
        CHECK_EQ(fake_calls(FAKE_StreamWaitEvent), 2 * FRAMES);
        CHECK(calls <= 2 * FRAMES * 6);
        CHECK_OK(sluice_stream_destroy(&other));
        CHECK_EQ(fake_calls(FAKE_EventDestroy), 1);
        end(&scene);
    }
}

/* That which fails takes NVIDIA's driver a microsecond, so a thread that never has a context asks for nothing that fails. */
TEST(a_thread_without_a_context_is_known)
{
    struct scene scene = begin(OWN);
    struct sluice_frame frame;
    struct sl_cu_context *context;

    CHECK_EQ(test_cuCtxGetCurrent(&context), 0);
    for (int with = 0; with < 4; with++) { /* a context comes and goes */
        CHECK_EQ(test_cuCtxSetCurrent(with % 2 ? context : NULL), 0);
        for (int i = 0; i < 3; i++) {
            CHECK_OK(sluice_writer_begin(scene.writer, 0, &frame));
            fake_forget();
            CHECK_OK(sluice_writer_commit(scene.writer, &frame, scene.stream));
            if (i == 0)
                continue;
            CHECK_EQ(fake_calls(FAKE_CtxGetId), 1); /* of the current one, or of ours */
            CHECK_EQ(fake_calls(FAKE_CtxGetCurrent), with % 2 ? 0 : 1);
            CHECK_EQ(fake_calls(FAKE_CtxPushCurrent), with % 2 ? 0 : 1);
        }
    }
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    end(&scene);
}

TEST(frames_wait_for_no_gpu)
{
    for (enum where where = OWN; where <= DEFAULT; where++)
        check_calls(where, false);
}

TEST(sends_on_a_stream_wait_for_no_gpu)
{
    for (enum where where = OWN; where <= DEFAULT; where++)
        check_calls(where, true);
}
