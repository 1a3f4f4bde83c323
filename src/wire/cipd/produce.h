/* SPDX-License-Identifier: MIT
 *
 * The writer's side of a CIPD segment: what it stores, in which order. Memory, events and streams are the
 * caller's; to this file handles are bytes.
 *
 *     open                    the name is ours; a session of another writer's in it stays as it was
 *     begin(slots, handles)   a session: build all of its resources before, free the last one's 100 ms later
 *     publish, publish, ...   each behind the record of its slot's event
 *     shut                    readers let go; then synchronise, wait 100 ms,
 *     free                    free the memory, and
 *     close
 *
 * One thread at a time. Only open, replace, tend and close make system calls, and publish if a reader sleeps.
 */
#ifndef SL_WIRE_CIPD_PRODUCE_H
#define SL_WIRE_CIPD_PRODUCE_H

#include "wire/cipd/extra.h"
#include "wire/cipd/segment.h"

struct sl_cipd_producer {
    struct sl_cipd_segment segment;
    struct sl_cipd_layout layout; /* slots 0: no session of ours yet */
    struct sl_cipd_extra *extra;  /* NULL: the segment has no room for it */
    struct sl_cipd_metadata metadata;
    unsigned char gpu[SL_CIPD_GPU]; /* the caller's: the UUID of the one that the memory lies on; zeros: not told */
    uint64_t version;             /* of our session */
    uint32_t index;               /* frames published in it, as they stand in the segment */
    uint32_t slot;                /* that the next one goes to: each frame asks often, and a division takes long */
    bool shut;                    /* no session runs */
    bool rival;                   /* another program has published a frame in our session */
    bool silent;                  /* the caller's: publish wakes nobody; they look by themselves, 20 times a second */
};
#define SL_CIPD_PRODUCER_INIT { .segment = SL_CIPD_SEGMENT_INIT }

/* Finds or makes the segment and takes its lock. Where another program published less than 1.5 s ago it is watched until that
 * time is over. SLUICE_E_NAME; SLUICE_E_EXISTS: the name has a writer of Sluice's, or that program has published another frame; SLUICE_E_PERMISSION, SLUICE_E_NO_MEMORY and so on. All with a sentence. */
int sl_cipd_produce_open(struct sl_cipd_producer *producer, const char *name);

/* Under the service lock, so that no forked child keeps the lock of a segment that is made here.
 * Begins a session, at the first time and after every change of slots, memory or format. `handles`
 * has `slots` entries: each with a memory handle, an event of zeros where it has none. Another number of
 * slots than the last session's, by whomever, goes to a new segment under the same name, and so does
 * whatever does not fit the one that is there; the old one is shut. Frames are counted on from the last session's, though the
 * segment says 0 until the first is published. On failure the old session goes on. SLUICE_E_INVALID: 0 or more than SL_CIPD_MAX_SLOTS,
 * a memory handle of zeros; SLUICE_E_EXISTS: another writer was quicker to give a new segment the name. */
int sl_cipd_produce_begin(struct sl_cipd_producer *producer, uint32_t slots,
                          const struct sl_cipd_handles *handles,
                          const struct sl_cipd_metadata *metadata);

/* Other metadata of as many bytes, with the same memory: readers open the same handles again. The write
 * index goes on. SLUICE_E_INVALID: another number of bytes. */
int sl_cipd_produce_describe(struct sl_cipd_producer *producer, const struct sl_cipd_metadata *metadata);

/* The slot that the next frame goes to. */
static inline uint32_t sl_cipd_produce_slot(const struct sl_cipd_producer *producer)
{
    return producer->slot;
}

/* A write will follow: its lines are fetched meanwhile. */
void sl_cipd_produce_early(const struct sl_cipd_producer *producer);

/* Says that this slot is being written from now on: before the program or the GPU touches it. */
void sl_cipd_produce_write(struct sl_cipd_producer *producer);

/* Publishes it: its time (sl_os_now's clock; 0: none), the flag, the index, and wakes. Returns its index. */
uint32_t sl_cipd_produce_publish(struct sl_cipd_producer *producer, int64_t time_ns);

/* The last frame that a reader of Sluice's says it has seen finished; 0: none. It may be one of long ago, and is not to be
 * relied on for more than a favour to readers. */
uint32_t sl_cipd_produce_finished(const struct sl_cipd_producer *producer);

/* A frame is skipped because of the activation barrier: says only that the writer lives. */
void sl_cipd_produce_skip(struct sl_cipd_producer *producer);

/* Is there somebody who sleeps until a frame comes? A hint. */
bool sl_cipd_produce_watched(const struct sl_cipd_producer *producer);

/* Ends the session: flag, wake, zero handles. Memory may be freed 100 ms later. Does nothing if none runs. */
void sl_cipd_produce_shut(struct sl_cipd_producer *producer);

/* Behind that, before it is freed: says so to readers of Sluice's, and to streams of theirs that have yet to come to a mark. */
void sl_cipd_produce_free(struct sl_cipd_producer *producer);

/* Now and then, at least once a second: gives the name back if it was taken away. 0 all is well; 1 it was
 * given back; SLUICE_E_EXISTS with a sentence: another program has put a segment of its own under our name, or has begun
 * a session of its own in ours, or has published a frame there, as one does that was too slow for open to see that it lives. */
int sl_cipd_produce_tend(struct sl_cipd_producer *producer);

/* Shuts if need be, removes the name if it still is ours, unmaps. */
void sl_cipd_produce_close(struct sl_cipd_producer *producer);

#endif
