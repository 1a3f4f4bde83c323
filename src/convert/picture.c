/* SPDX-License-Identifier: MIT
 *
 * What a conversion may read or write: an image, or a tensor that is a picture.
 */
#include <inttypes.h>
#include <string.h>

#include "convert/convert.h"
#include "format/format.h"
#include "kernel/kernel.h"
#include "util/result.h"

/* ---- tensors ---- */

struct tensor {
    int rows, columns, channels; /* dimensions; channels -1: there is none */
};

static bool is_channels(int64_t extent)
{
    return extent == 1 || extent == 3 || extent == 4;
}

static int not_a_picture(const struct sluice_array *array, const char *role, const char *why)
{
    char text[SL_DESCRIPTION];

    sl_array_describe(array->dtype, array->ndim, array->shape, text, sizeof text);
    return sl_fail(SLUICE_E_FORMAT, "sluice_convert: `%s` ('%.31s') is %s, %s", role, array->name, text, why);
}

static int find_dimensions(const struct sluice_array *array, const char *role, uint32_t layout, struct tensor *tensor)
{
    int first = array->ndim == 4;

    if (array->ndim < 2 || array->ndim > 4 || (first && array->shape[0] != 1))
        return not_a_picture(array, role, "no picture: (H, W), (C, H, W), (H, W, C), or one of these in a batch of 1");
    *tensor = (struct tensor){ first, first + 1, -1 };
    if (array->ndim == 2)
        return 0;
    bool chw = is_channels(array->shape[first]), hwc = is_channels(array->shape[first + 2]);
    if (!chw && !hwc)
        return not_a_picture(array, role, "no picture: none of its dimensions has 1, 3 or 4 channels");
    if (chw && hwc && layout == SLUICE_LAYOUT_ANY)
        return not_a_picture(array, role, "which may be CHW and HWC: set sluice_convert.layout");
    if (chw && hwc)
        chw = layout == SLUICE_LAYOUT_CHW;
    tensor->channels = chw ? first : first + 2;
    tensor->rows = chw ? first + 1 : first;
    tensor->columns = tensor->rows + 1;
    return 0;
}

static int tensor_sample(const struct sluice_array *array, const char *role, int *sample)
{
    struct sluice_dtype type = array->dtype;

    if (type.lanes == 1 && type.code == SLUICE_UINT && type.bits == 8)
        *sample = SL_U8;
    else if (type.lanes == 1 && type.code == SLUICE_FLOAT && type.bits == 16)
        *sample = SL_F16;
    else if (type.lanes == 1 && type.code == SLUICE_FLOAT && type.bits == 32)
        *sample = SL_F32;
    else {
        char name[SLUICE_DTYPE_TEXT];
        if (sl_dtype_format(type, name, sizeof name) != 0)
            name[0] = 0;
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "sluice_convert: `%s` ('%.31s') has elements of %s; tensors are uint8, float16 or float32. "
                       "Convert to float32, and that with torch or CuPy",
                       role, array->name, name[0] ? name : "another type");
    }
    return 0;
}

/* Bytes are components. Each scale of floats is not 0, and all are finite: so a tensor can be a source, too. */
static int set_scales(struct sl_pixels *p, const struct sluice_convert *how)
{
    bool given = false;
    bool bytes = p->sample == SL_U8;

    for (int i = 0; i < 4; i++)
        given = given || how->scale[i] != 0;
    for (int i = 0; i < p->count; i++) {
        float scale = bytes ? 255 : given ? how->scale[i] : 1, bias = bytes ? 0 : how->bias[i];
        if (scale == 0 || !(scale - scale == 0) || !(bias - bias == 0))
            return sl_fail(SLUICE_E_INVALID,
                           "sluice_convert: scale[%d] is %g and bias[%d] is %g; the scale of a channel must not be 0, "
                           "and both must be finite",
                           i, (double)scale, i, (double)bias);
        sl_set_scale(p, i, scale, bias);
    }
    return 0;
}

/* Elements that lie apart, at addresses that they may have; strides run either way. */
static int check_elements(const struct sluice_array *array, const char *role, bool writes)
{
    uint64_t size = sl_dtype_size(array->dtype), bytes;
    int64_t forward[SLUICE_MAX_DIMS];

    for (int d = 0; d < array->ndim; d++) {
        int64_t stride = array->strides[d];
        forward[d] = stride < 0 ? (int64_t)(0 - (uint64_t)stride) : stride;
        if (forward[d] % (int64_t)size != 0)
            return sl_fail(SLUICE_E_INVALID,
                           "sluice_convert: `%s` ('%.31s'): dimension %d has a stride of %" PRId64
                           " bytes, which is no multiple of its element's %" PRIu64,
                           role, array->name, d, stride, size);
    }
    return writes ? sl_strides_check(SLUICE_E_INVALID, array->name, (uint32_t)size, array->ndim, array->shape, forward,
                                     &bytes)
                  : 0;
}

static int size_of(const struct sluice_array *array, const char *role, int64_t width, int64_t height)
{
    if (width >= 1 && height >= 1 && width <= SL_IMAGE_MAX && height <= SL_IMAGE_MAX)
        return 0;
    return sl_fail(SLUICE_E_FORMAT,
                   "sluice_convert: `%s` ('%.31s') has %" PRId64 " x %" PRId64 " pixels; each side must be 1 to %d",
                   role, array->name, width, height, SL_IMAGE_MAX);
}

static int tensor(const struct sluice_array *array, const char *role, const struct sluice_convert *how,
                  struct sl_pixels *p)
{
    struct tensor dims;
    int r = tensor_sample(array, role, &p->sample);

    if (r == 0)
        r = sl_shape_check(SLUICE_E_FORMAT, array->name, array->ndim, array->shape);
    if (r == 0)
        r = find_dimensions(array, role, how->layout, &dims);
    if (r == 0)
        r = size_of(array, role, array->shape[dims.columns], array->shape[dims.rows]);
    if (r == 0)
        r = check_elements(array, role, strcmp(role, "to") == 0);
    if (r != 0)
        return r;
    p->width = (int)array->shape[dims.columns];
    p->height = (int)array->shape[dims.rows];
    p->count = dims.channels < 0 ? 1 : (int)array->shape[dims.channels];
    p->family = p->count == 1 ? SL_GRAY : SL_RGB;
    sl_set_matrix(p, sl_matrix_of(0, p->height));
    for (int i = 0; i < p->count; i++) {
        int place = how->order == SLUICE_ORDER_BGR && p->count > 1 && i < 3 ? 2 - i : i;
        p->at[i] = (struct sl_component){
            (unsigned char *)array->data + (dims.channels < 0 ? 0 : place * array->strides[dims.channels]),
            array->strides[dims.rows],
            array->strides[dims.columns],
        };
    }
    return set_scales(p, how);
}

/* ---- images ---- */

static int check_matrix(const struct sluice_array *array, const char *role, const struct sl_pixels *p)
{
    unsigned matrix = array->image.colour.matrix;

    if (p->family == SL_NO_FAMILY)
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "sluice_convert: `%s` ('%.31s') is %s; Bayer patterns are for OpenCV's cvtColor", role,
                       array->name, sl_pixel_format_name(array->image.pixel_format));
    if (matrix == SLUICE_MATRIX_RGB && p->shift_x > 0)
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "sluice_convert: `%s` ('%.31s') is %s with matrix RGB, in which no components can be shared "
                       "among pixels: name the matrix by which it was made",
                       role, array->name, sl_pixel_format_name(array->image.pixel_format));
    switch (matrix) {
    case 0:
    case 1:
    case 4:
    case 5:
    case 6:
    case 7:
    case 9:
    case SLUICE_MATRIX_RGB: return 0;
    default:
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "sluice_convert: `%s` ('%.31s') has matrix %u; there are 1, 4, 5, 6, 7, 9 and RGB. zimg and "
                       "libplacebo convert others",
                       role, array->name, matrix);
    }
}

static int image(const struct sluice_array *array, const char *role, const struct sluice_convert *how,
                 struct sl_pixels *p)
{
    const struct sluice_image *image = &array->image;
    struct sl_picture picture;
    unsigned char *planes[3];
    long long pitches[3];
    uint64_t bytes;

    int r = sl_image_check(SLUICE_E_INVALID, array->name, image);
    if (r == 0)
        r = sl_image_planes_check(SLUICE_E_INVALID, array->name, image, &bytes);
    if (r == 0)
        r = sl_image_align_check(SLUICE_E_INVALID, array->name, image);
    if (r == 0 && bytes > array->nbytes)
        r = sl_fail(SLUICE_E_INVALID,
                    "sluice_convert: `%s` ('%.31s'): its planes take %" PRIu64 " bytes, nbytes says %" PRIu64, role,
                    array->name, bytes, array->nbytes);
    if (r != 0)
        return r;
    sl_picture_of(array, &picture);
    for (int i = 0; i < 3; i++) {
        planes[i] = picture.planes[i];
        pitches[i] = picture.pitches[i];
    }
    sl_pixels_of(p, planes, pitches, (int)image->width, (int)image->height, image->pixel_format,
                 sl_colour_word(image->colour.matrix, image->colour.range, image->alpha, how->chroma));
    return check_matrix(array, role, p);
}

int sl_convert_picture(const struct sluice_array *array, const char *role, const struct sluice_convert *how,
                       struct sl_pixels *pixels)
{
    memset(pixels, 0, sizeof *pixels);
    if (!array->data)
        return sl_fail(SLUICE_E_INVALID, "sluice_convert: `%s` ('%.31s') has no data: it is NULL", role, array->name);
    int r = array->image.pixel_format ? image(array, role, how, pixels) : tensor(array, role, how, pixels);
    uintptr_t mask = pixels->sample == SL_U8 ? 0 : pixels->sample == SL_F32 ? 3 : 1;
    if (r == 0 && ((uintptr_t)array->data & mask) != 0)
        return sl_fail(SLUICE_E_INVALID, "sluice_convert: `%s` ('%.31s') is at %p, no multiple of its element's size",
                       role, array->name, array->data);
    return r;
}
