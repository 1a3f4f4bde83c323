/* SPDX-License-Identifier: MIT
 *
 * The memory of slots, which one process makes and others map. Each kind of memory is one file with one
 * table of functions; mem.c is the only file that lists all kinds.
 */
#ifndef SL_MEM_H
#define SL_MEM_H

#include <stdbool.h>
#include <stdint.h>

#include "util/atomic.h"

#define SL_MEM_HOST     1 /* numbers go over the wire */
#define SL_MEM_CUDA     2
#define SL_MEM_CUDA_IPC 3

struct sl_memory {
    const struct sl_mem_ops *ops;
    const char *device; /* on which it is made or for which it is mapped, e.g. "cuda:0"; not for `host` */
    const char *home;   /* the device that it lies on, if that is another one; NULL: it is `device` */
    void *state;        /* private to the kind */
    uint32_t driver;    /* if imported: its maker's driver version (sl_mem_driver); 0: not known */
    int fd;             /* which is sent to other processes; -1 once a reader has mapped it */
    uint64_t size;      /* bytes */
    void *address;      /* where it is mapped in this process, for `device`; NULL: not yet */
};

struct sl_mem_ops {
    const char *name;   /* the kind of device, e.g. "host"; several kinds of memory may share it */
    uint32_t kind;      /* SL_MEM_ */
    uint64_t alignment; /* sizes are multiples of it */
    /* Can it be made on `device`, such as "cuda:0"? 0, or SLUICE_E_UNSUPPORTED, saying what is missing. */
    int (*able)(const char *device);
    /* Makes zeroed memory of at least `size` bytes (memory->size says how many), mapped for writing in this
     * process; others may map it for reading, and for writing too if `writable`. */
    int (*create)(struct sl_memory *memory, const char *name, uint64_t size, bool writable);
    /* Checks a descriptor that came from another process and takes ownership of it, as memory->fd; maps nothing. On
     * failure the caller still owns the fd. */
    int (*import)(struct sl_memory *memory, int fd, uint64_t size, bool writable);
    /* Maps imported memory. On the caller's thread: mapping may need a driver. SLUICE_E_UNSUPPORTED if it
     * cannot be mapped, or not any more. */
    int (*map)(struct sl_memory *memory, bool writable);
    /* Unmaps and closes; accepts a memory that is only partly made. */
    void (*destroy)(struct sl_memory *memory);
    /* Can memory on the device `home` be mapped for `device`? 0; SLUICE_E_UNSUPPORTED with the reason;
     * SLUICE_NOT_READY: only `map` will tell. These three are NULL for a kind with only one device. */
    int (*reach)(const char *device, const char *home);
    /* Begins to copy `size` bytes at `offset` of mapped memory to the start of `to`. Both must stay mapped until
     * copy_look returns something other than SLUICE_NOT_READY. One thread at a time copies to a memory. */
    int (*copy_begin)(struct sl_memory *to, const struct sl_memory *from, uint64_t offset, uint64_t size);
    int (*copy_look)(struct sl_memory *to);
    uint32_t (*driver)(void); /* sl_mem_driver; NULL: it needs no driver */
};

/* The first member of a memory that is reference-counted, by whoever mapped it and by pins. */
struct sl_mem_shared {
    sl_word32 users;
    bool in_background; /* `end` may wait for GPU work, so it runs on another thread than the one that drops it last */
    void (*end)(struct sl_mem_shared *shared); /* unmaps and frees it */
};

void sl_mem_drop(struct sl_mem_shared *shared);

/* ops->create of a memory whose `ops` and `device` are set. What is being freed on other threads may be what is
 * missing, and must not pile up: it waits up to 2 s for that. */
int sl_mem_create(struct sl_memory *memory, const char *name, uint64_t size, bool writable);

/* The version of the driver that this process has loaded for such memory (13000: CUDA 13.0); 0: none yet, or it
 * needs none. Calls no driver. */
uint32_t sl_mem_driver(const struct sl_mem_ops *ops);

/* The table for SL_MEM_ number `kind`; NULL if there is none. */
const struct sl_mem_ops *sl_mem_of_kind(uint32_t kind);

/* Chooses the best kind of memory that can be made on `device`; `kind` is its kind of device ("host"). */
int sl_mem_choose(const char *kind, const char *device, const struct sl_mem_ops **ops);

#endif
