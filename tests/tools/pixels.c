/* SPDX-License-Identifier: MIT
 *
 * tools/media/pixels.c, half.c: every pixel format in both directions, and known colours as known bytes.
 */
#include "harness/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "tools/media/half.h"
#include "tools/media/pixels.h"

#define WIDTH  8
#define HEIGHT 6

static const char *const names[] = {
#define ENTRY(name, number, text) text,
    SLUICE_PIXEL_FORMATS(ENTRY)
#undef ENTRY
};

/* An image that owns its memory. */
static struct sluice_array make(const char *name, uint32_t width, uint32_t height)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    uint32_t pixel_format = sluice_pixel_format_find(name);
    CHECK_NE(pixel_format, 0);
    CHECK_OK(sluice_format_add_image(&format, "image", (enum sluice_pixel_format)pixel_format, width, height));
    struct sluice_array array = format.arrays[0];
    array.data = calloc(1, array.nbytes);
    CHECK(array.data != NULL);
    return array;
}

/* A picture of one colour. */
static struct sluice_array uniform(const float colour[4], uint32_t width, uint32_t height)
{
    struct sluice_array floats;
    CHECK_OK(pixels_alloc(&floats, SLUICE_PIXEL_RGBA_F32, width, height));
    for (uint32_t i = 0; i < width * height; i++)
        memcpy((float *)floats.data + 4 * i, colour, 4 * sizeof *colour);
    return floats;
}

static void fill(const struct sluice_array *image, const float colour[4])
{
    struct sluice_array floats = uniform(colour, image->image.width, image->image.height);
    CHECK_OK(pixels_convert(image, &floats));
    free(floats.data);
}

/* The image as RGBA floats. */
static struct sluice_array floats_of(const struct sluice_array *image)
{
    struct sluice_array floats;
    CHECK_OK(pixels_alloc(&floats, SLUICE_PIXEL_RGBA_F32, image->image.width, image->image.height));
    CHECK_OK(pixels_convert(&floats, image));
    return floats;
}

static float worst(const float a[4], const float b[4], unsigned channels)
{
    float most = 0;
    for (unsigned i = 0; i < channels; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

TEST(pixels_knows_every_format)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct sluice_array image = make(names[i], WIDTH, HEIGHT);
        CHECK(pixels_channels(&image.image) > 0);
        free(image.data);
    }
}

/* Uniform colours survive subsampling and mosaics; gray survives formats without colour. */
TEST(pixels_round_trip)
{
    static const float colours[][4] = { { 0, 0, 0, 1 }, { 1, 1, 1, 1 }, { 0.5f, 0.5f, 0.5f, 1 },
                                        { 1, 0, 0, 1 }, { 0, 1, 0, 1 }, { 0.2f, 0.4f, 0.8f, 1 } };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct sluice_array image = make(names[i], WIDTH, HEIGHT);
        unsigned channels = pixels_channels(&image.image);
        for (size_t c = 0; c < (channels == 1 ? 3 : 6); c++) {
            fill(&image, colours[c]);
            struct sluice_array floats = floats_of(&image);
            for (uint32_t at = 0; at < WIDTH * HEIGHT; at++) {
                const float *got = (const float *)floats.data + 4 * at;
                if (worst(got, colours[c], channels) > 0.02f)
                    FAIL("%s: colour %zu at %u is %.3f %.3f %.3f", names[i], c, at, (double)got[0], (double)got[1],
                         (double)got[2]);
            }
            free(floats.data);
        }
        free(image.data);
    }
}

static void expect_first(const char *name, const float colour[4], const void *bytes, size_t size)
{
    struct sluice_array image = make(name, 4, 4);
    fill(&image, colour);
    if (memcmp(image.data, bytes, size) != 0)
        FAIL("%s: %02x %02x %02x %02x", name, ((uint8_t *)image.data)[0], ((uint8_t *)image.data)[1],
             ((uint8_t *)image.data)[2], ((uint8_t *)image.data)[3]);
    free(image.data);
}

TEST(pixels_have_their_bytes)
{
    static const float red[4] = { 1, 0, 0, 1 }, white[4] = { 1, 1, 1, 1 };
    expect_first("rgba", red, "\xff\x00\x00\xff", 4);
    expect_first("bgra", red, "\x00\x00\xff\xff", 4);
    expect_first("bgr24", red, "\x00\x00\xff\x00\x00\xff", 6);
    expect_first("gray16le", white, "\xff\xff\xff\xff", 4);
    /* BT.601, limited: red is Y 81, U 90, V 240 */
    expect_first("yuyv422", red, "\x51\x5a\x51\xf0", 4);
    expect_first("uyvy422", red, "\x5a\x51\xf0\x51", 4);
    expect_first("p010le", white, "\x00\xeb\x00\xeb", 4); /* 940 of 1023, in the high bits */
    expect_first("rgbaf16le", white, "\x00\x3c\x00\x3c\x00\x3c\x00\x3c", 8);
    expect_first("bayer_bggr8", red, "\x00\x00\x00\x00\x00\xff\x00\xff", 8);
}

TEST(pixels_matrix_follows_the_size)
{
    static const float red[4] = { 1, 0, 0, 1 };
    struct sluice_array image = make("yuv444p", 2, 720);
    fill(&image, red);
    CHECK_EQ(((uint8_t *)image.data)[0], 63); /* BT.709: 16 + 219 * 0.2126 */
    image.image.colour.matrix = 6;
    image.image.colour.range = SLUICE_RANGE_FULL;
    fill(&image, red);
    CHECK_EQ(((uint8_t *)image.data)[0], 76); /* 255 * 0.299 */
    free(image.data);
}

TEST(pixels_bottom_row_first)
{
    static const float white[4] = { 1, 1, 1, 1 };
    struct sluice_array image = make("gray", WIDTH, HEIGHT), dot = make("gray", 1, 1);
    image.image.row_order = SLUICE_BOTTOM_UP;
    fill(&dot, white);
    pixels_put(&image, 0, 0, &dot);
    CHECK_EQ(((uint8_t *)image.data)[(HEIGHT - 1) * WIDTH], 255);
    struct sluice_array floats = floats_of(&image);
    CHECK_NEAR(((float *)floats.data)[0], 1, 1e-6);
    free(floats.data);
    free(dot.data);
    free(image.data);
}

/* Chroma, too, which two by two pixels share. */
TEST(pixels_are_put_where_they_belong)
{
    static const float red[4] = { 1, 0, 0, 1 }, black[4] = { 0, 0, 0, 1 };
    static const char *const shared[] = { "nv12", "yuv420p", "p010le", "yuyv422", "uyvy422", "yuv444p", "rgb24" };
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        struct sluice_array image = make(shared[i], WIDTH, HEIGHT), part = make(shared[i], 4, 2);
        fill(&image, black);
        fill(&part, red);
        pixels_put(&image, 2, 4, &part);
        struct sluice_array floats = floats_of(&image);
        for (uint32_t at = 0; at < WIDTH * HEIGHT; at++) {
            bool in = at % WIDTH - 2 < 4 && at / WIDTH - 4 < 2;
            if (worst((const float *)floats.data + 4 * at, in ? red : black, 3) > 0.02f)
                FAIL("%s: %u,%u", shared[i], at % WIDTH, at / WIDTH);
        }
        free(floats.data);
        free(part.data);
        free(image.data);
    }
}

TEST(pixels_floats_are_clamped)
{
    static const float odd[4] = { 2.5f, -1, NAN, 1 };
    struct sluice_array image = make("rgb24", 2, 2);
    fill(&image, odd);
    CHECK_EQ(((uint8_t *)image.data)[0], 255);
    CHECK_EQ(((uint8_t *)image.data)[1], 0);
    CHECK_EQ(((uint8_t *)image.data)[2], 0);
    free(image.data);
}

TEST(pixels_alpha)
{
    static const float half[4] = { 0.8f, 0.4f, 0.2f, 0.5f };
    struct sluice_array image = make("rgba", 2, 2);
    image.image.alpha = SLUICE_ALPHA_PREMULTIPLIED;
    fill(&image, half);
    struct sluice_array floats = floats_of(&image);
    CHECK_NEAR(worst((const float *)floats.data + 12, half, 4), 0, 0.01);
    CHECK_NEAR(((uint8_t *)image.data)[12], 102, 1); /* 0.8 * 0.5 of 255 */
    image.image.alpha = SLUICE_ALPHA_OPAQUE;
    CHECK_EQ(pixels_channels(&image.image), 3);
    free(floats.data);
    free(image.data);
}

TEST(pixels_half_floats)
{
    for (uint32_t half = 0; half < 65536; half++) {
        float value = half_to_float((uint16_t)half);
        if (isnan(value))
            CHECK((half & 0x7C00) == 0x7C00 && (half & 0x3FF));
        else
            CHECK_EQ(half_from_float(value), half);
    }
    CHECK_EQ(half_from_float(65519.0f), 0x7BFF);
    CHECK_EQ(half_from_float(65520.0f), 0x7C00);
    CHECK_NEAR(half_to_float(0x3555), 0.33325195, 1e-7);
}

TEST(pixels_planes_end_where_the_array_ends)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct sluice_array image = make(names[i], WIDTH, HEIGHT);
        uint64_t row, rows, end = 0;
        for (uint32_t p = 0; p < image.image.plane_count; p++) {
            CHECK(pixels_plane(&image.image, p, &row, &rows));
            end = image.image.planes[p].offset + (rows - 1) * image.image.planes[p].pitch + row;
        }
        CHECK(!pixels_plane(&image.image, image.image.plane_count, &row, &rows));
        if (end != image.nbytes)
            FAIL("%s: planes end at %llu of %llu", names[i], (unsigned long long)end, (unsigned long long)image.nbytes);
        free(image.data);
    }
}
