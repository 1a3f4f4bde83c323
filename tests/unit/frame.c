/* SPDX-License-Identifier: MIT
 *
 * What a frame holds, on both sides of one process.
 */
#include <string.h>

#include <sluice/sluice.h>

#include "harness/test.h"

struct scene {
    sluice_writer *writer;
    sluice_reader *reader;
    struct sluice_frame begun;
};

/* An image and a tensor; a frame begun. */
static struct scene open_scene(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params wp = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params rp = SLUICE_READER_PARAMS_INIT;
    struct sluice_dtype f64 = { SLUICE_FLOAT, 64, 1 };
    struct scene scene;

    test_dir();
    format.pitch_align = 64;
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_YUV420P, 100, 50));
    CHECK_OK(sluice_format_add_tensor(&format, "pose", f64, 2, (const int64_t[]){ 4, 4 }));
    wp.name = rp.name = "cam";
    wp.format = &format;
    CHECK_OK(sluice_writer_open(&scene.writer, &wp));
    CHECK_OK(sluice_reader_open(&scene.reader, &rp));
    CHECK_OK(sluice_writer_begin(scene.writer, 0, &scene.begun));
    return scene;
}

static struct sluice_frame pass_on(struct scene *scene)
{
    struct sluice_frame frame;
    CHECK_OK(sluice_writer_commit(scene->writer, &scene->begun, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_acquire(scene->reader, SLUICE_ON_CPU, SLUICE_S, &frame));
    return frame;
}

static void close_scene(struct scene *scene)
{
    CHECK_OK(sluice_reader_close(&scene->reader));
    CHECK_OK(sluice_writer_close(&scene->writer));
}

TEST(frame_arrays_by_name_and_by_number)
{
    struct scene scene = open_scene();
    struct sluice_array a, b;

    for (int side = 0; side < 2; side++) {
        struct sluice_frame frame = side ? pass_on(&scene) : scene.begun;
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
        CHECK_EQ(((unsigned char *)&b)[0], 0x11); /* outputs stand only on success */
    }
    close_scene(&scene);
}

TEST(frame_tells_where_it_lies)
{
    struct scene scene = open_scene();
    char name[64] = "untouched";

    for (int side = 0; side < 2; side++) {
        struct sluice_frame frame = side ? pass_on(&scene) : scene.begun;
        CHECK_SAYS(sluice_frame_device(&frame, name, 4), SLUICE_E_LIMIT, "needs 5 bytes");
        CHECK_RESULT(sluice_frame_device(&frame, NULL, 64), SLUICE_E_INVALID);
        CHECK_STR(name, side ? "host" : "untouched");
        CHECK_OK(sluice_frame_device(&frame, name, 5));
        CHECK_STR(name, "host");
        if (side)
            CHECK_OK(sluice_reader_release(scene.reader, &frame, SLUICE_ON_CPU));
        if (side)
            CHECK_RESULT(sluice_frame_device(&frame, name, sizeof name), SLUICE_E_STALE);
    }
    close_scene(&scene);
}

TEST(frame_images_take_another_size_within_their_slot)
{
    struct scene scene = open_scene();
    struct sluice_array image;

    CHECK_OK(sluice_frame_resize(&scene.begun, "image", 60, 30));
    CHECK_OK(sluice_frame_array(&scene.begun, "image", &image));
    CHECK_EQ(image.image.width, 60);
    CHECK_EQ(image.image.height, 30);
    CHECK_EQ(image.image.plane_count, 3);
    CHECK_EQ(image.image.planes[0].pitch % 64, 0);
    CHECK_RESULT(sluice_frame_resize(&scene.begun, "image", 1000, 1000), SLUICE_E_CAPACITY);
    CHECK_RESULT(sluice_frame_resize(&scene.begun, "image", 61, 30), SLUICE_E_FORMAT); /* chroma is halved */
    CHECK_RESULT(sluice_frame_resize(&scene.begun, "image", 0, 30), SLUICE_E_FORMAT);
    CHECK_RESULT(sluice_frame_resize(&scene.begun, "pose", 2, 2), SLUICE_E_FORMAT); /* no image */
    CHECK_RESULT(sluice_frame_reshape(&scene.begun, "image", 1, (const int64_t[]){ 4 }), SLUICE_E_FORMAT);
    struct sluice_frame frame = pass_on(&scene);
    CHECK_OK(sluice_frame_array(&frame, "image", &image));
    CHECK_EQ(image.image.width, 60); /* what failed had changed nothing */
    CHECK_EQ(image.image.height, 30);
    close_scene(&scene);
}

TEST(frame_times_and_metadata_can_be_inherited)
{
    struct scene scene = open_scene();
    struct sluice_frame second;

    scene.begun.capture_ns = 12345;
    scene.begun.capture_clock = SLUICE_CLOCK_REALTIME;
    scene.begun.meta_size = 100;
    memset(scene.begun.meta, 'm', 100);
    struct sluice_frame frame = pass_on(&scene);
    CHECK_OK(sluice_writer_begin(scene.writer, 0, &second));
    CHECK_NE(second.capture_ns, 12345);
    CHECK_OK(sluice_frame_inherit(&second, &frame));
    CHECK_EQ(second.capture_ns, 12345);
    CHECK_EQ(second.capture_clock, SLUICE_CLOCK_REALTIME);
    CHECK_EQ(second.meta_size, 100);
    CHECK_NE(second.meta, frame.meta);
    CHECK_MEM(second.meta, frame.meta, 100);
    ((char *)second.meta)[0] = 'M'; /* a copy: the other's stays */
    CHECK_EQ(((const char *)frame.meta)[0], 'm');
    CHECK_OK(sluice_frame_inherit(&second, &second)); /* from itself: nothing happens */
    CHECK_EQ(((const char *)second.meta)[0], 'M');
    CHECK_RESULT(sluice_frame_inherit(&frame, &second), SLUICE_E_INVALID); /* readers only read */
    CHECK_OK(sluice_writer_cancel(scene.writer, &second, SLUICE_ON_CPU));
    close_scene(&scene);
}

TEST(frame_of_a_fresh_channel_is_zeroed)
{
    struct scene scene = open_scene();
    struct sluice_array array;

    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(sluice_frame_array_at(&scene.begun, i, &array));
        for (uint64_t k = 0; k < array.nbytes; k++)
            CHECK_EQ(((const unsigned char *)array.data)[k], 0);
    }
    CHECK_OK(sluice_writer_cancel(scene.writer, &scene.begun, SLUICE_ON_CPU));
    close_scene(&scene);
}
