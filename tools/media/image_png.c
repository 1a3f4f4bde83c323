/* SPDX-License-Identifier: MIT
 *
 * Converts the whole image to samples of PNG, then writes it row by row.
 */
#include "image_png.h"

#include <stdbool.h>
#include <stdlib.h>

#include "pixels.h"
#include "png.h"

static bool has_16_bits(uint32_t format)
{
    return format == SLUICE_PIXEL_GRAY16 || format == SLUICE_PIXEL_RGBA64 || format == SLUICE_PIXEL_BAYER_RGGB16 ||
           format == SLUICE_PIXEL_BAYER_BGGR16 || format == SLUICE_PIXEL_BAYER_GRBG16 ||
           format == SLUICE_PIXEL_BAYER_GBRG16;
}

/* Pixels of four floats, in place, as the first `channels` samples of 16 bits, the high byte first. */
static void to_16_bits(void *row, uint32_t pixels, unsigned channels)
{
    const float *from = row;
    uint8_t *to = row;
    for (uint32_t x = 0; x < pixels; x++, from += 4)
        for (unsigned i = 0; i < channels; i++) {
            float value = from[i] > 0 ? from[i] < 1 ? from[i] : 1 : 0;
            unsigned word = (unsigned)(value * 65535 + 0.5f);
            *to++ = (uint8_t)(word >> 8);
            *to++ = (uint8_t)word;
        }
}

int image_png_write(FILE *out, const struct sluice_array *array)
{
    uint32_t width = array->image.width, height = array->image.height;
    unsigned channels = pixels_channels(&array->image);
    bool wide = has_16_bits(array->image.pixel_format);
    struct sluice_array image = { 0 };
    struct png png;
    int result = pixels_alloc(&image,
                              wide            ? SLUICE_PIXEL_RGBA_F32
                              : channels == 1 ? SLUICE_PIXEL_GRAY8
                              : channels == 3 ? SLUICE_PIXEL_RGB24
                                              : SLUICE_PIXEL_RGBA,
                              width, height);
    if (result == SLUICE_OK)
        result = pixels_convert(&image, array);
    if (result) {
        free(image.data);
        return result;
    }
    png_begin(&png, out, width, height, channels, wide ? 16 : 8);
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *row = (uint8_t *)image.data + y * image.image.planes[0].pitch;
        if (wide)
            to_16_bits(row, width, channels);
        png_row(&png, row);
    }
    free(image.data);
    png_end(&png);
    return SLUICE_OK;
}
