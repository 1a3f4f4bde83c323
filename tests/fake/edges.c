/* SPDX-License-Identifier: MIT
 *
 * The kernel of examples/gpu_filter.c, as that program's own text says it, pixel by pixel.
 */
#include <stdlib.h>

#include "fake/internal.h"

static int luma(const unsigned char *rgba)
{
    return (rgba[0] * 54 + rgba[1] * 183 + rgba[2] * 19) >> 8;
}

void fake_edges(const struct op *op, unsigned char *to, const unsigned char *from)
{
    for (uint64_t y = 0; y < op->rows; y++) {
        const unsigned char *here = from + y * op->target_pitch;
        const unsigned char *above = y ? here - op->target_pitch : here;
        const unsigned char *below = y + 1 < op->rows ? here + op->target_pitch : here;
        for (uint64_t x = 0; x < op->size; x++) {
            uint64_t l = 4 * (x ? x - 1 : 0), m = 4 * x, r = 4 * (x + 1 < op->size ? x + 1 : x);
            int across = luma(above + r) + 2 * luma(here + r) + luma(below + r) - luma(above + l) - 2 * luma(here + l) -
                         luma(below + l);
            int down = luma(below + l) + 2 * luma(below + m) + luma(below + r) - luma(above + l) - 2 * luma(above + m) -
                       luma(above + r);
            for (int c = 0; c < 3; c++) {
                int value = abs(across) + abs(down) + here[m + c] / 4;
                to[y * op->address_pitch + m + c] = (unsigned char)(value < 255 ? value : 255);
            }
            to[y * op->address_pitch + m + 3] = 255;
        }
    }
}
