/* SPDX-License-Identifier: MIT
 *
 * A table describes the planes of each pixel format, and where Bayer patterns have their colours.
 */
#include "pixels.h"

#include <stdlib.h>
#include <string.h>

#define PLANES 3

struct layout {
    uint32_t format;
    uint8_t channels;     /* that can be seen */
    uint8_t step[PLANES]; /* bytes from one sample to the next; 0: there is no such plane */
    uint8_t halves_x, halves_y;
    char pattern[5]; /* Bayer: two pixels of the first row, two of the second */
};

#define BAYER(name, letters) \
    { SLUICE_PIXEL_BAYER_##name##8, 3, { 1 }, 0, 0, letters }, \
    { \
        SLUICE_PIXEL_BAYER_##name##16, 3, { 2 }, 0, 0, letters \
    }

/* clang-format off */
static const struct layout layouts[] = {
    { SLUICE_PIXEL_RGBA, 4, { 4 }, 0, 0, "" },
    { SLUICE_PIXEL_BGRA, 4, { 4 }, 0, 0, "" },
    { SLUICE_PIXEL_RGB24, 3, { 3 }, 0, 0, "" },
    { SLUICE_PIXEL_BGR24, 3, { 3 }, 0, 0, "" },
    { SLUICE_PIXEL_RGBA_F16, 4, { 8 }, 0, 0, "" },
    { SLUICE_PIXEL_RGBA_F32, 4, { 16 }, 0, 0, "" },
    { SLUICE_PIXEL_GRAY8, 1, { 1 }, 0, 0, "" },
    { SLUICE_PIXEL_GRAY16, 1, { 2 }, 0, 0, "" },
    { SLUICE_PIXEL_GRAY_F32, 1, { 4 }, 0, 0, "" },
    { SLUICE_PIXEL_YUYV, 3, { 2 }, 0, 0, "" },
    { SLUICE_PIXEL_UYVY, 3, { 2 }, 0, 0, "" },
    { SLUICE_PIXEL_NV12, 3, { 1, 2 }, 1, 1, "" },
    { SLUICE_PIXEL_YUV420P, 3, { 1, 1, 1 }, 1, 1, "" },
    { SLUICE_PIXEL_P010, 3, { 2, 4 }, 1, 1, "" },
    { SLUICE_PIXEL_YUV444P, 3, { 1, 1, 1 }, 0, 0, "" },
    { SLUICE_PIXEL_YUV422P, 3, { 1, 1, 1 }, 1, 0, "" },
    { SLUICE_PIXEL_YUV422P10, 3, { 2, 2, 2 }, 1, 0, "" },
    { SLUICE_PIXEL_RGBA64, 4, { 8 }, 0, 0, "" },
    BAYER(RGGB, "RGGB"),
    BAYER(BGGR, "BGGR"),
    BAYER(GRBG, "GRBG"),
    BAYER(GBRG, "GBRG"),
};
/* clang-format on */

static const struct layout *find_layout(uint32_t format)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i].format == format)
            return &layouts[i];
    return NULL;
}

uint8_t pixels_default_matrix(uint32_t height)
{
    return height >= 720 ? 1 : 6;
}

bool pixels_plane(const struct sluice_image *image, uint32_t plane, uint64_t *row, uint64_t *rows)
{
    const struct layout *layout = find_layout(image->pixel_format);
    if (!layout || plane >= PLANES || !layout->step[plane])
        return false;
    *row = (uint64_t)(image->width >> (plane ? layout->halves_x : 0)) * layout->step[plane];
    *rows = image->height >> (plane ? layout->halves_y : 0);
    return true;
}

unsigned pixels_channels(const struct sluice_image *image)
{
    const struct layout *layout = find_layout(image->pixel_format);
    unsigned channels = layout ? layout->channels : 0;
    return channels == 4 && image->alpha == SLUICE_ALPHA_OPAQUE ? 3 : channels;
}

int pixels_alloc(struct sluice_array *array, uint32_t format, uint32_t width, uint32_t height)
{
    struct sluice_format one = SLUICE_FORMAT_INIT;
    int result = sluice_format_add_image(&one, "pixels", format, width, height);
    if (result < 0)
        return result;
    *array = one.arrays[0];
    if (pixels_channels(&array->image) == 4)
        array->image.alpha = SLUICE_ALPHA_STRAIGHT;
    array->data = calloc(1, array->nbytes);
    return array->data ? SLUICE_OK : SLUICE_E_NO_MEMORY;
}

/* ---- where pixels are ---- */

/* Row 0 is the top row. */
static uint8_t *row_of(const struct sluice_array *array, uint32_t plane, uint64_t y)
{
    const struct sluice_image *image = &array->image;
    uint64_t row, rows;
    if (image->row_order == SLUICE_BOTTOM_UP && pixels_plane(image, plane, &row, &rows))
        y = rows - 1 - y;
    return (uint8_t *)array->data + image->planes[plane].offset + y * image->planes[plane].pitch;
}

void pixels_put(const struct sluice_array *to, uint32_t x, uint32_t y, const struct sluice_array *from)
{
    const struct sluice_image before = { .pixel_format = to->image.pixel_format, .width = x, .height = y };
    uint64_t row, rows, left, top;
    for (uint32_t i = 0; pixels_plane(&from->image, i, &row, &rows) && pixels_plane(&before, i, &left, &top); i++)
        for (uint64_t j = 0; j < rows; j++)
            memcpy(row_of(to, i, top + j) + left, row_of(from, i, j), row);
}

/* ---- Bayer patterns, from and to RGB floats ---- */

static bool is_bayer(const struct sluice_array *array)
{
    const struct layout *layout = find_layout(array->image.pixel_format);
    return layout && layout->pattern[0];
}

static unsigned bayer_colour(const struct layout *layout, uint32_t x, uint32_t row)
{
    char letter = layout->pattern[(row & 1) * 2 + (x & 1)];
    return letter == 'R' ? 0 : letter == 'G' ? 1 : 2;
}

static float bayer_sample(const struct sluice_array *array, unsigned step, uint32_t x, uint32_t row)
{
    const uint8_t *at = (const uint8_t *)array->data + array->image.planes[0].offset +
                        row * array->image.planes[0].pitch + (uint64_t)x * step;
    uint16_t word;
    if (step == 1)
        return (float)at[0] / 255;
    memcpy(&word, at, sizeof word);
    return (float)word / 65535;
}

/* The samples of each colour among the pixel and its neighbours; of its own colour only the pixel itself. */
static void bayer_average(const struct sluice_array *array, const struct layout *layout, uint32_t x, uint32_t row,
                          float rgb[3])
{
    float sum[3] = { 0 };
    unsigned count[3] = { 0 }, own = bayer_colour(layout, x, row);
    for (uint32_t j = row ? row - 1 : 0; j <= row + 1 && j < array->image.height; j++)
        for (uint32_t i = x ? x - 1 : 0; i <= x + 1 && i < array->image.width; i++) {
            unsigned colour = bayer_colour(layout, i, j);
            if (colour == own && (i != x || j != row))
                continue;
            sum[colour] += bayer_sample(array, layout->step[0], i, j);
            count[colour]++;
        }
    for (unsigned i = 0; i < 3; i++)
        rgb[i] = count[i] ? sum[i] / (float)count[i] : 0;
}

static void bayer_to_floats(const struct sluice_array *array, float *rgba)
{
    const struct layout *layout = find_layout(array->image.pixel_format);
    for (uint32_t y = 0; y < array->image.height; y++) {
        uint32_t row = array->image.row_order == SLUICE_BOTTOM_UP ? array->image.height - 1 - y : y;
        for (uint32_t x = 0; x < array->image.width; x++, rgba += 4) {
            bayer_average(array, layout, x, row, rgba);
            rgba[3] = 1;
        }
    }
}

static void bayer_from_floats(const struct sluice_array *array, const float *rgba)
{
    const struct layout *layout = find_layout(array->image.pixel_format);
    unsigned step = layout->step[0];
    for (uint32_t y = 0; y < array->image.height; y++) {
        uint32_t row = array->image.row_order == SLUICE_BOTTOM_UP ? array->image.height - 1 - y : y;
        uint8_t *at = row_of(array, 0, y);
        for (uint32_t x = 0; x < array->image.width; x++, rgba += 4, at += step) {
            float value = rgba[bayer_colour(layout, x, row)];
            value = value > 0 ? value < 1 ? value : 1 : 0;
            uint16_t word = (uint16_t)(value * (step == 1 ? 255 : 65535) + 0.5f);
            if (step == 1)
                at[0] = (uint8_t)word;
            else
                memcpy(at, &word, sizeof word);
        }
    }
}

/* ---- conversions ---- */

static int convert(const struct sluice_array *to, const struct sluice_array *from)
{
    struct sluice_convert how = SLUICE_CONVERT_INIT;
    struct sluice_device host = { 0 };
    struct sluice_stream stream;
    how.chroma = SLUICE_CHROMA_REPEAT;
    int result = sluice_device_open(&host, "host");
    if (result == SLUICE_OK)
        result = sluice_stream_default(host, &stream);
    if (result == SLUICE_OK)
        result = sluice_convert(stream, to, from, &how, NULL);
    sluice_device_close(&host);
    return result;
}

int pixels_convert(const struct sluice_array *to, const struct sluice_array *from)
{
    const struct sluice_array *bayer = is_bayer(to) ? to : is_bayer(from) ? from : NULL;
    struct sluice_array floats;
    if (!bayer)
        return convert(to, from);
    int result = pixels_alloc(&floats, SLUICE_PIXEL_RGBA_F32, bayer->image.width, bayer->image.height);
    if (result)
        return result;
    if (is_bayer(from))
        bayer_to_floats(from, floats.data);
    else
        result = convert(&floats, from);
    if (result == SLUICE_OK && is_bayer(to))
        bayer_from_floats(to, floats.data);
    else if (result == SLUICE_OK)
        result = convert(to, &floats);
    free(floats.data);
    return result;
}
