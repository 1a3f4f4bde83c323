/* SPDX-License-Identifier: MIT
 *
 * A reader's sessions, one for each writer that the channel has had, or each connection to it: opened by
 * session_open.c, switched to by session.c, ended by session_end.c. slot_map.c maps their memories.
 */
#ifndef SL_NATIVE_READER_SESSION_H
#define SL_NATIVE_READER_SESSION_H

#include "device/device.h"
#include "native/protocol/lease.h"
#include "native/reader/completion_estimate.h"
#include "native/wire/wire.h"
#include "sync/sync.h"

struct sl_reader;

/* Where a slot's memory is mapped. */
struct sl_slot_map {
    struct sl_link_memory *memory;
    uint32_t number; /* of the memory; 0: nothing cached */
};

/* Whether a stream waits on its GPU for a frame that is not ready (a reader's option `ahead`). */
struct sl_session_ahead {
    bool allowed;           /* streams may wait for this session's frames */
    bool on_stream;         /* so may the stream of the acquire that runs */
    uint32_t polls_to_skip; /* for how many of the next frames a stream waits without polling them first */
    uint32_t backoff;       /* to what polls_to_skip is set the next time */
    uint64_t refused;       /* the frame for which no stream may wait after all: the CPU does */
};

/* The frame in flight that acquire waits for. */
struct sl_session_awaited {
    uint64_t sequence;  /* from this one on */
    int64_t since_ns;   /* when it was committed */
    int64_t unready_ns; /* when it was last found not ready */
    bool watched;       /* it was polled without a pause */
};

struct sl_session {
    struct sl_session *next; /* in the reader's list of old ones, which still hold frames */
    struct sl_link *link;
    struct sl_lease lease;
    uint64_t dropped, skipped;      /* as of the last frame */
    uint32_t generation;            /* of the last frame; 0: none yet */
    uint32_t oldest_memory;         /* memories below it are unmapped */
    uint32_t memory_count;          /* of the link, when that was done last */
    char device[SL_DEVICE_NAME];    /* on which frames are used here */
    char owner[SL_DEVICE_NAME];     /* on which slots lie */
    bool remote;                    /* `owner` is another device than `device` */
    bool peer_mapped;               /* slots are mapped for `device` */
    struct sl_peer_copy *peer_copy; /* frames are copied; NULL: they are not */
    const struct sl_sync_ops *sync;
    struct sl_sync_pages *pages; /* of the link's page, registered with `device`; NULL on host */
    struct sl_session_ahead ahead;
    bool wrong_device;              /* the stream of the acquire that runs is of another device: no frame is taken */
    uint32_t waiting;               /* streams that wait for its frames now; under the service lock */
    sl_word32 poisoned[SL_MAX_IDS]; /* 1: this slot's semaphore was poisoned; no stream may wait for it any more */
    struct sl_completion_estimate estimate; /* of its frames */
    struct sl_session_awaited awaited;
    uint8_t next_slot[SL_MAX_IDS]; /* for each slot: the slot of the frame that was taken next, the last time */
    uint8_t last_slot;             /* the slot of the frame that was taken last */
    bool reported_evicted, reported_closed; /* acquire has reported it */
    int64_t gone_ns;                        /* when acquire first noticed that the writer is gone */
    struct sl_slot_map maps[SL_MAX_IDS];
};

/* ---- session.c ---- */

/* Called by the wire, on the service thread. */
void sl_session_linked(void *context, struct sl_link *link);
void sl_session_changed(void *context, struct sl_link *link);

/* From now on acquire takes nothing, and no unread frame is kept for this reader. */
void sl_session_stop(struct sl_reader *reader);

/* Handles what the service thread has left in `attention`, if anything. On the acquiring thread. */
void sl_session_handle_news(struct sl_reader *reader);

/* Switches to the link that the service thread has brought, if any. SLUICE_NO_WRITER if none; a failure if its frames
 * cannot be used here, again at each call. */
int sl_session_switch(struct sl_reader *reader);

/* Switches to a new connection to the same session, once the frames that were kept for the old one have been taken.
 * True if it did. */
bool sl_session_rejoin(struct sl_reader *reader);

/* The writer is gone: frames that its device has not finished after a while are lost. True if that time is over
 * now, so that acquire may find later frames. */
bool sl_session_give_up(struct sl_reader *reader);

/* ---- session_open.c ---- */

/* Makes a session of a link, for the device on which its frames are used here. May call a driver: with no lock held. */
int sl_session_open(const struct sl_reader *reader, struct sl_link *link, struct sl_session **session);

/* A link has come: true if a thread opens the session, and wakes acquire when it has. Under the service lock. */
bool sl_session_open_begin(struct sl_reader *reader);

/* The reader closes: waits until that thread has ended, 2 s at most. */
void sl_session_open_wait(struct sl_reader *reader);

/* ---- session_end.c ---- */

/* Ends one that is on no list; NULL is ended. */
void sl_session_end(struct sl_session *session);

/* Ends old sessions that hold no frame. */
void sl_session_end_idle(struct sl_reader *reader);

/* The reader ends: so do all its sessions. */
void sl_session_end_all(struct sl_reader *reader);

/* ---- slot_map.c ---- */

/* The memory of a slot, mapped; SLUICE_AGAIN while it has not come. */
int sl_slot_map_get(struct sl_session *session, uint32_t slot, const struct sl_record *record,
                    struct sl_link_memory **memory);

/* Unmaps what the writer will not use again and nobody holds. */
void sl_slot_map_prune(struct sl_reader *reader);

/* Unmaps all memories of a session that ends. With no lock held. */
void sl_slot_map_free(struct sl_session *session);

#endif
