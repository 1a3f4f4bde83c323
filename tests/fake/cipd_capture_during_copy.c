/* SPDX-License-Identifier: MIT
 *
 * Sends and fetches whose stream begins to capture once their copies are queued. Such a stream cannot be queried; so
 * the call returns when the capture and the copies have ended, and the next frame finds slots that nothing writes to.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "fake/cipd_kit.h"
#include "fake/fake.h"
#include "gpu/kit.h"
#include "harness/test.h"

#define SIZE (4 * 1024 * 1024) /* takes four staging buffers */
#define COPY (100 * SLUICE_MS) /* the GPU's time for a copy */
#define AGES (11 * SLUICE_S)   /* longer than anybody waits */

static struct overtaken {
    struct sluice_device device;
    struct sluice_stream stream;
    struct sl_cu_stream *native;
    struct sluice_array plain, pinned, of_gpu;
    sluice_writer *writer;
    sluice_reader *reader;
    int64_t lasts; /* the length of the capture */
    pthread_t ends_it;
    _Atomic bool ended;
} o;

static void *end_capture(void *nothing)
{
    struct sl_cu_graph *graph;
    size_t nodes = 1;

    test_nap(o.lasts);
    gpu_use(0);
    atomic_store(&o.ended, true);
    CU(StreamEndCapture, o.native, &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CHECK_EQ(nodes, 0);
    CU(GraphDestroy, graph);
    return nothing;
}

static void begin_capture(void *nothing)
{
    (void)nothing;
    CU(StreamBeginCapture, o.native, SL_CU_CAPTURE_MODE_RELAXED);
    CHECK(pthread_create(&o.ends_it, NULL, end_capture, NULL) == 0);
}

/* The signal after the copy that was just queued. */
static void capture_behind_the_mark(void *nothing)
{
    fake_behind(FAKE_StreamWriteValue64, begin_capture, nothing);
}

static void begin(bool graph)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_dtype bytes = { SLUICE_UINT, 8, 1 };
    int64_t shape[] = { 1024, 1024, 4 };
    uint64_t address;
    void *pinned;

    fake_use();
    gpu_begin();
    gpu_use(0);
    CHECK_OK(sluice_format_add_tensor(&format, "data", bytes, 3, shape));
    CHECK_OK(sluice_format_complete(&format));
    o.native = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    CHECK_OK(sluice_device_open(&o.device, "cuda:0"));
    CHECK_OK(sluice_stream_wrap(o.device, (uintptr_t)o.native, NULL, NULL, &o.stream));
    CU(MemHostAlloc, &pinned, SIZE, 0);
    CU(MemAlloc, &address, SIZE);
    CHECK_OK(sluice_array_wrap(&o.plain, NULL, calloc(1, SIZE), bytes, 3, shape, NULL));
    CHECK_OK(sluice_array_wrap(&o.pinned, NULL, pinned, bytes, 3, shape, NULL));
    CHECK_OK(sluice_array_wrap(&o.of_gpu, NULL, (void *)(uintptr_t)address, bytes, 3, shape, NULL));
    CHECK_OK(cipd_open_writer_so(&o.writer, &format, false, graph));
    CHECK_OK(cipd_open_reader(&o.reader, false, 10 * SLUICE_S));
    CHECK_OK(sluice_writer_send(o.writer, &o.plain, 1, o.stream, NULL));
    for (int i = 0; i < 4; i++) /* by then there are graphs */
        CHECK_OK(sluice_writer_send(o.writer, &o.of_gpu, 1, o.stream, NULL));
    CHECK_OK(sluice_stream_synchronize(o.stream));
    o.lasts = SLUICE_S / 4;
    atomic_store(&o.ended, false);
}

static void end(void)
{
    CHECK_OK(sluice_reader_close(&o.reader));
    CHECK_OK(sluice_writer_close(&o.writer));
    CHECK_OK(sluice_stream_destroy(&o.stream));
    CU(StreamDestroy, o.native);
    CU(MemFreeHost, o.pinned.data);
    CU(MemFree, (uintptr_t)o.of_gpu.data);
    free(o.plain.data);
    CHECK_OK(sluice_device_close(&o.device));
    fake_end_contexts();
}

/* Nothing of it is left: neither the copies nor the capture nor the frame. */
static void send_overtaken(const struct sluice_array *array)
{
    fake_machine.delay = COPY;
    CHECK_SAYS(sluice_writer_send(o.writer, array, 1, o.stream, NULL), SLUICE_E_CAPTURING, "capturing a graph");
    CHECK(atomic_load(&o.ended));
    CHECK(pthread_join(o.ends_it, NULL) == 0);
    CHECK_OK(sluice_stream_query(o.stream));
    fake_machine.delay = 0;
}

static void take_next(uint32_t *generation)
{
    struct sluice_frame sent = { .meta_size = 0 }, frame;

    CHECK_OK(sluice_writer_send_frame(o.writer, &sent, &o.of_gpu, 1, o.stream, NULL));
    CHECK_OK(sluice_stream_synchronize(o.stream));
    CHECK_OK(sluice_reader_acquire(o.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_EQ(frame.sequence, sent.sequence);
    CHECK_OK(sluice_reader_release(o.reader, &frame, SLUICE_ON_CPU));
    *generation = sent.generation;
}

/* The copy is queued: a copy, or a graph. */
static void overtake_a_send(bool graph, enum fake_function function)
{
    uint32_t first, second;

    begin(graph);
    take_next(&first);
    fake_behind(function, begin_capture, NULL);
    send_overtaken(&o.of_gpu);
    take_next(&second);
    CHECK_EQ(second, first);
    end();
}

TEST(cipd_a_send_whose_stream_captures_since_returns_when_its_copy_is_done)
{
    overtake_a_send(false, FAKE_MemcpyAsync);
}
TEST(cipd_a_send_by_graph_whose_stream_captures_since_returns_when_its_copy_is_done)
{
    overtake_a_send(true, FAKE_GraphLaunch);
}

/* One of four pieces is queued. */
TEST(cipd_a_send_by_way_of_the_host_whose_stream_captures_since_returns_when_its_copy_is_done)
{
    begin(false);
    fake_behind(FAKE_MemcpyAsync, capture_behind_the_mark, NULL);
    send_overtaken(&o.plain);
    CHECK_OK(sluice_writer_send(o.writer, &o.plain, 1, o.stream, NULL));
    end();
}

/* Nobody knows when its copy ends: so its slots are not used any more. */
TEST_TIMEOUT(cipd_an_abandoned_copy_keeps_its_slot, 120)
{
    uint32_t first, second;

    begin(false);
    take_next(&first);
    o.lasts = AGES;
    fake_behind(FAKE_MemcpyAsync, begin_capture, NULL);
    CHECK_SAYS(sluice_writer_send(o.writer, &o.of_gpu, 1, o.stream, NULL), SLUICE_E_CAPTURING, "capturing a graph");
    CHECK(pthread_join(o.ends_it, NULL) == 0);
    take_next(&second);
    CHECK_EQ(second, first + 1);
    take_next(&first);
    CHECK_EQ(second, first);
    end();
}

/* The program may read its memory at once. */
TEST(cipd_a_fetch_whose_stream_captures_since_returns_when_its_copy_is_done)
{
    struct sluice_frame frame;

    begin(false);
    CHECK_OK(sluice_reader_acquire(o.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    fake_machine.delay = COPY;
    fake_behind(FAKE_MemcpyAsync, begin_capture, NULL);
    CHECK_OK(sluice_reader_fetch(o.reader, &frame, &o.pinned, 1, o.stream, NULL));
    CHECK(atomic_load(&o.ended));
    CHECK(pthread_join(o.ends_it, NULL) == 0);
    CHECK_OK(sluice_stream_query(o.stream));
    fake_machine.delay = 0;
    CHECK_OK(sluice_reader_release(o.reader, &frame, SLUICE_ON_CPU));
    end();
}
