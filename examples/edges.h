/* SPDX-License-Identifier: MIT
 *
 * The work of the filters, on the CPU: Sobel edge detection. The larger the change of brightness, the brighter the
 * pixel; a little of the colours stays.
 */
#ifndef EXAMPLES_EDGES_H
#define EXAMPLES_EDGES_H

#include <stdint.h>
#include <stdlib.h>

static inline void luma_row(uint8_t *luma, const uint8_t *pixel, uint32_t width)
{
    for (uint32_t x = 0; x < width; x++, pixel += 4)
        luma[x] = (uint8_t)((pixel[0] * 54 + pixel[1] * 183 + pixel[2] * 19) >> 8);
}

/* From RGBA to RGBA. `luma` has room for three rows, which are used in turn. */
static inline void edges(uint8_t *luma, uint32_t w, uint32_t h, const uint8_t *in, uint64_t in_pitch, uint8_t *out,
                         uint64_t out_pitch)
{
    luma_row(luma, in, w);
    for (uint32_t y = 0; y < h; y++) {
        if (y + 1 < h)
            luma_row(luma + (size_t)((y + 1) % 3) * w, in + (y + 1) * in_pitch, w);
        const uint8_t *above = luma + (size_t)((y ? y - 1 : 0) % 3) * w;
        const uint8_t *here = luma + (size_t)(y % 3) * w;
        const uint8_t *below = luma + (size_t)((y + 1 < h ? y + 1 : y) % 3) * w;
        const uint8_t *from = in + y * in_pitch;
        uint8_t *to = out + y * out_pitch;
        for (uint32_t x = 0; x < w; x++) {
            uint32_t l = x ? x - 1 : 0, r = x + 1 < w ? x + 1 : x;
            int across = above[r] + 2 * here[r] + below[r] - above[l] - 2 * here[l] - below[l];
            int down = below[l] + 2 * below[x] + below[r] - above[l] - 2 * above[x] - above[r];
            int edge = abs(across) + abs(down);
            for (int c = 0; c < 3; c++) {
                int value = edge + from[4 * x + c] / 4;
                to[4 * x + c] = (uint8_t)(value < 255 ? value : 255);
            }
            to[4 * x + 3] = 255;
        }
    }
}

#endif
