/* SPDX-License-Identifier: MIT
 *
 * Inside a reader: reader.c opens and closes, acquire.c takes frames (acquire.h), release.c gives them back,
 * session.c follows the channel's writers as they come and go, poll_fd.c keeps the descriptor that
 * programs poll.
 *
 * Three kinds of threads meet here: the caller in acquire (one at a time), callers in release and in
 * frame calls (any), and the service thread, which brings links and news under the service lock.
 */
#ifndef SL_NATIVE_READER_READER_H
#define SL_NATIVE_READER_READER_H

#include <sluice/reader.h>

#include "channel/channel.h"
#include "native/reader/completion_estimate.h"
#include "native/protocol/lease.h"
#include "native/reader/timing.h"
#include "device/device.h"
#include "sync/sync.h"
#include "trace/trace.h"
#include "native/wire/wire.h"

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
    uint64_t dropped, skipped; /* as of the last frame */
    uint32_t generation;     /* of the last frame; 0: none yet */
    uint32_t oldest_memory;  /* memories below it are unmapped */
    uint32_t memory_count;   /* of the link, when that was done last */
    char device[SL_DEVICE_NAME]; /* on which frames are used here */
    char home[SL_DEVICE_NAME];   /* on which slots are */
    bool foreign;            /* `home` is another device than `device` */
    bool near;               /* foreign, but slots are mapped for `device` */
    struct sl_staged *staged; /* frames are copied; NULL: they are not */
    const struct sl_sync_ops *sync;
    struct sl_sync_pages *pages; /* of the link's page, registered with `device`; NULL on host */
    bool ahead;              /* streams may wait for its frames */
    bool ahead_now;          /* so may the stream of the acquire that runs */
    bool wrong_device;             /* that stream is of another device: no frame is taken */
    uint32_t park_at_once;   /* for how many of the next frames a stream waits without polling them first */
    uint32_t park_next;      /* to what park_at_once is set the next time */
    uint64_t refused;        /* the frame for which no stream may wait after all: the CPU does */
    uint32_t parked;         /* streams that wait for its frames now; under the service lock */
    sl_word32 poisoned[SL_MAX_IDS]; /* 1: this slot's own word was poisoned; no stream may wait for it any more */
    struct sl_due due;       /* when its frames are ready */
    uint8_t taken_after[SL_MAX_IDS]; /* for each slot: the slot of the frame that was taken next, the last time */
    uint8_t last_slot;       /* the slot of the frame that was taken last */
    uint64_t awaited;           /* a frame in flight that acquire waits for, or any after it; */
    int64_t awaited_since_ns;   /* when the first of these was committed; */
    int64_t awaited_unready_ns; /* when it was last found not ready; */
    bool awaited_watched;       /* whether it was watched */
    bool reported_evicted, reported_closed; /* acquire has reported it */
    int64_t over_ns;         /* when acquire first noticed that the writer is gone */
    struct sl_slot_map maps[SL_MAX_IDS];
};

/* Tokens that no frame has. */
enum {
    SL_HELD_ENDING = 1, /* not a frame yet, or not any more */
    SL_HELD_QUEUED = 2, /* its release is queued on a stream: done when its word reads 0 */
    SL_HELD_DEFERRED = 3, /* its release is deferred until a capture on that stream ends */
};

/* A frame that the program holds. `token` is stored last and cleared first; in between the rest does not change, nor do
 * the session and the memory that it points to. Only the acquiring thread fills in entries and frees what they
 * point to, so sessions and memories need no reference counts: it looks through the entries. */
struct sl_held {
    sl_word token; /* 0: free; SL_HELD_*; else the frame's */
    struct sl_session *session;
    struct sl_link_memory *memory;
    char *address; /* of the slot, or of the copy */
    sl_word *word; /* stored 0 at its end: the lease, or a word of the copy's own */
    const struct sl_record *record;
    const void *meta;
    bool copied;   /* the lease is over, this is a copy */
    uint32_t slot;
    bool on_stream;              /* acquired for work on a stream: */
    struct sluice_stream taken_for; /* this one */
    struct sl_after deferred;    /* its deferred release, with that one's stream */
    struct sl_reader *reader; /* for `deferred` */
    uint64_t sequence;
    struct sl_span span; /* from acquire to release */
};

/* The descriptor that programs poll: poll_fd.c. */
struct sl_poll_fd {
    int epoll, note;       /* the descriptor, and our own eventfd in it; -1 until asked for */
    struct sl_watch watch; /* checks whether frames on a GPU are ready */
    sl_word want;          /* from this sequence on */
    /* The service thread's, as `awaited` of a session is acquire's. */
    uint64_t awaited;
    int64_t since_ns, unready_ns;
    uint32_t quick_checks; /* of it, in quick succession */
    int64_t rest_until_ns; /* the writer is gone: until then its device may finish frames */
    sl_word32 check_room;  /* 1: wake the program, so that acquire looks whether a queued release has made room */
    int64_t full_since_ns; /* acquire's: since when there has been none; 0: there is */
};

struct sl_reader {
    struct sluice_reader base;
    struct sluice_reader_params params; /* complete */
    char device[SL_DEVICE_NAME]; /* that was asked for; "": the channel's own */
    struct sl_join *join;        /* NULL once its device is lost */

    /* News: raised by the service thread, and by close. */
    sl_word32 attention; /* look under the service lock */
    sl_word32 bell;      /* futex of an acquire that has no link */
    sl_word32 closing;
    /* A link not used yet, and what becomes of it (session_open.c); service lock. */
    struct sl_link *next, *preparing; /* the latter: by the thread */
    struct sl_session *prepared;
    bool opened;   /* from then on a thread prepares them: */
    bool prepares; /* it runs */
    bool unfit;    /* it could do nothing with `next` */

    /* The acquiring thread's; `session` changes under the service lock. */
    struct sl_session *session;
    struct sl_session *old;
    bool moved;            /* sessions were of different devices */
    uint64_t last_session; /* of the last frame */
    uint64_t next_token;
    int64_t now; /* in acquire: the time, if it was read since the last wait; else 0 */
    int64_t probed_ns; /* when the driver was last asked about a release that is late */
    uint32_t last_entry;          /* of `held`: the one taken last */
    uint8_t entry_of[SL_MAX_IDS]; /* for each slot: the entry that its frame had last */
    int64_t settled_ns; /* when sl_release_settle_now_and_then last did its work, by the coarse clock */

    struct sl_held held[SLUICE_MAX_SLOTS];
    struct sl_room *rooms; /* buffers for copies, one for each entry; NULL until there are any */
    struct sl_due copy_due; /* when copies should be done */
    sl_word32 may_be_deferred; /* 1: a release may be */

    struct sl_poll_fd poll;

    sl_word32 unreported; /* lost frames that acquire has to report */
    sl_word taken, missed, lost, retries, sessions, latency_ns; /* statistics, relaxed */
    struct sl_timing timing;
};

static inline struct sl_reader *sl_reader_of(struct sluice_reader *base) { return (struct sl_reader *)base; }

/* ---- the backend's functions: channel/channel.h ---- */

int sl_native_reader_open(struct sluice_reader *base, const struct sluice_reader_params *params);
void sl_native_reader_stop(struct sluice_reader *base);
void sl_native_reader_stopped(struct sluice_reader *base);
int sl_native_acquire(struct sluice_reader *base, struct sluice_stream stream, int64_t timeout_ns, struct sluice_frame *frame);
int sl_native_release(struct sluice_reader *base, struct sluice_frame *frame, struct sluice_stream stream);
int sl_native_check(struct sluice_reader *base, const struct sluice_frame *frame);
int sl_native_reader_format(struct sluice_reader *base, struct sluice_format *format);
void sl_native_reader_device(struct sluice_reader *base, char name[SL_DEVICE_NAME]);
int sl_native_reader_fd(struct sluice_reader *base);
void sl_native_reader_stats(struct sluice_reader *base, struct sluice_reader_stats *stats);
int sl_native_reader_pin(struct sluice_reader *base, const struct sluice_frame *frame, sluice_pin **pin);
int sl_native_reader_view(struct sluice_reader *base, const struct sluice_frame *frame, struct sl_view *view);

/* ---- held.c ---- */

/* The entry of a frame that is held, or NULL with a message. */
struct sl_held *sl_held_find(struct sl_reader *reader, const struct sluice_frame *frame);

/* Has the writer evicted this reader? Comes after the program's reads of the frame. */
bool sl_held_is_evicted(const struct sl_link *link);

/* ---- session.c ---- */

/* Called by the wire, on the service thread. */
void sl_session_linked(void *context, struct sl_link *link);
void sl_session_changed(void *context, struct sl_link *link);

/* From now on acquire takes nothing, and no unread frame is kept for this reader. */
void sl_session_stop(struct sl_reader *reader);

/* Wakes all threads that sleep in a call, as there is news. Under the service lock. */
void sl_session_ring(struct sl_reader *reader);

/* Handles what the service thread has left in `attention`, if anything. On the acquiring thread. */
void sl_session_attend(struct sl_reader *reader);

/* Switches to the link that the service thread has brought, if any. SLUICE_NO_WRITER if none; a failure if its frames cannot
 * be used here, again at each call. */
int sl_session_switch(struct sl_reader *reader);

/* Switches to a new connection to the same session, once the frames that were kept for the old one have been taken. True if
 * it did. */
bool sl_session_rejoin(struct sl_reader *reader);

/* The memory of a slot, mapped; SLUICE_AGAIN while it has not come. */
int sl_session_map(struct sl_session *session, uint32_t slot, const struct sl_record *record,
                   struct sl_link_memory **memory);

/* Disconnects for good: this reader's device is lost, and with it all its work there. Wakes who waits or polls, as acquire says
 * so. */
void sl_session_fail(struct sl_reader *reader);

/* The writer is gone: frames that its device has not finished after a while are lost. True if that time is over
 * now, so that acquire may find later frames. */
bool sl_session_give_up(struct sl_reader *reader);

/* Until when frames of such a session may become ready, and which are not counts as lost then; 0: all is known by now. */
int64_t sl_session_rests_until(const struct sl_session *session, int64_t now);

/* Unmaps what the writer will not use again and nobody holds. */
void sl_session_prune(struct sl_reader *reader);

/* Ends sessions: all of them at the end of the reader, else old ones that hold nothing. */
void sl_session_reap(struct sl_reader *reader, bool all);

/* Ends one that is on no list; NULL is ended. */
void sl_session_end(struct sl_session *session);

/* ---- session_open.c ---- */

/* What frames of the link are used by here. May ask a driver: with no lock held. */
int sl_prepare(const struct sl_reader *reader, struct sl_link *link, struct sl_session **session);

/* Under the service lock, when a link has come: true if a thread prepares it, which rings when it has. */
bool sl_prepare_begin(struct sl_reader *reader);

/* Waits until it does so no more, 2 s at most. Once the reader closes. */
void sl_prepare_settle(struct sl_reader *reader);

/* ---- wait.c ---- */

/* Would acquire return at once? */
bool sl_wait_has_news(const struct sl_reader *reader);

/* When the next frame from `want` on was committed; `now` if that is not known. */
int64_t sl_wait_since(const struct sl_session *session, uint64_t want, int64_t now);

/* ---- release.c ---- */

/* Ends a lease now, and wakes a writer that waits for slots. */
void sl_release_lease(struct sl_session *session, uint32_t slot);

/* Frees entries whose queued release is done, and queues deferred releases. On the acquiring thread. */
void sl_release_settle(struct sl_reader *reader);

/* The same, but at most now and then, so that it costs nothing for each of many frames taken in a row. */
void sl_release_settle_now_and_then(struct sl_reader *reader);

/* Is any release queued or deferred? */
bool sl_release_queued(const struct sl_reader *reader);

/* Is any deferred? */
bool sl_release_deferred(const struct sl_reader *reader);

/* Waits until none is queued or deferred, up to a limit. True if none is. */
bool sl_release_drain(struct sl_reader *reader);

/* ---- peer_copy.c ---- */

/* Decides how frames get to this reader's device, by the session's `home` and `device`, and the reader's `staged`. */
int sl_staged_choose(const struct sl_reader *reader, struct sl_session *session);

/* Makes words for copies of as many frames as the reader may hold; none if frames are not copied. Once the device is
 * attached. */
int sl_staged_open(const struct sl_reader *reader, struct sl_session *session);
void sl_staged_close(struct sl_session *session);
/* At the reader's end, behind its sessions. */
void sl_staged_end(struct sl_reader *reader);

/* Copies the frame of an entry, and makes the entry one of the copy. SLUICE_E_LOST if that takes too long: then
 * the entry is SL_HELD_QUEUED until the copy ends. The lease is still the caller's to end. */
int sl_staged_copy(struct sl_reader *reader, struct sl_held *entry);

/* Is a copy still under way that was not waited for to the end? */
bool sl_staged_busy(const struct sl_reader *reader, const struct sl_held *entry);

/* The memory of a held copy, kept until sl_mem_drop. */
struct sl_mem_shared *sl_staged_pin(const struct sl_reader *reader, const struct sl_held *entry);

/* ---- poll_fd.c ---- */

/* Makes the descriptor tell whether acquire would wait. After each acquire, if it was asked for. */
void sl_poll_fd_update(struct sl_reader *reader);
/* Under the service lock. */
void sl_poll_fd_add(struct sl_reader *reader, struct sl_session *session);
void sl_poll_fd_remove(struct sl_reader *reader, struct sl_session *session);

#endif
