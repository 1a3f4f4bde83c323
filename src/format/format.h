/* SPDX-License-Identifier: MIT
 *
 * Internals of formats: the table of pixel formats, the check behind sluice_format_complete,
 * and the geometry (shape, strides, offset, planes) of single frames within a format's capacities.
 *
 * Unless stated otherwise these functions set an error message when they fail, and write their outputs only on 0.
 */
#ifndef SL_FORMAT_FORMAT_H
#define SL_FORMAT_FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <sluice/format.h>

#define SL_SLOT_MAX   (UINT64_C(1) << 46) /* bytes of a slot, and of anything in it */
#define SL_SLOT_ALIGN 512                 /* alignment in bytes of slots and of the arrays in them */
#define SL_IMAGE_MAX  65536               /* pixels, of width and of height */

/* The size of one plane: (width >> log2_w) * bytes in a row, height >> log2_h rows. */
struct sl_plane_rule {
    uint8_t bytes;
    uint8_t log2_w;
    uint8_t log2_h;
};

struct sl_pixel_rule {
    struct sluice_dtype dtype; /* of the array as users see it in NumPy; lanes is 1 */
    uint8_t channels;          /* its third dimension; 0: it has two dimensions */
    uint8_t half_rows;         /* its rows, in halves of the image's height */
    uint8_t log2_w;            /* width must be a multiple of 1 << log2_w */
    uint8_t log2_h;            /* height must be a multiple of 1 << log2_h */
    uint8_t plane_count;
    struct sl_plane_rule planes[SLUICE_MAX_PLANES];
};

/* Indexed by enum sluice_pixel_format; entry 0 and unknown numbers have no planes. */
extern const struct sl_pixel_rule sl_pixel_rules[];

/* dtype.c */

/* Does the code exist, with these bits and lanes? */
bool sl_dtype_valid(struct sluice_dtype dtype);
static inline bool sl_dtype_equal(struct sluice_dtype a, struct sluice_dtype b)
{
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/* In image.c and geometry.c `result` is the result to return on failure, `name` the array to name in the message.
 * With SLUICE_E_FORMAT the format comes from this program, and the message also says how to get the
 * usual layout. */

/* image.c */

/* The rule of a pixel format; NULL if there is none with that number. Sets no error message. */
const struct sl_pixel_rule *sl_pixel_rule(uint32_t pixel_format);

/* Is pixel_format known, are width and height allowed, row_order, alpha and range known values? */
int sl_image_check(int result, const char *name, const struct sluice_image *image);

/* Checks only width and height, for a known pixel format. Sets no error message. */
bool sl_image_size_valid(const struct sluice_image *image);

/* Fills in planes and plane_count of a checked image; pitch_align 0 or 1: no padding. */
void sl_image_layout(struct sluice_image *image, uint32_t pitch_align);

/* Are the planes of a checked image disjoint, large enough for their rows, and within SL_SLOT_MAX?
 * *nbytes: the end of the last one. */
int sl_image_planes_check(int result, const char *name, const struct sluice_image *image, uint64_t *nbytes);

/* Are offsets and pitches multiples of the element size? */
int sl_image_align_check(int result, const char *name, const struct sluice_image *image);

/* Fills in dtype, ndim, shape, strides and nbytes from array->image, whose planes were checked.
 * Where no shape describes the memory, the array gets one dimension over all its bytes. */
void sl_image_view(struct sluice_array *array);

/* The image size that an array of this shape corresponds to; false if none. Sets no error message. */
bool sl_image_size(const struct sl_pixel_rule *rule, int ndim, const int64_t *shape, uint32_t *width, uint32_t *height);

/* format_error.c: puts a complete format that the channel cannot have before the message, which says why. Returns
 * `result`. */
int sl_format_refused(int result, const struct sluice_format *format);

/* geometry.c */

/* What a frame's header says about one array; the rest is in the generation's format. */
struct sl_geometry {
    uint64_t offset, nbytes;
    int32_t ndim;
    uint32_t width, height, plane_count;
    int64_t shape[SLUICE_MAX_DIMS];
    int64_t strides[SLUICE_MAX_DIMS];
    struct sluice_plane planes[SLUICE_MAX_PLANES];
};

/* Copies the fields that both have; checks nothing. */
void sl_geometry_from_array(struct sl_geometry *geometry, const struct sluice_array *array);
void sl_geometry_to_array(const struct sl_geometry *geometry, struct sluice_array *array);

/* Is it the geometry of this array? Each field of the geometry, which another process may change, is read once. */
static inline bool sl_geometry_is_of(const struct sl_geometry *geometry, const struct sluice_array *array)
{
    const struct sluice_image *image = &array->image;

    return geometry->offset == array->offset && geometry->nbytes == array->nbytes && geometry->ndim == array->ndim &&
           geometry->width == image->width && geometry->height == image->height &&
           geometry->plane_count == image->plane_count &&
           memcmp(geometry->shape, array->shape, sizeof array->shape) == 0 &&
           memcmp(geometry->strides, array->strides, sizeof array->strides) == 0 &&
           memcmp(geometry->planes, image->planes, sizeof image->planes) == 0;
}

#define SL_DESCRIPTION 224 /* bytes, enough for 8 dimensions */

/* Writes a text like "float32 (480, 640)". */
void sl_array_describe(struct sluice_dtype dtype, int ndim, const int64_t *shape, char *text, size_t size);

/* Is ndim 0 to 8, and no extent negative or larger than a slot? sl_shape_valid sets no error message. */
bool sl_shape_valid(int ndim, const int64_t *shape);
int sl_shape_check(int result, const char *name, int ndim, const int64_t *shape);

/* C order without gaps: fills in `strides` (SLUICE_MAX_DIMS of them, 0 from ndim on) and *nbytes. False
 * if that exceeds SL_SLOT_MAX. Sets no error message. The shape must have been checked. */
bool sl_strides_tight(uint32_t element, int ndim, const int64_t *shape, int64_t *strides, uint64_t *nbytes);

/* Are the strides of a checked shape positive, without overlapping elements? *nbytes: the end of the last
 * element, 0 if there is none. */
int sl_strides_check(int result, const char *name, uint32_t element, int ndim, const int64_t *shape,
                     const int64_t *strides, uint64_t *nbytes);

/* Are the offset and the strides multiples of the lane size, so that no access to an element is misaligned? */
int sl_align_check(int result, const char *name, const struct sluice_array *array);

/* Checks the geometry of a frame that came from another process against the generation's array:
 * same dtype, number of dimensions, pixel format and planes, every byte inside the capacity. `geometry` must
 * be a private copy. Returns 0 or SLUICE_E_PROTOCOL. No allocation; under 100 ns. */
int sl_format_geometry_check(const struct sluice_array *capacity, const struct sluice_array *geometry,
                             uint64_t slot_bytes);

/* array_copy.c */

struct sl_copy;

/* Checks two arrays like sluice_array_copy, and plans the copy, for memory of any kind. *copy is empty if there
 * is nothing to copy. */
int sl_array_plan(const struct sluice_array *to, const struct sluice_array *from, struct sl_copy *copy);

/* The range of memory that a program's array covers; for an image at least its nbytes. */
int sl_array_span(const struct sluice_array *array, const void **first, uint64_t *bytes);

/* capacity.c */

/* A frame's geometry without gaps within a capacity. An extent may be 0, an image's width or height may not. *out is
 * the capacity's array with another shape or size. SLUICE_E_CAPACITY, SLUICE_E_FORMAT. */
int sl_format_reshape(const struct sluice_array *capacity, int ndim, const int64_t *shape, struct sluice_array *out);
int sl_format_resize(const struct sluice_array *capacity, uint32_t width, uint32_t height, uint32_t pitch_align,
                     struct sluice_array *out);

/* The geometry of a frame into which the program's `array` can be copied as array `index` of
 * the format: the capacity's if the shapes agree, else reshaped or resized. An image channel
 * also takes a plain array with an image's shape. SLUICE_E_CAPACITY, SLUICE_E_FORMAT. */
int sl_format_frame(const struct sluice_format *format, const struct sluice_array *array, uint32_t index,
                    struct sluice_array *out);

/* The size of the image that `array` is, or that an array of its shape would be; false if it is another image. */
bool sl_format_image_size(const struct sluice_array *capacity, const struct sluice_array *array, uint32_t *width,
                          uint32_t *height);
int sl_format_not_this_image(const struct sluice_array *capacity, const struct sluice_array *array);

/* Does `array` fit, so that sl_format_frame would succeed? Sets no error message. */
bool sl_format_fits(const struct sluice_format *capacity, const struct sluice_array *array, uint32_t index);

/* The format for a new generation in which `array` fits as array `index`: same data type or pixel
 * format, any number of dimensions. All arrays get new offsets. `out` may be `format`. */
int sl_format_grow(const struct sluice_format *format, const struct sluice_array *array, uint32_t index,
                   struct sluice_format *out);

/* likeness.c */

#define SL_SWAPPED "its width and height look swapped"

/* What an array of another shape looks like (CHW for HWC, say), as words for a message; NULL: like nothing known. */
const char *sl_format_likeness(const struct sluice_array *have, const struct sluice_array *given);

/* sent_shape.c */

/* May a send give `array` as array `index` of the format? With `resize` its size may differ, but not its number of
 * dimensions. SLUICE_E_FORMAT says both shapes, and what the array looks like. Data types are checked by others. */
int sl_format_check_sent(const struct sluice_format *format, const struct sluice_array *array, uint32_t index,
                         bool resize);

/* format.c */

/* Is `name` a valid array name: letters, digits, '_', '.', '-', at most 31? NULL is the empty name. */
int sl_array_name_check(const char *name, bool may_be_empty);

/* The whole check behind sluice_format_complete. */
int sl_format_check(struct sluice_format *format);

/* Copies a caller's format into one of the library's, according to its `size`, and checks it. */
int sl_format_load(struct sluice_format *own, const struct sluice_format *caller);

/* Copies one of the library's formats into a caller's, according to its `size`, which must be set. */
int sl_format_store(struct sluice_format *caller, const struct sluice_format *own);

/* ---- behind the public calls of sluice/format.h, which checks their pointers ---- */

int sl_format_add_tensor(struct sluice_format *format, const char *name, struct sluice_dtype dtype, int ndim,
                         const int64_t *shape);
int sl_format_add_image(struct sluice_format *format, const char *name, enum sluice_pixel_format pixel_format,
                        uint32_t width, uint32_t height);
int sl_format_complete(struct sluice_format *format);
int sl_format_find(const struct sluice_format *format, const char *name);
const char *sl_pixel_format_name(uint32_t pixel_format);
uint32_t sl_pixel_format_find(const char *name);
int sl_dtype_format(struct sluice_dtype dtype, char *text, size_t size);
int sl_dtype_parse(const char *text, struct sluice_dtype *dtype);
uint32_t sl_dtype_size(struct sluice_dtype dtype);
int sl_array_wrap(struct sluice_array *array, const char *name, void *data, struct sluice_dtype dtype, int ndim,
                  const int64_t *shape, const int64_t *strides);

#endif
