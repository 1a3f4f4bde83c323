/* SPDX-License-Identifier: MIT
 *
 * Images: the names of pixel formats, the layout and the checks of planes, and an image as an array (shape,
 * strides) in NumPy's sense.
 */
#include <inttypes.h>
#include <string.h>

#include "format/format.h"
#include "util/result.h"

struct pixel_name {
    const char *text; /* FFmpeg's where it has one */
    const char *name; /* the enum's */
    uint32_t number;
};

static const struct pixel_name pixel_names[] = {
#define PIXEL_NAME(name, number, text) { text, #name, number },
    SLUICE_PIXEL_FORMATS(PIXEL_NAME)
#undef PIXEL_NAME
};
#define PIXEL_COUNT (sizeof pixel_names / sizeof pixel_names[0])

/* Other common names: I420 is another name for a layout, and the rest omit "le", as is usual with
 * FFmpeg. */
static const struct pixel_name pixel_aliases[] = {
    { "i420", "I420", SLUICE_PIXEL_YUV420P },
    { "rgbaf16", "RGBAF16", SLUICE_PIXEL_RGBA_F16 },
    { "rgbaf32", "RGBAF32", SLUICE_PIXEL_RGBA_F32 },
    { "grayf32", "GRAYF32", SLUICE_PIXEL_GRAY_F32 },
};
#define ALIAS_COUNT (sizeof pixel_aliases / sizeof pixel_aliases[0])

const char *sl_pixel_format_name(uint32_t pixel_format)
{
    for (size_t i = 0; i < PIXEL_COUNT; i++) {
        if (pixel_names[i].number == pixel_format)
            return pixel_names[i].text;
    }
    return "none";
}

/* ASCII only, whatever the locale. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_name(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return lower(*a) == lower(*b);
}

static uint32_t find_name(const struct pixel_name *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (same_name(names[i].text, name) || same_name(names[i].name, name))
            return names[i].number;
    }
    return SLUICE_PIXEL_NONE;
}

uint32_t sl_pixel_format_find(const char *name)
{
    if (!name)
        return SLUICE_PIXEL_NONE;
    uint32_t found = find_name(pixel_names, PIXEL_COUNT, name);
    return found ? found : find_name(pixel_aliases, ALIAS_COUNT, name);
}

const struct sl_pixel_rule *sl_pixel_rule(uint32_t pixel_format)
{
    /* the numbers have no gaps: PIXEL_COUNT is the last one */
    if (pixel_format == SLUICE_PIXEL_NONE || pixel_format > PIXEL_COUNT)
        return NULL;
    return &sl_pixel_rules[pixel_format];
}

bool sl_image_size_valid(const struct sluice_image *image)
{
    const struct sl_pixel_rule *rule = sl_pixel_rule(image->pixel_format);
    return image->width >= 1 && image->height >= 1 && image->width <= SL_IMAGE_MAX && image->height <= SL_IMAGE_MAX &&
           image->width % (1u << rule->log2_w) == 0 && image->height % (1u << rule->log2_h) == 0;
}

static int bad_size(int result, const char *name, const struct sluice_image *image)
{
    uint32_t width = image->width, height = image->height;
    if (width < 1 || height < 1 || width > SL_IMAGE_MAX || height > SL_IMAGE_MAX) {
        return sl_fail(result, "array '%.31s': an image of %u x %u pixels; each side must be 1 to %u", name, width,
                       height, SL_IMAGE_MAX);
    }
    const struct sl_pixel_rule *rule = sl_pixel_rule(image->pixel_format);
    return sl_fail(result, "array '%.31s': an image of %u x %u pixels; %s needs an even %s", name, width, height,
                   sl_pixel_format_name(image->pixel_format), width % (1u << rule->log2_w) ? "width" : "height");
}

int sl_image_check(int result, const char *name, const struct sluice_image *image)
{
    if (!sl_pixel_rule(image->pixel_format))
        return sl_fail(result, "array '%.31s': there is no pixel format %u", name, image->pixel_format);
    if (!sl_image_size_valid(image))
        return bad_size(result, name, image);
    if (image->row_order > SLUICE_BOTTOM_UP || image->alpha > SLUICE_ALPHA_OPAQUE ||
        image->colour.range > SLUICE_RANGE_FULL) {
        return sl_fail(result, "array '%.31s': row order %u, alpha %u and range %u: one of them is no known value",
                       name, image->row_order, image->alpha, image->colour.range);
    }
    return SLUICE_OK;
}

static uint64_t row_bytes(const struct sl_plane_rule *plane, const struct sluice_image *image)
{
    return (uint64_t)(image->width >> plane->log2_w) * plane->bytes;
}

static uint64_t row_count(const struct sl_plane_rule *plane, const struct sluice_image *image)
{
    return image->height >> plane->log2_h;
}

/* The first plane's pitch determines the others: a plane with half as many bytes in a row has half the pitch,
 * as most programs with one pitch per image expect. So it is increased until all pitches are aligned. */
void sl_image_layout(struct sluice_image *image, uint32_t pitch_align)
{
    const struct sl_pixel_rule *rule = sl_pixel_rule(image->pixel_format);
    uint64_t row = row_bytes(&rule->planes[0], image), unit = pitch_align ? pitch_align : 1, offset = 0;
    uint64_t last = row_bytes(&rule->planes[rule->plane_count - 1], image);
    unit *= row / last;
    uint64_t pitch = (row + unit - 1) / unit * unit;
    memset(image->planes, 0, sizeof image->planes);
    image->plane_count = rule->plane_count;
    for (uint32_t i = 0; i < rule->plane_count; i++) {
        uint64_t share = row / row_bytes(&rule->planes[i], image);
        image->planes[i].offset = offset;
        image->planes[i].pitch = pitch / share;
        offset += image->planes[i].pitch * row_count(&rule->planes[i], image);
    }
}

/* The end of a plane. Nothing overflows: a pitch is at most 2^46, and there are at most 2^16 rows.
 */
static uint64_t plane_end(const struct sl_plane_rule *plane, const struct sluice_image *image, uint32_t i)
{
    const struct sluice_plane *p = &image->planes[i];
    return p->offset + (row_count(plane, image) - 1) * p->pitch + row_bytes(plane, image);
}

static const char *planes_mend(int result)
{
    return result == SLUICE_E_FORMAT ? ": set planes and plane_count to 0 to have them laid out" : "";
}

/* Do the rows of plane `i` fit into it, and into a slot? *end: the plane's end. */
static int check_plane(int result, const char *name, const struct sluice_image *image, uint32_t i, uint64_t *end)
{
    const struct sl_plane_rule *rule = &sl_pixel_rule(image->pixel_format)->planes[i];
    const struct sluice_plane *plane = &image->planes[i];
    if (plane->pitch < row_bytes(rule, image)) {
        return sl_fail(result,
                       "array '%.31s': plane %u has a pitch of %" PRIu64 " bytes, less than the %" PRIu64 " of a row%s",
                       name, i, plane->pitch, row_bytes(rule, image), planes_mend(result));
    }
    if (plane->pitch <= SL_SLOT_MAX && plane->offset <= SL_SLOT_MAX)
        *end = plane_end(rule, image, i);
    else
        *end = UINT64_MAX;
    if (*end > SL_SLOT_MAX) {
        return sl_fail(result,
                       "array '%.31s': plane %u (offset %" PRIu64 ", pitch %" PRIu64 ") ends beyond the %" PRIu64
                       " bytes that a slot can have",
                       name, i, plane->offset, plane->pitch, SL_SLOT_MAX);
    }
    return SLUICE_OK;
}

int sl_image_planes_check(int result, const char *name, const struct sluice_image *image, uint64_t *nbytes)
{
    const struct sl_pixel_rule *rule = sl_pixel_rule(image->pixel_format);
    uint64_t ends[SLUICE_MAX_PLANES], last = 0;
    if (image->plane_count != rule->plane_count) {
        return sl_fail(result, "array '%.31s': %s has %u planes, not %u%s", name,
                       sl_pixel_format_name(image->pixel_format), rule->plane_count, image->plane_count,
                       planes_mend(result));
    }
    for (uint32_t i = 0; i < image->plane_count; i++) {
        uint64_t start = image->planes[i].offset;
        int r = check_plane(result, name, image, i, &ends[i]);
        if (r != SLUICE_OK)
            return r;
        for (uint32_t j = 0; j < i; j++) {
            if (start < ends[j] && image->planes[j].offset < ends[i]) {
                return sl_fail(result,
                               "array '%.31s': planes %u (bytes %" PRIu64 " to %" PRIu64 ") and %u (%" PRIu64
                               " to %" PRIu64 ") overlap%s",
                               name, j, image->planes[j].offset, ends[j], i, start, ends[i], planes_mend(result));
            }
        }
        last = ends[i] > last ? ends[i] : last;
    }
    *nbytes = last;
    return SLUICE_OK;
}

int sl_image_align_check(int result, const char *name, const struct sluice_image *image)
{
    unsigned element = sl_pixel_rule(image->pixel_format)->dtype.bits / 8;
    for (uint32_t i = 0; i < image->plane_count; i++) {
        const struct sluice_plane *plane = &image->planes[i];
        if (plane->offset % element || plane->pitch % element) {
            return sl_fail(result,
                           "array '%.31s': plane %u (offset %" PRIu64 ", pitch %" PRIu64
                           ") is not made of whole elements, of %u bytes",
                           name, i, plane->offset, plane->pitch, element);
        }
    }
    return SLUICE_OK;
}

/* Do all planes together, one after the other, form one array of rows with the first plane's width? */
static bool is_sheet(const struct sl_pixel_rule *rule, const struct sluice_image *image)
{
    uint64_t row = row_bytes(&rule->planes[0], image), pitch = image->planes[0].pitch, next = 0;
    bool same = true, tight = true;
    for (uint32_t i = 0; i < rule->plane_count; i++) {
        const struct sluice_plane *plane = &image->planes[i];
        if (plane->offset != next)
            return false;
        same = same && plane->pitch == pitch && row_bytes(&rule->planes[i], image) == row;
        tight = tight && plane->pitch == row_bytes(&rule->planes[i], image);
        next += plane->pitch * row_count(&rule->planes[i], image);
    }
    return same || tight;
}

void sl_image_view(struct sluice_array *array)
{
    const struct sluice_image *image = &array->image;
    const struct sl_pixel_rule *rule = sl_pixel_rule(image->pixel_format);
    int64_t element = rule->dtype.bits / 8;
    uint64_t nbytes = 0;
    for (uint32_t i = 0; i < rule->plane_count; i++) {
        uint64_t end = plane_end(&rule->planes[i], image, i);
        nbytes = end > nbytes ? end : nbytes;
    }
    memset(array->shape, 0, sizeof array->shape);
    memset(array->strides, 0, sizeof array->strides);
    array->dtype = rule->dtype;
    array->nbytes = nbytes;
    if (!is_sheet(rule, image)) {
        array->ndim = 1;
        array->shape[0] = (int64_t)nbytes / element;
        array->strides[0] = element;
        return;
    }
    array->ndim = rule->channels ? 3 : 2;
    array->shape[0] = (int64_t)image->height * rule->half_rows / 2;
    array->shape[1] = image->width;
    array->strides[0] = (int64_t)image->planes[0].pitch;
    array->strides[1] = rule->channels ? element * rule->channels : element;
    if (rule->channels) {
        array->shape[2] = rule->channels;
        array->strides[2] = element;
    }
}

bool sl_image_size(const struct sl_pixel_rule *rule, int ndim, const int64_t *shape, uint32_t *width, uint32_t *height)
{
    if (ndim != (rule->channels ? 3 : 2) || (rule->channels && shape[2] != rule->channels))
        return false;
    if (shape[0] < 1 || shape[0] > SL_IMAGE_MAX * INT64_C(3) || shape[1] < 1 || shape[1] > SL_IMAGE_MAX)
        return false;
    if (shape[0] * 2 % rule->half_rows)
        return false;
    *width = (uint32_t)shape[1];
    *height = (uint32_t)(shape[0] * 2 / rule->half_rows);
    return true;
}
