/* SPDX-License-Identifier: MIT
 *
 * Formats that a channel cannot have: the message names the format, and then the reason.
 */
#include <stdio.h>

#include "format/format.h"
#include "util/result.h"

static void describe(const struct sluice_array *array, char *text, size_t size)
{
    if (array->image.pixel_format)
        snprintf(text, size, "%s of %u x %u", sl_pixel_format_name(array->image.pixel_format), array->image.width,
                 array->image.height);
    else
        sl_array_describe(array->dtype, array->ndim, array->shape, text, size);
}

int sl_format_refused(int result, const struct sluice_format *format)
{
    char first[SL_DESCRIPTION], more[40] = "";

    describe(&format->arrays[0], first, sizeof first);
    if (format->array_count > 1)
        snprintf(more, sizeof more, " and %u more", format->array_count - 1);
    return sl_fail(result, "there can be no frames of '%.31s' %s%s: %s", format->arrays[0].name, first, more,
                   sl_last_error());
}
