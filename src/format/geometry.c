/* SPDX-License-Identifier: MIT
 *
 * Shapes and strides: strides without gaps, the check of others, and the check of a frame's geometry that
 * came from another process.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "format/format.h"
#include "util/checked.h"
#include "util/result.h"

void sl_array_describe(struct sluice_dtype dtype, int ndim, const int64_t *shape, char *text, size_t size)
{
    char type[SLUICE_DTYPE_TEXT];
    if (!sl_dtype_valid(dtype) || sl_dtype_format(dtype, type, sizeof type) != SLUICE_OK)
        strcpy(type, "no type");
    size_t at = (size_t)snprintf(text, size, "%s (", type);
    for (int d = 0; d < ndim && at < size; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%" PRId64, d ? ", " : "", shape[d]);
    if (at < size)
        snprintf(text + at, size - at, ")");
}

static bool extent_valid(int64_t extent)
{
    return extent >= 0 && extent <= (int64_t)SL_SLOT_MAX;
}

bool sl_shape_valid(int ndim, const int64_t *shape)
{
    bool valid = ndim >= 0 && ndim <= SLUICE_MAX_DIMS;
    for (int d = 0; valid && d < ndim; d++)
        valid = extent_valid(shape[d]);
    return valid;
}

int sl_shape_check(int result, const char *name, int ndim, const int64_t *shape)
{
    if (ndim < 0 || ndim > SLUICE_MAX_DIMS)
        return sl_fail(result, "array '%.31s': %d dimensions; there may be 0 to %d", name, ndim, SLUICE_MAX_DIMS);
    for (int d = 0; d < ndim; d++) {
        if (!extent_valid(shape[d]))
            return sl_fail(result, "array '%.31s': dimension %d has the extent %" PRId64, name, d, shape[d]);
    }
    return SLUICE_OK;
}

/* An extent of 0 counts as 1 for the strides, so that an empty array has valid strides, too. */
bool sl_strides_tight(uint32_t element, int ndim, const int64_t *shape, int64_t *strides, uint64_t *nbytes)
{
    uint64_t stride = element;
    bool empty = false;
    memset(strides, 0, sizeof *strides * SLUICE_MAX_DIMS);
    for (int d = ndim - 1; d >= 0; d--) {
        strides[d] = (int64_t)stride;
        empty = empty || shape[d] == 0;
        if (!sl_checked_mul(stride, shape[d] ? (uint64_t)shape[d] : 1, &stride) || stride > SL_SLOT_MAX)
            return false;
    }
    *nbytes = empty ? 0 : stride;
    return true;
}

/* The dimensions with more than one element, the smallest stride first. Returns how many. */
static int sort_dims(int ndim, const int64_t *shape, const int64_t *strides, int *order)
{
    int count = 0;
    for (int d = ndim - 1; d >= 0; d--) {
        if (shape[d] < 2)
            continue;
        int at = count++;
        for (; at > 0 && strides[order[at - 1]] > strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    return count;
}

static const char *strides_mend(int result)
{
    return result == SLUICE_E_FORMAT ? ": set all strides to 0 for tight rows" : "";
}

int sl_strides_check(int result, const char *name, uint32_t element, int ndim, const int64_t *shape,
                     const int64_t *strides, uint64_t *nbytes)
{
    bool empty = false;
    for (int d = 0; d < ndim; d++) {
        empty = empty || shape[d] == 0;
        if (strides[d] < 0 || strides[d] > (int64_t)SL_SLOT_MAX) {
            return sl_fail(result,
                           "array '%.31s': dimension %d (extent %" PRId64 ") has the stride %" PRId64
                           ", which must be positive and within a slot%s",
                           name, d, shape[d], strides[d], strides_mend(result));
        }
    }
    /* each stride must be at least the extent in bytes of all dimensions with smaller strides */
    int order[SLUICE_MAX_DIMS], count = sort_dims(ndim, shape, strides, order);
    uint64_t span = element;
    for (int i = 0; i < count; i++) {
        uint64_t stride = (uint64_t)strides[order[i]], reach;
        if (stride < span) {
            return sl_fail(result,
                           "array '%.31s': dimension %d (extent %" PRId64 ") has the stride %" PRId64
                           ", but its elements take %" PRIu64 " bytes each and would overlap%s",
                           name, order[i], shape[order[i]], strides[order[i]], span, strides_mend(result));
        }
        if (!sl_checked_mul(stride, (uint64_t)shape[order[i]] - 1, &reach) || !sl_checked_add(reach, span, &span) ||
            span > SL_SLOT_MAX) {
            return sl_fail(result,
                           "array '%.31s': dimension %d (extent %" PRId64 ", stride %" PRId64
                           ") reaches beyond the %" PRIu64 " bytes that a slot can have",
                           name, order[i], shape[order[i]], strides[order[i]], SL_SLOT_MAX);
        }
    }
    *nbytes = empty ? 0 : span;
    return SLUICE_OK;
}

int sl_align_check(int result, const char *name, const struct sluice_array *array)
{
    uint64_t lane = array->dtype.bits / 8;
    if (array->offset % lane) {
        return sl_fail(result,
                       "array '%.31s': the offset %" PRIu64 " is not a multiple of %" PRIu64
                       " bytes, the size of its elements",
                       name, array->offset, lane);
    }
    for (int d = 0; d < array->ndim; d++) {
        if ((uint64_t)array->strides[d] % lane) {
            return sl_fail(result,
                           "array '%.31s': dimension %d has the stride %" PRId64 ", not a multiple of %" PRIu64
                           " bytes, the size of its elements",
                           name, d, array->strides[d], lane);
        }
    }
    return SLUICE_OK;
}

/* Derives the array that an image must have, and compares the record with it. */
static int check_image(const char *name, const struct sluice_array *geometry, uint64_t *nbytes)
{
    const struct sluice_image *image = &geometry->image;
    int r = sl_image_check(SLUICE_E_PROTOCOL, name, image);
    if (r == SLUICE_OK)
        r = sl_image_planes_check(SLUICE_E_PROTOCOL, name, image, nbytes);
    if (r == SLUICE_OK)
        r = sl_image_align_check(SLUICE_E_PROTOCOL, name, image);
    if (r != SLUICE_OK)
        return r;
    struct sluice_array view;
    view.image = *image;
    sl_image_view(&view);
    size_t dims = sizeof view.shape[0] * (size_t)view.ndim;
    if (geometry->ndim != view.ndim || memcmp(geometry->shape, view.shape, dims) != 0 ||
        memcmp(geometry->strides, view.strides, dims) != 0) {
        return sl_fail(SLUICE_E_PROTOCOL, "array '%.31s': the writer's record has a shape that is not its image's",
                       name);
    }
    return SLUICE_OK;
}

static int check_tensor(const struct sluice_array *capacity, const struct sluice_array *geometry, uint64_t *nbytes)
{
    const char *name = capacity->name;
    if (geometry->ndim != capacity->ndim) {
        return sl_fail(SLUICE_E_PROTOCOL, "array '%.31s': the writer's record has %d dimensions, the format has %d",
                       name, geometry->ndim, capacity->ndim);
    }
    int r = sl_shape_check(SLUICE_E_PROTOCOL, name, geometry->ndim, geometry->shape);
    if (r == SLUICE_OK) {
        r = sl_strides_check(SLUICE_E_PROTOCOL, name, sl_dtype_size(capacity->dtype), geometry->ndim, geometry->shape,
                             geometry->strides, nbytes);
    }
    return r;
}

int sl_format_geometry_check(const struct sluice_array *capacity, const struct sluice_array *geometry,
                             uint64_t slot_bytes)
{
    const char *name = capacity->name;
    uint64_t nbytes = 0;
    if (!sl_dtype_equal(geometry->dtype, capacity->dtype) ||
        geometry->image.pixel_format != capacity->image.pixel_format) {
        return sl_fail(SLUICE_E_PROTOCOL,
                       "array '%.31s': the writer's record has another data type or pixel format "
                       "than the format",
                       name);
    }
    int r =
        capacity->image.pixel_format ? check_image(name, geometry, &nbytes) : check_tensor(capacity, geometry, &nbytes);
    if (r != SLUICE_OK)
        return r;
    if (geometry->nbytes != nbytes) {
        return sl_fail(SLUICE_E_PROTOCOL,
                       "array '%.31s': the writer's record says %" PRIu64 " bytes, its shape %" PRIu64, name,
                       geometry->nbytes, nbytes);
    }
    /* capacities were checked when the generation arrived: their sum does not overflow */
    uint64_t end = capacity->offset + capacity->nbytes;
    if (geometry->offset < capacity->offset || geometry->offset > end || nbytes > end - geometry->offset ||
        end > slot_bytes) {
        return sl_fail(SLUICE_E_PROTOCOL,
                       "array '%.31s': the writer's record places %" PRIu64 " bytes at %" PRIu64
                       ", its room is %" PRIu64 " to %" PRIu64,
                       name, nbytes, geometry->offset, capacity->offset, end);
    }
    return sl_align_check(SLUICE_E_PROTOCOL, name, geometry);
}

/* ---- in a frame's record ---- */

void sl_geometry_from_array(struct sl_geometry *geometry, const struct sluice_array *array)
{
    *geometry = (struct sl_geometry){
        .offset = array->offset,
        .nbytes = array->nbytes,
        .ndim = array->ndim,
        .width = array->image.width,
        .height = array->image.height,
        .plane_count = array->image.plane_count,
    };
    memcpy(geometry->shape, array->shape, sizeof geometry->shape);
    memcpy(geometry->strides, array->strides, sizeof geometry->strides);
    memcpy(geometry->planes, array->image.planes, sizeof geometry->planes);
}

void sl_geometry_to_array(const struct sl_geometry *geometry, struct sluice_array *array)
{
    array->offset = geometry->offset;
    array->nbytes = geometry->nbytes;
    array->ndim = geometry->ndim;
    array->image.width = geometry->width;
    array->image.height = geometry->height;
    array->image.plane_count = geometry->plane_count;
    memcpy(array->shape, geometry->shape, sizeof array->shape);
    memcpy(array->strides, geometry->strides, sizeof array->strides);
    memcpy(array->image.planes, geometry->planes, sizeof array->image.planes);
}
