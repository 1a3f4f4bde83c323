/* SPDX-License-Identifier: MIT
 *
 * A table describes where each pixel format stores its components.
 */
#include "pixels.h"

#include <math.h>
#include <string.h>

enum kind { KIND_RGB, KIND_YUV, KIND_GRAY, KIND_BAYER };
enum sample { SAMPLE_8, SAMPLE_16, SAMPLE_10_HIGH, SAMPLE_F16, SAMPLE_F32 };

struct component {
    uint8_t plane;
    uint8_t step;   /* bytes from one sample to the next */
    uint8_t offset; /* of the first */
    uint8_t shift_x, shift_y;
};

struct pixel_layout {
    uint32_t format;
    enum kind kind;
    enum sample sample;
    unsigned count;
    struct component component[4]; /* R G B A, Y U V, or one */
    char pattern[5];               /* Bayer: two pixels of the first row, two of the second */
};

#define PACKED(step, a, b, c, d) \
    { \
        { 0, step, a, 0, 0 }, { 0, step, b, 0, 0 }, { 0, step, c, 0, 0 }, \
        { \
            0, step, d, 0, 0 \
        } \
    }
#define SINGLE(step) \
    { \
        { \
            0, step, 0, 0, 0 \
        } \
    }
#define BAYER(name, letters) \
    { SLUICE_PIXEL_BAYER_##name##8, KIND_BAYER, SAMPLE_8, 1, SINGLE(1), letters }, \
    { \
        SLUICE_PIXEL_BAYER_##name##16, KIND_BAYER, SAMPLE_16, 1, SINGLE(2), letters \
    }

/* clang-format off */
static const struct pixel_layout layouts[] = {
    { SLUICE_PIXEL_RGBA, KIND_RGB, SAMPLE_8, 4, PACKED(4, 0, 1, 2, 3), "" },
    { SLUICE_PIXEL_BGRA, KIND_RGB, SAMPLE_8, 4, PACKED(4, 2, 1, 0, 3), "" },
    { SLUICE_PIXEL_RGB24, KIND_RGB, SAMPLE_8, 3, PACKED(3, 0, 1, 2, 0), "" },
    { SLUICE_PIXEL_BGR24, KIND_RGB, SAMPLE_8, 3, PACKED(3, 2, 1, 0, 0), "" },
    { SLUICE_PIXEL_RGBA_F16, KIND_RGB, SAMPLE_F16, 4, PACKED(8, 0, 2, 4, 6), "" },
    { SLUICE_PIXEL_RGBA_F32, KIND_RGB, SAMPLE_F32, 4, PACKED(16, 0, 4, 8, 12), "" },
    { SLUICE_PIXEL_GRAY8, KIND_GRAY, SAMPLE_8, 1, SINGLE(1), "" },
    { SLUICE_PIXEL_GRAY16, KIND_GRAY, SAMPLE_16, 1, SINGLE(2), "" },
    { SLUICE_PIXEL_GRAY_F32, KIND_GRAY, SAMPLE_F32, 1, SINGLE(4), "" },
    { SLUICE_PIXEL_YUYV, KIND_YUV, SAMPLE_8, 3,
      { { 0, 2, 0, 0, 0 }, { 0, 4, 1, 1, 0 }, { 0, 4, 3, 1, 0 } }, "" },
    { SLUICE_PIXEL_UYVY, KIND_YUV, SAMPLE_8, 3,
      { { 0, 2, 1, 0, 0 }, { 0, 4, 0, 1, 0 }, { 0, 4, 2, 1, 0 } }, "" },
    { SLUICE_PIXEL_NV12, KIND_YUV, SAMPLE_8, 3,
      { { 0, 1, 0, 0, 0 }, { 1, 2, 0, 1, 1 }, { 1, 2, 1, 1, 1 } }, "" },
    { SLUICE_PIXEL_YUV420P, KIND_YUV, SAMPLE_8, 3,
      { { 0, 1, 0, 0, 0 }, { 1, 1, 0, 1, 1 }, { 2, 1, 0, 1, 1 } }, "" },
    { SLUICE_PIXEL_P010, KIND_YUV, SAMPLE_10_HIGH, 3,
      { { 0, 2, 0, 0, 0 }, { 1, 4, 0, 1, 1 }, { 1, 4, 2, 1, 1 } }, "" },
    { SLUICE_PIXEL_YUV444P, KIND_YUV, SAMPLE_8, 3,
      { { 0, 1, 0, 0, 0 }, { 1, 1, 0, 0, 0 }, { 2, 1, 0, 0, 0 } }, "" },
    BAYER(RGGB, "RGGB"),
    BAYER(BGGR, "BGGR"),
    BAYER(GRBG, "GRBG"),
    BAYER(GBRG, "GBRG"),
};
/* clang-format on */

float pixels_half(uint16_t half)
{
    unsigned exponent = half >> 10 & 31, fraction = half & 1023;
    float sign = half & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexpf((float)fraction, -24);
    return sign * ldexpf((float)(fraction + 1024), (int)exponent - 25);
}

uint16_t pixels_to_half(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    float size = fabsf(value);
    int exponent;
    if (isnan(value))
        return 0x7E00;
    if (size >= 65520.0f)
        return sign | 0x7C00;
    frexpf(size, &exponent); /* size = [0.5, 1) * 2^exponent */
    if (size < ldexpf(1.0f, -14))
        return (uint16_t)(sign | (uint16_t)lrintf(ldexpf(size, 24)));
    unsigned rounded = (unsigned)lrintf(ldexpf(size, 11 - exponent)); /* 1024 to 2048 */
    return (uint16_t)(sign | (rounded - 1024 + ((unsigned)(exponent + 14) << 10)));
}

uint8_t pixels_default_matrix(uint32_t height)
{
    return height >= 720 ? 1 : 6;
}

static void choose_matrix(struct pixels *pixels, const struct sluice_image *image)
{
    unsigned matrix = image->colour.matrix;
    if (matrix == 0)
        matrix = pixels_default_matrix(image->height);
    pixels->rgb_matrix = matrix == SLUICE_MATRIX_RGB;
    switch (matrix) {
    case 1:
        pixels->kr = 0.2126f;
        pixels->kb = 0.0722f;
        break;
    case 7:
        pixels->kr = 0.212f;
        pixels->kb = 0.087f;
        break;
    case 9:
    case 10:
        pixels->kr = 0.2627f;
        pixels->kb = 0.0593f;
        break;
    default:
        pixels->kr = 0.299f;
        pixels->kb = 0.114f;
        break;
    }
}

static void choose_range(struct pixels *pixels, const struct sluice_image *image)
{
    bool yuv = pixels->layout->kind == KIND_YUV;
    bool integer = pixels->layout->sample <= SAMPLE_10_HIGH;
    bool limited = image->colour.range == SLUICE_RANGE_LIMITED || (image->colour.range == SLUICE_RANGE_UNKNOWN && yuv);
    if (!limited || !integer) {
        pixels->black = 0;
        pixels->luma = 1;
        pixels->chroma = 1;
        return;
    }
    /* 16 to 235 and 16 to 240 of 8 bits, shifted for more. */
    float unit = pixels->layout->sample == SAMPLE_8         ? 1.0f / 255
                 : pixels->layout->sample == SAMPLE_10_HIGH ? 4.0f / 1023
                                                            : 256.0f / 65535;
    pixels->black = 16 * unit;
    pixels->luma = 219 * unit;
    pixels->chroma = (pixels->rgb_matrix ? 219 : 224) * unit;
}

static const struct pixel_layout *find_layout(uint32_t format)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i].format == format)
            return &layouts[i];
    return NULL;
}

bool pixels_plane(const struct sluice_image *image, uint32_t plane, uint64_t *row, uint64_t *rows)
{
    const struct pixel_layout *layout = find_layout(image->pixel_format);
    for (unsigned i = 0; layout && i < layout->count; i++) {
        const struct component *c = &layout->component[i];
        if (c->plane != plane)
            continue;
        *row = (uint64_t)(image->width >> c->shift_x) * c->step;
        *rows = image->height >> c->shift_y;
        return true;
    }
    return false;
}

bool pixels_open(struct pixels *pixels, const struct sluice_array *array)
{
    const struct sluice_image *image = &array->image;
    *pixels = (struct pixels){ .base = array->data, .width = image->width, .height = image->height };
    pixels->layout = find_layout(image->pixel_format);
    if (!pixels->layout || !array->data)
        return false;
    memcpy(pixels->planes, image->planes, sizeof pixels->planes);
    pixels->bottom_up = image->row_order == SLUICE_BOTTOM_UP;
    pixels->premultiplied = image->alpha == SLUICE_ALPHA_PREMULTIPLIED;
    bool alpha = pixels->layout->count == 4 && image->alpha != SLUICE_ALPHA_OPAQUE;
    pixels->channels = pixels->layout->kind == KIND_GRAY ? 1 : alpha ? 4 : 3;
    pixels->bits = pixels->layout->sample == SAMPLE_16 ? 16 : 8;
    choose_matrix(pixels, image);
    choose_range(pixels, image);
    return true;
}

static uint8_t *sample_at(const struct pixels *p, const struct component *c, uint32_t x, uint32_t row)
{
    const struct sluice_plane *plane = &p->planes[c->plane];
    return p->base + plane->offset + (uint64_t)(row >> c->shift_y) * plane->pitch +
           (uint64_t)(x >> c->shift_x) * c->step + c->offset;
}

static float load(enum sample sample, const uint8_t *at)
{
    uint16_t word;
    float value;
    switch (sample) {
    case SAMPLE_8: return (float)at[0] / 255;
    case SAMPLE_16: memcpy(&word, at, 2); return (float)word / 65535;
    case SAMPLE_10_HIGH: memcpy(&word, at, 2); return (float)(word >> 6) / 1023;
    case SAMPLE_F16: memcpy(&word, at, 2); return pixels_half(word);
    case SAMPLE_F32: break;
    }
    memcpy(&value, at, 4);
    return value;
}

static float clamp(float value)
{
    return value > 0 ? value < 1 ? value : 1 : 0; /* NaN is 0 */
}

static void store(enum sample sample, uint8_t *at, float value)
{
    uint16_t word = 0;
    switch (sample) {
    case SAMPLE_8: at[0] = (uint8_t)(clamp(value) * 255 + 0.5f); return;
    case SAMPLE_16: word = (uint16_t)(clamp(value) * 65535 + 0.5f); break;
    case SAMPLE_10_HIGH: word = (uint16_t)((unsigned)(clamp(value) * 1023 + 0.5f) << 6); break;
    case SAMPLE_F16: word = pixels_to_half(value); break;
    case SAMPLE_F32: memcpy(at, &value, 4); return;
    }
    memcpy(at, &word, 2);
}

static unsigned bayer_colour(const struct pixel_layout *layout, uint32_t x, uint32_t row)
{
    char letter = layout->pattern[(row & 1) * 2 + (x & 1)];
    return letter == 'R' ? 0 : letter == 'G' ? 1 : 2;
}

static void get_bayer(const struct pixels *p, uint32_t x, uint32_t row, float rgb[3])
{
    float sum[3] = { 0 };
    unsigned count[3] = { 0 }, own = bayer_colour(p->layout, x, row);
    for (uint32_t j = row ? row - 1 : 0; j <= row + 1 && j < p->height; j++)
        for (uint32_t i = x ? x - 1 : 0; i <= x + 1 && i < p->width; i++) {
            unsigned colour = bayer_colour(p->layout, i, j);
            if (colour == own && (i != x || j != row))
                continue;
            sum[colour] += load(p->layout->sample, sample_at(p, &p->layout->component[0], i, j));
            count[colour]++;
        }
    for (unsigned i = 0; i < 3; i++)
        rgb[i] = count[i] ? sum[i] / (float)count[i] : 0;
}

static void get_yuv(const struct pixels *p, const float c[3], float rgb[3])
{
    float y = (c[0] - p->black) / p->luma;
    if (p->rgb_matrix) {
        rgb[1] = y;
        rgb[2] = (c[1] - p->black) / p->chroma;
        rgb[0] = (c[2] - p->black) / p->chroma;
        return;
    }
    bool ten = p->layout->sample == SAMPLE_10_HIGH;
    float middle = ten ? 512.0f / 1023 : 128.0f / 255;
    float u = (c[1] - middle) / p->chroma, v = (c[2] - middle) / p->chroma;
    rgb[0] = y + 2 * (1 - p->kr) * v;
    rgb[2] = y + 2 * (1 - p->kb) * u;
    rgb[1] = (y - p->kr * rgb[0] - p->kb * rgb[2]) / (1 - p->kr - p->kb);
}

void pixels_get(const struct pixels *p, uint32_t x, uint32_t y, float rgba[4])
{
    const struct pixel_layout *layout = p->layout;
    uint32_t row = p->bottom_up ? p->height - 1 - y : y;
    float c[4] = { 0, 0, 0, 1 };
    if (layout->kind == KIND_BAYER) {
        get_bayer(p, x, row, c);
    } else {
        for (unsigned i = 0; i < layout->count; i++)
            c[i] = load(layout->sample, sample_at(p, &layout->component[i], x, row));
    }
    if (layout->kind == KIND_GRAY)
        c[1] = c[2] = c[0];
    if (layout->kind == KIND_YUV) {
        get_yuv(p, c, rgba);
    } else {
        for (unsigned i = 0; i < 3; i++)
            rgba[i] = (c[i] - p->black) / p->luma;
    }
    rgba[3] = layout->count == 4 ? c[3] : 1;
    if (p->premultiplied && layout->count == 4 && c[3] > 0)
        for (unsigned i = 0; i < 3; i++)
            rgba[i] /= c[3];
}

static void put_yuv(const struct pixels *p, const float rgb[3], float c[3])
{
    if (p->rgb_matrix) {
        c[0] = p->black + p->luma * rgb[1];
        c[1] = p->black + p->chroma * rgb[2];
        c[2] = p->black + p->chroma * rgb[0];
        return;
    }
    float y = p->kr * rgb[0] + (1 - p->kr - p->kb) * rgb[1] + p->kb * rgb[2];
    float middle = p->layout->sample == SAMPLE_10_HIGH ? 512.0f / 1023 : 128.0f / 255;
    c[0] = p->black + p->luma * y;
    c[1] = middle + p->chroma * (rgb[2] - y) / (2 * (1 - p->kb));
    c[2] = middle + p->chroma * (rgb[0] - y) / (2 * (1 - p->kr));
}

void pixels_put(const struct pixels *p, uint32_t x, uint32_t y, const float rgba[4])
{
    const struct pixel_layout *layout = p->layout;
    uint32_t row = p->bottom_up ? p->height - 1 - y : y;
    float c[4] = { rgba[0], rgba[1], rgba[2], rgba[3] };
    if (layout->kind == KIND_YUV)
        put_yuv(p, rgba, c);
    else if (layout->kind == KIND_GRAY)
        c[0] = 0.2126f * rgba[0] + 0.7152f * rgba[1] + 0.0722f * rgba[2];
    else if (layout->kind == KIND_BAYER)
        c[0] = rgba[bayer_colour(layout, x, row)];
    if (layout->kind != KIND_YUV)
        for (unsigned i = 0; i < 3; i++)
            c[i] = p->black + p->luma * c[i] * (p->premultiplied ? rgba[3] : 1);
    for (unsigned i = 0; i < layout->count; i++)
        store(layout->sample, sample_at(p, &layout->component[i], x, row), c[i]);
}

void pixels_row(const struct pixels *p, uint32_t y, uint8_t *out)
{
    for (uint32_t x = 0; x < p->width; x++) {
        float rgba[4];
        pixels_get(p, x, y, rgba);
        for (unsigned i = 0; i < p->channels; i++) {
            float value = clamp(rgba[i]);
            if (p->bits == 16) {
                unsigned word = (unsigned)(value * 65535 + 0.5f);
                *out++ = (uint8_t)(word >> 8);
                *out++ = (uint8_t)word;
            } else {
                *out++ = (uint8_t)(value * 255 + 0.5f);
            }
        }
    }
}
