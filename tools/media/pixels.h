/* SPDX-License-Identifier: MIT
 *
 * Pictures of any pixel format, converted by sluice_convert; and Bayer patterns, which it leaves to others.
 */
#ifndef TOOLS_PIXELS_H
#define TOOLS_PIXELS_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

/* The matrix of YUV whose matrix is unknown, a number of H.273: BT.709 from 720 rows on, else BT.601. */
uint8_t pixels_default_matrix(uint32_t height);

/* The bytes per row and the number of rows of a plane; false if the format has no such plane. */
bool pixels_plane(const struct sluice_image *image, uint32_t plane, uint64_t *row, uint64_t *rows);

/* What can be seen of an image: 1 channel (gray), 3 (RGB), or 4 (RGBA); 0: it is no image. */
unsigned pixels_channels(const struct sluice_image *image);

/* An image of that format in memory of its own, top-down and with straight alpha; free its data. Returns
 * SLUICE_E_NO_MEMORY, or what sluice_format_add_image returns. */
int pixels_alloc(struct sluice_array *array, uint32_t format, uint32_t width, uint32_t height);

/* Converts one image into another, in host memory. Pixels that share chroma have the same. Bayer colours are averages
 * of neighbours. Returns a result of the library. */
int pixels_convert(const struct sluice_array *to, const struct sluice_array *from);

/* Copies an image, which is top-down, into another one of the same format, with its top left pixel at x, y. Both are
 * even, unless no pixels share chroma. */
void pixels_put(const struct sluice_array *to, uint32_t x, uint32_t y, const struct sluice_array *from);

#endif
