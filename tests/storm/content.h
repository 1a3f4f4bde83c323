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

#define TAG_WORDS 8

/* Where a frame's arrays are: its own, or copies of them. */
struct content {
    void *rows;
    uint64_t *tag;
    uint64_t bytes;   /* of the rows */
    int64_t shape[2]; /* of "data"; ndim that is not 2: zeros */
    bool wrong;       /* its header cannot be read: see sluice_last_error */
};

/* One of a few formats whose "data" has up to `rows` rows, and which has a second array, "tag". */
void content_format(struct sluice_format *format, unsigned kind, uint32_t rows);

/* Shapes a frame that is begun, as the one with this label, and says where its arrays are. Fills in the metadata
 * where `meta`. */
void content_shape(struct sluice_frame *frame, const struct label *label, bool meta, struct content *content);

/* Fills it, or memory of the program's own; returns the rows used. */
uint32_t content_fill_rows(void *rows, uint64_t tag[TAG_WORDS], const struct label *label);

/* Where the arrays of a frame that is held are. */
void content_find(const struct sluice_frame *frame, struct content *content);

/* Looks at all of it. False, with *why, if any of it is not of this frame. */
bool content_check(const struct sluice_frame *frame, const struct content *content, struct label *label, char *why,
                   unsigned size);

/* The metadata must be that of the label, or (inherited) of any frame. */
bool content_check_meta(const struct sluice_frame *frame, bool inherited);

#endif
