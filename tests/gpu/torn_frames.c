/* SPDX-License-Identifier: MIT
 *
 * No frame is torn at full speed: a writer and two readers, each a process whose GPU has other work, too. Kernels check
 * every word of every frame, on the reader's stream between acquire and release; nobody waits for them until the end.
 *
 * SLUICE_WHOLE_SECONDS says for how long; sends by graph get a sixth of it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/channel.h"

#define WORDS        (1920 * 1080 * 4) /* 1080p, RGBA, of floats */
#define FAKE_WORDS   (WORDS / 64)      /* two CPUs are no GPU */
#define LOAD_WORDS   (1024 * 1024)
#define LINGER_EVERY 16 /* frames that are held for a while, so that the writer comes round to them */
#define LINGER       (SLUICE_MS / 2)
#define LEAST        (2 * LINGER_EVERY) /* frames, however long they take */
#define PATIENCE     (100 * SLUICE_S)   /* the time of the whole test is limited */

static uint64_t words_of_a_frame(void)
{
    return gpu_is_fake() ? FAKE_WORDS : (uint64_t)test_scale(WORDS);
}

static double seconds(void)
{
    const char *wanted = getenv("SLUICE_WHOLE_SECONDS");

    return wanted && *wanted ? strtod(wanted, NULL) : (double)test_scale(gpu_is_fake() ? 3 : 10);
}

/* ---- other work of the same process ---- */

struct load {
    pthread_t thread;
    uint64_t memory;
    atomic_bool stop;
    long done;
};

static void *keep_busy(void *shared)
{
    struct load *load = shared;

    gpu_use(0);
    struct sl_cu_stream *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    do {
        for (int i = 0; i < 8; i++)
            gpu_fill(stream, load->memory, LOAD_WORDS, (uint32_t)i);
        CU(StreamSynchronize, stream);
        load->done += 8;
    } while (!load->stop);
    CU(StreamDestroy, stream);
    cu.CtxSetCurrent(NULL);
    return NULL;
}

static void begin_load(struct load *load, struct sl_cu_stream *stream)
{
    load->memory = gpu_memory(LOAD_WORDS * 4);
    gpu_spin(stream, 0); /* loads the kernels before there are two threads */
    gpu_fill(stream, load->memory, 1, 0);
    CU(StreamSynchronize, stream);
    CHECK(pthread_create(&load->thread, NULL, keep_busy, load) == 0);
}

static void end_load(struct load *load)
{
    load->stop = true;
    CHECK(pthread_join(load->thread, NULL) == 0);
    CHECK_GE(load->done, 1);
}

/* ---- a reader ---- */

struct tally {
    unsigned long frames, ahead, missed;
};

static void look_at_frames(sluice_reader *reader, struct sluice_stream stream, double time, uint64_t bad,
                           struct tally *tally)
{
    int64_t end = test_now() + (int64_t)(time * 1e9);
    struct sl_cu_stream *native = gpu_native(stream);
    struct sluice_frame frame;

    while (test_now() < end || tally->frames < LEAST) {
        CHECK_OK(sluice_reader_acquire(reader, stream, PATIENCE, &frame));
        if (tally->frames % LINGER_EVERY == LINGER_EVERY - 1)
            gpu_spin(native, LINGER);
        gpu_compare(native, channel_words(&frame), words_of_a_frame(), (uint32_t)frame.sequence, bad);
        tally->ahead += (frame.flags & SLUICE_FRAME_AHEAD) != 0;
        tally->missed += frame.missed;
        tally->frames++;
        CHECK_OK(sluice_reader_release(reader, &frame, stream));
    }
}

/* Arguments: how it reads; whether its stream waits for frames; for how many seconds. */
ROLE(whole_reader)
{
    struct sluice_reader_params params = channel_reader_params(2);
    struct load load = { .stop = false };
    struct sluice_stream stream;
    struct tally tally = { 0 };
    sluice_reader *reader;
    uint32_t found = 77;

    CHECK(argc == 4);
    gpu_begin();
    gpu_use(0);
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    params.mode = strcmp(argv[1], "order") == 0 ? SLUICE_IN_ORDER : SLUICE_NEWEST;
    params.ahead = strcmp(argv[2], "ahead") == 0;
    params.ahead_ns = PATIENCE;
    CHECK_OK(sluice_reader_open(&reader, &params));
    uint64_t bad = gpu_memory(8);
    CU(MemsetD8Async, bad, 0, 8, gpu_native(stream));
    begin_load(&load, gpu_native(stream));
    role_say("ready");
    look_at_frames(reader, stream, strtod(argv[3], NULL), bad, &tally);
    CU(MemcpyDtoHAsync, &found, bad, 4, gpu_native(stream));
    CHECK_OK(sluice_stream_synchronize(stream));
    end_load(&load);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
    role_say("%lu frames, %lu ahead, %lu missed, %u words torn", tally.frames, tally.ahead, tally.missed, found);
    return 0;
}

/* ---- the writer ---- */

static unsigned long write_until_they_end(sluice_writer *writer, struct sluice_stream stream, struct child *readers)
{
    struct sluice_frame frame;
    unsigned long written = 0;

    while (!child_ended(&readers[0]) || !child_ended(&readers[1])) {
        int r = sluice_writer_begin(writer, SLUICE_DEFAULT, &frame); /* does not wait: slow readers lose frames */
        if (r == SLUICE_NO_SLOT) {                                   /* all are being worked on, or held */
            (void)sluice_writer_wait(writer, SLUICE_MS);
            continue;
        }
        CHECK_OK(r);
        gpu_fill(gpu_native(stream), channel_words(&frame), words_of_a_frame(), (uint32_t)++written);
        CHECK_OK(sluice_writer_commit(writer, &frame, stream));
        CHECK_EQ(frame.sequence, written);
    }
    return written;
}

/* The same frames from the program's memory, which is filled again after each copy. */
static unsigned long send_until_they_end(sluice_writer *writer, struct sluice_stream stream, struct child *readers)
{
    int64_t words = (int64_t)words_of_a_frame();
    uint64_t source = gpu_memory((size_t)words * 4);
    struct sluice_writer_stats stats = { .size = sizeof stats };
    struct sluice_array array;
    unsigned long written = 0;

    CHECK_OK(sluice_array_wrap(&array, "data", (void *)(uintptr_t)source, (struct sluice_dtype){ SLUICE_UINT, 32, 1 },
                               1, &words, NULL));
    while (!child_ended(&readers[0]) || !child_ended(&readers[1])) {
        int r = sluice_writer_wait(writer, SLUICE_MS);
        if (r == SLUICE_NO_SLOT)
            continue; /* no work without a slot: where it takes longer than the wait, it would pile up */
        CHECK_OK(r);
        gpu_fill(gpu_native(stream), source, (uint64_t)words, (uint32_t)written + 1);
        if ((r = sluice_writer_send(writer, &array, 1, stream, NULL)) == SLUICE_NO_SLOT)
            continue; /* a reader was faster */
        CHECK_OK(r);
        written++;
    }
    CHECK_OK(sluice_writer_stats(writer, &stats));
    CHECK_EQ(stats.committed, written);
    CHECK_GE(stats.graph_sends, written / 2);
    return written;
}

static void check_reader(struct child *child, const char *mode, double time, unsigned long written)
{
    FILE *facts = gpu_facts();
    struct tally tally;
    unsigned torn;

    const char *said = child_line(child, 20);

    CHECK(said);
    CHECK_EQ(sscanf(said, "%lu frames, %lu ahead, %lu missed, %u words torn", &tally.frames, &tally.ahead,
                    &tally.missed, &torn),
             4);
    CHECK_EQ(child_wait(child, 20), 0);
    fprintf(facts,
            "{\"fact\": \"torn\", \"reader\": \"%s\", \"seconds\": %.1f, \"written\": %lu, \"frames\": %lu, \"ahead\": "
            "%lu, "
            "\"missed\": %lu, \"torn_words\": %u}\n",
            mode, time, written, tally.frames, tally.ahead, tally.missed, torn);
    CHECK(fclose(facts) == 0);
    CHECK_EQ(torn, 0);
    CHECK_GE(tally.frames, LEAST);
    CHECK_LE(tally.frames, written);
}

static void hurry(bool by_graph)
{
    double time = by_graph ? seconds() / 6 : seconds();
    char text[32];
    struct sluice_writer_params params = channel_writer_params();
    struct load load = { .stop = false };
    struct sluice_stream stream;
    struct child readers[2];
    sluice_writer *writer;

    gpu_begin();
    gpu_use(0);
    struct sluice_format format = channel_format((int64_t)words_of_a_frame());
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    params.format = &format;
    params.slots = params.max_slots = 7;
    params.no_graphs = !by_graph;
    CHECK_OK(sluice_writer_open(&writer, &params));
    begin_load(&load, gpu_native(stream));
    snprintf(text, sizeof text, "%f", time);
    readers[0] = role_start("whole_reader", "newest", "ahead", text, NULL);
    readers[1] = role_start("whole_reader", "order", "", text, NULL);
    for (int i = 0; i < 2; i++)
        child_expect(&readers[i], "ready", 20);
    unsigned long written = (by_graph ? send_until_they_end : write_until_they_end)(writer, stream, readers);
    check_reader(&readers[0], by_graph ? "newest, ahead; sent by graphs" : "newest, ahead", time, written);
    check_reader(&readers[1], by_graph ? "in order; sent by graphs" : "in order", time, written);
    CHECK_OK(sluice_stream_synchronize(stream));
    end_load(&load);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}

TEST_TIMEOUT(no_frame_is_torn_at_full_speed, 400)
{
    hurry(false);
}

TEST_TIMEOUT(no_frame_is_torn_that_is_sent_by_a_graph, 120)
{
    hurry(true);
}
