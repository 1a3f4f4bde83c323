/* SPDX-License-Identifier: MIT
 *
 * The writer's side of a CIPD segment: what it stores, in which order. Memory, events and streams belong to the
 * caller; handles are only bytes here.
 *
 *     open                    takes the name; leaves another writer's session in it as it was
 *     begin(slots, handles)   begins a session: make its resources before, free the last one's 100 ms later
 *     publish, publish, ...   each after the event of its slot was recorded
 *     shut                    readers close their handles; then synchronize, wait 100 ms,
 *     free                    free the memory, and
 *     close
 *
 * One thread at a time. Only open, replace, refresh and close make system calls, and publish if a reader sleeps.
 */
#ifndef SL_CUDA_LINK_WIRE_SEGMENT_WRITE_H
#define SL_CUDA_LINK_WIRE_SEGMENT_WRITE_H

#include "cuda_link/wire/private_ext.h"
#include "cuda_link/wire/segment.h"

struct sl_cipd_segment_writer {
    struct sl_cipd_segment segment;
    struct sl_cipd_layout layout;    /* slots 0: no session of ours yet */
    struct sl_cipd_private_ext *ext; /* NULL: the segment has no room for it */
    struct sl_cipd_metadata metadata;
    unsigned char gpu[SL_CIPD_GPU]; /* set by the caller: the UUID of the memory's GPU; zeros: unknown */
    uint64_t version;               /* of our session */
    uint32_t index;                 /* the write index, as in the segment */
    uint32_t slot;                  /* of the next frame; stored because it is used often and a division is slow */
    bool others;                    /* what open found there is another program's; until our first session */
    bool shut;                      /* no session runs */
    bool rival;                     /* another program has published a frame in our session */
    bool silent; /* set by the caller: publish wakes nobody; sleeping readers check 20 times a second */
};
#define SL_CIPD_SEGMENT_WRITER_INIT \
    { \
        .segment = SL_CIPD_SEGMENT_INIT \
    }

/* Finds or makes the segment and takes its lock. If another program published a frame less than 1.5 s ago, it watches
 * the segment until that time has passed. SLUICE_E_NAME; SLUICE_E_EXISTS: a writer of Sluice's has the name, or that
 * program has published another frame; SLUICE_E_PERMISSION, SLUICE_E_NO_MEMORY and so on. All with a message. */
int sl_cipd_write_open(struct sl_cipd_segment_writer *producer, const char *name);

/* Begins a session: the first one, and one after every change of slots, memory or format. Under the service lock, so
 * that no forked child keeps the lock of a segment that is made here. `handles` has `slots` entries, each with a memory
 * handle; the event handle is zeros if there is none. If the number of slots differs from the last session's (of any
 * writer), or the session does not fit the segment otherwise, a new one replaces it under the same name, and the old
 * one is shut. Frames are counted on from the last session, but the segment says 0 until the first one is published. On
 * failure the old session goes on. SLUICE_E_INVALID: 0 or more than SL_CIPD_MAX_SLOTS slots, a memory handle of zeros;
 * SLUICE_E_EXISTS: another writer was faster to give a new segment this name. */
int sl_cipd_write_begin(struct sl_cipd_segment_writer *producer, uint32_t slots, const struct sl_cipd_handles *handles,
                        const struct sl_cipd_metadata *metadata);

/* The slot that the next frame goes to. */
static inline uint32_t sl_cipd_write_slot(const struct sl_cipd_segment_writer *producer)
{
    return producer->slot;
}

/* A write will follow soon: prefetches the cache lines for it. */
void sl_cipd_write_prefetch(const struct sl_cipd_segment_writer *producer);

/* Announces that this slot is being written from now on, before the program or the GPU touches it. */
void sl_cipd_write_announce(struct sl_cipd_segment_writer *producer);

/* Publishes it: stores its time (sl_os_now's clock; 0: none), the flag and the index, and wakes. Returns its index. */
uint32_t sl_cipd_write_publish(struct sl_cipd_segment_writer *producer, int64_t time_ns);

/* The last frame that a reader of Sluice's reported as finished; 0: none. It may be an old one, and may be wrong: rely
 * on it only where readers alone would suffer. */
uint32_t sl_cipd_write_finished(const struct sl_cipd_segment_writer *producer);

/* A frame is skipped because of the activation barrier: only shows that the writer is alive. */
void sl_cipd_write_skip(struct sl_cipd_segment_writer *producer);

/* Ends the session: sets the flag, wakes, clears the handles. Memory may be freed 100 ms later. Does nothing if none
 * runs; and nothing to the segment if another program has begun a session in it since. */
void sl_cipd_write_shut(struct sl_cipd_segment_writer *producer);

/* After that, before the memory is freed: tells Sluice's readers, and their streams that have not reached an overwrite
 * check yet. */
void sl_cipd_write_free(struct sl_cipd_segment_writer *producer);

/* Periodically, at least once a second: restores the name if it was removed. 0: all is well; 1: the name was
 * restored; SLUICE_E_EXISTS with a message: another program has given our name to a segment of its own, or has begun
 * a session in ours, or has published a frame in it, because it was too slow for open to notice that it lives. */
int sl_cipd_write_refresh(struct sl_cipd_segment_writer *producer);

/* Shuts if need be, removes the name if it still is ours, and unmaps. The name stays if another program's session is in
 * the segment: one begun since, or the one that was there where none was begun. */
void sl_cipd_write_close(struct sl_cipd_segment_writer *producer);

#endif
