/* SPDX-License-Identifier: MIT
 *
 * Host memory: a sealed memfd, mapped read-only in readers.
 */
#include "mem/mem.h"
#include "os/os.h"

static int host_able(const char *device)
{
    (void)device;
    return 0;
}

static int host_create(struct sl_memory *memory, const char *name, uint64_t size, bool writable)
{
    int fd, r;
    void *address;

    if ((r = sl_os_memory_create(name, size, &fd)) != 0)
        return r;
    if ((r = sl_os_map(fd, size, true, &address)) != 0)
        goto err_fd;
    /* Sealed after our own mapping was made: that one stays writable, and no other can become so. */
    if ((r = sl_os_memory_seal(fd, !writable)) != 0)
        goto err_map;
    memory->fd = fd;
    memory->size = size;
    memory->address = address;
    return 0;

err_map:
    sl_os_unmap(address, size);
err_fd:
    sl_os_close(fd);
    return r;
}

static int host_import(struct sl_memory *memory, int fd, uint64_t size, bool writable)
{
    /* Whether other processes may write is the writer's choice, but the seal must ensure that it
     * cannot shrink while it is mapped. */
    (void)writable;
    int r = sl_os_memory_check(fd, size, false);
    if (r != 0)
        return r;
    memory->fd = fd;
    memory->size = size;
    memory->address = NULL;
    return 0;
}

static int host_map(struct sl_memory *memory, bool writable)
{
    int r = sl_os_map(memory->fd, memory->size, writable, &memory->address);
    if (r != 0)
        return r;
    sl_os_close(memory->fd);
    memory->fd = -1;
    return 0;
}

static void host_destroy(struct sl_memory *memory)
{
    if (memory->address)
        sl_os_unmap(memory->address, memory->size);
    sl_os_close(memory->fd);
    memory->address = NULL;
    memory->fd = -1;
}

extern const struct sl_mem_ops sl_mem_host;
const struct sl_mem_ops sl_mem_host = {
    .name = "host",
    .kind = SL_MEM_HOST,
    .alignment = 4096,
    .able = host_able,
    .create = host_create,
    .import = host_import,
    .map = host_map,
    .destroy = host_destroy,
};
