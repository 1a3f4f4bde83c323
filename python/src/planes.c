/* SPDX-License-Identifier: MIT
 *
 * Planes of an image as arrays of their own.
 */
#include "array.h"

#include <string.h>

struct plane_rule {
    uint32_t pixel_format;
    int count;        /* planes */
    int shift;        /* of the other planes: log2 of how much smaller both sides are */
    int64_t channels; /* of the other planes; 0: no third dimension */
};

static const struct plane_rule plane_rules[] = {
    { SLUICE_PIXEL_NV12, 2, 1, 2 },
    { SLUICE_PIXEL_P010, 2, 1, 2 },
    { SLUICE_PIXEL_YUV420P, 3, 1, 0 },
    { SLUICE_PIXEL_YUV444P, 3, 0, 0 },
};

static const struct plane_rule *plane_rule(uint32_t pixel_format)
{
    for (size_t i = 0; i < sizeof plane_rules / sizeof plane_rules[0]; i++)
        if (plane_rules[i].pixel_format == pixel_format)
            return &plane_rules[i];
    return NULL;
}

/* Plane `p` as an array of its own. */
static PyObject *make_plane(struct array *array, const struct plane_rule *rule, uint32_t p)
{
    const struct sluice_image *image = &array->a.image;
    struct sluice_array plane = array->a;
    int shift = p ? rule->shift : 0;
    int64_t channels = p ? rule->channels : 0;

    plane.data = (char *)array->a.data + image->planes[p].offset;
    plane.offset += image->planes[p].offset;
    plane.ndim = channels ? 3 : 2;
    plane.shape[0] = image->height >> shift;
    plane.shape[1] = image->width >> shift;
    plane.shape[2] = channels;
    plane.strides[2] = array->itemsize;
    plane.strides[1] = array->itemsize * (channels ? channels : 1);
    plane.strides[0] = (int64_t)image->planes[p].pitch;
    memset(&plane.image, 0, sizeof plane.image);
    return array_new(array->state, array->lease, &plane);
}

PyObject *array_planes(PyObject *self)
{
    struct array *array = (struct array *)self;
    const struct plane_rule *rule = plane_rule(array->a.image.pixel_format);
    PyObject *planes = PyTuple_New(rule ? rule->count : array->a.image.pixel_format ? 1 : 0);

    if (planes && !rule && array->a.image.pixel_format)
        (void)PyTuple_SetItem(planes, 0, Py_NewRef(self));
    for (int p = 0; planes && rule && p < rule->count; p++) {
        PyObject *plane = make_plane(array, rule, (uint32_t)p);
        if (!plane || PyTuple_SetItem(planes, p, plane) < 0)
            Py_CLEAR(planes);
    }
    return planes;
}
