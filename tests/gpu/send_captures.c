/* SPDX-License-Identifier: MIT
 *
 * Send and fetch beside and within captures: they add nothing to a graph, and end no capture.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu/capture_thread.h"
#include "gpu/fixtures.h"

/* All kinds of memory in both directions, with a channel that is opened and closed meanwhile. The caller closes a
 * device whose default stream is unusable. */
static struct sluice_device live(void)
{
    struct fixture fixture = fixture_bytes(LARGE);
    struct sluice_stream standard;

    CHECK_OK(sluice_stream_default(fixture.device, &standard));
    for (int kind = 0; kind < MANAGED; kind++) { /* allocating it is up to the program */
        struct memory memory = { .kind = kind };
        int mode = CAPTURE_RELAXED;
        struct sluice_ticket ticket;
        CU(ThreadExchangeStreamCaptureMode, &mode);
        memory = memory_make(kind, LARGE);
        CU(ThreadExchangeStreamCaptureMode, &mode);
        struct sluice_array array = bytes_at(memory.at, LARGE);
        for (int i = 0; i < 3; i++) {
            struct sluice_stream stream = i == 0 ? SLUICE_ON_CPU : i == 1 ? fixture.stream : standard;
            CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, stream, &ticket));
            CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
            struct sluice_frame frame = fixture_acquire(&fixture);
            CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &array, 1, stream, &ticket));
            CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
            CHECK_OK(sluice_reader_release(fixture.reader, &frame, stream));
        }
        CU(ThreadExchangeStreamCaptureMode, &mode);
        memory_drop(&memory);
        CU(ThreadExchangeStreamCaptureMode, &mode);
    }
    CHECK_OK(sluice_reader_close(&fixture.reader));
    CHECK_OK(sluice_writer_close(&fixture.writer));
    CHECK_OK(sluice_stream_destroy(&fixture.stream));
    return fixture.device;
}

TEST_TIMEOUT(no_capture_breaks, 120)
{
    static const int modes[] = { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };

    gpu_begin();
    gpu_use(0);
    for (int i = 0; i < 6; i++) {
        struct capture_thread capturer;
        gpu_use(0);
        capture_thread_begin(&capturer, modes[i % 3], i < 3 ? SL_CU_STREAM_NON_BLOCKING : 0);
        struct sluice_device device = live();
        capture_thread_end(&capturer);
        capture_thread_check(&capturer, NULL);
        CHECK_OK(sluice_device_close(&device));
    }
    gpu_end();
}

TEST(nothing_gets_into_a_graph)
{
    struct sl_cu_graph *graph;
    struct sluice_ticket ticket = { 42 };
    size_t nodes;

    gpu_begin();
    struct fixture fixture = fixture_bytes(LARGE);
    for (int kind = 0; kind < MANAGED; kind++) {
        struct memory memory = memory_make(kind, LARGE);
        struct sluice_array array = bytes_at(memory.at, LARGE);
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
        struct sluice_frame frame = fixture_acquire(&fixture);
        CU(StreamBeginCapture, fixture.native, CAPTURE_RELAXED);
        CHECK_SAYS(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, &ticket), SLUICE_E_CAPTURING, "graph");
        CHECK_RESULT(sluice_reader_fetch(fixture.reader, &frame, &array, 1, fixture.stream, &ticket),
                     SLUICE_E_CAPTURING);
        CHECK_EQ(ticket.id, 42);
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
        CU(StreamEndCapture, fixture.native, &graph);
        CU(GraphGetNodes, graph, NULL, &nodes);
        CHECK_EQ(nodes, 0);
        CU(GraphDestroy, graph);
        CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
        frame = fixture_acquire(&fixture);
        CHECK_EQ(frame.sequence, 2 * (uint64_t)kind + 2); /* nothing else was published */
        CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
        memory_drop(&memory);
    }
    struct sluice_writer_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_writer_stats(fixture.writer, &stats));
    CHECK_EQ(stats.cancelled, 0); /* it did not come to that */
    fixture_end(&fixture);
}

struct late {
    struct fixture *fixture;
    sluice_reader *reader;
    struct sluice_frame held[2], begun;
};

/* In a moment a capture begins, and a slot comes free. */
static void *capture_later(void *data)
{
    struct late *late = data;

    usleep(50000);
    gpu_use(0);
    CU(StreamBeginCapture, late->fixture->native, CAPTURE_RELAXED);
    CHECK_OK(sluice_reader_release(late->reader, &late->held[0], SLUICE_ON_CPU));
    return NULL;
}

static void take_next(sluice_reader *reader, struct sluice_frame *frame)
{
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, frame));
}

/* Two of four slots are held, one has the newest frame, and one is written in place. The reader had all frames before:
 * so each that it takes is the one just sent, and only the newest is in flight. */
static void hold_slots(sluice_writer *writer, const struct sluice_array *array, struct late *late)
{
    for (int i = 0; i < 9; i++) {
        struct sluice_frame frame;
        CHECK_OK(sluice_writer_send(writer, array, 1, late->fixture->stream, NULL));
        if (i == 8)
            break;
        take_next(late->reader, i < 6 ? &frame : &late->held[i - 6]);
        if (i < 6)
            CHECK_OK(sluice_reader_release(late->reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_OK(sluice_writer_begin(writer, 0, &late->begun));
}

static void wait_and_capture(uint32_t no_graphs)
{
    struct sluice_writer_params writing = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params reading = SLUICE_READER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct fixture fixture = fixture_bytes(4096);
    struct memory memory = memory_make(OF_GPU, 4096);
    struct sluice_array array = bytes_at(memory.at, 4096);
    struct late late = { .fixture = &fixture };
    struct sl_cu_graph *graph;
    sluice_writer *writer;
    pthread_t thread;
    int64_t size = 4096;
    size_t nodes;

    CHECK_OK(sluice_format_add_tensor(&format, "data", U8, 1, &size));
    writing.name = reading.name = "waits";
    writing.device = "cuda:0";
    writing.format = &format;
    writing.slots = writing.max_slots = 4;
    writing.policy = SLUICE_WAIT;
    writing.wait_ns = 10 * SLUICE_S;
    writing.no_graphs = no_graphs;
    reading.hold = 2;
    reading.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_writer_open(&writer, &writing));
    CHECK_OK(sluice_reader_open(&late.reader, &reading));
    hold_slots(writer, &array, &late);
    CHECK(pthread_create(&thread, NULL, capture_later, &late) == 0);
    CHECK_SAYS(sluice_writer_send(writer, &array, 1, fixture.stream, NULL), SLUICE_E_CAPTURING, "graph");
    CHECK(pthread_join(thread, NULL) == 0);
    CU(StreamEndCapture, fixture.native, &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CHECK_EQ(nodes, 0);
    CU(GraphDestroy, graph);
    CHECK_OK(sluice_reader_release(late.reader, &late.held[1], SLUICE_ON_CPU));
    CHECK_OK(sluice_writer_cancel(writer, &late.begun, SLUICE_ON_CPU));
    take_next(late.reader, &late.held[0]); /* the former newest one */
    CHECK_OK(sluice_reader_release(late.reader, &late.held[0], SLUICE_ON_CPU));
    hold_slots(writer, &array, &late); /* all four slots are still there */
    CHECK_OK(sluice_reader_close(&late.reader));
    CHECK_OK(sluice_writer_close(&writer));
    memory_drop(&memory);
    fixture_end(&fixture);
}

TEST(a_capture_that_begins_while_send_waits)
{
    gpu_begin();
    wait_and_capture(0);
    wait_and_capture(1);
}

/* A send of two arrays is behind a gate, for the CPU reads the second one. In a moment its stream begins to capture,
 * and the gate opens. */
struct overtaken {
    struct gpu_gate gate;
    struct sl_cu_stream *native;
    int64_t ends_after; /* the length of the capture in ns */
    size_t nodes;
};

static void *overtake(void *data)
{
    struct overtaken *overtaken = data;
    struct sl_cu_graph *graph;

    usleep(50000);
    gpu_use(0);
    CU(StreamBeginCapture, overtaken->native, CAPTURE_RELAXED);
    gpu_gate_open(&overtaken->gate);
    test_nap(overtaken->ends_after);
    CU(StreamEndCapture, overtaken->native, &graph);
    CU(GraphGetNodes, graph, NULL, &overtaken->nodes);
    CU(GraphDestroy, graph);
    return NULL;
}

/* The first array is in this kind of memory, the second one pageable. */
static void overtaken_send(enum kind kind)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT, other = SLUICE_FORMAT_INIT;
    struct fixture fixture = fixture_bytes(4096);
    struct memory memory[2] = { memory_make(kind, 4096), memory_make(PLAIN, 4096) };
    struct sluice_array arrays[2];
    struct overtaken overtaken = { .gate = gpu_gate_new(),
                                   .native = gpu_stream(SL_CU_STREAM_NON_BLOCKING),
                                   .ends_after = SLUICE_S / 5 };
    struct sluice_stream stream;
    sluice_writer *writer;
    pthread_t thread;
    int64_t size = 4096;

    CHECK_OK(sluice_stream_wrap(fixture.device, (uintptr_t)overtaken.native, NULL, NULL, &stream));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(sluice_format_add_tensor(&format, i ? "second" : "first", U8, 1, &size));
        CHECK_OK(sluice_array_wrap(&arrays[i], i ? "second" : "first", memory[i].at, U8, 1, &size, NULL));
    }
    CHECK_OK(sluice_format_add_tensor(&other, "other", U8, 1, &size));
    params.name = "overtaken";
    params.device = "cuda:0";
    params.format = &format;
    params.slots = params.max_slots = 3;
    params.no_graphs = 1; /* the first copy is queued at once */
    CHECK_OK(sluice_writer_open(&writer, &params));
    for (int tries = 0, i = 0; i < 5; tries++) { /* more often than there are slots */
        CHECK_LE(tries, 40);
        gpu_gate_close(&overtaken.gate, overtaken.native);
        CHECK(pthread_create(&thread, NULL, overtake, &overtaken) == 0);
        int r = sluice_writer_send(writer, arrays, 2, stream, NULL);
        if (r != 0)
            CHECK_SAYS(r, SLUICE_E_CAPTURING, "graph");
        /* If a copy was queued, the send has waited until its end was known. On a busy machine the send may have begun
         * within the capture, and queued none, or after it: that does not count. */
        i += r != 0 && (kind == PLAIN || sluice_stream_query(stream) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_EQ(overtaken.nodes, 0);
        CHECK_OK(sluice_writer_send(writer, arrays, 2, stream, NULL));
        CHECK_OK(sluice_stream_synchronize(stream));
    }
    CHECK_OK(sluice_writer_reformat(writer, &other)); /* no frame is left begun */
    CHECK_OK(sluice_writer_close(&writer));
    gpu_gate_end(&overtaken.gate);
    CHECK_OK(sluice_stream_destroy(&stream));
    CU(StreamDestroy, overtaken.native);
    memory_drop(&memory[0]);
    memory_drop(&memory[1]);
    fixture_end(&fixture);
}

TEST(a_capture_that_begins_while_send_copies)
{
    gpu_begin();
    overtaken_send(OF_GPU);
    overtaken_send(PLAIN);
}

/* For a late frame the library queries the driver. That comes between the query whether the stream captures and the
 * copy, which needs another such query. */
static void send_behind_a_gate(uint32_t no_graphs)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct fixture fixture = fixture_bytes(4096);
    struct memory memory = memory_make(OF_GPU, 4096);
    struct sluice_array array = bytes_at(memory.at, 4096);
    struct gpu_gate gate = gpu_gate_new();
    struct sl_cu_stream *native =
        gpu_stream(SL_CU_STREAM_NON_BLOCKING); /* which may capture: it is not the library's */
    struct sluice_stream stream;
    sluice_writer *writer;
    int64_t size = 4096;

    CHECK_OK(sluice_stream_wrap(fixture.device, (uintptr_t)native, NULL, NULL, &stream));
    CHECK_OK(sluice_format_add_tensor(&format, "data", U8, 1, &size));
    params.name = "late";
    params.device = "cuda:0";
    params.format = &format;
    params.slots = 4;
    params.no_graphs = no_graphs;
    CHECK_OK(sluice_writer_open(&writer, &params));
    gpu_gate_close(&gate, native);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(sluice_writer_send(writer, &array, 1, stream, NULL));
        usleep(20000);
    }
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(stream));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_stream_destroy(&stream));
    CU(StreamDestroy, native);
    memory_drop(&memory);
    fixture_end(&fixture);
}

TEST(a_stream_is_queried_again_after_a_late_frame)
{
    gpu_begin();
    send_behind_a_gate(1);
    send_behind_a_gate(0);
}
