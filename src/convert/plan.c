/* SPDX-License-Identifier: MIT
 *
 * Arrays and settings become the numbers of a conversion. Everything is checked here, before anything is queued.
 */
#include <inttypes.h>
#include <string.h>

#include "convert/convert.h"
#include "format/format.h"
#include "util/params.h"
#include "util/result.h"

#define LEAST_CONVERT (4 * sizeof(uint32_t))

/* ---- settings ---- */

static int check_setting(const char *name, uint32_t value, uint32_t most)
{
    return value <= most ? 0
                         : sl_fail(SLUICE_E_INVALID, "sluice_convert.%s is %" PRIu32 ", which is none of its values",
                                   name, value);
}

static int read_settings(const struct sluice_convert *given, struct sluice_convert *how)
{
    const struct sluice_convert defaults = SLUICE_CONVERT_INIT;
    int r = sl_params_load(how, sizeof *how, LEAST_CONVERT, given ? given : &defaults, "struct sluice_convert");

    if (r == 0)
        r = check_setting("fit", how->fit, SLUICE_FIT_COVER);
    if (r == 0)
        r = check_setting("filter", how->filter, SLUICE_FILTER_NEAREST);
    if (r == 0)
        r = check_setting("flip", how->flip, SLUICE_FLIP_HORIZONTAL | SLUICE_FLIP_VERTICAL);
    if (r == 0)
        r = check_setting("chroma", how->chroma, SLUICE_CHROMA_REPEAT);
    if (r == 0)
        r = check_setting("layout", how->layout, SLUICE_LAYOUT_HWC);
    return r == 0 ? check_setting("order", how->order, SLUICE_ORDER_BGR) : r;
}

static int check_crop(const struct sl_pixels *from, struct sluice_crop *crop)
{
    if (crop->width == 0 && crop->height == 0 && crop->x == 0 && crop->y == 0) {
        crop->width = (uint32_t)from->width;
        crop->height = (uint32_t)from->height;
    }
    if (crop->width > 0 && crop->height > 0 && crop->width <= (uint32_t)from->width &&
        crop->height <= (uint32_t)from->height && crop->x <= (uint32_t)from->width - crop->width &&
        crop->y <= (uint32_t)from->height - crop->height)
        return 0;
    return sl_fail(SLUICE_E_INVALID,
                   "sluice_convert: a crop of %" PRIu32 " x %" PRIu32 " at %" PRIu32 ", %" PRIu32
                   " does not lie in a picture of %d x %d",
                   crop->width, crop->height, crop->x, crop->y, from->width, from->height);
}

/* ---- colour ---- */

static bool differ(uint8_t a, uint8_t b)
{
    return a && b && a != b;
}

static int check_colour(const struct sluice_colour *to, const struct sluice_colour *from)
{
    bool transfer = differ(to->transfer, from->transfer);

    if (!transfer && !differ(to->primaries, from->primaries))
        return 0;
    return sl_fail(SLUICE_E_UNSUPPORTED,
                   "sluice_convert: `from` names %s %u, `to` %u (H.273); zimg and libplacebo convert between them",
                   transfer ? "transfer" : "primaries", transfer ? from->transfer : from->primaries,
                   transfer ? to->transfer : to->primaries);
}

/* Gray is the luma of the matrix that it names, else of the source's. */
static void plan_gray(const struct sluice_image *to, const struct sluice_image *from, struct sl_job *job)
{
    unsigned matrix = from->colour.matrix == SLUICE_MATRIX_RGB ? 0 : from->colour.matrix;

    if (job->to.family == SL_GRAY && to->colour.matrix == 0)
        sl_set_matrix(&job->to, sl_matrix_of(matrix, job->from.height));
}

/* Alpha counts only where both have it. Straight alpha is filtered premultiplied. */
static void plan_alpha(const struct sluice_image *to, const struct sluice_image *from, struct sl_job *job)
{
    bool to_has = sl_has_alpha(&job->to), from_has = sl_has_alpha(&job->from);
    bool is = from->alpha == SLUICE_ALPHA_PREMULTIPLIED;
    bool becomes = to->alpha && (from->alpha || !from_has) ? to->alpha == SLUICE_ALPHA_PREMULTIPLIED : is && from_has;

    if (!to_has)
        job->from.opaque = 1;
    if (!from_has && !job->bordered)
        job->to.opaque = 1;
    if (to_has && from_has) {
        job->multiply = !is && (becomes || job->resize == SL_TRIANGLE);
        job->divide = (is || job->multiply) && !becomes;
    }
    if (to_has && becomes)
        job->border = sl_multiplied(job->border);
}

/* Scale and bias are the target's; the source's if that has none. */
static void plan_scale(const struct sluice_array *to, const struct sluice_array *from, struct sl_job *job)
{
    bool both = to->image.pixel_format == SLUICE_PIXEL_NONE && from->image.pixel_format == SLUICE_PIXEL_NONE;

    for (int i = 0; i < job->from.count && both && job->to.sample != SL_U8 && job->from.sample != SL_U8; i++)
        sl_set_scale(&job->from, i, 1, 0);
}

/* ---- geometry ---- */

struct ratio {
    int64_t above, below; /* pixels of the source for one of the target: above / below */
};

/* Per and from are rounded up, so that a place between two pixels becomes the second one. */
static void plan_axis(struct sl_axis *axis, struct ratio ratio, double cut, uint32_t filter)
{
    const double one = (double)(1LL << SL_POSITION_BITS);
    double per = (double)ratio.above / (double)ratio.below;

    axis->per = ((ratio.above << SL_POSITION_BITS) + ratio.below - 1) / ratio.below;
    axis->from = ((ratio.above << (SL_POSITION_BITS - 1)) + ratio.below - 1) / ratio.below + (int64_t)(cut * one);
    axis->radius = filter == SLUICE_FILTER_SMOOTH && per > 1 ? (float)per : 1;
    axis->unit = 1 / axis->radius;
}

/* `cut`: what the first pixel's edge shows, from the edge of the crop. */
static void describe_axis(const struct sl_axis *axis, struct ratio ratio, double cut, double area[4])
{
    double per = (double)ratio.above / (double)ratio.below, edge = cut - axis->at * per;

    area[0] = axis->at - cut / per;
    area[1] = axis->count / per;
    area[2] = axis->first + (axis->flip ? axis->count - edge : edge);
    area[3] = axis->flip ? -per : per;
}

static int clipped(int64_t size, struct ratio ratio, int most)
{
    int64_t fitted = (2 * size * ratio.below + ratio.above) / (2 * ratio.above); /* rounded */
    return fitted < 1 ? 1 : fitted > most ? most : (int)fitted;
}

/* The dimension whose ratio decides for both: INSIDE the larger one, COVER the smaller one. */
static struct ratio common(const struct sl_job *job, uint32_t fit)
{
    struct ratio x = { job->x.count, job->to.width }, y = { job->y.count, job->to.height };
    bool x_larger = x.above * y.below >= y.above * x.below;

    return x_larger == (fit == SLUICE_FIT_INSIDE) ? x : y;
}

static void plan_geometry(struct sl_job *job, const struct sluice_convert *how, struct sluice_area *area)
{
    double found[2][4];
    struct sl_axis *axes[] = { &job->x, &job->y };
    int sizes[] = { job->to.width, job->to.height };
    struct ratio both = common(job, how->fit);

    for (int i = 0; i < 2; i++) {
        struct sl_axis *axis = axes[i];
        double cut = 0;
        axis->size = how->fit == SLUICE_FIT_INSIDE ? clipped(axis->count, both, sizes[i]) : sizes[i];
        axis->at = (sizes[i] - axis->size) / 2;
        struct ratio ratio = { axis->count, axis->size };
        if (how->fit == SLUICE_FIT_COVER) {
            ratio = both;
            cut = (double)(axis->count * both.below - sizes[i] * both.above) / (double)(2 * both.below);
        }
        plan_axis(axis, ratio, cut, how->filter);
        describe_axis(axis, ratio, cut, found[i]);
    }
    *area = (struct sluice_area){ found[0][0], found[1][0], found[0][1], found[1][1],
                                  found[0][2], found[1][2], found[0][3], found[1][3] };
    job->bordered = job->x.size < job->to.width || job->y.size < job->to.height;
}

/* Does each pixel show exactly one? */
static bool is_exact(const struct sl_axis *axis)
{
    const int64_t one = 1LL << SL_POSITION_BITS;
    return axis->per == one && (axis->from & (one - 1)) == one / 2;
}

/* ---- memory ---- */

static bool is_same(const struct sl_pixels *a, const struct sl_pixels *b)
{
    if (a->count != b->count || a->sample != b->sample || a->family == SL_YUV || b->family == SL_YUV)
        return false;
    uintptr_t first_a = (uintptr_t)a->at[0].first, first_b = (uintptr_t)b->at[0].first;
    for (int i = 0; i < a->count; i++) {
        if (a->at[i].pitch != b->at[i].pitch || a->at[i].step != b->at[i].step)
            return false;
        first_a = (uintptr_t)a->at[i].first < first_a ? (uintptr_t)a->at[i].first : first_a;
        first_b = (uintptr_t)b->at[i].first < first_b ? (uintptr_t)b->at[i].first : first_b;
    }
    return first_a == first_b;
}

static int check_memory(const struct sluice_array *to, const struct sluice_array *from, const struct sl_job *job,
                        bool exact)
{
    const void *first[2];
    uint64_t bytes[2];

    if (to->read_only)
        return sl_fail(SLUICE_E_INVALID, "sluice_convert: `to` ('%.31s') is read-only", to->name);
    int r = sl_array_span(to, &first[0], &bytes[0]);
    if (r == 0)
        r = sl_array_span(from, &first[1], &bytes[1]);
    if (r != 0)
        return r;
    if ((uintptr_t)first[0] >= (uintptr_t)first[1] + bytes[1] || (uintptr_t)first[1] >= (uintptr_t)first[0] + bytes[0])
        return 0;
    if (exact && !job->x.flip && !job->y.flip && job->x.first == 0 && job->y.first == 0 &&
        is_same(&job->to, &job->from))
        return 0;
    return sl_fail(SLUICE_E_INVALID,
                   "sluice_convert: `to` ('%.31s') and `from` ('%.31s') share memory; that goes only for pixels that "
                   "stay where they are",
                   to->name, from->name);
}

/* ---- all of it ---- */

int sl_convert_plan(const struct sluice_array *to, const struct sluice_array *from, const struct sluice_convert *given,
                    struct sl_job *job, struct sluice_area *area)
{
    struct sluice_convert how;

    memset(job, 0, sizeof *job);
    int r = read_settings(given, &how);
    if (r == 0)
        r = sl_convert_picture(from, "from", &how, &job->from);
    if (r != 0)
        return r;
    r = sl_convert_picture(to, "to", &how, &job->to);
    if (r == 0)
        r = check_colour(&to->image.colour, &from->image.colour);
    if (r == 0)
        r = check_crop(&job->from, &how.crop);
    if (r != 0)
        return r;
    job->x.first = (int)how.crop.x;
    job->y.first = (int)how.crop.y;
    job->x.count = (int)how.crop.width;
    job->y.count = (int)how.crop.height;
    job->x.flip = (how.flip & SLUICE_FLIP_HORIZONTAL) != 0;
    job->y.flip = (how.flip & SLUICE_FLIP_VERTICAL) != 0;
    plan_gray(&to->image, &from->image, job);
    plan_scale(to, from, job);
    plan_geometry(job, &how, area);
    bool exact = is_exact(&job->x) && is_exact(&job->y);
    job->resize = exact || how.filter == SLUICE_FILTER_NEAREST ? SL_NEAREST : SL_TRIANGLE;
    job->border = (struct sl_rgba){ how.border[0], how.border[1], how.border[2], how.border[3] };
    plan_alpha(&to->image, &from->image, job);
    return check_memory(to, from, job, exact);
}
