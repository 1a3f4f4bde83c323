/* SPDX-License-Identifier: MIT
 *
 * Pictures as kernels see them.
 */
#include "convert/pixels.cuh"
#include "format/format.h"
#include "kernel/kernel.h"

void sl_picture_of(const struct sluice_array *array, struct sl_picture *picture)
{
    const struct sluice_image *image = &array->image;

    *picture = (struct sl_picture){
        .width = (int32_t)image->width,
        .height = (int32_t)image->height,
        .format = image->pixel_format,
        .reserved = sl_colour_word(image->colour.matrix, image->colour.range, image->alpha, SL_SITE_LEFT),
    };
    const struct sl_pixel_rule *rule = sl_pixel_rule(image->pixel_format);
    for (uint32_t i = 0; i < image->plane_count && i < 3; i++) {
        int64_t pitch = (int64_t)image->planes[i].pitch, rows = image->height >> rule->planes[i].log2_h;
        char *first = (char *)array->data + image->planes[i].offset;
        bool reversed = image->row_order == SLUICE_BOTTOM_UP && rows > 0; /* the picture's first row is the last one */
        picture->planes[i] = reversed ? first + (rows - 1) * pitch : first;
        picture->pitches[i] = reversed ? -pitch : pitch;
    }
}
