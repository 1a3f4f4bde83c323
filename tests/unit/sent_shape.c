/* SPDX-License-Identifier: MIT
 *
 * Arrays that a send refuses because of their shape, and what the message says they look like.
 */
#include <sluice/format.h>

#include "format/format.h"
#include "harness/test.h"

static const struct sluice_dtype uint8 = { SLUICE_UINT, 8, 1 };
static const struct sluice_dtype float32 = { SLUICE_FLOAT, 32, 1 };

#define SHAPE(...) (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), ((const int64_t[]){ __VA_ARGS__ })

static struct sluice_array tensor(struct sluice_dtype dtype, int ndim, const int64_t *shape)
{
    static char byte;
    struct sluice_array array;
    CHECK_OK(sluice_array_wrap(&array, NULL, &byte, dtype, ndim, shape, NULL));
    return array;
}

static struct sluice_format format_of(int ndim, const int64_t *shape)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_tensor(&format, "data", uint8, ndim, shape));
    return format;
}

static int check(const struct sluice_format *format, bool resize, int ndim, const int64_t *shape)
{
    struct sluice_array array = tensor(uint8, ndim, shape);
    return sl_format_check_sent(format, &array, 0, resize);
}

#define CHECK_REFUSED(format, text, ...) \
    do { \
        CHECK_SAYS(check(format, false, __VA_ARGS__), SLUICE_E_FORMAT, text); \
    } while (0)

TEST(sent_shapes_are_the_formats_unless_resize)
{
    struct sluice_format format = format_of(SHAPE(480, 640, 3));
    CHECK_OK(check(&format, false, SHAPE(480, 640, 3)));
    CHECK_REFUSED(&format, "array 'data' holds uint8 (480, 640, 3), not uint8 (20, 640, 3): only a writer",
                  SHAPE(20, 640, 3));
    CHECK_OK(check(&format, true, SHAPE(20, 640, 3)));
    CHECK_OK(check(&format, true, SHAPE(3, 480, 640)));
    CHECK_OK(check(&format, true, SHAPE(0, 640, 3)));
    CHECK_RESULT(check(&format, true, SHAPE(480, 640)), SLUICE_E_FORMAT); /* another rank: always */
    CHECK_RESULT(check(&format, true, SHAPE(480, 640, 3, 1)), SLUICE_E_FORMAT);
    CHECK_RESULT(check(&format, true, 0, NULL), SLUICE_E_FORMAT);

    struct sluice_array other = tensor(float32, SHAPE(2));
    CHECK_OK(sl_format_check_sent(&format, &other, 0, false)); /* its data type is refused later */
    other.ndim = 99;
    CHECK_RESULT(sl_format_check_sent(&format, &other, 0, true), SLUICE_E_FORMAT);
}

TEST(sent_shapes_say_what_they_look_like)
{
    struct sluice_format format = format_of(SHAPE(480, 640, 3));
    CHECK_REFUSED(&format, "(480, 640, 3), not uint8 (3, 480, 640): it looks like CHW", SHAPE(3, 480, 640));
    CHECK_REFUSED(&format, "width and height look swapped", SHAPE(640, 480, 3));
    CHECK_REFUSED(&format, "look reversed", SHAPE(3, 640, 480));
    CHECK_REFUSED(&format, "other colour components", SHAPE(480, 640, 4));
    CHECK_REFUSED(&format, "without colours", SHAPE(480, 640));
    CHECK_REFUSED(&format, "batch of one", SHAPE(1, 480, 640, 3));
    CHECK_REFUSED(&format, "as many elements", SHAPE(480 * 640 * 3));
    CHECK_REFUSED(&format, "(5): only a reformat", SHAPE(5));

    format = format_of(SHAPE(3, 480, 640));
    CHECK_REFUSED(&format, "it looks like HWC", SHAPE(480, 640, 3));
    CHECK_REFUSED(&format, "width and height look swapped", SHAPE(3, 640, 480));
    format = format_of(SHAPE(8, 480, 640, 3));
    CHECK_REFUSED(&format, "it looks like CHW", SHAPE(8, 3, 480, 640));
    CHECK_REFUSED(&format, "(7, 480, 640, 3): only a writer", SHAPE(7, 480, 640, 3));
    format = format_of(SHAPE(480, 640));
    CHECK_REFUSED(&format, "width and height look swapped", SHAPE(640, 480));
    CHECK_REFUSED(&format, "drop its last dimension", SHAPE(480, 640, 1));
    format = format_of(SHAPE(4));
    CHECK_REFUSED(&format, "(4), not uint8 (5)", SHAPE(5));
}

TEST(sent_shapes_of_images)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_BGR24, 640, 480));
    CHECK_OK(check(&format, false, SHAPE(480, 640, 3)));
    CHECK_REFUSED(&format, "width and height look swapped", SHAPE(640, 480, 3));
    CHECK_REFUSED(&format, "only a writer opened with `resize`", SHAPE(240, 320, 3));
    CHECK_OK(check(&format, true, SHAPE(240, 320, 3)));
    for (int resize = 0; resize < 2; resize++)
        CHECK_SAYS(check(&format, resize, SHAPE(3, 480, 640)), SLUICE_E_FORMAT,
                   "bgr24 images like uint8 (480, 640, 3), not "
                   "uint8 (3, 480, 640) (pixel format: none): it looks like CHW");

    format = (struct sluice_format)SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_NV12, 640, 480));
    CHECK_OK(check(&format, false, SHAPE(720, 640)));
    CHECK_REFUSED(&format, "width and height look swapped", SHAPE(960, 480));
}
