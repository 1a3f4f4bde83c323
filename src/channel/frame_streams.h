/* SPDX-License-Identifier: MIT
 *
 * The streams that use a frame, besides the one that is named at its end, and the frame's end behind the work on all
 * of them.
 */
#ifndef SL_CHANNEL_FRAME_STREAMS_H
#define SL_CHANNEL_FRAME_STREAMS_H

#include <sluice/frame.h>

#include "device/device.h"
#include "os/os.h"
#include "util/atomic.h"

struct sl_stream_set;
struct sluice_reader;

/* A writer's or reader's. All zero but for the lock until a frame's first stream is named. */
struct sl_frame_streams {
    sl_mutex lock;              /* guards the members below; held while streams are made to wait */
    sl_word32 used;             /* number of sets: for a quick check without the lock */
    struct sl_stream_set *sets; /* of frames that are held */
    struct sl_stream_set *spare;
    struct sluice_stream joins[2]; /* streams of ours that wait for all of a set: non-blocking, blocking */
};

void sl_frame_streams_begin(struct sl_frame_streams *streams);
void sl_frame_streams_end(struct sl_frame_streams *streams);

/* Behind the calls of sluice/frame.h; `device` is where the frame's memory is. */
int sl_frame_streams_add(struct sl_frame_streams *streams, const struct sluice_frame *frame, const char *device,
                         struct sluice_stream stream, void (*release)(void *user), void *user);
int sl_frame_streams_wait(struct sl_frame_streams *streams, const struct sluice_frame *frame,
                          struct sluice_stream stream);
int sl_frame_streams_captures(struct sl_frame_streams *streams, const struct sluice_frame *frame);

/* Gives a stream behind the work on all that were named; SLUICE_ON_CPU if there are none. SLUICE_E_CAPTURING, with
 * nothing queued, while one captures. */
int sl_frame_streams_join(struct sl_frame_streams *streams, const struct sluice_frame *frame,
                          struct sluice_stream *stream);

/* Before the frame ends behind `stream`: adds it, if others were *named. */
int sl_frame_streams_add_last(struct sl_frame_streams *streams, const struct sluice_frame *frame,
                              struct sluice_stream stream, bool *named);

/* Both in one: *stream becomes one behind all. */
int sl_frame_streams_end_on_all(struct sl_frame_streams *streams, const struct sluice_frame *frame,
                                struct sluice_stream *stream);

static inline bool sl_frame_streams_in_use(struct sl_frame_streams *streams)
{
    return sl_load(&streams->used, relaxed) != 0;
}

static inline int sl_frame_streams_end_on(struct sl_frame_streams *streams, const struct sluice_frame *frame,
                                          struct sluice_stream *stream)
{
    return sl_frame_streams_in_use(streams) ? sl_frame_streams_end_on_all(streams, frame, stream) : 0;
}

/* The default stream of their device. */
int sl_frame_streams_default(struct sl_frame_streams *streams, const struct sluice_frame *frame,
                             struct sluice_stream *stream);

/* Have all of them done their work? 0 or SLUICE_NOT_READY. */
int sl_frame_streams_query(struct sl_frame_streams *streams, const struct sluice_frame *frame);

/* After the end of a frame that had these words: forgets its streams. */
void sl_frame_streams_forget(struct sl_frame_streams *streams, uint64_t token, uint64_t entry);

/* ---- late_release.c ---- */

/* Releases a frame that has such streams. */
int sl_release_behind_all(struct sluice_reader *reader, struct sluice_frame *frame, struct sluice_stream stream);

#endif
