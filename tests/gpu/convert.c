/* SPDX-License-Identifier: MIT
 *
 * Conversions on a GPU give what they give on the CPU, which tests in Python compare with the definition.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "gpu/kit.h"

/* ---- pictures ---- */

struct picture {
    struct sluice_array array; /* on the CPU */
    size_t bytes;
    uint64_t gpu; /* as many bytes there */
};

static uint32_t seed = 1;

static uint32_t some(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

static bool is_half(uint32_t format)
{
    return format == SLUICE_PIXEL_RGBA_F16;
}

static bool is_float(const struct picture *picture)
{
    return picture->array.image.pixel_format == SLUICE_PIXEL_RGBA_F32 ||
           picture->array.image.pixel_format == SLUICE_PIXEL_GRAY_F32 ||
           (picture->array.image.pixel_format == 0 && picture->array.dtype.bits == 32);
}

/* Numbers that are 0 to 1 where they are floats. */
static void fill(struct picture *picture)
{
    unsigned char *bytes = picture->array.data;

    for (size_t i = 0; i < picture->bytes; i++)
        bytes[i] = (unsigned char)some(256);
    if (is_float(picture))
        for (size_t i = 0; i < picture->bytes / 4; i++)
            ((float *)bytes)[i] = (float)some(1000) / 999;
    if (is_half(picture->array.image.pixel_format))
        for (size_t i = 0; i < picture->bytes / 2; i++)
            ((uint16_t *)bytes)[i] = (uint16_t)some(0x3c01);
    if (picture->array.image.pixel_format == SLUICE_PIXEL_YUV422P10)
        for (size_t i = 0; i < picture->bytes / 2; i++)
            ((uint16_t *)bytes)[i] = (uint16_t)some(1024);
}

/* The GPU has two places, for the source and the target, in turn. */
#define PLACE (1 << 20)
static uint64_t places[2];
static uint64_t next_place(size_t bytes)
{
    static unsigned turn;

    CHECK_LE(bytes, PLACE);
    return places[turn++ % 2];
}

static struct picture image(uint32_t format, uint32_t width, uint32_t height)
{
    struct sluice_format whole = SLUICE_FORMAT_INIT;
    struct picture picture;

    whole.pitch_align = 1u << some(7);
    CHECK_OK(sluice_format_add_image(&whole, "image", format, width, height));
    picture.array = whole.arrays[0];
    picture.array.image.row_order = some(4) == 0 ? SLUICE_BOTTOM_UP : SLUICE_TOP_DOWN;
    picture.array.image.colour.range = (uint8_t)some(3);
    picture.bytes = whole.arrays[0].nbytes;
    picture.array.data = malloc(picture.bytes);
    CHECK(picture.array.data);
    picture.gpu = next_place(picture.bytes);
    fill(&picture);
    return picture;
}

static struct picture tensor(uint32_t code, uint32_t bits, int64_t width, int64_t height)
{
    const struct sluice_dtype dtype = { (uint8_t)code, (uint8_t)bits, 1 };
    const int64_t shape[] = { 1, 3, height, width };
    struct picture picture = { .bytes = (size_t)(3 * height * width) * bits / 8 };

    void *data = malloc(picture.bytes);
    CHECK(data);
    CHECK_OK(sluice_array_wrap(&picture.array, "tensor", data, dtype, 4, shape, NULL));
    picture.gpu = next_place(picture.bytes);
    memset(data, 0, picture.bytes);
    return picture;
}

static struct sluice_array on_gpu(const struct picture *picture)
{
    struct sluice_array array = picture->array;

    array.data = (void *)(uintptr_t)picture->gpu;
    return array;
}

/* ---- comparing ---- */

static bool is_deep(uint32_t format)
{
    return format == SLUICE_PIXEL_GRAY16 || format == SLUICE_PIXEL_RGBA64;
}

static double half(uint16_t bits)
{
    double size = (bits & 0x7c00) ? ldexp(1024 + (bits & 1023), (bits >> 10 & 31) - 25) : ldexp(bits & 1023, -24);

    return bits & 0x8000 ? -size : size;
}

static double element(const struct picture *picture, const void *data, size_t i)
{
    const struct sluice_array *array = &picture->array;

    if (is_float(picture))
        return ((const float *)data)[i];
    if (array->dtype.bits == 16 && (is_half(array->image.pixel_format) || array->image.pixel_format == 0))
        return half(((const uint16_t *)data)[i]);
    if (is_deep(array->image.pixel_format) || array->image.pixel_format == SLUICE_PIXEL_YUV422P10)
        return ((const uint16_t *)data)[i];
    if (array->image.pixel_format == SLUICE_PIXEL_P010)
        return ((const uint16_t *)data)[i] >> 6;
    return ((const unsigned char *)data)[i];
}

/* At most one apart, floats nearly equal, and nearly all equal. */
static void compare(const struct picture *picture, const void *got)
{
    uint32_t format = picture->array.image.pixel_format;
    size_t size = is_float(picture) ? 4 : 1, count, differ = 0;

    if (is_half(format) || is_deep(format) || format == SLUICE_PIXEL_P010 || format == SLUICE_PIXEL_YUV422P10 ||
        (format == 0 && picture->array.dtype.bits == 16))
        size = 2;
    count = picture->bytes / size;
    double most = size == 4 ? 1e-5 : is_half(format) || format == 0 ? 1e-3 : 1;
    most = format == 0 && size == 1 ? 1 : most;
    for (size_t i = 0; i < count; i++) {
        double a = element(picture, picture->array.data, i), b = element(picture, got, i);
        differ += fabs(a - b) > (most < 1 ? most / 2 : 0);
        if (!(fabs(a - b) <= most * (most < 1 && fabs(a) > 1 ? fabs(a) : 1)))
            test_fail(__FILE__, __LINE__, "element %zu of a %s is %g on the CPU, %g on the GPU", i,
                      sluice_pixel_format_name(format), a, b);
    }
    if (!is_deep(format)) /* floats have few bits more */
        CHECK_LE(differ, 2 + count / 1000);
}

static void convert_both(struct sluice_stream host, struct sluice_stream gpu, const struct picture *to,
                         const struct picture *from, const struct sluice_convert *how)
{
    struct sluice_array to_gpu = on_gpu(to), from_gpu = on_gpu(from);
    struct sluice_area here, there;
    void *got = malloc(to->bytes);

    CHECK(got);
    CU(MemcpyHtoDAsync, from->gpu, from->array.data, from->bytes, gpu_native(gpu));
    CU(MemcpyHtoDAsync, to->gpu, to->array.data, to->bytes, gpu_native(gpu)); /* what is between the rows stays */
    CHECK_OK(sluice_convert(host, &to->array, &from->array, how, &here));
    CHECK_OK(sluice_convert(gpu, &to_gpu, &from_gpu, how, &there));
    CU(MemcpyDtoHAsync, got, to->gpu, to->bytes, gpu_native(gpu));
    CHECK_OK(sluice_stream_synchronize(gpu));
    CHECK_MEM(&here, &there, sizeof here);
    compare(to, got);
    free(got);
}

/* ---- the tests ---- */

struct stage {
    struct sluice_device host, gpu;
    struct sluice_stream on_host, stream;
};

static struct stage prepare(void)
{
    struct stage stage;

    gpu_begin();
    gpu_use(0);
    if (gpu_is_fake())
        TEST_KEEPS_FDS(); /* the fake driver keeps each image open */
    for (int i = 0; i < 2; i++)
        places[i] = gpu_memory(PLACE);
    stage.gpu = gpu_open();
    CHECK_OK(sluice_stream_create(stage.gpu, NULL, &stage.stream));
    CHECK_OK(sluice_device_open(&stage.host, "host"));
    CHECK_OK(sluice_stream_default(stage.host, &stage.on_host));
    return stage;
}

static void finish(struct stage *stage)
{
    CHECK_OK(sluice_device_close(&stage->gpu));
    CHECK_OK(sluice_device_close(&stage->host));
    gpu_end();
}

static const uint32_t formats[] = {
    SLUICE_PIXEL_RGBA,    SLUICE_PIXEL_BGRA,      SLUICE_PIXEL_RGB24,   SLUICE_PIXEL_BGR24,    SLUICE_PIXEL_GRAY8,
    SLUICE_PIXEL_GRAY16,  SLUICE_PIXEL_GRAY_F32,  SLUICE_PIXEL_NV12,    SLUICE_PIXEL_YUV420P,  SLUICE_PIXEL_P010,
    SLUICE_PIXEL_YUYV,    SLUICE_PIXEL_UYVY,      SLUICE_PIXEL_YUV444P, SLUICE_PIXEL_RGBA_F16, SLUICE_PIXEL_RGBA_F32,
    SLUICE_PIXEL_YUV422P, SLUICE_PIXEL_YUV422P10, SLUICE_PIXEL_RGBA64,
};
#define FORMATS (sizeof formats / sizeof *formats)

static void any_settings(struct sluice_convert *how)
{
    *how = (struct sluice_convert)SLUICE_CONVERT_INIT;
    how->fit = some(3);
    how->filter = some(3);
    how->flip = some(4);
    how->chroma = some(4);
    how->border[0] = 0.25f;
}

TEST_TIMEOUT(all_pairs_of_formats_as_on_the_cpu, 120)
{
    static const uint32_t sizes[][2] = { { 2, 2 }, { 34, 18 }, { 130, 66 }, { 64, 40 } };
    struct stage stage = prepare();
    struct sluice_convert how;

    for (size_t i = 0; i < FORMATS * FORMATS; i++) {
        const uint32_t *a = sizes[some(4)], *b = some(3) ? sizes[some(4)] : a;
        struct picture from = image(formats[i / FORMATS], a[0], a[1]), to = image(formats[i % FORMATS], b[0], b[1]);
        any_settings(&how);
        convert_both(stage.on_host, stage.stream, &to, &from, &how);
        free(from.array.data);
        free(to.array.data);
    }
    finish(&stage);
}

/* The formats and sizes that have kernels of their own, beside some that just have none. */
static const uint32_t fast[] = { SLUICE_PIXEL_RGBA, SLUICE_PIXEL_BGRA, SLUICE_PIXEL_NV12 };

static struct picture fast_image(uint32_t format, uint32_t width, uint32_t height)
{
    struct picture picture = image(format, width, height);

    picture.array.image.alpha = (uint8_t)some(4);
    picture.array.image.colour.range = some(2) ? 0 : picture.array.image.colour.range;
    return picture;
}

TEST_TIMEOUT(pixels_that_stay_as_on_the_cpu, 120)
{
    struct stage stage = prepare();

    for (int i = 0; i < 9 * 24; i++) {
        struct sluice_convert how = SLUICE_CONVERT_INIT;
        uint32_t width = some(4) ? 4 + 4 * some(48) : 2 + 2 * some(96), height = 2 + 2 * some(24);
        uint32_t left = 2 * some(5), top = some(5), beyond = 2 * some(4);
        struct picture from = fast_image(fast[i % 3], left + width + beyond, (top + height + beyond + 1) / 2 * 2);
        struct picture to = fast_image(fast[i / 3 % 3], width, height);
        how.crop = (struct sluice_crop){ left, top, width, height };
        how.chroma = some(4);
        convert_both(stage.on_host, stage.stream, &to, &from, &how);
        free(from.array.data);
        free(to.array.data);
    }
    finish(&stage);
}

/* A tensor's numbers, as a network gives them: some beyond what a picture has, some NaN. */
static void fill_tensor(struct picture *picture)
{
    static const uint16_t halves[] = { 0x7e00 /* NaN */, 0x7c00, 0xfc00, 0x8000, 0xbc00, 0x4000 };
    unsigned char *bytes = picture->array.data;

    for (size_t i = 0; i < picture->bytes / 2 && picture->array.dtype.bits == 16; i++)
        ((uint16_t *)bytes)[i] = some(16) ? (uint16_t)some(0x3c01) : halves[some(6)];
    for (size_t i = 0; i < picture->bytes / 4 && picture->array.dtype.bits == 32; i++)
        ((float *)bytes)[i] = some(16) ? (float)some(1000) / 999 : some(2) ? NAN : (float)some(5) - 2;
}

TEST_TIMEOUT(tensors_that_stay_as_on_the_cpu, 120)
{
    static const uint32_t with_tensors[] = { SLUICE_PIXEL_RGBA, SLUICE_PIXEL_BGRA, SLUICE_PIXEL_GRAY8 };
    struct stage stage = prepare();

    for (int i = 0; i < 96; i++) {
        struct sluice_convert how = SLUICE_CONVERT_INIT;
        uint32_t width = 4 * (1 + some(24)), height = 1 + some(20), left = some(3) ? 4 * some(3) : some(5);
        uint32_t bits = i % 2 ? 16 : 32, beyond = some(2) * 4;
        bool back = some(2);
        struct picture from = back ? tensor(SLUICE_FLOAT, bits, left + width + beyond, height + 3)
                                   : fast_image(with_tensors[some(3)], left + width + beyond, height + 3);
        struct picture to =
            back ? fast_image(with_tensors[some(2)], width, height) : tensor(SLUICE_FLOAT, bits, width, height);
        if (back)
            fill_tensor(&from);
        how.crop = (struct sluice_crop){ left, some(4), width, height };
        how.layout = SLUICE_LAYOUT_CHW;
        how.order = some(2);
        for (int c = 0; c < 4; c++) {
            how.scale[c] = (float)(1 + some(2));
            how.bias[c] = -(float)some(2);
        }
        convert_both(stage.on_host, stage.stream, &to, &from, &how);
        free(from.array.data);
        free(to.array.data);
    }
    finish(&stage);
}

TEST_TIMEOUT(smaller_and_larger_as_on_the_cpu, 120)
{
    static const uint32_t widths[] = { 6, 40, 130, 700 };
    struct stage stage = prepare();
    struct sluice_convert how;

    for (int i = 0; i < 3 * 24; i++) {
        struct picture from = fast_image(fast[i % 3], widths[some(4)], 2 + 2 * some(40));
        struct picture to = some(2) ? tensor(SLUICE_FLOAT, 32, 1 + some(130), 1 + some(40))
                                    : fast_image(fast[some(3)], 2 + 2 * some(65), 2 + 2 * some(20));
        any_settings(&how);
        how.filter = some(2) ? SLUICE_FILTER_SMOOTH : SLUICE_FILTER_LINEAR;
        how.layout = SLUICE_LAYOUT_CHW;
        convert_both(stage.on_host, stage.stream, &to, &from, &how);
        free(from.array.data);
        free(to.array.data);
    }
    finish(&stage);
}

TEST_TIMEOUT(to_tensors_and_back_as_on_the_cpu, 120)
{
    struct stage stage = prepare();
    struct sluice_convert how;

    for (size_t i = 0; i < FORMATS; i++) {
        struct picture from = image(formats[i], 66, 38);
        struct picture to = i % 3 == 0   ? tensor(SLUICE_UINT, 8, 41, 23)
                            : i % 3 == 1 ? tensor(SLUICE_FLOAT, 16, 41, 23)
                                         : tensor(SLUICE_FLOAT, 32, 41, 23);
        any_settings(&how);
        how.layout = SLUICE_LAYOUT_CHW;
        how.order = some(2);
        for (int c = 0; c < 4; c++) {
            how.scale[c] = 0.5f;
            how.bias[c] = 0.25f;
        }
        convert_both(stage.on_host, stage.stream, &to, &from, &how);
        struct picture back = image(formats[i], 66, 38); /* where `from` was */
        convert_both(stage.on_host, stage.stream, &back, &to, &how);
        free(from.array.data);
        free(to.array.data);
        free(back.array.data);
    }
    finish(&stage);
}

TEST_TIMEOUT(becomes_a_node_of_a_graph, 60)
{
    struct stage stage = prepare();
    struct picture from = image(SLUICE_PIXEL_NV12, 64, 32), to = image(SLUICE_PIXEL_RGBA, 64, 32);
    struct sluice_array to_gpu = on_gpu(&to), from_gpu = on_gpu(&from);
    struct sluice_graph graph = { 0 };
    void *got = malloc(to.bytes);

    CHECK(got);
    CHECK_OK(sluice_capture_begin(stage.stream)); /* the code is loaded meanwhile */
    CHECK_OK(sluice_convert(stage.stream, &to_gpu, &from_gpu, NULL, NULL));
    CHECK_OK(sluice_capture_end(stage.stream, &graph));
    for (int i = 0; i < 2; i++) {
        fill(&from);
        CU(MemcpyHtoDAsync, from.gpu, from.array.data, from.bytes, gpu_native(stage.stream));
        CHECK_OK(sluice_graph_launch(graph, stage.stream));
        CU(MemcpyDtoHAsync, got, to.gpu, to.bytes, gpu_native(stage.stream));
        CHECK_OK(sluice_stream_synchronize(stage.stream));
        CHECK_OK(sluice_convert(stage.on_host, &to.array, &from.array, NULL, NULL));
        compare(&to, got);
    }
    CHECK_OK(sluice_graph_destroy(&graph));
    free(got);
    free(from.array.data);
    free(to.array.data);
    finish(&stage);
}

TEST(host_memory_is_refused_before_it_kills_the_context)
{
    struct stage stage = prepare();
    struct picture from = image(SLUICE_PIXEL_RGBA, 16, 16), to = image(SLUICE_PIXEL_RGBA, 8, 8);
    struct sluice_array to_gpu = on_gpu(&to), from_gpu = on_gpu(&from);

    CHECK_SAYS(sluice_convert(stage.stream, &to_gpu, &from.array, NULL, NULL), SLUICE_E_INVALID, "`from` is in host");
    CHECK_SAYS(sluice_convert(stage.stream, &to.array, &from_gpu, NULL, NULL), SLUICE_E_INVALID, "`to` is in host");
    CHECK_OK(sluice_convert(stage.stream, &to_gpu, &from_gpu, NULL, NULL));
    CHECK_OK(sluice_stream_synchronize(stage.stream));
    free(from.array.data);
    free(to.array.data);
    finish(&stage);
}
