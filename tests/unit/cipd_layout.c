/* SPDX-License-Identifier: MIT
 *
 * The bytes of a CIPD segment: their offsets for each number of slots, the protocol's golden examples in both
 * directions, and the arithmetic of the write index.
 */
#include "cipd_kit.h"

/* Three slots; SHA-256 5a1ac7cbfd7e352a4be23b935088b92acbcfc32f38774fb3fd5f35bccf18aa03. */
static const unsigned char golden[433] = {
    0x44, 0x50, 0x49, 0x43, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x2a, 0x00, 0x00,
    0x00, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x20, 0x21,
    0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f, 0x30, 0x31, 0x32, 0x33, 0x34,
    0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47,
    0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a,
    0x8b, 0x8c, 0x8d, 0x8e, 0x8f, 0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9d,
    0x9e, 0x9f, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0xb0,
    0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0x20, 0x21, 0x22, 0x23,
    0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36,
    0x37, 0x38, 0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49,
    0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f, 0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x5b, 0x5c,
    0x5d, 0x5e, 0x5f, 0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f,
    0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0xb0, 0xb1, 0xb2,
    0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5,
    0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
    0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b,
    0x4c, 0x4d, 0x4e, 0x4f, 0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x5b, 0x5c, 0x5d, 0x5e,
    0x5f, 0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0xa0, 0xa1,
    0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0xb0, 0xb1, 0xb2, 0xb3, 0xb4,
    0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7,
    0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
    0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0x00, 0x80, 0x07, 0x00, 0x00, 0x38, 0x04, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x02,
    0x20, 0x00, 0x00, 0x00, 0x40, 0xfa, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4a, 0x93, 0x40,
};
#define GOLDEN_CRC UINT32_C(0xf46b55e7)
/* Two slots; SHA-256 c99b6a9cc7748fd07df56c0827d82dbee3f121d4d0a2eca8cd71f05364c7f4b1. */
#define GOLDEN_TWO_CRC UINT32_C(0x058011fc)

static const struct sl_cipd_metadata golden_metadata = {
    .width = 1920,
    .height = 1080,
    .components = 4,
    .kind = 2,
    .bits = 32,
    .flags = 0,
    .bytes = 33177600,
};

/* A segment's memory, in a page of its own. */
static unsigned char *page(void)
{
    static _Alignas(4096) unsigned char bytes[SL_CIPD_SEGMENT];
    memset(bytes, 0, sizeof(bytes));
    return bytes;
}

static uint32_t crc(const unsigned char *bytes, size_t size)
{
    uint32_t sum = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~sum;
}

TEST(cipd_layout_offsets)
{
    static const uint32_t rows[][5] = {
        { 1, 148, 149, 169, 177 },      { 2, 276, 277, 297, 305 },     { 3, 404, 405, 425, 433 },
        { 4, 532, 533, 553, 561 },      { 5, 660, 661, 681, 689 },     { 6, 788, 789, 809, 817 },
        { 7, 916, 917, 937, 945 },      { 8, 1044, 1045, 1065, 1073 }, { 9, 1172, 1173, 1193, 1201 },
        { 10, 1300, 1301, 1321, 1329 },
    };
    for (int i = 0; i < 10; i++) {
        struct sl_cipd_layout layout;
        CHECK(sl_cipd_layout(rows[i][0], &layout));
        CHECK_EQ(layout.slots, rows[i][0]);
        CHECK_EQ(layout.shut, rows[i][1]);
        CHECK_EQ(layout.metadata, rows[i][2]);
        CHECK_EQ(layout.time, rows[i][3]);
        CHECK_EQ(layout.total, rows[i][4]);
    }
}

TEST(cipd_layout_of_no_number_of_slots)
{
    static const uint32_t bad[] = { 0, 11, 64, UINT32_C(0x80000000), UINT32_MAX };
    for (int i = 0; i < 5; i++) {
        struct sl_cipd_layout layout = { .slots = 77 };
        CHECK(!sl_cipd_layout(bad[i], &layout));
        CHECK_EQ(layout.slots, 77);
    }
}

TEST(cipd_golden_is_stored)
{
    struct sl_cipd_layout layout;
    unsigned char *at = page();
    CHECK_EQ(crc(golden, sizeof(golden)), GOLDEN_CRC);
    CHECK(sl_cipd_layout(3, &layout));
    sl_cipd_store_magic(at, SL_CIPD_MAGIC);
    sl_cipd_store_version(at, 7);
    sl_cipd_store_slots(at, 3);
    sl_cipd_store_index(at, 42);
    for (uint32_t slot = 0; slot < 3; slot++)
        sl_cipd_store_handles(at, slot, &golden_all()[slot]);
    sl_cipd_store_shut(at, &layout, 0);
    sl_cipd_store_metadata(at, &layout, &golden_metadata);
    sl_cipd_store_time(at, &layout, 1234.5);
    CHECK_MEM(at, golden, sizeof(golden));
    CHECK(sl_cipd_zero(at + sizeof(golden), SL_CIPD_SEGMENT - sizeof(golden)));
}

TEST(cipd_golden_is_loaded)
{
    struct sl_cipd_layout layout;
    struct sl_cipd_metadata metadata;
    unsigned char *at = page();
    memcpy(at, golden, sizeof(golden));
    CHECK(sl_cipd_layout(3, &layout));
    CHECK_EQ(sl_cipd_load_magic(at), SL_CIPD_MAGIC);
    CHECK_EQ(sl_cipd_load_version(at), 7);
    CHECK_EQ(sl_cipd_load_slots(at), 3);
    CHECK_EQ(sl_cipd_load_index(at), 42);
    for (uint32_t slot = 0; slot < 3; slot++) {
        struct sl_cipd_handles handles;
        sl_cipd_load_handles(at, slot, &handles);
        CHECK_MEM(&handles, &golden_all()[slot], sizeof(handles));
    }
    CHECK_EQ(sl_cipd_load_shut(at, &layout), 0);
    sl_cipd_load_metadata(at, &layout, &metadata);
    CHECK(sl_cipd_same_metadata(&metadata, &golden_metadata));
    CHECK_NEAR(sl_cipd_load_time(at, &layout), 1234.5, 0.0);
    CHECK_EQ(sl_cipd_index_slot(42, 3), 2);
    CHECK_EQ(sl_cipd_index_next_slot(42, 3), 0);
}

TEST(cipd_each_byte_that_stands_counts)
{
    struct sl_cipd_layout layout;
    unsigned char *at = page();
    memcpy(at, golden, sizeof(golden));
    CHECK(sl_cipd_layout(3, &layout));
    for (uint32_t i = 0; i < sizeof(golden); i++) {
        at[i] ^= 0x10;
        for (uint32_t slot = 0; slot < 3; slot++) {
            uint32_t first = SL_CIPD_HEADER + 2 * SL_CIPD_HANDLE * slot;
            bool its = i >= first && i < first + 2 * SL_CIPD_HANDLE;
            CHECK_EQ(sl_cipd_handles_stand(at, slot, &golden_all()[slot]), !its);
        }
        bool its = i >= layout.metadata && i < layout.time;
        CHECK_EQ(sl_cipd_metadata_stands(at, &layout, &golden_metadata), !its);
        at[i] ^= 0x10;
    }
}

TEST(cipd_golden_of_two_slots)
{
    static const unsigned char footer[] = {
        0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x01, 0x08,
        0x04, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe0, 0x3f,
    };
    struct sl_cipd_layout layout;
    struct sl_cipd_metadata metadata = metadata_of(512, 512, 4);
    unsigned char *at = page();
    metadata.flags = SL_CIPD_FLAG_BGRA;
    CHECK(sl_cipd_layout(2, &layout));
    sl_cipd_store_magic(at, SL_CIPD_MAGIC);
    sl_cipd_store_version(at, 1);
    sl_cipd_store_slots(at, 2);
    sl_cipd_store_index(at, 1);
    for (uint32_t slot = 0; slot < 2; slot++)
        sl_cipd_store_handles(at, slot, &golden_all()[slot]);
    sl_cipd_store_metadata(at, &layout, &metadata);
    sl_cipd_store_time(at, &layout, 0.5);
    CHECK_MEM(at + 276, footer, sizeof(footer));
    CHECK_EQ(crc(at, layout.total), GOLDEN_TWO_CRC);
}

TEST(cipd_fields_keep_to_themselves)
{
    for (uint32_t slots = 1; slots <= SL_CIPD_MAX_SLOTS; slots++) {
        struct sl_cipd_layout layout;
        struct sl_cipd_metadata full = { UINT32_MAX, UINT32_MAX, UINT32_MAX, 255, 255, UINT16_MAX, UINT32_MAX };
        unsigned char *at = page();
        CHECK(sl_cipd_layout(slots, &layout));
        sl_cipd_store_metadata(at, &layout, &full);
        CHECK(sl_cipd_zero(at, layout.metadata));
        CHECK(sl_cipd_zero(at + layout.time, SL_CIPD_SEGMENT - layout.time));
        for (uint32_t i = layout.metadata; i < layout.time; i++)
            CHECK_EQ(at[i], 255);
        at = page();
        sl_cipd_store_shut(at, &layout, 1);
        CHECK_EQ(at[layout.shut], 1);
        CHECK(sl_cipd_zero(at, layout.shut) && sl_cipd_zero(at + layout.metadata, 100));
        at = page();
        sl_cipd_store_version(at, UINT64_MAX);
        CHECK(sl_cipd_zero(at, 4) && sl_cipd_zero(at + 12, 100));
    }
}

TEST(cipd_index_rotates)
{
    for (uint32_t slots = 1; slots <= SL_CIPD_MAX_SLOTS; slots++) {
        uint32_t index = 0;
        for (uint32_t frame = 1; frame <= 100; frame++) {
            uint32_t slot = sl_cipd_index_next_slot(index, slots);
            CHECK_EQ(slot, (frame - 1) % slots);
            index = sl_cipd_index_next(index, slots);
            CHECK_EQ(index, frame);
            CHECK_EQ(sl_cipd_index_slot(index, slots), slot);
        }
    }
}

TEST(cipd_index_wraps_in_rotation)
{
    for (uint32_t slots = 1; slots <= SL_CIPD_MAX_SLOTS; slots++) {
        uint32_t start = UINT32_MAX - 20, index = start, slot = sl_cipd_index_slot(index, slots);
        for (uint32_t frame = 1; frame <= 60; frame++) {
            uint32_t next = sl_cipd_index_next_slot(index, slots);
            CHECK_EQ(next, (slot + 1) % slots);
            index = sl_cipd_index_next(index, slots);
            CHECK_NE(index, 0);
            slot = sl_cipd_index_slot(index, slots);
            CHECK_EQ(slot, next);
            CHECK_EQ(sl_cipd_index_distance(start, index, slots), frame);
        }
    }
}

TEST(cipd_index_wrap_of_the_protocol)
{
    static const uint32_t rows[][2] = { { 2, 2 }, { 3, 1 }, { 5, 1 }, { 1, 1 }, { 10, 6 } };
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(sl_cipd_index_next(UINT32_MAX - 1, rows[i][0]), UINT32_MAX);
        CHECK_EQ(sl_cipd_index_next(UINT32_MAX, rows[i][0]), rows[i][1]);
    }
}
