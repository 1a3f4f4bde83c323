/* SPDX-License-Identifier: MIT
 *
 * The frames that a reader holds. Only the acquiring thread fills in entries and frees what they point to, so sessions
 * and memories need no reference counts: it looks through the entries. Any thread may release a frame.
 */
#ifndef SL_NATIVE_READER_HELD_H
#define SL_NATIVE_READER_HELD_H

#include "native/reader/session.h"
#include "trace/trace.h"

/* Values of `token` that no frame has. */
enum {
    SL_HELD_ENDING = 1,   /* not a frame yet, or not any more */
    SL_HELD_QUEUED = 2,   /* its release is queued on a stream: done when its word reads 0 */
    SL_HELD_DEFERRED = 3, /* its release is deferred until a capture on that stream ends */
};

/* `token` is stored last and cleared first; in between the rest does not change, nor do the session and the memory that
 * it points to. */
struct sl_held {
    sl_word token; /* 0: free; SL_HELD_*; else the frame's */
    struct sl_session *session;
    struct sl_link_memory *memory;
    char *address; /* of the slot, or of the copy */
    sl_word *word; /* stored 0 by its release: the lease, or a word of the copy's own */
    const struct sl_record *record;
    const void *meta;
    bool copied; /* the lease is over, this is a copy */
    uint32_t slot;
    bool on_stream;              /* acquired for work on */
    struct sluice_stream stream; /* this stream */
    struct sl_deferred deferred; /* its deferred release, with the stream of that */
    struct sl_reader *reader;    /* for `deferred` */
    uint64_t sequence;
    struct sl_span span; /* from acquire to release */
};

/* ---- held.c ---- */

/* The entry of a frame that is held, or NULL with a message. */
struct sl_held *sl_held_find(struct sl_reader *reader, const struct sluice_frame *frame);

/* A free entry for one more frame; NULL if the reader holds as many as it may. */
struct sl_held *sl_held_find_free(struct sl_reader *reader);

/* How many frames it may hold of the session that it reads. */
uint32_t sl_held_most(const struct sl_reader *reader);

/* Is a held frame in this session, in this memory (NULL: in any)? On the acquiring thread. */
bool sl_held_uses(const struct sl_reader *reader, const struct sl_session *session,
                  const struct sl_link_memory *memory);

/* Has the writer evicted this reader? Comes after the program's reads of the frame. */
bool sl_held_is_evicted(const struct sl_link *link);

/* ---- release.c ---- */

/* Ends a lease now, and wakes a writer that waits for slots. */
void sl_release_lease(struct sl_session *session, uint32_t slot);

/* Frees entries whose queued release is done, and queues deferred releases. On the acquiring thread. */
void sl_release_settle(struct sl_reader *reader);

/* The same, but only every few milliseconds, as long as there is room for another frame. */
void sl_release_settle_if_due(struct sl_reader *reader);

/* Is any release queued or deferred? */
bool sl_release_queued(const struct sl_reader *reader);

/* Is any deferred? */
bool sl_release_deferred(const struct sl_reader *reader);

/* Waits until none is queued or deferred, up to a limit. True if none is. */
bool sl_release_drain(struct sl_reader *reader);

#endif
