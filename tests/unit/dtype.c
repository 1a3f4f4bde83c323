/* SPDX-License-Identifier: MIT
 *
 * Data types: their text in both directions, their size, and what is refused.
 */
#include <string.h>

#include <sluice/format.h>

#include "format/format.h"
#include "harness/test.h"

struct row {
    const char *text;
    struct sluice_dtype dtype;
    uint32_t size;
};

static const struct row rows[] = {
    { "int8", { 0, 8, 1 }, 1 },
    { "int16", { 0, 16, 1 }, 2 },
    { "int32", { 0, 32, 1 }, 4 },
    { "int64", { 0, 64, 1 }, 8 },
    { "int128", { 0, 128, 1 }, 16 },
    { "uint8", { 1, 8, 1 }, 1 },
    { "uint16", { 1, 16, 1 }, 2 },
    { "uint32", { 1, 32, 1 }, 4 },
    { "uint64", { 1, 64, 1 }, 8 },
    { "uint128", { 1, 128, 1 }, 16 },
    { "float16", { 2, 16, 1 }, 2 },
    { "float32", { 2, 32, 1 }, 4 },
    { "float64", { 2, 64, 1 }, 8 },
    { "bfloat16", { 4, 16, 1 }, 2 },
    { "complex64", { 5, 64, 1 }, 8 },
    { "complex128", { 5, 128, 1 }, 16 },
    { "bool", { 6, 8, 1 }, 1 },
    { "float8_e3m4", { 7, 8, 1 }, 1 },
    { "float8_e4m3", { 8, 8, 1 }, 1 },
    { "float8_e4m3b11fnuz", { 9, 8, 1 }, 1 },
    { "float8_e4m3fn", { 10, 8, 1 }, 1 },
    { "float8_e4m3fnuz", { 11, 8, 1 }, 1 },
    { "float8_e5m2", { 12, 8, 1 }, 1 },
    { "float8_e5m2fnuz", { 13, 8, 1 }, 1 },
    { "float8_e8m0fnu", { 14, 8, 1 }, 1 },
    { "float32x4", { 2, 32, 4 }, 16 },
    { "uint8x3", { 1, 8, 3 }, 3 },
    { "boolx2", { 6, 8, 2 }, 2 },
    { "float8_e5m2x16", { 12, 8, 16 }, 16 },
    { "float8_e4m3b11fnuzx64", { 9, 8, 64 }, 64 },
    { "complex128x64", { 5, 128, 64 }, 1024 },
};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

TEST(dtype_texts_go_there_and_back)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        char text[SLUICE_DTYPE_TEXT];
        struct sluice_dtype read = { 99, 99, 99 };
        CHECK_OK(sluice_dtype_format(rows[i].dtype, text, sizeof text));
        CHECK_STR(text, rows[i].text);
        CHECK_OK(sluice_dtype_parse(text, &read));
        CHECK(sl_dtype_equal(read, rows[i].dtype));
        CHECK_EQ(sluice_dtype_size(read), rows[i].size);
    }
}

/* Each valid type has a text with just that meaning; there are as many as the table of kinds says. */
TEST(dtype_every_number)
{
    int valid = 0;
    for (unsigned number = 0; number < 256 * 256; number++) {
        static const uint16_t lanes[] = { 0, 1, 2, 3, 63, 64, 65, 1000, 65535 };
        for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++) {
            struct sluice_dtype dtype = { (uint8_t)(number >> 8), (uint8_t)number, lanes[i] }, read;
            char text[SLUICE_DTYPE_TEXT];
            if (!sl_dtype_valid(dtype)) {
                CHECK_EQ(sluice_dtype_size(dtype), 0);
                continue;
            }
            valid++;
            CHECK_OK(sluice_dtype_format(dtype, text, sizeof text));
            CHECK_OK(sluice_dtype_parse(text, &read));
            CHECK(sl_dtype_equal(read, dtype));
        }
    }
    CHECK_EQ(valid, 25 * 5); /* the first 25 rows, with 1, 2, 3, 63 and 64 lanes */
}

TEST(dtype_refuses_other_texts)
{
    static const char *const bad[] = {
        "",
        "int",
        "int7",
        "int24",
        "int08",
        "int8 ",
        " int8",
        "uint256",
        "float8",
        "float128",
        "bfloat32",
        "bfloat",
        "complex32",
        "bool8",
        "bool1",
        "float32x",
        "float32x0",
        "float32x65",
        "float32x4x4",
        "float32x-4",
        "float32x04",
        "Float32",
        "float8_e4m3x",
        "<f4",
        "int99999999999999999999",
        "float32x18446744073709551617",
        "x4",
        "u8",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct sluice_dtype dtype = { 99, 99, 99 };
        CHECK_SAYS(sluice_dtype_parse(bad[i], &dtype), SLUICE_E_FORMAT, "float32x4");
        CHECK_EQ(dtype.code, 99); /* written only on success */
    }
    struct sluice_dtype dtype;
    CHECK_SAYS(sluice_dtype_parse(NULL, &dtype), SLUICE_E_INVALID, "text");
    CHECK_SAYS(sluice_dtype_parse("int8", NULL), SLUICE_E_INVALID, "place");
}

TEST(dtype_text_needs_room)
{
    struct sluice_dtype dtype = { SLUICE_FLOAT, 32, 4 };
    char text[10] = "unchanged";
    CHECK_SAYS(sluice_dtype_format(dtype, text, 9), SLUICE_E_INVALID, "float32x4");
    CHECK_SAYS(sluice_dtype_format(dtype, text, 0), SLUICE_E_INVALID, "float32x4");
    CHECK_STR(text, "unchanged");
    CHECK_OK(sluice_dtype_format(dtype, text, sizeof text));
    CHECK_STR(text, "float32x4");
    CHECK_RESULT(sluice_dtype_format(dtype, NULL, 10), SLUICE_E_INVALID);
    dtype.code = 3; /* DLPack's opaque handle: not data */
    CHECK_SAYS(sluice_dtype_format(dtype, text, sizeof text), SLUICE_E_FORMAT, "code 3");
}
