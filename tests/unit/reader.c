/* SPDX-License-Identifier: MIT
 *
 * A reader and its writer in one process; tests/multi has them in several.
 */
#include <string.h>

#include <sluice/sluice.h>

#include "harness/test.h"

static sluice_writer *open_writer(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_dtype i32 = { SLUICE_INT, 32, 1 };
    int64_t n = 1000;
    sluice_writer *writer;

    test_dir();
    CHECK_OK(sluice_format_add_tensor(&format, "data", i32, 1, &n));
    params.name = "cam";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static sluice_reader *open_reader(uint32_t mode, uint32_t hold)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    params.name = "cam";
    params.mode = mode;
    params.hold = hold;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

static struct sluice_reader_stats stats_of(sluice_reader *reader)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_reader_stats(reader, &stats));
    return stats;
}

static void commit(sluice_writer *writer, int32_t value)
{
    struct sluice_frame frame;
    struct sluice_array array;
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    CHECK_OK(sluice_frame_array(&frame, "data", &array));
    for (int i = 0; i < 1000; i++)
        ((int32_t *)array.data)[i] = value;
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
}

TEST(reader_counts_what_it_took_and_missed)
{
    sluice_writer *writer = open_writer();
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 2);
    struct sluice_frame a, b;

    struct sluice_reader_stats stats = stats_of(reader);
    CHECK_EQ(stats.connected, 1);
    CHECK_EQ(stats.sessions, 1);
    CHECK_EQ(stats.taken + stats.missed + stats.held + stats.lag, 0);
    CHECK_EQ(stats.clock_offset_ns, 0);
    commit(writer, 1);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &a));
    for (int i = 2; i <= 5; i++)
        commit(writer, i);
    CHECK_EQ(stats_of(reader).lag, 4);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &b));
    CHECK_EQ(b.sequence, 5);
    CHECK_EQ(b.missed, 3);
    stats = stats_of(reader);
    CHECK_EQ(stats.taken, 2);
    CHECK_EQ(stats.missed, 3);
    CHECK_EQ(stats.held, 2);
    CHECK_EQ(stats.lag, 0);
    CHECK_EQ(stats.session, a.session);
    CHECK(stats.latency_ns > 0);
    CHECK_OK(sluice_reader_release(reader, &b, SLUICE_ON_CPU)); /* in any order */
    CHECK_OK(sluice_reader_release(reader, &a, SLUICE_ON_CPU));
    CHECK_EQ(stats_of(reader).held, 0);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_SOON(stats_of(reader).connected == 0, 2);
    CHECK_OK(sluice_reader_close(&reader));
}

TEST(reader_outputs_stand_only_on_success)
{
    sluice_writer *writer = open_writer();
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 0);
    struct sluice_frame frame, before;

    memset(&frame, 0x5a, sizeof frame);
    before = frame;
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
    CHECK_MEM(&frame, &before, sizeof frame);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frame), SLUICE_CLOSED);
    CHECK_MEM(&frame, &before, sizeof frame);
    CHECK_OK(sluice_reader_close(&reader));
}

TEST(reader_says_in_words_why_nothing_came)
{
    sluice_writer *writer = open_writer();
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 0);
    struct sluice_frame frame;

    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT, "has a writer, but no new");
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_CLOSED, "channel 'cam'");
    CHECK_OK(sluice_reader_close(&reader));
}

TEST(reader_says_why_the_next_writer_does_not_take_it)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer = open_writer();
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 2);
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_format(writer, &format));
    CHECK_OK(sluice_writer_close(&writer));
    params.name = "cam";
    params.format = &format;
    params.slots = params.max_slots = 3;
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_SOON((CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_CLOSED),
                strstr(sluice_last_error(), "hold 2 is too much")),
               5);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(reader_fetches_into_the_programs_own_arrays)
{
    sluice_writer *writer = open_writer();
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 0);
    struct sluice_dtype i32 = { SLUICE_INT, 32, 1 };
    static int32_t data[2000];
    struct sluice_array array;
    struct sluice_frame frame;
    int64_t n = 1000, stride = 8;

    commit(writer, 77);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frame));
    CHECK_OK(sluice_array_wrap(&array, "data", data, i32, 1, &n, &stride)); /* every second element */
    CHECK_OK(sluice_reader_fetch(reader, &frame, &array, 1, SLUICE_ON_CPU, NULL));
    for (int i = 0; i < 2000; i++)
        CHECK_EQ(data[i], i % 2 ? 0 : 77);
    n = 999;
    CHECK_OK(sluice_array_wrap(&array, "data", data, i32, 1, &n, NULL));
    CHECK_RESULT(sluice_reader_fetch(reader, &frame, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT);
    strcpy(array.name, "nothing");
    CHECK_SAYS(sluice_reader_fetch(reader, &frame, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT,
               "no array 'nothing'");
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(readers_come_and_go)
{
    sluice_writer *writer = open_writer();
    struct sluice_writer_stats stats = { .size = sizeof stats };

    for (int i = 0; i < 100; i++) {
        sluice_reader *reader = open_reader(i % 2, 0);
        struct sluice_frame frame;
        commit(writer, i);
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frame));
        if (i % 3)
            CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        CHECK_OK(sluice_reader_close(&reader));
    }
    CHECK_SOON((CHECK_EQ(sluice_writer_stats(writer, &stats), 0), stats.readers) == 0, 2);
    CHECK_EQ(stats.readers_total, 100);
    CHECK_EQ(stats.readers_died, 0);
    CHECK_EQ(stats.dropped, 0);
    CHECK_OK(sluice_writer_close(&writer));
}
