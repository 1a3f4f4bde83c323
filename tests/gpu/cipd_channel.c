/* SPDX-License-Identifier: MIT
 *
 * "cipd:" channels: a writer's frames as another process sees them, and as its own does.
 */
#include <unistd.h>

#include "gpu/cipd_kit.h"

/* ---- another process reads ---- */

TEST(cipd_frames_reach_another_process)
{
    struct cipd_side side = cipd_begin();

    side.writer = cipd_writer(&side.format);
    cipd_send_to_another(&side, 20);
    struct sluice_cipd_info info = cipd_info_of_writer(side.writer);
    CHECK_EQ(info.published, 20);
    CHECK_EQ(info.index, 20);
    CHECK_EQ(info.version, 1); /* frames do not begin a session */
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
        cipd_send_to_another(&side, 12);
        CHECK_OK(sluice_writer_close(&side.writer));
    }
    cipd_end(&side);
}

TEST(cipd_frames_are_written_in_place)
{
    struct cipd_side side = cipd_begin();
    struct sluice_frame frame, second;

    side.writer = cipd_writer(&side.format);
    struct child child = cipd_start_reader("10");
    for (uint32_t i = 1; i <= 10; i++) {
        CHECK_OK(sluice_writer_begin(side.writer, SLUICE_DEFAULT, &frame));
        CHECK_EQ(frame.slot, (i - 1) % 3);
        CHECK_RESULT(sluice_writer_begin(side.writer, SLUICE_DEFAULT, &second), SLUICE_E_BUSY);
        if (i == 5) { /* is not seen, and its slot is used for the next frame */
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
        cipd_expect(&child, i);
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
        CHECK_EQ(frame.flags, i == 1 ? SLUICE_FRAME_NEW_FORMAT | SLUICE_FRAME_NEW_SESSION : 0);
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
        CHECK_EQ(frame.flags, SLUICE_FRAME_NEW_FORMAT | SLUICE_FRAME_NEW_SESSION);
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
    CHECK_SAYS(cipd_send(side.writer, &array, side.stream, 1, NULL), SLUICE_E_FORMAT,
               "array 'x' is of data type uint8, and the channel's is int16");
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
        test_nap(i == 2 ? 600 * SLUICE_MS
                        : 0); /* the service thread ticks: the thread sanitizer sees both take their locks */
        for (uint32_t k = 1; k <= 12; k++) {
            CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i * 100 + k, NULL));
            CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
            CHECK_EQ(frame.slot, (12 * i + k - 1) % counts[i]); /* frame numbers go on */
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
