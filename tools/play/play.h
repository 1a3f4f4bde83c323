/* SPDX-License-Identifier: MIT
 *
 * sluice play: the channel that is played into, shared by recordings and videos.
 */
#ifndef TOOLS_PLAY_H
#define TOOLS_PLAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <sluice/sluice.h>

#include "../media/source.h"
#include "upload.h"

#define FPS_MAX (-1.0) /* as fast as possible */

struct play {
    const char *command; /* for messages */
    const char *channel, *device;
    struct source source;
    double fps; /* 0: the source's own */
    uint32_t slots, readers;
    enum sluice_pixel_format format;
    uint64_t limit; /* frames; 0: all */
    bool loop, wait, quiet, hash, own_pattern, retime;

    sluice_writer *writer;
    struct upload upload; /* the memory that frames are made in */
    uint64_t committed, dropped;
    int64_t start_ns; /* when the first frame was due; 0: not yet */
};

/* Opens the channel and waits for --readers. Returns an exit code. */
int play_open(struct play *play, const struct sluice_format *format);

/* Begins a frame, whose arrays upload_array() returns. SLUICE_NO_SLOT: it is dropped and counted, or a signal stops the
 * command. Negative: an error. */
int play_begin(struct play *play, struct sluice_frame *frame);

/* Waits until `due_ns` after the first frame, unless --fps max. */
void play_pace(struct play *play, int64_t due_ns);

/* Publishes the frame. On a GPU, where the slot is chosen only now, it may be dropped and counted instead. Returns an
 * exit code. */
int play_commit(struct play *play, struct sluice_frame *frame);

/* True after --frames, or when a signal stops the command. */
bool play_is_done(const struct play *play);

/* A hash over the bytes of all arrays. */
uint64_t play_hash(struct play *play, const struct sluice_frame *frame);

int play_recording(struct play *play, FILE *file);
int play_video(struct play *play);

#endif
