/* SPDX-License-Identifier: MIT
 *
 * Send and fetch on streams, and the tickets that tell when they are done.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/fixtures.h"

TEST(the_copies_follow_the_streams_work)
{
    struct sluice_ticket sent, fetched;
    struct sluice_frame frame;

    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    struct memory from = memory_make(OF_GPU, 4096), to = memory_make(PINNED, 4096);
    struct sluice_array array = bytes_at(from.at, 4096), target = bytes_at(to.at, 4096);
    memset(to.at, 0, 4096);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, NULL)); /* makes all that is made once */
    frame = fixture_acquire(&fixture);
    CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &target, 1, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));

    struct gpu_gate gate = gpu_gate_new();
    gpu_fill(fixture.native, (uintptr_t)from.at, 1024, 0x05050505);
    gpu_gate_close(&gate, fixture.native);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, &sent)); /* though the gate is closed */
    CHECK_RESULT(sluice_ticket_query(sent), SLUICE_NOT_READY);
    CHECK_RESULT(sluice_ticket_wait(sent, SLUICE_MS), SLUICE_TIMEOUT);
    CHECK_RESULT(sluice_reader_acquire(fixture.reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_ticket_wait(sent, 20 * SLUICE_S));
    gpu_gate_join(&gate);
    frame = fixture_acquire(&fixture);

    gpu_gate_close(&gate, fixture.native);
    CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &target, 1, fixture.stream, &fetched));
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, fixture.stream));
    CHECK_RESULT(sluice_ticket_query(fetched), SLUICE_NOT_READY);
    CHECK_EQ(to.at[0], 0);
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_ticket_wait(fetched, 20 * SLUICE_S));
    gpu_gate_join(&gate);
    gpu_gate_end(&gate);
    CHECK_EQ(to.at[0], 5);
    CHECK_EQ(to.at[4095], 5);
    CHECK_OK(sluice_ticket_query(sent));
    memory_drop(&from);
    memory_drop(&to);
    fixture_end(&fixture);
}

/* A wait sleeps until about when similar copies ended. Copies that ended late, because of work before them, must not
 * delay the wait for those that end at once: at least one wait is in time, however busy the machine is. */
TEST_TIMEOUT(a_copy_is_not_slept_through_though_others_took_long, 60)
{
    struct sluice_ticket ticket;
    int64_t took = INT64_MAX;

    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    struct memory to = memory_make(PINNED, 4096);
    struct sluice_array target = bytes_at(to.at, 4096);
    struct memory from = memory_make(OF_GPU, 4096);
    struct sluice_array array = bytes_at(from.at, 4096);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, NULL));
    struct sluice_frame frame = fixture_acquire(&fixture);

    for (int turn = 0; turn < 60 && took > SPIN / 20 + SOON; turn++) {
        for (int i = 0; i < 8; i++) {
            gpu_spin(fixture.native, SPIN);
            CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &target, 1, fixture.stream, &ticket));
            CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
        }
        int64_t began = test_now();
        gpu_spin(fixture.native, SPIN / 20); /* long enough that the wait begins before the end */
        CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &target, 1, fixture.stream, &ticket));
        CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
        took = test_now() - began;
    }
    CHECK_LE(took, SPIN / 20 + SOON);
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, fixture.stream));
    memory_drop(&from);
    memory_drop(&to);
    fixture_end(&fixture);
}

/* Work on the default stream is ordered too: the frame is published after its copies, and released after them. */
TEST(the_default_stream)
{
    struct sluice_stream standard;
    struct sluice_ticket ticket;

    gpu_begin();
    struct fixture fixture = fixture_bytes(LARGE / 4 * 4);
    size_t size = LARGE / 4 * 4;
    struct memory from = memory_make(OF_GPU, size), to = memory_make(PINNED, size);
    struct sluice_array array = bytes_at(from.at, (int64_t)size), target = bytes_at(to.at, (int64_t)size);
    char *expected = malloc(size);
    CHECK_OK(sluice_stream_default(fixture.device, &standard));
    for (int i = 1; i <= 5; i++) {
        gpu_spin(NULL, SPIN / 4);
        gpu_fill(NULL, (uintptr_t)from.at, size / 4, (uint32_t)i * 0x01010101);
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, standard, NULL));
        gpu_fill(NULL, (uintptr_t)from.at, size / 4, 0); /* after the copy */
        struct sluice_frame frame = fixture_acquire(&fixture);
        CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &target, 1, standard, &ticket));
        CHECK_OK(sluice_reader_release(fixture.reader, &frame, standard));
        CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
        memset(expected, i, size);
        CHECK_MEM(to.at, expected, size);
    }
    free(expected);
    memory_drop(&from);
    memory_drop(&to);
    fixture_end(&fixture);
}

/* The stream itself may fill the array, here by a host function. */
static void fill_plain(void *data)
{
    memset(data, 9, 4096);
}

TEST(plain_memory_is_read_after_the_streams_work)
{
    struct sluice_ticket ticket;

    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    struct gpu_gate gate = gpu_gate_new();
    struct memory memory = memory_make(PLAIN, 4096);
    struct sluice_array array = bytes_at(memory.at, 4096);
    char expected[4096];

    memset(memory.at, 1, 4096);
    memset(expected, 9, 4096);
    gpu_gate_close(&gate, fixture.native);
    CU(LaunchHostFunc, fixture.native, fill_plain, memory.at);
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, &ticket));
    gpu_gate_join(&gate);
    CHECK_OK(sluice_ticket_query(ticket)); /* it was read */
    memset(memory.at, 2, 4096);
    fixture_check(&fixture, expected, 4096);

    /* A caller that says that the CPU wrote it need not wait. */
    gpu_gate_close(&gate, fixture.native);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
    gpu_gate_open(&gate);
    memset(expected, 2, 4096);
    fixture_check(&fixture, expected, 4096);
    CHECK_OK(sluice_stream_synchronize(fixture.stream));
    gpu_gate_end(&gate);
    memory_drop(&memory);
    fixture_end(&fixture);
}

struct waiter {
    struct sluice_ticket ticket;
    pthread_t thread;
    int result;
};

static void *wait_for(void *shared)
{
    struct waiter *waiter = shared;

    waiter->result = sluice_ticket_wait(waiter->ticket, 10 * SLUICE_S);
    return NULL;
}

TEST(other_threads_wait_by_tickets)
{
    struct waiter waiters[8] = { 0 };

    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    struct memory memory = memory_make(OF_GPU, 4096);
    struct sluice_array array = bytes_at(memory.at, 4096);
    gpu_spin(fixture.native, SPIN);
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, &waiters[i * 4].ticket));
    for (int i = 0; i < 8; i++) {
        waiters[i].ticket = waiters[i / 4 * 4].ticket;
        waiters[i].result = 77;
        CHECK(pthread_create(&waiters[i].thread, NULL, wait_for, &waiters[i]) == 0);
    }
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_join(waiters[i].thread, NULL) == 0);
        CHECK_EQ(waiters[i].result, 0);
    }
    memory_drop(&memory);
    fixture_end(&fixture);
}

TEST(tickets_of_what_has_ended)
{
    struct sluice_ticket sent, fetched, none = { 0 }, done = { 1 }, forged;

    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    struct memory memory = memory_make(OF_GPU, 4096);
    struct sluice_array array = bytes_at(memory.at, 4096);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, &sent));
    struct sluice_frame frame = fixture_acquire(&fixture);
    CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &array, 1, fixture.stream, &fetched));
    CHECK_OK(sluice_ticket_wait(fetched, 20 * SLUICE_S));
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, fixture.stream));
    CHECK_OK(sluice_ticket_wait(sent, 20 * SLUICE_S));
    CHECK_NE(sent.id, fetched.id);
    for (int i = 0; i < 1000; i++) { /* an old ticket is still done */
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, &forged));
        CHECK_OK(sluice_ticket_wait(forged, 20 * SLUICE_S));
    }
    CHECK_OK(sluice_ticket_query(sent));
    CHECK_SAYS(sluice_ticket_wait(none, 0), SLUICE_E_HANDLE, "zero ticket");
    CHECK_OK(sluice_ticket_wait(done, 0));
    for (int bit = 1; bit < 64; bit++) {
        forged.id = sent.id ^ UINT64_C(1) << bit;
        int r = sluice_ticket_query(forged);
        CHECK(r == 0 || r == SLUICE_E_HANDLE || r == SLUICE_E_STALE);
    }
    CHECK_OK(sluice_reader_close(&fixture.reader));
    gpu_settle();
    CHECK_SAYS(sluice_ticket_wait(fetched, SLUICE_S), SLUICE_E_STALE, "has been closed");
    CHECK_OK(sluice_ticket_query(sent));
    CHECK_OK(sluice_writer_close(&fixture.writer));
    gpu_settle();
    CHECK_SAYS(sluice_ticket_query(sent), SLUICE_E_STALE, "has been closed");
    CHECK_OK(sluice_device_close(&fixture.device));

    /* The next channel gets other tickets. */
    memory_drop(&memory);
    fixture = fixture_bytes(4096);
    memory = memory_make(OF_GPU, 4096);
    array = bytes_at(memory.at, 4096);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, &forged));
    CHECK_SAYS(sluice_ticket_query(sent), SLUICE_E_STALE, "has been closed");
    CHECK_OK(sluice_ticket_wait(forged, 20 * SLUICE_S));
    memory_drop(&memory);
    fixture_end(&fixture);
}

#define MOST 256 /* copies with tickets that a reader may have in flight */

TEST(more_copies_than_there_are_tickets)
{
    struct sluice_ticket tickets[MOST], old, more = { 42 };

    gpu_begin();
    struct fixture fixture = fixture_bytes(64);
    struct gpu_gate gate = gpu_gate_new();
    struct memory from = memory_make(OF_GPU, 64), to = memory_make(PINNED, 64);
    struct sluice_array array = bytes_at(from.at, 64), target = bytes_at(to.at, 64);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, NULL));
    struct sluice_frame frame = fixture_acquire(&fixture);
    CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &target, 1, fixture.stream, &old));
    CHECK_OK(sluice_ticket_wait(old, 10 * SLUICE_S));
    gpu_gate_close(&gate, fixture.native);
    for (int i = 0; i < MOST; i++)
        CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &target, 1, fixture.stream, &tickets[i]));
    CHECK_OK(sluice_ticket_query(old)); /* whatever has its number now */
    CHECK_SAYS(sluice_reader_fetch(fixture.reader, &frame, &target, 1, fixture.stream, &more), SLUICE_E_BUSY,
               "wait for one");
    CHECK_EQ(more.id, 42);
    gpu_gate_open(&gate);
    for (int i = 0; i < MOST; i++)
        CHECK_OK(sluice_ticket_wait(tickets[i], 10 * SLUICE_S));
    CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &target, 1, fixture.stream, &more));
    CHECK_OK(sluice_ticket_wait(more, 10 * SLUICE_S));
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, fixture.stream));
    gpu_gate_end(&gate);
    memory_drop(&from);
    memory_drop(&to);
    fixture_end(&fixture);
}

TEST(fetch_without_a_ticket_waits)
{
    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    struct memory from = memory_make(OF_GPU, 4096), to = memory_make(PINNED, 4096);
    struct sluice_array array = bytes_at(from.at, 4096), target = bytes_at(to.at, 4096);

    gpu_fill(fixture.native, (uintptr_t)from.at, 1024, 0x06060606);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, NULL));
    struct sluice_frame frame = fixture_acquire(&fixture);
    struct gpu_gate gate = gpu_gate_new();
    gpu_gate_close(&gate, fixture.native);
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &target, 1, fixture.stream, NULL));
    gpu_gate_join(&gate);
    gpu_gate_end(&gate);
    CHECK_EQ(to.at[4095], 6);
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
    memory_drop(&from);
    memory_drop(&to);
    fixture_end(&fixture);
}

/* Only a stream waits for its readiness: the copy is ordered after that, whichever stream it was requested on. */
TEST(a_frame_taken_ahead)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_stream reading;
    struct sluice_frame frame;
    sluice_reader *reader;

    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    struct memory from = memory_make(OF_GPU, 4096), to = memory_make(PINNED, 4096);
    struct sluice_array array = bytes_at(from.at, 4096), target = bytes_at(to.at, 4096);
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &reading));
    params.name = "cam";
    params.ahead = 1;
    params.open_timeout_ns = params.ahead_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    gpu_settle();
    CHECK_OK(
        sluice_writer_send(fixture.writer, &array, 1, fixture.stream, NULL)); /* from now on the writer knows of it */
    CHECK_OK(sluice_reader_acquire(reader, reading, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, reading));
    CHECK_OK(sluice_stream_synchronize(reading));
    struct gpu_gate gate = gpu_gate_new();
    for (int i = 1; i <= 4; i++) {
        gpu_fill(fixture.native, (uintptr_t)from.at, 1024, (uint32_t)i * 0x01010101);
        gpu_gate_close(&gate, fixture.native);
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, fixture.stream, NULL));
        CHECK_OK(sluice_reader_acquire(reader, reading, 20 * SLUICE_S, &frame));
        CHECK(frame.flags & SLUICE_FRAME_AHEAD);
        gpu_gate_open_later(&gate);
        CHECK_OK(sluice_reader_fetch(reader, &frame, &target, 1, i % 2 ? SLUICE_ON_CPU : reading, NULL));
        gpu_gate_join(&gate);
        CHECK_EQ(to.at[0], i);
        CHECK_EQ(to.at[4095], i);
        CHECK_OK(sluice_reader_release(reader, &frame, reading));
        CHECK_OK(sluice_stream_synchronize(reading));
    }
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    memory_drop(&from);
    memory_drop(&to);
    fixture_end(&fixture);
}

/* Several threads may fetch from one reader. */
static void *fetch_often(void *shared)
{
    struct fixture *fixture = ((void **)shared)[0];
    struct sluice_frame *frame = ((void **)shared)[1];
    char *expected = ((void **)shared)[2], *to = calloc(1, LARGE);
    struct sluice_array array = bytes_at(to, LARGE);

    for (int i = 0; i < 5; i++) {
        memset(to, 0, LARGE);
        CHECK_OK(sluice_reader_fetch(fixture->reader, frame, &array, 1, SLUICE_ON_CPU, NULL));
        CHECK_MEM(to, expected, LARGE);
    }
    free(to);
    return NULL;
}

TEST_TIMEOUT(threads_fetch_at_once, 60)
{
    pthread_t threads[4];

    gpu_begin();
    struct fixture fixture = fixture_bytes(LARGE);
    char *bytes = pattern(LARGE, 5);
    struct sluice_array array = bytes_at(bytes, LARGE);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
    struct sluice_frame frame = fixture_acquire(&fixture);
    void *shared[] = { &fixture, &frame, bytes };
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, fetch_often, shared) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
    free(bytes);
    fixture_end(&fixture);
}

/* ---- docs/send-fetch.md ---- */

static int64_t seen;

static void work(const struct sluice_array *image)
{
    const uint32_t *words = image->data;

    CHECK_EQ(words[0], words[1023]);
    CHECK_GE(words[0], seen + 1);
    seen = words[0];
}

/* One buffer is filled while the CPU works on the other. */
static int take_frames(sluice_reader *reader, struct sluice_stream stream, struct sluice_array buffers[2], int frames)
{
    struct sluice_ticket tickets[2];
    struct sluice_frame frame;
    int r = 0;

    for (int i = 0; i < frames && r == 0; i++) {
        r = sluice_reader_acquire(reader, stream, 10 * SLUICE_S, &frame);
        if (r != 0)
            break;
        r = sluice_reader_fetch(reader, &frame, &buffers[i % 2], 1, stream, &tickets[i % 2]);
        sluice_reader_release(reader, &frame, stream); /* after the copy */
        if (i > 0 && sluice_ticket_wait(tickets[1 - i % 2], 10 * SLUICE_S) == 0)
            work(&buffers[1 - i % 2]); /* the frame before, while this one arrives */
    }
    return r;
}

struct filler {
    struct fixture *fixture;
    struct sluice_array *array;
    uint64_t words;
    atomic_bool stop; /* the reader may miss any number of them */
};

static void *send_often(void *shared)
{
    struct filler *filler = shared;
    struct sluice_ticket ticket;

    gpu_use(0);
    struct sl_cu_stream *native = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    for (uint32_t i = 1; !filler->stop; i++) {
        gpu_fill(native, filler->words, 1024, i);
        CU(StreamSynchronize, native);
        CHECK_OK(sluice_writer_send(filler->fixture->writer, filler->array, 1, SLUICE_ON_CPU, &ticket));
        CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
        test_nap(5 * SLUICE_MS);
    }
    CU(StreamDestroy, native);
    cu.CtxSetCurrent(NULL);
    return NULL;
}

TEST(doc_fetch_beside_work)
{
    struct sluice_array buffers[2], array;
    void *memory[2];

    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    struct memory from = memory_make(OF_GPU, 4096);
    array = bytes_at(from.at, 4096);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(sluice_device_host_alloc(fixture.device, 4096, &memory[i]));
        buffers[i] = bytes_at(memory[i], 4096);
    }
    struct filler filler = { .fixture = &fixture, .array = &array, .words = (uintptr_t)from.at };
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, send_often, &filler) == 0);
    CHECK_OK(take_frames(fixture.reader, fixture.stream, buffers, 20));
    filler.stop = true;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_GE(seen, 19);
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_device_host_free(&memory[i]));
    memory_drop(&from);
    fixture_end(&fixture);
}
