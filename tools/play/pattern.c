/* SPDX-License-Identifier: MIT
 *
 * The test picture. The background is painted once and copied into each frame.
 */
#include "pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../media/font.h"
#include "../media/pixels.h"

static const float bars[8][4] = {
    { 1, 1, 1, 1 }, { 1, 1, 0, 1 }, { 0, 1, 1, 1 }, { 0, 1, 0, 1 },
    { 1, 0, 1, 1 }, { 1, 0, 0, 1 }, { 0, 0, 1, 1 }, { 0.1f, 0.1f, 0.1f, 1 },
};

bool pattern_open(struct pattern *pattern, const struct sluice_array *image)
{
    struct pixels pixels;
    pattern->background = *image;
    pattern->background.data = calloc(1, image->nbytes);
    if (!pixels_open(&pixels, &pattern->background)) {
        pattern_close(pattern);
        return false;
    }
    uint32_t ramp = pixels.height * 3 / 4;
    for (uint32_t y = 0; y < pixels.height; y++)
        for (uint32_t x = 0; x < pixels.width; x++) {
            float gray = (float)x / (float)(pixels.width > 1 ? pixels.width - 1 : 1);
            const float shade[4] = { gray, gray, gray, 1 };
            uint32_t bar = (uint32_t)((uint64_t)x * 8 / pixels.width);
            pixels_put(&pixels, x, y, y < ramp ? bars[bar] : shade);
        }
    return true;
}

static void fill_square(const struct pixels *pixels, uint32_t left, uint32_t top, uint32_t size, const float colour[4])
{
    for (uint32_t y = top; y < top + size && y < pixels->height; y++)
        for (uint32_t x = left; x < left + size && x < pixels->width; x++)
            pixels_put(pixels, x, y, colour);
}

/* A position that moves back and forth between 0 and `range`. */
static uint32_t bounce(uint64_t step, uint32_t range)
{
    if (range == 0)
        return 0;
    uint64_t at = step % (2 * (uint64_t)range);
    return (uint32_t)(at < range ? at : 2 * (uint64_t)range - at);
}

static void draw_number(const struct pixels *pixels, uint64_t index, uint32_t scale)
{
    static const float ink[4] = { 1, 1, 1, 1 }, paper[4] = { 0, 0, 0, 1 };
    char text[24];
    snprintf(text, sizeof text, "#%06" PRIu64, index);
    for (uint32_t i = 0; text[i]; i++)
        for (uint32_t y = 0; y < FONT_HEIGHT + 2; y++)
            for (uint32_t x = 0; x < FONT_STEP; x++)
                fill_square(pixels, (1 + i * FONT_STEP + x) * scale, (1 + y) * scale, scale,
                            y > 0 && font_point(text[i], x, y - 1) ? ink : paper);
}

void pattern_draw(const struct pattern *pattern, const struct sluice_array *image, uint64_t index)
{
    static const float orange[4] = { 1, 0.5f, 0, 1 };
    struct pixels pixels;
    if (image->nbytes != pattern->background.nbytes || !pixels_open(&pixels, image))
        return;
    memcpy(image->data, pattern->background.data, image->nbytes);
    uint32_t shorter_side = pixels.width < pixels.height ? pixels.width : pixels.height;
    uint32_t box = (shorter_side / 6) & ~1u, step = pixels.width / 160 + 1;
    uint32_t x = bounce(index * step, pixels.width - box) & ~1u;
    uint32_t y = bounce(index * step / 2, pixels.height - box) & ~1u;
    fill_square(&pixels, x, y, box, orange);
    draw_number(&pixels, index, shorter_side / 120 + 1);
}

void pattern_close(struct pattern *pattern)
{
    free(pattern->background.data);
    pattern->background.data = NULL;
}
