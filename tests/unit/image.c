/* SPDX-License-Identifier: MIT
 *
 * Images: every pixel format against numbers worked out by hand, padded rows, planes placed by hand, names.
 */
#include <string.h>

#include <sluice/format.h>

#include "format/format.h"
#include "harness/test.h"

static void check_dims(const int64_t *values, int64_t a, int64_t b, int64_t c)
{
    CHECK_EQ(values[0], a);
    CHECK_EQ(values[1], b);
    CHECK_EQ(values[2], c);
    for (int d = 3; d < SLUICE_MAX_DIMS; d++)
        CHECK_EQ(values[d], 0);
}

/* An image of 12 x 8 pixels, tight. */
struct row {
    uint32_t number;
    const char *text, *type;
    uint64_t nbytes;
    int ndim;
    int64_t shape[3], strides[3];
    uint32_t plane_count;
    struct sluice_plane planes[3];
};

static const struct row rows[] = {
    { 1, "rgba", "uint8", 384, 3, { 8, 12, 4 }, { 48, 4, 1 }, 1, { { 0, 48 } } },
    { 2, "bgra", "uint8", 384, 3, { 8, 12, 4 }, { 48, 4, 1 }, 1, { { 0, 48 } } },
    { 3, "rgb24", "uint8", 288, 3, { 8, 12, 3 }, { 36, 3, 1 }, 1, { { 0, 36 } } },
    { 4, "bgr24", "uint8", 288, 3, { 8, 12, 3 }, { 36, 3, 1 }, 1, { { 0, 36 } } },
    { 5, "gray", "uint8", 96, 2, { 8, 12 }, { 12, 1 }, 1, { { 0, 12 } } },
    { 6, "gray16le", "uint16", 192, 2, { 8, 12 }, { 24, 2 }, 1, { { 0, 24 } } },
    { 7, "yuyv422", "uint8", 192, 3, { 8, 12, 2 }, { 24, 2, 1 }, 1, { { 0, 24 } } },
    { 8, "uyvy422", "uint8", 192, 3, { 8, 12, 2 }, { 24, 2, 1 }, 1, { { 0, 24 } } },
    { 9, "nv12", "uint8", 144, 2, { 12, 12 }, { 12, 1 }, 2, { { 0, 12 }, { 96, 12 } } },
    { 10, "yuv420p", "uint8", 144, 2, { 12, 12 }, { 12, 1 }, 3, { { 0, 12 }, { 96, 6 }, { 120, 6 } } },
    { 11, "p010le", "uint16", 288, 2, { 12, 12 }, { 24, 2 }, 2, { { 0, 24 }, { 192, 24 } } },
    { 12, "bayer_rggb8", "uint8", 96, 2, { 8, 12 }, { 12, 1 }, 1, { { 0, 12 } } },
    { 13, "bayer_bggr8", "uint8", 96, 2, { 8, 12 }, { 12, 1 }, 1, { { 0, 12 } } },
    { 14, "bayer_grbg8", "uint8", 96, 2, { 8, 12 }, { 12, 1 }, 1, { { 0, 12 } } },
    { 15, "bayer_gbrg8", "uint8", 96, 2, { 8, 12 }, { 12, 1 }, 1, { { 0, 12 } } },
    { 16, "bayer_rggb16le", "uint16", 192, 2, { 8, 12 }, { 24, 2 }, 1, { { 0, 24 } } },
    { 17, "bayer_bggr16le", "uint16", 192, 2, { 8, 12 }, { 24, 2 }, 1, { { 0, 24 } } },
    { 18, "bayer_grbg16le", "uint16", 192, 2, { 8, 12 }, { 24, 2 }, 1, { { 0, 24 } } },
    { 19, "bayer_gbrg16le", "uint16", 192, 2, { 8, 12 }, { 24, 2 }, 1, { { 0, 24 } } },
    { 20, "rgbaf16le", "float16", 768, 3, { 8, 12, 4 }, { 96, 8, 2 }, 1, { { 0, 96 } } },
    { 21, "rgbaf32le", "float32", 1536, 3, { 8, 12, 4 }, { 192, 16, 4 }, 1, { { 0, 192 } } },
    { 22, "yuv444p", "uint8", 288, 2, { 24, 12 }, { 12, 1 }, 3, { { 0, 12 }, { 96, 12 }, { 192, 12 } } },
    { 23, "grayf32le", "float32", 384, 2, { 8, 12 }, { 48, 4 }, 1, { { 0, 48 } } },
    { 24, "yuv422p", "uint8", 192, 2, { 16, 12 }, { 12, 1 }, 3, { { 0, 12 }, { 96, 6 }, { 144, 6 } } },
    { 25, "yuv422p10le", "uint16", 384, 2, { 16, 12 }, { 24, 2 }, 3, { { 0, 24 }, { 192, 12 }, { 288, 12 } } },
    { 26, "rgba64le", "uint16", 768, 3, { 8, 12, 4 }, { 96, 8, 2 }, 1, { { 0, 96 } } },
};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

static const uint32_t all_numbers[] = {
#define NUMBER(name, number, text) number,
    SLUICE_PIXEL_FORMATS(NUMBER)
#undef NUMBER
};

TEST(image_every_pixel_format_is_in_this_test)
{
    CHECK_EQ(ROW_COUNT, sizeof all_numbers / sizeof all_numbers[0]);
    for (size_t i = 0; i < ROW_COUNT; i++)
        CHECK_EQ(rows[i].number, all_numbers[i]);
}

TEST(image_rows_are_tight_by_default)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct row *row = &rows[i];
        struct sluice_format format = SLUICE_FORMAT_INIT;
        char type[SLUICE_DTYPE_TEXT];
        CHECK_OK(sluice_format_add_image(&format, "view", row->number, 12, 8));
        const struct sluice_array *array = &format.arrays[0];
        CHECK_STR(sluice_pixel_format_name(row->number), row->text);
        CHECK_OK(sluice_dtype_format(array->dtype, type, sizeof type));
        CHECK_STR(type, row->type);
        CHECK_EQ(array->nbytes, row->nbytes);
        CHECK_EQ(array->ndim, row->ndim);
        check_dims(array->shape, row->shape[0], row->shape[1], row->shape[2]);
        check_dims(array->strides, row->strides[0], row->strides[1], row->strides[2]);
        CHECK_EQ(array->image.plane_count, row->plane_count);
        for (uint32_t p = 0; p < SLUICE_MAX_PLANES; p++) {
            CHECK_EQ(array->image.planes[p].offset, p < 3 ? row->planes[p].offset : 0);
            CHECK_EQ(array->image.planes[p].pitch, p < 3 ? row->planes[p].pitch : 0);
        }
        CHECK_EQ(format.slot_bytes, (row->nbytes + 511) / 512 * 512);
    }
}

/* Rows of 12 pixels at multiples of 64 bytes. */
TEST(image_pitch_align)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    format.pitch_align = 64;
    CHECK_OK(sluice_format_add_image(&format, "rgb", SLUICE_PIXEL_RGB24, 12, 8));
    CHECK_OK(sluice_format_add_image(&format, "nv12", SLUICE_PIXEL_NV12, 12, 8));
    CHECK_OK(sluice_format_add_image(&format, "p010", SLUICE_PIXEL_P010, 12, 8));
    CHECK_OK(sluice_format_add_image(&format, "444", SLUICE_PIXEL_YUV444P, 12, 8));
    CHECK_OK(sluice_format_add_image(&format, "i420", SLUICE_PIXEL_I420, 12, 8));
    CHECK_OK(sluice_format_add_image(&format, "tight", SLUICE_PIXEL_I420, 128, 8));

    const struct sluice_array *a = format.arrays;
    check_dims(a[0].shape, 8, 12, 3);
    check_dims(a[0].strides, 64, 3, 1);
    CHECK_EQ(a[0].nbytes, 7 * 64 + 36);
    check_dims(a[1].shape, 12, 12, 0);
    check_dims(a[1].strides, 64, 1, 0);
    CHECK_EQ(a[1].image.planes[1].offset, 512);
    CHECK_EQ(a[1].nbytes, 11 * 64 + 12);
    check_dims(a[2].shape, 12, 12, 0);
    check_dims(a[2].strides, 64, 2, 0);
    CHECK_EQ(a[2].image.planes[1].pitch, 64);
    check_dims(a[3].shape, 24, 12, 0);
    check_dims(a[3].strides, 64, 1, 0);
    CHECK_EQ(a[3].image.planes[2].offset, 1024);

    /* chroma has half of luma's pitch, and both are aligned; no shape describes that */
    CHECK_EQ(a[4].image.planes[0].pitch, 128);
    CHECK_EQ(a[4].image.planes[1].pitch, 64);
    CHECK_EQ(a[4].image.planes[1].offset, 1024);
    CHECK_EQ(a[4].image.planes[2].offset, 1280);
    CHECK_EQ(a[4].nbytes, 1280 + 3 * 64 + 6);
    CHECK_EQ(a[4].ndim, 1);
    check_dims(a[4].shape, 1280 + 3 * 64 + 6, 0, 0);
    check_dims(a[4].strides, 1, 0, 0);
    check_dims(a[5].shape, 12, 128, 0);
}

TEST(image_pitch_align_is_a_power_of_two)
{
    static const uint32_t bad[] = { 3, 48, 65535, 131072, UINT32_MAX };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct sluice_format format = SLUICE_FORMAT_INIT;
        format.pitch_align = bad[i];
        CHECK_SAYS(sluice_format_add_image(&format, "a", SLUICE_PIXEL_RGBA, 4, 4), SLUICE_E_FORMAT, "pitch_align");
    }
}

TEST(image_pitch_align_set_too_late_is_said)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_image(&format, "late", SLUICE_PIXEL_RGB24, 10, 4));
    format.pitch_align = 64;
    CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "'late': plane 0");
    memset(format.arrays[0].image.planes, 0, sizeof format.arrays[0].image.planes);
    format.arrays[0].image.plane_count = 0;
    CHECK_OK(sluice_format_complete(&format));
    CHECK_EQ(format.arrays[0].strides[0], 64);
}

TEST(image_planes_by_hand)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_image(&format, "cam", SLUICE_PIXEL_P010, 12, 8));
    struct sluice_image *image = &format.arrays[0].image;

    image->planes[0].pitch = image->planes[1].pitch = 32;
    image->planes[1].offset = 256;
    CHECK_OK(sluice_format_complete(&format));
    CHECK_EQ(format.arrays[0].ndim, 2);
    CHECK_EQ(format.arrays[0].strides[0], 32);

    image->planes[1].offset = 320; /* a gap: one dimension over all of it, of the same type */
    CHECK_OK(sluice_format_complete(&format));
    CHECK_EQ(format.arrays[0].ndim, 1);
    CHECK_EQ(format.arrays[0].nbytes, 320 + 3 * 32 + 24);
    CHECK_EQ(format.arrays[0].shape[0], (320 + 3 * 32 + 24) / 2);
    CHECK_EQ(format.arrays[0].strides[0], 2);
    CHECK_EQ(format.arrays[0].dtype.bits, 16);

    image->planes[0].offset = 256; /* the other way round is valid, too */
    image->planes[1].offset = 0;
    CHECK_OK(sluice_format_complete(&format));

    struct sluice_format before = format;
    static const struct {
        uint64_t offset, pitch;
        const char *word;
    } bad[] = {
        { 0, 22, "less than the 24" },     { 200, 32, "overlap" },        { 255, 32, "overlap" },
        { 480, 0, "less than the 24" },    { 513, 32, "whole elements" }, { 512, 33, "whole elements" },
        { UINT64_MAX, 32, "beyond" },      { 512, UINT64_MAX, "beyond" }, { 512, UINT64_C(1) << 63, "beyond" },
        { UINT64_MAX - 31, 32, "beyond" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        image->planes[1] = (struct sluice_plane){ bad[i].offset, bad[i].pitch };
        CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, bad[i].word);
    }
    format = before;
    for (uint32_t count = 0; count < 6; count++) {
        image->plane_count = count;
        if (count != 2)
            CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "has 2 planes");
    }
}

TEST(image_refuses_sizes)
{
    struct sluice_format format = SLUICE_FORMAT_INIT, before = format;
    CHECK_SAYS(sluice_format_add_image(&format, "a", SLUICE_PIXEL_RGBA, 0, 8), SLUICE_E_FORMAT, "0 x 8");
    CHECK_SAYS(sluice_format_add_image(&format, "a", SLUICE_PIXEL_RGBA, 8, 0), SLUICE_E_FORMAT, "8 x 0");
    CHECK_SAYS(sluice_format_add_image(&format, "a", SLUICE_PIXEL_RGBA, 65537, 8), SLUICE_E_FORMAT, "65537");
    CHECK_SAYS(sluice_format_add_image(&format, "a", SLUICE_PIXEL_RGBA, 8, UINT32_MAX), SLUICE_E_FORMAT, "65536");
    CHECK_SAYS(sluice_format_add_image(&format, "a", SLUICE_PIXEL_NV12, 9, 8), SLUICE_E_FORMAT, "even width");
    CHECK_SAYS(sluice_format_add_image(&format, "a", SLUICE_PIXEL_I420, 8, 9), SLUICE_E_FORMAT, "even height");
    CHECK_SAYS(sluice_format_add_image(&format, "a", SLUICE_PIXEL_YUYV, 9, 9), SLUICE_E_FORMAT, "even width");
    CHECK_SAYS(sluice_format_add_image(&format, "a", SLUICE_PIXEL_NONE, 8, 8), SLUICE_E_FORMAT, "pixel format 0");
    CHECK_SAYS(sluice_format_add_image(&format, "a", (enum sluice_pixel_format)27, 8, 8), SLUICE_E_FORMAT,
               "pixel format 27");
    CHECK_MEM(&format, &before, sizeof format);
    CHECK_OK(sluice_format_add_image(&format, "uneven", SLUICE_PIXEL_UYVY, 8, 9));
    CHECK_OK(sluice_format_add_image(&format, "bayer", SLUICE_PIXEL_BAYER_GBRG8, 9, 9));
    CHECK_OK(sluice_format_add_image(&format, "largest", SLUICE_PIXEL_RGBA_F32, 65536, 65536));
    CHECK_EQ(format.arrays[2].nbytes, UINT64_C(1) << 36);
}

TEST(image_pixel_format_names)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        CHECK_EQ(sluice_pixel_format_find(rows[i].text), rows[i].number);
    static const struct {
        const char *name;
        uint32_t number;
    } others[] = {
        { "i420", SLUICE_PIXEL_YUV420P },
        { "I420", SLUICE_PIXEL_YUV420P },
        { "gray8", SLUICE_PIXEL_GRAY8 },
        { "GRAY8", SLUICE_PIXEL_GRAY8 },
        { "gray16", SLUICE_PIXEL_GRAY16 },
        { "yuyv", SLUICE_PIXEL_YUYV },
        { "Uyvy", SLUICE_PIXEL_UYVY },
        { "p010", SLUICE_PIXEL_P010 },
        { "P010", SLUICE_PIXEL_P010 },
        { "RGBA", SLUICE_PIXEL_RGBA },
        { "bayer_RGGB16", SLUICE_PIXEL_BAYER_RGGB16 },
        { "rgba_f16", SLUICE_PIXEL_RGBA_F16 },
        { "rgbaf16", SLUICE_PIXEL_RGBA_F16 },
        { "rgbaf32", SLUICE_PIXEL_RGBA_F32 },
        { "grayf32", SLUICE_PIXEL_GRAY_F32 },
        { "Gray_F32", SLUICE_PIXEL_GRAY_F32 },
        { "none", 0 },
        { "", 0 },
        { "rgb", 0 },
        { "rgba ", 0 },
        { "rgb2", 0 },
        { "nv21", 0 },
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK_EQ(sluice_pixel_format_find(others[i].name), others[i].number);
    CHECK_EQ(sluice_pixel_format_find(NULL), 0);
    CHECK_STR(sluice_pixel_format_name(0), "none");
    CHECK_STR(sluice_pixel_format_name(27), "none");
    CHECK_STR(sluice_pixel_format_name(UINT32_MAX), "none");
}
