/* SPDX-License-Identifier: MIT
 *
 * Signals: words that a stream writes after its work.
 */
#include <string.h>

#include "gpu/kit.h"
#include "os/os.h"
#include "sync/sync.h"

extern const struct sl_sync_ops sl_sync_cuda;

/* A page of words as a channel has it: a sealed memfd, visible to the GPU. */
struct words {
    sl_word *word;
    struct sl_sync_pages *pages;
    uint64_t size;
    int fd;
};

static struct words attach(uint64_t size)
{
    struct words words = { .size = size };
    void *address;

    CHECK_OK(sl_os_memory_create("words", size, &words.fd));
    CHECK_OK(sl_os_map(words.fd, size, true, &address));
    words.word = address;
    CHECK_OK(sl_sync_cuda.attach("cuda:0", address, size, true, &words.pages));
    CHECK_OK(sl_os_memory_seal(words.fd, true)); /* after it: registering pins writable pages */
    return words;
}

static void detach(struct words *words)
{
    sl_sync_cuda.detach(words->pages);
    sl_os_unmap((void *)words->word, words->size);
    sl_os_close(words->fd);
}

static int raise_word(const struct words *words, struct sluice_stream stream, sl_word *word, uint64_t value)
{
    struct sl_signal signal = { word, value };

    return sl_sync_cuda.signal(words->pages, stream, &signal, 1);
}

static uint64_t value_of(sl_word *word)
{
    return sl_load(word, acquire);
}

TEST(a_signal_follows_the_work)
{
    struct sluice_device device;
    struct sluice_stream stream;

    gpu_begin();
    gpu_use(0);
    struct words words = attach(4096);
    struct gpu_gate gate = gpu_gate_new();
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    for (uint64_t i = 1; i <= 3; i++) {
        gpu_gate_close(&gate, gpu_native(stream));
        CHECK_OK(raise_word(&words, stream, &words.word[5], i)); /* the CPU goes on, though the gate is closed */
        CHECK_EQ(value_of(&words.word[5]), i - 1);
        gpu_gate_open_later(&gate);
        CHECK_SOON(value_of(&words.word[5]) == i, 5); /* without a driver call */
        gpu_gate_join(&gate);
    }
    CHECK_OK(sluice_stream_synchronize(stream));
    gpu_gate_end(&gate);
    CHECK_EQ(value_of(&words.word[4]) + value_of(&words.word[6]), 0);
    CHECK_OK(raise_word(&words, SLUICE_ON_CPU, &words.word[5], 99));
    CHECK_EQ(value_of(&words.word[5]), 99);
    CHECK_OK(sluice_device_close(&device));
    detach(&words);
    gpu_end();
}

TEST(several_words_at_once)
{
    struct sl_signal signals[67];
    struct sluice_device device;
    struct sluice_stream stream;

    gpu_begin();
    struct words words = attach(8192);
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    for (uint32_t count = 0; count <= 66; count++) {
        for (uint32_t i = 0; i < count; i++)
            signals[i] = (struct sl_signal){ &words.word[i * 8], count * 100 + i };
        CHECK_OK(sl_sync_cuda.signal(words.pages, stream, signals, count));
        CHECK_OK(sluice_stream_synchronize(stream));
        for (uint32_t i = 0; i < count; i++)
            CHECK_EQ(value_of(&words.word[i * 8]), count * 100 + i);
    }
    CHECK_SAYS(sl_sync_cuda.signal(words.pages, stream, signals, 67), SLUICE_E_LIMIT, "66");
    CHECK_OK(sluice_device_close(&device));
    detach(&words);
}

TEST(wrong_streams_and_wrong_words)
{
    struct sluice_device device, host;
    struct sluice_stream stream, foreign;
    sl_word loose = 0;

    gpu_begin();
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_device_open(&host, "host"));
    CHECK_OK(sluice_stream_create(host, NULL, &foreign));
    struct words words = attach(4096);
    CHECK_RESULT(raise_word(&words, foreign, words.word, 1), SLUICE_E_WRONG_DEVICE);
    CHECK_RESULT(raise_word(&words, (struct sluice_stream){ 0 }, words.word, 1), SLUICE_E_INVALID);
    CHECK_SAYS(raise_word(&words, stream, &loose, 1), SLUICE_E_DRIVER, "cuStreamWriteValue64");
    CHECK_EQ(loose, 0);
    struct sluice_stream gone = stream;
    CHECK_OK(sluice_stream_destroy(&stream));
    CHECK_RESULT(raise_word(&words, gone, words.word, 1), SLUICE_E_CLOSED);
    CHECK_EQ(value_of(words.word), 0);

    struct sl_sync_pages *pages = NULL;
    CHECK_RESULT(sl_sync_cuda.attach("cuda:0", (char *)words.word + 8, 4096, true, &pages), SLUICE_E_INVALID);
    CHECK_SAYS(sl_sync_cuda.attach("cuda:0", (void *)words.word, 4096, true, &pages), SLUICE_E_DRIVER,
               "ALREADY_REGISTERED");
    CHECK_RESULT(sl_sync_cuda.attach("cuda:99", (void *)words.word, 4096, true, &pages), SLUICE_E_UNSUPPORTED);
    CHECK(!pages);
    detach(&words);
    CHECK_OK(sluice_device_close(&device));
    CHECK_OK(sluice_device_close(&host));
}

/* A reader maps the words read-only, and so does its GPU. */
TEST(pages_that_may_only_be_read)
{
    void *address;
    int fd;

    gpu_begin();
    gpu_use(0);
    struct sl_cu_stream *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    struct sl_sync_pages *pages;
    CHECK_OK(sl_os_memory_create("words", 4096, &fd));
    CHECK_OK(sl_os_memory_seal(fd, true));
    CHECK_OK(sl_os_map(fd, 4096, false, &address));
    CHECK(sl_sync_cuda.attach("cuda:0", address, 4096, true, &pages) < 0); /* they cannot be written */
    CHECK_OK(sl_sync_cuda.attach("cuda:0", address, 4096, false, &pages));
    CHECK_EQ(gpu_differ(stream, (uintptr_t)address, 1024, 0), 0);
    sl_sync_cuda.detach(pages);
    CHECK_OK(sl_sync_cuda.attach("cuda:0", address, 4096, false, &pages)); /* and once more */
    sl_sync_cuda.detach(pages);
    sl_os_unmap(address, 4096);
    sl_os_close(fd);
    CU(StreamDestroy, stream);
    gpu_end();
}

TEST(a_graph_takes_in_no_signal)
{
    struct sluice_device device;
    struct sluice_stream stream, standard;
    struct sl_cu_graph *graph;
    size_t nodes;

    gpu_begin();
    gpu_use(0);
    struct words words = attach(4096);
    struct sl_cu_stream *blocking = gpu_stream(0);
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_stream_default(device, &standard));
    CU(StreamBeginCapture, gpu_native(stream), CAPTURE_GLOBAL);
    CHECK_SAYS(raise_word(&words, stream, words.word, 1), SLUICE_E_CAPTURING, "each replay");
    CHECK_OK(raise_word(&words, standard, words.word, 7));
    CU(StreamEndCapture, gpu_native(stream), &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CHECK_EQ(nodes, 0);
    CU(GraphDestroy, graph);
    CHECK_SOON(value_of(words.word) == 7, 5);

    /* The default stream is unusable while a blocking stream captures, but not for signals. */
    struct gpu_gate gate = gpu_gate_new();
    gpu_gate_close(&gate, NULL);
    CU(StreamBeginCapture, blocking, CAPTURE_RELAXED);
    CHECK_OK(raise_word(&words, standard, words.word, 8));
    CHECK_OK(raise_word(&words, stream, words.word + 1, 9));
    CHECK_SOON(value_of(words.word + 1) == 9, 5); /* though the gate is closed */
    CHECK_EQ(value_of(words.word), 7);
    gpu_gate_open_later(&gate);
    CHECK_SOON(value_of(words.word) == 8, 5);
    gpu_gate_join(&gate);
    CU(StreamEndCapture, blocking, &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CHECK_EQ(nodes, 0);
    CU(GraphDestroy, graph);
    CU(StreamSynchronize, NULL);
    gpu_gate_end(&gate);
    CU(StreamDestroy, blocking);
    CHECK_OK(sluice_device_close(&device));
    detach(&words);
    gpu_end();
}
