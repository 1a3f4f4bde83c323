/* SPDX-License-Identifier: MIT
 *
 * Sends on "cipd:" channels: when the program may change its memory, sends that wait, sends by graph, sends that are
 * alike, on several streams, and from pageable memory.
 */
#include "gpu/cipd_kit.h"

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
    for (uint32_t i = 1; i <= 5 || waited == 0;
         i++) { /* the gate may open before the writer waits, on a busy machine */
        struct gpu_gate gate = gpu_gate_new();
        CHECK_LE(i, 30);
        info = cipd_info_of_writer(side.writer);
        for (uint32_t slot = i - 1; slot < info.slot_count; slot++)
            CHECK_EQ(info.slots[slot].last_wait_ns, 0); /* the slot was empty */
        gpu_gate_close(&gate, gpu_native(side.stream));
        gpu_gate_open_later(&gate);
        int64_t began = test_now();
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i, &ticket));
        int64_t took = test_now() - began;
        gpu_gate_join(&gate);
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

    CHECK_OK(sluice_writer_open(&side.writer, &params)); /* no reader needs them */
    cipd_send_to_another(&side, 20);
    struct sluice_cipd_info info = cipd_info_of_writer(side.writer);
    CHECK_EQ(info.graph_frames, 20 - 3);             /* a slot's first send is not one */
    CHECK_OK(sluice_cipd_set_slots(side.writer, 2)); /* and none of a slot that is gone */
    for (uint32_t i = 1; i <= 6; i++)
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i, NULL));
    CHECK_EQ(cipd_info_of_writer(side.writer).graph_frames, 17 + 4);
    CHECK_OK(sluice_writer_close(&side.writer));
    cipd.graph = SLUICE_CIPD_OFF;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    cipd_send_to_another(&side, 20);
    CHECK_EQ(cipd_info_of_writer(side.writer).graph_frames, 0);
    cipd_end(&side);
}

/* What was found out about an array is reused for the next one like it: with other addresses, strides and sessions in
 * between. */

static void send_and_see(struct cipd_side *side, sluice_reader *reader, const struct sluice_array *array,
                         uint32_t value)
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
    /* Memory of the slot itself is not copied; that must not affect the next send. */
    CHECK_OK(sluice_writer_begin(side.writer, SLUICE_DEFAULT, &frame));
    array = cipd_array(channel_words(&frame), &side.format);
    CHECK_OK(sluice_writer_cancel(side.writer, &frame, SLUICE_ON_CPU));
    send_and_see(&side, reader, &array, 100);
    array = cipd_array(memory, &side.format);
    send_and_see(&side, reader, &array, 101);
    array.nbytes /= 2; /* an error in it is found all the same */
    CHECK_RESULT(sluice_writer_send(side.writer, &array, 1, side.stream, NULL), SLUICE_E_INVALID);
    array = cipd_array(memory, &side.format);
    send_and_see(&side, reader, &array, 102);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

/* The slot is the same in each round, the stream another one: the copies must not overlap. */
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
    /* Three frames later its slot is reused, and what was fetched may be anything. */
    for (int i = 0; i < 3; i++)
        CHECK_OK(sluice_writer_send(side.writer, &from, 1, SLUICE_ON_CPU, NULL));
    CHECK_RESULT(sluice_reader_fetch(reader, &frame, &to, 1, SLUICE_ON_CPU, NULL), SLUICE_E_LOST);
    CHECK_RESULT(sluice_reader_release(reader, &frame, SLUICE_ON_CPU), SLUICE_E_LOST);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}
