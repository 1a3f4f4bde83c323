/* SPDX-License-Identifier: MIT
 *
 * Inside a reader: reader.c opens and closes, acquire.c takes frames, release.c gives them back,
 * session.c follows the channel's writers as they come and go, gate.c keeps the descriptor that
 * programs poll.
 *
 * Three kinds of threads meet here: the caller in acquire (one at a time), callers in release and in
 * frame calls (any), and the service thread, which brings links and news under the service lock.
 */
#ifndef SL_CORE_READER_H
#define SL_CORE_READER_H

#include <sluice/reader.h>

#include "core/lease.h"
#include "core/timing.h"
#include "device/device.h"
#include "sync/sync.h"
#include "wire/wire.h"

/* Where a slot's memory is mapped here. */
struct sl_slot_map {
    struct sl_link_memory *memory;
    uint32_t number; /* of the memory; 0: nothing cached */
};

/* One session as this reader uses it. */
struct sl_session {
    struct sl_session *next; /* of older ones that still hold frames */
    struct sl_link *link;
    struct sl_lease lease;
    uint64_t dropped, skipped; /* seen with the last frame */
    uint32_t generation;     /* of the last frame; 0: none yet */
    uint32_t oldest_memory;  /* what was below is unmapped */
    uint32_t memory_count;   /* of the link, when that was done last */
    bool told_evicted, told_closed; /* acquire has said so */
    struct sl_slot_map maps[SL_MAX_IDS];
};

#define SL_HELD_ENDING 1 /* a token that no frame has */

/* A frame that is out. `token` is stored last and taken first; the rest stands still in between, and so
 * do the session and the memory that it names. Only the acquiring thread fills entries and ends what they
 * name, so it needs no count of them: it looks. */
struct sl_held {
    sl_word token; /* 0: free; SL_HELD_ENDING: not a frame yet, or no more; else the frame's */
    struct sl_session *session;
    struct sl_link_memory *memory;
    char *address; /* of the slot */
    uint32_t slot;
    uint64_t sequence;
};

struct sluice_reader {
    struct sl_object object;
    struct sluice_reader_params params; /* complete */
    char name[SLUICE_MAX_NAME + 1];
    const struct sl_device_ops *device;
    const struct sl_sync_ops *sync;
    struct sl_join *join;

    /* News: raised by the service thread, and by close. */
    sl_word32 attention; /* look under the service lock */
    sl_word32 bell;      /* futex of an acquire that has no link */
    sl_word32 closing;
    struct sl_link *next; /* a link not used yet; service lock */

    /* The acquiring thread's; `session` changes under the service lock. */
    struct sl_session *session;
    struct sl_session *old;
    uint64_t last_session; /* of the last frame */
    uint64_t next_token;

    struct sl_held held[SLUICE_MAX_SLOTS];
    sl_word32 busy; /* a call is in acquire; debug builds find a second one (protocol 2.6) */

    int gate, note; /* the descriptor that programs poll, and ours in it; -1 until asked for */

    sl_word taken, missed, retries, sessions, latency_ns; /* statistics, relaxed */
    struct sl_timing timing;
};

int sl_reader_hold(sluice_reader *handle, struct sluice_reader **reader);

/* ---- session.c ---- */

/* Called by the wire, on the service thread. */
void sl_session_linked(void *context, struct sl_link *link);
void sl_session_changed(void *context, struct sl_link *link);

/* From now on acquire takes nothing, and no unread frame is kept for this reader. */
void sl_session_stop(struct sluice_reader *reader);

/* Takes note of news, if there are any. On the acquiring thread. */
void sl_session_attend(struct sluice_reader *reader);

/* Goes over to a link that came, if one did. SLUICE_NO_WRITER if not. */
int sl_session_switch(struct sluice_reader *reader);

/* The memory of a slot, mapped; SLUICE_AGAIN while it has not come. */
int sl_session_map(struct sl_session *session, uint32_t slot, const struct sl_record *record,
                   struct sl_link_memory **memory);

/* Unmaps what the writer will not use again and nobody holds. */
void sl_session_prune(struct sluice_reader *reader);

/* Ends sessions; `all` at the end of the reader, else old ones that hold nothing. */
void sl_session_reap(struct sluice_reader *reader, bool all);

/* ---- acquire.c ---- */

/* Would acquire have something to say at once? */
bool sl_acquire_has_news(const struct sluice_reader *reader);

/* ---- gate.c ---- */

/* Makes the descriptor tell whether acquire would wait. After each acquire, if it was asked for. */
void sl_gate_settle(struct sluice_reader *reader);
void sl_gate_enter(struct sluice_reader *reader, struct sl_link *link);
void sl_gate_leave(struct sluice_reader *reader, struct sl_link *link);

#endif
