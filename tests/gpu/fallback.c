/* SPDX-License-Identifier: MIT
 *
 * GPUs that lack a feature which channels use: the fallback gives the same frames. SLUICE_WITHOUT switches the feature
 * off; on the fake driver it is missing as well.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/frames.h"
#include "sync/sync.h"

extern const struct sl_sync_ops sl_sync_cuda;

#define WORDS CHANNEL_WORDS

static void switch_off(const char *words)
{
    CHECK(setenv("SLUICE_WITHOUT", words, 1) == 0);
}

/* ---- signals ---- */

struct words {
    sl_word *word;
    struct sl_sync_pages *pages;
};

static struct words attach(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct words words = { .word = page };

    CHECK(page != MAP_FAILED);
    CHECK_OK(sl_sync_cuda.attach("cuda:0", page, 4096, true, &words.pages));
    return words;
}

static void detach(struct words *words)
{
    sl_sync_cuda.detach(words->pages);
    munmap((void *)words->word, 4096);
}

static int raise_word(const struct words *words, struct sluice_stream stream, uint32_t index, uint64_t value)
{
    struct sl_signal signal = { &words->word[index], value };

    return sl_sync_cuda.signal(words->pages, stream, &signal, 1);
}

static uint64_t value_of(const struct words *words, uint32_t index)
{
    return sl_load(&words->word[index], acquire);
}

static void check_words(struct sluice_device device)
{
    struct words words = attach();
    struct gpu_gate gate = gpu_gate_new();
    struct sl_signal signals[66];
    struct sluice_stream stream;

    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    gpu_spin(gpu_native(stream), 0);
    CHECK_OK(sluice_stream_synchronize(stream));
    gpu_gate_close(&gate, gpu_native(stream));
    for (uint64_t i = 1; i <= 20; i++)
        CHECK_OK(raise_word(&words, stream, 5, i)); /* the CPU goes on */
    CHECK_EQ(value_of(&words, 5), 0);
    gpu_gate_open(&gate);
    CHECK_SOON(value_of(&words, 5) == 20, 5);
    gpu_gate_end(&gate);

    for (uint32_t i = 0; i < 66; i++)
        signals[i] = (struct sl_signal){ &words.word[i], 100 + i };
    CHECK_OK(sl_sync_cuda.signal(words.pages, stream, signals, 66));
    CHECK_OK(sluice_stream_synchronize(stream));
    for (uint32_t i = 0; i < 66; i++)
        CHECK_EQ(value_of(&words, i), 100 + i);
    CHECK_OK(raise_word(&words, SLUICE_ON_CPU, 5, 3));
    CHECK_EQ(value_of(&words, 5), 3);
    CHECK_RESULT(sl_sync_cuda.can_wait(words.pages), SLUICE_E_UNSUPPORTED);
    CHECK_OK(raise_word(&words, stream, 6, 9)); /* still queued when the pages end: they wait */
    CHECK_SOON(value_of(&words, 6) == 9, 5);
    detach(&words);
    CHECK_OK(sluice_stream_destroy(&stream));
}

static void check_capture(struct sluice_device device)
{
    struct words words = attach();
    struct sluice_stream stream, standard;
    struct sl_cu_graph *graph;
    size_t nodes;

    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_stream_default(device, &standard));
    struct sl_cu_stream *blocking = gpu_stream(0);
    CU(StreamBeginCapture, gpu_native(stream), CAPTURE_GLOBAL);
    CU(StreamBeginCapture, blocking, CAPTURE_GLOBAL);
    CHECK_RESULT(raise_word(&words, stream, 0, 1), SLUICE_E_CAPTURING);
    CHECK_OK(raise_word(&words, standard, 0, 7));
    CHECK_SOON(value_of(&words, 0) == 7, 5);
    CU(StreamEndCapture, blocking, &graph);
    CU(GraphDestroy, graph);
    CU(StreamEndCapture, gpu_native(stream), &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CHECK_EQ(nodes, 0);
    CU(GraphDestroy, graph);
    CU(StreamDestroy, blocking);
    detach(&words);
    CHECK_OK(sluice_stream_destroy(&stream));
}

TEST(signals_come_from_host_functions)
{
    static const char *const missing[] = { "memops", "register", "memops,register" };

    gpu_begin();
    gpu_use(0);
    for (size_t i = 0; i < 3; i++) {
        switch_off(missing[i]);
        struct sluice_device device = gpu_open();
        check_words(device);
        check_capture(device);
        CHECK_OK(sluice_device_close(&device));
    }
    gpu_end();
}

/* ---- channels ---- */

/* A frame is ready when its work is done, not before; also for a reader that would take it ahead and cannot. */
static void check_readiness(const char *without)
{
    bool ahead = !strstr(without, "memops") && !strstr(without, "register");
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_reader_params params = channel_reader_params(1);
    struct sluice_frame frame;
    sluice_reader *reader;

    params.ahead = 1;
    params.ahead_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    for (uint32_t value = 1; value <= 3; value++) {
        channel_commit_behind(&gate, fixture.writer, fixture.writing, value);
        if (!ahead)
            CHECK_RESULT(sluice_reader_acquire(reader, fixture.reading, 0, &frame), SLUICE_TIMEOUT);
        gpu_gate_open_later(&gate);
        CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.sequence, value);
        channel_check(&frame, fixture.reading, value);
        gpu_gate_join(&gate);
        CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
    }
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

static void check_memory(uint32_t expected)
{
    struct sluice_channel_info info = { .size = sizeof info };

    CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, NULL, 0));
    CHECK_EQ(info.memory, expected);
}

/* Frames of two formats, from one process to two readers in another. */
static void check_processes(uint32_t memory)
{
    struct channel_fixture fixture = channel_fixture();
    struct sluice_format format = channel_format(2 * WORDS);
    uint32_t value = 0;

    check_memory(memory);
    struct child child = role_start("two_readers", "100", NULL);
    child_expect(&child, "open", 20);
    while (!child_ended(&child)) {
        if (++value % 40 == 0) {
            gpu_settle(); /* the GPU is small */
            CHECK_OK(sluice_writer_reformat(fixture.writer, &format));
        }
        channel_commit(fixture.writer, fixture.writing, 0, value);
        test_nap(100000);
    }
    CHECK_EQ(child_wait(&child, 20), 0);
    channel_end(&fixture);
}

ROLE(two_readers)
{
    struct sluice_stream stream;
    sluice_reader *readers[2];
    struct sluice_frame frame;
    long frames = atol(argv[1]);

    gpu_begin();
    gpu_use(0);
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    for (int i = 0; i < 2; i++)
        readers[i] = channel_reader(2);
    role_say("open");
    while (frames-- > 0) {
        for (int i = 0; i < 2; i++) {
            CHECK_OK(sluice_reader_acquire(readers[i], stream, 20 * SLUICE_S, &frame));
            channel_check(&frame, stream, (uint32_t)frame.sequence);
            CHECK_OK(sluice_reader_release(readers[i], &frame, stream));
        }
    }
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_reader_close(&readers[i]));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
    return 0;
}

/* The same beside captures, in a process of its own. */
static void check_captures(void)
{
    struct child child = role_start_at("capture_other_thread.c", "life_beside", "own", "non-blocking", "", NULL);

    CHECK_EQ(child_wait(&child, 60), 0);
    child = role_start_at("capture_other_thread.c", "life_beside", "default", "blocking", "", NULL);
    CHECK_EQ(child_wait(&child, 60), 0);
}

static void check_channels(const char *without)
{
    switch_off(without);
    check_readiness(without);
    check_processes(strstr(without, "vmm") ? SLUICE_MEMORY_CUDA_IPC : SLUICE_MEMORY_CUDA);
    check_captures();
}

TEST_TIMEOUT(channels_without_stream_memory_operations, 120)
{
    check_channels("memops");
}

TEST_TIMEOUT(channels_without_host_registration, 120)
{
    check_channels("register");
}

TEST_TIMEOUT(channels_without_exported_memory, 120)
{
    check_channels("vmm");
}

TEST_TIMEOUT(channels_without_any_of_it, 120)
{
    check_channels("memops,register,readonly,vmm");
}

/* Each side lacks other features. */
TEST_TIMEOUT(a_writer_and_readers_that_lack_different_things, 60)
{
    gpu_begin();
    switch_off("");
    struct channel_fixture fixture = channel_fixture();
    switch_off("memops");
    struct child child = role_start("two_readers", "50", NULL);
    child_expect(&child, "open", 20);
    for (uint32_t value = 1; !child_ended(&child); value++) {
        channel_commit(fixture.writer, fixture.writing, 0, value);
        test_nap(100000);
    }
    CHECK_EQ(child_wait(&child, 20), 0);
    channel_end(&fixture);
}

/* ---- ends ---- */

ROLE(dying_writer)
{
    struct channel_fixture fixture = channel_fixture();

    for (uint32_t value = 1;; value++) {
        channel_commit(fixture.writer, fixture.writing, 0, value);
        if (value == 10)
            role_say("writing");
        test_nap(200000);
    }
    return 0;
}

/* What becomes of a killed writer's memory depends on the driver; its readers must go on. */
TEST_TIMEOUT(readers_outlive_writers_whose_memory_ends, 60)
{
    struct sluice_stream stream;
    struct sluice_frame frame;
    uint64_t before = 0;

    gpu_begin();
    gpu_use(0);
    switch_off("vmm");
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    sluice_reader *reader = NULL;
    for (int life = 0; life < 3; life++) {
        struct child child = role_start("dying_writer", NULL);
        child_expect(&child, "writing", 20);
        if (!reader)
            reader = channel_reader(1);
        for (int i = 0; i < 5;) {
            CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
            if (frame.session != before) { /* frames left by the killed writer are not checked */
                channel_check(&frame, stream, (uint32_t)frame.sequence);
                i++;
            }
            CHECK_OK(sluice_reader_release(reader, &frame, stream));
        }
        before = frame.session;
        child_kill(&child, 9);
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}

static char said[4096];

static void note(void *user, enum sluice_log_level level, const char *text)
{
    (void)user;
    (void)level;
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s\n", text);
}

/* The log says which fallback is used. */
TEST(the_log_says_which_way_is_taken)
{
    struct sluice_reader_params params = channel_reader_params(1);
    sluice_reader *reader;

    gpu_begin_with(2);
    sluice_log_set(note, NULL, SLUICE_LOG_INFO);
    switch_off("memops,vmm,graphs,peers");
    struct channel_fixture fixture = channel_fixture();
    CHECK_HAS(said, "a function for each commit and release");
    CHECK_HAS(said, "opened by handles, so that readers can write");
    params.device = "cuda:1";
    params.staged = SLUICE_STAGED_IF_NEEDED;
    CHECK_OK(sluice_reader_open(&reader, &params));
    CHECK_HAS(said, "frames are copied");
    CHECK_HAS(said, "\"peers\"");
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

TEST(the_error_says_what_is_missing)
{
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_format format = channel_format(WORDS);
    struct sluice_device device;
    sluice_writer *writer;

    gpu_begin();
    params.format = &format;
    switch_off("vmm,ipc");
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_UNSUPPORTED, "cuMemMap");
    CHECK_HAS(sluice_last_error(), "cuIpcGetMemHandle");
    CHECK_HAS(sluice_last_error(), "SLUICE_WITHOUT");
    switch_off("memops,wings");
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_INVALID, "\"wings\"");
    CHECK_SAYS(sluice_device_open(&device, "cuda:0"), SLUICE_E_INVALID, "\"wings\"");
    params.device = "host";
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_writer_close(&writer));
    switch_off(",readonly,");
    params.device = "cuda:0";
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- features that are really missing ---- */

ROLE(channels)
{
    switch_off("");
    check_readiness(argv[1]);
    check_processes(strstr(argv[1], "vmm") ? SLUICE_MEMORY_CUDA_IPC : SLUICE_MEMORY_CUDA);
    return 0;
}

TEST_TIMEOUT(abilities_that_the_driver_does_not_have, 240)
{
    static const char *const missing[] = { "memops", "register", "readonly", "vmm", "export" };

    gpu_begin();
    if (!gpu_is_fake())
        SKIP("this driver has what it has");
    for (size_t i = 0; i < 5; i++) {
        CHECK(setenv("SLUICE_FAKE_WITHOUT", missing[i], 1) == 0);
        struct child child = role_start("channels", i == 4 ? "vmm" : missing[i], NULL);
        CHECK_EQ(child_wait(&child, 30), 0);
    }
}
