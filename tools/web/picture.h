/* SPDX-License-Identifier: MIT
 *
 * What a viewer sees of a frame: an array as a picture of 8 bits a sample, no larger than was asked for.
 */
#ifndef TOOLS_WEB_PICTURE_H
#define TOOLS_WEB_PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "request.h"

/* Initialise with zeros. Its memory is reused from frame to frame. */
struct web_picture {
    struct sluice_array image; /* RGBA, BGRA, RGB24, BGR24 or GRAY8, maybe in the frame itself */
    struct sluice_array own;   /* memory of its own */
    char problem[160];         /* why there is none */
};

/* Chooses the array that is looked at; NULL: there is none of that name. */
const struct sluice_array *web_picture_choose(const struct sluice_array *arrays, uint32_t count, const char *name);

/* Makes the picture, at most `width` by `height`. False, with picture->problem, if that is not possible. */
bool web_picture_make(struct web_picture *picture, const struct sluice_array *array, const struct web_look *look,
                      uint32_t width, uint32_t height);

void web_picture_free(struct web_picture *picture);

#endif
