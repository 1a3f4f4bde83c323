/* SPDX-License-Identifier: MIT
 *
 * Writes PNG (ISO/IEC 15948) row by row, without compression, so that no library is needed.
 */
#ifndef TOOLS_PNG_H
#define TOOLS_PNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct png {
    FILE *out;
    size_t row_bytes;
    uint32_t crc;
    uint32_t adler_a, adler_b;
};

/* `channels` is 1, 3 or 4, `bits` 8 or 16 (high byte first). */
void png_begin(struct png *png, FILE *out, uint32_t width, uint32_t height, unsigned channels, unsigned bits);
void png_row(struct png *png, const uint8_t *row);

/* Returns false on a write error. */
bool png_end(struct png *png);

#endif
