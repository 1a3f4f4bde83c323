/* SPDX-License-Identifier: MIT
 *
 * Arrays that are pictures although their writer does not say so.
 */
#ifndef TOOLS_PICTURE_H
#define TOOLS_PICTURE_H

#include <stdbool.h>

#include <sluice/sluice.h>

#include "args.h"

#define AS_OPTION \
    { \
        0, "as", "FORMAT", "take an array that is no image as pixels of this format, such as bgr24" \
    }

/* The value of an option that is a pixel format. Prints what is wrong. */
bool args_pixel_format(const struct args *args, uint32_t *format);

/* Describes the array as an image of this format (0: leaves it as it is). It must have the type and the shape of such
 * an image. Prints what is wrong; returns an exit code. */
int picture_take_as(const char *command, struct sluice_array *array, uint32_t format);

/* Prints that the array is not an image, what helps, and what to do `instead`. */
void say_not_image(const char *command, const char *channel, const struct sluice_array *array, const char *instead);

#endif
