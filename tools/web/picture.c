/* SPDX-License-Identifier: MIT
 *
 * Images of 8 bits that are small enough stay where they are; all others are converted into memory of the picture.
 */
#include "picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../media/pixels.h"
#include "plane.h"

const struct sluice_array *web_picture_choose(const struct sluice_array *arrays, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count && name[0]; i++)
        if (strcmp(arrays[i].name, name) == 0)
            return &arrays[i];
    for (uint32_t i = 0; i < count && !name[0]; i++)
        if (arrays[i].image.pixel_format != SLUICE_PIXEL_NONE)
            return &arrays[i];
    return name[0] || count == 0 ? NULL : &arrays[0];
}

static bool fail(struct web_picture *picture, const char *problem)
{
    snprintf(picture->problem, sizeof picture->problem, "%s", problem);
    return false;
}

/* The largest size within width and height that keeps the proportions; never larger than the source. */
static void fit(uint32_t from_width, uint32_t from_height, uint32_t *width, uint32_t *height)
{
    uint32_t to_width = from_width < *width ? from_width : *width;
    uint32_t to_height = (uint32_t)((uint64_t)to_width * from_height / from_width);
    if (to_height > *height) {
        to_height = *height;
        to_width = (uint32_t)((uint64_t)to_height * from_width / from_height);
    }
    *width = to_width ? to_width : 1;
    *height = to_height ? to_height : 1;
}

static bool make_memory(struct web_picture *picture, uint32_t width, uint32_t height)
{
    const struct sluice_image *own = &picture->own.image;
    if (!picture->own.data || own->width != width || own->height != height) {
        free(picture->own.data);
        picture->own = (struct sluice_array){ 0 };
        if (pixels_alloc(&picture->own, SLUICE_PIXEL_RGB24, width, height) != SLUICE_OK)
            return fail(picture, "out of memory for the picture");
    }
    picture->image = picture->own;
    return true;
}

static bool is_bytes(uint32_t format)
{
    return format == SLUICE_PIXEL_RGBA || format == SLUICE_PIXEL_BGRA || format == SLUICE_PIXEL_RGB24 ||
           format == SLUICE_PIXEL_BGR24 || format == SLUICE_PIXEL_GRAY8;
}

/* Its samples measure something, such as a distance, rather than light. */
static bool is_measure(uint32_t format)
{
    return format == SLUICE_PIXEL_GRAY16 || format == SLUICE_PIXEL_GRAY_F32;
}

/* ---- numbers ---- */

static bool draw_numbers(struct web_picture *picture, const struct sluice_array *array, const struct web_look *look,
                         uint32_t width, uint32_t height)
{
    struct web_plane plane;
    double low = look->low, high = look->high;
    if (!web_plane_of(&plane, array, look->index))
        return fail(picture, "its elements cannot be shown in false colours, or there is no plane of that index");
    if (look->crop_width) {
        if (look->crop_x >= plane.width || look->crop_y >= plane.height)
            return fail(picture, "the part is outside the picture");
        plane.data += look->crop_x * plane.step_x + look->crop_y * plane.step_y;
        plane.width = look->crop_width < plane.width - look->crop_x ? look->crop_width : plane.width - look->crop_x;
        plane.height =
            look->crop_height < plane.height - look->crop_y ? look->crop_height : plane.height - look->crop_y;
    }
    if (!look->ranged)
        web_plane_range(&plane, &low, &high);
    fit(plane.width, plane.height, &width, &height);
    if (!make_memory(picture, width, height))
        return false;
    bool gray = look->colour == WEB_COLOUR_GRAY ||
                (look->colour == WEB_COLOUR_AUTO && array->image.pixel_format != SLUICE_PIXEL_NONE);
    web_plane_draw(&plane, &picture->own, low, high, !gray);
    return true;
}

/* ---- pictures ---- */

/* Bayer patterns as RGB; `whole` is to be freed. */
static bool demosaic(struct sluice_array *whole, const struct sluice_array *array)
{
    return pixels_alloc(whole, SLUICE_PIXEL_RGB24, array->image.width, array->image.height) == SLUICE_OK &&
           pixels_convert(whole, array) == SLUICE_OK;
}

static int convert(const struct sluice_array *to, const struct sluice_array *from, const struct web_look *look)
{
    struct sluice_convert how = SLUICE_CONVERT_INIT;
    struct sluice_device host = { 0 };
    struct sluice_stream stream;
    how.crop = (struct sluice_crop){ look->crop_x, look->crop_y, look->crop_width, look->crop_height };
    int result = sluice_device_open(&host, "host");
    if (result == SLUICE_OK)
        result = sluice_stream_default(host, &stream);
    if (result == SLUICE_OK)
        result = sluice_convert(stream, to, from, &how, NULL);
    sluice_device_close(&host);
    return result;
}

static bool convert_image(struct web_picture *picture, const struct sluice_array *array, const struct web_look *look,
                          uint32_t from_width, uint32_t from_height, uint32_t width, uint32_t height)
{
    struct web_look part = *look;
    if (part.crop_width) {
        if (part.crop_x >= from_width || part.crop_y >= from_height)
            return fail(picture, "the part is outside the picture");
        if (part.crop_width > from_width - part.crop_x)
            part.crop_width = from_width - part.crop_x;
        if (part.crop_height > from_height - part.crop_y)
            part.crop_height = from_height - part.crop_y;
        from_width = part.crop_width;
        from_height = part.crop_height;
    }
    fit(from_width, from_height, &width, &height);
    if (!make_memory(picture, width, height))
        return false;
    int result = convert(&picture->own, array, &part);
    return result == SLUICE_OK || fail(picture, sluice_last_error());
}

bool web_picture_make(struct web_picture *picture, const struct sluice_array *array, const struct web_look *look,
                      uint32_t width, uint32_t height)
{
    const struct sluice_image *image = &array->image;
    struct sluice_array whole = { 0 };
    bool numbers = look->ranged || (look->colour == WEB_COLOUR_AUTO && is_measure(image->pixel_format)) ||
                   look->colour == WEB_COLOUR_GRAY || look->colour == WEB_COLOUR_HEAT ||
                   (look->colour == WEB_COLOUR_AUTO && image->pixel_format == SLUICE_PIXEL_NONE);
    bool small = image->width <= width && image->height <= height && !look->crop_width;
    if (numbers)
        return draw_numbers(picture, array, look, width, height);
    if (image->pixel_format == SLUICE_PIXEL_NONE) {
        struct web_plane plane;
        bool described = web_plane_of(&plane, array, 0);
        return convert_image(picture, array, look, described ? plane.width : width, described ? plane.height : height,
                             width, height);
    }
    if (is_bytes(image->pixel_format) && small) {
        picture->image = *array;
        return true;
    }
    unsigned bayer =
        image->pixel_format >= SLUICE_PIXEL_BAYER_RGGB8 && image->pixel_format <= SLUICE_PIXEL_BAYER_GBRG16;
    if (bayer && !demosaic(&whole, array)) {
        free(whole.data);
        return fail(picture, "its Bayer pattern cannot be shown");
    }
    bool done = convert_image(picture, bayer ? &whole : array, look, image->width, image->height, width, height);
    free(whole.data);
    return done;
}

void web_picture_free(struct web_picture *picture)
{
    free(picture->own.data);
    *picture = (struct web_picture){ .problem = "" };
}
