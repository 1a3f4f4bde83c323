/* SPDX-License-Identifier: MIT
 *
 * Video in and out through ffmpeg, ffprobe and ffplay as child processes.
 */
#ifndef TOOLS_MEDIA_H
#define TOOLS_MEDIA_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "../common/child.h"

/* What ffmpeg reads from. */
enum media_kind { MEDIA_FILE, MEDIA_DEVICE, MEDIA_TEST };

struct media_source {
    enum media_kind kind;
    const char *path;                /* file or device */
    uint32_t width, height;          /* in: wanted, 0 as it comes; out: what will come */
    double fps;                      /* the same */
    enum sluice_pixel_format format; /* that frames shall have */
    struct sluice_colour colour;     /* out */
    bool loop;
};

/* Finds size, rate and colour by ffprobe. Says what is wrong for `command` and returns false. */
bool media_probe(struct media_source *source, const char *command);

/* Starts ffmpeg; frames come one behind the other, tight, out of child->out. */
bool media_decode(const struct media_source *source, struct child *child, const char *command);

/* How frames leave: into a file by ffmpeg, or onto the screen by ffplay. */
struct media_sink {
    const char *file;  /* NULL: the screen */
    const char *title; /* of the window */
    double fps;
    uint32_t crf; /* quality, 0 to 51 */
    bool crf_set;
    struct child child;
    struct sluice_image image; /* that it was started for */
    uint8_t *converted;        /* a row, where ffmpeg has no name for the format */
};

/* Starts ffmpeg or ffplay for images like this one. */
bool media_open(struct media_sink *sink, const struct sluice_array *image, const char *command);

/* Does the image look as the one it was started for? */
bool media_fits(const struct media_sink *sink, const struct sluice_array *image);

/* Writes one image; false if the child has gone. */
bool media_write(struct media_sink *sink, const struct sluice_array *image);

/* Ends it; says for `command` why it failed, if it did. A sink that was never opened is done
 * already. */
bool media_close(struct media_sink *sink, const char *command);

#endif
