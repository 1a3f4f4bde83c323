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
    { SLUICE_PIXEL_RGBA, SLUICE_ALPHA_PREMULTIPLIED, "premultiplied-alpha=(boolean)true" },
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
    { SLUICE_PIXEL_RGBA64, SLUICE_ALPHA_PREMULTIPLIED, "premultiplied-alpha=(boolean)true" },
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

/* ---- the shape of a pixel and the place of chroma, which only metadata can say ---- */

/* The metadata of the channel's next frame must be `expected`. */
static void expect_meta(sluice_reader *reader, const char *expected)
{
    struct sluice_frame frame;
    int r;

    do
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 30 * SLUICE_S, &frame);
    while (r == SLUICE_NO_WRITER || r == SLUICE_AGAIN);
    CHECK_EQ(r, 0);
    CHECK_EQ(frame.meta_size, strlen(expected));
    CHECK_MEM(frame.meta, expected, frame.meta_size);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
}

static void commit_meta(sluice_writer *writer, const char *meta)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
    memcpy(frame.meta, meta, strlen(meta));
    frame.meta_size = (uint32_t)strlen(meta);
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
}

TEST_TIMEOUT(caps_have_what_metadata_says, 60)
{
    static const struct {
        const char *meta, *aspect, *chroma;
    } cases[] = {
        { "{\"pts_ns\":1,\"pixel_aspect\":\"16:11\",\"chroma\":\"left\"}", "16/11", "chroma-site=(string)mpeg2" },
        { "{ \"chroma\": \"centre\", \"pixel_aspect\": \"4:3\" }", "4/3", "chroma-site=(string)jpeg" },
        { "{\"chroma\":\"top-left\"}", "1/1", "chroma-site=(string)cosited" },
        { "{\"pixel_aspect\":\"0:9\"}", "1/1", "" },
        { "{\"pixel_aspect\":\"3:2\"}", "3/2", "" },
        { "\"pixel_aspect\":\"4:3\"", "1/1", "" }, /* no object */
    };
    sluice_writer *writer = image_writer("in", SLUICE_PIXEL_NV12, 64, 48, 0);
    sluice_reader *reader = image_reader("out");
    char aspect[64];

    struct child pipeline = pipeline_start("sluicesrc channel=in framerate=30/1 mode=in-order ! identity name=look ! "
                                           "sluicesink channel=out sync=false");
    CHECK_SOON(reader_count("in") == 1, 30);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        commit_meta(writer, cases[i].meta);
        snprintf(aspect, sizeof aspect, "pixel-aspect-ratio=(fraction)%s", cases[i].aspect);
        const char *caps = pipeline_says(&pipeline, "caps");
        CHECK_HAS(caps, aspect);
        CHECK_HAS(caps, cases[i].chroma);
        CHECK_EQ(strstr(caps, "chroma-site") != NULL, *cases[i].chroma != '\0');
        expect_meta(reader, cases[i].meta); /* as it was: it says all there is to say */
    }
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

static void expect_meta_of(const char *caps, const char *expected)
{
    sluice_reader *reader = image_reader("out");
    struct child pipeline =
        pipeline_start("videotestsrc num-buffers=1 ! video/x-raw,width=64,height=48,%s ! sluicesink channel=out", caps);

    expect_meta(reader, expected);
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_reader_close(&reader));
}

TEST_TIMEOUT(metadata_has_what_caps_say, 60)
{
    sluice_writer *writer;

    expect_meta_of("format=I420", "");
    expect_meta_of("format=I420,pixel-aspect-ratio=4/3", "{\"pixel_aspect\":\"4:3\"}");
    expect_meta_of("format=NV12,chroma-site=jpeg,pixel-aspect-ratio=16/9",
                   "{\"pixel_aspect\":\"16:9\",\"chroma\":\"centre\"}");
    expect_meta_of("format=RGBA,pixel-aspect-ratio=3/2", "{\"pixel_aspect\":\"3:2\"}");

    writer = image_writer("in", SLUICE_PIXEL_GRAY8, 64, 48, 0); /* and what is there already stays */
    sluice_reader *reader = image_reader("out");
    struct child pipeline = pipeline_start("sluicesrc channel=in framerate=30/1 mode=in-order ! "
                                           "capssetter caps=video/x-raw,pixel-aspect-ratio=4/3 ! "
                                           "sluicesink channel=out sync=false");
    CHECK_SOON(reader_count("in") == 1, 30);
    commit_meta(writer, "{\"gain\":2}");
    expect_meta(reader, "{\"pixel_aspect\":\"4:3\",\"gain\":2}");
    commit_meta(writer, "{ }\n");
    expect_meta(reader, "{\"pixel_aspect\":\"4:3\"}");
    commit_meta(writer, "gain 2");
    expect_meta(reader, "gain 2");
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}
