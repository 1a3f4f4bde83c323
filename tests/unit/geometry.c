/* SPDX-License-Identifier: MIT
 *
 * The geometry of frames that another process wrote: whatever it claims, nothing outside the array's memory passes. The
 * reference counts in 128 bits, or element by element.
 */
#include <string.h>

#include <sluice/format.h>

#include "format/format.h"
#include "harness/test.h"

__extension__ typedef __int128 wide;

static const struct sluice_dtype uint8 = { SLUICE_UINT, 8, 1 };
static const struct sluice_dtype float32 = { SLUICE_FLOAT, 32, 1 };

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t below(uint64_t limit)
{
    return random_bits() % limit;
}

/* Values that an attacker would try, and small ones that may pass. */
static uint64_t nasty(void)
{
    static const uint64_t corners[] = {
        0,
        1,
        2,
        4,
        511,
        512,
        4096,
        UINT64_C(1) << 31,
        UINT64_C(1) << 32,
        UINT64_C(1) << 46,
        UINT64_C(1) << 47,
        UINT64_C(1) << 61,
        UINT64_C(1) << 62,
        UINT64_C(1) << 63,
        UINT64_MAX,
        INT64_MAX,
    };
    uint64_t near = below(9) - 4;
    switch (below(4)) {
    case 0: return corners[below(sizeof corners / sizeof corners[0])] + near;
    case 1: return random_bits() >> below(64);
    default: return below(200);
    }
}

/* A format with a tensor in the middle and an image at its end. */
static struct sluice_format make_format(uint32_t pixel_format)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    format.pitch_align = 32;
    CHECK_OK(sluice_format_add_tensor(&format, "first", uint8, 1, SHAPE(100)));
    CHECK_OK(sluice_format_add_tensor(&format, "tensor", float32, 3, SHAPE(4, 5, 6)));
    CHECK_OK(sluice_format_add_image(&format, "image", pixel_format, 24, 16));
    return format;
}

static int check(const struct sluice_format *format, uint32_t index, const struct sluice_array *geometry)
{
    int r = sl_format_geometry_check(&format->arrays[index], geometry, format->slot_bytes);
    CHECK(r == SLUICE_OK || r == SLUICE_E_PROTOCOL);
    return r;
}

TEST(geometry_of_the_format_passes)
{
    for (uint32_t number = 1; number <= SLUICE_PIXEL_RGBA64; number++) {
        struct sluice_format format = make_format(number);
        for (uint32_t i = 0; i < format.array_count; i++)
            CHECK_OK(check(&format, i, &format.arrays[i]));
        struct sluice_array smaller;
        CHECK_OK(sl_format_resize(&format.arrays[2], 10, 6, 1, &smaller));
        CHECK_OK(check(&format, 2, &smaller));
        CHECK_OK(sl_format_reshape(&format.arrays[1], 3, SHAPE(2, 0, 3), &smaller));
        CHECK_OK(check(&format, 1, &smaller));
        smaller.offset += smaller.nbytes + 40; /* it may be anywhere in the memory */
        CHECK_OK(check(&format, 1, &smaller));
    }
}

TEST(geometry_wrong_fields_are_named)
{
    struct sluice_format format = make_format(SLUICE_PIXEL_NV12);
    const struct sluice_array tensor = format.arrays[1], image = format.arrays[2];
    struct sluice_array g;
#define WRONG(good, index, change, word) \
    do { \
        g = good; \
        g.change; \
        CHECK_SAYS(check(&format, index, &g), SLUICE_E_PROTOCOL, word); \
        CHECK_HAS(sluice_last_error(), (good).name); \
    } while (0)
    WRONG(tensor, 1, dtype.code = SLUICE_INT, "data type");
    WRONG(tensor, 1, dtype.bits = 64, "data type");
    WRONG(tensor, 1, dtype.lanes = 2, "data type");
    WRONG(tensor, 1, ndim = 2, "2 dimensions");
    WRONG(tensor, 1, ndim = 9, "9 dimensions");
    WRONG(tensor, 1, ndim = -1, "-1 dimensions");
    WRONG(tensor, 1, shape[0] = 5, "says 480 bytes");
    WRONG(tensor, 1, shape[0] = -1, "extent -1");
    WRONG(tensor, 1, strides[2] = -4, "stride -4");
    WRONG(tensor, 1, strides[2] = 0, "stride 0");
    WRONG(tensor, 1, strides[1] = 20, "overlap");
    WRONG(tensor, 1, nbytes = 479, "says 479");
    WRONG(tensor, 1, offset = tensor.offset - 4, "its room is");
    WRONG(tensor, 1, offset = tensor.offset + 4, "its room is");
    WRONG(tensor, 1, offset = UINT64_MAX - 3, "its room is");
    WRONG(tensor, 1, image.pixel_format = SLUICE_PIXEL_RGBA, "pixel format");
    WRONG(image, 2, image.pixel_format = 0, "pixel format");
    WRONG(image, 2, image.pixel_format = SLUICE_PIXEL_GRAY8, "pixel format");
    WRONG(image, 2, image.width = 0, "0 x 16");
    WRONG(image, 2, image.width = 25, "even width");
    WRONG(image, 2, image.height = 65538, "65538");
    WRONG(image, 2, image.height = 18, "overlap");
    WRONG(image, 2, image.plane_count = 3, "2 planes");
    WRONG(image, 2, image.plane_count = UINT32_MAX, "2 planes");
    WRONG(image, 2, image.planes[1].offset = 0, "overlap");
    WRONG(image, 2, image.planes[1].offset = 1024, "not its image's");
    WRONG(image, 2, image.planes[1].pitch = 23, "less than");
    WRONG(image, 2, image.planes[1].pitch = UINT64_MAX, "beyond");
    WRONG(image, 2, image.row_order = 2, "no known value");
    WRONG(image, 2, ndim = 1, "not its image's");
    WRONG(image, 2, shape[1] = 32, "not its image's");
    WRONG(image, 2, strides[0] = 16, "not its image's");
    WRONG(image, 2, nbytes = image.nbytes + 1, "bytes");
    WRONG(image, 2, offset = image.offset + 1, "its room is");
    struct sluice_array odd;
    CHECK_OK(sl_format_reshape(&tensor, 3, SHAPE(1, 1, 1), &odd));
    WRONG(odd, 1, offset = tensor.offset + 2, "offset");
    odd.shape[2] = 2;
    odd.nbytes = 10;
    WRONG(odd, 1, strides[2] = 6, "not a multiple of 4");
    odd = tensor; /* 2^18 steps of 2^46 bytes are 0 in 64 bits */
    odd.shape[1] = odd.shape[2] = 1;
    odd.strides[0] = INT64_C(1) << 46;
    odd.nbytes = 4;
    WRONG(odd, 1, shape[0] = (1 << 18) + 1, "reaches beyond");
    CHECK_RESULT(sl_format_geometry_check(&tensor, &tensor, tensor.offset + tensor.nbytes - 1), SLUICE_E_PROTOCOL);
}

TEST(geometry_keeps_elements_whole)
{
    struct sluice_format format = make_format(SLUICE_PIXEL_P010);
    struct sluice_array g;
    CHECK_OK(sl_format_resize(&format.arrays[2], 8, 8, 0, &g));
    g.offset += 2;
    CHECK_OK(check(&format, 2, &g));
    g.offset++;
    CHECK_SAYS(check(&format, 2, &g), SLUICE_E_PROTOCOL, "not a multiple of 2");
    g.offset--;
    g.image.planes[1].offset++;
    CHECK_SAYS(check(&format, 2, &g), SLUICE_E_PROTOCOL, "whole elements");
}

/* The highest byte that a tensor reaches, computed without overflow. */
static void check_tensor_inside(const struct sluice_format *format, const struct sluice_array *g)
{
    const struct sluice_array *room = &format->arrays[1];
    wide last = (wide)g->offset + 4;
    bool empty = false;
    CHECK_EQ(g->ndim, room->ndim);
    for (int d = 0; d < g->ndim; d++) {
        CHECK(g->shape[d] >= 0);
        CHECK(g->strides[d] >= 0);
        empty = empty || g->shape[d] == 0;
        last += (wide)(g->shape[d] - 1) * g->strides[d];
    }
    CHECK(g->offset >= room->offset && g->offset <= room->offset + room->nbytes);
    if (!empty)
        CHECK(last <= (wide)(room->offset + room->nbytes) && last == (wide)(g->offset + g->nbytes));
}

TEST(geometry_hostile_tensors)
{
    struct sluice_format format = make_format(SLUICE_PIXEL_RGBA);
    const struct sluice_array *room = &format.arrays[1];
    long passed = 0;
    for (long i = 0; i < test_scale(300000); i++) {
        struct sluice_array g = *room;
        for (uint64_t changes = 1 + below(4); changes; changes--) {
            switch (below(5)) {
            case 0: g.shape[below(3)] = (int64_t)nasty(); break;
            case 1: g.strides[below(3)] = (int64_t)(below(2) ? nasty() : below(40) * 4); break;
            case 2: g.shape[below(3)] = (int64_t)below(7); break;
            case 3: g.offset = below(2) ? nasty() : room->offset + below(600); break;
            default: g.nbytes = below(2) ? nasty() : below(600); break;
            }
        }
        if (below(2)) { /* a false array with the right size is likelier to pass */
            wide span = 4;
            for (int d = 0; d < 3; d++)
                span += ((wide)g.shape[d] - 1) * g.strides[d];
            g.nbytes = (uint64_t)span;
        }
        if (check(&format, 1, &g) == SLUICE_OK) {
            check_tensor_inside(&format, &g);
            passed++;
        }
    }
    CHECK(passed > 0);
}

static void check_image_inside(const struct sluice_format *format, const struct sluice_array *g)
{
    const struct sluice_array *room = &format->arrays[2];
    const struct sluice_image *image = &g->image;
    const struct sl_pixel_rule *rule = &sl_pixel_rules[room->image.pixel_format];
    wide end = 0;
    CHECK_EQ(image->plane_count, rule->plane_count);
    CHECK(image->width > 0 && image->height > 0);
    for (uint32_t p = 0; p < image->plane_count; p++) {
        wide row = (wide)(image->width >> rule->planes[p].log2_w) * rule->planes[p].bytes;
        wide last = (wide)image->planes[p].offset + row +
                    (wide)((image->height >> rule->planes[p].log2_h) - 1) * image->planes[p].pitch;
        CHECK((wide)image->planes[p].pitch >= row);
        end = last > end ? last : end;
    }
    CHECK(end == (wide)g->nbytes);
    CHECK((wide)g->offset + end <= (wide)(room->offset + room->nbytes));
    CHECK(g->offset >= room->offset);
    wide reach = g->dtype.bits / 8;
    for (int d = 0; d < g->ndim; d++)
        reach += (wide)(g->shape[d] - 1) * g->strides[d];
    CHECK(reach <= end);
}

TEST(geometry_hostile_images)
{
    static const uint32_t formats[] = { SLUICE_PIXEL_RGB24, SLUICE_PIXEL_NV12, SLUICE_PIXEL_I420, SLUICE_PIXEL_P010,
                                        SLUICE_PIXEL_YUV444P };
    long passed = 0;
    for (long i = 0; i < test_scale(200000); i++) {
        struct sluice_format format = make_format(formats[below(5)]);
        struct sluice_array g = format.arrays[2];
        if (i % 1000 == 0)
            random_state += (uint64_t)i;
        for (uint64_t changes = 1 + below(3); changes; changes--) {
            struct sluice_plane *plane = &g.image.planes[below(3)];
            switch (below(6)) {
            case 0: plane->offset = below(2) ? nasty() : below(2000); break;
            case 1: plane->pitch = below(2) ? nasty() : below(200); break;
            case 2: g.image.width = (uint32_t)(below(2) ? nasty() : below(40)); break;
            case 3: g.image.height = (uint32_t)(below(2) ? nasty() : below(20)); break;
            case 4: g.offset += below(2) ? nasty() : below(64); break;
            default: g.nbytes = nasty(); break;
            }
        }
        uint64_t nbytes;
        if (below(4) && sl_pixel_rule(g.image.pixel_format) && sl_image_check(SLUICE_E_FORMAT, "", &g.image) == 0 &&
            sl_image_planes_check(SLUICE_E_FORMAT, "", &g.image, &nbytes) == 0)
            sl_image_view(&g); /* a false array with the right shape */
        if (check(&format, 2, &g) == SLUICE_OK) {
            check_image_inside(&format, &g);
            passed++;
        }
    }
    CHECK(passed > 0);
}

/* Marks the bytes of every element: no byte twice. Returns the end of the last one, 0 for an overlap. */
static uint64_t walk(uint32_t element, int ndim, const int64_t *shape, const int64_t *strides)
{
    static uint8_t marks[65536];
    int64_t at[SLUICE_MAX_DIMS] = { 0 };
    uint64_t end = 0;
    memset(marks, 0, sizeof marks);
    for (;;) {
        uint64_t first = 0;
        for (int d = 0; d < ndim; d++)
            first += (uint64_t)(at[d] * strides[d]);
        CHECK(first + element <= sizeof marks);
        for (uint32_t b = 0; b < element; b++) {
            if (marks[first + b]++)
                return 0;
        }
        end = first + element > end ? first + element : end;
        int d = ndim - 1;
        for (; d >= 0 && ++at[d] == shape[d]; d--)
            at[d] = 0;
        if (d < 0)
            return end;
    }
}

TEST(geometry_strides_against_every_element)
{
    long passed = 0;
    for (long i = 0; i < test_scale(20000); i++) {
        uint32_t element = 1u << below(3);
        int ndim = (int)below(5);
        int64_t shape[SLUICE_MAX_DIMS], strides[SLUICE_MAX_DIMS];
        uint64_t nbytes = 0, tight = 0;
        for (int d = 0; d < ndim; d++) {
            shape[d] = 1 + (int64_t)below(4);
            strides[d] = (int64_t)below(below(2) ? 8 : 90);
        }
        if (sl_strides_check(SLUICE_E_FORMAT, "", element, ndim, shape, strides, &nbytes) == 0) {
            CHECK_EQ(walk(element, ndim, shape, strides), nbytes);
            passed++;
        }
        CHECK(sl_strides_tight(element, ndim, shape, strides, &tight));
        CHECK_OK(sl_strides_check(SLUICE_E_FORMAT, "", element, ndim, shape, strides, &nbytes));
        CHECK_EQ(nbytes, tight);
        if (ndim > 1) { /* the same in another order of dimensions */
            int64_t extent = shape[0], stride = strides[0];
            memmove(shape, shape + 1, sizeof *shape * (size_t)(ndim - 1));
            memmove(strides, strides + 1, sizeof *strides * (size_t)(ndim - 1));
            shape[ndim - 1] = extent;
            strides[ndim - 1] = stride;
            CHECK_OK(sl_strides_check(SLUICE_E_FORMAT, "", element, ndim, shape, strides, &nbytes));
            CHECK_EQ(walk(element, ndim, shape, strides), tight);
        }
    }
    CHECK(passed > test_scale(20000) / 50);
}
