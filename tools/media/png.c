/* SPDX-License-Identifier: MIT
 *
 * PNG with stored (uncompressed) zlib blocks, one per IDAT chunk.
 */
#include "png.h"

#define STORED_MAX 65535

static uint32_t crc_add(uint32_t crc, const uint8_t *data, size_t size)
{
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; bit++)
                c = c & 1 ? 0xEDB88320u ^ c >> 1 : c >> 1;
            table[i] = c;
        }
    for (size_t i = 0; i < size; i++)
        crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
    return crc;
}

static void adler_add(struct png *png, const uint8_t *data, size_t size)
{
    while (size) {
        size_t part = size < 5552 ? size : 5552; /* the most that does not overflow 32 bits */
        for (size_t i = 0; i < part; i++) {
            png->adler_a += data[i];
            png->adler_b += png->adler_a;
        }
        png->adler_a %= 65521;
        png->adler_b %= 65521;
        data += part;
        size -= part;
    }
}

static void put32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void chunk_data(struct png *png, const void *data, size_t size)
{
    png->crc = crc_add(png->crc, data, size);
    fwrite(data, 1, size, png->out);
}

static void chunk_begin(struct png *png, const char *type, size_t size)
{
    uint8_t length[4];
    put32(length, (uint32_t)size);
    fwrite(length, 1, 4, png->out);
    png->crc = 0xFFFFFFFFu;
    chunk_data(png, type, 4);
}

static void chunk_end(struct png *png)
{
    uint8_t crc[4];
    put32(crc, ~png->crc);
    fwrite(crc, 1, 4, png->out);
}

static void stored_begin(struct png *png, size_t size, bool last)
{
    uint8_t head[5] = { last, (uint8_t)size, (uint8_t)(size >> 8), (uint8_t)~size, (uint8_t)(~size >> 8) };
    chunk_data(png, head, 5);
}

void png_begin(struct png *png, FILE *out, uint32_t width, uint32_t height, unsigned channels, unsigned bits)
{
    static const uint8_t zlib_head[2] = { 0x78, 0x01 };
    uint8_t head[13] = { 0 };
    *png = (struct png){ .out = out, .adler_a = 1 };
    png->row_bytes = (size_t)width * channels * (bits / 8);
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, out);
    put32(head, width);
    put32(head + 4, height);
    head[8] = (uint8_t)bits;
    head[9] = channels == 1 ? 0 : channels == 3 ? 2 : 6;
    chunk_begin(png, "IHDR", sizeof head);
    chunk_data(png, head, sizeof head);
    chunk_end(png);
    chunk_begin(png, "IDAT", sizeof zlib_head);
    chunk_data(png, zlib_head, sizeof zlib_head);
    chunk_end(png);
}

void png_row(struct png *png, const uint8_t *row)
{
    static const uint8_t no_filter[1] = { 0 };
    size_t left = png->row_bytes;
    bool first = true;
    while (first || left) {
        size_t part = left < STORED_MAX - 1 ? left : STORED_MAX - 1;
        size_t size = part + first;
        chunk_begin(png, "IDAT", 5 + size);
        stored_begin(png, size, false);
        if (first) {
            chunk_data(png, no_filter, 1);
            adler_add(png, no_filter, 1);
        }
        chunk_data(png, row, part);
        chunk_end(png);
        adler_add(png, row, part);
        row += part;
        left -= part;
        first = false;
    }
}

bool png_end(struct png *png)
{
    uint8_t adler[4];
    chunk_begin(png, "IDAT", 5 + 4);
    stored_begin(png, 0, true);
    put32(adler, png->adler_b << 16 | png->adler_a);
    chunk_data(png, adler, 4);
    chunk_end(png);
    chunk_begin(png, "IEND", 0);
    chunk_end(png);
    return fflush(png->out) == 0 && !ferror(png->out);
}
