/* SPDX-License-Identifier: MIT
 *
 * Pixels of any pixel format as RGBA floats, one at a time: for pictures, previews and patterns,
 * where one piece of code for all formats matters more than speed.
 */
#ifndef TOOLS_PIXELS_H
#define TOOLS_PIXELS_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

struct pixel_layout;

struct pixels {
    const struct pixel_layout *layout;
    uint8_t *base;
    uint32_t width, height;
    bool bottom_up;
    bool premultiplied;
    struct sluice_plane planes[SLUICE_MAX_PLANES];
    unsigned channels; /* 1 gray, 3 RGB, 4 RGBA: what the picture has */
    unsigned bits;     /* 8, or 16 where the format has that many */
    float kr, kb;      /* of the YUV matrix */
    bool rgb_matrix;   /* the planes are G, B, R */
    float black, luma,
        chroma; /* range: Y = black + luma * y, U = 0.5 + chroma * u, of full scale */
};

/* Returns false for an array that is no image with data. A matrix that is not named is BT.709 from
 * 720 rows on, else BT.601; a range that is not named is limited for YUV. */
bool pixels_open(struct pixels *pixels, const struct sluice_array *array);

/* Bytes of a row of one of a format's planes, and its rows; false if the format has no such plane.
 */
bool pixels_plane(const struct sluice_image *image, uint32_t plane, uint64_t *row, uint64_t *rows);

/* Row 0 is the top one, whatever the row order in memory. Values are 0 to 1, alpha straight; Bayer
 * colours are averages of the neighbours that have them; chroma is not interpolated. */
void pixels_get(const struct pixels *pixels, uint32_t x, uint32_t y, float rgba[4]);

/* Stores a pixel; where chroma is shared the last one counts. */
void pixels_put(const struct pixels *pixels, uint32_t x, uint32_t y, const float rgba[4]);

/* A row of `channels` samples of `bits` each, 16-bit ones high byte first, as PNG has them. */
void pixels_row(const struct pixels *pixels, uint32_t y, uint8_t *out);

float pixels_half(uint16_t half); /* IEEE half precision to float */
uint16_t pixels_to_half(float value);

#endif
