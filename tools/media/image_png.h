/* SPDX-License-Identifier: MIT
 *
 * Writes an image of any pixel format as PNG.
 */
#ifndef TOOLS_IMAGE_PNG_H
#define TOOLS_IMAGE_PNG_H

#include <stdio.h>

#include <sluice/sluice.h>

/* The array is an image in host memory. GRAY16 and 16-bit Bayer give 16 bits a sample, all others 8. Returns a result
 * of the library; ferror(out) tells of errors in writing. */
int image_png_write(FILE *out, const struct sluice_array *array);

#endif
