/* SPDX-License-Identifier: MIT
 *
 * Video in and out, by ffmpeg and ffplay as child processes. Frames go through pipes as NUT, with their times.
 */
#ifndef TOOLS_MEDIA_H
#define TOOLS_MEDIA_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "../common/child.h"
#include "nut.h"
#include "raw.h"
#include "source.h"

#define MEDIA_OPEN_TIME (20 * SLUICE_S) /* for a source to give its first frame */

/* The program: SLUICE_FFMPEG, or "ffmpeg" in PATH. */
const char *media_ffmpeg(void);

/* Says that a program of ffmpeg could not be started. */
void media_say_start_error(const char *command, const char *program, int error);

/* ffmpeg's names for numbers of H.273; NULL if it has none, or the number is unknown. */
const char *media_matrix_name(unsigned matrix);
const char *media_primaries_name(unsigned primaries);
const char *media_transfer_name(unsigned transfer);

/* ---- in ---- */

/* One ffmpeg decodes in the source's own pixel format and says what its colours are. If the channel takes another
 * format or size, a second one converts. */
struct media_decoder {
    const struct source *source;
    struct child decoder, converter;
    struct child source_pump, frame_pump; /* into the two */
    struct feed colours;                  /* from the decoder: its first frame, described */
    struct feed frames;                   /* from the last of them: NUT */
    struct nut_reader nut;
    struct feed sizes; /* from the decoder: NUT with a byte for each frame, which depends on its size */
    struct nut_reader size_nut;
    uint64_t sizes_read;
    uint8_t first_size;
    bool size_reported;
    bool converts;
    unsigned complaints;

    /* what the channel's images are */
    struct sluice_image image;
    uint8_t bits;                /* of the source */
    uint32_t aspect_x, aspect_y; /* of a pixel; 0: square, or unknown */

    uint8_t *raw; /* a frame, if the channel's pixels are not raw video's */
    uint64_t raw_bytes;
    uint64_t count;
};

/* Returns an exit code, after a message; EXIT_DONE also if stop_asked(). */
int media_decode(struct media_decoder *decoder, const struct source *source);

/* Goes to the next frame, whose time is decoder->nut.pts_ns. False at the end. */
bool media_next(struct media_decoder *decoder);

/* Stores the frame's pixels; NULL skips them. False if they did not come. */
bool media_pixels(struct media_decoder *decoder, const struct sluice_array *image);

/* Ends the children. `whole`: the source was read to its end, so that they should have succeeded. Returns an exit code,
 * after a message. */
int media_end(struct media_decoder *decoder, bool whole);

/* ---- out ---- */

/* Where frames go: into a file, by ffmpeg, into a pipe, or into a window, by ffplay. */
struct media_sink {
    const char *file;  /* NULL: a window; "-": standard output, as NUT */
    const char *title; /* of the window */
    double fps;        /* of the window, and of files that have no times of their own */
    uint32_t crf;      /* quality, 0 to 51 */
    bool crf_set;
    struct child child;
    struct sluice_image image; /* the kind of image that the program was started for */
    uint8_t *converted;        /* a frame of a file whose pixel format ffmpeg does not support */
    const char *command;       /* for messages */
    struct nut_writer nut;
    uint8_t alpha; /* of the image, as far as the file keeps it */
};

/* True if each frame has a time of its own in files of this name; else ffmpeg repeats and leaves out frames. */
bool media_has_times(const char *file);

/* Starts ffmpeg or ffplay for images like this one. */
bool media_open(struct media_sink *sink, const struct sluice_array *image, const char *command);

/* True if the image has the size, format and colours that the program was started for. */
bool media_fits(const struct media_sink *sink, const struct sluice_array *image);

/* Writes one image; false if the program has ended. A window takes no time. */
bool media_write(struct media_sink *sink, const struct sluice_array *image, int64_t pts_ns);

/* Ends the program; false after a message of `command` if it failed. Does nothing if it was never opened. */
bool media_close(struct media_sink *sink, const char *command);

#endif
