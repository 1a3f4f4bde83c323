/* SPDX-License-Identifier: MIT
 *
 * Allocations that other processes open: the handle says where the file is that they lie in.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake/internal.h"

struct address { /* what is in a handle */
    char magic[8];
    int pid, fd, place;
    uint64_t size, inode;
};

static const char magic[8] = "fakemem";

/* An allocation of this process, from its beginning. */
static struct fake_range *allocation(enum fake_range_kind kind, uint64_t at)
{
    struct fake_range *range = fake_range_at(at);

    return range && range->kind == kind && range->address == at ? range : NULL;
}

static uint64_t inode_of(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

int fake_cuIpcGetMemHandle(struct sl_cu_memory_handle *handle, uint64_t at)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    struct fake_range *range = context ? allocation(FAKE_ALLOCATED, at) : NULL;
    if (context && !fake_can(SL_CU_CAN_SHARE_EVENTS))
        code = SL_CU_NOT_SUPPORTED;
    else if (context && !range)
        code = SL_CU_INVALID_VALUE;
    if (code == 0) {
        struct address address = { .pid = getpid(),
                                   .fd = range->fd,
                                   .place = fake_place(range->device),
                                   .size = range->size,
                                   .inode = inode_of(range->fd) };
        memcpy(address.magic, magic, sizeof magic);
        memset(handle, 0, sizeof *handle);
        memcpy(handle->bytes, &address, sizeof address);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* The file of another process's allocation; -1: it is not there (any more). */
static int find(const struct address *address)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/fd/%d", address->pid, address->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && inode_of(fd) != address->inode) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* A GPU of this process: which one lends its memory, may the current one reach it? */
static int check(const struct sl_cu_context *context, const struct address *address, unsigned flags)
{
    if (!fake_can(SL_CU_CAN_SHARE_EVENTS))
        return SL_CU_NOT_SUPPORTED;
    if (memcmp(address->magic, magic, sizeof magic) != 0)
        return SL_CU_INVALID_VALUE;
    if (address->pid == getpid()) {
        fake_break_rule("of memory that this process made");
        return SL_CU_INVALID_CONTEXT;
    }
    if (fake_place(context->device) != address->place && !(fake_machine.peers && flags & SL_CU_IPC_ENABLE_PEERS))
        return SL_CU_INVALID_DEVICE;
    return 0;
}

/* The number that this process has for a GPU; `mine` if it does not see it. */
static int device_at(int place, int mine)
{
    for (int i = 0; fake_place(i) >= 0; i++)
        if (fake_place(i) == place)
            return i;
    return mine;
}

/* Drivers differ in what a second opening does. */
static void check_first(int fd)
{
    for (struct fake_range *range = fake_ranges; range; range = range->next)
        if (range->kind == FAKE_OPENED && inode_of(range->fd) == inode_of(fd))
            fake_break_rule("of memory that is open here already");
}

int fake_cuIpcOpenMemHandle(uint64_t *opened, struct sl_cu_memory_handle handle, unsigned flags)
{
    struct address address;
    int code;

    memcpy(&address, handle.bytes, sizeof address);
    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context)
        code = check(context, &address, flags);
    if (code == 0) {
        int fd = find(&address);
        if (fd < 0) {
            code = SL_CU_INVALID_VALUE;
        } else {
            check_first(fd);
            struct fake_range *range = fake_range_map(FAKE_OPENED, fd, address.size, context);
            range->home = device_at(address.place, context->device);
            *opened = range->address;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuIpcCloseMemHandle(uint64_t address)
{
    return fake_free(FAKE_OPENED, address);
}
