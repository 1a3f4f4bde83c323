/* SPDX-License-Identifier: MIT
 *
 * The contents of frames as another process sees them, and formats that change.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB 1024

static void reformat(sluice_writer *writer, int64_t bytes)
{
    struct sluice_format format = kit_format(bytes);
    CHECK_OK(sluice_writer_reformat(writer, &format));
}

/* All fields of an array, in a line. */
static void describe(const struct sluice_array *a, char *text, size_t size)
{
    int used = snprintf(text, size, "%s+%llu*%llu %u.%u.%u", a->name, (unsigned long long)a->offset,
                        (unsigned long long)a->nbytes, a->dtype.code, a->dtype.bits, a->dtype.lanes);
    for (int i = 0; i < a->ndim; i++)
        used +=
            snprintf(text + used, size - (size_t)used, " %lld/%lld", (long long)a->shape[i], (long long)a->strides[i]);
    const struct sluice_image *m = &a->image;
    used += snprintf(text + used, size - (size_t)used, " %s %ux%u c%u.%u.%u.%u o%u a%u",
                     sluice_pixel_format_name(m->pixel_format), m->width, m->height, m->colour.primaries,
                     m->colour.transfer, m->colour.matrix, m->colour.range, m->row_order, m->alpha);
    for (uint32_t p = 0; p < m->plane_count; p++)
        used += snprintf(text + used, size - (size_t)used, " p%llu/%llu", (unsigned long long)m->planes[p].offset,
                         (unsigned long long)m->planes[p].pitch);
    CHECK(used > 0 && (size_t)used < size);
}

/* Prints the contents of each frame, and whether its bytes are right: byte i of array k is (i + k) * 5. */
ROLE(describer)
{
    sluice_reader *reader = kit_reader("cam", SLUICE_IN_ORDER);
    struct sluice_frame frame;
    struct sluice_array array;
    char text[1024];

    role_say("ready");
    while (role_line()) {
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        for (uint32_t k = 0; k < frame.array_count; k++) {
            CHECK_OK(sluice_frame_array_at(&frame, k, &array));
            describe(&array, text, sizeof text);
            unsigned char *data = malloc((size_t)array.nbytes + 1);
            CHECK(data);
            kit_get(&array, data);
            for (uint64_t i = 0; i < array.nbytes; i++)
                CHECK_EQ(data[i], (unsigned char)((i + k) * 5));
            free(data);
            role_say("%u %s", frame.flags, text);
        }
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_OK(sluice_reader_close(&reader));
    return 0;
}

/* Fills a begun frame as above, commits it, and compares it with what the other process prints. */
static void compare(sluice_writer *writer, struct child *reader, struct sluice_frame *frame, unsigned flags)
{
    char expected[SLUICE_MAX_ARRAYS][1100], text[1024];
    uint32_t count = frame->array_count;
    struct sluice_array array;

    for (uint32_t k = 0; k < count; k++) {
        CHECK_OK(sluice_frame_array_at(frame, k, &array));
        unsigned char *data = malloc((size_t)array.nbytes + 1);
        CHECK(data);
        for (uint64_t i = 0; i < array.nbytes; i++)
            data[i] = (unsigned char)((i + k) * 5);
        kit_put(&array, data);
        free(data);
        describe(&array, text, sizeof text);
        snprintf(expected[k], sizeof expected[k], "%u %s", flags, text);
    }
    CHECK_OK(sluice_writer_commit(writer, frame, SLUICE_ON_CPU));
    child_send(reader, "next");
    for (uint32_t k = 0; k < count; k++)
        child_expect(reader, expected[k], 10);
}

static sluice_writer *open_writer(const struct sluice_format *format)
{
    struct sluice_writer_params params = kit_writer_params("cam", format);
    sluice_writer *writer;

    test_dir();
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

TEST(sixteen_arrays_of_all_kinds_arrive_as_they_were)
{
    static const char *const types[16] = { "uint8",       "int16",          "uint32",     "int64",
                                           "float16",     "float32",        "float64",    "bfloat16",
                                           "bool",        "complex64",      "complex128", "float8_e4m3fn",
                                           "float8_e5m2", "float8_e8m0fnu", "float32x4",  "uint8x3" };
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_frame frame;
    char name[SLUICE_ARRAY_NAME];

    for (int i = 0; i < 16; i++) {
        int64_t shape[SLUICE_MAX_DIMS];
        struct sluice_dtype dtype;
        for (int d = 0; d < i % 9; d++)
            shape[d] = 1 + (i + d) % 4;
        snprintf(name, sizeof name, "Array_%d.of-16", i);
        CHECK_OK(sluice_dtype_parse(types[i], &dtype));
        CHECK_OK(sluice_format_add_tensor(&format, name, dtype, i % 9, shape));
    }
    sluice_writer *writer = open_writer(&format);
    struct child reader = role_start("describer", NULL);
    child_expect(&reader, "ready", 5);
    for (int i = 0; i < 10; i++) {
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
        CHECK_EQ(frame.array_count, 16);
        compare(writer, &reader, &frame, i ? 0 : SLUICE_FRAME_NEW_FORMAT | SLUICE_FRAME_NEW_SESSION);
    }
    role_stop(&reader);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(images_of_every_pixel_format_arrive_as_they_were)
{
    static const uint32_t all[] = {
#define ENTRY(name, number, text) number,
        SLUICE_PIXEL_FORMATS(ENTRY)
#undef ENTRY
    };
    struct sluice_format format = kit_format(4 * KIB);
    sluice_writer *writer = open_writer(&format);
    struct child reader = role_start("describer", NULL);
    struct sluice_frame frame;

    child_expect(&reader, "ready", 5);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        format = (struct sluice_format)SLUICE_FORMAT_INIT;
        format.pitch_align = i % 2 ? 256 : 0;
        CHECK_OK(sluice_format_add_image(&format, "image", (enum sluice_pixel_format)all[i], 34, 22));
        format.arrays[0].image.colour =
            (struct sluice_colour){ 9, 16, all[i] % 2 ? 9 : SLUICE_MATRIX_RGB, SLUICE_RANGE_LIMITED };
        format.arrays[0].image.row_order = i % 3 == 0 ? SLUICE_BOTTOM_UP : SLUICE_TOP_DOWN;
        format.arrays[0].image.alpha = SLUICE_ALPHA_PREMULTIPLIED;
        CHECK_OK(sluice_format_add_image(&format, "small", SLUICE_PIXEL_GRAY8, 3, 5));
        CHECK_OK(sluice_writer_reformat(writer, &format));
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
        compare(writer, &reader, &frame,
                i ? SLUICE_FRAME_NEW_FORMAT : SLUICE_FRAME_NEW_FORMAT | SLUICE_FRAME_NEW_SESSION);
        /* A smaller one in the same generation. */
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
        CHECK_OK(sluice_frame_resize(&frame, "image", 18, 12));
        compare(writer, &reader, &frame, 0);
    }
    role_stop(&reader);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(each_frame_may_have_its_own_shape)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_dtype f32 = { SLUICE_FLOAT, 32, 1 };
    int64_t capacity[2] = { 100, 8 }, shape[2];
    struct sluice_frame frame;
    struct sluice_array array;

    CHECK_OK(sluice_format_add_tensor(&format, "boxes", f32, 2, capacity));
    CHECK_OK(sluice_format_add_tensor(&format, "scores", f32, 1, capacity));
    sluice_writer *writer = open_writer(&format);
    struct child reader = role_start("describer", NULL);
    child_expect(&reader, "ready", 5);
    for (int i = 0; i < 30; i++) {
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
        if (i % 3) {
            shape[0] = i * 3 % 101;
            shape[1] = 1 + i % 8;
            CHECK_OK(sluice_frame_reshape(&frame, "boxes", 2, shape));
            CHECK_OK(sluice_frame_reshape(&frame, "scores", 1, shape));
        } else { /* every other frame starts from the format again */
            CHECK_OK(sluice_frame_array(&frame, "boxes", &array));
            CHECK_EQ(array.shape[0], 100);
            CHECK_EQ(array.shape[1], 8);
        }
        compare(writer, &reader, &frame, i ? 0 : SLUICE_FRAME_NEW_FORMAT | SLUICE_FRAME_NEW_SESSION);
    }
    CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
    shape[0] = 101;
    shape[1] = 8;
    CHECK_RESULT(sluice_frame_reshape(&frame, "boxes", 2, shape), SLUICE_E_CAPACITY);
    CHECK_RESULT(sluice_frame_reshape(&frame, "boxes", 1, shape), SLUICE_E_FORMAT);
    CHECK_SAYS(sluice_frame_reshape(&frame, "Boxes", 2, shape), SLUICE_E_NOT_FOUND, "'boxes', 'scores'");
    shape[0] = -1;
    CHECK_RESULT(sluice_frame_reshape(&frame, "boxes", 2, shape), SLUICE_E_FORMAT);
    CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
    CHECK_EQ(kit_writer_stats(writer).generation, 1);
    role_stop(&reader);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(frames_of_an_old_format_stay_valid)
{
    struct sluice_format format = kit_format(16 * KIB);
    sluice_writer *writer = open_writer(&format);
    struct child holder = kit_start("reader", "hold=3", "mode=1", NULL);
    child_expect(&holder, "open", 5);

    kit_commits(writer, 2);
    EXPECT_ANSWER(&holder, "hold 20000", "holds 1 missed 0 flags 3 generation 1");
    reformat(writer, 40 * KIB);
    kit_commits(writer, 1);
    /* Unread frames of the old format, then the first of the new one. */
    EXPECT_ANSWER(&holder, "hold 20000", "holds 2 missed 0 flags 0 generation 1");
    EXPECT_ANSWER(&holder, "hold 20000", "holds 3 missed 0 flags 2 generation 2");
    reformat(writer, 8 * KIB);
    kit_commits(writer, 100);
    EXPECT_ANSWER(&holder, "check", "whole 3");
    EXPECT_ANSWER(&holder, "give", "gave 1");
    kit_commits(writer, 20);
    EXPECT_ANSWER(&holder, "check", "whole 2");
    EXPECT_ANSWER(&holder, "give", "gave 2");
    EXPECT_ANSWER(&holder, "give", "gave 3");
    for (int i = 0; i < 2; i++) {
        kit_commits(writer, 1);
        CHECK_HAS(ask(&holder, "take 20000"), "generation 3");
    }
    CHECK_EQ(kit_writer_stats(writer).dropped, 0);
    CHECK_LE(process_mappings(holder.pid, "memfd:sluice-cam"), 2);
    role_stop(&holder);
    CHECK_OK(sluice_writer_close(&writer));
}

/* Frames of many formats are unread; the writer waits where it must. */
TEST(a_new_format_loses_no_frame_under_a_waiting_writer)
{
    test_dir();
    struct child writer = kit_start("writer", "wait_ms=20000", NULL);
    child_expect(&writer, "open", 5);
    sluice_reader *reader = kit_reader("cam", SLUICE_IN_ORDER);
    uint64_t next = 1;

    for (int i = 0; i < 60; i++) {
        char line[64];
        snprintf(line, sizeof line, "reformat %d", 4096 * (1 + i % 4));
        child_send(&writer, line);
        child_send(&writer, "commit 1");
    }
    for (int i = 0; i < 60; i++) {
        struct sluice_frame frame;
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.sequence, next++);
        CHECK_EQ(frame.missed, 0);
        CHECK_EQ(frame.generation, i + 2);
        test_nap(3 * SLUICE_MS);
        kit_give(reader, &frame);
    }
    for (int i = 0; i < 60; i++) {
        CHECK_HAS(child_line(&writer, 5), "generation");
        CHECK_HAS(child_line(&writer, 5), "committed");
    }
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

/* The same by send, which changes the format by itself if the writer may. */
TEST(a_larger_frame_is_sent_in_a_new_format)
{
    static unsigned char data[60 * KIB], got[60 * KIB];
    struct sluice_format format = kit_format(KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    sluice_writer *writer;
    test_dir();
    params.resize = 1;
    CHECK_OK(sluice_writer_open(&writer, &params));
    sluice_reader *reader = kit_reader("cam", SLUICE_IN_ORDER);
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_array array;
    struct sluice_frame frame, begun;
    uint32_t generation = 1;

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 >> 2);
    for (int64_t i = 1; i <= 40; i++) {
        int64_t shape = i % 4 == 3 ? 100 : i * KIB; /* smaller ones need none */
        CHECK_OK(sluice_array_wrap(&array, "data", data, u8, 1, &shape, NULL));
        CHECK_OK(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_frame_array(&frame, NULL, &array));
        bool grew = i > 1 && i % 4 != 3;
        generation += grew;
        CHECK_EQ(array.nbytes, shape);
        CHECK_EQ(array.shape[0], shape);
        CHECK_EQ(frame.missed, 0);
        CHECK_EQ(frame.generation, generation);
        CHECK_EQ(frame.flags, i == 1 ? SLUICE_FRAME_NEW_FORMAT | SLUICE_FRAME_NEW_SESSION
                              : grew ? SLUICE_FRAME_NEW_FORMAT
                                     : 0);
        kit_get(&array, got);
        CHECK_MEM(got, data, (size_t)shape);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    /* Not while frames are begun: their slots would be of the old format. */
    CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &begun));
    int64_t shape = sizeof data;
    CHECK_OK(sluice_array_wrap(&array, NULL, data, u8, 1, &shape, NULL));
    CHECK_SAYS(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_BUSY, "1 frames are begun");
    CHECK_RESULT(sluice_writer_reformat(writer, &format), SLUICE_E_BUSY);
    CHECK_OK(sluice_writer_cancel(writer, &begun, SLUICE_ON_CPU));
    CHECK_OK(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(send_refuses_other_shapes_and_publishes_nothing)
{
    static unsigned char data[60 * KIB];
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_array array;
    const int64_t good[] = { 4, 6, 3 }, chw[] = { 3, 4, 6 }, large[] = { 40, 60, 3 }, flat[] = { 72 };

    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 3, good));
    sluice_writer *writer = open_writer(&format);
    CHECK_OK(sluice_array_wrap(&array, NULL, data, u8, 3, good, NULL));
    CHECK_OK(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_array_wrap(&array, NULL, data, u8, 3, chw, NULL));
    CHECK_SAYS(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT, "it looks like CHW");
    CHECK_OK(sluice_array_wrap(&array, NULL, data, u8, 3, large, NULL));
    CHECK_SAYS(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT, "opened with `resize`");
    CHECK_OK(sluice_array_wrap(&array, NULL, data, u8, 1, flat, NULL));
    CHECK_SAYS(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_FORMAT, "reshape it");
    struct sluice_writer_stats stats = kit_writer_stats(writer);
    CHECK_EQ(stats.committed, 1);
    CHECK_EQ(stats.generation, 1);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(send_to_a_slow_reader_loses_nothing_under_a_waiting_writer)
{
    static unsigned char data[64 * KIB];
    struct sluice_format format = kit_format(KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_array array;
    sluice_writer *writer;

    test_dir();
    params.resize = 1;
    params.policy = SLUICE_WAIT;
    params.wait_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_writer_open(&writer, &params));
    struct child reader = kit_start("reader", "mode=1", NULL);
    child_expect(&reader, "open", 5);
    for (int64_t i = 1; i <= 60; i++) {
        int64_t shape = i * KIB;
        memset(data, 0, sizeof data);
        for (int64_t at = 0; at < shape; at += 4096)
            memcpy(data + at, &i, sizeof i);
        memcpy(data + shape - 8, &i, sizeof i);
        CHECK_OK(sluice_array_wrap(&array, NULL, data, u8, 1, &shape, NULL));
        if (i == 8)
            child_send(&reader, "count 60 20000");
        CHECK_OK(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
    }
    child_expect(&reader, "counted 60 first 1 last 60 missed 0", 5);
    role_stop(&reader);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_reader_knows_the_format_of_the_channel)
{
    struct sluice_format format = kit_format(16 * KIB), got = { .size = sizeof got };
    sluice_writer *writer = open_writer(&format);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST), *later;
    struct sluice_reader_params params = kit_reader_params("nobody");
    struct sluice_frame frame;

    CHECK_OK(sluice_reader_format(reader, &got));
    CHECK_EQ(got.array_count, 1);
    CHECK_EQ(got.arrays[0].nbytes, 16 * KIB);
    CHECK_STR(got.arrays[0].name, "data");
    reformat(writer, 20 * KIB);
    kit_commits(writer, 1);
    frame = kit_take(reader);
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_format(reader, &got));
    CHECK_EQ(got.arrays[0].nbytes, 20 * KIB);
    CHECK_OK(sluice_writer_format(writer, &got));
    CHECK_EQ(got.arrays[0].nbytes, 20 * KIB);

    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&later, &params));
    CHECK_RESULT(sluice_reader_format(later, &got), SLUICE_NO_WRITER);
    CHECK_OK(sluice_reader_close(&later));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_format_that_cannot_be_leaves_the_old_one)
{
    sluice_writer *writer = kit_writer("cam", 16 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_format format = kit_format(INT64_C(1) << 44), empty = SLUICE_FORMAT_INIT;

    kit_commits(writer, 1);
    CHECK_SAYS(sluice_writer_reformat(writer, &format), SLUICE_E_NO_MEMORY, "bytes were asked for");
    CHECK_HAS(sluice_last_error(), "there can be no frames of 'data' uint8 (17592186044416): ");
    struct sluice_format two = SLUICE_FORMAT_INIT;
    int64_t shape[] = { INT64_C(1) << 21, INT64_C(1) << 22 };
    CHECK_OK(sluice_format_add_image(&two, "picture", SLUICE_PIXEL_NV12, 1 << 16, 1 << 16));
    CHECK_OK(sluice_format_add_tensor(&two, "depth", (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 }, 2, shape));
    CHECK_RESULT(sluice_writer_reformat(writer, &two), SLUICE_E_NO_MEMORY);
    CHECK_HAS(sluice_last_error(), "there can be no frames of 'picture' nv12 of 65536 x 65536 and 1 more: ");
    CHECK_RESULT(sluice_writer_reformat(writer, &empty), SLUICE_E_FORMAT);
    format = kit_format(8);
    format.arrays[0].dtype.bits = 7;
    CHECK_RESULT(sluice_writer_reformat(writer, &format), SLUICE_E_FORMAT);
    CHECK_EQ(kit_writer_stats(writer).generation, 1);
    kit_commits(writer, 30);
    struct sluice_frame frame = kit_take(reader);
    CHECK_EQ(frame.sequence, 31);
    CHECK_EQ(frame.generation, 1);
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* A dropping writer goes on; both sides count what a recorder loses. */
TEST(a_new_format_under_a_dropping_writer_costs_a_recorder_its_oldest_counted)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_IN_ORDER);
    uint64_t taken = 0, missed = 0;
    struct sluice_frame frame;
    int r;

    for (int i = 0; i < 100; i++) {
        reformat(writer, 4096 * (1 + i % 3));
        kit_commits(writer, 1);
        if (i % 10)
            continue;
        frame = kit_take(reader);
        taken++;
        missed += frame.missed;
        kit_give(reader, &frame);
    }
    while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame)) == 0 || r == SLUICE_AGAIN) {
        if (r != 0)
            continue;
        taken++;
        missed += frame.missed;
        kit_give(reader, &frame);
    }
    CHECK_EQ(r, SLUICE_TIMEOUT);
    CHECK_EQ(taken + missed, 100);
    CHECK(missed > 0);
    CHECK_EQ(kit_writer_stats(writer).stolen, missed);
    CHECK_EQ(kit_writer_stats(writer).dropped, 0);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}
