/* SPDX-License-Identifier: MIT
 *
 * The contents of a storm's frames: every 4 KiB row names its frame at both ends; the shape and the metadata follow
 * from the sequence.
 */
#ifndef STORM_CONTENT_H
#define STORM_CONTENT_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#define ROW_BYTES 4096
#define MAX_ROWS  24

/* What a reader must see of a frame. */
struct label {
    uint64_t sequence, session;
    uint64_t dropped; /* frames that the writer had dropped by then */
    uint64_t rows;    /* capacity of the frame's generation */
};

#define TAG_WORDS 8

/* The addresses of a frame's arrays, or of copies of them. */
struct content {
    void *rows;
    uint64_t *tag;
    uint64_t bytes;   /* of the rows */
    int64_t shape[2]; /* of "data"; zeros if ndim is not 2 */
    bool wrong;       /* its header is invalid: see sluice_last_error */
};

/* One of a few formats whose "data" has up to `rows` rows, and which has a second array, "tag". */
void content_format(struct sluice_format *format, unsigned kind, uint32_t rows);

/* Shapes a begun frame for this label, and returns the addresses of its arrays. Fills in the metadata if `meta`. */
void content_shape(struct sluice_frame *frame, const struct label *label, bool meta, struct content *content);

/* Fills the arrays, or the program's own memory; returns the rows used. */
uint32_t content_fill_rows(void *rows, uint64_t tag[TAG_WORDS], const struct label *label);

/* Returns the addresses of a held frame's arrays. */
void content_find(const struct sluice_frame *frame, struct content *content);

/* Checks all of it. False, with *why, if any of it is not of this frame. */
bool content_check(const struct sluice_frame *frame, const struct content *content, struct label *label, char *why,
                   unsigned size);

/* The metadata must be that of the label, or (inherited) of any frame. */
bool content_check_meta(const struct sluice_frame *frame, bool inherited);

#endif
