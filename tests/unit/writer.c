/* SPDX-License-Identifier: MIT
 *
 * A writer alone; tests/multi has readers too.
 */
#include <string.h>

#include <sluice/sluice.h>

#include "harness/test.h"

static struct sluice_format make_format(int64_t bytes)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &bytes));
    return format;
}

static sluice_writer *open_writer(uint32_t slots, uint32_t max_slots)
{
    struct sluice_format format = make_format(5000);
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer;

    test_dir();
    params.name = "cam";
    params.format = &format;
    params.slots = slots;
    params.max_slots = max_slots;
    params.resize = 1;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static struct sluice_writer_stats stats_of(sluice_writer *writer)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_writer_stats(writer, &stats));
    return stats;
}

TEST(writer_slots_by_default_and_as_asked)
{
    static const struct {
        uint32_t slots, max_slots, begins, grows_to;
    } cases[] = {
        { 0, 0, 4, 8 }, { 3, 0, 3, 6 },   { 40, 0, 40, 64 }, { 64, 0, 64, 64 },
        { 0, 3, 3, 3 }, { 0, 20, 4, 20 }, { 5, 5, 5, 5 },    { 64, 64, 64, 64 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sluice_writer *writer = open_writer(cases[i].slots, cases[i].max_slots);
        struct sluice_frame frame;
        uint32_t begun = 0;
        CHECK_EQ(stats_of(writer).slots, cases[i].begins);
        while (sluice_writer_begin(writer, 0, &frame) == 0)
            begun++;
        CHECK_EQ(begun, cases[i].grows_to);
        CHECK_EQ(stats_of(writer).slots, cases[i].grows_to);
        CHECK_EQ(stats_of(writer).dropped, 1);
        CHECK_OK(sluice_writer_close(&writer)); /* frames that are begun are cancelled */
    }
}

TEST(writer_counts_what_it_does)
{
    sluice_writer *writer = open_writer(0, 0);
    struct sluice_frame frame;
    static char data[5000];
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_array array;

    struct sluice_writer_stats stats = stats_of(writer);
    CHECK_NE(stats.session, 0);
    CHECK_EQ(stats.generation, 1);
    CHECK_EQ(stats.committed + stats.dropped + stats.cancelled + stats.bytes + stats.readers, 0);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(sluice_writer_begin(writer, 0, &frame));
        CHECK_EQ(frame.session, stats.session);
        CHECK_EQ(frame.generation, 1);
        CHECK_OK(sluice_frame_reshape(&frame, "data", 1, &(int64_t){ 1000 }));
        CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
        CHECK_EQ(frame.sequence, i + 1);
    }
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_array_wrap(&array, "data", data, u8, 1, &(int64_t){ 2000 }, NULL));
    CHECK_OK(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
    stats = stats_of(writer);
    CHECK_EQ(stats.committed, 4);
    CHECK_EQ(stats.cancelled, 1);
    CHECK_EQ(stats.bytes, 3 * 1000 + 2000); /* what frames held, not what slots could hold */
    CHECK_EQ(stats.copied_bytes, 2000);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(writer_send_says_what_does_not_match)
{
    sluice_writer *writer = open_writer(0, 0);
    static char data[5000];
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 }, f32 = { SLUICE_FLOAT, 32, 1 };
    struct sluice_array arrays[2];
    int64_t n = 100;

    CHECK_OK(sluice_array_wrap(&arrays[0], "depth", data, u8, 1, &n, NULL));
    CHECK_SAYS(sluice_writer_send(writer, arrays, 1, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT, "no array 'depth'");
    CHECK_OK(sluice_array_wrap(&arrays[0], "data", data, f32, 1, &n, NULL));
    CHECK_RESULT(sluice_writer_send(writer, arrays, 1, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT);
    CHECK_OK(sluice_array_wrap(&arrays[0], "data", data, u8, 1, &n, NULL));
    arrays[1] = arrays[0];
    CHECK_SAYS(sluice_writer_send(writer, arrays, 2, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT, "2 arrays were given");
    arrays[0].data = NULL;
    CHECK_SAYS(sluice_writer_send(writer, arrays, 1, SLUICE_ON_CPU, NULL), SLUICE_E_INVALID, "has no data");
    memset(arrays[1].name, 'x', sizeof arrays[1].name);
    CHECK_SAYS(sluice_writer_send(writer, &arrays[1], 1, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT, "no end");
    CHECK_EQ(stats_of(writer).committed, 0);
    CHECK_EQ(stats_of(writer).generation, 1); /* none of this needed a new one */
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(writer_has_its_format_completed)
{
    sluice_writer *writer = open_writer(0, 0);
    struct sluice_format format = { .size = sizeof format };

    CHECK_OK(sluice_writer_format(writer, &format));
    CHECK_EQ(format.array_count, 1);
    CHECK_EQ(format.arrays[0].nbytes, 5000);
    CHECK_EQ(format.arrays[0].strides[0], 1);
    CHECK_GE(format.slot_bytes, 5000);
    format.size = 0;
    CHECK(sluice_writer_format(writer, &format) < 0);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(writer_begins_from_the_format_again_after_a_reshape)
{
    sluice_writer *writer = open_writer(3, 3);
    struct sluice_frame frame;
    struct sluice_array array;

    for (int i = 0; i < 12; i++) {
        CHECK_OK(sluice_writer_begin(writer, 0, &frame));
        CHECK_OK(sluice_frame_array(&frame, NULL, &array));
        CHECK_EQ(array.shape[0], 5000);
        CHECK_OK(sluice_frame_reshape(&frame, NULL, 1, &(int64_t){ i }));
        CHECK_OK(sluice_frame_array(&frame, NULL, &array));
        CHECK_EQ(array.shape[0], i);
        if (i % 2)
            CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
        else
            CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
    }
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(writers_many_in_one_process)
{
    sluice_writer *writers[20];
    struct sluice_format format = make_format(100);
    char name[16] = "cam-a";

    test_dir();
    for (int i = 0; i < 20; i++) {
        struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
        name[4] = (char)('a' + i);
        params.name = name;
        params.format = &format;
        CHECK_OK(sluice_writer_open(&writers[i], &params));
        CHECK_SAYS(sluice_writer_open(&writers[i], &params), SLUICE_E_EXISTS, ", this one)");
    }
    for (int i = 0; i < 20; i++)
        CHECK_OK(sluice_writer_close(&writers[i]));
}

TEST(writer_sends_a_time_of_another_clock_as_it_is)
{
    sluice_writer *writer = open_writer(0, 0);
    static uint8_t bytes[5000];
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_frame header = { .capture_clock = SLUICE_CLOCK_MEDIA }; /* the first frame of a recording */
    struct sluice_array array;
    int64_t n = sizeof bytes;

    CHECK_OK(sluice_array_wrap(&array, "data", bytes, u8, 1, &n, NULL));
    CHECK_OK(sluice_writer_send_frame(writer, &header, &array, 1, SLUICE_ON_CPU, NULL));
    CHECK_EQ(header.capture_ns, 0);
    header.capture_clock = SLUICE_CLOCK_MONOTONIC;
    CHECK_OK(sluice_writer_send_frame(writer, &header, &array, 1, SLUICE_ON_CPU, NULL));
    CHECK_GE(header.capture_ns, 1); /* now */
    CHECK_OK(sluice_writer_close(&writer));
}
