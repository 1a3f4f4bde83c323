/* SPDX-License-Identifier: MIT
 *
 * Which channels exist, and what state they are in. Observers hold no lease and cost a writer nothing
 * per frame: its service thread answers them.
 */
#ifndef SLUICE_REGISTRY_H
#define SLUICE_REGISTRY_H

#include <sluice/base.h>
#include <sluice/format.h>
#include <sluice/writer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The folder of this process's channels: SLUICE_DIR, else $XDG_RUNTIME_DIR/sluice, else
 * /tmp/sluice-UID. Never NULL; valid until the next call on this thread.
 * Thread: any. */
SLUICE_API const char *sluice_registry_folder(void);

struct sluice_registry_entry {
    char name[SLUICE_MAX_NAME + 1];
    uint8_t live; /* 1: there is a writer; 0: it died, and the name is free */
    uint8_t reserved[6];
    uint32_t uid; /* owner of the socket */
    uint32_t pid; /* of the writer as it saw itself; 0 if not known */
};

/* Lists the channels of a folder (NULL: the one above), sorted by name. Up to `capacity` entries are
 * written; *count is the number of channels. Removes nothing.
 * Thread: any. Blocks: briefly, for connecting.
 * Returns: 0 (also for a folder that does not exist: no channels); SLUICE_E_PERMISSION. */
SLUICE_API int sluice_registry_list(const char *folder, struct sluice_registry_entry *entries, size_t capacity,
                                    size_t *count);

typedef struct sluice_watch sluice_watch;

/* Watches a folder (NULL: the default one, which is created if it is missing) for channels that appear and disappear.
 * If the folder itself is removed or replaced, the watch goes on with the one that has its path then.
 * Owns: the caller, until sluice_registry_watch_close.
 * Thread: any.
 * Returns: 0; SLUICE_E_NOT_FOUND, SLUICE_E_PERMISSION for the folder; SLUICE_E_NO_DESCRIPTORS;
 * SLUICE_E_NO_MEMORY. */
SLUICE_API int sluice_registry_watch_open(sluice_watch **watch, const char *folder);

/* A descriptor that is readable when something changed since the last sluice_registry_watch_next; for poll,
 * epoll, select. Do not read from it.
 * Owns: the watch.
 * Thread: one at a time on a watch.
 * Returns: the descriptor. */
SLUICE_API int sluice_registry_watch_fd(sluice_watch *watch);

/* Waits until a channel came or went since the last call.
 * Thread: one at a time on a watch. Blocks: up to timeout_ns (SLUICE_DEFAULT: 1 s).
 * Returns: 0: list again; SLUICE_TIMEOUT. */
SLUICE_API int sluice_registry_watch_next(sluice_watch *watch, int64_t timeout_ns);

/* Ends the watch. Clears the handle.
 * Thread: one at a time on a watch.
 * Returns: 0. */
SLUICE_API int sluice_registry_watch_close(sluice_watch **watch);

/* One reader, as its writer sees it. */
struct sluice_reader_info {
    uint32_t pid, uid;
    char program[32];
    uint32_t mode; /* enum sluice_mode */
    uint32_t depth, hold, every;
    uint32_t writable;
    uint32_t held;       /* leases now */
    uint64_t held_slots; /* a bit for each of the slots 0 to 63 that it holds */
    int64_t held_ns;     /* age of its oldest lease */
    uint64_t taken, missed, lag;
    uint64_t latency_ns;       /* commit to acquire, of the last frame */
    int64_t joined_ns;         /* CLOCK_MONOTONIC */
    char path[32];             /* how frames reach it: "mapped"; on another GPU "mapped by GPU-..." or
                                  "copied to GPU-...", with the beginning of that GPU's UUID */
    char copy_reason[96];      /* why anything is copied; empty: nothing is */
    uint64_t latency_total_ns; /* commit to acquire, the sum over all frames taken: its increase between two
                                  queries, divided by the increase of `taken`, is the average */
    uint64_t latency_max_ns;   /* the longest in the last one to two seconds in which frames were taken */
    uint64_t lease_mean_ns;    /* acquire to release, of the last few leases; at most one in 10 ms is timed */
    uint32_t ahead;            /* 1: it may take frames ahead of their readiness, by a wait on its GPU */
    uint32_t parked;           /* how many of its streams wait like that now */
};

/* How a channel's frames are shared. */
enum sluice_memory {
    SLUICE_MEMORY_UNKNOWN = 0,
    SLUICE_MEMORY_HOST = 1,
    SLUICE_MEMORY_CUDA = 2,     /* on a GPU, passed as descriptors and mapped read-only */
    SLUICE_MEMORY_CUDA_IPC = 3, /* on a GPU, opened by CUDA IPC handles: readers' kernels could write to it, and it ends
                                   with its writer */
};

struct sluice_channel_info {
    uint32_t size;
    uint32_t pid, uid;
    uint32_t wire_version;
    char name[SLUICE_MAX_NAME + 1];
    char folder[192];
    char program[32];
    char device[32]; /* where its frames are, as its writer calls it: "host", "cuda:0" */
    uint64_t session;
    uint32_t generation, slots, max_slots, policy, readers, max_readers;
    uint32_t writable; /* 1: readers may ask for writable frames; nothing protects others from these */
    uint32_t memory;   /* enum sluice_memory */
    uint64_t committed, dropped, stolen, bytes, evicted, died, refused;
    int64_t opened_ns, last_commit_ns, now_ns; /* CLOCK_MONOTONIC of the writer's machine */
    struct sluice_format format;
    uint8_t device_uuid[16];  /* which GPU that is; zeros on host */
    uint64_t name_restored;   /* how often its socket, lock or folder was removed, and the writer put it back */
    int64_t name_restored_ns; /* when it last did; 0: never */
};

/* Asks a channel's writer. Up to `capacity` readers are written (NULL and 0 for none); info->readers
 * says how many there are. Set info->size first.
 * Thread: any. Blocks: up to timeout_ns (SLUICE_DEFAULT: 1 s).
 * Returns: 0; SLUICE_E_NOT_FOUND; SLUICE_TIMEOUT if the writer does not answer (it is stopped). */
SLUICE_API int sluice_channel_info(const char *name, int64_t timeout_ns, struct sluice_channel_info *info,
                                   struct sluice_reader_info *readers, uint32_t capacity);

#ifdef __cplusplus
}
#endif
#endif
