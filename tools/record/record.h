/* SPDX-License-Identifier: MIT
 *
 * sluice record: what its two ways to record share.
 */
#ifndef TOOLS_RECORD_H
#define TOOLS_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <sluice/sluice.h>

#include "../common/readback.h"
#include "../media/media.h"

struct record {
    /* ---- the command line ---- */
    const char *command; /* for messages */
    const char *channel, *path, *array;
    uint32_t max_frames; /* 0: no limit */
    int64_t duration_ns; /* 0: no limit */
    int64_t open_timeout_ns;
    uint32_t depth, every, undeclared, as;
    bool raw, follow, quiet;
    bool to_output; /* into standard output */

    sluice_reader *reader;
    struct readback readback;
    int64_t end_ns;
    uint64_t frames, missed;
    uint64_t session; /* of the last frame */
    unsigned sessions;

    /* ---- a Sluice recording ---- */
    FILE *file;                  /* NULL: a video */
    struct sluice_format format; /* the last one written to it */

    /* ---- a video ---- */
    struct media_sink sink;
    char segment_path[4096];
    unsigned segment;         /* number of files so far */
    int64_t segment_start_ns; /* commit time of its first frame */
    int64_t last_pts_ns;      /* in it */
    bool even;                /* times are rounded to the frames of sink.fps */
    uint64_t left_out;        /* because of that */
};

/* Measures the channel's frame rate if the file needs a constant one, and --fps gave none. */
void record_measure_rate(struct record *record);

/* Adds one frame to the video. Returns an exit code. */
int record_video(struct record *record, const struct sluice_frame *frame);

#endif
