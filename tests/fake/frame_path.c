/* SPDX-License-Identifier: MIT
 *
 * The driver calls of a frame's path: none waits for the GPU or queries its progress.
 */
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "fake/batching.h"
#include "fake/fake.h"
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

struct channel_fixture {
    struct sluice_device device;
    struct sluice_stream stream;
    struct sl_cu_stream *native;
    sluice_writer *writer;
    sluice_reader *reader;
    struct sluice_array source; /* the program's memory on the GPU */
};

static void open_stream(struct channel_fixture *fixture, enum where where)
{
    uintptr_t native;

    if (where == OWN) {
        CHECK_OK(sluice_stream_create(fixture->device, NULL, &fixture->stream));
    } else if (where == WRAPPED) {
        CHECK_EQ(test_cuStreamCreateWithPriority(&fixture->native, SL_CU_STREAM_NON_BLOCKING, 0), 0);
        CHECK_OK(sluice_stream_wrap(fixture->device, (uintptr_t)fixture->native, NULL, NULL, &fixture->stream));
    } else {
        CHECK_OK(sluice_stream_default(fixture->device, &fixture->stream));
    }
    CHECK_OK(sluice_stream_native(fixture->stream, &native));
    fixture->native = (struct sl_cu_stream *)native;
}

static struct channel_fixture begin(enum where where)
{
    struct sluice_writer_params writing = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params reading = SLUICE_READER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sl_cu_context *context;
    struct channel_fixture fixture = { .writer = NULL };
    int64_t bytes = BYTES;
    uint64_t address;

    fake_use();
    test_dir();
    CHECK_OK(sluice_device_open(&fixture.device, "cuda:0"));
    CHECK_EQ(test_cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    open_stream(&fixture, where);
    CHECK_EQ(test_cuMemAlloc_v2(&address, BYTES), 0);
    CHECK_OK(sluice_array_wrap(&fixture.source, "data", (void *)(uintptr_t)address, u8, 1, &bytes, NULL));
    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &bytes));
    writing.name = reading.name = "cam";
    writing.device = "cuda:0";
    writing.format = &format;
    reading.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_writer_open(&fixture.writer, &writing));
    CHECK_OK(sluice_reader_open(&fixture.reader, &reading));
    return fixture;
}

static void end(struct channel_fixture *fixture)
{
    CHECK_OK(sluice_reader_close(&fixture->reader));
    CHECK_OK(sluice_writer_close(&fixture->writer));
    CHECK_OK(sluice_device_close(&fixture->device));
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
    gpu_settle();
    fake_end_contexts();
}

static void write_frame(struct channel_fixture *fixture, bool by_copy)
{
    struct sluice_frame frame, dropped;

    if (by_copy) {
        CHECK_OK(sluice_writer_send(fixture->writer, &fixture->source, 1, fixture->stream, NULL));
        return;
    }
    CHECK_OK(sluice_writer_begin(fixture->writer, 0, &frame));
    CHECK_OK(sluice_writer_begin(fixture->writer, 0, &dropped));
    CHECK_OK(sluice_writer_commit(fixture->writer, &frame, fixture->stream));
    CHECK_OK(sluice_writer_cancel(fixture->writer, &dropped, fixture->stream));
}

/* The test itself waits for the GPU, by the driver's test functions, so that each call finds what it wants. */
static void pass_frames(struct channel_fixture *fixture, int count, bool by_copy)
{
    struct sluice_frame frame;

    for (int i = 0; i < count; i++) {
        write_frame(fixture, by_copy);
        CHECK_EQ(test_cuStreamSynchronize(fixture->native), 0);
        CHECK_OK(sluice_reader_acquire(fixture->reader, fixture->stream, 0, &frame));
        CHECK_OK(sluice_reader_release(fixture->reader, &frame, fixture->stream));
        CHECK_EQ(test_cuStreamSynchronize(fixture->native), 0);
    }
}

/* Calls that wait for the GPU, and calls that query its progress: some of NVIDIA's also wait for other work. */
static bool waits(const char *name)
{
    return strstr(name, "Synchronize") || (strstr(name, "Query") && !driver_batches()) || strstr(name, "WaitValue") ||
           strstr(name, "Alloc") || strstr(name, "Register") || strstr(name, "Create") || strstr(name, "Destroy") ||
           strstr(name, "Map");
}

static void check_calls(enum where where, bool by_copy)
{
    struct channel_fixture fixture = begin(where);
    long words;

    pass_frames(&fixture, 10, by_copy); /* the first ones map memory, and see the stream for the first time */
    fake_forget();
    pass_frames(&fixture, FRAMES, by_copy);
    words = fake_calls(FAKE_StreamWriteValue64) + fake_calls(FAKE_StreamBatchMemOp) + fake_calls(FAKE_GraphLaunch);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        if (waits(fake_name((enum fake_function)f)) && fake_calls((enum fake_function)f) > 0)
            FAIL("%s was called %ld times for %d frames", fake_name((enum fake_function)f),
                 fake_calls((enum fake_function)f), FRAMES);
    CHECK_EQ(words, (by_copy ? 2 : 3) * FRAMES); /* commit, cancel, release: one each */
    end(&fixture);
}

/* ---- a driver that batches work, as on WSL2 ---- */

/* After each signal its stream is queried, once. `without`: also signals of graphs or host functions. */
static void check_asked(enum where where, bool by_copy, const char *without)
{
    CHECK(setenv("SLUICE_WITHOUT", without, 1) == 0);
    struct channel_fixture fixture = begin(where);

    pass_frames(&fixture, 10, by_copy);
    fake_forget();
    pass_frames(&fixture, FRAMES, by_copy);
    CHECK_EQ(fake_calls(FAKE_StreamQuery), driver_batches() ? (by_copy ? 2 : 3) * FRAMES : 0);
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), by_copy && !strstr(without, "graphs") ? FRAMES : 0);
    CHECK(!fake_broken_rule());
    end(&fixture);
}

TEST_TIMEOUT(a_driver_that_batches_work_is_queried_after_each_signal, 60)
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

/* The frame is committed whatever the query returns. */
TEST(a_failed_query_fails_no_commit)
{
    CHECK(setenv("SLUICE_WITHOUT", "prompt", 1) == 0);
    struct channel_fixture fixture = begin(OWN);
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(fixture.writer, 0, &frame));
    fake_fail(FAKE_StreamQuery, 1, SL_CU_OUT_OF_MEMORY);
    CHECK_OK(sluice_writer_commit(fixture.writer, &frame, fixture.stream));
    CHECK(fake_failed());
    CHECK_EQ(test_cuStreamSynchronize(fixture.native), 0);
    CHECK_OK(sluice_reader_acquire(fixture.reader, fixture.stream, 0, &frame));
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, fixture.stream));
    end(&fixture);
}

/* A reader whose streams may wait ahead, and never have to. */
TEST(a_reader_that_waits_for_nothing_ahead_costs_no_words)
{
    struct channel_fixture fixture = begin(OWN);
    struct sluice_reader_params reading = SLUICE_READER_PARAMS_INIT;
    sluice_reader *plain = fixture.reader;

    reading.name = "cam";
    reading.ahead = 1;
    reading.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&fixture.reader, &reading));
    gpu_settle();
    fake_forget();
    pass_frames(&fixture, 2, false);
    CHECK_EQ(fake_calls(FAKE_StreamBatchMemOp), 2); /* a new reader might */
    pass_frames(&fixture, 98, false);
    fake_forget();
    pass_frames(&fixture, FRAMES, false);
    CHECK_EQ(fake_calls(FAKE_StreamBatchMemOp), 0);
    CHECK_EQ(fake_calls(FAKE_StreamWaitValue64), 0);
    CHECK_EQ(fake_calls(FAKE_StreamWriteValue64), 3 * FRAMES);
    CHECK_OK(sluice_reader_close(&plain));
    end(&fixture);
}

/* Streams that wait for one another keep the event that they use for it. */
TEST(streams_that_wait_for_streams_make_no_events)
{
    for (enum where where = OWN; where <= DEFAULT; where++) {
        struct channel_fixture fixture = begin(where);
        struct sluice_stream other;
        long calls = 0;
        CHECK_OK(sluice_stream_create(fixture.device, NULL, &other));
        CHECK_OK(sluice_stream_wait_stream(other, fixture.stream));
        CHECK_OK(sluice_stream_wait_stream(fixture.stream, other));
        fake_forget();
        for (int i = 0; i < FRAMES; i++) {
            CHECK_OK(sluice_stream_wait_stream(other, fixture.stream));
            CHECK_OK(sluice_stream_wait_stream(fixture.stream, other));
        }
        for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
            calls += fake_calls((enum fake_function)f);
        CHECK_EQ(fake_calls(FAKE_EventCreate) + fake_calls(FAKE_EventDestroy), 0);
        CHECK_EQ(fake_calls(FAKE_EventRecord), 2 * FRAMES);
        CHECK_EQ(fake_calls(FAKE_StreamWaitEvent), 2 * FRAMES);
        CHECK(calls <= 2 * FRAMES * 6);
        CHECK_OK(sluice_stream_destroy(&other));
        CHECK_EQ(fake_calls(FAKE_EventDestroy), 1);
        end(&fixture);
    }
}

/* A failing call takes NVIDIA's driver a microsecond, so a thread that never has a context makes none. */
TEST(a_thread_without_a_context_is_known)
{
    struct channel_fixture fixture = begin(OWN);
    struct sluice_frame frame;
    struct sl_cu_context *context;

    CHECK_EQ(test_cuCtxGetCurrent(&context), 0);
    for (int with = 0; with < 4; with++) { /* a context comes and goes */
        CHECK_EQ(test_cuCtxSetCurrent(with % 2 ? context : NULL), 0);
        for (int i = 0; i < 3; i++) {
            CHECK_OK(sluice_writer_begin(fixture.writer, 0, &frame));
            fake_forget();
            CHECK_OK(sluice_writer_commit(fixture.writer, &frame, fixture.stream));
            if (i == 0)
                continue;
            CHECK_EQ(fake_calls(FAKE_CtxGetId), 1); /* of the current one, or of ours */
            CHECK_EQ(fake_calls(FAKE_CtxGetCurrent), with % 2 ? 0 : 1);
            CHECK_EQ(fake_calls(FAKE_CtxPushCurrent), with % 2 ? 0 : 1);
        }
    }
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    end(&fixture);
}

TEST(frames_do_not_wait_for_the_gpu)
{
    for (enum where where = OWN; where <= DEFAULT; where++)
        check_calls(where, false);
}

TEST(sends_on_a_stream_do_not_wait_for_the_gpu)
{
    for (enum where where = OWN; where <= DEFAULT; where++)
        check_calls(where, true);
}
