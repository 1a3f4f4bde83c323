/* SPDX-License-Identifier: MIT
 *
 * Copies compared with a loop over single elements, on arrays of random shapes and strides; images; invalid arrays.
 */
#include <stdlib.h>
#include <string.h>

#include <sluice/format.h>

#include "format/format.h"
#include "harness/test.h"

static const struct sluice_dtype uint8 = { SLUICE_UINT, 8, 1 };
static const struct sluice_dtype float32 = { SLUICE_FLOAT, 32, 1 };

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

enum { SPACE = 1 << 14 };

static uint64_t random_state = 0x2545f4914f6cdd1d;

static uint64_t below(uint64_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % limit;
}

static uint8_t *filled(uint8_t first)
{
    uint8_t *space = malloc(SPACE);
    CHECK(space != NULL);
    for (size_t i = 0; i < SPACE; i++)
        space[i] = (uint8_t)(first + i * 7 + (i >> 8));
    return space;
}

static struct sluice_array wrap(void *data, struct sluice_dtype dtype, int ndim, const int64_t *shape,
                                const int64_t *strides)
{
    struct sluice_array array;
    CHECK_OK(sluice_array_wrap(&array, "a", data, dtype, ndim, shape, strides));
    return array;
}

static void copy_naively(const struct sluice_array *to, const struct sluice_array *from)
{
    int64_t at[SLUICE_MAX_DIMS] = { 0 };
    for (int d = 0; d < to->ndim; d++) {
        if (to->shape[d] == 0)
            return;
    }
    for (;;) {
        int64_t into = 0, outof = 0;
        for (int d = 0; d < to->ndim; d++) {
            into += at[d] * to->strides[d];
            outof += at[d] * from->strides[d];
        }
        memcpy((char *)to->data + into, (char *)from->data + outof, sluice_dtype_size(to->dtype));
        int d = to->ndim - 1;
        for (; d >= 0 && ++at[d] == to->shape[d]; d--)
            at[d] = 0;
        if (d < 0)
            return;
    }
}

/* Strides of an array that does not overlap itself: dimensions in a random order, with random gaps, or plain C order.
 * */
static void random_strides(uint32_t element, int ndim, const int64_t *shape, int64_t *strides)
{
    int order[SLUICE_MAX_DIMS];
    bool shuffle = below(2), gaps = below(2);
    int64_t span = element;
    for (int d = 0; d < ndim; d++)
        order[d] = ndim - 1 - d;
    for (int d = ndim - 1; shuffle && d > 0; d--) {
        int other = (int)below((uint64_t)d + 1), kept = order[d];
        order[d] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < ndim; i++) {
        int d = order[i];
        strides[d] = span + (gaps && below(3) == 0 ? (int64_t)below(5) : 0);
        span = strides[d] * (shape[d] > 0 ? shape[d] : 1);
    }
}

/* Either side may be flipped. Returns the offset of its first element. */
static int64_t flip(int ndim, const int64_t *shape, int64_t *strides)
{
    int64_t first = 0;
    for (int d = 0; d < ndim; d++) {
        if (below(4) == 0 && shape[d] > 0) {
            first += (shape[d] - 1) * strides[d];
            strides[d] = -strides[d];
        }
    }
    return first;
}

/* A source may also repeat elements. */
static int64_t bend(int ndim, const int64_t *shape, int64_t *strides)
{
    for (int d = 0; d < ndim; d++)
        if (below(6) == 0)
            strides[d] = 0;
    return flip(ndim, shape, strides);
}

TEST(array_copy_is_a_loop_over_elements)
{
    uint8_t *source = filled(1), *a = malloc(SPACE), *b = malloc(SPACE);
    CHECK(a && b);
    for (long i = 0; i < test_scale(10000); i++) {
        static const struct sluice_dtype dtypes[] = {
            { 1, 8, 1 },   { 0, 16, 1 }, { 1, 8, 3 }, { 2, 32, 1 }, { 2, 64, 1 },
            { 5, 128, 1 }, { 2, 32, 3 }, { 1, 8, 7 }, { 4, 16, 1 },
        };
        struct sluice_dtype dtype = dtypes[below(9)];
        uint32_t element = sluice_dtype_size(dtype);
        int ndim = (int)below(5);
        int64_t shape[SLUICE_MAX_DIMS], to[SLUICE_MAX_DIMS], from[SLUICE_MAX_DIMS], first = 0, into = 0;
        for (int d = 0; d < ndim; d++)
            shape[d] = below(40) ? 1 + (int64_t)below(5) : 0;
        random_strides(element, ndim, shape, to);
        random_strides(element, ndim, shape, from);
        if (below(2))
            first = bend(ndim, shape, from);
        if (below(2))
            into = flip(ndim, shape, to);
        size_t odd = below(16);
        memset(a, 0xee, SPACE);
        memset(b, 0xee, SPACE);
        struct sluice_array x = wrap(source + odd + first, dtype, ndim, shape, from);
        struct sluice_array y = wrap(a + odd + into, dtype, ndim, shape, to);
        CHECK_OK(sluice_array_copy(&y, &x));
        y.data = b + odd + into;
        copy_naively(&y, &x);
        CHECK_MEM(a, b, SPACE);
    }
    free(source);
    free(a);
    free(b);
}

/* Each array is in memory of exactly its size, so that a sanitizer finds an access beyond it. */
TEST(array_copy_touches_no_byte_more)
{
    for (int i = 0; i < 200; i++) {
        int64_t shape[3] = { 1 + (int64_t)below(6), 1 + (int64_t)below(6), 1 + (int64_t)below(6) };
        int64_t strides[3], flipped[3];
        random_strides(4, 3, shape, strides);
        random_strides(4, 3, shape, flipped);
        int64_t into = flip(3, shape, strides), first = bend(3, shape, flipped);
        struct sluice_array to = wrap(NULL, float32, 3, shape, strides);
        struct sluice_array from = wrap(NULL, float32, 3, shape, flipped);
        uint8_t *a = malloc(to.nbytes), *b = malloc(from.nbytes);
        CHECK(a && b);
        memset(b, 1, from.nbytes);
        to.data = a + into;
        from.data = b + first;
        CHECK_OK(sluice_array_copy(&to, &from));
        free(a);
        free(b);
    }
}

TEST(array_wrap)
{
    struct sluice_array array;
    char data[64];
    CHECK_OK(sluice_array_wrap(&array, NULL, data, float32, 2, SHAPE(3, 5), NULL));
    CHECK_STR(array.name, "");
    CHECK(array.data == data);
    CHECK_EQ(array.nbytes, 60);
    CHECK_EQ(array.strides[0], 20);
    CHECK_EQ(array.strides[1], 4);
    CHECK_EQ(array.image.pixel_format, 0);
    CHECK_OK(sluice_array_wrap(&array, "flip", data + 40, float32, 2, SHAPE(3, 5), SHAPE(-20, 4)));
    CHECK_EQ(array.nbytes, 60);
    CHECK_EQ(array.strides[0], -20);
    CHECK_OK(sluice_array_wrap(&array, "same", data, float32, 2, SHAPE(1000, 1000), SHAPE(0, 0)));
    CHECK_EQ(array.nbytes, 4); /* taken literally, not as "tight" */
    CHECK_EQ(array.strides[1], 0);
    CHECK_OK(sluice_array_wrap(&array, "none", NULL, float32, 2, SHAPE(0, 5), NULL));
    CHECK_EQ(array.nbytes, 0);
    CHECK_OK(sluice_array_wrap(&array, "one", data, float32, 0, NULL, NULL));
    CHECK_EQ(array.nbytes, 4);

    const struct sluice_array before = array;
    const int64_t huge = INT64_C(1) << 40;
    CHECK_SAYS(sluice_array_wrap(&array, "a b", data, uint8, 1, SHAPE(1), NULL), SLUICE_E_FORMAT, "'a b'");
    CHECK_SAYS(sluice_array_wrap(&array, "a", data, uint8, 9, SHAPE(1), NULL), SLUICE_E_FORMAT, "9 dimensions");
    CHECK_SAYS(sluice_array_wrap(&array, "a", data, uint8, -1, SHAPE(1), NULL), SLUICE_E_FORMAT, "-1 dimensions");
    CHECK_SAYS(sluice_array_wrap(&array, "a", data, uint8, 1, SHAPE(-1), NULL), SLUICE_E_FORMAT, "extent -1");
    CHECK_SAYS(sluice_array_wrap(&array, "a", data, uint8, 2, SHAPE(huge, huge), NULL), SLUICE_E_FORMAT, "2^46");
    CHECK_SAYS(sluice_array_wrap(&array, "a", data, uint8, 2, SHAPE(2, 3), SHAPE(INT64_MIN, 1)), SLUICE_E_FORMAT,
               "dimension 0");
    CHECK_SAYS(sluice_array_wrap(&array, "a", data, uint8, 2, SHAPE(3, 3), SHAPE(1, INT64_MAX)), SLUICE_E_FORMAT,
               "dimension 1");
    CHECK_SAYS(sluice_array_wrap(&array, "a", data, (struct sluice_dtype){ 3, 64, 1 }, 1, SHAPE(1), NULL),
               SLUICE_E_FORMAT, "code 3");
    CHECK_RESULT(sluice_array_wrap(&array, "a", data, uint8, 1, NULL, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_array_wrap(NULL, "a", data, uint8, 1, SHAPE(1), NULL), SLUICE_E_INVALID);
    CHECK_MEM(&array, &before, sizeof array);
}

TEST(array_copy_refuses)
{
    float memory[72] = { 0 }, there[24] = { 0 }, *here = memory + 24;
    const struct sluice_array to = wrap(here, float32, 2, SHAPE(4, 6), NULL);
    const struct sluice_array from = wrap(there, float32, 2, SHAPE(4, 6), NULL);
    struct sluice_array bad;
#define REFUSED(good, change, expected, word) \
    do { \
        bad = good; \
        bad.change; \
        CHECK_SAYS(&(good) == &to ? sluice_array_copy(&bad, &from) : sluice_array_copy(&to, &bad), expected, word); \
    } while (0)
    REFUSED(from, dtype.code = SLUICE_INT, SLUICE_E_FORMAT, "int32 (4, 6)");
    REFUSED(from, dtype.code = 99, SLUICE_E_FORMAT, "no type (4, 6)");
    REFUSED(from, ndim = 1, SLUICE_E_FORMAT, "float32 (4): only the same");
    REFUSED(from, ndim = 9, SLUICE_E_FORMAT, "9 dimensions");
    REFUSED(to, ndim = -2, SLUICE_E_FORMAT, "-2 dimensions");
    REFUSED(from, shape[1] = 5, SLUICE_E_FORMAT, "(4, 5)");
    REFUSED(from, shape[0] = -4, SLUICE_E_FORMAT, "extent -4");
    REFUSED(from, data = NULL, SLUICE_E_INVALID, "copy from, has no data");
    REFUSED(to, data = NULL, SLUICE_E_INVALID, "copy into, has no data");
    REFUSED(to, read_only = 1, SLUICE_E_INVALID, "read-only");
    REFUSED(to, strides[0] = 20, SLUICE_E_INVALID, "overlap");
    REFUSED(to, strides[0] = -20, SLUICE_E_INVALID, "overlap");
    REFUSED(to, strides[0] = INT64_MIN, SLUICE_E_INVALID, "dimension 0");
    REFUSED(to, strides[0] = 0, SLUICE_E_INVALID, "stride 0");
    REFUSED(to, strides[0] = 28, SLUICE_E_INVALID, "takes 108 bytes, nbytes says 96");
    REFUSED(from, strides[0] = 28, SLUICE_E_INVALID, "takes 108 bytes, nbytes says 96");
    REFUSED(from, strides[0] = INT64_MIN, SLUICE_E_INVALID, "dimension 0");
    REFUSED(from, nbytes = 95, SLUICE_E_INVALID, "nbytes says 95");
    REFUSED(from, data = here + 23, SLUICE_E_INVALID, "share memory");
    REFUSED(from, data = here - 23, SLUICE_E_INVALID, "share memory");
    const struct sluice_array up = wrap(here + 18, float32, 2, SHAPE(4, 6), SHAPE(-24, 4)); /* the same bytes */
    bad = from;
    for (int i = -23; i < 24; i++) {
        bad.data = here + i;
        CHECK_SAYS(sluice_array_copy(&up, &bad), SLUICE_E_INVALID, "share memory");
    }
    bad.data = here - 24;
    CHECK_OK(sluice_array_copy(&up, &bad));
    bad.data = here + 24;
    CHECK_OK(sluice_array_copy(&up, &bad));
    CHECK_OK(sluice_array_copy(&up, &up));
    CHECK_RESULT(sluice_array_copy(NULL, &from), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_array_copy(&to, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_array_copy(&to, &from));
    CHECK_OK(sluice_array_copy(&to, &to)); /* the very same: nothing to do */

    struct sluice_array none = wrap(NULL, float32, 2, SHAPE(4, 0), NULL);
    CHECK_OK(sluice_array_copy(&none, &none));
}

static struct sluice_array image(uint32_t pixel_format, uint32_t pitch_align, void *data)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    format.pitch_align = pitch_align;
    CHECK_OK(sluice_format_add_image(&format, "i", pixel_format, 20, 6));
    format.arrays[0].data = data;
    return format.arrays[0];
}

/* Tight, padded, padded, tight again: the same pixels, and the bytes between the rows are not touched. */
TEST(array_copy_images_whatever_their_pitches)
{
    uint8_t *first = filled(3), *padded = malloc(SPACE), *again = malloc(SPACE), *last = malloc(SPACE);
    CHECK(padded && again && last);
    for (uint32_t number = 1; number <= SLUICE_PIXEL_RGBA64; number++) {
        struct sluice_array a = image(number, 0, first), b = image(number, 64, padded);
        struct sluice_array c = image(number, 64, again), d = image(number, 0, last);
        memset(padded, 0xee, SPACE);
        memset(again, 0xee, SPACE);
        memset(last, 0xee, SPACE);
        CHECK_OK(sluice_array_copy(&b, &a));
        CHECK_OK(sluice_array_copy(&c, &b));
        CHECK_OK(sluice_array_copy(&d, &c));
        CHECK_MEM(last, first, a.nbytes);
        CHECK_MEM(again, padded, SPACE);
        CHECK_EQ(last[a.nbytes], 0xee);

        size_t written = 0, expected = 0;
        for (size_t i = 0; i < SPACE; i++)
            written += padded[i] != 0xee;
        for (size_t i = 0; i < a.nbytes; i++)
            expected += first[i] != 0xee;
        CHECK_EQ(written, expected);
    }
    free(first);
    free(padded);
    free(again);
    free(last);
}

/* An image's memory described as a plain array. */
TEST(array_copy_between_image_and_array)
{
    uint8_t *pixels = filled(9), *padded = malloc(SPACE);
    CHECK(padded != NULL);
    struct sluice_array plain = wrap(pixels, uint8, 3, SHAPE(6, 20, 3), NULL);
    struct sluice_array channel = image(SLUICE_PIXEL_RGB24, 64, padded);
    CHECK_OK(sluice_array_copy(&channel, &plain));
    for (int row = 0; row < 6; row++)
        CHECK_MEM(padded + 64 * row, pixels + 60 * row, 60);

    /* BGR from RGB, upside down: a view with two negative strides */
    struct sluice_array view = wrap(pixels + 5 * 60 + 2, uint8, 3, SHAPE(6, 20, 3), SHAPE(-60, 3, -1));
    CHECK_OK(sluice_array_copy(&channel, &view));
    CHECK_EQ(padded[0], pixels[5 * 60 + 2]);
    CHECK_EQ(padded[64 * 5 + 59], pixels[57]);

    struct sluice_array odd = image(SLUICE_PIXEL_I420, 64, padded);
    plain = wrap(pixels, uint8, 2, SHAPE(9, 20), NULL);
    CHECK_SAYS(sluice_array_copy(&odd, &plain), SLUICE_E_FORMAT, "uint8 (9, 20)");
    free(pixels);
    free(padded);
}

TEST(array_copy_refuses_images)
{
    uint8_t *here = filled(0), *there = filled(0);
    const struct sluice_array to = image(SLUICE_PIXEL_NV12, 0, here);
    const struct sluice_array from = image(SLUICE_PIXEL_NV12, 32, there);
    struct sluice_array bad;
    REFUSED(from, image.pixel_format = SLUICE_PIXEL_I420, SLUICE_E_FORMAT, "yuv420p");
    REFUSED(from, image.width = 18, SLUICE_E_FORMAT, "18 x 6");
    REFUSED(from, image.row_order = SLUICE_BOTTOM_UP, SLUICE_E_FORMAT, "top-down");
    REFUSED(from, image.plane_count = 9, SLUICE_E_INVALID, "2 planes");
    REFUSED(from, image.planes[1].pitch = 19, SLUICE_E_INVALID, "less than");
    REFUSED(from, image.planes[1].offset = 1000, SLUICE_E_INVALID, "nbytes says");
    REFUSED(to, image.planes[1].offset = 10, SLUICE_E_INVALID, "overlap");
    REFUSED(to, image.planes[0].pitch = UINT64_MAX, SLUICE_E_INVALID, "beyond");
    REFUSED(to, nbytes = 10, SLUICE_E_INVALID, "nbytes says 10");
    REFUSED(to, data = NULL, SLUICE_E_INVALID, "no data");
    REFUSED(to, read_only = 1, SLUICE_E_INVALID, "read-only");
    REFUSED(from, data = here + 100, SLUICE_E_INVALID, "share memory");
    CHECK_OK(sluice_array_copy(&to, &to));
    CHECK_OK(sluice_array_copy(&to, &from));
    free(here);
    free(there);
}
