/* SPDX-License-Identifier: MIT
 *
 * Video in and out, by ffmpeg, ffprobe and ffplay as child processes.
 */
#ifndef TOOLS_MEDIA_H
#define TOOLS_MEDIA_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "../common/child.h"

/* The input of ffmpeg. */
enum media_kind { MEDIA_FILE, MEDIA_DEVICE, MEDIA_TEST };

struct media_source {
    enum media_kind kind;
    const char *path;                /* file or device */
    uint32_t width, height;          /* requested, 0: the source's own; media_probe sets them */
    double fps;                      /* likewise */
    enum sluice_pixel_format format; /* of the decoded frames */
    struct sluice_colour colour;     /* set by media_probe */
    bool loop;
};

/* Finds size, rate and colour with ffprobe. False after a message of `command`. */
bool media_probe(struct media_source *source, const char *command);

/* Starts ffmpeg, which writes frames without padding to child->out. */
bool media_decode(const struct media_source *source, struct child *child, const char *command);

/* Where frames go: into a file, by ffmpeg, or into a window, by ffplay. */
struct media_sink {
    const char *file;  /* NULL: a window */
    const char *title; /* of the window */
    double fps;
    uint32_t crf; /* quality, 0 to 51 */
    bool crf_set;
    struct child child;
    struct sluice_image image; /* the kind of image that the program was started for */
    uint8_t *converted;        /* a row, if ffmpeg does not support the pixel format */
};

/* Starts ffmpeg or ffplay for images like this one. */
bool media_open(struct media_sink *sink, const struct sluice_array *image, const char *command);

/* True if the image has the size and format that the program was started for. */
bool media_fits(const struct media_sink *sink, const struct sluice_array *image);

/* Writes one image; false if the program has ended. */
bool media_write(struct media_sink *sink, const struct sluice_array *image);

/* Ends the program; false after a message of `command` if it failed. Does nothing if it was never opened. */
bool media_close(struct media_sink *sink, const char *command);

#endif
