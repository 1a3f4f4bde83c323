/* SPDX-License-Identifier: MIT
 *
 * load, store and sample of <sluice.cuh>, on "host".
 */
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "harness/test.h"

#define WIDTH  12
#define HEIGHT 8

static const char source[] = "#include <sluice.cuh>\n"
                             "__global__ void copy(sluice_out out, sluice_in in)\n"
                             "{\n"
                             "    SLUICE_PIXEL(out, x, y);\n"
                             "    store(out, x, y, load(in, x, y));\n"
                             "    store(out, x + out.width, y, make_float4(1, 1, 1, 1)); // outside\n"
                             "    store(out, x, y - out.height, make_float4(1, 1, 1, 1));\n"
                             "}\n"
                             "__global__ void read(float *to, sluice_in in, float x, float y, int between)\n"
                             "{\n"
                             "    float4 c = between ? sample(in, x, y) : load(in, int(x), int(y));\n"
                             "    to[0] = c.x, to[1] = c.y, to[2] = c.z, to[3] = c.w;\n"
                             "}\n";

static struct sluice_device device;
static struct sluice_stream stream;
static struct sluice_kernel copy, read;

static void set_up(void)
{
    struct sluice_module_params params = { .size = sizeof params, .name = "fx.cu" };
    struct sluice_module module;
    test_dir();
    CHECK_OK(sluice_device_open(&device, "host"));
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_module_load(device, source, strlen(source), &params, &module));
    CHECK_OK(sluice_kernel_get(module, "copy", &copy));
    CHECK_OK(sluice_kernel_get(module, "read", &read));
}

/* A picture whose rows are padded; its bytes are all `value`. */
static struct sluice_array make(uint32_t pixel_format, uint8_t value)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    format.pitch_align = 32;
    CHECK_OK(sluice_format_add_image(&format, "image", pixel_format, WIDTH, HEIGHT));
    struct sluice_array array = format.arrays[0];
    array.data = malloc(array.nbytes);
    CHECK(array.data);
    memset(array.data, value, array.nbytes);
    return array;
}

static void launch_copy(struct sluice_array *to, struct sluice_array *from)
{
    struct sluice_launch launch = { .size = sizeof launch, .over = { WIDTH, HEIGHT } };
    struct sluice_argument arguments[] = { SLUICE_ARRAY(to), SLUICE_ARRAY(from) };
    CHECK_OK(sluice_launch(copy, stream, &launch, arguments, 2));
}

static const float *read_at(struct sluice_array *from, float x, float y, bool between)
{
    static float c[4];
    struct sluice_launch launch = { .size = sizeof launch, .over = { 1 } };
    struct sluice_argument arguments[] = { SLUICE_HOST(c, sizeof c), SLUICE_ARRAY(from), SLUICE_REAL(x), SLUICE_REAL(y),
                                           SLUICE_INTEGER(between) };
    CHECK_OK(sluice_launch(read, stream, &launch, arguments, 5));
    return c;
}

static uint8_t *byte_at(const struct sluice_array *array, uint32_t plane, size_t x, size_t y)
{
    return (uint8_t *)array->data + array->image.planes[plane].offset + y * array->image.planes[plane].pitch + x;
}

/* Colours that change from pixel to pixel in "rgba". */
static struct sluice_array make_colours(void)
{
    struct sluice_array array = make(SLUICE_PIXEL_RGBA, 0);
    for (size_t y = 0; y < HEIGHT; y++)
        for (size_t x = 0; x < WIDTH * 4; x++)
            *byte_at(&array, 0, x, y) = (uint8_t)(x % 4 == 3 ? 255 : 40 + 6 * y + 3 * x);
    return array;
}

/* rgba -> the format -> rgba. `tolerance`: of 255. */
static void check_round_trip(uint32_t pixel_format, int tolerance, bool bottom_up)
{
    struct sluice_array first = make_colours(), between = make(pixel_format, 77), last = make(SLUICE_PIXEL_RGBA, 0);
    between.image.row_order = bottom_up ? SLUICE_BOTTOM_UP : SLUICE_TOP_DOWN;
    launch_copy(&between, &first);
    launch_copy(&last, &between);
    for (size_t y = 0; y < HEIGHT; y++)
        for (size_t x = 0; x < WIDTH * 4; x++)
            if (abs(*byte_at(&last, 0, x, y) - *byte_at(&first, 0, x, y)) > tolerance)
                FAIL("%s: byte %zu of row %zu is %d, not %d", sluice_pixel_format_name(pixel_format), x, y,
                     *byte_at(&last, 0, x, y), *byte_at(&first, 0, x, y));
    free(first.data);
    free(between.data);
    free(last.data);
}

TEST_TIMEOUT(pixels_of_all_formats, 60)
{
    static const struct {
        uint32_t format;
        int tolerance;
    } formats[] = {
        { SLUICE_PIXEL_RGBA, 0 },    { SLUICE_PIXEL_BGRA, 0 },      { SLUICE_PIXEL_RGB24, 0 },
        { SLUICE_PIXEL_BGR24, 0 },   { SLUICE_PIXEL_RGBA_F16, 0 },  { SLUICE_PIXEL_RGBA_F32, 0 },
        { SLUICE_PIXEL_YUV444P, 3 }, { SLUICE_PIXEL_YUYV, 8 },      { SLUICE_PIXEL_UYVY, 8 },
        { SLUICE_PIXEL_NV12, 12 },   { SLUICE_PIXEL_P010, 12 },     { SLUICE_PIXEL_YUV420P, 12 },
        { SLUICE_PIXEL_YUV422P, 8 }, { SLUICE_PIXEL_YUV422P10, 8 }, { SLUICE_PIXEL_RGBA64, 0 },
    };
    set_up();
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        check_round_trip(formats[i].format, formats[i].tolerance, false);
        check_round_trip(formats[i].format, formats[i].tolerance, true);
    }
    sluice_device_close(&device);
}

TEST_TIMEOUT(nothing_is_written_outside, 60)
{
    set_up();
    struct sluice_array from = make(SLUICE_PIXEL_GRAY8, 9), to = make(SLUICE_PIXEL_GRAY8, 77);
    launch_copy(&to, &from);
    for (size_t y = 0; y < HEIGHT - 1; y++) /* the last row has no padding */
        for (size_t x = 0; x < to.image.planes[0].pitch; x++)
            CHECK_EQ(*byte_at(&to, 0, x, y), x < WIDTH ? 9 : 77);
    free(from.data);
    free(to.data);
    sluice_device_close(&device);
}

TEST_TIMEOUT(white_and_black_of_the_limited_range, 60)
{
    set_up();
    struct sluice_array from = make(SLUICE_PIXEL_RGBA, 255), to = make(SLUICE_PIXEL_NV12, 0);
    launch_copy(&to, &from);
    CHECK_EQ(*byte_at(&to, 0, 3, 3), 235);
    CHECK_EQ(*byte_at(&to, 1, 2, 2), 128);
    CHECK_EQ(*byte_at(&to, 1, 3, 2), 128);
    memset(from.data, 0, from.nbytes);
    launch_copy(&to, &from);
    CHECK_EQ(*byte_at(&to, 0, 3, 3), 16);
    to.image.colour.range = SLUICE_RANGE_FULL;
    launch_copy(&to, &from);
    CHECK_EQ(*byte_at(&to, 0, 3, 3), 0);
    free(from.data);
    free(to.data);
    sluice_device_close(&device);
}

TEST_TIMEOUT(edges_repeat, 60)
{
    set_up();
    struct sluice_array gray = make(SLUICE_PIXEL_GRAY8, 0);
    *byte_at(&gray, 0, 0, 0) = 51;
    *byte_at(&gray, 0, WIDTH - 1, HEIGHT - 1) = 255;
    CHECK_NEAR(read_at(&gray, -5, -9, false)[0], 0.2, 1e-6);
    CHECK_NEAR(read_at(&gray, WIDTH + 3, HEIGHT, false)[0], 1, 1e-6);
    CHECK_NEAR(read_at(&gray, WIDTH + 3, HEIGHT, false)[3], 1, 0);
    CHECK_NEAR(read_at(&gray, -0.5f, -9, true)[0], 0.2, 1e-6);
    CHECK_NEAR(read_at(&gray, WIDTH, HEIGHT, true)[1], 1, 1e-6);
    free(gray.data);
    sluice_device_close(&device);
}

TEST_TIMEOUT(samples_lie_between_pixels, 60)
{
    set_up();
    struct sluice_array gray = make(SLUICE_PIXEL_GRAY8, 0);
    *byte_at(&gray, 0, 5, 3) = 255;
    CHECK_NEAR(read_at(&gray, 5, 3, true)[0], 1, 1e-6);
    CHECK_NEAR(read_at(&gray, 5.25f, 3, true)[0], 0.75, 1e-6);
    CHECK_NEAR(read_at(&gray, 4.5f, 3, true)[0], 0.5, 1e-6);
    CHECK_NEAR(read_at(&gray, 5, 3.75f, true)[0], 0.25, 1e-6);
    CHECK_NEAR(read_at(&gray, 4.5f, 2.5f, true)[2], 0.25, 1e-6);
    CHECK_NEAR(read_at(&gray, 6, 3, true)[0], 0, 1e-6);
    free(gray.data);
    sluice_device_close(&device);
}
