/* SPDX-License-Identifier: MIT
 *
 * "cipd:" channels: a writer's frames, as another process sees them and as its own does.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/cipd.h"
#include "wire/cipd/layout.h"

/* ---- another process reads ---- */

/* Arguments: the channel; the last frame's number. Says each frame's number once it has looked at all of it. */
ROLE(cipd_reader)
{
    struct sluice_frame frame;
    uint32_t value = 0, last = (uint32_t)atoi(argv[2]);

    CHECK_EQ(argc, 3);
    gpu_begin();
    gpu_use(0);
    cipd_call(argv[1]);
    sluice_reader *reader = cipd_reader();
    struct sl_cu_stream *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    role_say("ready");
    while (value < last) {
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        uint32_t now = cipd_value(&frame, stream);
        CHECK(now > value);
        value = now;
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        role_say("%u", value);
    }
    CHECK_OK(sluice_reader_close(&reader));
    CU(StreamDestroy, stream);
    gpu_end();
    return 0;
}

static void expect_number(struct child *child, uint32_t number)
{
    char text[16];

    snprintf(text, sizeof text, "%u", number);
    child_expect(child, text, 20);
}

/* So many frames by turns, each looked at by the other process before the next. */
static void send_to_another(struct cipd_side *side, uint32_t frames)
{
    char last[16];

    snprintf(last, sizeof last, "%u", frames);
    struct child child = role_start("cipd_reader", cipd_name(), last, NULL);
    child_expect(&child, "ready", 20);
    for (uint32_t i = 1; i <= frames; i++) {
        CHECK_OK(cipd_send(side->writer, &side->array, side->stream, i, NULL));
        expect_number(&child, i);
    }
    CHECK_EQ(child_wait(&child, 20), 0);
}

TEST(cipd_frames_reach_another_process)
{
    struct cipd_side side = cipd_begin();

    side.writer = cipd_writer(&side.format);
    send_to_another(&side, 20);
    struct sluice_cipd_info info = cipd_info_of_writer(side.writer);
    CHECK_EQ(info.published, 20);
    CHECK_EQ(info.index, 20);
    CHECK_EQ(info.slot_count, 3);
    CHECK_EQ(info.failed, 0);
    CHECK_EQ(info.slots[0].frames, 7);
    CHECK_EQ(info.slots[2].frames, 6);
    CHECK_EQ(info.segment_bytes, 4096);
    CHECK_EQ(info.writer_pid, getpid());
    cipd_end(&side);
}

TEST_TIMEOUT(cipd_slots_may_be_one_to_ten, 60)
{
    static const uint32_t counts[] = { 1, 2, 3, 10 };
    struct cipd_side side = cipd_begin();

    for (int i = 0; i < 4; i++) {
        struct sluice_cipd_writer_params cipd;
        struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
        params.slots = counts[i];
        CHECK_OK(sluice_writer_open(&side.writer, &params));
        CHECK_EQ(cipd_info_of_writer(side.writer).slot_count, counts[i]);
        send_to_another(&side, 12);
        CHECK_OK(sluice_writer_close(&side.writer));
    }
    cipd_end(&side);
}

TEST(cipd_frames_are_written_in_place)
{
    struct cipd_side side = cipd_begin();
    struct sluice_frame frame, second;

    side.writer = cipd_writer(&side.format);
    struct child child = role_start("cipd_reader", cipd_name(), "10", NULL);
    child_expect(&child, "ready", 20);
    for (uint32_t i = 1; i <= 10; i++) {
        CHECK_OK(sluice_writer_begin(side.writer, SLUICE_DEFAULT, &frame));
        CHECK_EQ(frame.slot, (i - 1) % 3);
        CHECK_RESULT(sluice_writer_begin(side.writer, SLUICE_DEFAULT, &second), SLUICE_E_BUSY);
        if (i == 5) { /* is not seen, and the slot is the next frame's */
            gpu_fill(gpu_native(side.stream), channel_words(&frame), cipd_words(&side.format), 77);
            CHECK_OK(sluice_writer_cancel(side.writer, &frame, side.stream));
            CHECK_RESULT(sluice_writer_commit(side.writer, &frame, side.stream), SLUICE_E_STALE);
            CHECK_OK(sluice_writer_begin(side.writer, SLUICE_DEFAULT, &frame));
            CHECK_EQ(frame.slot, 1);
        }
        gpu_fill(gpu_native(side.stream), channel_words(&frame), cipd_words(&side.format), i);
        CHECK_RESULT(sluice_writer_commit(side.writer, &frame, (struct sluice_stream){ 0 }), SLUICE_E_INVALID);
        if (i % 2) {
            CHECK_OK(sluice_writer_commit(side.writer, &frame, side.stream));
        } else {
            CHECK_OK(sluice_stream_synchronize(side.stream));
            CHECK_OK(sluice_writer_commit(side.writer, &frame, SLUICE_ON_CPU));
        }
        CHECK_EQ(frame.sequence, i);
        expect_number(&child, i);
    }
    CHECK_EQ(child_wait(&child, 20), 0);
    struct sluice_writer_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_writer_stats(side.writer, &stats));
    CHECK_EQ(stats.cancelled, 1);
    CHECK_EQ(stats.committed, 10);
    cipd_end(&side);
}

/* ---- in one process ---- */

TEST(cipd_a_writer_is_read_in_its_own_process)
{
    struct cipd_side side = cipd_begin();
    struct sluice_frame frame;

    side.writer = cipd_writer(&side.format);
    sluice_reader *reader = cipd_reader();
    for (uint32_t i = 1; i <= 10; i++) {
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i, NULL));
        CHECK_OK(sluice_reader_acquire(reader, side.stream, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.sequence, i);
        CHECK_EQ(frame.slot, (i - 1) % 3);
        CHECK_EQ(frame.missed, 0);
        CHECK_EQ(frame.flags, i == 1 ? SLUICE_FRAME_NEW_FORMAT : 0);
        CHECK_GE(frame.commit_ns, 1);
        CHECK_EQ(cipd_value(&frame, gpu_native(side.stream)), i);
        CHECK_OK(sluice_reader_check(reader, &frame));
        CHECK_OK(sluice_reader_release(reader, &frame, side.stream));
        CHECK_RESULT(sluice_reader_release(reader, &frame, side.stream), SLUICE_E_STALE);
    }
    CHECK_RESULT(sluice_reader_acquire(reader, side.stream, 0, &frame), SLUICE_TIMEOUT);
    struct sluice_reader_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_reader_stats(reader, &stats));
    CHECK_EQ(stats.taken, 10);
    CHECK_EQ(stats.missed, 0);
    CHECK_EQ(stats.connected, 1);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

static const struct {
    struct sluice_dtype dtype;
    int64_t components;
} kinds[] = {
    { { SLUICE_FLOAT, 32, 1 }, 4 }, { { SLUICE_FLOAT, 16, 1 }, 4 }, { { SLUICE_BFLOAT, 16, 1 }, 4 },
    { { SLUICE_UINT, 8, 1 }, 4 },   { { SLUICE_UINT, 16, 1 }, 2 },  { { SLUICE_INT, 8, 1 }, 1 },
    { { SLUICE_INT, 16, 1 }, 3 },
};

/* The writer is the same throughout: each format is a session of its own. */
TEST(cipd_formats_and_sizes_change_while_it_runs)
{
    struct cipd_side side = cipd_begin();
    struct sluice_frame frame;
    struct sluice_array seen;

    side.writer = cipd_writer(&side.format);
    sluice_reader *reader = cipd_reader();
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct sluice_format format = SLUICE_FORMAT_INIT;
        int64_t shape[3] = { 16 + i, 32 + 2 * i, kinds[i].components };
        CHECK_OK(sluice_format_add_tensor(&format, "x", kinds[i].dtype, 3, shape));
        CHECK_OK(sluice_format_complete(&format));
        CHECK_OK(sluice_writer_reformat(side.writer, &format));
        struct sluice_array array = cipd_array((uintptr_t)side.array.data, &format);
        CHECK_OK(cipd_send(side.writer, &array, side.stream, 7 * (i + 1), NULL));
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_frame_array(&frame, NULL, &seen));
        CHECK_EQ(seen.dtype.code, kinds[i].dtype.code);
        CHECK_EQ(seen.dtype.bits, kinds[i].dtype.bits);
        CHECK_EQ(seen.ndim, 3);
        CHECK_MEM(seen.shape, shape, sizeof shape);
        CHECK_EQ(seen.read_only, 1);
        CHECK_EQ(gpu_differ(gpu_native(side.stream), (uintptr_t)seen.data, seen.nbytes / 4, 7 * (i + 1)), 0);
        CHECK_EQ(frame.flags, i == 0 ? SLUICE_FRAME_NEW_FORMAT : SLUICE_FRAME_NEW_FORMAT | SLUICE_FRAME_NEW_SESSION);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    /* A send of another size changes it, too. */
    struct sluice_format format = cipd_format(kinds[6].dtype, 8, 8);
    format.arrays[0].shape[2] = 3;
    struct sluice_array array = cipd_array((uintptr_t)side.array.data, &format);
    CHECK_OK(cipd_send(side.writer, &array, side.stream, 99, NULL));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_frame_array(&frame, NULL, &seen));
    CHECK_EQ(seen.shape[0], 8);
    CHECK_EQ(seen.shape[2], 3);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    struct sluice_format other = cipd_format(cipd_uint8, 8, 8);
    array = cipd_array((uintptr_t)side.array.data, &other);
    CHECK_SAYS(cipd_send(side.writer, &array, side.stream, 1, NULL), SLUICE_E_FORMAT, "data type");
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

TEST(cipd_slot_counts_change_while_it_runs)
{
    static const uint32_t counts[] = { 2, 3, 2, 10, 1 };
    struct cipd_side side = cipd_begin();
    struct sluice_frame frame;

    side.writer = cipd_writer(&side.format);
    sluice_reader *reader = cipd_reader();
    for (uint32_t i = 0; i < 5; i++) {
        CHECK_OK(sluice_cipd_set_slots(side.writer, counts[i]));
        test_nap(i == 2 ? 600 * SLUICE_MS : 0); /* the service thread tends it: the thread sanitizer sees both take their locks */
        for (uint32_t k = 1; k <= 12; k++) {
            CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i * 100 + k, NULL));
            CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
            CHECK_EQ(frame.slot, (12 * i + k - 1) % counts[i]); /* frames are counted on */
            CHECK_EQ(cipd_value(&frame, gpu_native(side.stream)), i * 100 + k);
            CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        }
        CHECK_EQ(cipd_info_of_reader(reader).slot_count, counts[i]);
    }
    CHECK_RESULT(sluice_cipd_set_slots(side.writer, 0), SLUICE_E_LIMIT);
    CHECK_RESULT(sluice_cipd_set_slots(side.writer, 11), SLUICE_E_LIMIT);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

/* ---- what sends and fetches do beside ---- */

TEST(cipd_a_ticket_tells_when_the_program_may_change_its_memory)
{
    struct cipd_side side = cipd_begin();
    struct sluice_ticket ticket;

    side.writer = cipd_writer(&side.format);
    struct gpu_gate gate = gpu_gate_new();
    gpu_gate_close(&gate, gpu_native(side.stream));
    CHECK_OK(sluice_writer_send(side.writer, &side.array, 1, side.stream, &ticket));
    CHECK_RESULT(sluice_ticket_query(ticket), SLUICE_NOT_READY);
    CHECK_EQ(cipd_info_of_writer(side.writer).published, 1); /* all the same */
    gpu_gate_open(&gate);
    CHECK_OK(sluice_ticket_wait(ticket, 10 * SLUICE_S));
    gpu_gate_end(&gate);
    cipd_end(&side);
}

/* The segment says that slots have no events, as programs do that cannot make any: they wait for each frame. */
static void take_events_away(uint32_t slots)
{
    static const char none[64];
    char path[80];

    snprintf(path, sizeof path, "/%s", cipd_name() + strlen("cipd:"));
    int fd = shm_open(path, O_RDWR, 0);
    CHECK_GE(fd, 0);
    for (uint32_t i = 0; i < slots; i++)
        CHECK_EQ(pwrite(fd, none, sizeof none, 84 + 128 * i), sizeof none);
    CHECK_EQ(close(fd), 0);
}

TEST(cipd_slots_without_events_have_finished_frames)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
    struct sluice_frame frame;

    cipd.block = 1;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    take_events_away(3);
    cipd_disguise();
    sluice_reader *reader = cipd_reader();
    for (uint32_t i = 1; i <= 7; i++) {
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i, NULL));
        struct sluice_stream on = i % 2 ? side.stream : SLUICE_ON_CPU;
        CHECK_OK(sluice_reader_acquire(reader, on, 20 * SLUICE_S, &frame));
        CHECK_EQ(cipd_value(&frame, gpu_native(side.stream)), i);
        CHECK_OK(sluice_reader_release(reader, &frame, on));
    }
    struct sluice_cipd_info info = cipd_info_of_reader(reader);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(info.slots[i].memory_open && !info.slots[i].event_open);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

/* ---- an index that comes and goes ---- */

static atomic_bool pulsing;

/* A hostile program's: there when a reader polls, and gone when it looks whether the frame is whole. */
static void *pulse(void *index)
{
    atomic_uint *word = index;

    for (unsigned i = 100; atomic_load(&pulsing); i++) {
        atomic_store(word, i);
        for (unsigned k = 0; k < i % 16 * 50; k++)
            atomic_load(&pulsing);
        atomic_store(word, 0);
        test_nap(50000);
    }
    return NULL;
}

/* Nothing there could be waited for. */
TEST(cipd_a_stream_does_not_wait_for_a_slot_without_an_event)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_cipd_reader_params reading;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
    struct sluice_reader_params wanted = cipd_reader_params(&reading);
    struct sluice_frame frame;
    sluice_reader *reader;
    pthread_t thread;
    char path[80];

    CHECK_OK(sluice_writer_open(&side.writer, &params));
    take_events_away(3);
    cipd_disguise();
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    wanted.ahead = 1;
    wanted.spin_ns = SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &wanted));
    snprintf(path, sizeof path, "/%s", cipd_name() + strlen("cipd:"));
    int fd = shm_open(path, O_RDWR, 0);
    char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(fd >= 0 && at != MAP_FAILED);
    atomic_store(&pulsing, true);
    CHECK(pthread_create(&thread, NULL, pulse, at + SL_CIPD_INDEX_AT) == 0);
    for (int i = 0; i < 1500; i++) {
        int r = sluice_reader_acquire(reader, side.stream, SLUICE_MS, &frame);
        CHECK(r == 0 || r == SLUICE_TIMEOUT || r == SLUICE_E_LOST || r == SLUICE_NO_WRITER);
        if (r == 0)
            CHECK_EQ(frame.flags & SLUICE_FRAME_AHEAD, 0);
        if (r == 0) /* E_LOST: the index is ahead by then */
            CHECK((r = sluice_reader_release(reader, &frame, side.stream)) == 0 || r == SLUICE_E_LOST);
    }
    atomic_store(&pulsing, false);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(munmap(at, 4096), 0);
    CHECK_EQ(close(fd), 0);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

TEST(cipd_a_blocking_writer_publishes_what_is_finished)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
    struct sluice_frame frame;
    struct sluice_ticket ticket;
    struct sluice_cipd_info info;
    int64_t waited = 0;

    cipd.block = 1;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    sluice_reader *reader = cipd_reader();
    for (uint32_t i = 1; i <= 5 || waited == 0; i++) { /* the gate may be open before a busy machine lets it wait */
        struct gpu_gate gate = gpu_gate_new();
        CHECK_LE(i, 30);
        info = cipd_info_of_writer(side.writer);
        for (uint32_t slot = i - 1; slot < info.slot_count; slot++)
            CHECK_EQ(info.slots[slot].last_wait_ns, 0); /* nothing was in it yet */
        gpu_gate_close(&gate, gpu_native(side.stream));
        gpu_gate_open_later(&gate);
        int64_t began = test_now();
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i, &ticket));
        int64_t took = test_now() - began;
        gpu_gate_opened(&gate);
        info = cipd_info_of_writer(side.writer);
        waited += info.slots[(i - 1) % info.slot_count].last_wait_ns;
        CHECK_LE(info.slots[(i - 1) % info.slot_count].last_wait_ns, took);
        CHECK_OK(sluice_ticket_query(ticket));
        CHECK_OK(sluice_stream_query(side.stream));
        gpu_gate_end(&gate);
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame));
        CHECK_EQ(cipd_value(&frame, gpu_native(side.stream)), i);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

TEST(cipd_sends_that_come_again_are_graphs)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);

    CHECK_OK(sluice_writer_open(&side.writer, &params)); /* nobody has asked for them */
    send_to_another(&side, 20);
    struct sluice_cipd_info info = cipd_info_of_writer(side.writer);
    CHECK_EQ(info.graph_frames, 20 - 3); /* a slot's first send is none */
    CHECK_OK(sluice_cipd_set_slots(side.writer, 2)); /* and none of a slot's that is gone */
    for (uint32_t i = 1; i <= 6; i++)
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i, NULL));
    CHECK_EQ(cipd_info_of_writer(side.writer).graph_frames, 17 + 4);
    CHECK_OK(sluice_writer_close(&side.writer));
    cipd.graph = SLUICE_CIPD_OFF;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    send_to_another(&side, 20);
    CHECK_EQ(cipd_info_of_writer(side.writer).graph_frames, 0);
    cipd_end(&side);
}

/* What was found out about an array is used for the next one like it: from other places, with other strides and in other
 * sessions in between. */

static void send_and_see(struct cipd_side *side, sluice_reader *reader, const struct sluice_array *array, uint32_t value)
{
    struct sluice_frame frame;

    CHECK_OK(cipd_send(side->writer, array, side->stream, value, NULL));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_EQ(cipd_value(&frame, gpu_native(side->stream)), value);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
}

TEST(cipd_sends_that_are_alike)
{
    struct cipd_side side = cipd_begin();
    const struct sluice_array *of = &side.format.arrays[0];
    const int64_t wide[3] = { 2 * of->strides[0], of->strides[1], of->strides[2] };
    uint64_t memory = gpu_memory(4 * of->nbytes);
    struct sluice_frame frame;
    struct sluice_array array;

    side.writer = cipd_writer(&side.format);
    sluice_reader *reader = cipd_reader();
    for (uint32_t i = 1; i <= 40; i++) {
        char *at = (char *)(uintptr_t)memory + i % 3 * of->nbytes;
        CHECK_OK(sluice_array_wrap(&array, NULL, at, of->dtype, 3, of->shape, i / 7 % 2 ? wide : NULL));
        if (i % 10 == 0)
            CHECK_OK(sluice_cipd_set_slots(side.writer, 1 + i / 10));
        send_and_see(&side, reader, &array, i);
    }
    /* Memory of the slot itself is not copied, which is no rule for what comes next. */
    CHECK_OK(sluice_writer_begin(side.writer, SLUICE_DEFAULT, &frame));
    array = cipd_array(channel_words(&frame), &side.format);
    CHECK_OK(sluice_writer_cancel(side.writer, &frame, SLUICE_ON_CPU));
    send_and_see(&side, reader, &array, 100);
    array = cipd_array(memory, &side.format);
    send_and_see(&side, reader, &array, 101);
    array.nbytes /= 2; /* what is wrong with it is seen all the same */
    CHECK_RESULT(sluice_writer_send(side.writer, &array, 1, side.stream, NULL), SLUICE_E_INVALID);
    array = cipd_array(memory, &side.format);
    send_and_see(&side, reader, &array, 102);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

/* The slot is the same in each round, the stream is another: the copies must not overlap. */
TEST(cipd_sends_on_different_streams_are_in_order)
{
    struct cipd_side side = cipd_begin();
    struct sluice_stream other;
    struct sluice_frame frame;

    CHECK_OK(sluice_stream_create(side.device, NULL, &other));
    struct sluice_array array = cipd_array(gpu_memory(side.format.arrays[0].nbytes), &side.format);
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
    params.slots = 1;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    sluice_reader *reader = cipd_reader();
    struct gpu_gate gate = gpu_gate_new();
    gpu_gate_close(&gate, gpu_native(side.stream));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    CHECK_OK(cipd_send(side.writer, &array, other, 2, NULL));
    CHECK_RESULT(sluice_stream_query(other), SLUICE_NOT_READY);
    CHECK_RESULT(sluice_writer_begin(side.writer, 0, &frame), SLUICE_NO_SLOT); /* in place, the CPU would wait */
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(other));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_EQ(cipd_value(&frame, gpu_native(side.stream)), 2);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

TEST(cipd_frames_are_sent_from_and_fetched_into_plain_memory)
{
    struct cipd_side side = cipd_begin();
    uint32_t words[64], back[64] = { 0 };
    struct sluice_frame frame;

    struct sluice_format format = cipd_format(cipd_uint8, 8, 8);
    side.writer = cipd_writer(&format);
    sluice_reader *reader = cipd_reader();
    for (uint32_t i = 0; i < 64; i++)
        words[i] = i * 0x01010101u;
    struct sluice_array from = cipd_array((uintptr_t)words, &format), to = cipd_array((uintptr_t)back, &format);
    CHECK_OK(sluice_writer_send(side.writer, &from, 1, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_fetch(reader, &frame, &to, 1, SLUICE_ON_CPU, NULL));
    CHECK_MEM(words, back, sizeof words);
    /* Three frames later its slot is another's, and what was fetched may be anything. */
    for (int i = 0; i < 3; i++)
        CHECK_OK(sluice_writer_send(side.writer, &from, 1, SLUICE_ON_CPU, NULL));
    CHECK_RESULT(sluice_reader_fetch(reader, &frame, &to, 1, SLUICE_ON_CPU, NULL), SLUICE_E_LOST);
    CHECK_RESULT(sluice_reader_release(reader, &frame, SLUICE_ON_CPU), SLUICE_E_LOST);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

TEST(cipd_memory_of_a_slot_can_be_pinned)
{
    struct cipd_side side = cipd_begin();
    struct sluice_frame frame;
    sluice_pin *pin, *other;

    side.writer = cipd_writer(&side.format);
    sluice_reader *reader = cipd_reader();
    CHECK_OK(sluice_writer_begin(side.writer, 0, &frame));
    CHECK_OK(sluice_writer_pin(side.writer, &frame, &pin));
    CHECK_OK(sluice_writer_commit(side.writer, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    uint64_t at = channel_words(&frame);
    CHECK_OK(sluice_reader_pin(reader, &frame, &other));
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&side.writer));
    gpu_fill(gpu_native(side.stream), at, cipd_words(&side.format), 5);
    CHECK_EQ(gpu_differ(gpu_native(side.stream), at, cipd_words(&side.format), 5), 0);
    CHECK_OK(sluice_pin_drop(&pin));
    CHECK_OK(sluice_pin_drop(&other));
    cipd_end(&side);
}
