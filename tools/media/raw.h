/* SPDX-License-Identifier: MIT
 *
 * The pixel formats in which raw video goes between ffmpeg and this program: those that NUT has a tag for.
 */
#ifndef TOOLS_RAW_H
#define TOOLS_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/sluice.h>

enum raw_kind { RAW_GRAY, RAW_RGB, RAW_YUV };

struct raw_format {
    const char *name; /* ffmpeg's */
    uint32_t tag;     /* NUT's */
    uint8_t kind, bits;
    bool alpha;
};

/* NULL if there is none with the tag. Formats of the full range share the tags of the others. */
const struct raw_format *raw_find(uint32_t tag);

/* "format=yuv420p|yuv422p|...": a filter of ffmpeg that lets these formats pass and converts others to the nearest. */
#define RAW_FILTER_SIZE 1024
char *raw_filter(char text[RAW_FILTER_SIZE]);

/* ---- a channel's images as raw video ---- */

/* The raw format that holds a channel's pixels without loss (of floats: as 16 bits); NULL if there is none. */
const struct raw_format *raw_of_channel(uint32_t pixel_format);

/* The bytes of a frame in that format, without padding. */
uint64_t raw_size(const struct sluice_image *image);

/* True if the channel's pixels are those of the raw format, byte for byte. Raw video has straight alpha. */
bool raw_is_same(const struct sluice_image *image);

/* Converts between a frame in the raw format and an image for which raw_is_same is false. False if out of memory. */
void raw_to_image(const uint8_t *raw, const struct sluice_array *image);
bool raw_from_image(uint8_t *raw, const struct sluice_array *image);

#endif
