/* SPDX-License-Identifier: MIT
 *
 * Data types: which ones exist, their size, and their text as in NumPy.
 */
#include <stdio.h>
#include <string.h>

#include "format/format.h"
#include "util/result.h"

#define MAX_LANES 64

/* A kind of element: its name, followed by the bits if there is more than one width. */
struct kind {
    const char *name;
    uint16_t widths; /* those that exist: their sum in bits, each a power of two */
    uint8_t code;
    bool named; /* the name includes the width */
};

static const struct kind kinds[] = {
    { "int", 8 | 16 | 32 | 64 | 128, SLUICE_INT, false },
    { "uint", 8 | 16 | 32 | 64 | 128, SLUICE_UINT, false },
    { "float", 16 | 32 | 64, SLUICE_FLOAT, false },
    { "bfloat", 16, SLUICE_BFLOAT, false },
    { "complex", 64 | 128, SLUICE_COMPLEX, false },
    { "bool", 8, SLUICE_BOOL, true },
    { "float8_e3m4", 8, SLUICE_FLOAT8_E3M4, true },
    { "float8_e4m3", 8, SLUICE_FLOAT8_E4M3, true },
    { "float8_e4m3b11fnuz", 8, SLUICE_FLOAT8_E4M3B11FNUZ, true },
    { "float8_e4m3fn", 8, SLUICE_FLOAT8_E4M3FN, true },
    { "float8_e4m3fnuz", 8, SLUICE_FLOAT8_E4M3FNUZ, true },
    { "float8_e5m2", 8, SLUICE_FLOAT8_E5M2, true },
    { "float8_e5m2fnuz", 8, SLUICE_FLOAT8_E5M2FNUZ, true },
    { "float8_e8m0fnu", 8, SLUICE_FLOAT8_E8M0FNU, true },
};
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

static const struct kind *find_kind(uint8_t code)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i].code == code)
            return &kinds[i];
    }
    return NULL;
}

static bool has_width(const struct kind *kind, unsigned bits)
{
    return bits && (bits & (bits - 1)) == 0 && (kind->widths & bits);
}

bool sl_dtype_valid(struct sluice_dtype dtype)
{
    const struct kind *kind = find_kind(dtype.code);
    return kind && has_width(kind, dtype.bits) && dtype.lanes >= 1 && dtype.lanes <= MAX_LANES;
}

uint32_t sl_dtype_size(struct sluice_dtype dtype)
{
    return sl_dtype_valid(dtype) ? (uint32_t)dtype.bits / 8 * dtype.lanes : 0;
}

int sl_dtype_format(struct sluice_dtype dtype, char *text, size_t size)
{
    if (!text)
        return sl_fail(SLUICE_E_INVALID, "the text of a data type needs a buffer, not NULL");
    if (!sl_dtype_valid(dtype)) {
        return sl_fail(SLUICE_E_FORMAT, "no data type has code %u with %u bits and %u lanes", dtype.code, dtype.bits,
                       dtype.lanes);
    }
    const struct kind *kind = find_kind(dtype.code);
    char bits[8] = "", lanes[8] = "", whole[SLUICE_DTYPE_TEXT];
    if (!kind->named)
        snprintf(bits, sizeof bits, "%u", dtype.bits);
    if (dtype.lanes > 1)
        snprintf(lanes, sizeof lanes, "x%u", dtype.lanes);
    int length = snprintf(whole, sizeof whole, "%s%s%s", kind->name, bits, lanes);
    if ((size_t)length >= size) {
        return sl_fail(SLUICE_E_INVALID, "the text '%s' does not fit %zu bytes: give %d of them", whole, size,
                       SLUICE_DTYPE_TEXT);
    }
    memcpy(text, whole, (size_t)length + 1);
    return SLUICE_OK;
}

/* Reads 1 to 3 digits without a leading zero, and advances *text past them. */
static bool read_number(const char **text, unsigned *number)
{
    const char *digit = *text;
    if (*digit < '1' || *digit > '9')
        return false;
    *number = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (digit - *text == 3)
            return false;
        *number = *number * 10 + (unsigned)(*digit - '0');
    }
    *text = digit;
    return true;
}

/* Is `text` of this kind? */
static bool read_kind(const struct kind *kind, const char *text, struct sluice_dtype *dtype)
{
    size_t length = strlen(kind->name);
    unsigned bits = 8, lanes = 1;
    if (strncmp(text, kind->name, length) != 0)
        return false;
    text += length;
    if (!kind->named && !read_number(&text, &bits))
        return false;
    if (*text == 'x') {
        text++;
        if (!read_number(&text, &lanes))
            return false;
    }
    if (*text || !has_width(kind, bits) || lanes > MAX_LANES)
        return false;
    *dtype = (struct sluice_dtype){ kind->code, (uint8_t)bits, (uint16_t)lanes };
    return true;
}

int sl_dtype_parse(const char *text, struct sluice_dtype *dtype)
{
    if (!text || !dtype)
        return sl_fail(SLUICE_E_INVALID, "the %s of a data type is NULL", text ? "place" : "text");
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (read_kind(&kinds[i], text, dtype))
            return SLUICE_OK;
    }
    return sl_fail(SLUICE_E_FORMAT,
                   "'%.40s' is not a data type: write one like uint8, int32, float16, bfloat16, complex64, "
                   "bool, float8_e4m3fn or float32x4",
                   text);
}
