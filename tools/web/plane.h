/* SPDX-License-Identifier: MIT
 *
 * Any array as planes of numbers: tensors, depth, samples of images. For false colours, and for values under a cursor.
 */
#ifndef TOOLS_WEB_PLANE_H
#define TOOLS_WEB_PLANE_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

struct web_plane {
    const uint8_t *data; /* of the element at 0, 0 */
    uint32_t width, height, components;
    int64_t step_x, step_y, step_component; /* bytes */
    struct sluice_dtype dtype;
    uint32_t count; /* planes that the array has */
};

/* Describes plane `index` of an array: of a tensor the last two dimensions, or rows, columns and components if the last
 * dimension has at most four elements; of an image its samples as they are stored. False for images whose samples are
 * not one a pixel (YUV), for elements that are no numbers, for empty arrays, and for an index that does not exist. */
bool web_plane_of(struct web_plane *plane, const struct sluice_array *array, uint32_t index);

double web_plane_value(const struct web_plane *plane, uint32_t x, uint32_t y, uint32_t component);

/* The least and the greatest finite value of the first component; of large planes some are looked at. */
void web_plane_range(const struct web_plane *plane, double *low, double *high);

/* Draws the plane's first component (of float images red, green and blue) into an RGB24 image of any size, by the
 * nearest element. Values from `low` to `high` go from black to white, or through colours. */
void web_plane_draw(const struct web_plane *plane, const struct sluice_array *to, double low, double high,
                    bool colours);

#endif
