/* SPDX-License-Identifier: MIT
 *
 * Programs with other work on the GPU. A driver that frees memory may wait for all of it, and may block the program's
 * other calls meanwhile. Sluice's calls do not wait where the driver lets them go on; otherwise they end when the work
 * has ended.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "gpu/cipd_kit.h"

/* The other work. */
struct busy {
    struct sluice_device device;
    struct sluice_stream stream;
    struct gpu_gate gate;
};

static struct busy begin(const char *device)
{
    struct busy busy = { .gate = gpu_gate_new() };

    CHECK_OK(sluice_device_open(&busy.device, device));
    CHECK_OK(sluice_stream_create(busy.device, NULL, &busy.stream));
    return busy;
}

static void work(struct busy *busy)
{
    gpu_gate_close(&busy->gate, gpu_native(busy->stream));
}

#define A_WHILE (300 * SLUICE_MS) /* long enough for the driver to be asked to free something meanwhile */

static void *open_after_a_while(void *gate)
{
    test_nap(A_WHILE);
    gpu_gate_open(gate);
    return NULL;
}

static void work_for_a_while(struct busy *busy)
{
    work(busy);
    CHECK(pthread_create(&busy->gate.thread, NULL, open_after_a_while, &busy->gate) == 0);
}

static void after(struct busy *busy)
{
    CHECK_OK(sluice_stream_synchronize(busy->stream));
    gpu_gate_join(&busy->gate);
    gpu_gate_end(&busy->gate);
}

/* Checks that nothing has waited for it. */
static void end(struct busy *busy)
{
    CHECK_RESULT(sluice_stream_query(busy->stream), SLUICE_NOT_READY);
    gpu_gate_open(&busy->gate);
    CHECK_OK(sluice_stream_synchronize(busy->stream));
    gpu_gate_end(&busy->gate);
}

/* ---- the driver ---- */

struct freeing {
    struct sl_cu_context *context;
    void *pinned;
    atomic_bool done;
};

static void *free_pinned(void *argument)
{
    struct freeing *freeing = argument;

    CU(CtxPushCurrent, freeing->context);
    CU(MemFreeHost, freeing->pinned);
    atomic_store(&freeing->done, true);
    return NULL;
}

/* The driver calls of commit, release, acquire and a wait ahead go on, on another stream, while a thread waits in
 * cuMemFreeHost. On an H200 (driver 580.159) launches, copies and event records do not. */
TEST_TIMEOUT(busy_words_are_written_while_memory_is_freed, 60)
{
    struct freeing freeing = { .done = false };
    struct gpu_gate gate, word;
    pthread_t thread;
    uint64_t address;
    int status;

    gpu_begin();
    freeing.context = gpu_use(0);
    struct sl_cu_stream *stuck = gpu_stream(SL_CU_STREAM_NON_BLOCKING), *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    gate = gpu_gate_new();
    word = gpu_gate_new();
    CU(MemHostAlloc, &freeing.pinned, 4096, 0);
    CU(MemHostGetDevicePointer, &address, (void *)word.word, 0);
    gpu_gate_close(&gate, stuck);
    CHECK(pthread_create(&thread, NULL, free_pinned, &freeing) == 0);
    test_nap(A_WHILE);
    CHECK(!atomic_load(&freeing.done));
    CU(StreamIsCapturing, stream, &status);
    CU(StreamWriteValue64, stream, address, 1, 0);
    CU(StreamWaitValue64, stream, address, 1, SL_CU_WAIT_GEQ);
    CU(StreamSynchronize, stream);
    CHECK_EQ(cu.StreamQuery(stuck), SL_CU_NOT_READY);
    gpu_gate_open(&gate);
    CHECK(pthread_join(thread, NULL) == 0);
    gpu_gate_end(&gate);
    gpu_gate_end(&word);
    CU(StreamDestroy, stuck);
    CU(StreamDestroy, stream);
    gpu_end();
}

static void without(const char *words)
{
    CHECK(setenv("SLUICE_WITHOUT", words, 1) == 0);
}

/* ---- a channel of Sluice's own ---- */

/* Each line is a new format, of that many times the words, and two frames of it. */
ROLE(busy_writer)
{
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_stream stream;
    sluice_writer *writer;
    uint32_t value = 0;
    const char *line;

    if (argc > 1)
        without(argv[1]);
    gpu_begin();
    gpu_use(0);
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    channel_commit(writer, stream, 0, ++value);
    CHECK_OK(sluice_stream_synchronize(stream));
    role_say("open");
    while ((line = role_line())) {
        format = channel_format(atol(line) * CHANNEL_WORDS);
        CHECK_OK(sluice_writer_reformat(writer, &format));
        for (int i = 0; i < 2; i++) /* the second one takes no slot of the old format */
            channel_commit(writer, stream, 0, ++value);
        CHECK_OK(sluice_stream_synchronize(stream));
        role_say("committed");
    }
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
    return 0;
}

static struct child start_writer(const char *lacks)
{
    struct child writer = role_start("busy_writer", lacks, NULL);

    child_expect(&writer, "open", 20);
    return writer;
}

static void fetch(sluice_reader *reader, const struct sluice_frame *frame, uint32_t value)
{
    uint32_t *words = calloc(CHANNEL_WORDS, sizeof *words);
    struct sluice_array array;

    CHECK_OK(sluice_frame_array(frame, NULL, &array));
    array.data = words;
    array.read_only = 0;
    CHECK_OK(sluice_reader_fetch(reader, frame, &array, 1, SLUICE_ON_CPU, NULL));
    CHECK_EQ(words[CHANNEL_WORDS - 1], value);
    free(words);
}

static void take(sluice_reader *reader, bool fetches)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    if (fetches)
        fetch(reader, &frame, (uint32_t)frame.sequence);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
}

/* With the resources of its fetches: pinned memory and signals. */
TEST_TIMEOUT(busy_a_reader_that_has_fetched_closes, 60)
{
    gpu_begin();
    gpu_use(0);
    test_dir();
    struct busy busy = begin("cuda:0");
    struct child writer = start_writer(NULL);
    sluice_reader *reader = channel_reader(1);

    take(reader, true);
    work(&busy);
    int64_t began = test_now();
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    end(&busy);
    role_stop(&writer);
    CHECK_OK(sluice_device_close(&busy.device));
    gpu_end();
}

/* Memory that is shared by handles is freed, not unmapped. Readers that copy wait for the work: see the driver, above.
 * */
static void reader_of_formats(const char *device, uint32_t staged, const char *lacks)
{
    struct sluice_reader_params params = channel_reader_params(1);
    sluice_reader *reader;

    struct child writer = start_writer(lacks);
    gpu_use(atoi(device + sizeof "cuda:" - 1));
    struct busy busy = begin(device);
    params.device = device;
    params.staged = staged;
    CHECK_OK(sluice_reader_open(&reader, &params));
    take(reader, false);
    if (staged)
        work_for_a_while(&busy);
    else
        work(&busy);
    for (int i = 0; i < 3; i++) {
        child_send(&writer, i == 0 ? "2" : i == 1 ? "3" : "4");
        child_expect(&writer, "committed", 20);
        take(reader, false);
    }
    CHECK_OK(sluice_reader_close(&reader));
    if (staged)
        after(&busy);
    else
        end(&busy);
    role_stop(&writer);
    CHECK_OK(sluice_device_close(&busy.device));
    gpu_end();
}

TEST_TIMEOUT(busy_a_reader_takes_frames_of_another_format, 60)
{
    without("vmm");
    gpu_begin();
    test_dir();
    reader_of_formats("cuda:0", 0, "vmm");
}

TEST_TIMEOUT(busy_a_reader_of_copies_takes_frames_of_another_format, 60)
{
    without("vmm,peers");
    gpu_begin_with(2);
    test_dir();
    reader_of_formats("cuda:1", SLUICE_STAGED_IF_NEEDED, "vmm,peers");
}

TEST_TIMEOUT(busy_a_writer_goes_on_with_another_format, 60)
{
    struct sluice_format larger = channel_format(4 * CHANNEL_WORDS);

    without("vmm");
    struct channel_fixture fixture = channel_fixture();
    struct busy busy = begin("cuda:0");
    channel_commit(fixture.writer, fixture.writing, 0, 1);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    CHECK_OK(sluice_writer_reformat(fixture.writer, &larger));
    channel_commit(fixture.writer, fixture.writing, 0, 2);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    work_for_a_while(&busy);           /* frames are filled by copies, which the driver blocks while it frees */
    for (uint32_t i = 3; i < 6; i++) { /* begin retires what is left of the old format */
        channel_commit(fixture.writer, fixture.writing, 0, i);
        CHECK_OK(sluice_stream_synchronize(fixture.writing));
    }
    after(&busy);
    CHECK_OK(sluice_device_close(&busy.device));
    channel_end(&fixture);
}

/* ---- a channel of cuda-link's protocol ---- */

TEST_TIMEOUT(busy_cipd_a_reader_that_waits_ahead_closes, 60)
{
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params;
    struct cipd_side side = cipd_begin();
    struct busy busy = begin("cuda:0");
    struct sluice_frame frame;
    sluice_reader *reader;
    uint32_t *words = calloc(CIPD_WIDTH * CIPD_HEIGHT * 4, sizeof *words);

    params = cipd_reader_params(&cipd);
    params.ahead = 1;
    side.writer = cipd_writer(&side.format);
    CHECK_OK(sluice_reader_open(&reader, &params));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    struct sluice_array to = cipd_array((uintptr_t)words, &side.format);
    CHECK_OK(sluice_reader_fetch(reader, &frame, &to, 1, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    work(&busy);
    int64_t began = test_now();
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    end(&busy);
    free(words);
    CHECK_OK(sluice_device_close(&busy.device));
    cipd_end(&side);
}

TEST_TIMEOUT(busy_cipd_a_writer_that_has_sent_closes, 60)
{
    struct cipd_side side = cipd_begin();
    struct busy busy = begin("cuda:0");
    uint32_t *words = calloc(CIPD_WIDTH * CIPD_HEIGHT * 4, sizeof *words);

    side.writer = cipd_writer(&side.format);
    struct sluice_array from = cipd_array((uintptr_t)words, &side.format); /* by way of pinned memory */
    CHECK_OK(sluice_writer_send(side.writer, &from, 1, SLUICE_ON_CPU, NULL));
    work(&busy);
    int64_t began = test_now();
    CHECK_OK(sluice_writer_close(&side.writer));
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    end(&busy);
    free(words);
    CHECK_OK(sluice_device_close(&busy.device));
    cipd_end(&side);
}

/* The reader gives back the session before, and checks whether any of its memory is still open. */
TEST_TIMEOUT(busy_cipd_a_reader_goes_over_to_the_next_session, 60)
{
    gpu_begin();
    gpu_use(0);
    struct child writer = cipd_start_writer("3");
    struct busy busy = begin("cuda:0");
    struct sluice_reader_stats stats = { .size = sizeof stats };
    sluice_reader *reader = cipd_reader();
    struct sluice_frame frame;

    cipd_command(&writer, "1");
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    work_for_a_while(&busy); /* the driver opens no event while it closes memory of the session before */
    for (int i = 0; i < 2; i++) {
        cipd_command(&writer, i ? "again" : "slots");
        cipd_command(&writer, i ? "3" : "2");
        CHECK_SOON(sluice_reader_acquire(reader, SLUICE_ON_CPU, 50 * SLUICE_MS, &frame) == 0, 20);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_OK(sluice_reader_stats(reader, &stats));
    CHECK_EQ(stats.sessions, 3);
    CHECK_OK(sluice_reader_close(&reader));
    after(&busy);
    role_stop(&writer);
    CHECK_OK(sluice_device_close(&busy.device));
    gpu_end();
    cipd_clean();
}
