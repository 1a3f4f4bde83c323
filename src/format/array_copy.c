/* SPDX-License-Identifier: MIT
 *
 * Arrays in the program's own memory: describing them, and copying from one to another in host
 * memory.
 */
#include <inttypes.h>
#include <string.h>

#include "format/copy_region.h"
#include "format/format.h"
#include "util/checked.h"
#include "util/result.h"

/* The bytes that an array of any strides touches: `below` before its first element, `above` from
 * there on; both 0 if it is empty. */
static int find_span(int result, const struct sluice_array *array, uint64_t *below, uint64_t *above)
{
    *below = 0;
    *above = sl_dtype_size(array->dtype);
    for (int d = 0; d < array->ndim; d++) {
        if (array->shape[d] == 0) {
            *below = *above = 0;
            return SLUICE_OK;
        }
        uint64_t stride = (uint64_t)array->strides[d], reach;
        uint64_t *side = array->strides[d] < 0 ? below : above;
        if (array->strides[d] < 0)
            stride = 0 - stride;
        if (!sl_checked_mul((uint64_t)array->shape[d] - 1, stride, &reach) || !sl_checked_add(*side, reach, side) ||
            *side > SL_SLOT_MAX) {
            return sl_fail(result,
                           "array '%.31s': dimension %d (extent %" PRId64 ", stride %" PRId64
                           ") reaches further than memory does",
                           array->name, d, array->shape[d], array->strides[d]);
        }
    }
    return SLUICE_OK;
}

int sl_array_wrap(struct sluice_array *array, const char *name, void *data, struct sluice_dtype dtype, int ndim,
                  const int64_t *shape, const int64_t *strides)
{
    struct sluice_array made = { .data = data, .dtype = dtype, .ndim = ndim };
    if (!array || (ndim > 0 && !shape))
        return sl_fail(SLUICE_E_INVALID, "the %s to wrap is NULL", array ? "shape" : "array");
    int r = sl_array_name_check(name, true);
    if (r != SLUICE_OK)
        return r;
    if (name)
        memcpy(made.name, name, strlen(name) + 1);
    if (!sl_dtype_valid(dtype)) {
        return sl_fail(SLUICE_E_FORMAT, "array '%s': no data type has code %u with %u bits and %u lanes", made.name,
                       dtype.code, dtype.bits, dtype.lanes);
    }
    r = sl_shape_check(SLUICE_E_FORMAT, made.name, ndim, shape);
    if (r != SLUICE_OK)
        return r;
    size_t dims = sizeof *shape * (size_t)ndim;
    if (ndim)
        memcpy(made.shape, shape, dims);
    if (strides && ndim) {
        uint64_t below, above;
        memcpy(made.strides, strides, dims);
        r = find_span(SLUICE_E_FORMAT, &made, &below, &above);
        if (r != SLUICE_OK)
            return r;
        made.nbytes = below + above;
    } else if (!sl_strides_tight(sl_dtype_size(dtype), ndim, made.shape, made.strides, &made.nbytes)) {
        return sl_fail(SLUICE_E_FORMAT, "array '%s': its shape takes more than 2^46 bytes", made.name);
    }
    *array = made;
    return SLUICE_OK;
}

/* How far apart a dimension's elements are, whichever way it runs. */
static int64_t distance(int64_t stride)
{
    return stride < 0 ? (int64_t)(0 - (uint64_t)stride) : stride; /* the lowest stays negative, and is refused */
}

/* The order of the dimensions does not matter to a copy: the smallest steps in `to` become innermost, and
 * dimensions that are contiguous on both sides are merged. */
static void plan_tensor(const struct sluice_array *to, const struct sluice_array *from, struct sl_copy_part *part)
{
    struct sl_copy_step sorted[SLUICE_MAX_DIMS];
    int count = 0;
    for (int d = to->ndim - 1; d >= 0; d--) {
        if (to->shape[d] < 2)
            continue;
        int at = count++;
        for (; at > 0 && distance(sorted[at - 1].to) > distance(to->strides[d]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = (struct sl_copy_step){ to->shape[d], to->strides[d], from->strides[d] };
    }
    part->to = to->data;
    part->from = from->data;
    part->run = sl_dtype_size(to->dtype);
    part->depth = 0;
    for (int i = 0; i < count; i++)
        sl_part_repeat(part, sorted[i].count, sorted[i].to, sorted[i].from);
}

/* The bytes that an array touches, and how many of them lie below its first element. */
struct span {
    uint64_t bytes, below;
};

/* No two elements of a target may share bytes; each dimension may run either way. */
static int check_target(const struct sluice_array *to, struct span *span)
{
    int64_t forward[SLUICE_MAX_DIMS];
    int r;

    for (int d = 0; d < to->ndim; d++)
        forward[d] = distance(to->strides[d]);
    r = sl_strides_check(SLUICE_E_INVALID, to->name, sl_dtype_size(to->dtype), to->ndim, to->shape, forward,
                         &span->bytes);
    span->below = 0;
    for (int d = 0; d < to->ndim && r == SLUICE_OK && span->bytes > 0; d++)
        if (to->strides[d] < 0)
            span->below += (uint64_t)(to->shape[d] - 1) * (uint64_t)forward[d];
    return r;
}

/* Are both arrays' bytes disjoint? The same memory in the same layout needs no copy. */
static int check_apart(const struct sluice_array *to, const struct span *into, const struct sluice_array *from,
                       const struct span *outof, bool same_layout, bool *done)
{
    uintptr_t to_first = (uintptr_t)to->data - into->below, from_first = (uintptr_t)from->data - outof->below;
    *done = same_layout && to->data == from->data;
    if (*done || to_first >= from_first + outof->bytes || from_first >= to_first + into->bytes)
        return SLUICE_OK;
    return sl_fail(SLUICE_E_INVALID, "arrays '%.31s' and '%.31s' share memory: a copy needs two places", to->name,
                   from->name);
}

static int not_enough(const struct sluice_array *array, uint64_t span)
{
    return sl_fail(SLUICE_E_INVALID, "array '%.31s': its shape takes %" PRIu64 " bytes, nbytes says %" PRIu64,
                   array->name, span, array->nbytes);
}

static int check_data(const struct sluice_array *array, const char *role)
{
    if (!array->data)
        return sl_fail(SLUICE_E_INVALID, "array '%.31s', to copy %s, has no data: it is NULL", array->name, role);
    return SLUICE_OK;
}

static int check_tensor(const struct sluice_array *to, const struct sluice_array *from, struct sl_copy *copy)
{
    struct span into, outof;
    uint64_t above;
    int r = check_target(to, &into);
    if (r == SLUICE_OK)
        r = find_span(SLUICE_E_INVALID, from, &outof.below, &above);
    if (r != SLUICE_OK || into.bytes == 0)
        return r;
    outof.bytes = outof.below + above;
    if (into.bytes > to->nbytes)
        return not_enough(to, into.bytes);
    if (outof.bytes > from->nbytes)
        return not_enough(from, outof.bytes);
    r = check_data(to, "into");
    if (r == SLUICE_OK)
        r = check_data(from, "from");
    bool same = memcmp(to->strides, from->strides, sizeof to->strides[0] * (size_t)to->ndim) == 0, done = false;
    if (r == SLUICE_OK)
        r = check_apart(to, &into, from, &outof, same, &done);
    if (r != SLUICE_OK || done)
        return r;
    copy->count = 1;
    plan_tensor(to, from, &copy->parts[0]);
    return SLUICE_OK;
}

/* The end of an image's planes, which must be within the array's nbytes. */
static int check_image(const struct sluice_array *array, const char *role, uint64_t *nbytes)
{
    int r = sl_image_check(SLUICE_E_INVALID, array->name, &array->image);
    if (r == SLUICE_OK)
        r = sl_image_planes_check(SLUICE_E_INVALID, array->name, &array->image, nbytes);
    if (r != SLUICE_OK)
        return r;
    if (*nbytes > array->nbytes)
        return not_enough(array, *nbytes);
    return check_data(array, role);
}

static int check_same_image(const struct sluice_array *to, const struct sluice_array *from)
{
    const struct sluice_image *a = &to->image, *b = &from->image;
    if (a->pixel_format != b->pixel_format || a->width != b->width || a->height != b->height) {
        return sl_fail(SLUICE_E_FORMAT, "array '%.31s' is a %s image of %u x %u, '%.31s' one in %s of %u x %u",
                       to->name, sl_pixel_format_name(a->pixel_format), a->width, a->height, from->name,
                       sl_pixel_format_name(b->pixel_format), b->width, b->height);
    }
    if (a->row_order != b->row_order) {
        return sl_fail(SLUICE_E_FORMAT, "array '%.31s' has its rows %s, '%.31s' the other way round: a copy keeps them",
                       to->name, a->row_order == SLUICE_TOP_DOWN ? "top-down" : "bottom-up", from->name);
    }
    return SLUICE_OK;
}

/* Row by row, so that the bytes between rows stay as they are. */
static void plan_plane(const struct sluice_array *to, const struct sluice_array *from, uint32_t i,
                       struct sl_copy_part *part)
{
    const struct sluice_image *a = &to->image, *b = &from->image;
    const struct sl_plane_rule *plane = &sl_pixel_rule(a->pixel_format)->planes[i];

    part->to = (char *)to->data + a->planes[i].offset;
    part->from = (const char *)from->data + b->planes[i].offset;
    part->run = (uint64_t)(a->width >> plane->log2_w) * plane->bytes;
    part->depth = 0;
    sl_part_repeat(part, a->height >> plane->log2_h, (int64_t)a->planes[i].pitch, (int64_t)b->planes[i].pitch);
}

static int check_images(const struct sluice_array *to, const struct sluice_array *from, struct sl_copy *copy)
{
    const struct sluice_image *a = &to->image, *b = &from->image;
    struct span into = { 0 }, outof = { 0 };
    int r = check_same_image(to, from);
    if (r == SLUICE_OK)
        r = check_image(to, "into", &into.bytes);
    if (r == SLUICE_OK)
        r = check_image(from, "from", &outof.bytes);
    if (r != SLUICE_OK)
        return r;
    bool same = memcmp(a->planes, b->planes, sizeof a->planes[0] * a->plane_count) == 0, done;
    r = check_apart(to, &into, from, &outof, same, &done);
    if (r != SLUICE_OK || done)
        return r;
    copy->count = (int)a->plane_count;
    for (uint32_t i = 0; i < a->plane_count; i++)
        plan_plane(to, from, i, &copy->parts[i]);
    return SLUICE_OK;
}

static int check_same_shape(const struct sluice_array *to, const struct sluice_array *from)
{
    char a[SL_DESCRIPTION], b[SL_DESCRIPTION];
    int r = sl_shape_check(SLUICE_E_FORMAT, to->name, to->ndim, to->shape);
    if (r == SLUICE_OK)
        r = sl_shape_check(SLUICE_E_FORMAT, from->name, from->ndim, from->shape);
    if (r != SLUICE_OK)
        return r;
    if (sl_dtype_valid(to->dtype) && sl_dtype_equal(to->dtype, from->dtype) && to->ndim == from->ndim &&
        memcmp(to->shape, from->shape, sizeof to->shape[0] * (size_t)to->ndim) == 0)
        return SLUICE_OK;
    sl_array_describe(to->dtype, to->ndim, to->shape, a, sizeof a);
    sl_array_describe(from->dtype, from->ndim, from->shape, b, sizeof b);
    return sl_fail(SLUICE_E_FORMAT, "array '%.31s' is %s, '%.31s' is %s: only the same can be copied", to->name, a,
                   from->name, b);
}

int sl_array_plan(const struct sluice_array *to, const struct sluice_array *from, struct sl_copy *copy)
{
    copy->count = 0;
    if (!to || !from)
        return sl_fail(SLUICE_E_INVALID, "the array to copy %s is NULL", to ? "from" : "into");
    if (to->read_only)
        return sl_fail(SLUICE_E_INVALID, "array '%.31s' is read-only, nothing can be copied into it", to->name);
    if (to->image.pixel_format && from->image.pixel_format)
        return check_images(to, from, copy);
    int r = check_same_shape(to, from);
    return r == SLUICE_OK ? check_tensor(to, from, copy) : r;
}

int sl_array_span(const struct sluice_array *array, const void **first, uint64_t *bytes)
{
    bool image = array->image.pixel_format != SLUICE_PIXEL_NONE;
    uint64_t below = 0, above = 0;
    int r = SLUICE_OK;

    if (!image) /* for images the planes count */
        r = sl_shape_check(SLUICE_E_FORMAT, array->name, array->ndim, array->shape);
    if (r == SLUICE_OK && sl_shape_valid(array->ndim, array->shape))
        r = find_span(SLUICE_E_INVALID, array, &below, &above);
    if (image && above < array->nbytes)
        above = array->nbytes;
    *first = array->data ? (const char *)array->data - below : NULL; /* an empty array may have no address */
    *bytes = below + above;
    return r;
}
