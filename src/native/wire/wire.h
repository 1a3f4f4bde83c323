/* SPDX-License-Identifier: MIT
 *
 * Between the two ends of a channel: the bytes in shared memory, and the messages that connect two processes. The
 * writer and the reader access the shared words through pointers (struct sl_words, struct sl_page), and do not know
 * where they lie.
 */
#ifndef SL_NATIVE_WIRE_WIRE_H
#define SL_NATIVE_WIRE_WIRE_H

#include <sluice/registry.h>
#include <sluice/sluice.h>

#include "format/format.h"
#include "mem/mem.h"
#include "os/os.h"
#include "util/atomic.h"

/* Slot numbers of a session: of the slots of this generation, and of older generations that are still read. */
#define SL_MAX_IDS 128

/* ---- shared words ---- */

/* The writer's words; read-only to readers. */
struct sl_words {
    sl_word *head;          /* newest frame: sequence and slot, see sl_head_* */
    sl_word *slot_seq;      /* [ids] sequence of the slot's frame, SL_MARK, or 0 */
    sl_word *ready;         /* [ids] timeline: sequence of the last frame finished there */
    sl_word32 *slot_memory; /* [ids] number of the memory that the slot lies in now; 0: none */
    uint32_t ids;
};

#define SL_MARK          (UINT64_C(1) << 63) /* in slot_seq: being rewritten */
#define SL_LAST_SEQUENCE ((UINT64_C(1) << 56) - 1)

static inline uint64_t sl_head_pack(uint64_t sequence, uint32_t slot)
{
    return sequence << 8 | slot;
}
static inline uint64_t sl_head_sequence(uint64_t head)
{
    return head >> 8;
}
static inline uint32_t sl_head_slot(uint64_t head)
{
    return (uint32_t)(head & 0xff);
}

/* How frames get to a reader. */
enum sl_path {
    SL_PATH_MAPPED,          /* mapped, on the channel's device */
    SL_PATH_PEER,            /* mapped, for another GPU */
    SL_PATH_COPIED,          /* copied, to another GPU that cannot map them */
    SL_PATH_COPIED_AS_ASKED, /* copied, to another GPU that could map them (SLUICE_STAGED_ALWAYS) */
};

/* One reader's own page, shared between that reader and the writer alone. */
struct sl_page {
    sl_word *lease;     /* [ids] sequence held, or 0; stored by the reader */
    sl_word *lease_ns;  /* [ids] since when, by the writer's clock */
    sl_word *cursor;    /* in order: the first sequence still needed; stored by the reader */
    sl_word *want;      /* the reader sleeps until this sequence is published; 0: awake. Cleared by the writer */
    sl_word *want_fd;   /* the same for the wake socket */
    sl_word32 *bell;    /* futex: rung by the writer and by the reader's own service thread */
    sl_word32 *evicted; /* 1: the writer lives, but ignores this reader's leases from now on */
    /* For a reader whose streams wait ahead: the words that they wait for. The writer's GPU raises them for frames from
     * `semaphores_from` on (0: for none); the writer stores that before it publishes them. Only the reader may poison
     * them. */
    sl_word *semaphores; /* [ids] */
    sl_word *semaphores_from;
    sl_word *semaphores_to;   /* the last frame for which the reader wants that; stored by the reader */
    sl_word *waiting_streams; /* streams that wait now; for observers, stored by the reader */
    sl_word *path;            /* enum sl_path; for observers, stored by the reader */
    sl_word *gpu;             /* [2] the UUID of the GPU on which it uses them; zeros: host */
    /* For observers; stored by the reader. */
    sl_word *taken, *missed, *last, *latency_ns, *latency_total_ns, *latency_max_ns, *lease_mean_ns;
};

/* A slot's header: written between begin and commit, read under a lease. */
struct sl_record {
    uint64_t sequence;
    uint32_t generation;
    uint32_t memory; /* number of the memory object */
    uint64_t offset; /* of the slot in it */
    uint64_t mirror; /* offset in the host mirror; reserved, 0 */
    int64_t capture_ns;
    int64_t commit_ns;
    uint64_t dropped; /* frames that the writer had dropped by then */
    uint32_t capture_clock;
    uint32_t meta_size;
    uint32_t array_count;
    uint32_t flags; /* reserved, 0 */
    uint64_t reserved[6];
    struct sl_geometry arrays[SLUICE_MAX_ARRAYS];
};

/* ---- the writer's side ---- */

/* A reader's page in the writer: mapped while the reader is connected, and while the writer uses it. If the reader
 * waits ahead on its GPU the writer registers the page with the writer's device (SL_PAGE_REGISTERED); its last user
 * undoes that before it is unmapped. */
enum { SL_PAGE_UNKNOWN, SL_PAGE_REGISTERED, SL_PAGE_REFUSED };
struct sl_sync_pages;
struct sl_shared_page {
    struct sl_page words;
    void *address;
    uint64_t bytes;
    sl_word32 users;
    sl_word32 state;                  /* SL_PAGE_; stored last */
    struct sl_sync_pages *registered; /* with the writer's device */
    void (*unregister)(
        struct sl_sync_pages *registered); /* may wait for work of the program's; NULL: it is not registered */
};
void sl_shared_page_drop(struct sl_shared_page *page);

#define SL_SEMAPHORES_AT_FIRST \
    64 /* frames for which a reader that waits ahead need not ask: its semaphores_to says so as it joins */

/* One reader, as begin and commit see it. */
struct sl_reader_slot {
    struct sl_page page;
    uint32_t mode; /* enum sluice_mode */
    uint32_t depth;
    int wake_fd; /* for want_fd */
    bool ahead;  /* it waits on its GPU */
    struct sl_shared_page *shared;
    struct sl_peer *peer;
};

struct sl_serve_params {
    const char *name;
    const struct sluice_writer_params *writer; /* complete: no defaults left */
    const char *device;                        /* as the writer calls it */
    const unsigned char *uuid;                 /* which it is, whatever it is called elsewhere */
    uint32_t memory_kind;                      /* SL_MEM_ */
    uint64_t session;
    uint32_t ids;
    /* Under the service lock and the channel lock. Fills in what only the writer knows. */
    void (*describe)(void *context, struct sluice_channel_info *info);
    /* Under the service lock: a reader that waits ahead has joined. Its WELCOME is sent when the state of its page is
     * known, or a moment later. */
    void (*joined_ahead)(void *context, struct sl_shared_page *page);
    void *context;
};

/* What the writer uses of it; serve.c has the rest. */
struct sl_serve {
    struct sl_words words;
    void *pages; /* that the words lie in, whole */
    uint64_t page_bytes;
    sl_word32 *waiting; /* in the control page: begin waits for a slot */
    sl_word32 freed;    /* private futex: a slot may have come free */
    /* The channel lock (protocol 1.6): joins, departures, generations and the choice of a slot. The
     * service lock may be held when it is taken, never the other way round. Nothing blocks under it. */
    sl_mutex lock;
    struct sl_reader_slot readers[SLUICE_MAX_READERS]; /* the table, under `lock` */
    uint32_t reader_count;
    sl_word32 ahead_changed; /* readers that wait ahead came or left, or their pages are known now */
    uint64_t readers_total, readers_died, evicted, refused;
    uint32_t name_restored;   /* how often the channel's name was put back; under the service lock, as the next two */
    int64_t name_restored_ns; /* when it was last */
    bool name_lost;           /* it could not be put back yet: new readers do not find the channel */
    int64_t lingers_ns;       /* how long a dead reader's GPU work may still run; set before there are readers */
    bool previous_died;       /* the name's last writer died: its memory may not have been freed by the system yet */
};

/* A generation's memory object, to be announced before a frame in it is published. */
struct sl_announce {
    uint32_t memory; /* 1, 2, ... in a session */
    uint32_t generation;
    const struct sluice_format *format;
    const struct sl_memory *object;
};

struct sl_totals {
    uint64_t committed, dropped, stolen, bytes;
};

/* ---- the reader's side ---- */

struct sl_link_memory {
    struct sl_mem_shared shared; /* by the link, and each pin */
    struct sl_link_memory *next;
    sl_word32 held; /* 1: the reader is mapping it */
    uint32_t memory, generation;
    struct sl_memory object;
    struct sluice_format format;
};

/* One connection to one session of a channel. Made and fed by the wire on the service thread, used by
 * the reader's calls. */
struct sl_link {
    struct sl_words words;
    const sl_word32 *closed; /* in the control page: the writer has closed the channel */
    const sl_word32 *waiting;
    const sl_word32 *oldest_memory; /* memories below it are never used again */
    struct sl_page page;
    void *pages; /* that the page's words lie in, whole */
    uint64_t page_bytes;
    uint32_t memory_kind;   /* SL_MEM_, of all its memories */
    unsigned char uuid[16]; /* of the device that they lie on; zeros: host */
    int wake_fd;            /* readable after want_fd; writable to wake a waiting begin */
    uint64_t session;
    int64_t clock_offset_ns;         /* the writer's clock less ours, 0 unless over 1 s */
    uint32_t depth;                  /* granted */
    uint32_t most;                   /* frames that a reader may hold at once */
    bool writable;                   /* frames may be written */
    bool awaited;                    /* the reader waited for a writer when the session began */
    sl_word32 gone;                  /* 1: the writer died or closed; what is ready stays readable */
    struct sl_link_memory *memories; /* newest first; under the service lock */
    sl_word32 memory_count;          /* raised by the service thread when one was added */
};

/* A reader's standing request to be connected: looks for the channel's writer again and again. */
struct sl_join_params {
    const char *name;
    const struct sluice_reader_params *reader; /* complete */
    /* All under the service lock, on the service thread. */
    void (*linked)(void *context, struct sl_link *link);  /* the core owns the link now */
    void (*changed)(void *context, struct sl_link *link); /* gone, or a memory came; NULL: an attempt failed */
    void *context;
};

struct sl_join {
    int result;        /* of the last attempt: 0, E_NOT_FOUND, E_PERMISSION, E_VERSION, ... */
    uint32_t attempts; /* that have ended */
    char text[512];    /* the message of `result` */
    int64_t answer_by; /* a writer has received our hello, and may count us among its readers: until when the handshake
                          may take; 0: no writer has received it */
};

/* Has the writer freed this memory? It is in use while a slot is in it, or before one is: numbers
 * grow, so it is no longer needed once a slot is in a later one. */
bool sl_link_forgot(const struct sl_link *link, uint32_t memory);

/* ---- serve.c: the writer's calls ---- */

/* Claims the name, makes the control page, and begins to answer connections. */
int sl_serve_open(const struct sl_serve_params *params, struct sl_serve **serve);
struct sl_record *sl_serve_record(struct sl_serve *serve, uint32_t slot);
void *sl_serve_meta(struct sl_serve *serve, uint32_t slot);
/* Sends a memory to all readers, also to those that join later. The object must live until forget. Takes the service
 * lock. */
int sl_serve_announce(struct sl_serve *serve, const struct sl_announce *announce);
void sl_serve_forget(struct sl_serve *serve, uint32_t memory);
/* After a frame was published, under the channel lock: wakes the readers that sleep until it comes. */
void sl_serve_wake(struct sl_serve *serve, uint64_t sequence);
void sl_serve_totals(struct sl_serve *serve, const struct sl_totals *totals);
/* Writes as text which readers hold which slots, for how long; under the channel lock. */
void sl_serve_holders(struct sl_serve *serve, char *text, size_t size);
/* Evicts readers that hold more frames than they were granted, and those that have held a lease for longer than this
 * (0: no limit). Returns how many. On the writer's thread. */
uint32_t sl_serve_evict(struct sl_serve *serve, int64_t lease_timeout_ns);
/* Sends readers a goodbye, and releases the name. `destroy` then frees the rest, which unmaps the words. */
void sl_serve_close(struct sl_serve *serve);
void sl_serve_destroy(struct sl_serve *serve);

/* ---- join.c, link.c: the reader's calls ---- */

/* Starts looking for the channel. Under the service lock. */
int sl_join_open(const struct sl_join_params *params, struct sl_join **join);
/* Under the service lock; its links stay. Without a goodbye the writer waits until its leases have ended. */
void sl_join_close(struct sl_join *join, bool goodbye);
const struct sl_record *sl_link_record(struct sl_link *link, uint32_t slot);
const void *sl_link_meta(struct sl_link *link, uint32_t slot);
void sl_link_close(struct sl_link *link); /* under the service lock; once nothing is held */

/* ---- info.c, wire.c ---- */

int sl_native_info(const char *name, int64_t timeout_ns, struct sluice_channel_info *info,
                   struct sluice_reader_info *readers, uint32_t capacity);

/* SLUICE_E_NAME, with a message, for a name that no channel can have. */
int sl_native_check_name(const char *name);

#endif
