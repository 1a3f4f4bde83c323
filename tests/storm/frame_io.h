/* SPDX-License-Identifier: MIT
 *
 * How a process of a storm gets at its frames: in host memory by the CPU, on a GPU (the environment's
 * SLUICE_STORM_DEVICE) by work queued on a stream, behind which commit and release are queued. There it
 * dawdles before, between and behind its copies, so that whoever does not wait for it is found out.
 */
#ifndef STORM_FRAME_IO_H
#define STORM_FRAME_IO_H

#include <stdbool.h>

#include <sluice/sluice.h>

#include "storm/content.h"

/* What storms run on: "host" if not said otherwise. */
const char *desk_device(void);
bool desk_is_gpu(void);
bool desk_is_slow(void); /* a real GPU: its processes take their time to start */

/* In the supervisor, first: skips the test if there is no such device. */
void desk_look(void);

struct desk {
    struct sluice_stream stream; /* SLUICE_ON_CPU on the host */
    char *out;                   /* pinned: one frame a slot that may be written */
    char *in;                    /* and the one that is looked at */
    uint64_t *random;
};

/* Once a process, on its first thread; then a desk for each thread. */
void desk_open_device(void);
void desk_close_device(void);
void desk_use_device(void); /* each further thread */
void desk_open(struct desk *desk, uint64_t *random);
void desk_close(struct desk *desk);

/* Shapes a frame that is begun, and fills it. Its metadata only where `meta`. */
void desk_fill(struct desk *desk, struct sluice_frame *frame, const struct label *label, bool meta);

/* Calls it when the work queued so far is done: on a thread of the driver's, in order. */
void desk_behind(struct desk *desk, void (*function)(void *data), void *data);

/* A look at a held frame, in two steps: release may be queued in between. */
void desk_look_at(struct desk *desk, const struct sluice_frame *frame, struct content *content);
bool desk_check(struct desk *desk, const struct sluice_frame *frame, const struct content *content,
                struct label *label, char *why, unsigned size);

#endif
