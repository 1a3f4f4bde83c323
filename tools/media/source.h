/* SPDX-License-Identifier: MIT
 *
 * What a source of video is: a file, a stream, a camera or the test picture. A stream can be read once only, so its
 * head is kept.
 */
#ifndef TOOLS_SOURCE_H
#define TOOLS_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <sluice/sluice.h>

#include "feed.h"

/* A stream is standard input or a FIFO. */
enum source_kind { SOURCE_FILE, SOURCE_STREAM, SOURCE_CAMERA, SOURCE_TEST };

struct source {
    const char *command;             /* for messages */
    const char *path, *name;         /* `name` for messages */
    uint32_t width, height;          /* requested; 0: the source's own */
    double fps;                      /* requested from a camera or the test picture; 0: its own */
    enum sluice_pixel_format format; /* requested */
    bool loop;

    enum source_kind kind;
    struct feed head;    /* of a stream: its descriptor, and what was read of it; of a file: its first bytes */
    bool empty;          /* a file of no bytes */
    bool recording;      /* a Sluice recording */
    const char *decoder; /* the one that keeps alpha, or NULL: ffmpeg's choice */
    unsigned colours;    /* enum nut_colours, if it is NUT */
};

/* Finds out what it is; opens a stream. Returns an exit code, after a message. */
int source_open(struct source *source);

/* A recording from its start. NULL after a message. */
FILE *source_recording(struct source *source);

void source_close(struct source *source);

#endif
