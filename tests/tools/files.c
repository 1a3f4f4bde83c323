/* SPDX-License-Identifier: MIT
 *
 * tools/media/png.c and tools/media/npy.c: the files are decoded by their specifications.
 */
#include "harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "tools/media/npy.h"
#include "tools/media/png.h"

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint32_t crc32(const uint8_t *data, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

/* Joins the data of all stored blocks and checks every checksum. Returns its size. */
static size_t unpack(const uint8_t *file, size_t size, uint8_t *raw)
{
    static uint8_t zlib[1 << 20];
    size_t zlib_size = 0, raw_size = 0, at = 8;
    CHECK_MEM(file, "\x89PNG\r\n\x1a\n", 8);
    while (at < size) {
        uint32_t length = get32(file + at);
        CHECK_EQ(crc32(file + at + 4, length + 4), get32(file + at + 8 + length));
        if (memcmp(file + at + 4, "IDAT", 4) == 0) {
            memcpy(zlib + zlib_size, file + at + 8, length);
            zlib_size += length;
        }
        at += 12 + length;
    }
    CHECK_EQ(at, size);
    CHECK_EQ((zlib[0] * 256 + zlib[1]) % 31, 0);
    const uint8_t *block = zlib + 2;
    bool last = false;
    while (!last) {
        unsigned length = block[1] | (unsigned)block[2] << 8;
        CHECK_EQ(length ^ 0xFFFF, block[3] | block[4] << 8);
        last = block[0] == 1;
        memcpy(raw + raw_size, block + 5, length);
        raw_size += length;
        block += 5 + length;
    }
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < raw_size; i++) {
        a = (a + raw[i]) % 65521;
        b = (b + a) % 65521;
    }
    CHECK_EQ(get32(block), b << 16 | a);
    CHECK_EQ(block + 4 - zlib, zlib_size);
    return raw_size;
}

static void png_of(uint32_t width, uint32_t height, unsigned channels, unsigned bits)
{
    static uint8_t raw[1 << 20];
    char *text;
    size_t size, row_size = (size_t)width * channels * bits / 8;
    uint8_t *row = malloc(row_size);
    struct png png;
    FILE *out = open_memstream(&text, &size);
    png_begin(&png, out, width, height, channels, bits);
    for (uint32_t y = 0; y < height; y++) {
        for (size_t i = 0; i < row_size; i++)
            row[i] = (uint8_t)(i * 3 + y);
        png_row(&png, row);
    }
    CHECK(png_end(&png));
    fclose(out);
    CHECK_EQ(unpack((uint8_t *)text, size, raw), (row_size + 1) * height);
    for (uint32_t y = 0; y < height; y++)
        for (size_t i = 0; i <= row_size; i++)
            CHECK_EQ(raw[y * (row_size + 1) + i], i ? (uint8_t)((i - 1) * 3 + y) : 0);
    free(row);
    free(text);
}

TEST(png_is_png)
{
    png_of(1, 1, 1, 8);
    png_of(17, 5, 3, 8);
    png_of(9, 3, 4, 8);
    png_of(5, 4, 1, 16);
    png_of(30000, 2, 4, 8); /* rows longer than a stored block */
}

TEST(png_says_when_it_cannot_write)
{
    struct png png;
    const uint8_t row[3] = { 0 };
    FILE *full = fopen("/dev/full", "wb");
    if (!full)
        SKIP("there is no /dev/full");
    png_begin(&png, full, 1, 1, 3, 8);
    png_row(&png, row);
    CHECK(!png_end(&png));
    fclose(full);
}

/* The text of the header, and the data after it. */
static const char *npy_of(const struct sluice_array *array, char header[256], bool *exact)
{
    static char copy[4096];
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    CHECK(npy_write(out, array, exact));
    fclose(out);
    CHECK_MEM(text, "\x93NUMPY\x01\x00", 8);
    size_t length = (uint8_t)text[8] | (size_t)(uint8_t)text[9] << 8;
    CHECK_EQ((10 + length) % 64, 0);
    CHECK_EQ(text[10 + length - 1], '\n');
    snprintf(header, 256, "%.*s", (int)length, text + 10);
    memcpy(copy, text + 10 + length, size - 10 - length);
    copy[size - 10 - length] = 0;
    free(text);
    return copy;
}

TEST(npy_orders_strided_arrays)
{
    const int64_t shape[2] = { 2, 3 }, strides[2] = { 8, 2 };
    struct sluice_array array;
    char header[256], letters[] = "a.b.c...d.e.f...";
    bool exact;
    CHECK_OK(sluice_array_wrap(&array, "x", letters, (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 2, shape, strides));
    CHECK_STR(npy_of(&array, header, &exact), "abcdef");
    CHECK_HAS(header, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, ), }");
    CHECK(exact);
}

TEST(npy_names_types)
{
    static const struct {
        struct sluice_dtype dtype;
        const char *text;
        bool exact;
    } cases[] = { { { SLUICE_FLOAT, 32, 1 }, "'<f4', 'fortran_order': False, 'shape': (1, )", true },
                  { { SLUICE_INT, 64, 1 }, "'<i8'", true },
                  { { SLUICE_BOOL, 8, 1 }, "'|b1'", true },
                  { { SLUICE_COMPLEX, 64, 1 }, "'<c8'", true },
                  { { SLUICE_FLOAT, 32, 4 }, "'<f4', 'fortran_order': False, 'shape': (1, 4, )", true },
                  { { SLUICE_BFLOAT, 16, 1 }, "'<u2'", false },
                  { { SLUICE_FLOAT8_E4M3FN, 8, 1 }, "'|u1'", false } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t shape[1] = { 1 };
        struct sluice_array array;
        char header[256], data[16] = { 0 };
        bool exact;
        CHECK_OK(sluice_array_wrap(&array, "x", data, cases[i].dtype, 1, shape, NULL));
        npy_of(&array, header, &exact);
        CHECK_HAS(header, cases[i].text);
        CHECK_EQ(exact, cases[i].exact);
    }
}

TEST(npy_scalars_and_empty_arrays)
{
    const int64_t none[2] = { 3, 0 };
    struct sluice_array array;
    char header[256], data[] = "xyz";
    bool exact;
    CHECK_OK(sluice_array_wrap(&array, "x", data, (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 0, NULL, NULL));
    CHECK_STR(npy_of(&array, header, &exact), "x");
    CHECK_HAS(header, "'shape': ()");
    array.ndim = 2;
    memcpy(array.shape, none, sizeof none);
    CHECK_STR(npy_of(&array, header, &exact), "");
}
