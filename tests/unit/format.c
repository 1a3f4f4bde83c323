/* SPDX-License-Identifier: MIT
 *
 * Formats: every pixel format against numbers worked out by hand, the check of a whole format, and the offsets of its
 * arrays.
 */
#include <string.h>

#include <sluice/format.h>

#include "format/format.h"
#include "harness/test.h"
#include "unit/same_format.h"

static const struct sluice_dtype uint8 = { SLUICE_UINT, 8, 1 };
static const struct sluice_dtype float32 = { SLUICE_FLOAT, 32, 1 };

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

static void check_dims(const int64_t *values, int64_t a, int64_t b, int64_t c)
{
    CHECK_EQ(values[0], a);
    CHECK_EQ(values[1], b);
    CHECK_EQ(values[2], c);
    for (int d = 3; d < SLUICE_MAX_DIMS; d++)
        CHECK_EQ(values[d], 0);
}

TEST(format_arrays_lie_in_their_order)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_tensor(&format, "depth", float32, 2, SHAPE(10, 13)));
    CHECK_OK(sluice_format_add_tensor(&format, "count", uint8, 0, NULL));
    CHECK_OK(sluice_format_add_image(&format, "left.view-1_b", SLUICE_PIXEL_RGBA, 2, 2));
    CHECK_EQ(format.array_count, 3);
    CHECK_EQ(format.arrays[0].offset, 0);
    CHECK_EQ(format.arrays[0].nbytes, 520);
    check_dims(format.arrays[0].strides, 52, 4, 0);
    CHECK_EQ(format.arrays[1].offset, 1024);
    CHECK_EQ(format.arrays[1].nbytes, 1);
    CHECK_EQ(format.arrays[2].offset, 1536);
    CHECK_EQ(format.slot_bytes, 2048);
    CHECK_EQ(sluice_format_find(&format, "depth"), 0);
    CHECK_EQ(sluice_format_find(&format, "left.view-1_b"), 2);
    CHECK_SAYS(sluice_format_find(&format, "left"), SLUICE_E_NOT_FOUND, "depth, count, left.view-1_b");
    CHECK_RESULT(sluice_format_find(&format, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_format_find(NULL, "depth"), SLUICE_E_INVALID);

    struct sluice_format again = format;
    CHECK_OK(sluice_format_complete(&again));
    CHECK_MEM(&again, &format, sizeof format);
}

TEST(format_offsets_by_hand)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_tensor(&format, "a", float32, 1, SHAPE(100)));
    CHECK_OK(sluice_format_add_tensor(&format, "b", float32, 1, SHAPE(100)));
    format.arrays[0].offset = 4096;
    format.arrays[1].offset = 0; /* to be placed after it */
    CHECK_OK(sluice_format_complete(&format));
    CHECK_EQ(format.arrays[1].offset, 4608);
    CHECK_EQ(format.slot_bytes, 5120);
    format.arrays[1].offset = 4096 - 400;
    CHECK_OK(sluice_format_complete(&format));
    CHECK_EQ(format.slot_bytes, 4608);
    format.arrays[1].offset = 4096 - 396;
    CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "'a' (400 bytes at 4096) and 'b'");
    format.arrays[1].offset = 4096 + 399;
    CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "overlap");
    format.arrays[1].offset = 4501;
    CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "not a multiple of 4");
    format.arrays[1].offset = UINT64_MAX - 399;
    CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "beyond");
    format.arrays[1].offset = SL_SLOT_MAX - 396;
    CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "beyond");
    format.arrays[1].offset = SL_SLOT_MAX - 400;
    CHECK_OK(sluice_format_complete(&format));
    CHECK_EQ(format.slot_bytes, SL_SLOT_MAX);
}

TEST(format_refuses_names)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    static const struct {
        const char *name, *word;
    } bad[] = {
        { NULL, "no name" },
        { "", "no name" },
        { "a b", "byte 32" },
        { "a/b", "byte 47" },
        { "\xc3\xa9", "byte 195" },
        { "a\n", "byte 10" },
        { "abcdefghijklmnopqrstuvwxyz012345", "longer than 31" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_SAYS(sluice_format_add_tensor(&format, bad[i].name, uint8, 1, SHAPE(1)), SLUICE_E_FORMAT, bad[i].word);
        CHECK_SAYS(sluice_format_add_image(&format, bad[i].name, SLUICE_PIXEL_RGBA, 1, 1), SLUICE_E_FORMAT,
                   bad[i].word);
    }
    CHECK_OK(sluice_format_add_tensor(&format, "abcdefghijklmnopqrstuvwxyz01234", uint8, 1, SHAPE(1)));
    CHECK_EQ(sluice_format_find(&format, "abcdefghijklmnopqrstuvwxyz01234"), 0);
    CHECK_SAYS(sluice_format_add_tensor(&format, "abcdefghijklmnopqrstuvwxyz01234", uint8, 1, SHAPE(1)),
               SLUICE_E_FORMAT, "two arrays");
    memset(format.arrays[0].name, 'x', SLUICE_ARRAY_NAME); /* no NUL */
    CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "longer than 31");
    CHECK_RESULT(sluice_format_find(&format, "y"), SLUICE_E_NOT_FOUND);
}

TEST(format_holds_1_to_16_arrays)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "0 arrays");
    for (int i = 0; i < SLUICE_MAX_ARRAYS; i++) {
        char name[] = { (char)('a' + i), 0 };
        CHECK_OK(sluice_format_add_tensor(&format, name, uint8, 1, SHAPE(1)));
    }
    CHECK_EQ(format.slot_bytes, 16 * 512);
    CHECK_SAYS(sluice_format_add_tensor(&format, "more", uint8, 1, SHAPE(1)), SLUICE_E_FORMAT, "'more'");
    format.array_count = 17;
    CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "17 arrays");
    CHECK_SAYS(sluice_format_add_tensor(&format, "more", uint8, 1, SHAPE(1)), SLUICE_E_FORMAT, "'more'");
    format.array_count = UINT32_MAX;
    CHECK_RESULT(sluice_format_complete(&format), SLUICE_E_FORMAT);
    CHECK_RESULT(sluice_format_find(&format, "none"), SLUICE_E_NOT_FOUND);
}

TEST(format_refuses_tensors)
{
    struct sluice_format format = SLUICE_FORMAT_INIT, before = format;
    const int64_t big = INT64_C(1) << 62;
    static const struct sluice_dtype no_types[] = {
        { 3, 8, 1 },  { 15, 8, 1 }, { 255, 8, 1 }, { 2, 8, 1 },  { 1, 0, 1 },
        { 1, 12, 1 }, { 1, 8, 0 },  { 1, 8, 65 },  { 6, 16, 1 }, { 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof no_types / sizeof no_types[0]; i++)
        CHECK_SAYS(sluice_format_add_tensor(&format, "t", no_types[i], 1, SHAPE(1)), SLUICE_E_FORMAT,
                   "'t': no data type");
    CHECK_SAYS(sluice_format_add_tensor(&format, "t", uint8, -1, SHAPE(1)), SLUICE_E_FORMAT, "-1 dimensions");
    CHECK_SAYS(sluice_format_add_tensor(&format, "t", uint8, 9, SHAPE(1)), SLUICE_E_FORMAT, "9 dimensions");
    CHECK_SAYS(sluice_format_add_tensor(&format, "t", uint8, INT32_MAX, SHAPE(1)), SLUICE_E_FORMAT, "dimensions");
    CHECK_RESULT(sluice_format_add_tensor(&format, "t", uint8, 1, NULL), SLUICE_E_INVALID);
    CHECK_SAYS(sluice_format_add_tensor(&format, "t", uint8, 2, SHAPE(4, 0)), SLUICE_E_FORMAT,
               "dimension 1 has the extent 0");
    CHECK_SAYS(sluice_format_add_tensor(&format, "t", uint8, 2, SHAPE(-4, 2)), SLUICE_E_FORMAT,
               "dimension 0 has the extent -4");
    CHECK_SAYS(sluice_format_add_tensor(&format, "t", uint8, 1, SHAPE(INT64_MIN)), SLUICE_E_FORMAT, "extent");
    CHECK_SAYS(sluice_format_add_tensor(&format, "t", uint8, 1, SHAPE(INT64_MAX)), SLUICE_E_FORMAT, "extent");
    CHECK_SAYS(sluice_format_add_tensor(&format, "t", uint8, 2, SHAPE(big, 4)), SLUICE_E_FORMAT, "extent");
    CHECK_SAYS(sluice_format_add_tensor(&format, "t", uint8, 8, SHAPE(1 << 20, 1 << 20, 1 << 20, 1 << 20, 1, 1, 1, 1)),
               SLUICE_E_FORMAT, "more than");
    CHECK_SAYS(sluice_format_add_tensor(&format, "t", float32, 1, SHAPE((int64_t)SL_SLOT_MAX)), SLUICE_E_FORMAT,
               "more than");
    CHECK_MEM(&format, &before, sizeof format);
    CHECK_OK(sluice_format_add_tensor(&format, "t", uint8, 1, SHAPE((int64_t)SL_SLOT_MAX)));
    CHECK_SAYS(sluice_format_add_tensor(&format, "u", uint8, 1, SHAPE(1)), SLUICE_E_FORMAT, "beyond");
    CHECK_RESULT(sluice_format_add_tensor(NULL, "t", uint8, 1, SHAPE(1)), SLUICE_E_INVALID);
}

TEST(format_strides_by_hand)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_tensor(&format, "t", float32, 3, SHAPE(4, 5, 6)));
    int64_t *strides = format.arrays[0].strides;
    static const struct {
        int64_t strides[3];
        uint64_t nbytes; /* 0: refused */
        const char *word;
    } cases[] = {
        { { 120, 24, 4 }, 480, NULL },
        { { 128, 24, 4 }, 3 * 128 + 120, NULL },
        { { 4, 16, 80 }, 480, NULL }, /* Fortran order */
        { { 24, 96, 4 }, 480, NULL }, /* any order */
        { { 0, 0, 0 }, 480, NULL },   /* tight */
        { { 240, 48, 8 }, 3 * 240 + 4 * 48 + 44, NULL },
        { { 116, 24, 4 }, 0, "dimension 0 (extent 4) has the stride 116" },
        { { 120, 20, 4 }, 0, "dimension 1 (extent 5) has the stride 20" },
        { { 120, 24, 3 }, 0, "dimension 2 (extent 6) has the stride 3" },
        { { 120, 24, 24 }, 0, "overlap" },
        { { 120, 24, -4 }, 0, "stride -4" },
        { { -120, 24, 4 }, 0, "positive" },
        { { 120, 0, 4 }, 0, "stride 0" },
        { { 122, 24, 4 }, 0, "not a multiple of 4" },
        { { INT64_MAX, 24, 4 }, 0, "within a slot" },
        { { INT64_MIN, 24, 4 }, 0, "positive" },
        { { INT64_C(1) << 46, 24, 4 }, 0, "reaches beyond" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(strides, cases[i].strides, sizeof cases[i].strides);
        if (cases[i].nbytes) {
            CHECK_OK(sluice_format_complete(&format));
            CHECK_EQ(format.arrays[0].nbytes, cases[i].nbytes);
        } else {
            CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, cases[i].word);
            CHECK_HAS(sluice_last_error(), "'t'");
        }
    }
}

TEST(format_refuses_what_was_not_initialised)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_image(&format, "i", SLUICE_PIXEL_RGBA, 4, 4));
    const struct sluice_format good = format;
    static const uint32_t sizes[] = { 0, 4, sizeof good - 8, sizeof good + 4, 1 << 21, UINT32_MAX };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        format.size = sizes[i];
        CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "SLUICE_FORMAT_INIT");
        CHECK_RESULT(sluice_format_add_tensor(&format, "u", uint8, 0, NULL), SLUICE_E_FORMAT);
    }
    uint8_t *bytes[] = { (uint8_t *)&format.reserved, (uint8_t *)&format.arrays[0].reserved[2],
                         &format.arrays[0].image.reserved[1] };
    for (size_t i = 0; i < 3; i++) {
        format = good;
        *bytes[i] = 1;
        CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "reserved");
    }
    uint8_t *values[] = { &format.arrays[0].image.row_order, &format.arrays[0].image.alpha,
                          &format.arrays[0].image.colour.range };
    for (size_t i = 0; i < 3; i++) {
        format = good;
        *values[i] = 4;
        CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "no known value");
    }
    format = good;
    format.arrays[0].image.pixel_format = 0;
    CHECK_SAYS(sluice_format_complete(&format), SLUICE_E_FORMAT, "no pixel format");
    CHECK_RESULT(sluice_format_complete(NULL), SLUICE_E_INVALID);
}

/* A program built with later headers has a longer struct: the bytes after ours do not change. */
TEST(format_of_a_later_program)
{
    struct {
        struct sluice_format format;
        uint64_t later[4];
    } theirs = { .format = SLUICE_FORMAT_INIT, .later = { 1, 2, 3, 4 } };
    struct sluice_format own = SLUICE_FORMAT_INIT;
    theirs.format.size = sizeof theirs;
    CHECK_OK(sluice_format_add_image(&theirs.format, "i", SLUICE_PIXEL_RGBA, 4, 4));
    CHECK_OK(sluice_format_complete(&theirs.format));
    CHECK_EQ(theirs.format.size, sizeof theirs);
    CHECK_OK(sl_format_load(&own, &theirs.format));
    CHECK_EQ(own.size, sizeof own);
    CHECK(same_format(&own, &theirs.format));

    memset(theirs.format.arrays, 0, sizeof theirs.format.arrays);
    CHECK_OK(sl_format_store(&theirs.format, &own));
    CHECK_EQ(theirs.format.size, sizeof theirs);
    CHECK(same_format(&own, &theirs.format));
    for (uint64_t i = 0; i < 4; i++)
        CHECK_EQ(theirs.later[i], i + 1);
    theirs.format.size = 0;
    CHECK_RESULT(sl_format_store(&theirs.format, &own), SLUICE_E_FORMAT);
    CHECK_RESULT(sl_format_load(&own, &theirs.format), SLUICE_E_FORMAT);
}

/* A frame's array put into a format by hand: the frame's own fields are ignored. */
TEST(format_forgets_data)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    char here;
    CHECK_OK(sluice_format_add_tensor(&format, "t", uint8, 1, SHAPE(4)));
    format.arrays[0].data = &here;
    format.arrays[0].read_only = 1;
    format.arrays[0].shape[5] = 77;
    memcpy(format.arrays[0].name, "t\0behind", 8);
    CHECK_OK(sluice_format_complete(&format));
    CHECK(format.arrays[0].data == NULL);
    CHECK_EQ(format.arrays[0].read_only, 0);
    CHECK_EQ(format.arrays[0].shape[5], 0);
    CHECK_MEM(format.arrays[0].name, "t\0\0\0\0\0\0\0", 8);
}
