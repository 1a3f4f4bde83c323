/* SPDX-License-Identifier: MIT
 *
 * Cameras of Video4Linux: size, rate and pixel format are asked of the camera itself.
 */
#ifndef TOOLS_CAMERA_H
#define TOOLS_CAMERA_H

#include "../common/child.h"
#include "source.h"

/* Adds ffmpeg's options for the source. The two texts must live as long as the arguments. */
void camera_ask(struct child_args *args, const struct source *source, char size[32], char rate[32]);

#endif
