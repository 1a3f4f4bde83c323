/* SPDX-License-Identifier: MIT
 *
 * Arrays that are pictures although their writer does not say so.
 */
#include "picture.h"

#include <stdio.h>
#include <string.h>

#include "cipd.h"
#include "describe.h"
#include "term.h"
#include "text.h"

bool args_pixel_format(const struct args *args, uint32_t *format)
{
    static const char *const names[] = {
#define ENTRY(name, number, text) text,
        SLUICE_PIXEL_FORMATS(ENTRY)
#undef ENTRY
    };
    size_t count = sizeof names / sizeof names[0];
    if ((*format = sluice_pixel_format_find(args->value)) != SLUICE_PIXEL_NONE)
        return true;
    const char *near = text_nearest(args->value, names, count);
    say_error(args->command->name, "unknown pixel format '%s'%s%s%s Pixel formats are:", args->value,
              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : ".");
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "%s%s", i ? ", " : "  ", names[i]);
    fputc('\n', stderr);
    return false;
}

static bool same_layout(const struct sluice_array *a, const struct sluice_array *b)
{
    return a->ndim == b->ndim && a->dtype.code == b->dtype.code && a->dtype.bits == b->dtype.bits &&
           a->dtype.lanes == b->dtype.lanes && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]) == 0 &&
           memcmp(a->strides, b->strides, (size_t)a->ndim * sizeof a->strides[0]) == 0;
}

/* What an image of that format is, if it is as high and wide as the array. */
static bool describe(const struct sluice_array *array, uint32_t pixels, struct sluice_format *format)
{
    bool sized = array->ndim >= 2 && array->shape[0] > 0 && array->shape[1] > 0 && array->shape[0] <= UINT32_MAX &&
                 array->shape[1] <= UINT32_MAX;
    *format = (struct sluice_format)SLUICE_FORMAT_INIT;
    return sized &&
           sluice_format_add_image(format, "as", pixels, (uint32_t)array->shape[1], (uint32_t)array->shape[0]) >= 0 &&
           sluice_format_complete(format) == 0;
}

int picture_take_as(const char *command, struct sluice_array *array, uint32_t pixels)
{
    struct sluice_format format;
    char text[FORMAT_TEXT], wanted[FORMAT_TEXT];
    if (!pixels)
        return EXIT_DONE;
    if (array->image.pixel_format) {
        say_error(command, "'%s' is an image already, %s: leave out --as.", array->name, text_array(text, array));
        return EXIT_FAILED;
    }
    bool described = describe(array, pixels, &format);
    if (described && same_layout(array, &format.arrays[0])) {
        array->image = format.arrays[0].image;
        return EXIT_DONE;
    }
    struct sluice_array plain = format.arrays[0];
    plain.image = (struct sluice_image){ 0 };
    say_error(command, "'%s' is %s, which cannot be taken as %s%s%s.", array->name, text_array(text, array),
              sluice_pixel_format_name(pixels), described ? ": that is " : "",
              described ? text_array(wanted, &plain) : "");
    return EXIT_FAILED;
}

void say_not_image(const char *command, const char *channel, const struct sluice_array *array, const char *instead)
{
    char text[FORMAT_TEXT];
    const char *formats = NULL;
    bool bytes = array->dtype.code == SLUICE_UINT && array->dtype.bits == 8 && array->dtype.lanes == 1;
    if (bytes && array->ndim == 2)
        formats = "gray";
    else if (bytes && array->ndim == 3 && array->shape[2] == 3)
        formats = "bgr24 or rgb24";
    else if (bytes && array->ndim == 3 && array->shape[2] == 4)
        formats = "rgba or bgra";
    bool cipd = formats && is_cipd(channel) && array->ndim == 3 && array->shape[2] == 4;
    say_error(command, "'%s' has %s, which is not an image%s%s; %s.", channel, text_array(text, array),
              cipd      ? " unless you give the byte order by --undeclared "
              : formats ? " unless its writer says so (in Python by sluice.Image), or you do, by --as "
                        : "",
              formats ? formats : "", instead);
}
