/* SPDX-License-Identifier: MIT
 *
 * Sends by graph (the writer's `graph`): the same frames at the same times, and as harmless to others' captures.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/capture_thread.h"
#include "gpu/fixtures.h"

#define SIZE  ((int64_t)300001)
#define SLOTS 8 /* the most that a writer grows to */
#define WAIT  (20 * SLUICE_S)

static struct fixture begin(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int64_t size = SIZE;

    CHECK_OK(sluice_format_add_tensor(&format, "data", U8, 1, &size));
    CHECK_OK(sluice_format_complete(&format));
    return fixture_by_graph(&format);
}

static uint64_t by_graph(const struct fixture *fixture)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_writer_stats(fixture->writer, &stats));
    return stats.graph_sends;
}

/* Sends the memory with new contents, and checks the frame. */
static void send_new(struct fixture *fixture, struct memory *memory, struct sluice_stream stream, unsigned seed)
{
    char *bytes = pattern(memory->size, seed);
    struct sluice_array array = bytes_at(memory->at, (int64_t)memory->size);
    struct sluice_ticket ticket;

    memory_put(memory, bytes);
    CHECK_OK(sluice_writer_send(fixture->writer, &array, 1, stream, seed % 3 ? &ticket : NULL));
    if (seed % 3)
        CHECK_OK(sluice_ticket_wait(ticket, WAIT));
    fixture_check(fixture, bytes, memory->size);
    free(bytes);
}

/* ---- frames ---- */

TEST_TIMEOUT(frames_by_graph_are_right_on_any_stream, 60)
{
    struct sluice_stream streams[3] = { SLUICE_ON_CPU };
    unsigned seed = 0;

    gpu_begin();
    struct fixture fixture = begin();
    struct memory memory = memory_make(OF_GPU, SIZE);
    streams[1] = fixture.stream;
    CHECK_OK(sluice_stream_default(fixture.device, &streams[2]));
    for (int i = 0; i < 3; i++)
        for (int frame = 0; frame < 30; frame++)
            send_new(&fixture, &memory, streams[i], seed++);
    CHECK_GE(by_graph(&fixture), 3 * 30 - SLOTS); /* the first send of each slot is not a graph */
    memory_drop(&memory);
    fixture_end(&fixture);
}

/* Signals follow the copy, and the copy follows the work. The graphs are made while that is blocked: send waits for
 * nothing. */
TEST_TIMEOUT(a_graph_waits_for_its_stream, 60)
{
    struct sluice_ticket ticket;
    struct sluice_frame frame;
    struct sluice_array slot;

    gpu_begin();
    struct fixture fixture = begin();
    struct gpu_gate gate = gpu_gate_new();
    struct memory memory = memory_make(OF_GPU, SIZE - 1);
    uint64_t words = (uintptr_t)memory.at, count = memory.size / 4;
    struct sluice_array array = bytes_at(memory.at, SIZE - 1);
    for (uint32_t i = 1; i <= 2 * SLOTS + 3; i++) {
        bool late = i > 4; /* each slot has had the source, or soon will */
        if (late)
            gpu_gate_close(&gate, fixture.native);
        gpu_fill(fixture.native, words, count, i);
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, &ticket));
        gpu_fill(fixture.native, words, count, 0); /* ordered after the copy */
        if (late) {
            CHECK_RESULT(sluice_ticket_query(ticket), SLUICE_NOT_READY);
            CHECK_RESULT(sluice_reader_acquire(fixture.reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
            gpu_gate_open(&gate);
        }
        CHECK_OK(sluice_reader_acquire(fixture.reader, SLUICE_ON_CPU, WAIT, &frame));
        CHECK_EQ(frame.sequence, i);
        CHECK_OK(sluice_ticket_wait(ticket, WAIT));
        CHECK_OK(sluice_frame_array(&frame, NULL, &slot));
        CHECK_EQ(gpu_differ(fixture.native, (uintptr_t)slot.data, count, i), 0);
        CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_GE(by_graph(&fixture), SLOTS + 3);
    gpu_gate_end(&gate);
    memory_drop(&memory);
    fixture_end(&fixture);
}

/* Readers whose streams wait have signals of their own in the graph; readers come and go. */
TEST_TIMEOUT(readers_that_wait_ahead_of_graphs, 60)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_frame frame;
    struct sluice_stream reading;
    struct sluice_array slot;
    sluice_reader *ahead;
    uint32_t value = 0;

    gpu_begin();
    struct fixture fixture = begin();
    struct memory memory = memory_make(OF_GPU, SIZE - 1);
    struct sluice_array array = bytes_at(memory.at, SIZE - 1);
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &reading));
    params.name = "cam";
    params.ahead = 1;
    params.ahead_ns = 20 * SLUICE_S;
    for (int life = 0; life < 3; life++) {
        CHECK_OK(sluice_reader_open(&ahead, &params));
        gpu_settle();
        for (int i = 0; i < 2 * SLOTS; i++) {
            gpu_fill(fixture.native, (uintptr_t)memory.at, memory.size / 4, ++value);
            CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, NULL));
            CHECK_OK(sluice_reader_acquire(ahead, reading, WAIT, &frame));
            CHECK_OK(sluice_frame_array(&frame, NULL, &slot));
            CHECK_EQ(gpu_differ(gpu_native(reading), (uintptr_t)slot.data, memory.size / 4, (uint32_t)frame.sequence),
                     0);
            CHECK_OK(sluice_reader_release(ahead, &frame, reading));
        }
        CHECK_OK(sluice_reader_close(&ahead));
    }
    CHECK_GE(by_graph(&fixture), 1);
    memory_drop(&memory);
    fixture_end(&fixture);
}

/* ---- what changes ---- */

TEST_TIMEOUT(sources_that_change, 60)
{
    struct memory sources[3];
    unsigned seed = 0;

    gpu_begin();
    struct fixture fixture = begin();
    for (int i = 0; i < 3; i++)
        sources[i] = memory_make(OF_GPU, SIZE);
    for (int round = 0; round < 4; round++) {
        for (int frame = 0; frame < 8 * 3; frame++)
            send_new(&fixture, &sources[frame % 3], fixture.stream, seed++);
        CHECK_GE(by_graph(&fixture), 1);
        struct memory *old = &sources[round % 3]; /* its address gets another buffer */
        memory_drop(old);
        *old = memory_make(round == 1 ? MANAGED : OF_GPU, SIZE);
    }
    for (int i = 0; i < 3; i++)
        memory_drop(&sources[i]);
    fixture_end(&fixture);
}

/* A graph is prepared for the likely next frame: in that slot, with that sequence. Frames written in place or cancelled
 * in between, held slots, and another source make that guess wrong. */
TEST_TIMEOUT(what_comes_next_may_be_something_else, 60)
{
    struct sluice_frame frame, held;
    struct memory sources[2];
    unsigned seed = 0;

    gpu_begin();
    struct fixture fixture = begin();
    for (int i = 0; i < 2; i++)
        sources[i] = memory_make(OF_GPU, SIZE);
    for (int i = 0; i < 4 * SLOTS; i++)
        send_new(&fixture, &sources[0], fixture.stream, seed++);
    for (int i = 0; i < 120; i++) {
        int what = i * 7 % 5;
        if (what == 0 || what == 1)
            CHECK_OK(sluice_writer_begin(fixture.writer, WAIT, &frame));
        if (what == 0)
            CHECK_OK(sluice_writer_cancel(fixture.writer, &frame, fixture.stream));
        if (what == 1) {
            CHECK_OK(sluice_writer_commit(fixture.writer, &frame, fixture.stream));
            held = fixture_acquire(&fixture);
            CHECK_EQ(held.sequence, frame.sequence);
        }
        send_new(&fixture, &sources[what == 2], fixture.stream, seed++);
        if (what == 1)
            CHECK_OK(sluice_reader_release(fixture.reader, &held, SLUICE_ON_CPU));
    }
    CHECK_GE(by_graph(&fixture), 60);
    for (int i = 0; i < 2; i++)
        memory_drop(&sources[i]);
    fixture_end(&fixture);
}

/* Nothing is made for memory that does not come again, nor for more sources than there is room for. */
TEST_TIMEOUT(sources_that_never_come_again, 60)
{
    struct memory sources[40];
    unsigned seed = 0;

    gpu_begin();
    struct fixture fixture = begin();
    for (int i = 0; i < 40; i++)
        sources[i] = memory_make(OF_GPU, SIZE);
    for (int i = 0; i < 40; i++)
        send_new(&fixture, &sources[i], fixture.stream, seed++);
    CHECK_EQ(by_graph(&fixture), 0);
    for (int i = 0; i < 80; i++)
        send_new(&fixture, &sources[i % 40], fixture.stream, seed++);
    CHECK_EQ(by_graph(&fixture), 0);
    for (int i = 0; i < 3 * SLOTS; i++)
        send_new(&fixture, &sources[7], fixture.stream, 1);
    CHECK_GE(by_graph(&fixture), SLOTS);
    for (int i = 0; i < 40; i++)
        memory_drop(&sources[i]);
    fixture_end(&fixture);
}

static void send_often(struct fixture *fixture, const struct memory *memory, int count)
{
    struct sluice_array array = bytes_at(memory->at, (int64_t)memory->size);
    struct sluice_ticket ticket;

    for (int i = 0; i < count; i++) {
        CHECK_OK(sluice_writer_send(fixture->writer, &array, 1, fixture->stream, &ticket));
        CHECK_OK(sluice_ticket_wait(ticket, WAIT));
    }
}

/* There is no room for a ninth source until one of the others has not been used for long. */
TEST_TIMEOUT(unused_graphs_make_room, 60)
{
    struct memory sources[9];

    gpu_begin();
    struct fixture fixture = begin();
    for (int i = 0; i < 9; i++)
        sources[i] = memory_make(OF_GPU, 4096);
    for (int i = 0; i < 8; i++)
        send_often(&fixture, &sources[i], 3 * SLOTS);
    uint64_t before = by_graph(&fixture);
    CHECK_GE(before, 8 * SLOTS / 2);
    send_often(&fixture, &sources[8], 3 * SLOTS);
    CHECK_EQ(by_graph(&fixture), before);
    send_often(&fixture, &sources[7], 1100);
    before = by_graph(&fixture);
    send_often(&fixture, &sources[8], 3 * SLOTS);
    CHECK_GE(by_graph(&fixture), before + SLOTS);
    for (unsigned seed = 0; seed < SLOTS; seed++)
        send_new(&fixture, &sources[8], fixture.stream, seed);
    for (int i = 0; i < 9; i++)
        memory_drop(&sources[i]);
    fixture_end(&fixture);
}

/* A graph belongs to a buffer, not to an address. */
TEST(other_memory_where_a_source_was)
{
    gpu_begin();
    struct fixture fixture = begin();
    struct memory memory = memory_make(OF_GPU, 1 << 20);
    char *place = memory.at;
    send_often(&fixture, &memory, 3 * SLOTS);
    uint64_t before = by_graph(&fixture);
    CHECK_GE(before, SLOTS);
    memory_drop(&memory);
    memory = memory_make(OF_GPU, 1 << 20);
    NOTE("it is at the %s place", memory.at == place ? "same" : "another");
    send_often(&fixture, &memory, 3);
    CHECK_EQ(by_graph(&fixture), before);
    memory_drop(&memory);
    fixture_end(&fixture);
}

static void reformat(struct fixture *fixture, int64_t size)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    CHECK_OK(sluice_format_add_tensor(&format, "data", U8, 1, &size));
    CHECK_OK(sluice_format_complete(&format));
    CHECK_OK(sluice_writer_reformat(fixture->writer, &format));
}

TEST_TIMEOUT(formats_that_change, 60)
{
    static const int64_t sizes[] = { SIZE, 3 * SIZE, SIZE / 2, SIZE };
    struct memory memory = { .at = NULL };
    unsigned seed = 0;
    uint64_t before;

    gpu_begin();
    struct fixture fixture = begin();
    for (int i = 0; i < 4; i++) {
        memory = memory_make(OF_GPU, (size_t)sizes[i]);
        if (i != 1) /* then send itself does it */
            reformat(&fixture, sizes[i]);
        before = by_graph(&fixture);
        for (int frame = 0; frame < 3 * SLOTS; frame++)
            send_new(&fixture, &memory, fixture.stream, seed++);
        CHECK_GE(by_graph(&fixture), before + SLOTS);
        memory_drop(&memory);
    }
    fixture_end(&fixture);
}

/* A device's own streams end with its reset, which does not affect the writer's graphs. They end with the GPU's
 * context, and nothing of them is touched any more. */
TEST(graphs_and_resets)
{
    gpu_begin();
    TEST_KEEPS_FDS();
    struct fixture fixture = begin();
    struct memory memory = memory_make(OF_GPU, SIZE);
    struct sluice_array array = bytes_at(memory.at, SIZE);
    send_often(&fixture, &memory, 3 * SLOTS);
    uint64_t before = by_graph(&fixture);
    CHECK_OK(sluice_device_reset(fixture.device));
    CHECK_RESULT(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, NULL), SLUICE_E_STALE);
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.stream));
    send_often(&fixture, &memory, SLOTS);
    CHECK_EQ(by_graph(&fixture), before + SLOTS);

    CU(DevicePrimaryCtxReset, 0);
    CHECK_RESULT(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, NULL), SLUICE_E_DRIVER);
    CHECK_RESULT(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_DRIVER);
    CHECK_OK(sluice_reader_close(&fixture.reader));
    CHECK_OK(sluice_writer_close(&fixture.writer));
    CHECK_RESULT(sluice_device_close(&fixture.device), SLUICE_E_DRIVER);
    if (gpu_is_fake())
        gpu_end();
}

/* ---- layouts ---- */

TEST_TIMEOUT(rows_and_several_arrays, 60)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int64_t shape[] = { 37, 53 }, pitch[] = { 300, 4 }, size = 4096;
    char expected[37 * 53 * 4], got[sizeof expected];
    struct sluice_array arrays[3], here, tight, slot;

    gpu_begin();
    CHECK_OK(sluice_format_add_tensor(&format, "rows", F32, 2, shape));
    CHECK_OK(sluice_format_add_tensor(&format, "run", U8, 1, &size));
    CHECK_OK(sluice_format_add_tensor(&format, "plain", U8, 1, &size));
    CHECK_OK(sluice_format_complete(&format));
    struct fixture fixture = fixture_by_graph(&format);
    struct memory rows = memory_make(OF_GPU, 37 * 300), run = memory_make(OF_GPU, 4096),
                  plain = memory_make(PLAIN, 4096);
    CHECK_OK(sluice_array_wrap(&arrays[0], "rows", rows.at, F32, 2, shape, pitch));
    CHECK_OK(sluice_array_wrap(&arrays[1], "run", run.at, U8, 1, &size, NULL));
    CHECK_OK(sluice_array_wrap(&arrays[2], "plain", plain.at, U8, 1, &size, NULL));
    for (unsigned seed = 0; seed < 3 * SLOTS; seed++) {
        char *in_rows = pattern(rows.size, seed), *in_run = pattern(4096, seed + 1000),
             *in_plain = pattern(4096, seed + 2000);
        memory_put(&rows, in_rows);
        memory_put(&run, in_run);
        memory_put(&plain, in_plain);
        CHECK_OK(sluice_writer_send(fixture.writer, arrays, 3, fixture.stream, NULL));
        struct sluice_frame frame = fixture_acquire(&fixture);
        CHECK_OK(sluice_array_wrap(&here, "rows", in_rows, F32, 2, shape, pitch));
        CHECK_OK(sluice_array_wrap(&tight, "rows", expected, F32, 2, shape, NULL));
        CHECK_OK(sluice_array_copy(&tight, &here));
        CHECK_OK(sluice_frame_array(&frame, "rows", &slot));
        copy_out(got, slot.data, sizeof got);
        CHECK_MEM(got, expected, sizeof got);
        CHECK_OK(sluice_frame_array(&frame, "run", &slot));
        copy_out(got, slot.data, 4096);
        CHECK_MEM(got, in_run, 4096);
        CHECK_OK(sluice_frame_array(&frame, "plain", &slot));
        copy_out(got, slot.data, 4096);
        CHECK_MEM(got, in_plain, 4096);
        CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
        free(in_rows);
        free(in_run);
        free(in_plain);
    }
    CHECK_GE(by_graph(&fixture), SLOTS);
    memory_drop(&rows);
    memory_drop(&run);
    memory_drop(&plain);
    fixture_end(&fixture);
}

/* ---- captures ---- */

/* Graphs are made, launched, changed and ended, on a stream of ours and on the default stream. */
static struct sluice_device live(const struct memory *memory)
{
    struct fixture fixture = begin();
    struct sluice_array array = bytes_at(memory->at, SIZE);
    struct sluice_stream standard;
    struct sluice_ticket ticket;

    CHECK_OK(sluice_stream_default(fixture.device, &standard));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4 * SLOTS; i++) {
            CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, i % 2 ? fixture.stream : standard, &ticket));
            CHECK_OK(sluice_ticket_wait(ticket, WAIT));
            struct sluice_frame frame = fixture_acquire(&fixture);
            CHECK_OK(sluice_reader_release(fixture.reader, &frame, fixture.stream));
        }
        CHECK_GE(by_graph(&fixture), 2 * SLOTS);
        reformat(&fixture, SIZE + round); /* the graphs end with the old slots */
    }
    CHECK_OK(sluice_reader_close(&fixture.reader));
    CHECK_OK(sluice_writer_close(&fixture.writer));
    CHECK_OK(sluice_stream_destroy(&fixture.stream));
    return fixture.device;
}

TEST_TIMEOUT(captures_of_others_do_not_mind_graphs, 120)
{
    static const int modes[] = { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };

    gpu_begin();
    for (int i = 0; i < 6; i++) {
        struct capture_thread capturer;
        gpu_use(0);
        struct memory memory = memory_make(OF_GPU, SIZE);
        capture_thread_begin(&capturer, modes[i % 3], i < 3 ? SL_CU_STREAM_NON_BLOCKING : 0);
        struct sluice_device device = live(&memory);
        capture_thread_end(&capturer);
        capture_thread_check(&capturer, NULL);
        CHECK_OK(sluice_device_close(&device));
        memory_drop(&memory);
    }
    gpu_end();
}

TEST(no_graph_gets_into_a_graph)
{
    struct sluice_ticket ticket = { 42 };
    struct sl_cu_graph *graph;
    size_t nodes;

    gpu_begin();
    struct fixture fixture = begin();
    struct memory memory = memory_make(OF_GPU, SIZE);
    struct sluice_array array = bytes_at(memory.at, SIZE);
    for (unsigned seed = 0; seed < 2 * SLOTS; seed++)
        send_new(&fixture, &memory, fixture.stream, seed);
    uint64_t before = by_graph(&fixture);
    CHECK_GE(before, 1);
    CU(StreamBeginCapture, fixture.native, CAPTURE_RELAXED);
    for (int i = 0; i < SLOTS; i++)
        CHECK_SAYS(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, &ticket), SLUICE_E_CAPTURING, "graph");
    CHECK_EQ(ticket.id, 42);
    CU(StreamEndCapture, fixture.native, &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CHECK_EQ(nodes, 0);
    CU(GraphDestroy, graph);
    CHECK_EQ(by_graph(&fixture), before);
    for (unsigned seed = 0; seed < SLOTS; seed++)
        send_new(&fixture, &memory, fixture.stream, seed);
    CHECK_EQ(by_graph(&fixture), before + SLOTS); /* they are still there */
    memory_drop(&memory);
    fixture_end(&fixture);
}

/* ---- without graphs ---- */

static uint64_t sends_without(const char *words)
{
    CHECK(setenv("SLUICE_WITHOUT", words, 1) == 0);
    struct fixture fixture = begin();
    struct memory memory = memory_make(OF_GPU, SIZE);
    for (unsigned seed = 0; seed < 3 * SLOTS; seed++)
        send_new(&fixture, &memory, seed % 2 ? fixture.stream : SLUICE_ON_CPU, seed);
    uint64_t found = by_graph(&fixture);
    memory_drop(&memory);
    fixture_end(&fixture);
    return found;
}

/* Without stream memory operations copies are still graphs, and host functions signal after them. */
TEST_TIMEOUT(graphs_can_be_switched_off, 60)
{
    gpu_begin();
    CHECK_EQ(sends_without("graphs"), 0);
    CHECK_GE(sends_without("memops"), SLOTS);
    CHECK_GE(sends_without("register"), SLOTS);
    CHECK_GE(sends_without("vmm"), SLOTS);
    CHECK_GE(sends_without(""), SLOTS);
}

TEST(writers_may_do_without_graphs)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int64_t size = SIZE;
    sluice_writer *writer;

    gpu_begin();
    test_dir();
    CHECK_OK(sluice_format_add_tensor(&format, "data", U8, 1, &size));
    params.name = "cam";
    params.format = &format;
    params.no_graphs = 2;
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_INVALID, "no_graphs is 0 or 1");
    struct fixture fixture = fixture_bytes(SIZE);
    struct memory memory = memory_make(OF_GPU, SIZE);
    for (unsigned seed = 0; seed < 3 * SLOTS; seed++)
        send_new(&fixture, &memory, fixture.stream, seed);
    CHECK_EQ(by_graph(&fixture), 0);
    memory_drop(&memory);
    fixture_end(&fixture);
}
