/* SPDX-License-Identifier: MIT
 *
 * What the two ways to record share: frames bit for bit, or video by ffmpeg.
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
    const char *command; /* for messages */
    const char *channel, *path, *array;
    uint64_t limit; /* frames; 0: all */
    int64_t seconds_ns, timeout_ns;
    uint32_t depth, every, undeclared;
    bool raw, follow, quiet;

    sluice_reader *reader;
    struct readback readback;
    int64_t end_ns;
    uint64_t frames, missed, session;
    unsigned sessions;

    FILE *file;                  /* Sluice recording */
    struct sluice_format format; /* the last one written to it */

    struct media_sink sink; /* video */
    char segment_path[4096];
    unsigned segment; /* files so far */
    int64_t first_ns; /* when the file's first frame was committed */
    uint64_t written; /* frames in the file, with repeated ones */
    uint64_t repeated;
};

/* Finds out the channel's frame rate if none was asked for. */
void record_measure(struct record *record);

/* One frame into the video. Returns an exit code. */
int record_video(struct record *record, const struct sluice_frame *frame);

#endif
