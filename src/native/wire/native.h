/* SPDX-License-Identifier: MIT
 *
 * Internals of the native wire: the writer's side (serve.c, name.c, peer*.c, admit.c, liveness.c), the reader's side
 * (join.c, link.c), observers (info.c), and the folder of channels (channel_dir.c).
 */
#ifndef SL_NATIVE_WIRE_NATIVE_H
#define SL_NATIVE_WIRE_NATIVE_H

#include "native/wire/message.h"

/* ---- channel_dir.c: a channel's files ---- */

#define SL_OTHER_FOLDERS 3

struct sl_channel_dir {
    char folder[256];
    bool ours; /* one of the standard folders */
    int fd;
    char others[SL_OTHER_FOLDERS][256]; /* the other standard folders */
    int other_count;
};

/* Finds the folder of this process's channels; reads the environment. */
int sl_channel_dir_find(struct sl_channel_dir *dir);

/* The same, and opens it. */
int sl_channel_dir_open(struct sl_channel_dir *dir, bool create, bool others);

/* Makes one that was found, if it is not there. */
int sl_channel_dir_make(const struct sl_channel_dir *dir);
void sl_channel_dir_close(struct sl_channel_dir *dir);

/* Connects to a channel in a folder that was found; SLUICE_E_NOT_FOUND names the folder, and any other one that
 * has the channel. */
int sl_channel_dir_connect(const struct sl_channel_dir *dir, const char *name, int *fd);

/* The words of a reader's page, for both sides. */
static inline struct sl_page sl_page_words(struct sl_reader_page *page)
{
    return (struct sl_page){
        .lease = page->lease,
        .lease_ns = page->lease_ns,
        .cursor = &page->cursor,
        .want = &page->want,
        .want_fd = &page->want_fd,
        .bell = &page->bell,
        .evicted = &page->evicted,
        .semaphores = page->semaphores,
        .semaphores_from = &page->semaphores_from,
        .semaphores_to = &page->semaphores_to,
        .waiting_streams = &page->waiting_streams,
        .path = &page->path,
        .gpu = page->gpu,
        .taken = &page->taken,
        .missed = &page->missed,
        .last = &page->last,
        .latency_ns = &page->latency_ns,
        .latency_total_ns = &page->latency_total_ns,
        .latency_max_ns = &page->latency_max_ns,
        .lease_mean_ns = &page->lease_mean_ns,
    };
}

/* A slot's record in a control page; its metadata is at offset SL_NATIVE_META_OFFSET from it. */
static inline char *sl_record_address(struct sl_control *control, uint32_t slot)
{
    return (char *)control + sizeof *control + (size_t)slot * SL_NATIVE_STRIDE;
}

/* ---- the writer's side ---- */

struct sl_native_memory {
    struct sl_announce announce;
    struct sluice_format format;
};

#define SL_MAX_MEMORIES   256 /* at the same time: one for each generation and each added slot */
#define SL_MAX_NONREADERS 32  /* connections that are not readers: observers, and those that have not sent HELLO */

struct sl_native_serve {
    struct sl_serve base;
    char name[SLUICE_MAX_NAME + 1];
    char device[32];
    struct sl_serve_params params; /* its `writer` points to the copy below; `name`, `device`, `uuid` are not used */
    struct sluice_writer_params writer;
    uint32_t *uids, *gids;
    struct sl_channel_dir dir;
    int lock_fd;
    struct sl_watch claim, listener, checks; /* see name.c */
    struct sl_os_file lock_file, socket_file;
    char name_trouble[256]; /* why the name could not be put back; reported */
    struct sl_control *control;
    uint64_t control_size;
    int control_fd;
    int64_t opened_ns;
    struct sl_native_memory *memories[SL_MAX_MEMORIES]; /* by number, ascending; under the service lock */
    uint32_t memory_count;
    struct sl_peer *peers; /* all connections; under the service lock */
    uint32_t nonreader_count;
};

enum sl_peer_state { SL_PEER_NEW, SL_PEER_WELCOME, SL_PEER_LIVE, SL_PEER_OBSERVER, SL_PEER_HUNG_UP };

/* One connection to the writer. */
struct sl_peer {
    struct sl_peer *next;
    struct sl_native_serve *serve;
    enum sl_peer_state state;
    struct sl_watch socket, process, wake;
    struct sl_peer_identity identity;
    struct sl_msg_hello hello;
    struct sl_reader_page *page;
    struct sl_shared_page *shared; /* the memory of `page` */
    int page_fd, wake_end;         /* until the welcome is sent */
    uint32_t table_index;          /* in the table of readers; SLUICE_MAX_READERS: not in it */
    uint32_t depth;
    uint32_t next_memory;           /* the lowest number of the memories still to be sent */
    uint32_t unacknowledged_memory; /* the number of the memory that was sent last; 0: it was acknowledged */
    bool has_memory;                /* it has acknowledged one */
    bool driver_logged;             /* that its driver version differs */
    bool accepts_nothing;           /* it has shut down its end of the socket for reading */
    bool process_ended;
    int64_t wake_closed_ns; /* when its end of the wake socket was closed; 0: it is open */
    int64_t joined_ns;
    /* When each lease was first seen, for readers that do not report it; under the channel lock. */
    struct {
        uint64_t sequence;
        int64_t since_ns;
    } seen[SL_MAX_IDS];
};

#define SL_PEER_OF(watch, member) ((struct sl_peer *)((char *)(watch)-offsetof(struct sl_peer, member)))

static inline bool sl_peer_is_reader(const struct sl_peer *peer)
{
    return peer->hello.role == SL_ROLE_READER && peer->page;
}

/* ---- name.c: a channel's name ---- */

/* Takes the name; SLUICE_E_EXISTS says which process has it. Blocks: up to a second, while a previous owner is dying.
 */
int sl_name_take(struct sl_native_serve *serve);

/* From now on readers can connect, and the name is put back when something removes it. Under the service lock. */
int sl_name_listen(struct sl_native_serve *serve);

/* Gives the name up; does nothing for one that was not taken. Under the service lock. */
void sl_name_release(struct sl_native_serve *serve);

/* ---- peer.c ---- */

/* Serves a new connection; owns the descriptor. */
int sl_peer_open(struct sl_native_serve *serve, int fd);

/* ---- admit.c ---- */

/* Checks a HELLO: is the peer allowed, and is there room for what it requests? */
int sl_admit_check(const struct sl_peer *peer);

/* How many unread frames are kept for it. */
uint32_t sl_admit_depth(const struct sl_peer *peer);
uint32_t sl_admit_hold(const struct sl_peer *peer);

/* When the table is full: a reader that need not be waited for, as it has hung up, or has never accepted a memory; or
 * NULL. */
struct sl_peer *sl_admit_find_replaceable_reader(struct sl_native_serve *serve);

/* When there are too many other connections: the one to end. */
struct sl_peer *sl_admit_find_replaceable_nonreader(struct sl_native_serve *serve);

/* ---- liveness.c ---- */

/* The connection has ended: removes the peer, now or later. */
void sl_liveness_hung_up(struct sl_peer *peer);

/* The same for its process. */
void sl_liveness_process_ended(struct sl_peer *peer);

/* Checks again whether a reader that is gone can be removed. */
void sl_liveness_timer(struct sl_peer *peer);

/* Removes a dead reader. */
void sl_liveness_remove(struct sl_peer *peer, const char *how);

/* May its leases be ended although its work may not be done? For GPU memory only if it has no leases. */
bool sl_liveness_may_end_leases(struct sl_peer *peer);

/* How many connections of its process have ended but are still in the table. */
uint32_t sl_liveness_count_hung_up(const struct sl_peer *peer);

/* ---- peer_send.c ---- */

/* Sends the messages that may be sent now. */
void sl_peer_send_pending(struct sl_peer *peer);

/* Sends all memories, acknowledged or not. */
void sl_peer_send_all_memories(struct sl_peer *peer);

/* ---- peer_close.c ---- */

/* Removes it from the table and frees it. `reason`: enum sl_bye to send first; 0: none. */
void sl_peer_close(struct sl_peer *peer, uint32_t reason);

void sl_peer_log_departure(const struct sl_peer *peer, const char *how);

/* ---- reader_page.c ---- */

int sl_reader_page_make(struct sl_peer *peer);

/* ---- reader_table.c ---- */

static inline bool sl_reader_table_has(const struct sl_peer *peer)
{
    return peer->table_index < SLUICE_MAX_READERS;
}
void sl_reader_table_add(struct sl_peer *peer);
void sl_reader_table_remove(struct sl_peer *peer);

/* From now on no unread frames are kept for it, only those that it holds. */
void sl_reader_table_keep_leased_only(struct sl_peer *peer);

/* A slot may have become free: wakes a begin that waits for one. */
void sl_reader_table_wake_begin(struct sl_serve *serve);

/* ---- status.c, hold_check.c ---- */

/* Answers an observer. */
int sl_status_send(struct sl_native_serve *serve, int fd);
/* Frames committed after the one this reader took last. */
uint64_t sl_peer_lag(const struct sl_peer *peer);
/* Does it hold more than it was granted? Counts all lease words that are not 0, whatever their value. On the
 * writer's own thread, under the channel lock. */
bool sl_peer_overdraws(const struct sl_peer *peer);
/* Its leases: their number, bits for the first 64 slots, age of the oldest. Stale lease words count too,
 * since they keep a slot number in use. Under the channel lock. */
uint32_t sl_peer_held(struct sl_peer *peer, uint64_t *slots, int64_t *age_ns);

/* ---- the reader's side ---- */

struct sl_native_link {
    struct sl_link base;
    struct sl_control *control; /* mapped read-only */
    uint64_t control_size;
    struct sl_reader_page *page;
    uint32_t last_memory;
};

/* Makes a link from a WELCOME and its descriptors, which it owns from now on, even on failure. */
int sl_native_link_open(const struct sl_msg_welcome *welcome, int64_t hello_ns, int *fds, int fd_count,
                        struct sl_native_link **link);
/* Adds the memory of a MEMORY message; owns the descriptor only on success. */
int sl_native_link_add(struct sl_native_link *link, const struct sl_msg_memory *message, int fd);
void sl_hello_fill(struct sl_msg_hello *hello, uint32_t role);

#endif
