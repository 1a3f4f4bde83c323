/* SPDX-License-Identifier: MIT
 *
 * What a reader of a GPU channel may not do with a frame: release it on the CPU while a stream reads it, and wait for a
 * signal that nobody will send.
 */
#include "gpu/channel.h"
#include "native/reader/reader.h"

#define DEADLINE ((int64_t)(SLUICE_S * test_slowness()))

/* Protocol 1.15: the CPU does not know when the stream's work has ended. */
TEST(a_frame_that_a_stream_reads_is_not_released_on_the_cpu)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = channel_reader(2);
    struct sluice_frame frame;

    channel_commit(fixture.writer, fixture.writing, 0, 7);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
    channel_commit(fixture.writer, fixture.writing, 0, 8);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    int slots = 6; /* free ones of eight; the last four are added while they are asked for */
    CHECK_SOON(channel_free_slots(fixture.writer) == slots, 5);
    gpu_gate_close(&gate, gpu_native(fixture.reading)); /* it still reads the frame */
    CHECK_SAYS(sluice_reader_release(reader, &frame, SLUICE_ON_CPU), SLUICE_E_INVALID, "release it on a stream");
    CHECK_EQ(channel_free_slots(fixture.writer), slots);
    CHECK_OK(sluice_reader_check(reader, &frame)); /* it is held as before */
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
    CHECK_EQ(channel_free_slots(fixture.writer), slots);
    gpu_gate_open(&gate);
    CHECK_SOON(channel_free_slots(fixture.writer) == slots + 1, 5);
    gpu_gate_end(&gate);

    channel_commit(fixture.writer, fixture.writing, 0, 9);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU)); /* nothing reads this one */
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

/* The first frame for which the writer signals in the reader's own semaphores; 0: none. */
static uint64_t semaphores_from(sluice_reader *handle)
{
    struct sluice_reader *base;

    CHECK_OK(sl_reader_hold(handle, &base));
    uint64_t from = sl_load(sl_reader_of(base)->session->link->page.semaphores_from, acquire);
    sl_object_drop(&base->object);
    return from;
}

/* A frame that was begun before the writer knew of the reader sends it no signal of its own: a stream that waited for
 * one would wait for its deadline, and the frame would count as lost. */
TEST(a_frame_from_before_the_writer_knew_is_waited_for_on_the_cpu)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_reader_params params = channel_reader_params(2);
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct sluice_frame before, next, frame;
    sluice_reader *reader;

    CHECK_OK(sluice_writer_begin(fixture.writer, 20 * SLUICE_S, &before));
    gpu_fill(gpu_native(fixture.writing), channel_words(&before), CHANNEL_WORDS,
             4); /* to load a kernel the driver may wait for the gate */
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    params.ahead = 1;
    params.ahead_ns = DEADLINE;
    CHECK_OK(sluice_reader_open(&reader, &params));
    gpu_gate_close(&gate, gpu_native(fixture.writing));
    gpu_fill(gpu_native(fixture.writing), channel_words(&before), CHANNEL_WORDS, 5);
    CHECK_OK(sluice_writer_commit(fixture.writer, &before, fixture.writing));
    CHECK_SOON(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame) == SLUICE_TIMEOUT &&
                   sluice_writer_begin(fixture.writer, 20 * SLUICE_S, &next) == 0 &&
                   sluice_writer_cancel(fixture.writer, &next, SLUICE_ON_CPU) == 0 && semaphores_from(reader) > 0,
               10);
    CHECK_GE(semaphores_from(reader), 2); /* the frame is the first */
    CHECK_RESULT(sluice_reader_acquire(reader, fixture.reading, SLUICE_S / 10, &frame), SLUICE_TIMEOUT);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
    channel_check(&frame, fixture.reading, 5);
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
    CHECK_OK(sluice_reader_stats(reader, &stats));
    CHECK_EQ(stats.lost, 0);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

/* A frame behind a closed gate, in a slot that is known. */
static struct sluice_frame commit_late(struct channel_fixture *fixture, struct gpu_gate *gate, uint32_t value)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(fixture->writer, 20 * SLUICE_S, &frame));
    gpu_gate_close(gate, gpu_native(fixture->writing));
    gpu_fill(gpu_native(fixture->writing), channel_words(&frame), CHANNEL_WORDS, value);
    CHECK_OK(sluice_writer_commit(fixture->writer, &frame, fixture->writing));
    return frame;
}

static void poison(sluice_reader *handle, uint32_t slot)
{
    struct sluice_reader *base;

    CHECK_OK(sl_reader_hold(handle, &base));
    sl_store(&sl_reader_of(base)->session->link->page.semaphores[slot], SL_POISON, seq_cst);
    sl_object_drop(&base->object);
}

/* At its deadline a wait is ended by a value that also ends every later wait for that semaphore. The writer's GPU
 * replaces it, unless it wrote just before: then the next frame in this slot would seem to be ready. */
TEST(a_word_that_was_poisoned_is_not_waited_for_again)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_reader_params params = channel_reader_params(1);
    struct sluice_frame frame, late;
    sluice_reader *reader;
    int again = 0, ahead = 0;

    CHECK_OK(sluice_writer_close(&fixture.writer));
    fixture.writer = channel_writer_of(3);
    params.ahead = 1;
    params.ahead_ns = DEADLINE;
    CHECK_OK(sluice_reader_open(&reader, &params));
    gpu_settle();
    channel_commit(fixture.writer, fixture.writing, 0, 1);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
    CHECK_OK(sluice_stream_synchronize(fixture.reading));

    (void)commit_late(&fixture, &gate, 2);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
    CHECK(frame.flags & SLUICE_FRAME_AHEAD);
    uint32_t slot = frame.slot;
    CHECK_OK(sluice_stream_synchronize(fixture.reading)); /* though the gate is closed */
    CHECK_RESULT(sluice_reader_release(reader, &frame, fixture.reading), SLUICE_E_LOST);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    poison(reader, slot); /* as if the deadline had passed at the last moment */
    for (uint32_t value = 3; again < 2; value++) {
        late = commit_late(&fixture, &gate, value);
        int r = sluice_reader_acquire(reader, fixture.reading, 0, &frame);
        again += late.slot == slot;
        if (late.slot == slot)
            CHECK_EQ(r, SLUICE_TIMEOUT);
        ahead += r == 0;
        gpu_gate_open(&gate);
        if (r != 0)
            CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
        channel_check(&frame, fixture.reading, value);
        CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
        CHECK_OK(sluice_stream_synchronize(fixture.reading));
    }
    CHECK_GE(ahead, 1); /* in other slots streams wait as before */
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}
