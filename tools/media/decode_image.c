/* SPDX-License-Identifier: MIT
 *
 * What the channel's images are, from what ffmpeg says of the source and what was asked for.
 */
#include "decode.h"

#include "../common/term.h"
#include "pixels.h"

static bool halves_width(enum sluice_pixel_format format)
{
    return format == SLUICE_PIXEL_NV12 || format == SLUICE_PIXEL_YUV420P || format == SLUICE_PIXEL_P010 ||
           format == SLUICE_PIXEL_YUYV || format == SLUICE_PIXEL_UYVY;
}

static bool halves_height(enum sluice_pixel_format format)
{
    return format == SLUICE_PIXEL_NV12 || format == SLUICE_PIXEL_YUV420P || format == SLUICE_PIXEL_P010;
}

static uint8_t known(uint8_t number)
{
    return number == 2 || number == 3 ? 0 : number; /* 2: unspecified, 3: reserved */
}

/* The colours of the source, with the rule for those that it does not say. */
static struct sluice_colour source_colour(const struct media_decoder *d, const struct raw_format *raw,
                                          const struct ebml_video *said)
{
    struct sluice_colour colour = { .primaries = known(said->primaries), .transfer = known(said->transfer) };
    unsigned by_nut = d->source->colours & ~(unsigned)NUT_FULL_RANGE;
    colour.range = said->range == 1 || said->range == 2 ? said->range : SLUICE_RANGE_UNKNOWN;
    if (!colour.range && d->source->colours)
        colour.range = d->source->colours & NUT_FULL_RANGE ? SLUICE_RANGE_FULL : SLUICE_RANGE_LIMITED;
    if (raw->kind == RAW_RGB) {
        colour.matrix = SLUICE_MATRIX_RGB;
    } else {
        colour.matrix = said->matrix == 0 ? SLUICE_MATRIX_RGB : known(said->matrix);
        if (!colour.matrix && by_nut)
            colour.matrix = by_nut == NUT_BT709 ? 1 : 6;
        if (!colour.matrix && raw->kind == RAW_YUV)
            colour.matrix = pixels_default_matrix(d->nut.video.height);
    }
    if (!colour.range)
        colour.range = raw->kind == RAW_YUV ? SLUICE_RANGE_LIMITED : SLUICE_RANGE_FULL;
    return colour;
}

static struct sluice_colour channel_colour(const struct raw_format *raw, const struct raw_format *to,
                                           struct sluice_colour colour, uint32_t height)
{
    if (to->kind == raw->kind)
        return colour;
    if (to->kind == RAW_YUV) {
        if (raw->kind == RAW_RGB || !colour.matrix)
            colour.matrix = pixels_default_matrix(height);
        colour.range = SLUICE_RANGE_LIMITED;
    } else {
        colour.matrix = to->kind == RAW_RGB ? SLUICE_MATRIX_RGB : 0;
        colour.range = SLUICE_RANGE_FULL;
    }
    return colour;
}

/* What is lost on the way into the channel. */
static void say_losses(const struct media_decoder *d, const struct raw_format *raw, const struct raw_format *to)
{
    const struct source *s = d->source;
    const struct nut_video *video = &d->nut.video;
    if (s->kind == SOURCE_TEST)
        return;
    if (raw->bits > to->bits)
        say_error(s->command, "%s has %u bits a sample, and %s keeps %u; --format %s keeps more.", s->name, raw->bits,
                  to->name, to->bits, raw->kind == RAW_YUV && !raw->alpha ? "p010le" : "rgbaf16le");
    if (raw->alpha && !to->alpha)
        say_error(s->command, "%s has alpha, which %s has not; --format rgba keeps it.", s->name, to->name);
    if (!s->width && (d->image.width != video->width || d->image.height != video->height))
        say_error(s->command, "%s is %ux%u, and %s has even sizes: its last %s is left out; --format rgba keeps it.",
                  s->name, video->width, video->height, to->name, d->image.width == video->width ? "row" : "column");
    if (d->aspect_x)
        say_error(s->command, "the pixels of %s are not square: their aspect is %u:%u; --size %ux%u makes them square.",
                  s->name, d->aspect_x, d->aspect_y, (unsigned)((uint64_t)video->width * d->aspect_x / d->aspect_y),
                  video->height);
}

/* The rows of the aspect ratio that a new size leaves. */
static void scale_aspect(struct media_decoder *d)
{
    const struct nut_video *video = &d->nut.video;
    uint64_t x = (uint64_t)video->aspect_x * video->width * d->image.height;
    uint64_t y = (uint64_t)video->aspect_y * video->height * d->image.width;
    if (!d->source->width) {
        x = video->aspect_x;
        y = video->aspect_y;
    }
    if (!x || !y)
        return;
    uint64_t a = x, b = y;
    for (uint64_t rest; b; b = rest) {
        rest = a % b;
        a = b;
    }
    x /= a;
    y /= a;
    bool square = (x > y ? x - y : y - x) * 100 < y; /* a size is rounded to whole pixels */
    if (square || x > UINT32_MAX || y > UINT32_MAX)
        return;
    d->aspect_x = (uint32_t)x;
    d->aspect_y = (uint32_t)y;
}

static void choose_size(struct media_decoder *d)
{
    const struct source *s = d->source;
    d->image.width = s->width ? s->width : d->nut.video.width;
    d->image.height = s->height ? s->height : d->nut.video.height;
    if (halves_width(s->format) && d->image.width > 1)
        d->image.width &= ~1u;
    if (halves_height(s->format) && d->image.height > 1)
        d->image.height &= ~1u;
}

struct sluice_colour media_describe(struct media_decoder *d, const struct raw_format *raw,
                                    const struct ebml_video *said)
{
    const struct source *s = d->source;
    const struct raw_format *to = raw_of_channel(s->format);
    struct sluice_colour from = source_colour(d, raw, said);
    choose_size(d);
    d->image.colour = channel_colour(raw, to, from, d->image.height);
    d->image.alpha = raw->alpha ? SLUICE_ALPHA_STRAIGHT : SLUICE_ALPHA_OPAQUE;
    if (!to->alpha || s->kind == SOURCE_TEST)
        d->image.alpha = SLUICE_ALPHA_UNKNOWN;
    d->bits = raw->bits;
    scale_aspect(d);
    say_losses(d, raw, to);
    return from;
}
