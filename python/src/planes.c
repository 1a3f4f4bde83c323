/* SPDX-License-Identifier: MIT
 *
 * Planes of an image as arrays of their own.
 */
#include "array.h"

#include <string.h>

/* Plane `p` of several as an array of its own. */
static PyObject *make_plane(struct array *array, uint32_t p)
{
    const struct sluice_image *image = &array->a.image;
    struct sluice_array plane = array->a;
    uint32_t format = image->pixel_format;
    int across = p && format != SLUICE_PIXEL_YUV444P; /* colour has half as many columns, and usually rows */
    int down = across && format != SLUICE_PIXEL_YUV422P && format != SLUICE_PIXEL_YUV422P10;
    int64_t channels = p && image->plane_count == 2 ? 2 : 1; /* U and V lie in one plane */

    plane.data = (char *)array->a.data + image->planes[p].offset;
    plane.offset += image->planes[p].offset;
    plane.ndim = channels > 1 ? 3 : 2;
    plane.shape[0] = image->height >> down;
    plane.shape[1] = image->width >> across;
    plane.shape[2] = channels;
    plane.strides[2] = array->itemsize;
    plane.strides[1] = array->itemsize * channels;
    plane.strides[0] = (int64_t)image->planes[p].pitch;
    memset(&plane.image, 0, sizeof plane.image);
    return array_new(array->state, array->lease, &plane);
}

PyObject *array_planes(PyObject *self)
{
    struct array *array = (struct array *)self;
    uint32_t count = array->a.image.pixel_format ? array->a.image.plane_count : 0;
    PyObject *planes = PyTuple_New(count);

    for (uint32_t p = 0; planes && p < count; p++) {
        PyObject *plane = count == 1 ? Py_NewRef(self) : make_plane(array, p);
        if (!plane || PyTuple_SetItem(planes, (Py_ssize_t)p, plane) < 0)
            Py_CLEAR(planes);
    }
    return planes;
}
