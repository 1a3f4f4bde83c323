/* SPDX-License-Identifier: MIT
 *
 * A moving test picture in any pixel format, without ffmpeg: colour bars, a ramp, a moving box and the frame number.
 */
#ifndef TOOLS_PATTERN_H
#define TOOLS_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

struct pattern {
    struct sluice_array background; /* owns its data */
    struct sluice_array box;        /* likewise; no data: the image is too small for one */
};

/* Paints the background for images like this one. False if out of memory. */
bool pattern_open(struct pattern *pattern, const struct sluice_array *image);

/* Paints frame `index`. */
void pattern_draw(const struct pattern *pattern, const struct sluice_array *image, uint64_t index);

void pattern_close(struct pattern *pattern);

#endif
