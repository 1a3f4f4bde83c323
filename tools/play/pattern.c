/* SPDX-License-Identifier: MIT
 *
 * The test picture. Its parts are painted as RGBA and converted to the channel's format: the background and the box
 * once, the number for each frame.
 */
#include "pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../media/font.h"
#include "../media/pixels.h"

#define STRIP 64 /* rows of the background that are painted at a time */

static const float bars[8][4] = {
    { 1, 1, 1, 1 }, { 1, 1, 0, 1 }, { 0, 1, 1, 1 }, { 0, 1, 0, 1 },
    { 1, 0, 1, 1 }, { 1, 0, 0, 1 }, { 0, 0, 1, 1 }, { 0.1f, 0.1f, 0.1f, 1 },
};
static const float orange[4] = { 1, 0.5f, 0, 1 };

/* What is where in one frame. */
struct scene {
    uint32_t width, height;
    uint32_t box, box_x, box_y; /* the box's size; 0: there is none */
    uint32_t scale;             /* of the number */
    const char *number;
};

static void paint_background(const struct scene *scene, uint32_t x, uint32_t y, float colour[4])
{
    float gray = (float)x / (float)(scene->width > 1 ? scene->width - 1 : 1);
    const float shade[4] = { gray, gray, gray, 1 };
    const float *bar = bars[(uint64_t)x * 8 / scene->width];
    memcpy(colour, y < scene->height * 3 / 4 ? bar : shade, sizeof shade);
}

static bool is_in_box(const struct scene *scene, uint32_t x, uint32_t y)
{
    return x - scene->box_x < scene->box && y - scene->box_y < scene->box;
}

/* The number has a margin of one point to the left and above, and black rows above and below its digits. */
static bool is_in_number(const struct scene *scene, uint32_t x, uint32_t y, bool *ink)
{
    uint32_t column = x / scene->scale - 1, row = y / scene->scale - 1;
    if (column >= FONT_STEP * strlen(scene->number) || row >= FONT_HEIGHT + 2)
        return false;
    *ink = row > 0 && font_point(scene->number[column / FONT_STEP], column % FONT_STEP, row - 1);
    return true;
}

static void paint(const struct scene *scene, uint32_t x, uint32_t y, float colour[4])
{
    bool ink;
    if (scene->number && is_in_number(scene, x, y, &ink)) {
        colour[0] = colour[1] = colour[2] = ink ? 1 : 0;
        colour[3] = 1;
    } else if (is_in_box(scene, x, y)) {
        memcpy(colour, orange, sizeof orange);
    } else {
        paint_background(scene, x, y, colour);
    }
}

/* The part of the scene at x, y as an image like this one, in memory of its own. False if out of memory. */
static bool make_part(const struct scene *scene, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                      const struct sluice_image *like, struct sluice_array *part)
{
    struct sluice_array floats = { 0 };
    *part = (struct sluice_array){ 0 };
    bool done = pixels_alloc(&floats, SLUICE_PIXEL_RGBA_F32, width, height) == SLUICE_OK &&
                pixels_alloc(part, like->pixel_format, width, height) == SLUICE_OK;
    if (done) {
        float *colour = floats.data;
        for (uint32_t j = 0; j < height; j++)
            for (uint32_t i = 0; i < width; i++, colour += 4)
                paint(scene, x + i, y + j, colour);
        part->image.colour = like->colour;
        part->image.alpha = like->alpha;
        if (!part->image.colour.matrix) /* which follows from the height of the whole image */
            part->image.colour.matrix = pixels_default_matrix(scene->height);
        done = pixels_convert(part, &floats) == SLUICE_OK;
    }
    free(floats.data);
    if (!done) {
        free(part->data);
        part->data = NULL;
    }
    return done;
}

static uint32_t box_size(const struct sluice_image *image)
{
    return ((image->width < image->height ? image->width : image->height) / 6) & ~1u;
}

bool pattern_open(struct pattern *pattern, const struct sluice_array *image)
{
    struct scene scene = { .width = image->image.width, .height = image->image.height };
    struct sluice_array part;
    bool done = true;
    pattern->background = *image;
    pattern->background.data = calloc(1, image->nbytes);
    done = pattern->background.data && pixels_channels(&image->image);
    for (uint32_t y = 0; done && y < scene.height; y += STRIP) {
        uint32_t rows = scene.height - y < STRIP ? scene.height - y : STRIP;
        done = make_part(&scene, 0, y, scene.width, rows, &image->image, &part);
        if (done)
            pixels_put(&pattern->background, 0, y, &part);
        free(part.data);
    }
    scene.box = box_size(&image->image);
    if (done && scene.box)
        done = make_part(&scene, 0, 0, scene.box, scene.box, &image->image, &pattern->box);
    if (!done)
        pattern_close(pattern);
    return done;
}

/* A position that moves back and forth between 0 and `range`. */
static uint32_t bounce(uint64_t step, uint32_t range)
{
    if (range == 0)
        return 0;
    uint64_t at = step % (2 * (uint64_t)range);
    return (uint32_t)(at < range ? at : 2 * (uint64_t)range - at);
}

static uint32_t even_up_to(uint32_t size, uint32_t most)
{
    size += size & 1;
    return size < most ? size : most;
}

void pattern_draw(const struct pattern *pattern, const struct sluice_array *image, uint64_t index)
{
    uint32_t width = image->image.width, height = image->image.height;
    uint32_t step = width / 160 + 1, box = box_size(&image->image);
    struct sluice_array part;
    char text[24];
    if (image->nbytes != pattern->background.nbytes)
        return;
    snprintf(text, sizeof text, "#%06" PRIu64, index);
    const struct scene scene = {
        .width = width,
        .height = height,
        .box = box,
        .box_x = bounce(index * step, width - box) & ~1u,
        .box_y = bounce(index * step / 2, height - box) & ~1u,
        .scale = (width < height ? width : height) / 120 + 1,
        .number = text,
    };
    memcpy(image->data, pattern->background.data, image->nbytes);
    if (pattern->box.data)
        pixels_put(image, scene.box_x, scene.box_y, &pattern->box);
    if (make_part(&scene, 0, 0, even_up_to((1 + FONT_STEP * (uint32_t)strlen(text)) * scene.scale, width),
                  even_up_to((1 + FONT_HEIGHT + 2) * scene.scale, height), &image->image, &part))
        pixels_put(image, 0, 0, &part);
    free(part.data);
}

void pattern_close(struct pattern *pattern)
{
    free(pattern->background.data);
    free(pattern->box.data);
    pattern->background.data = pattern->box.data = NULL;
}
