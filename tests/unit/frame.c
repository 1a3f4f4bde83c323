/* SPDX-License-Identifier: MIT
 *
 * The contents of a frame, on both sides within one process.
 */
#include <string.h>

#include <sluice/sluice.h>

#include "harness/test.h"

struct fixture {
    sluice_writer *writer;
    sluice_reader *reader;
    struct sluice_frame begun;
};

/* An image and a tensor, with a frame begun. */
static struct fixture open_fixture(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params wp = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params rp = SLUICE_READER_PARAMS_INIT;
    struct sluice_dtype f64 = { SLUICE_FLOAT, 64, 1 };
    struct fixture fixture;

    test_dir();
    format.pitch_align = 64;
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_YUV420P, 100, 50));
    CHECK_OK(sluice_format_add_tensor(&format, "pose", f64, 2, (const int64_t[]){ 4, 4 }));
    wp.name = rp.name = "cam";
    wp.format = &format;
    CHECK_OK(sluice_writer_open(&fixture.writer, &wp));
    CHECK_OK(sluice_reader_open(&fixture.reader, &rp));
    CHECK_OK(sluice_writer_begin(fixture.writer, 0, &fixture.begun));
    return fixture;
}

static struct sluice_frame pass_on(struct fixture *fixture)
{
    struct sluice_frame frame;
    CHECK_OK(sluice_writer_commit(fixture->writer, &fixture->begun, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_acquire(fixture->reader, SLUICE_ON_CPU, SLUICE_S, &frame));
    return frame;
}

static void close_fixture(struct fixture *fixture)
{
    CHECK_OK(sluice_reader_close(&fixture->reader));
    CHECK_OK(sluice_writer_close(&fixture->writer));
}

TEST(frame_arrays_by_name_and_by_number)
{
    struct fixture fixture = open_fixture();
    struct sluice_array a, b;

    for (int side = 0; side < 2; side++) {
        struct sluice_frame frame = side ? pass_on(&fixture) : fixture.begun;
        CHECK_EQ(frame.array_count, 2);
        CHECK_OK(sluice_frame_array(&frame, NULL, &a));
        CHECK_STR(a.name, "image");
        CHECK_OK(sluice_frame_array(&frame, "", &a));
        CHECK_STR(a.name, "image");
        CHECK_OK(sluice_frame_array_at(&frame, 1, &a));
        CHECK_OK(sluice_frame_array(&frame, "pose", &b));
        CHECK_MEM(&a, &b, sizeof a);
        CHECK_EQ(a.ndim, 2);
        CHECK_EQ(a.nbytes, 128);
        CHECK_EQ((uintptr_t)a.data % 512, 0);
        CHECK_EQ(a.read_only, side);
        memset(&b, 0x11, sizeof b);
        CHECK_SAYS(sluice_frame_array(&frame, "depth", &b), SLUICE_E_NOT_FOUND, "'image', 'pose'");
        CHECK_SAYS(sluice_frame_array_at(&frame, 2, &b), SLUICE_E_NOT_FOUND, "2 arrays");
        CHECK_EQ(((unsigned char *)&b)[0], 0x11); /* outputs are written only on success */
    }
    close_fixture(&fixture);
}

TEST(frame_tells_where_it_lies)
{
    struct fixture fixture = open_fixture();
    char name[64] = "untouched";

    for (int side = 0; side < 2; side++) {
        struct sluice_frame frame = side ? pass_on(&fixture) : fixture.begun;
        CHECK_SAYS(sluice_frame_device(&frame, name, 4), SLUICE_E_LIMIT, "needs 5 bytes");
        CHECK_RESULT(sluice_frame_device(&frame, NULL, 64), SLUICE_E_INVALID);
        CHECK_STR(name, side ? "host" : "untouched");
        CHECK_OK(sluice_frame_device(&frame, name, 5));
        CHECK_STR(name, "host");
        if (side)
            CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
        if (side)
            CHECK_RESULT(sluice_frame_device(&frame, name, sizeof name), SLUICE_E_STALE);
    }
    close_fixture(&fixture);
}

TEST(frame_images_take_another_size_within_their_slot)
{
    struct fixture fixture = open_fixture();
    struct sluice_array image;

    CHECK_OK(sluice_frame_resize(&fixture.begun, "image", 60, 30));
    CHECK_OK(sluice_frame_array(&fixture.begun, "image", &image));
    CHECK_EQ(image.image.width, 60);
    CHECK_EQ(image.image.height, 30);
    CHECK_EQ(image.image.plane_count, 3);
    CHECK_EQ(image.image.planes[0].pitch % 64, 0);
    CHECK_RESULT(sluice_frame_resize(&fixture.begun, "image", 1000, 1000), SLUICE_E_CAPACITY);
    CHECK_RESULT(sluice_frame_resize(&fixture.begun, "image", 61, 30), SLUICE_E_FORMAT); /* chroma is halved */
    CHECK_RESULT(sluice_frame_resize(&fixture.begun, "image", 0, 30), SLUICE_E_FORMAT);
    CHECK_RESULT(sluice_frame_resize(&fixture.begun, "pose", 2, 2), SLUICE_E_FORMAT); /* not an image */
    CHECK_RESULT(sluice_frame_reshape(&fixture.begun, "image", 1, (const int64_t[]){ 4 }), SLUICE_E_FORMAT);
    struct sluice_frame frame = pass_on(&fixture);
    CHECK_OK(sluice_frame_array(&frame, "image", &image));
    CHECK_EQ(image.image.width, 60); /* the failed call changed nothing */
    CHECK_EQ(image.image.height, 30);
    close_fixture(&fixture);
}

TEST(frame_times_and_metadata_can_be_inherited)
{
    struct fixture fixture = open_fixture();
    struct sluice_frame second;

    fixture.begun.capture_ns = 12345;
    fixture.begun.capture_clock = SLUICE_CLOCK_REALTIME;
    fixture.begun.meta_size = 100;
    memset(fixture.begun.meta, 'm', 100);
    struct sluice_frame frame = pass_on(&fixture);
    CHECK_OK(sluice_writer_begin(fixture.writer, 0, &second));
    CHECK_NE(second.capture_ns, 12345);
    CHECK_OK(sluice_frame_inherit(&second, &frame));
    CHECK_EQ(second.capture_ns, 12345);
    CHECK_EQ(second.capture_clock, SLUICE_CLOCK_REALTIME);
    CHECK_EQ(second.meta_size, 100);
    CHECK_NE(second.meta, frame.meta);
    CHECK_MEM(second.meta, frame.meta, 100);
    ((char *)second.meta)[0] = 'M'; /* a copy: the other frame keeps its own */
    CHECK_EQ(((const char *)frame.meta)[0], 'm');
    CHECK_OK(sluice_frame_inherit(&second, &second)); /* from itself: nothing happens */
    CHECK_EQ(((const char *)second.meta)[0], 'M');
    CHECK_RESULT(sluice_frame_inherit(&frame, &second), SLUICE_E_INVALID); /* readers only read */
    CHECK_OK(sluice_writer_cancel(fixture.writer, &second, SLUICE_ON_CPU));
    close_fixture(&fixture);
}

TEST(frame_of_a_fresh_channel_is_zeroed)
{
    struct fixture fixture = open_fixture();
    struct sluice_array array;

    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(sluice_frame_array_at(&fixture.begun, i, &array));
        for (uint64_t k = 0; k < array.nbytes; k++)
            CHECK_EQ(((const unsigned char *)array.data)[k], 0);
    }
    CHECK_OK(sluice_writer_cancel(fixture.writer, &fixture.begun, SLUICE_ON_CPU));
    close_fixture(&fixture);
}
