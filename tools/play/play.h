/* SPDX-License-Identifier: MIT
 *
 * What the two ways to play share: a recording's own frames, or video from elsewhere.
 */
#ifndef TOOLS_PLAY_H
#define TOOLS_PLAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <sluice/sluice.h>

#include "upload.h"

#define FPS_MAX (-1.0) /* as fast as it goes */

struct play {
    const char *command; /* for messages */
    const char *source, *channel, *device;
    double fps; /* wanted; 0: the source's own */
    uint32_t width, height, slots, readers;
    enum sluice_pixel_format format;
    uint64_t limit; /* frames; 0: all */
    bool loop, wait, quiet, hash, own_pattern, retime;

    sluice_writer *writer;
    struct upload upload; /* on which frames are made */
    uint64_t committed, dropped;
    int64_t started; /* the first frame was due then */
};

/* Opens the channel, and waits for its readers. Returns an exit code. */
int play_open(struct play *play, const struct sluice_format *format);

/* Begins a frame: 0; SLUICE_NO_SLOT if it has to be dropped (counted), or a stop was asked for;
 * negative is a failure. Its arrays are those of the upload. */
int play_begin(struct play *play, struct sluice_frame *frame);

/* Waits until `due_ns` after the first frame's time, unless as fast as it goes. */
void play_pace(struct play *play, int64_t due_ns);

/* Publishes it, or drops it (counted) if it finds a slot only now and there is none. Returns an exit
 * code. */
int play_commit(struct play *play, struct sluice_frame *frame);

/* Is it time to end? */
bool play_is_done(const struct play *play);

/* The bytes of all arrays of a frame in one number. */
uint64_t play_hash(struct play *play, const struct sluice_frame *frame);

int play_recording(struct play *play, FILE *file);
int play_video(struct play *play);

#endif
