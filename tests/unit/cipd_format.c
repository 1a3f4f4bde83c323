/* SPDX-License-Identifier: MIT
 *
 * Formats on cuda-link's wire: every kind, size and flag, and what is refused.
 */
#include "cipd_kit.h"

static const struct {
    const char *name;
    uint8_t kind, bits;
    uint16_t flag;
    struct sluice_dtype dtype;
} rows[] = {
    { "float32", 2, 32, 0, { SLUICE_FLOAT, 32, 1 } },   { "float16", 2, 16, 0, { SLUICE_FLOAT, 16, 1 } },
    { "bfloat16", 2, 16, 1, { SLUICE_BFLOAT, 16, 1 } }, { "uint8", 1, 8, 0, { SLUICE_UINT, 8, 1 } },
    { "uint16", 1, 16, 0, { SLUICE_UINT, 16, 1 } },     { "int8", 0, 8, 0, { SLUICE_INT, 8, 1 } },
    { "int16", 0, 16, 0, { SLUICE_INT, 16, 1 } },
};
enum { ROWS = sizeof(rows) / sizeof(*rows) };

static int row_of(unsigned kind, unsigned bits, unsigned flags)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].kind == kind && rows[i].bits == bits && rows[i].flag == (flags & 1))
            return i;
    return -1;
}

TEST(cipd_format_each_goes_there_and_back)
{
    for (int i = 0; i < ROWS; i++) {
        struct sl_cipd_format format = { .width = 33, .height = 7, .components = 3, .dtype = rows[i].dtype }, back;
        struct sl_cipd_metadata metadata;
        CHECK_OK(sl_cipd_format_encode(&format, &metadata));
        CHECK_EQ(metadata.kind, rows[i].kind);
        CHECK_EQ(metadata.bits, rows[i].bits);
        CHECK_EQ(metadata.flags, rows[i].flag);
        CHECK_EQ(metadata.bytes, 33u * 7 * 3 * rows[i].bits / 8);
        CHECK_OK(sl_cipd_format_decode(&metadata, &back));
        CHECK_MEM(&back.dtype, &rows[i].dtype, sizeof(back.dtype));
        CHECK_EQ(back.bytes, metadata.bytes);
        CHECK_STR(sl_cipd_format_dtype_name(back.dtype), rows[i].name);
    }
}

/* All kinds and sizes, and each flag with the reserved ones added: known or refused, never guessed. */
TEST(cipd_format_every_triple)
{
    static const uint16_t reserved[] = { 0, 0x0008, 0x8000, 0xfff8 };
    for (unsigned kind = 0; kind < 256; kind++)
        for (unsigned bits = 0; bits < 256; bits++)
            for (unsigned flags = 0; flags < 8; flags++)
                for (int extra = 0; extra < 4; extra++) {
                    struct sl_cipd_metadata metadata = { 2,
                                                         2,
                                                         4,
                                                         (uint8_t)kind,
                                                         (uint8_t)bits,
                                                         (uint16_t)(flags | reserved[extra]),
                                                         2 * 2 * 4 * (bits / 8) };
                    struct sl_cipd_format format;
                    int row = row_of(kind, bits, flags);
                    if (row < 0) {
                        CHECK_EQ(sl_cipd_format_fault(&metadata), SL_CIPD_FORMAT_UNKNOWN);
                        continue;
                    }
                    CHECK_OK(sl_cipd_format_decode(&metadata, &format));
                    CHECK_MEM(&format.dtype, &rows[row].dtype, sizeof(format.dtype));
                }
    struct sl_cipd_metadata unknown = { 2, 2, 4, 2, 64, 0, 128 };
    struct sl_cipd_format format;
    CHECK_SAYS(sl_cipd_format_decode(&unknown, &format), SLUICE_E_FORMAT, "64 bits");
}

TEST(cipd_format_order_of_four_bytes)
{
    static const struct {
        uint16_t flags;
        enum sl_cipd_order order;
    } cases[] = {
        { 0, SL_CIPD_ORDER_UNDECLARED },
        { SL_CIPD_FLAG_BGRA, SL_CIPD_ORDER_BGRA },
        { SL_CIPD_FLAG_MONO_ALPHA, SL_CIPD_ORDER_OTHER },
        { 0x0100, SL_CIPD_ORDER_OTHER },
        { 0x0104, SL_CIPD_ORDER_BGRA },
    };
    struct sl_cipd_format format;
    for (int i = 0; i < 5; i++) {
        struct sl_cipd_metadata metadata = metadata_of(8, 8, 4);
        metadata.flags = cases[i].flags;
        CHECK_OK(sl_cipd_format_decode(&metadata, &format));
        CHECK_EQ(format.order, cases[i].order);
        metadata = metadata_of(8, 8, 3);
        metadata.flags = cases[i].flags;
        CHECK_OK(sl_cipd_format_decode(&metadata, &format));
        CHECK_EQ(format.order, SL_CIPD_ORDER_NONE);
    }
}

TEST(cipd_format_flags_are_said)
{
    struct sl_cipd_format format = {
        .width = 4, .height = 4, .components = 4, .dtype = { SLUICE_UINT, 8, 1 }, .order = SL_CIPD_ORDER_BGRA
    };
    struct sl_cipd_metadata metadata;
    CHECK_OK(sl_cipd_format_encode(&format, &metadata));
    CHECK_EQ(metadata.flags, SL_CIPD_FLAG_BGRA);
    format.dtype = (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 };
    CHECK_SAYS(sl_cipd_format_encode(&format, &metadata), SLUICE_E_FORMAT, "float32");
    format = (struct sl_cipd_format){
        .width = 4, .height = 4, .components = 2, .mono_alpha = true, .dtype = { SLUICE_BFLOAT, 16, 1 }
    };
    CHECK_OK(sl_cipd_format_encode(&format, &metadata));
    CHECK_EQ(metadata.flags, SL_CIPD_FLAG_MONO_ALPHA | SL_CIPD_FLAG_BFLOAT16);
    CHECK_OK(sl_cipd_format_decode(&metadata, &format));
    CHECK(format.mono_alpha);
    format.components = 4;
    CHECK_SAYS(sl_cipd_format_encode(&format, &metadata), SLUICE_E_FORMAT, "two components");
}

TEST(cipd_format_refuses_what_the_wire_lacks)
{
    static const struct sluice_dtype others[] = {
        { SLUICE_FLOAT, 64, 1 },      { SLUICE_UINT, 32, 1 },    { SLUICE_BOOL, 8, 1 }, { SLUICE_UINT, 8, 4 },
        { SLUICE_FLOAT8_E5M2, 8, 1 }, { SLUICE_COMPLEX, 64, 1 }, { SLUICE_UINT, 8, 0 },
    };
    struct sl_cipd_metadata metadata = { .width = 77 };
    for (int i = 0; i < 7; i++) {
        struct sl_cipd_format format = { .width = 4, .height = 4, .components = 4, .dtype = others[i] };
        CHECK_SAYS(sl_cipd_format_encode(&format, &metadata), SLUICE_E_FORMAT, "cannot carry");
        CHECK(!sl_cipd_format_dtype_name(others[i]));
    }
    CHECK_EQ(metadata.width, 77);
}

TEST(cipd_format_sizes)
{
    static const struct {
        uint32_t width, height, components;
        bool good;
    } cases[] = {
        { 1, 1, 1, true },
        { 0, 4, 4, false },
        { 4, 0, 4, false },
        { 4, 4, 0, false },
        { 65535, 65537, 1, true },
        { 65536, 65536, 1, false },
        { 32768, 32768, 4, false },
        { UINT32_MAX, 1, 1, true },
        { UINT32_MAX, UINT32_MAX, UINT32_MAX, false },
        { UINT32_MAX, 1, UINT32_MAX, false },
        { 1, 1, UINT32_MAX, true },
    };
    for (int i = 0; i < 11; i++) {
        struct sl_cipd_format format = { .width = cases[i].width,
                                         .height = cases[i].height,
                                         .components = cases[i].components,
                                         .dtype = { SLUICE_UINT, 8, 1 } };
        struct sl_cipd_metadata metadata;
        if (cases[i].good) {
            CHECK_OK(sl_cipd_format_encode(&format, &metadata));
            CHECK_OK(sl_cipd_format_decode(&metadata, &format));
        } else {
            CHECK_SAYS(sl_cipd_format_encode(&format, &metadata), SLUICE_E_FORMAT, "4 GiB");
        }
    }
}

TEST(cipd_format_bytes_must_be_right)
{
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    struct sl_cipd_format format = { .width = 77 };
    uint32_t right = metadata.bytes;
    for (uint32_t wrong = 0; wrong < 3 * right; wrong += right / 2 + 1) {
        metadata.bytes = wrong;
        CHECK_EQ(sl_cipd_format_fault(&metadata), SL_CIPD_FORMAT_BYTES);
        CHECK_SAYS(sl_cipd_format_decode(&metadata, &format), SLUICE_E_FORMAT, "which is not so");
    }
    /* a product that is right in 32 bits */
    metadata = (struct sl_cipd_metadata){ 65536, 65536, 1, 1, 8, 0, 0 };
    CHECK_EQ(sl_cipd_format_fault(&metadata), SL_CIPD_FORMAT_BYTES);
    metadata.height = 0;
    CHECK_EQ(sl_cipd_format_fault(&metadata), SL_CIPD_FORMAT_EMPTY);
    CHECK_SAYS(sl_cipd_format_decode(&metadata, &format), SLUICE_E_FORMAT, "how large");
    CHECK_EQ(format.width, 77);
}
