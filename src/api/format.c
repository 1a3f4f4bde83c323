/* SPDX-License-Identifier: MIT
 *
 * The public calls of sluice/format.h. Formats, data types and arrays.
 */
#include <sluice/format.h>

#include "copy/copy.h"
#include "format/format.h"
#include "util/result.h"

int sluice_format_add_tensor(struct sluice_format *format, const char *name, struct sluice_dtype dtype, int ndim,
                             const int64_t *shape)
{
    return sl_format_add_tensor(format, name, dtype, ndim, shape);
}

int sluice_format_add_image(struct sluice_format *format, const char *name, enum sluice_pixel_format pixel_format,
                            uint32_t width, uint32_t height)
{
    return sl_format_add_image(format, name, pixel_format, width, height);
}

int sluice_format_complete(struct sluice_format *format)
{
    return sl_format_complete(format);
}

int sluice_format_find(const struct sluice_format *format, const char *name)
{
    return sl_format_find(format, name);
}

const char *sluice_pixel_format_name(uint32_t pixel_format)
{
    return sl_pixel_format_name(pixel_format);
}

uint32_t sluice_pixel_format_find(const char *name)
{
    return sl_pixel_format_find(name);
}

int sluice_dtype_format(struct sluice_dtype dtype, char *text, size_t size)
{
    return sl_dtype_format(dtype, text, size);
}

int sluice_dtype_parse(const char *text, struct sluice_dtype *dtype)
{
    return sl_dtype_parse(text, dtype);
}

uint32_t sluice_dtype_size(struct sluice_dtype dtype)
{
    return sl_dtype_size(dtype);
}

int sluice_array_wrap(struct sluice_array *array, const char *name, void *data, struct sluice_dtype dtype, int ndim,
                      const int64_t *shape, const int64_t *strides)
{
    return sl_array_wrap(array, name, data, dtype, ndim, shape, strides);
}

int sluice_array_copy(const struct sluice_array *to, const struct sluice_array *from)
{
    return sl_array_copy(to, from);
}
