/* SPDX-License-Identifier: MIT
 *
 * Plays a video and keeps what came through the channel.
 */
#ifndef TOOLS_SEE_H
#define TOOLS_SEE_H

#include "kit.h"

#include <sluice/sluice.h>

#define FRAMES_MAX 200

#define NEEDS_FFMPEG() \
    do { \
        if (!has_program("ffmpeg")) \
            SKIP("ffmpeg is not installed"); \
    } while (0)

struct seen {
    unsigned count;
    struct sluice_image image; /* of the last frame */
    uint8_t pixel[FRAMES_MAX][4];
    int64_t pts_ns[FRAMES_MAX];
    char meta[256]; /* of the last frame */
    uint8_t *data;  /* of the first frame */
};

extern struct program player; /* the last one */
extern struct seen seen;      /* by see_all */

/* Runs ffmpeg in the test's folder. */
void ffmpeg(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The player's messages, but for the one about silence: the machine may be busy. */
const char *player_said(void);

/* Reads what a player of the channel 'camera', which waits for a reader, publishes. */
void see_all(void);

/* Plays a file as fast as it is decoded. Returns the exit code. */
#define play(path, ...) \
    (sluice_start(&player, "play", path, "camera", "--wait", "--readers", "1", "--quiet", "--fps", "max", \
                  __VA_ARGS__), \
     see_all(), program_end(&player, 0))

#define PLAY(name, ...) CHECK_EQ(play(in_dir(name), __VA_ARGS__), 0)

#endif
