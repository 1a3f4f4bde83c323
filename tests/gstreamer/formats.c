/* SPDX-License-Identifier: MIT
 *
 * Every pixel format from a channel through a pipeline into another one, and their caps.
 */
#include <string.h>

#include "gstreamer/kit.h"

static const struct row {
    uint32_t pixel_format;
    uint8_t alpha;
    const char *caps;
} rows[] = {
    { SLUICE_PIXEL_RGBA, SLUICE_ALPHA_STRAIGHT, "format=(string)RGBA" },
    { SLUICE_PIXEL_BGRA, SLUICE_ALPHA_STRAIGHT, "format=(string)BGRA" },
    { SLUICE_PIXEL_RGBA, SLUICE_ALPHA_OPAQUE, "format=(string)RGBx" },
    { SLUICE_PIXEL_BGRA, SLUICE_ALPHA_OPAQUE, "format=(string)BGRx" },
    { SLUICE_PIXEL_RGB24, 0, "format=(string)RGB" },
    { SLUICE_PIXEL_BGR24, 0, "format=(string)BGR" },
    { SLUICE_PIXEL_GRAY8, 0, "format=(string)GRAY8" },
    { SLUICE_PIXEL_GRAY16, 0, "format=(string)GRAY16_LE" },
    { SLUICE_PIXEL_YUYV, 0, "format=(string)YUY2" },
    { SLUICE_PIXEL_UYVY, 0, "format=(string)UYVY" },
    { SLUICE_PIXEL_NV12, 0, "format=(string)NV12" },
    { SLUICE_PIXEL_YUV420P, 0, "format=(string)I420" },
    { SLUICE_PIXEL_P010, 0, "format=(string)P010_10LE" },
    { SLUICE_PIXEL_YUV444P, 0, "format=(string)Y444" },
    { SLUICE_PIXEL_YUV422P, 0, "format=(string)Y42B" },
    { SLUICE_PIXEL_YUV422P10, 0, "format=(string)I422_10LE" },
    { SLUICE_PIXEL_RGBA64, SLUICE_ALPHA_STRAIGHT, "format=(string)RGBA64_LE" },
    { SLUICE_PIXEL_BAYER_RGGB8, 0, "video/x-bayer, format=(string)rggb" },
    { SLUICE_PIXEL_BAYER_BGGR8, 0, "video/x-bayer, format=(string)bggr" },
    { SLUICE_PIXEL_BAYER_GRBG8, 0, "video/x-bayer, format=(string)grbg" },
    { SLUICE_PIXEL_BAYER_GBRG8, 0, "video/x-bayer, format=(string)gbrg" },
    { SLUICE_PIXEL_BAYER_RGGB16, 0, "video/x-bayer, format=(string)rggb16le" },
    { SLUICE_PIXEL_BAYER_BGGR16, 0, "video/x-bayer, format=(string)bggr16le" },
    { SLUICE_PIXEL_BAYER_GRBG16, 0, "video/x-bayer, format=(string)grbg16le" },
    { SLUICE_PIXEL_BAYER_GBRG16, 0, "video/x-bayer, format=(string)gbrg16le" },
};

static void set_image(struct sluice_format *format, const struct row *row, uint32_t pitch_align)
{
    format->pitch_align = pitch_align;
    CHECK_GE(sluice_format_add_image(format, "image", (enum sluice_pixel_format)row->pixel_format, 322, 242), 0);
    format->arrays[0].image.alpha = row->alpha;
    format->arrays[0].image.colour = (struct sluice_colour){ 9, 16, 9, SLUICE_RANGE_FULL };
}

/* One frame from "in" to "out": the same bytes and, where a channel has it, the same description. */
static void pass(sluice_writer *writer, sluice_reader *reader, const struct row *row, struct child *pipeline)
{
    struct sluice_frame frame;
    struct sluice_array array;
    uint64_t hash = image_commit(writer, row->pixel_format);

    CHECK_HAS(pipeline_says(pipeline, "caps"), row->caps);
    int r;
    do
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 30 * SLUICE_S, &frame);
    while (r == SLUICE_NO_WRITER || r == SLUICE_AGAIN);
    CHECK_EQ(r, 0);
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_EQ(array.image.pixel_format, row->pixel_format);
    CHECK_EQ(image_hash(&array), hash);
    if (!strstr(row->caps, "bayer"))
        CHECK_EQ(array.image.alpha, row->alpha);
    if (strstr("NV12 I420 P010_10LE", strrchr(row->caps, ')') + 1)) {
        CHECK_EQ(array.image.colour.primaries, 9);
        CHECK_EQ(array.image.colour.transfer, 16);
        CHECK_EQ(array.image.colour.matrix, 9);
        CHECK_EQ(array.image.colour.range, SLUICE_RANGE_FULL);
    }
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
}

static void pass_all(uint32_t pitch_align)
{
    struct sluice_format first = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer;

    test_dir();
    set_image(&first, &rows[0], pitch_align);
    params.name = "in";
    params.format = &first;
    CHECK_OK(sluice_writer_open(&writer, &params));
    sluice_reader *reader = image_reader("out");
    struct child pipeline = pipeline_start("sluicesrc channel=in framerate=30/1 mode=in-order ! identity name=look ! "
                                           "sluicesink channel=out sync=false pitch-align=%u",
                                           pitch_align);
    CHECK_SOON(reader_count("in") == 1, 30);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sluice_format format = SLUICE_FORMAT_INIT;
        set_image(&format, &rows[i], pitch_align);
        CHECK_OK(sluice_writer_reformat(writer, &format));
        pass(writer, reader, &rows[i], &pipeline);
    }
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(all_formats_pass_unchanged, 60)
{
    pass_all(0);
}

TEST_TIMEOUT(all_formats_pass_with_padded_rows, 60)
{
    pass_all(64);
}

TEST(rows_from_the_bottom_are_turned_over)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_frame frame;
    struct sluice_array array;
    sluice_writer *writer;

    test_dir();
    CHECK_GE(sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 4, 3), 0);
    format.arrays[0].image.row_order = SLUICE_BOTTOM_UP;
    params.name = "in";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    sluice_reader *reader = image_reader("out");
    struct child pipeline =
        pipeline_start("sluicesrc name=src channel=in framerate=30/1 ! sluicesink channel=out sync=false");
    CHECK_SOON(reader_count("in") == 1, 30);
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    memcpy(array.data, "aaaabbbbcccc", 12);
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    int r;
    do
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 30 * SLUICE_S, &frame);
    while (r == SLUICE_NO_WRITER || r == SLUICE_AGAIN);
    CHECK_EQ(r, 0);
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_MEM(array.data, "ccccbbbbaaaa", 12);
    CHECK_EQ(pipeline_stat(&pipeline, "src", "copied"), 1);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}
