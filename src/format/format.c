/* SPDX-License-Identifier: MIT
 *
 * Formats: adding arrays, checking the whole format, placing arrays in a slot.
 */
#include <inttypes.h>
#include <string.h>

#include "format/format.h"
#include "util/result.h"

/* The size in version 1: a caller's struct is never smaller. Later versions add fields after the arrays. */
#define FORMAT_SIZE_1   (offsetof(struct sluice_format, arrays) + SLUICE_MAX_ARRAYS * sizeof(struct sluice_array))
#define FORMAT_SIZE_MAX (UINT32_C(1) << 20) /* no later version can be that large: it is not a size */
#define PITCH_ALIGN_MAX 65536

/* How many bytes of a caller's struct both sides know; 0 if its size is invalid. */
static size_t known_bytes(const struct sluice_format *format)
{
    if (format->size < FORMAT_SIZE_1 || format->size > FORMAT_SIZE_MAX || format->size % 8)
        return 0;
    return format->size < sizeof *format ? format->size : sizeof *format;
}

static int check_size(const struct sluice_format *format)
{
    if (!format)
        return sl_fail(SLUICE_E_INVALID, "the format is NULL");
    if (!known_bytes(format)) {
        return sl_fail(SLUICE_E_FORMAT,
                       "the format's size field is %u, it should be %zu: start from SLUICE_FORMAT_INIT", format->size,
                       sizeof *format);
    }
    return SLUICE_OK;
}

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
}

int sl_array_name_check(const char *name, bool may_be_empty)
{
    size_t length = name ? strnlen(name, SLUICE_ARRAY_NAME) : 0;
    if (length == 0 && !may_be_empty)
        return sl_fail(SLUICE_E_FORMAT, "an array of a format has no name");
    if (length == SLUICE_ARRAY_NAME) {
        return sl_fail(SLUICE_E_FORMAT, "the array name '%.31s...' is longer than %d characters", name,
                       SLUICE_ARRAY_NAME - 1);
    }
    for (size_t i = 0; i < length; i++) {
        if (!name_char(name[i])) {
            return sl_fail(SLUICE_E_FORMAT,
                           "the array name '%s' has a character (byte %u) other than letters, "
                           "digits, '_', '.', '-'",
                           name, (unsigned char)name[i]);
        }
    }
    return SLUICE_OK;
}

static int check_name(struct sluice_format *format, uint32_t index)
{
    char *name = format->arrays[index].name;
    int r = sl_array_name_check(name, false);
    if (r != SLUICE_OK)
        return r;
    size_t length = strlen(name);
    memset(name + length, 0, SLUICE_ARRAY_NAME - length);
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(format->arrays[i].name, name) == 0)
            return sl_fail(SLUICE_E_FORMAT, "two arrays of a format have the name '%s'", name);
    }
    return SLUICE_OK;
}

static bool any_plane(const struct sluice_image *image)
{
    bool any = image->plane_count != 0;
    for (uint32_t i = 0; i < SLUICE_MAX_PLANES; i++)
        any = any || image->planes[i].offset || image->planes[i].pitch;
    return any;
}

/* Planes set by the caller must respect the format's pitch_align, too, which may have been set after
 * them. */
static int check_pitches(const struct sluice_array *array, uint32_t pitch_align)
{
    for (uint32_t i = 0; pitch_align && i < array->image.plane_count; i++) {
        if (array->image.planes[i].pitch % pitch_align) {
            return sl_fail(SLUICE_E_FORMAT,
                           "array '%s': plane %u has a pitch of %" PRIu64 " bytes, pitch_align is %u: set planes and "
                           "plane_count to 0 to have them laid out",
                           array->name, i, array->image.planes[i].pitch, pitch_align);
        }
    }
    return SLUICE_OK;
}

static int complete_image(struct sluice_array *array, uint32_t pitch_align)
{
    struct sluice_image *image = &array->image;
    uint64_t nbytes;
    int r = sl_image_check(SLUICE_E_FORMAT, array->name, image);
    if (r != SLUICE_OK)
        return r;
    if (!any_plane(image))
        sl_image_layout(image, pitch_align);
    r = sl_image_planes_check(SLUICE_E_FORMAT, array->name, image, &nbytes);
    if (r == SLUICE_OK)
        r = sl_image_align_check(SLUICE_E_FORMAT, array->name, image);
    if (r == SLUICE_OK)
        r = check_pitches(array, pitch_align);
    if (r != SLUICE_OK)
        return r;
    memset(&image->planes[image->plane_count], 0, sizeof image->planes[0] * (SLUICE_MAX_PLANES - image->plane_count));
    sl_image_view(array);
    return SLUICE_OK;
}

static bool all_zero(const int64_t *values, int count)
{
    for (int i = 0; i < count; i++) {
        if (values[i])
            return false;
    }
    return true;
}

static int complete_tensor(struct sluice_array *array)
{
    if (array->image.width || array->image.height || array->image.plane_count) {
        return sl_fail(SLUICE_E_FORMAT, "array '%s' has an image's size but no pixel format", array->name);
    }
    if (!sl_dtype_valid(array->dtype)) {
        return sl_fail(SLUICE_E_FORMAT, "array '%s': no data type has code %u with %u bits and %u lanes", array->name,
                       array->dtype.code, array->dtype.bits, array->dtype.lanes);
    }
    int r = sl_shape_check(SLUICE_E_FORMAT, array->name, array->ndim, array->shape);
    if (r != SLUICE_OK)
        return r;
    for (int d = 0; d < array->ndim; d++) {
        if (array->shape[d] == 0) {
            return sl_fail(SLUICE_E_FORMAT,
                           "array '%s': dimension %d has the extent 0; a format says how much a "
                           "frame may hold, only "
                           "single frames may be empty",
                           array->name, d);
        }
    }
    uint32_t element = sl_dtype_size(array->dtype);
    if (all_zero(array->strides, array->ndim)) {
        if (!sl_strides_tight(element, array->ndim, array->shape, array->strides, &array->nbytes)) {
            return sl_fail(SLUICE_E_FORMAT,
                           "array '%s': its shape takes more than the %" PRIu64 " bytes that a slot can have",
                           array->name, SL_SLOT_MAX);
        }
        return SLUICE_OK;
    }
    return sl_strides_check(SLUICE_E_FORMAT, array->name, element, array->ndim, array->shape, array->strides,
                            &array->nbytes);
}

static int complete_array(struct sluice_format *format, uint32_t index)
{
    struct sluice_array *array = &format->arrays[index];
    int r = check_name(format, index);
    if (r != SLUICE_OK)
        return r;
    if (array->reserved[0] || array->reserved[1] || array->reserved[2] || array->image.reserved[0] ||
        array->image.reserved[1]) {
        return sl_fail(SLUICE_E_FORMAT, "array '%s': a reserved field is not 0: start from SLUICE_FORMAT_INIT",
                       array->name);
    }
    r = array->image.pixel_format ? complete_image(array, format->pitch_align) : complete_tensor(array);
    if (r != SLUICE_OK)
        return r;
    for (int d = array->ndim; d < SLUICE_MAX_DIMS; d++)
        array->shape[d] = array->strides[d] = 0;
    array->data = NULL;
    array->read_only = 0;
    return SLUICE_OK;
}

/* Arrays are placed in order, each at the next multiple of 512, unless an offset is given. */
static int place_arrays(struct sluice_format *format)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < format->array_count; i++) {
        struct sluice_array *array = &format->arrays[i];
        if (array->offset == 0)
            array->offset = (end + SL_SLOT_ALIGN - 1) / SL_SLOT_ALIGN * SL_SLOT_ALIGN;
        if (array->offset > SL_SLOT_MAX || array->offset + array->nbytes > SL_SLOT_MAX) {
            return sl_fail(SLUICE_E_FORMAT,
                           "array '%s': %" PRIu64 " bytes at %" PRIu64 " end beyond the %" PRIu64
                           " bytes that a slot can have",
                           array->name, array->nbytes, array->offset, SL_SLOT_MAX);
        }
        for (uint32_t j = 0; j < i; j++) {
            const struct sluice_array *other = &format->arrays[j];
            if (array->offset < other->offset + other->nbytes && other->offset < array->offset + array->nbytes) {
                return sl_fail(SLUICE_E_FORMAT,
                               "arrays '%s' (%" PRIu64 " bytes at %" PRIu64 ") and '%s' (%" PRIu64 " bytes at %" PRIu64
                               ") overlap: set offsets to 0 to have them placed",
                               other->name, other->nbytes, other->offset, array->name, array->nbytes, array->offset);
            }
        }
        int r = sl_align_check(SLUICE_E_FORMAT, array->name, array);
        if (r != SLUICE_OK)
            return r;
        if (array->offset + array->nbytes > end)
            end = array->offset + array->nbytes;
    }
    format->slot_bytes = (end + SL_SLOT_ALIGN - 1) / SL_SLOT_ALIGN * SL_SLOT_ALIGN;
    return SLUICE_OK;
}

/* Works on a private copy, so that a caller's format changes as a whole or not at all. */
static int complete_format(struct sluice_format *format)
{
    if (format->array_count < 1 || format->array_count > SLUICE_MAX_ARRAYS) {
        return sl_fail(SLUICE_E_FORMAT, "the format has %u arrays; a frame holds 1 to %d", format->array_count,
                       SLUICE_MAX_ARRAYS);
    }
    if (format->reserved)
        return sl_fail(SLUICE_E_FORMAT, "a reserved field of the format is not 0: start from SLUICE_FORMAT_INIT");
    if (format->pitch_align > PITCH_ALIGN_MAX || (format->pitch_align & (format->pitch_align - 1))) {
        return sl_fail(SLUICE_E_FORMAT, "pitch_align is %u; it must be 0 or a power of two up to %d",
                       format->pitch_align, PITCH_ALIGN_MAX);
    }
    for (uint32_t i = 0; i < format->array_count; i++) {
        int r = complete_array(format, i);
        if (r != SLUICE_OK)
            return r;
    }
    return place_arrays(format);
}

int sl_format_check(struct sluice_format *format)
{
    struct sluice_format work;
    int r = check_size(format);
    if (r != SLUICE_OK)
        return r;
    memcpy(&work, format, known_bytes(format));
    r = complete_format(&work);
    if (r == SLUICE_OK)
        memcpy(format, &work, known_bytes(format));
    return r;
}

int sl_format_load(struct sluice_format *own, const struct sluice_format *caller)
{
    struct sluice_format work = SLUICE_FORMAT_INIT;
    int r = check_size(caller);
    if (r != SLUICE_OK)
        return r;
    memcpy(&work, caller, known_bytes(caller));
    work.size = sizeof work;
    r = complete_format(&work);
    if (r == SLUICE_OK)
        *own = work;
    return r;
}

int sl_format_store(struct sluice_format *caller, const struct sluice_format *own)
{
    int r = check_size(caller);
    if (r != SLUICE_OK)
        return r;
    uint32_t size = caller->size;
    memcpy(caller, own, known_bytes(caller));
    caller->size = size;
    return SLUICE_OK;
}

int sl_format_complete(struct sluice_format *format)
{
    return sl_format_check(format);
}

/* Adds `array`, whose name is not set yet, to a format. */
static int add_array(struct sluice_format *format, const char *name, const struct sluice_array *array)
{
    struct sluice_format work;
    int r = check_size(format);
    if (r == SLUICE_OK)
        r = sl_array_name_check(name, false);
    if (r != SLUICE_OK)
        return r;
    if (format->array_count >= SLUICE_MAX_ARRAYS) {
        return sl_fail(SLUICE_E_FORMAT, "the format has %u arrays already, '%s' is one too many: a frame holds 1 to %d",
                       format->array_count, name, SLUICE_MAX_ARRAYS);
    }
    memcpy(&work, format, known_bytes(format));
    struct sluice_array *added = &work.arrays[work.array_count++];
    *added = *array;
    memcpy(added->name, name, strlen(name) + 1);
    r = complete_format(&work);
    if (r == SLUICE_OK)
        memcpy(format, &work, known_bytes(format));
    return r;
}

int sl_format_add_tensor(struct sluice_format *format, const char *name, struct sluice_dtype dtype, int ndim,
                         const int64_t *shape)
{
    struct sluice_array array = { .dtype = dtype, .ndim = ndim };
    if (ndim > 0 && ndim <= SLUICE_MAX_DIMS) {
        if (!shape)
            return sl_fail(SLUICE_E_INVALID, "the shape of array '%.31s' is NULL", name ? name : "");
        memcpy(array.shape, shape, sizeof *shape * (size_t)ndim);
    }
    return add_array(format, name, &array);
}

int sl_format_add_image(struct sluice_format *format, const char *name, enum sluice_pixel_format pixel_format,
                        uint32_t width, uint32_t height)
{
    if (!sl_pixel_rule(pixel_format)) {
        return sl_fail(SLUICE_E_FORMAT, "array '%.31s': there is no pixel format %u", name ? name : "",
                       (unsigned)pixel_format);
    }
    struct sluice_array array = { .image = { .pixel_format = pixel_format, .width = width, .height = height } };
    return add_array(format, name, &array);
}

int sl_format_find(const struct sluice_format *format, const char *name)
{
    char names[SLUICE_MAX_ARRAYS * (SLUICE_ARRAY_NAME + 2)] = "";
    size_t at = 0;
    int r = check_size(format);
    if (r != SLUICE_OK)
        return r;
    if (!name)
        return sl_fail(SLUICE_E_INVALID, "the name of the array to find is NULL");
    for (uint32_t i = 0; i < format->array_count && i < SLUICE_MAX_ARRAYS; i++) {
        const char *have = format->arrays[i].name;
        size_t length = strnlen(have, SLUICE_ARRAY_NAME - 1);
        if (strlen(name) == length && memcmp(have, name, length) == 0)
            return (int)i;
        memcpy(names + at, i ? ", " : "", i ? 2 : 0);
        at += i ? 2 : 0;
        memcpy(names + at, have, length);
        at += length;
    }
    return sl_fail(SLUICE_E_NOT_FOUND, "there is no array '%.31s'; there are: %s", name, at ? names : "none");
}
