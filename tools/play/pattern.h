/* SPDX-License-Identifier: MIT
 *
 * A moving test picture in any pixel format, without ffmpeg: bars, a ramp, a box that travels, and
 * the number of the frame.
 */
#ifndef TOOLS_PATTERN_H
#define TOOLS_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

struct pattern {
    struct sluice_array background; /* its data is this pattern's */
};

/* Paints what does not move for images like this one. Returns false without memory for it. */
bool pattern_open(struct pattern *pattern, const struct sluice_array *image);

/* Paints frame number `index`. */
void pattern_draw(const struct pattern *pattern, const struct sluice_array *image, uint64_t index);

void pattern_close(struct pattern *pattern);

#endif
