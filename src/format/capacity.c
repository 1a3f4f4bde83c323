/* SPDX-License-Identifier: MIT
 *
 * The geometry of a frame within the capacities of its channel, and the format in which a larger array
 * fits.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "format/format.h"
#include "util/result.h"

static int too_large(const struct sluice_array *capacity, int ndim, const int64_t *shape, uint64_t nbytes)
{
    char wanted[SL_DESCRIPTION], have[SL_DESCRIPTION], bytes[32] = "more than 2^46";
    sl_array_describe(capacity->dtype, ndim, shape, wanted, sizeof wanted);
    sl_array_describe(capacity->dtype, capacity->ndim, capacity->shape, have, sizeof have);
    if (nbytes <= SL_SLOT_MAX)
        snprintf(bytes, sizeof bytes, "%" PRIu64, nbytes);
    return sl_fail(SLUICE_E_CAPACITY,
                   "array '%.31s': %s takes %s bytes, the channel has room for %s, %" PRIu64
                   " bytes: cancel the frame and call sluice_writer_reformat",
                   capacity->name, wanted, bytes, have, capacity->nbytes);
}

int sl_format_reshape(const struct sluice_array *capacity, int ndim, const int64_t *shape, struct sluice_array *out)
{
    if (capacity->image.pixel_format) {
        return sl_fail(SLUICE_E_FORMAT, "array '%.31s' is an image: give it another size with sluice_frame_resize",
                       capacity->name);
    }
    if (ndim != capacity->ndim) {
        return sl_fail(SLUICE_E_FORMAT, "array '%.31s' has %d dimensions, not %d: sluice_writer_reformat changes that",
                       capacity->name, capacity->ndim, ndim);
    }
    if (ndim && !shape)
        return sl_fail(SLUICE_E_INVALID, "array '%.31s': its new shape is NULL", capacity->name);
    int r = sl_shape_check(SLUICE_E_FORMAT, capacity->name, ndim, shape);
    if (r != SLUICE_OK)
        return r;
    struct sluice_array fitted = *capacity;
    if (!sl_strides_tight(sl_dtype_size(capacity->dtype), ndim, shape, fitted.strides, &fitted.nbytes))
        return too_large(capacity, ndim, shape, UINT64_MAX);
    if (fitted.nbytes > capacity->nbytes)
        return too_large(capacity, ndim, shape, fitted.nbytes);
    if (ndim)
        memcpy(fitted.shape, shape, sizeof *shape * (size_t)ndim);
    *out = fitted;
    return SLUICE_OK;
}

int sl_format_resize(const struct sluice_array *capacity, uint32_t width, uint32_t height, uint32_t pitch_align,
                     struct sluice_array *out)
{
    struct sluice_array fitted = *capacity;
    if (!capacity->image.pixel_format) {
        return sl_fail(SLUICE_E_FORMAT, "array '%.31s' is no image: give it another shape with sluice_frame_reshape",
                       capacity->name);
    }
    fitted.image.width = width;
    fitted.image.height = height;
    int r = sl_image_check(SLUICE_E_FORMAT, capacity->name, &fitted.image);
    if (r != SLUICE_OK)
        return r;
    sl_image_layout(&fitted.image, pitch_align);
    sl_image_view(&fitted);
    if (fitted.nbytes > capacity->nbytes) {
        return sl_fail(SLUICE_E_CAPACITY,
                       "array '%.31s': %s of %u x %u takes %" PRIu64
                       " bytes, the channel has room for %u x %u, %" PRIu64
                       " bytes: cancel the frame and call sluice_writer_reformat",
                       capacity->name, sl_pixel_format_name(fitted.image.pixel_format), width, height, fitted.nbytes,
                       capacity->image.width, capacity->image.height, capacity->nbytes);
    }
    *out = fitted;
    return SLUICE_OK;
}

bool sl_format_image_size(const struct sluice_array *capacity, const struct sluice_array *array, uint32_t *width,
                          uint32_t *height)
{
    const struct sl_pixel_rule *rule = sl_pixel_rule(capacity->image.pixel_format);
    if (array->image.pixel_format == capacity->image.pixel_format) {
        *width = array->image.width;
        *height = array->image.height;
        return true;
    }
    return !array->image.pixel_format && sl_dtype_equal(array->dtype, rule->dtype) &&
           sl_image_size(rule, array->ndim, array->shape, width, height);
}

static bool same_shape(const struct sluice_array *a, const struct sluice_array *b)
{
    return a->ndim == b->ndim && memcmp(a->shape, b->shape, sizeof a->shape[0] * (size_t)a->ndim) == 0;
}

int sl_format_not_this_image(const struct sluice_array *capacity, const struct sluice_array *array)
{
    char have[SL_DESCRIPTION], given[SL_DESCRIPTION];
    sl_array_describe(capacity->dtype, capacity->ndim, capacity->shape, have, sizeof have);
    sl_array_describe(array->dtype, array->ndim, array->shape, given, sizeof given);
    const char *likeness = sl_format_likeness(capacity, array);
    return sl_fail(SLUICE_E_FORMAT, "array '%.31s' holds %s images like %s, not %s (pixel format: %s)%s%s",
                   capacity->name, sl_pixel_format_name(capacity->image.pixel_format), have, given,
                   sl_pixel_format_name(array->image.pixel_format), likeness ? ": " : "", likeness ? likeness : "");
}

static int not_this_type(const struct sluice_array *capacity, const struct sluice_array *array)
{
    char have[SL_DESCRIPTION], given[SL_DESCRIPTION];
    sl_array_describe(capacity->dtype, capacity->ndim, capacity->shape, have, sizeof have);
    sl_array_describe(array->dtype, array->ndim, array->shape, given, sizeof given);
    return sl_fail(SLUICE_E_FORMAT, "array '%.31s' holds %s, not %s", capacity->name, have, given);
}

static int frame_image(const struct sluice_format *format, const struct sluice_array *array,
                       const struct sluice_array *capacity, struct sluice_array *out)
{
    uint32_t width, height;
    if (!sl_format_image_size(capacity, array, &width, &height))
        return sl_format_not_this_image(capacity, array);
    if (width == capacity->image.width && height == capacity->image.height) {
        *out = *capacity;
        return SLUICE_OK;
    }
    return sl_format_resize(capacity, width, height, format->pitch_align, out);
}

int sl_format_frame(const struct sluice_format *format, const struct sluice_array *array, uint32_t index,
                    struct sluice_array *out)
{
    const struct sluice_array *capacity = &format->arrays[index];
    int r = sl_shape_check(SLUICE_E_FORMAT, capacity->name, array->ndim, array->shape);
    if (r != SLUICE_OK)
        return r;
    if (capacity->image.pixel_format)
        return frame_image(format, array, capacity, out);
    if (!sl_dtype_equal(array->dtype, capacity->dtype))
        return not_this_type(capacity, array);
    if (same_shape(array, capacity)) {
        *out = *capacity;
        return SLUICE_OK;
    }
    if (array->ndim != capacity->ndim) {
        return sl_fail(SLUICE_E_CAPACITY,
                       "array '%.31s' has %d dimensions, not %d, until sluice_writer_reformat changes that",
                       capacity->name, capacity->ndim, array->ndim);
    }
    return sl_format_reshape(capacity, array->ndim, array->shape, out);
}

static bool fits_image(const struct sluice_array *room, const struct sluice_array *array, uint32_t pitch_align)
{
    struct sluice_array frame;
    frame.image = room->image;
    if (!sl_format_image_size(room, array, &frame.image.width, &frame.image.height))
        return false;
    if (frame.image.width == room->image.width && frame.image.height == room->image.height)
        return true;
    if (!sl_image_size_valid(&frame.image))
        return false;
    sl_image_layout(&frame.image, pitch_align);
    sl_image_view(&frame);
    return frame.nbytes <= room->nbytes;
}

bool sl_format_fits(const struct sluice_format *capacity, const struct sluice_array *array, uint32_t index)
{
    const struct sluice_array *room = &capacity->arrays[index];
    int64_t strides[SLUICE_MAX_DIMS];
    uint64_t nbytes;
    if (!sl_shape_valid(array->ndim, array->shape))
        return false;
    if (room->image.pixel_format)
        return fits_image(room, array, capacity->pitch_align);
    if (!sl_dtype_equal(array->dtype, room->dtype) || array->ndim != room->ndim)
        return false;
    return same_shape(array, room) ||
           (sl_strides_tight(sl_dtype_size(room->dtype), array->ndim, array->shape, strides, &nbytes) &&
            nbytes <= room->nbytes);
}

int sl_format_grow(const struct sluice_format *format, const struct sluice_array *array, uint32_t index,
                   struct sluice_format *out)
{
    struct sluice_format grown = *format;
    struct sluice_array *room = &grown.arrays[index];
    int r = sl_shape_check(SLUICE_E_FORMAT, room->name, array->ndim, array->shape);
    if (r != SLUICE_OK)
        return r;
    if (room->image.pixel_format) {
        if (!sl_format_image_size(room, array, &room->image.width, &room->image.height))
            return sl_format_not_this_image(room, array);
        room->image.plane_count = 0;
        memset(room->image.planes, 0, sizeof room->image.planes);
    } else {
        if (!sl_dtype_equal(array->dtype, room->dtype))
            return not_this_type(room, array);
        room->ndim = array->ndim;
        for (int d = 0; d < array->ndim; d++) /* a frame may be empty, a capacity may not */
            room->shape[d] = array->shape[d] ? array->shape[d] : 1;
        memset(room->strides, 0, sizeof room->strides);
    }
    for (uint32_t i = 0; i < grown.array_count; i++)
        grown.arrays[i].offset = 0;
    r = sl_format_check(&grown);
    if (r == SLUICE_OK)
        *out = grown;
    return r;
}
