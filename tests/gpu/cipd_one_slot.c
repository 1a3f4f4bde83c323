/* SPDX-License-Identifier: MIT
 *
 * Copies of frames in a single slot: a writer that does not report when it begins the next frame may be writing it
 * already.
 */
#include "gpu/cipd_kit.h"

static struct cipd_side single(void)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);

    params.slots = 1;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    return side;
}

static void send(struct cipd_side *side, uint32_t value)
{
    CHECK_OK(cipd_send(side->writer, &side->array, side->stream, value, NULL));
    CHECK_OK(sluice_stream_synchronize(side->stream));
}

static int open_copier(sluice_reader **reader, int64_t timeout_ns)
{
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);

    cipd.copy = 1;
    params.open_timeout_ns = timeout_ns;
    return sluice_reader_open(reader, &params);
}

/* It writes the next frame during the copy, while its index is still that of the last one. */
TEST(cipd_copies_out_of_another_writers_single_slot_are_refused)
{
    struct cipd_side side = single();
    sluice_reader *reader;

    send(&side, 1);
    cipd_disguise();
    CHECK_SAYS(open_copier(&reader, 0), SLUICE_E_UNSUPPORTED, "two slots or more, or read without copies");
    reader = cipd_reader(); /* frames themselves are taken as before: they may be rewritten at any time */
    cipd_take_and_release(reader, &side, 1);
    cipd_end_reader(&side, reader);
}

TEST(cipd_copies_out_of_a_single_slot_of_ours_are_whole)
{
    struct cipd_side side = single();
    struct sluice_frame frame, begun;
    sluice_reader *reader;

    send(&side, 1);
    CHECK_OK(open_copier(&reader, 20 * SLUICE_S));
    cipd_take_and_release(reader, &side, 1);
    send(&side, 2);
    CHECK_OK(sluice_writer_begin(side.writer, SLUICE_DEFAULT, &begun));
    gpu_fill(gpu_native(side.stream), channel_words(&begun), cipd_words(&side.format) / 2, 3);
    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT,
               "not finished"); /* half of it is 3 */
    gpu_fill(gpu_native(side.stream), channel_words(&begun), cipd_words(&side.format), 3);
    CHECK_OK(sluice_writer_commit(side.writer, &begun, side.stream));
    cipd_take_and_release(reader, &side, 3);
    cipd_end_reader(&side, reader);
}

/* The number of its writer's slots goes down and up again while it is read. */
TEST(cipd_copies_are_refused_while_another_writer_has_a_single_slot)
{
    struct cipd_side side = single();
    struct sluice_cipd_info info;
    struct sluice_frame frame;
    sluice_reader *reader;

    CHECK_OK(sluice_cipd_set_slots(side.writer, 2));
    send(&side, 1);
    cipd_disguise();
    CHECK_OK(open_copier(&reader, 0));
    cipd_take_and_release(reader, &side, 1);
    CHECK_OK(sluice_cipd_set_slots(side.writer, 1));
    send(&side, 2);
    cipd_disguise();
    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame), SLUICE_E_UNSUPPORTED,
               "two slots or more");
    info = cipd_info_of_reader(reader);
    CHECK_EQ(info.state, SLUICE_CIPD_UNFINISHED);
    CHECK_HAS(info.why, "single slot");
    CHECK_OK(sluice_cipd_set_slots(side.writer, 2));
    send(&side, 3);
    cipd_disguise();
    CHECK_OK(sluice_cipd_retry(reader));
    cipd_take_and_release(reader, &side, 3);
    cipd_end_reader(&side, reader);
}

/* A reader that waits for its writer anyway opens, and reports it then. */
TEST(cipd_a_reader_of_copies_may_be_there_before_a_single_slot)
{
    struct cipd_side side = single();
    struct sluice_frame frame;
    sluice_reader *reader;

    send(&side, 1);
    cipd_disguise();
    CHECK_OK(open_copier(&reader, SLUICE_LATER));
    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_E_UNSUPPORTED, "two slots or more");
    cipd_end_reader(&side, reader);
}
