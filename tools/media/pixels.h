/* SPDX-License-Identifier: MIT
 *
 * Reads and writes single pixels of any format as RGBA floats: for pictures, previews and patterns, which need all
 * formats more than speed.
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
    unsigned channels;         /* 1 gray, 3 RGB, 4 RGBA */
    unsigned bits;             /* 8, or 16 for formats with 16 */
    float kr, kb;              /* coefficients of the YUV matrix */
    bool rgb_matrix;           /* the planes are G, B, R */
    float black, luma, chroma; /* range: Y = black + luma * y, U = 0.5 + chroma * u, of full scale */
};

/* The matrix of YUV whose matrix is unknown, a number of H.273: BT.709 from 720 rows on, else BT.601. */
uint8_t pixels_default_matrix(uint32_t height);

/* False if the array is not an image or has no data. An unknown matrix is taken as BT.709 from 720 rows on, else
 * BT.601; an unknown range of YUV as limited. */
bool pixels_open(struct pixels *pixels, const struct sluice_array *array);

/* The bytes per row and the number of rows of a plane; false if the format has no such plane. */
bool pixels_plane(const struct sluice_image *image, uint32_t plane, uint64_t *row, uint64_t *rows);

/* Row 0 is the top row, whatever the row order in memory. Values are 0 to 1, with straight alpha. Bayer colours are
 * averages of neighbours; chroma is not interpolated. */
void pixels_get(const struct pixels *pixels, uint32_t x, uint32_t y, float rgba[4]);

/* Stores a pixel; of pixels that share chroma the last one counts. */
void pixels_put(const struct pixels *pixels, uint32_t x, uint32_t y, const float rgba[4]);

/* Writes a row with `channels` samples per pixel, 16-bit samples in big-endian order, as in PNG. */
void pixels_row(const struct pixels *pixels, uint32_t y, uint8_t *out);

float pixels_half(uint16_t half); /* IEEE half precision to float */
uint16_t pixels_to_half(float value);

#endif
