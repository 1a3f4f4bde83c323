/* SPDX-License-Identifier: MIT
 *
 * tools/media/recording_*.c: written and read back bit for bit, cut at every byte, and damaged in every byte.
 */
#include "harness/test.h"

#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "tools/common/hash.h"
#include "tools/media/recording.h"
#include "tools/media/recording_bytes.h"

#define FRAMES 3

static char *text;
static size_t text_size;
static uint8_t pixels[FRAMES][6 * 4 * 3];
static float numbers[FRAMES][5];

static void make_format(struct sluice_format *format)
{
    const int64_t shape[1] = { 5 };
    *format = (struct sluice_format)SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_image(format, "image", SLUICE_PIXEL_RGB24, 6, 4));
    CHECK_OK(sluice_format_add_tensor(format, "numbers", (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 }, 1, shape));
}

static void make_frame(struct sluice_frame *frame, struct sluice_array arrays[2], unsigned number)
{
    struct sluice_format format;
    make_format(&format);
    for (size_t i = 0; i < sizeof pixels[0]; i++)
        pixels[number][i] = (uint8_t)(i * 7 + number);
    for (size_t i = 0; i < 5; i++)
        numbers[number][i] = (float)i / 3 + (float)number;
    arrays[0] = format.arrays[0];
    arrays[1] = format.arrays[1];
    arrays[0].data = pixels[number];
    arrays[1].data = numbers[number];
    *frame = (struct sluice_frame){ .sequence = number + 1,
                                    .session = 77,
                                    .missed = number,
                                    .capture_ns = (int64_t)number - 5,
                                    .commit_ns = 1000 + number,
                                    .capture_clock = SLUICE_CLOCK_TAI,
                                    .generation = 1,
                                    .array_count = 2 };
    frame->meta = (void *)(uintptr_t) "{\"a\":1}";
    frame->meta_size = 7;
}

/* A whole recording in memory. */
static void make_recording(void)
{
    struct sluice_format format;
    FILE *file = open_memstream(&text, &text_size);
    make_format(&format);
    CHECK(recording_create(file, "camera"));
    CHECK(recording_put_format(file, &format));
    for (unsigned i = 0; i < FRAMES; i++) {
        struct sluice_frame frame;
        struct sluice_array arrays[2];
        make_frame(&frame, arrays, i);
        CHECK(recording_put_frame(file, &frame, arrays));
    }
    CHECK(recording_put_end(file, FRAMES, 3));
    CHECK_EQ(fclose(file), 0);
}

static enum recording_block read_all(const void *bytes, size_t size, struct recording_summary *summary)
{
    FILE *file = fmemopen((void *)(uintptr_t)bytes, size, "rb");
    CHECK(file != NULL);
    enum recording_block got = recording_read(file, summary);
    fclose(file);
    return got;
}

TEST(recording_comes_back)
{
    struct recording *r = calloc(1, sizeof *r);
    struct sluice_format format;
    uint8_t image[sizeof pixels[0]];
    float five[5];
    make_recording();
    make_format(&format);
    FILE *file = fmemopen(text, text_size, "rb");
    CHECK_EQ(recording_open(r, file), RECORDING_FORMAT);
    CHECK_STR(r->channel, "camera");
    CHECK_EQ(recording_next(r), RECORDING_FORMAT);
    CHECK_EQ(r->format.array_count, 2);
    for (int i = 0; i < 2; i++)
        CHECK_MEM(&r->format.arrays[i], &format.arrays[i], sizeof format.arrays[i]);
    for (unsigned i = 0; i < FRAMES; i++) {
        CHECK_EQ(recording_next(r), RECORDING_FRAME);
        CHECK_EQ(r->frame.sequence, i + 1);
        CHECK_EQ(r->frame.session, 77);
        CHECK_EQ(r->frame.missed, i);
        CHECK_EQ(r->frame.capture_ns, -5 + (int)i);
        CHECK_EQ(r->frame.commit_ns, 1000 + (int)i);
        CHECK_EQ(r->frame.capture_clock, SLUICE_CLOCK_TAI);
        CHECK_EQ(r->frame.meta_size, 7);
        CHECK_MEM(r->frame.meta, "{\"a\":1}", 7);
        CHECK_EQ(recording_data(r, image), RECORDING_FRAME);
        CHECK_MEM(image, pixels[i], sizeof image);
        CHECK_EQ(recording_data(r, five), RECORDING_FRAME);
        CHECK_MEM(five, numbers[i], sizeof five);
    }
    CHECK_EQ(recording_next(r), RECORDING_END);
    fclose(file);
    free(r);
    free(text);
}

/* Wherever it is cut, the whole frames before are read, and the cut is reported. */
TEST(recording_cut_anywhere)
{
    struct recording_summary summary;
    uint64_t last = 0;
    make_recording();
    for (size_t size = 1; size < text_size; size++) {
        enum recording_block got = read_all(text, size, &summary);
        if (got != RECORDING_CUT)
            FAIL("cut at byte %zu of %zu: %d", size, text_size, got);
        CHECK_GE(summary.frames, last);
        last = summary.frames;
    }
    CHECK_EQ(last, FRAMES);
    CHECK_EQ(read_all(text, text_size, &summary), RECORDING_END);
    CHECK_EQ(summary.frames, FRAMES);
    CHECK_EQ(summary.formats, 1);
    free(text);
}

TEST(recording_damaged_anywhere)
{
    struct recording_summary summary;
    make_recording();
    for (size_t at = 0; at < text_size; at++) {
        text[at] ^= 0x10;
        enum recording_block got = read_all(text, text_size, &summary);
        if (got != RECORDING_BAD && got != RECORDING_CUT)
            FAIL("damage at byte %zu of %zu was not seen: %d", at, text_size, got);
        text[at] ^= 0x10;
    }
    free(text);
}

/* Hostile numbers with right hashes: offset in the first array record of the first frame. */
static enum recording_block with_number(size_t offset, unsigned bytes, uint64_t value)
{
    struct recording_summary summary;
    size_t format_block = FILE_HEAD, format_size = BLOCK_HEAD + FORMAT_HEAD + 2 * ARRAY_RECORD;
    size_t head_size = FRAME_HEAD + 7 + 2 * ARRAY_RECORD;
    uint8_t *copy = malloc(text_size);
    memcpy(copy, text, text_size);
    uint8_t *block = copy + format_block + format_size, *head = block + BLOCK_HEAD;
    put_number(head + FRAME_HEAD + 7 + offset, value, bytes);
    put_number(block + 16, hash_of(head, head_size), 8);
    put_number(block + 24, hash_of(block, 24), 8);
    enum recording_block got = read_all(copy, text_size, &summary);
    free(copy);
    return got;
}

TEST(recording_hostile_numbers)
{
    make_recording();
    CHECK_EQ(with_number(36, 4, 3), RECORDING_END); /* unchanged: checks the offset used below */
    static const uint64_t odd[] = { 9, UINT32_MAX };
    for (size_t i = 0; i < 2; i++)
        CHECK_EQ(with_number(36, 4, odd[i]), RECORDING_BAD); /* dimensions */
    CHECK_EQ(with_number(33, 1, 0), RECORDING_BAD);          /* bits */
    CHECK_EQ(with_number(33, 1, 7), RECORDING_BAD);
    CHECK_EQ(with_number(34, 2, 0), RECORDING_BAD);          /* lanes */
    CHECK_EQ(with_number(48, 8, 1), RECORDING_BAD);          /* bytes: too few */
    CHECK_EQ(with_number(48, 8, UINT64_MAX), RECORDING_BAD); /* too many */
    CHECK_EQ(with_number(48, 8, 73), RECORDING_BAD);         /* differs from the block */
    CHECK_EQ(with_number(64, 8, UINT64_MAX), RECORDING_BAD); /* shape */
    CHECK_EQ(with_number(64, 8, UINT64_C(1) << 62), RECORDING_BAD);
    CHECK_EQ(with_number(128, 8, UINT64_C(1) << 63), RECORDING_BAD); /* stride */
    CHECK_EQ(with_number(128, 8, UINT64_MAX / 3), RECORDING_BAD);
    CHECK_EQ(with_number(192, 4, 999), RECORDING_BAD);        /* pixel format */
    CHECK_EQ(with_number(196, 4, 70000), RECORDING_BAD);      /* width */
    CHECK_EQ(with_number(200, 4, 5), RECORDING_BAD);          /* height: past the end */
    CHECK_EQ(with_number(204, 4, 2), RECORDING_BAD);          /* planes that the format does not have */
    CHECK_EQ(with_number(208, 8, UINT64_MAX), RECORDING_BAD); /* plane offset */
    CHECK_EQ(with_number(216, 8, UINT64_MAX), RECORDING_BAD); /* plane pitch */
    free(text);
}

TEST(recording_of_another_version_or_kind)
{
    struct recording_summary summary;
    make_recording();
    CHECK_EQ(read_all("hello", 5, &summary), RECORDING_CUT);
    char other[200] = "RIFFxxxxAVI ";
    CHECK_EQ(read_all(other, sizeof other, &summary), RECORDING_BAD);
    text[8] = 2;
    CHECK_EQ(read_all(text, text_size, &summary), RECORDING_BAD);
    free(text);
}
