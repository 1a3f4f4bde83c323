/* SPDX-License-Identifier: MIT
 *
 * What an array of another shape looks like, by the usual orders of a picture's dimensions.
 */
#include <string.h>

#include "format/format.h"

#define MAX_COMPONENTS 4 /* of a pixel: a dimension as small as this looks like one of colours */

#define CHW_FOR_HWC "it looks like CHW, and the channel is HWC: transpose it"
#define HWC_FOR_CHW "it looks like HWC, and the channel is CHW: transpose it"

static bool is_shape(const int64_t *shape, int64_t a, int64_t b, int64_t c)
{
    return shape[0] == a && shape[1] == b && shape[2] == c;
}

static const char *compare_pictures(const int64_t *have, const int64_t *given)
{
    int64_t a = have[0], b = have[1], c = have[2];

    if (c <= MAX_COMPONENTS) {
        if (is_shape(given, c, a, b))
            return CHW_FOR_HWC;
        if (is_shape(given, b, a, c))
            return SL_SWAPPED;
        if (given[0] == a && given[1] == b && given[2] <= MAX_COMPONENTS)
            return "it looks like a picture with other colour components";
    }
    if (a <= MAX_COMPONENTS) {
        if (is_shape(given, b, c, a))
            return HWC_FOR_CHW;
        if (is_shape(given, a, c, b))
            return SL_SWAPPED;
    }
    return is_shape(given, c, b, a) ? "its dimensions look reversed: transpose it" : NULL;
}

static bool same_extents(const int64_t *a, const int64_t *b, int count)
{
    return count == 0 || memcmp(a, b, sizeof *a * (size_t)count) == 0;
}

static int64_t count_elements(const struct sluice_array *array)
{
    int64_t count = 1;

    for (int i = 0; i < array->ndim; i++)
        if (__builtin_mul_overflow(count, array->shape[i], &count))
            return -1;
    return count;
}

static const char *compare_dimensions(const struct sluice_array *have, const struct sluice_array *given)
{
    if (given->ndim == have->ndim + 1 && given->shape[0] == 1 &&
        same_extents(given->shape + 1, have->shape, have->ndim))
        return "it looks like a batch of one: drop its first dimension";
    if (given->ndim == have->ndim + 1 && given->shape[have->ndim] == 1 &&
        same_extents(given->shape, have->shape, have->ndim))
        return "drop its last dimension, of 1";
    if (given->ndim == 2 && have->ndim == 3 && same_extents(given->shape, have->shape, 2) &&
        have->shape[2] <= MAX_COMPONENTS)
        return "it looks like a picture without colours";
    if (given->ndim == 1 && count_elements(have) == given->shape[0])
        return "it has as many elements: reshape it";
    return NULL;
}

const char *sl_format_likeness(const struct sluice_array *have, const struct sluice_array *given)
{
    const int64_t *a = have->shape, *b = given->shape;

    if (given->ndim != have->ndim)
        return compare_dimensions(have, given);
    if (have->ndim == 2)
        return a[0] == b[1] && a[1] == b[0] ? SL_SWAPPED : NULL;
    if (have->ndim == 4 && a[0] == b[0])
        return compare_pictures(a + 1, b + 1);
    return have->ndim == 3 ? compare_pictures(a, b) : NULL;
}
