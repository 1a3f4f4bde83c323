/* SPDX-License-Identifier: MIT
 *
 * What a reader of a GPU channel may not do with a frame: release it past the stream that reads it, and wait for a word that
 * nobody will raise.
 */
#include "core/reader.h"
#include "gpu/channel.h"

#define DEADLINE ((int64_t)(SLUICE_S * test_slowness()))

/* Protocol 1.15: the CPU does not know when the stream's work has ended. */
TEST(a_frame_that_a_stream_reads_is_not_released_on_the_cpu)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = channel_reader(2);
    struct sluice_frame frame;

    channel_commit(scene.writer, scene.writing, 0, 7);
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &frame));
    channel_commit(scene.writer, scene.writing, 0, 8);
    CHECK_OK(sluice_stream_synchronize(scene.writing));
    int slots = channel_free_slots(scene.writer);
    gpu_gate_close(&gate, gpu_native(scene.reading)); /* it is at the frame still */
    CHECK_SAYS(sluice_reader_release(reader, &frame, SLUICE_ON_CPU), SLUICE_E_INVALID, "release it on a stream");
    CHECK_EQ(channel_free_slots(scene.writer), slots);
    CHECK_OK(sluice_reader_check(reader, &frame)); /* it is held as before */
    CHECK_OK(sluice_reader_release(reader, &frame, scene.reading));
    CHECK_EQ(channel_free_slots(scene.writer), slots);
    gpu_gate_open(&gate);
    CHECK_SOON(channel_free_slots(scene.writer) == slots + 1, 5);
    gpu_gate_end(&gate);

    channel_commit(scene.writer, scene.writing, 0, 9);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU)); /* nothing reads this one */
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}

/* From which frame on the writer raises the reader's own words; 0: none. */
static uint64_t own_from(sluice_reader *handle)
{
    struct sluice_reader *reader;

    CHECK_OK(sl_reader_hold(handle, &reader));
    uint64_t from = sl_load(reader->session->link->page.own_from, acquire);
    sl_object_drop(&reader->object);
    return from;
}

/* A frame that was begun before the writer knew of the reader raises no word of its own for it: a stream that waited for that
 * would wait for its deadline, and the frame would count as lost. */
TEST(a_frame_from_before_the_writer_knew_is_waited_for_on_the_cpu)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_reader_params params = channel_reader_params(2);
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct sluice_frame before, next, frame;
    sluice_reader *reader;

    CHECK_OK(sluice_writer_begin(scene.writer, 20 * SLUICE_S, &before));
    params.ahead = 1;
    params.ahead_ns = DEADLINE;
    CHECK_OK(sluice_reader_open(&reader, &params));
    gpu_gate_close(&gate, gpu_native(scene.writing));
    gpu_fill(gpu_native(scene.writing), channel_words(&before), CHANNEL_WORDS, 5);
    CHECK_OK(sluice_writer_commit(scene.writer, &before, scene.writing));
    CHECK_SOON(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame) == SLUICE_TIMEOUT &&
                   sluice_writer_begin(scene.writer, 20 * SLUICE_S, &next) == 0 &&
                   sluice_writer_cancel(scene.writer, &next, SLUICE_ON_CPU) == 0 && own_from(reader) > 0,
               10);
    CHECK_GE(own_from(reader), 2); /* the frame is the first */
    CHECK_RESULT(sluice_reader_acquire(reader, scene.reading, SLUICE_S / 10, &frame), SLUICE_TIMEOUT);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &frame));
    channel_check(&frame, scene.reading, 5);
    CHECK_OK(sluice_reader_release(reader, &frame, scene.reading));
    CHECK_OK(sluice_reader_stats(reader, &stats));
    CHECK_EQ(stats.lost, 0);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}
