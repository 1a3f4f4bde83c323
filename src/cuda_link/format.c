/* SPDX-License-Identifier: MIT
 *
 * Converts between formats of programs and formats of the wire.
 */
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "format/format.h"
#include "util/result.h"

#define ARRAY_NAME "frame"

static const struct sluice_dtype uint8 = { SLUICE_UINT, 8, 1 };

bool sl_cipd_shape(const struct sluice_array *array, uint32_t shape[3])
{
    if (array->ndim != 2 && array->ndim != 3)
        return false;
    for (int i = 0; i < array->ndim; i++)
        if (array->shape[i] < 1 || array->shape[i] > UINT32_MAX)
            return false;
    shape[0] = (uint32_t)array->shape[0];
    shape[1] = (uint32_t)array->shape[1];
    shape[2] = array->ndim == 3 ? (uint32_t)array->shape[2] : 1;
    return true;
}

/* Is it a plain array, or an image with interleaved components? This wire cannot express any other layout. */
static bool is_plain(uint32_t pixel_format)
{
    switch (pixel_format) {
    case SLUICE_PIXEL_NONE:
    case SLUICE_PIXEL_RGBA:
    case SLUICE_PIXEL_BGRA:
    case SLUICE_PIXEL_RGB24:
    case SLUICE_PIXEL_BGR24:
    case SLUICE_PIXEL_GRAY8:
    case SLUICE_PIXEL_GRAY16:
    case SLUICE_PIXEL_RGBA_F16:
    case SLUICE_PIXEL_RGBA_F32:
    case SLUICE_PIXEL_GRAY_F32: return true;
    default: return false;
    }
}

/* An image as it is on the wire: a dense array. */
static bool is_dense(const struct sluice_array *array)
{
    int64_t strides[SLUICE_MAX_DIMS];
    uint64_t bytes;

    return sl_strides_tight(sl_dtype_size(array->dtype), array->ndim, array->shape, strides, &bytes) &&
           memcmp(strides, array->strides, sizeof strides) == 0;
}

static enum sl_cipd_order order_of(const struct sluice_array *array, const struct sluice_cipd_writer_params *params)
{
    if (array->image.pixel_format == SLUICE_PIXEL_BGRA || params->order == SLUICE_CIPD_BGRA)
        return SL_CIPD_ORDER_BGRA;
    return SL_CIPD_ORDER_NONE;
}

int sl_cipd_format_of(const char *channel, const struct sluice_format *format,
                      const struct sluice_cipd_writer_params *params, struct sl_cipd_metadata *metadata)
{
    const struct sluice_array *array = &format->arrays[0];
    uint32_t shape[3];

    if (format->array_count != 1)
        return sl_fail(SLUICE_E_FORMAT, "channel 'cipd:%s': its frames hold one array, not %u", channel,
                       format->array_count);
    if (!sl_cipd_shape(array, shape))
        return sl_fail(
            SLUICE_E_FORMAT,
            "channel 'cipd:%s': array '%s' must have the shape (height, width, components) or (height, width)", channel,
            array->name);
    if (!is_plain(array->image.pixel_format))
        return sl_fail(
            SLUICE_E_FORMAT,
            "channel 'cipd:%s': an image in '%s' cannot be said in its protocol, which knows components of pixels "
            "alone: convert it, to rgba or bgra for instance",
            channel, sl_pixel_format_name(array->image.pixel_format));
    if (!is_dense(array) || array->offset != 0)
        return sl_fail(SLUICE_E_FORMAT,
                       "channel 'cipd:%s': array '%s' must be dense, rows without padding (pitch_align 0)", channel,
                       array->name);
    if (params->order == SLUICE_CIPD_RGBA && array->image.pixel_format == SLUICE_PIXEL_BGRA)
        return sl_fail(SLUICE_E_FORMAT, "channel 'cipd:%s': array '%s' is a BGRA image, and `order` says RGBA", channel,
                       array->name);
    struct sl_cipd_format wire = {
        .height = shape[0],
        .width = shape[1],
        .components = shape[2],
        .dtype = array->dtype,
        .order = order_of(array, params),
        .mono_alpha = params->mono_alpha != 0,
    };
    int r = sl_cipd_format_encode(&wire, metadata);
    if (r == 0)
        metadata->flags |= (uint16_t)params->flags;
    return r;
}

enum sluice_cipd_order sl_cipd_order_of(const struct sl_cipd_format *wire,
                                        const struct sluice_cipd_reader_params *params)
{
    switch (wire->order) {
    case SL_CIPD_ORDER_BGRA: return SLUICE_CIPD_BGRA;
    case SL_CIPD_ORDER_OTHER: return SLUICE_CIPD_RGBA;
    case SL_CIPD_ORDER_UNDECLARED: return params ? (enum sluice_cipd_order)params->undeclared : SLUICE_CIPD_UNKNOWN;
    default: return SLUICE_CIPD_UNKNOWN;
    }
}

bool sl_cipd_is_mono_alpha(const struct sl_cipd_format *wire, const struct sluice_cipd_reader_params *params)
{
    uint32_t pair = params ? params->pair : SLUICE_CIPD_AS_FLAGGED;

    return wire->components == 2 &&
           (pair == SLUICE_CIPD_AS_FLAGGED ? wire->mono_alpha : pair == SLUICE_CIPD_MONO_ALPHA);
}

int sl_cipd_format_as(const struct sl_cipd_format *wire, const struct sluice_cipd_reader_params *params,
                      struct sluice_format *format)
{
    int64_t shape[3] = { wire->height, wire->width, wire->components };
    enum sluice_cipd_order order = sl_cipd_order_of(wire, params);
    int r;

    *format = (struct sluice_format)SLUICE_FORMAT_INIT;
    if (order != SLUICE_CIPD_UNKNOWN && wire->width <= SL_IMAGE_MAX && wire->height <= SL_IMAGE_MAX &&
        sl_dtype_equal(wire->dtype, uint8) && wire->components == 4)
        r = sl_format_add_image(format, ARRAY_NAME, order == SLUICE_CIPD_BGRA ? SLUICE_PIXEL_BGRA : SLUICE_PIXEL_RGBA,
                                wire->width, wire->height);
    else
        r = sl_format_add_tensor(format, ARRAY_NAME, wire->dtype, 3, shape);
    return r == 0 ? sl_format_complete(format) : r;
}
