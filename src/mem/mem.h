/* SPDX-License-Identifier: MIT
 *
 * Where slots lie: memory that one process makes and others map. A kind of memory is one file with one
 * table; mem.c is the only file that knows them all.
 */
#ifndef SL_MEM_H
#define SL_MEM_H

#include <stdbool.h>
#include <stdint.h>

#include "util/atomic.h"

#define SL_MEM_HOST 1 /* numbers go over the wire */
#define SL_MEM_CUDA 2
#define SL_MEM_CUDA_IPC 3

struct sl_memory {
    const struct sl_mem_ops *ops;
    const char *device; /* where it shall lie or be mapped, e.g. "cuda:0"; not for `host` */
    const char *home;   /* the device that it lies on, where that is another one; NULL: it is the same */
    void *state;        /* the kind's own */
    uint32_t driver;    /* of an imported one: version of its maker's driver (sl_mem_driver); 0: not known */
    int fd;             /* what is handed to others; -1 once a reader has mapped it */
    uint64_t size;      /* bytes */
    void *address;      /* where it is mapped here, for that device; NULL: not yet */
};

struct sl_mem_ops {
    const char *name;   /* the kind of device: "host"; several kinds of memory may have the same */
    uint32_t kind;      /* SL_MEM_ */
    uint64_t alignment; /* sizes are multiples of it */
    /* Can it be made on `device`, such as "cuda:0"? 0, or SLUICE_E_UNSUPPORTED with what is missing. */
    int (*able)(const char *device);
    /* Makes zeroed memory of memory->size bytes, which may be more than was asked for, mapped for writing
     * here; others may map it for reading, or for writing too if `writable`. */
    int (*create)(struct sl_memory *memory, const char *name, uint64_t size, bool writable);
    /* Checks what came from another process and takes over memory->fd; maps nothing. On failure the
     * fd is still the caller's. */
    int (*import)(struct sl_memory *memory, int fd, uint64_t size, bool writable);
    /* Maps an imported one. On the caller's thread: mapping may need a driver. SLUICE_E_UNSUPPORTED if it
     * cannot be had, or not any more. */
    int (*map)(struct sl_memory *memory, bool writable);
    /* Unmaps and closes; everything may be missing. */
    void (*destroy)(struct sl_memory *memory);
    /* Can memory of the device `home` be mapped for another one of this kind? 0; SLUICE_E_UNSUPPORTED with what is in
     * the way; SLUICE_NOT_READY: only `map` will tell. These three are NULL where there is but one device. */
    int (*reach)(const char *device, const char *home);
    /* Begins to copy `size` bytes at `offset` of mapped memory to where the other one begins. Until the look says something
     * else than SLUICE_NOT_READY both must stay. One thread at a time copies to a memory. */
    int (*copy_begin)(struct sl_memory *to, const struct sl_memory *from, uint64_t offset, uint64_t size);
    int (*copy_look)(struct sl_memory *to);
    uint32_t (*driver)(void); /* sl_mem_driver; NULL: it needs none */
};

/* Begins the struct of a memory that lives until its last user has dropped it: whoever mapped it, and pins. */
struct sl_mem_shared {
    sl_word32 users;
    void (*end)(struct sl_mem_shared *shared); /* unmaps and frees it */
};

void sl_mem_drop(struct sl_mem_shared *shared);

/* The version of the driver that this process has loaded for such memory, as it counts (13000: CUDA 13.0); 0: none yet, or it
 * needs none. Calls no driver. */
uint32_t sl_mem_driver(const struct sl_mem_ops *ops);

/* By kind; NULL if there is none. */
const struct sl_mem_ops *sl_mem_of_kind(uint32_t kind);

/* The best kind that can be made on `device`, of a kind of devices ("host"). */
int sl_mem_choose(const char *kind, const char *device, const struct sl_mem_ops **ops);

#endif
