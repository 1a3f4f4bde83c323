/* SPDX-License-Identifier: MIT
 *
 * Arrays that a send refuses because of their shape: the message has both shapes, and what the array looks like.
 */
#include <string.h>

#include "format/format.h"
#include "util/result.h"

static int refuse(const struct sluice_array *have, const struct sluice_array *given, const char *likeness)
{
    char wanted[SL_DESCRIPTION], sent[SL_DESCRIPTION];

    sl_array_describe(have->dtype, have->ndim, have->shape, wanted, sizeof wanted);
    sl_array_describe(given->dtype, given->ndim, given->shape, sent, sizeof sent);
    return sl_fail(SLUICE_E_FORMAT, "array '%.31s' holds %s, not %s: %s%sonly %s", have->name, wanted, sent,
                   likeness ? likeness : "", likeness ? "; " : "",
                   have->ndim != given->ndim ? "a reformat changes the number of dimensions"
                                             : "a writer opened with `resize` sends other sizes");
}

static int check_image(const struct sluice_array *have, const struct sluice_array *given, bool resize)
{
    uint32_t width, height;

    if (!sl_format_image_size(have, given, &width, &height))
        return sl_format_not_this_image(have, given);
    if (resize || (width == have->image.width && height == have->image.height))
        return SLUICE_OK;
    bool swapped = width == have->image.height && height == have->image.width;
    return refuse(have, given, swapped ? SL_SWAPPED : sl_format_likeness(have, given));
}

int sl_format_check_sent(const struct sluice_format *format, const struct sluice_array *array, uint32_t index,
                         bool resize)
{
    const struct sluice_array *have = &format->arrays[index];
    int r = sl_shape_check(SLUICE_E_FORMAT, have->name, array->ndim, array->shape);

    if (r != SLUICE_OK)
        return r;
    if (have->image.pixel_format)
        return check_image(have, array, resize);
    if (!sl_dtype_equal(array->dtype, have->dtype))
        return SLUICE_OK;
    if (array->ndim == have->ndim &&
        (resize || memcmp(array->shape, have->shape, sizeof array->shape[0] * (size_t)have->ndim) == 0))
        return SLUICE_OK;
    return refuse(have, array, sl_format_likeness(have, array));
}
