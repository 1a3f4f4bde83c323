/* SPDX-License-Identifier: MIT
 *
 * A table of raw pixel formats, and the conversions of those that NUT has no tag for.
 */
#include "raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "pixels.h"

#define TAG(a, b, c, d) ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

/* clang-format off */
static const struct raw_format formats[] = {
    { "yuv420p", TAG('I', '4', '2', '0'), RAW_YUV, 8, false },
    { "yuv422p", TAG('Y', '4', '2', 'B'), RAW_YUV, 8, false },
    { "yuv444p", TAG('4', '4', '4', 'P'), RAW_YUV, 8, false },
    { "yuv440p", TAG('4', '4', '0', 'P'), RAW_YUV, 8, false },
    { "yuv411p", TAG('Y', '4', '1', 'B'), RAW_YUV, 8, false },
    { "yuv410p", TAG('Y', 'U', 'V', '9'), RAW_YUV, 8, false },
    { "yuvj420p", TAG('I', '4', '2', '0'), RAW_YUV, 8, false },
    { "yuvj422p", TAG('Y', '4', '2', 'B'), RAW_YUV, 8, false },
    { "yuvj444p", TAG('4', '4', '4', 'P'), RAW_YUV, 8, false },
    { "yuvj440p", TAG('4', '4', '0', 'P'), RAW_YUV, 8, false },
    { "nv12", TAG('N', 'V', '1', '2'), RAW_YUV, 8, false },
    { "nv21", TAG('N', 'V', '2', '1'), RAW_YUV, 8, false },
    { "yuyv422", TAG('Y', 'U', 'Y', '2'), RAW_YUV, 8, false },
    { "uyvy422", TAG('U', 'Y', 'V', 'Y'), RAW_YUV, 8, false },
    { "yuva420p", TAG('Y', '4', 11, 8), RAW_YUV, 8, true },
    { "yuva422p", TAG('Y', '4', 10, 8), RAW_YUV, 8, true },
    { "yuva444p", TAG('Y', '4', 0, 8), RAW_YUV, 8, true },
    { "yuv420p10le", TAG('Y', '3', 11, 10), RAW_YUV, 10, false },
    { "yuv422p10le", TAG('Y', '3', 10, 10), RAW_YUV, 10, false },
    { "yuv444p10le", TAG('Y', '3', 0, 10), RAW_YUV, 10, false },
    { "yuv420p12le", TAG('Y', '3', 11, 12), RAW_YUV, 12, false },
    { "yuv422p12le", TAG('Y', '3', 10, 12), RAW_YUV, 12, false },
    { "yuv444p12le", TAG('Y', '3', 0, 12), RAW_YUV, 12, false },
    { "yuv420p16le", TAG('Y', '3', 11, 16), RAW_YUV, 16, false },
    { "yuv422p16le", TAG('Y', '3', 10, 16), RAW_YUV, 16, false },
    { "yuv444p16le", TAG('Y', '3', 0, 16), RAW_YUV, 16, false },
    { "yuva420p10le", TAG('Y', '4', 11, 10), RAW_YUV, 10, true },
    { "yuva422p10le", TAG('Y', '4', 10, 10), RAW_YUV, 10, true },
    { "yuva444p10le", TAG('Y', '4', 0, 10), RAW_YUV, 10, true },
    { "yuva422p12le", TAG('Y', '4', 10, 12), RAW_YUV, 12, true },
    { "yuva444p12le", TAG('Y', '4', 0, 12), RAW_YUV, 12, true },
    { "yuva444p16le", TAG('Y', '4', 0, 16), RAW_YUV, 16, true },
    { "gray", TAG('Y', '8', '0', '0'), RAW_GRAY, 8, false },
    { "gray10le", TAG('Y', '1', 0, 10), RAW_GRAY, 10, false },
    { "gray12le", TAG('Y', '1', 0, 12), RAW_GRAY, 12, false },
    { "gray16le", TAG('Y', '1', 0, 16), RAW_GRAY, 16, false },
    { "ya8", TAG('Y', '2', 0, 8), RAW_GRAY, 8, true },
    { "rgb24", TAG('R', 'G', 'B', 24), RAW_RGB, 8, false },
    { "bgr24", TAG('B', 'G', 'R', 24), RAW_RGB, 8, false },
    { "rgba", TAG('R', 'G', 'B', 'A'), RAW_RGB, 8, true },
    { "bgra", TAG('B', 'G', 'R', 'A'), RAW_RGB, 8, true },
    { "argb", TAG('A', 'R', 'G', 'B'), RAW_RGB, 8, true },
    { "abgr", TAG('A', 'B', 'G', 'R'), RAW_RGB, 8, true },
    { "rgb0", TAG('R', 'G', 'B', 0), RAW_RGB, 8, false },
    { "bgr0", TAG('B', 'G', 'R', 0), RAW_RGB, 8, false },
    { "rgb48le", TAG('R', 'G', 'B', '0'), RAW_RGB, 16, false },
    { "rgba64le", TAG('R', 'B', 'A', '@'), RAW_RGB, 16, true },
    { "gbrp", TAG('G', '3', 0, 8), RAW_RGB, 8, false },
    { "gbrp10le", TAG('G', '3', 0, 10), RAW_RGB, 10, false },
    { "gbrp12le", TAG('G', '3', 0, 12), RAW_RGB, 12, false },
    { "gbrp16le", TAG('G', '3', 0, 16), RAW_RGB, 16, false },
    { "gbrap", TAG('G', '4', 0, 8), RAW_RGB, 8, true },
    { "gbrap10le", TAG('G', '4', 0, 10), RAW_RGB, 10, true },
    { "gbrap12le", TAG('G', '4', 0, 12), RAW_RGB, 12, true },
    { "gbrap16le", TAG('G', '4', 0, 16), RAW_RGB, 16, true },
};

/* ffmpeg reads these and does not write them. */
static const struct raw_format bayer[] = {
    { "bayer_bggr8", TAG(0xBA, 'B', 'G', 8), RAW_RGB, 8, false },
    { "bayer_rggb8", TAG(0xBA, 'R', 'G', 8), RAW_RGB, 8, false },
    { "bayer_gbrg8", TAG(0xBA, 'G', 'B', 8), RAW_RGB, 8, false },
    { "bayer_grbg8", TAG(0xBA, 'G', 'R', 8), RAW_RGB, 8, false },
    { "bayer_bggr16le", TAG(0xBA, 'B', 'G', 16), RAW_RGB, 16, false },
    { "bayer_rggb16le", TAG(0xBA, 'R', 'G', 16), RAW_RGB, 16, false },
    { "bayer_gbrg16le", TAG(0xBA, 'G', 'B', 16), RAW_RGB, 16, false },
    { "bayer_grbg16le", TAG(0xBA, 'G', 'R', 16), RAW_RGB, 16, false },
};
/* clang-format on */

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

const struct raw_format *raw_find(uint32_t tag)
{
    for (size_t i = 0; i < COUNT(formats); i++)
        if (formats[i].tag == tag)
            return &formats[i];
    return NULL;
}

static const struct raw_format *find_name(const char *name)
{
    for (size_t i = 0; i < COUNT(formats); i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    for (size_t i = 0; i < COUNT(bayer); i++)
        if (strcmp(bayer[i].name, name) == 0)
            return &bayer[i];
    return NULL;
}

char *raw_filter(char text[RAW_FILTER_SIZE])
{
    int size = snprintf(text, RAW_FILTER_SIZE, "format=");
    for (size_t i = 0; i < COUNT(formats); i++)
        size += snprintf(text + size, RAW_FILTER_SIZE - (size_t)size, "%s%s", i ? "|" : "", formats[i].name);
    return text;
}

/* ---- a channel's images ---- */

const struct raw_format *raw_of_channel(uint32_t pixel_format)
{
    switch (pixel_format) {
    case SLUICE_PIXEL_RGBA_F16:
    case SLUICE_PIXEL_RGBA_F32: return find_name("rgba64le");
    case SLUICE_PIXEL_GRAY_F32: return find_name("gray16le");
    case SLUICE_PIXEL_P010: return find_name("yuv420p10le");
    default: return find_name(sluice_pixel_format_name((enum sluice_pixel_format)pixel_format));
    }
}

static bool is_premultiplied(const struct sluice_image *image)
{
    const struct raw_format *raw = raw_of_channel(image->pixel_format);
    return raw && raw->alpha && image->alpha == SLUICE_ALPHA_PREMULTIPLIED;
}

bool raw_is_same(const struct sluice_image *image)
{
    uint32_t pixel_format = image->pixel_format;
    return !is_premultiplied(image) && pixel_format != SLUICE_PIXEL_RGBA_F16 && pixel_format != SLUICE_PIXEL_RGBA_F32 &&
           pixel_format != SLUICE_PIXEL_GRAY_F32 && pixel_format != SLUICE_PIXEL_P010;
}

uint64_t raw_size(const struct sluice_image *image)
{
    uint64_t total = 0, row, rows;
    for (uint32_t i = 0; pixels_plane(image, i, &row, &rows); i++)
        total += row * rows;
    return image->pixel_format == SLUICE_PIXEL_RGBA_F32 || image->pixel_format == SLUICE_PIXEL_GRAY_F32 ? total / 2
                                                                                                        : total;
}

static uint16_t from_float(float value)
{
    return value >= 1 ? 65535 : value > 0 ? (uint16_t)(value * 65535 + 0.5f) : 0; /* NaN is 0 */
}

/* Row 0 is the top row. */
static uint8_t *row_of(const struct sluice_array *image, unsigned plane, uint32_t y)
{
    const struct sluice_plane *p = &image->image.planes[plane];
    uint64_t row, rows;
    if (image->image.row_order == SLUICE_BOTTOM_UP && pixels_plane(&image->image, plane, &row, &rows))
        y = (uint32_t)rows - 1 - y;
    return (uint8_t *)image->data + p->offset + (uint64_t)y * p->pitch;
}

/* The words of a row, and how they are stored in the channel. */
static void convert_row(uint16_t *raw, uint8_t *row, uint32_t words, uint32_t format, bool to_image)
{
    for (uint32_t i = 0; i < words; i++) {
        if (format == SLUICE_PIXEL_RGBA_F16) {
            uint16_t half = to_image ? half_from_float((float)raw[i] / 65535) : 0;
            if (to_image) {
                memcpy(row + i * 2, &half, 2);
            } else {
                memcpy(&half, row + i * 2, 2);
                raw[i] = from_float(half_to_float(half));
            }
        } else {
            float value = to_image ? (float)raw[i] / 65535 : 0;
            if (to_image) {
                memcpy(row + i * 4, &value, 4);
            } else {
                memcpy(&value, row + i * 4, 4);
                raw[i] = from_float(value);
            }
        }
    }
}

/* Planes of 10 low bits, as yuv420p10le has them, and Y plus UV with the bits on top. */
static void convert_p010(uint16_t *raw, const struct sluice_array *image, bool to_image)
{
    uint32_t width = image->image.width, height = image->image.height;
    uint16_t *u = raw + (uint64_t)width * height, *v = u + (uint64_t)(width / 2) * (height / 2);
    for (uint32_t y = 0; y < height; y++, raw += width) {
        uint16_t *row = (uint16_t *)(void *)row_of(image, 0, y);
        for (uint32_t x = 0; x < width; x++)
            if (to_image)
                row[x] = (uint16_t)(raw[x] << 6);
            else
                raw[x] = row[x] >> 6;
    }
    for (uint32_t y = 0; y < height / 2; y++, u += width / 2, v += width / 2) {
        uint16_t *row = (uint16_t *)(void *)row_of(image, 1, y);
        for (uint32_t x = 0; x < width / 2; x++)
            if (to_image) {
                row[2 * x] = (uint16_t)(u[x] << 6);
                row[2 * x + 1] = (uint16_t)(v[x] << 6);
            } else {
                u[x] = row[2 * x] >> 6;
                v[x] = row[2 * x + 1] >> 6;
            }
    }
}

static void convert(uint8_t *bytes, const struct sluice_array *image, bool to_image)
{
    uint16_t *raw = (uint16_t *)(void *)bytes;
    uint32_t format = image->image.pixel_format;
    uint32_t words = image->image.width * (format == SLUICE_PIXEL_GRAY_F32 ? 1 : 4);
    if (format == SLUICE_PIXEL_P010) {
        convert_p010(raw, image, to_image);
        return;
    }
    for (uint32_t y = 0; y < image->image.height; y++, raw += words)
        convert_row(raw, row_of(image, 0, y), words, format, to_image);
}

void raw_to_image(const uint8_t *raw, const struct sluice_array *image)
{
    convert((uint8_t *)(uintptr_t)raw, image, true);
}

/* Videos have straight alpha. */
static bool from_premultiplied(uint8_t *raw, const struct sluice_array *image)
{
    uint32_t format = image->image.pixel_format;
    bool wide = format == SLUICE_PIXEL_RGBA_F16 || format == SLUICE_PIXEL_RGBA_F32;
    struct sluice_array straight = { 0 };
    bool done = pixels_alloc(&straight, wide ? SLUICE_PIXEL_RGBA_F32 : format, image->image.width,
                             image->image.height) == SLUICE_OK;
    straight.image.colour = image->image.colour;
    done = done && pixels_convert(&straight, image) == SLUICE_OK;
    if (done && wide)
        convert(raw, &straight, false);
    else if (done)
        memcpy(raw, straight.data, straight.nbytes);
    free(straight.data);
    return done;
}

bool raw_from_image(uint8_t *raw, const struct sluice_array *image)
{
    if (is_premultiplied(&image->image))
        return from_premultiplied(raw, image);
    convert(raw, image, false);
    return true;
}
