/* SPDX-License-Identifier: MIT
 *
 * Frames within capacities: reshape, resize, what fits, and the format that grows.
 */
#include <string.h>

#include <sluice/format.h>

#include "format/format.h"
#include "harness/test.h"

static const struct sluice_dtype uint8 = { SLUICE_UINT, 8, 1 };
static const struct sluice_dtype float32 = { SLUICE_FLOAT, 32, 1 };

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

static char bytes[1 << 16];

static struct sluice_format make_format(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_tensor(&format, "tensor", float32, 2, SHAPE(10, 20)));
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_NV12, 32, 16));
    CHECK_OK(sluice_format_add_tensor(&format, "last", uint8, 0, NULL));
    return format;
}

static struct sluice_array tensor(struct sluice_dtype dtype, int ndim, const int64_t *shape)
{
    struct sluice_array array;
    CHECK_OK(sluice_array_wrap(&array, NULL, bytes, dtype, ndim, shape, NULL));
    return array;
}

static struct sluice_array image(enum sluice_pixel_format pixel_format, uint32_t width, uint32_t height)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_image(&format, "any", pixel_format, width, height));
    format.arrays[0].data = bytes;
    return format.arrays[0];
}

TEST(fit_reshape)
{
    struct sluice_format format = make_format();
    const struct sluice_array *room = &format.arrays[0];
    struct sluice_array out;
    CHECK_OK(sl_format_reshape(room, 2, SHAPE(20, 10), &out));
    CHECK_STR(out.name, "tensor");
    CHECK_EQ(out.offset, room->offset);
    CHECK_EQ(out.nbytes, 800);
    CHECK_EQ(out.shape[0], 20);
    CHECK_EQ(out.strides[0], 40);
    CHECK_EQ(out.strides[1], 4);
    CHECK_OK(sl_format_reshape(room, 2, SHAPE(1, 200), &out));
    CHECK_OK(sl_format_reshape(room, 2, SHAPE(3, 7), &out));
    CHECK_EQ(out.nbytes, 84);
    CHECK_OK(sl_format_reshape(room, 2, SHAPE(0, 7), &out));
    CHECK_EQ(out.nbytes, 0);
    CHECK_EQ(out.shape[0], 0);
    CHECK_EQ(out.shape[1], 7);

    const struct sluice_array before = out;
    CHECK_SAYS(sl_format_reshape(room, 2, SHAPE(201, 1), &out), SLUICE_E_CAPACITY,
               "float32 (201, 1) takes 804 bytes, the channel has room for float32 (10, 20), 800 bytes");
    CHECK_SAYS(sl_format_reshape(room, 2, SHAPE(1 << 30, 1 << 30), &out), SLUICE_E_CAPACITY, "more than 2^46");
    CHECK_SAYS(sl_format_reshape(room, 1, SHAPE(5), &out), SLUICE_E_FORMAT, "2 dimensions, not 1");
    CHECK_SAYS(sl_format_reshape(room, 9, SHAPE(5), &out), SLUICE_E_FORMAT, "not 9");
    CHECK_SAYS(sl_format_reshape(room, 2, SHAPE(-1, 5), &out), SLUICE_E_FORMAT, "extent -1");
    CHECK_RESULT(sl_format_reshape(room, 2, NULL, &out), SLUICE_E_INVALID);
    CHECK_SAYS(sl_format_reshape(&format.arrays[1], 2, SHAPE(1, 1), &out), SLUICE_E_FORMAT, "sluice_frame_resize");
    CHECK_MEM(&out, &before, sizeof out);
    CHECK_OK(sl_format_reshape(&format.arrays[2], 0, NULL, &out));
}

TEST(fit_resize)
{
    struct sluice_format format = make_format();
    const struct sluice_array *room = &format.arrays[1];
    struct sluice_array out;
    CHECK_OK(sl_format_resize(room, 16, 32, 0, &out));
    CHECK_EQ(out.nbytes, 768);
    CHECK_EQ(out.offset, room->offset);
    CHECK_EQ(out.shape[0], 48);
    CHECK_EQ(out.image.planes[1].offset, 512);
    CHECK_OK(sl_format_resize(room, 2, 2, 64, &out));
    CHECK_EQ(out.strides[0], 64);
    const struct sluice_array before = out;
    CHECK_SAYS(sl_format_resize(room, 34, 16, 0, &out), SLUICE_E_CAPACITY,
               "nv12 of 34 x 16 takes 816 bytes, the channel has room for 32 x 16, 768 bytes");
    CHECK_SAYS(sl_format_resize(room, 16, 32, 32, &out), SLUICE_E_CAPACITY, "16 x 32");
    CHECK_SAYS(sl_format_resize(room, 0, 16, 0, &out), SLUICE_E_FORMAT, "0 x 16");
    CHECK_SAYS(sl_format_resize(room, 3, 16, 0, &out), SLUICE_E_FORMAT, "even width");
    CHECK_SAYS(sl_format_resize(room, UINT32_MAX, UINT32_MAX, 0, &out), SLUICE_E_FORMAT, "65536");
    CHECK_SAYS(sl_format_resize(&format.arrays[0], 4, 4, 0, &out), SLUICE_E_FORMAT, "sluice_frame_reshape");
    CHECK_MEM(&out, &before, sizeof out);
}

/* fits returns what frame does, without a message. */
static int frame(const struct sluice_format *format, struct sluice_array array, uint32_t index,
                 struct sluice_array *out)
{
    bool fits = sl_format_fits(format, &array, index);
    int r = sl_format_frame(format, &array, index, out);
    CHECK_EQ(fits, r == SLUICE_OK);
    if (r == SLUICE_OK)
        CHECK_OK(sl_format_geometry_check(&format->arrays[index], out, format->slot_bytes));
    return r;
}

TEST(fit_frames)
{
    struct sluice_format format = make_format();
    struct sluice_array out;
    CHECK_OK(frame(&format, tensor(float32, 2, SHAPE(10, 20)), 0, &out));
    CHECK_MEM(&out, &format.arrays[0], sizeof out);
    CHECK_OK(frame(&format, tensor(float32, 2, SHAPE(20, 9)), 0, &out));
    CHECK_EQ(out.nbytes, 720);
    CHECK_SAYS(frame(&format, tensor(float32, 2, SHAPE(20, 11)), 0, &out), SLUICE_E_CAPACITY, "(20, 11)");
    CHECK_SAYS(frame(&format, tensor(float32, 3, SHAPE(1, 1, 1)), 0, &out), SLUICE_E_CAPACITY, "2 dimensions, not 3");
    CHECK_SAYS(frame(&format, tensor(uint8, 2, SHAPE(1, 1)), 0, &out), SLUICE_E_FORMAT,
               "float32 (10, 20), not uint8 (1, 1)");

    CHECK_OK(frame(&format, image(SLUICE_PIXEL_NV12, 32, 16), 1, &out));
    CHECK_OK(frame(&format, image(SLUICE_PIXEL_NV12, 16, 30), 1, &out));
    CHECK_EQ(out.image.height, 30);
    CHECK_SAYS(frame(&format, image(SLUICE_PIXEL_NV12, 16, 34), 1, &out), SLUICE_E_CAPACITY, "16 x 34");
    CHECK_SAYS(frame(&format, image(SLUICE_PIXEL_I420, 16, 16), 1, &out), SLUICE_E_FORMAT, "yuv420p");

    /* an array with an image's shape */
    CHECK_OK(frame(&format, tensor(uint8, 2, SHAPE(12, 10)), 1, &out));
    CHECK_EQ(out.image.width, 10);
    CHECK_EQ(out.image.height, 8);
    CHECK_SAYS(frame(&format, tensor(uint8, 2, SHAPE(13, 10)), 1, &out), SLUICE_E_FORMAT, "(13, 10)");
    CHECK_SAYS(frame(&format, tensor(uint8, 2, SHAPE(9, 9)), 1, &out), SLUICE_E_FORMAT, "even width");
    CHECK_SAYS(frame(&format, tensor(uint8, 3, SHAPE(12, 10, 1)), 1, &out), SLUICE_E_FORMAT, "nv12");
    CHECK_SAYS(frame(&format, tensor(float32, 2, SHAPE(12, 10)), 1, &out), SLUICE_E_FORMAT, "float32");
    CHECK_SAYS(frame(&format, tensor(uint8, 2, SHAPE(0, 10)), 1, &out), SLUICE_E_FORMAT, "nv12");

    struct sluice_format rgb = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_image(&rgb, "rgb", SLUICE_PIXEL_RGB24, 8, 8));
    CHECK_OK(frame(&rgb, tensor(uint8, 3, SHAPE(4, 6, 3)), 0, &out));
    CHECK_SAYS(frame(&rgb, tensor(uint8, 3, SHAPE(4, 6, 4)), 0, &out), SLUICE_E_FORMAT, "(4, 6, 4)");
    CHECK_SAYS(frame(&rgb, tensor(uint8, 2, SHAPE(4, 6)), 0, &out), SLUICE_E_FORMAT, "(4, 6)");

    struct sluice_array bad = tensor(float32, 2, SHAPE(1, 1));
    bad.ndim = 99;
    CHECK_RESULT(frame(&format, bad, 0, &out), SLUICE_E_FORMAT);
    CHECK_RESULT(frame(&format, bad, 1, &out), SLUICE_E_FORMAT);
    CHECK_RESULT(sl_format_grow(&format, &bad, 1, &format), SLUICE_E_FORMAT);
    bad = image(SLUICE_PIXEL_NV12, 16, 16);
    bad.image.width = UINT32_MAX - 1;
    CHECK_RESULT(frame(&format, bad, 1, &out), SLUICE_E_FORMAT);
}

/* Frames have the channel's padding, whatever the padding of the program's memory. */
TEST(fit_counts_padding)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_array out;
    format.pitch_align = 64;
    CHECK_OK(sluice_format_add_image(&format, "i", SLUICE_PIXEL_GRAY8, 100, 10));
    CHECK_EQ(format.arrays[0].nbytes, 9 * 128 + 100);
    CHECK_OK(frame(&format, image(SLUICE_PIXEL_GRAY8, 64, 19), 0, &out));
    CHECK_EQ(out.strides[0], 64);
    CHECK_RESULT(frame(&format, image(SLUICE_PIXEL_GRAY8, 64, 20), 0, &out), SLUICE_E_CAPACITY);
    CHECK_RESULT(frame(&format, image(SLUICE_PIXEL_GRAY8, 65, 12), 0, &out), SLUICE_E_CAPACITY);
}

TEST(fit_grow)
{
    struct sluice_format format = make_format(), grown = SLUICE_FORMAT_INIT;
    struct sluice_array out, more = tensor(float32, 2, SHAPE(100, 3));
    CHECK_OK(sl_format_grow(&format, &more, 0, &grown));
    CHECK_OK(frame(&grown, more, 0, &out));
    CHECK_EQ(grown.arrays[0].nbytes, 1200);
    CHECK_STR(grown.arrays[0].name, "tensor");
    CHECK_EQ(grown.arrays[1].offset, 1536);
    CHECK_EQ(grown.arrays[1].nbytes, format.arrays[1].nbytes);
    CHECK_EQ(grown.arrays[2].offset, 2560);
    CHECK_EQ(grown.slot_bytes, 3072);

    more = tensor(float32, 4, SHAPE(2, 0, 3, 4)); /* other dimensions, and empty */
    CHECK_OK(sl_format_grow(&format, &more, 0, &format));
    CHECK_EQ(format.arrays[0].ndim, 4);
    CHECK_EQ(format.arrays[0].nbytes, 96);
    CHECK_OK(frame(&format, more, 0, &out));
    CHECK_EQ(out.nbytes, 0);

    more = image(SLUICE_PIXEL_NV12, 64, 64);
    CHECK_OK(sl_format_grow(&format, &more, 1, &format));
    CHECK_EQ(format.arrays[1].image.width, 64);
    CHECK_EQ(format.arrays[1].image.planes[1].offset, 4096);
    CHECK_EQ(format.arrays[2].offset, 512 + 6144);
    CHECK_OK(frame(&format, more, 1, &out));
    more = tensor(uint8, 2, SHAPE(192, 64));
    CHECK_OK(sl_format_grow(&format, &more, 1, &format));
    CHECK_EQ(format.arrays[1].image.height, 128);

    const struct sluice_format before = format;
    more = tensor(uint8, 2, SHAPE(1, 1));
    CHECK_SAYS(sl_format_grow(&format, &more, 0, &format), SLUICE_E_FORMAT, "uint8 (1, 1)");
    more = image(SLUICE_PIXEL_I420, 64, 64);
    CHECK_SAYS(sl_format_grow(&format, &more, 1, &format), SLUICE_E_FORMAT, "yuv420p");
    more = tensor(float32, 2, SHAPE(1, 1));
    more.shape[0] = more.shape[1] = 1 << 23;
    CHECK_SAYS(sl_format_grow(&format, &more, 0, &format), SLUICE_E_FORMAT, "more than");
    CHECK_MEM(&format, &before, sizeof format);
}
