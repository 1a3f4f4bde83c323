/* SPDX-License-Identifier: MIT
 *
 * How a process of a storm accesses its frames: in host memory by the CPU, on a GPU (SLUICE_STORM_DEVICE) by work
 * queued on a stream, after which commit and release are queued. There are random delays before, between and after the
 * copies, so that a missing wait is found.
 */
#ifndef STORM_FRAME_IO_H
#define STORM_FRAME_IO_H

#include <stdbool.h>

#include <sluice/sluice.h>

#include "storm/content.h"

/* The device of the storm; "host" by default. */
const char *frame_io_device(void);
bool frame_io_is_gpu(void);
bool frame_io_is_slow(void); /* a real GPU: its processes start slowly */

/* In the supervisor, first: skips the test if there is no such device. */
void frame_io_require(void);

struct frame_io {
    struct sluice_stream stream; /* SLUICE_ON_CPU on the host */
    char *out;                   /* pinned: one frame for each slot that may be written */
    char *in;                    /* and the one that is being checked */
    uint64_t *random;
};

/* Once in a process, on its first thread; then a frame_io for each thread. */
void frame_io_open_device(void);
void frame_io_close_device(void);
void frame_io_use_device(void); /* on each further thread */
void frame_io_open(struct frame_io *io, uint64_t *random);
void frame_io_close(struct frame_io *io);

/* Shapes a begun frame, and fills it; its metadata only if `meta`. */
void frame_io_fill(struct frame_io *io, struct sluice_frame *frame, const struct label *label, bool meta);

/* Calls it when the work queued so far is done: on a thread of the driver's, in order. */
void frame_io_call_after(struct frame_io *io, void (*function)(void *data), void *data);

/* The check of a held frame, in two steps: release may be queued in between. */
void frame_io_begin_check(struct frame_io *io, const struct sluice_frame *frame, struct content *content);
bool frame_io_check(struct frame_io *io, const struct sluice_frame *frame, const struct content *content,
                    struct label *label, char *why, unsigned size);

#endif
