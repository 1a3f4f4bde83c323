/* SPDX-License-Identifier: MIT
 *
 * What frames of a storm hold: every 4 KiB row says at both ends which frame it belongs to, the
 * shape follows from the sequence, and so does the metadata.
 */
#ifndef STORM_CONTENT_H
#define STORM_CONTENT_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#define ROW_BYTES 4096
#define MAX_ROWS  24

/* A frame's fate as a reader must see it. */
struct label {
    uint64_t sequence, session;
    uint64_t dropped; /* frames that the writer had dropped by then */
    uint64_t rows;    /* capacity of the frame's generation */
};

/* One of a few formats whose "data" has up to `rows` rows, and which has a second array, "tag". */
void content_format(struct sluice_format *format, unsigned kind, uint32_t rows);

/* Shapes and fills a frame that is begun, as the one with this label. The metadata only where
 * `meta`. */
void content_fill(struct sluice_frame *frame, const struct label *label, bool meta);

/* Fills memory of the program's own in the same way; returns the rows used. */
uint32_t content_fill_rows(void *rows, uint64_t tag[8], const struct label *label);

/* Looks at all of a frame that is held. False, with *why, if any of it is not of this frame. */
bool content_check(const struct sluice_frame *frame, struct label *label, char *why, unsigned size);

/* The metadata must be that of the label, or (inherited) of any frame. */
bool content_check_meta(const struct sluice_frame *frame, bool inherited);

#endif
