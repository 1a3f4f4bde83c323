/* SPDX-License-Identifier: MIT
 *
 * Texts that people and programs give as names: of channels, arrays, data types and pixel formats.
 */
#include "channel/channel.h"
#include "cuda_link/wire/segment.h"
#include "format/format.h"
#include "fuzz.h"

static void check_channel(const char *text)
{
    const struct sl_channel_ops *wire;
    const char *name;

    if (sl_channel_of(text, &wire, &name) != 0)
        return;
    REQUIRE(wire);
    size_t length = strlen(name);
    bool cipd = strcmp(wire->scheme, "cipd") == 0; /* whose programs accept any printable name */
    REQUIRE(length >= 1 && length <= (cipd ? SL_CIPD_NAME : SLUICE_MAX_NAME) && name[0] != '.' && !strchr(name, '/'));
    REQUIRE(name >= text && name + length == text + strlen(text));
    for (size_t i = 0; i < length; i++)
        REQUIRE(name[i] < 0x7f && (cipd ? name[i] >= ' ' : name[i] > ' ' && name[i] != ':'));
}

static void check_dtype(const char *text)
{
    struct sluice_dtype dtype, again;
    char back[SLUICE_DTYPE_TEXT];

    if (sluice_dtype_parse(text, &dtype) != 0)
        return;
    REQUIRE(sluice_dtype_size(dtype) > 0);
    REQUIRE(sluice_dtype_format(dtype, back, sizeof back) == 0);
    REQUIRE(sluice_dtype_parse(back, &again) == 0 && sl_dtype_equal(dtype, again));
}

/* Any number as a data type, into a buffer of any size. */
static void check_number(const char *text, size_t size)
{
    struct sluice_dtype dtype, again;
    char back[SLUICE_DTYPE_TEXT];

    if (size < sizeof dtype)
        return;
    memcpy(&dtype, text, sizeof dtype);
    size_t room = size % (SLUICE_DTYPE_TEXT + 1);
    if (sluice_dtype_format(dtype, back, room) == 0)
        REQUIRE(sluice_dtype_parse(back, &again) == 0 && sl_dtype_equal(dtype, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    REQUIRE(text);
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    check_channel(text);
    check_dtype(text);
    check_number(text, size);
    uint32_t pixel = sluice_pixel_format_find(text);
    if (pixel)
        REQUIRE(sluice_pixel_format_find(sluice_pixel_format_name(pixel)) == pixel);
    if (sl_array_name_check(text, false) == 0)
        REQUIRE(strlen(text) >= 1 && strlen(text) < SLUICE_ARRAY_NAME);
    free(text);
    return 0;
}
