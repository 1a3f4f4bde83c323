/* SPDX-License-Identifier: MIT
 *
 * Are two completed formats equal in everything, including colour?
 */
#ifndef UNIT_SAME_FORMAT_H
#define UNIT_SAME_FORMAT_H

#include <stdbool.h>
#include <string.h>

#include "format/format.h"

static inline bool same_image(const struct sluice_image *a, const struct sluice_image *b)
{
    return a->pixel_format == b->pixel_format && a->width == b->width && a->height == b->height &&
           a->plane_count == b->plane_count && memcmp(a->planes, b->planes, sizeof a->planes) == 0 &&
           memcmp(&a->colour, &b->colour, sizeof a->colour) == 0 && a->row_order == b->row_order &&
           a->alpha == b->alpha;
}

static inline bool same_array(const struct sluice_array *a, const struct sluice_array *b)
{
    return strcmp(a->name, b->name) == 0 && a->offset == b->offset && a->nbytes == b->nbytes &&
           sl_dtype_equal(a->dtype, b->dtype) && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0 && memcmp(a->strides, b->strides, sizeof a->strides) == 0 &&
           same_image(&a->image, &b->image);
}

static inline bool same_format(const struct sluice_format *a, const struct sluice_format *b)
{
    bool equal = a->array_count == b->array_count && a->pitch_align == b->pitch_align && a->slot_bytes == b->slot_bytes;
    for (uint32_t i = 0; equal && i < a->array_count; i++)
        equal = same_array(&a->arrays[i], &b->arrays[i]);
    return equal;
}

#endif
