/* SPDX-License-Identifier: MIT
 *
 * Inside a reader: reader.c opens and closes, acquire.c takes frames (acquire.h), release.c gives them back,
 * session.c follows the channel's writers as they come and go, gate.c keeps the descriptor that
 * programs poll.
 *
 * Three kinds of threads meet here: the caller in acquire (one at a time), callers in release and in
 * frame calls (any), and the service thread, which brings links and news under the service lock.
 */
#ifndef SL_CORE_READER_H
#define SL_CORE_READER_H

#include <sluice/reader.h>

#include "copy/copy.h"
#include "core/due.h"
#include "core/lease.h"
#include "core/timing.h"
#include "device/device.h"
#include "sync/sync.h"
#include "trace/trace.h"
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
    char device[SL_DEVICE_NAME]; /* on which frames are used here */
    char home[SL_DEVICE_NAME];   /* on which they lie */
    bool foreign;            /* that is another one */
    bool near;               /* but slots are mapped for `device` all the same */
    struct sl_staged *staged; /* frames are copied; NULL: they are not */
    const struct sl_sync_ops *sync;
    struct sl_sync_pages *pages; /* of the link's page, as that device knows it; NULL on host */
    bool ahead;              /* streams may wait for its frames */
    bool ahead_now;          /* and the one of the acquire that runs */
    uint32_t park_at_once;   /* so many of the next are not looked at again before a stream waits for them, */
    uint32_t park_next;      /* as were before that */
    uint64_t refused;        /* the frame for which no stream may wait after all: the CPU does */
    uint32_t parked;         /* streams that wait for its frames now; under the service lock */
    sl_word32 spoiled[SL_MAX_IDS]; /* slots whose own word was poisoned: they may not any more */
    struct sl_due due;       /* when its frames are ready */
    uint8_t after[SL_MAX_IDS]; /* in which slot the next frame was that this one took, of late, */
    uint8_t at;              /* and in which the last one */
    uint64_t soon;           /* the frame that acquire saw coming, from which on it takes any, */
    int64_t soon_ns;         /* when the first such was committed, */
    int64_t unready_ns;      /* when it was looked at last, and was not ready, */
    bool soon_watched;       /* and whether it was watched */
    bool told_evicted, told_closed; /* acquire has said so */
    int64_t over_ns;         /* when acquire saw first that the writer is gone */
    struct sl_slot_map maps[SL_MAX_IDS];
};

/* Tokens that no frame has. */
enum {
    SL_HELD_ENDING = 1, /* not a frame yet, or no more */
    SL_HELD_QUEUED = 2, /* its release is queued on a stream: over when its word reads 0 */
    SL_HELD_BACK = 3,   /* its release waits until a capture on that stream ends */
};

/* A frame that is out. `token` is stored last and taken first; the rest stands still in between, and so
 * do the session and the memory that it names. Only the acquiring thread fills entries and ends what they
 * name, so it needs no count of them: it looks. */
struct sl_held {
    sl_word token; /* 0: free; SL_HELD_*; else the frame's */
    struct sl_session *session;
    struct sl_link_memory *memory;
    char *address; /* of the slot, or of the copy */
    sl_word *word; /* 0 ends it: the lease, or the copy's own */
    const struct sl_record *record;
    const void *meta;
    bool copied;   /* the lease is over, this is a copy */
    uint32_t slot;
    bool on_stream;              /* acquired for a stream's work, */
    struct sluice_stream taken_for; /* namely this one's */
    struct sluice_stream stream; /* of a release that is queued */
    struct sl_after back;        /* of one that is held back, with its stream */
    struct sluice_reader *reader; /* whose it is; for that */
    uint64_t sequence;
    struct sl_span span; /* from acquire to release */
};

/* What fetches from one device; a writer may come back on another. */
struct sl_reader_copier {
    struct sl_reader_copier *next;
    char device[SL_DEVICE_NAME];
    struct sl_copier copier;
};

struct sluice_reader {
    struct sl_object object;
    const struct sl_bare_ops *bare; /* of a bare channel: the rest is not used then, but name and copiers; else NULL */
    void *state;                    /* that one's own */
    struct sluice_reader_params params; /* complete */
    char name[SLUICE_MAX_NAME + 1];
    char device[SL_DEVICE_NAME]; /* that was asked for; "": the channel's own */
    struct sl_join *join;        /* NULL once its device is lost */

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
    int64_t now; /* in acquire: the time, if it was read already, and nothing was waited for since; else 0 */
    int64_t probed_ns; /* when the driver was asked last about a release that is late */
    uint32_t last_entry;          /* of `held`: taken last, */
    uint8_t entry_of[SL_MAX_IDS]; /* and for which slot */
    int64_t settled_ns; /* when frames that are out were looked at last for no other reason, by the coarse clock */

    struct sl_held held[SLUICE_MAX_SLOTS];
    struct sl_room *rooms; /* for copies, one an entry; NULL until there are any */
    sl_word32 held_back; /* 1: a release may be */
    sl_word32 busy; /* a call is in acquire; debug builds find a second one (protocol 2.6) */

    sl_mutex copier_lock; /* held while one is made, which may wait for a driver */
    struct sl_reader_copier *copiers;

    int gate, note; /* the descriptor that programs poll, and ours in it; -1 until asked for */
    struct sl_watch watch; /* looks whether frames are ready, where commit does not say so */
    sl_word watch_want;    /* from which on */
    /* The service thread's: it saw this one coming, as acquire does. */
    uint64_t watch_soon;
    int64_t watch_soon_ns, watch_unready_ns;
    uint32_t watch_short; /* looks at it that came one soon after the other */

    sl_word32 untold; /* lost frames that acquire has to tell of */
    sl_word taken, missed, lost, retries, sessions, latency_ns; /* statistics, relaxed */
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

/* Goes over to a link that came, if one did. SLUICE_NO_WRITER if not; a failure if its frames cannot be used
 * here, again at each call. */
int sl_session_switch(struct sluice_reader *reader);

/* Goes over to a new connection to the same session, where frames are kept for it again, once it has what was kept by
 * the old one. True if it did. */
bool sl_session_rejoin(struct sluice_reader *reader);

/* The memory of a slot, mapped; SLUICE_AGAIN while it has not come. */
int sl_session_map(struct sl_session *session, uint32_t slot, const struct sl_record *record,
                   struct sl_link_memory **memory);

/* Says goodbye for good: this reader's device is lost, and with it all its work there. */
void sl_session_fail(struct sluice_reader *reader);

/* Its writer is gone: what its device has not finished a while later is lost. True if that has come to pass
 * now, so that acquire may find what lies behind it. */
bool sl_session_give_up(struct sluice_reader *reader);

/* Unmaps what the writer will not use again and nobody holds. */
void sl_session_prune(struct sluice_reader *reader);

/* Ends sessions: all of them at the end of the reader, else old ones that hold nothing. */
void sl_session_reap(struct sluice_reader *reader, bool all);

/* ---- wait.c ---- */

/* Would acquire have something to say at once? */
bool sl_wait_has_news(const struct sluice_reader *reader);

/* When the frame was committed that comes next of those from `want` on; `now` if that does not show. */
int64_t sl_wait_since(const struct sl_session *session, uint64_t want, int64_t now);

/* ---- release.c ---- */

/* Ends a lease now, and wakes a writer that waits for slots. */
void sl_release_lease(struct sl_session *session, uint32_t slot);

/* Frees entries whose queued release has come to pass, and queues those that were held back. On the
 * acquiring thread. */
void sl_release_settle(struct sluice_reader *reader);

/* The same if there may be need: not for each of many frames that are taken in a row. */
void sl_release_settle_now_and_then(struct sluice_reader *reader);

/* Is any release queued or held back? */
bool sl_release_queued(const struct sluice_reader *reader);

/* Is any held back? */
bool sl_release_held_back(const struct sluice_reader *reader);

/* Waits until none is queued or held back, though not for ever. */
bool sl_release_drain(struct sluice_reader *reader);

/* ---- fetch.c ---- */

/* `working`: its device is busy with something that does not end. */
void sl_fetch_end(struct sluice_reader *reader, bool working);

/* ---- staged.c ---- */

/* Finds out how frames get to this reader's device: by `home` and `device` of the session, and what it may do. */
int sl_staged_choose(const struct sluice_reader *reader, struct sl_session *session);

/* Room for copies of as many frames as the reader may hold; none if they are not copied. Once the device is attached. */
int sl_staged_open(struct sluice_reader *reader, struct sl_session *session);
void sl_staged_close(struct sl_session *session);
/* At the reader's end, behind its sessions. */
void sl_staged_end(struct sluice_reader *reader);

/* Turns an entry whose slot is held into one of a copy, and waits for that. SLUICE_E_LOST if it takes too long: then
 * the entry is queued until it ends. The lease is still there, for the caller to end. */
int sl_staged_copy(struct sluice_reader *reader, struct sl_held *entry);

/* Is a copy still under way that was not waited for to the end? */
bool sl_staged_busy(const struct sluice_reader *reader, const struct sl_held *entry);

/* The memory of a copy that is out, kept until sl_mem_drop. */
struct sl_mem_shared *sl_staged_pin(const struct sluice_reader *reader, const struct sl_held *entry);

/* ---- gate.c ---- */

/* Makes the descriptor tell whether acquire would wait. After each acquire, if it was asked for. */
void sl_gate_settle(struct sluice_reader *reader);
/* Under the service lock. */
void sl_gate_enter(struct sluice_reader *reader, struct sl_session *session);
void sl_gate_leave(struct sluice_reader *reader, struct sl_session *session);

#endif
