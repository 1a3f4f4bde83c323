/* SPDX-License-Identifier: MIT
 *
 * Which streams and events of this process depend on a frame that a stream still waits for on its GPU (a reader's
 * option `ahead`). Work that is ordered behind such a wait must not be published before the frame is there
 * (protocol 3.5). Each kind of channel adds the waits of its readers to one list.
 */
#ifndef SL_CHANNEL_STREAM_DEPS_H
#define SL_CHANNEL_STREAM_DEPS_H

#include "device/device.h"
#include "util/atomic.h"

#define SL_STREAM_WAITS      16 /* waiting streams, and lost frames that were not reported yet */
#define SL_STREAM_DEPENDENTS 16 /* of one wait */

/* A stream or an event. */
struct sl_stream_point {
    uint64_t handle;
    struct sl_stream_queue place; /* of a stream; handles with the same place count as one */
};

/* One waiting stream. Guarded by the service lock. */
struct sl_stream_wait {
    const void *owner; /* identifies the wait, with `number`; NULL: the entry is free */
    uint64_t number;
    bool lost;                                               /* the stream continued, or will, without its frame */
    struct sl_stream_point dependents[SL_STREAM_DEPENDENTS]; /* the stream itself, and all that waits for it */
    uint32_t dependent_count; /* SL_STREAM_DEPENDENTS + 1: too many to list, so any stream may be among them */
};

/* How a backend takes part; both are called under the service lock. */
struct sl_stream_wait_source {
    void (*refresh)(int64_t now); /* removes waits whose frames are there */
    bool (*make_room)(void);      /* merges lost waits; false if there are none to merge */
};

/* Number of entries in use: for a quick check without the service lock. */
extern sl_word32 sl_stream_waits_used;

/* The stream as a point, for sl_stream_wait_add. Without the service lock. */
struct sl_stream_point sl_stream_point(const struct sl_stream *stream);

/* Adds a wait, before it is queued. `source` may be NULL. NULL if there is no room. Under the service lock. */
struct sl_stream_wait *sl_stream_wait_add(const void *owner, uint64_t number, const struct sl_stream_point *first,
                                          const struct sl_stream_wait_source *source);
struct sl_stream_wait *sl_stream_wait_find(const void *owner, uint64_t number);
void sl_stream_wait_remove(struct sl_stream_wait *wait);

/* Removes all of an owner's. Under the service lock. */
void sl_stream_wait_remove_all(const void *owner);

/* Adds the dependents of `from` to those of `to`, and removes `from`. Under the service lock. */
void sl_stream_wait_merge(struct sl_stream_wait *to, struct sl_stream_wait *from);

/* Waits until this stream depends on no frame that is still to come, by a wait through Sluice or by the rule for the
 * default stream. Waits that the program queues by itself are not known. SLUICE_E_LOST if such a frame was lost, until
 * that has been reported. */
int sl_stream_wait_check_all(struct sluice_stream stream);
static inline int sl_stream_wait_check(struct sluice_stream stream)
{
    return sl_load(&sl_stream_waits_used, relaxed) == 0 ? 0 : sl_stream_wait_check_all(stream);
}

#endif
