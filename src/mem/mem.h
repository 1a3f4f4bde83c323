/* SPDX-License-Identifier: MIT
 *
 * Where slots lie: memory that one process makes and others map. A kind of memory is one file with one
 * table; mem.c is the only file that knows them all.
 */
#ifndef SL_MEM_H
#define SL_MEM_H

#include <stdbool.h>
#include <stdint.h>

#define SL_MEM_HOST 1 /* numbers go over the wire */
#define SL_MEM_CUDA 2

struct sl_memory {
    const struct sl_mem_ops *ops;
    const char *device; /* where it shall lie or be mapped, e.g. "cuda:0"; not for `host` */
    void *state;        /* the kind's own */
    int fd;             /* what is handed to others; -1 once a reader has mapped it */
    uint64_t size;      /* bytes */
    void *address;      /* where it is mapped here, for that device; NULL: not yet */
};

struct sl_mem_ops {
    const char *name;   /* "host" */
    uint32_t kind;      /* SL_MEM_ */
    uint64_t alignment; /* sizes are multiples of it */
    /* Makes zeroed memory of memory->size bytes, which may be more than was asked for, mapped for writing
     * here; others may map it for reading, or for writing too if `writable`. */
    int (*create)(struct sl_memory *memory, const char *name, uint64_t size, bool writable);
    /* Checks what came from another process and takes over memory->fd; maps nothing. On failure the
     * fd is still the caller's. */
    int (*import)(struct sl_memory *memory, int fd, uint64_t size, bool writable);
    /* Maps an imported one. On the caller's thread: mapping may need a driver. */
    int (*map)(struct sl_memory *memory, bool writable);
    /* Unmaps and closes; everything may be missing. */
    void (*destroy)(struct sl_memory *memory);
};

/* By kind, or by the name of a kind of device ("host"); NULL if there is none. */
const struct sl_mem_ops *sl_mem_of_kind(uint32_t kind);
const struct sl_mem_ops *sl_mem_of_device(const char *device);

#endif
