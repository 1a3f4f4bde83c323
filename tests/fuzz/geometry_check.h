/* SPDX-License-Identifier: MIT
 *
 * What must hold for an array or a format that the library has accepted, computed independently and in wider numbers.
 */
#ifndef FUZZ_GEOMETRY_CHECK_H
#define FUZZ_GEOMETRY_CHECK_H

#include "format/format.h"
#include "fuzz.h"

__extension__ typedef unsigned __int128 wide_uint;

/* The end of a tensor's last element, from its first byte; negative strides are invalid. */
static inline wide_uint check_tensor_end(const struct sluice_array *array)
{
    wide_uint end = sluice_dtype_size(array->dtype);
    REQUIRE(end > 0);
    for (int d = 0; d < array->ndim; d++)
        if (array->shape[d] == 0)
            return 0;
    for (int d = 0; d < array->ndim; d++) {
        REQUIRE(array->shape[d] > 0 && array->strides[d] >= 0);
        end += (wide_uint)(uint64_t)(array->shape[d] - 1) * (uint64_t)array->strides[d];
    }
    return end;
}

/* The end of an image's last plane; planes must not overlap. */
static inline wide_uint check_image_end(const struct sluice_image *image)
{
    const struct sl_pixel_rule *rule = sl_pixel_rule(image->pixel_format);
    wide_uint begins[SLUICE_MAX_PLANES], ends[SLUICE_MAX_PLANES], last = 0;

    REQUIRE(rule && image->plane_count == rule->plane_count);
    for (uint32_t i = 0; i < image->plane_count; i++) {
        uint64_t row = (uint64_t)(image->width >> rule->planes[i].log2_w) * rule->planes[i].bytes;
        uint64_t rows = image->height >> rule->planes[i].log2_h;
        REQUIRE(row > 0 && rows > 0 && image->planes[i].pitch >= row);
        begins[i] = image->planes[i].offset;
        ends[i] = begins[i] + (wide_uint)(rows - 1) * image->planes[i].pitch + row;
        for (uint32_t j = 0; j < i; j++)
            REQUIRE(begins[i] >= ends[j] || begins[j] >= ends[i]);
        last = ends[i] > last ? ends[i] : last;
    }
    return last;
}

/* Every byte of the array, image or tensor, is within `room` bytes. */
static inline void check_array(const struct sluice_array *array, uint64_t room)
{
    REQUIRE(array->ndim >= 0 && array->ndim <= SLUICE_MAX_DIMS);
    wide_uint end = check_tensor_end(array);
    if (array->image.pixel_format) {
        wide_uint planes = check_image_end(&array->image);
        end = planes > end ? planes : end;
    }
    REQUIRE(end == array->nbytes && array->nbytes <= room);
    wide_uint all = sluice_dtype_size(array->dtype); /* elements that do not overlap */
    for (int d = 0; d < array->ndim && all <= end; d++)
        all *= (uint64_t)array->shape[d];
    REQUIRE(all <= end || end == 0);
}

static inline void check_format(const struct sluice_format *format)
{
    REQUIRE(format->array_count >= 1 && format->array_count <= SLUICE_MAX_ARRAYS);
    REQUIRE(format->slot_bytes > 0 && format->slot_bytes <= SL_SLOT_MAX + SL_SLOT_ALIGN);
    REQUIRE(format->slot_bytes % SL_SLOT_ALIGN == 0);
    for (uint32_t i = 0; i < format->array_count; i++) {
        const struct sluice_array *a = &format->arrays[i];
        REQUIRE(memchr(a->name, 0, sizeof a->name) && a->name[0]);
        REQUIRE(a->offset <= format->slot_bytes && !a->data);
        check_array(a, format->slot_bytes - a->offset);
        for (uint32_t j = 0; j < i; j++) {
            const struct sluice_array *b = &format->arrays[j];
            REQUIRE(strcmp(a->name, b->name) != 0);
            REQUIRE(a->offset + a->nbytes <= b->offset || b->offset + b->nbytes <= a->offset);
        }
    }
}

#endif
