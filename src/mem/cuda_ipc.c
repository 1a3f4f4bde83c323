/* SPDX-License-Identifier: MIT
 *
 * GPU memory that is opened by a handle (cuda/cuda.h): readers could write to it, and it ends with
 * its writer. The handle is sent in a small sealed memfd, which is the descriptor.
 */
#include <string.h>

#include "cuda/cuda.h"
#include "mem/mem.h"
#include "os/os.h"
#include "util/checked.h"
#include "util/result.h"

/* Smaller blocks would share an allocation of the driver's with others, and expose these, too. */
#define UNIT  (UINT64_C(2) << 20)
#define MAGIC UINT64_C(0x31637069756c73) /* "sluipc1" */

struct note {
    uint64_t magic, bytes;
    struct sl_cuda_share share;
};

static int ipc_able(const char *device)
{
    struct sl_cuda_context context;
    int r = sl_cuda_context_describe(device, &context);

    return r == 0 ? sl_cuda_ipc_supported(&context) : r;
}

static int write_note(const char *name, const struct note *note, int *fd)
{
    uint64_t size = sl_os_page_size();
    void *page;
    int r = sl_os_memory_create(name, size, fd);
    if (r != 0)
        return r;
    r = sl_os_map(*fd, size, true, &page);
    if (r == 0) {
        memcpy(page, note, sizeof *note);
        sl_os_unmap(page, size);
        r = sl_os_memory_seal(*fd, true);
    }
    if (r != 0)
        sl_os_close(*fd);
    return r;
}

static int ipc_create(struct sl_memory *memory, const char *name, uint64_t size, bool writable)
{
    struct note note = { .magic = MAGIC };
    struct sl_cuda_block *block;

    (void)writable;
    if (!size || !sl_checked_align(size, UNIT, &size) || size > SIZE_MAX)
        return sl_fail(SLUICE_E_INVALID, "memory for %s: that many bytes cannot be had", name);
    int r = sl_cuda_ipc_make(memory->device, name, (size_t)size, &note.share, &block);
    if (r != 0)
        return r;
    note.bytes = size;
    r = write_note(name, &note, &memory->fd);
    if (r != 0) {
        memory->fd = -1;
        sl_cuda_ipc_drop(block);
        return r;
    }
    memory->state = block;
    memory->size = size;
    memory->address = (void *)(uintptr_t)sl_cuda_ipc_address(block);
    return 0;
}

static int ipc_import(struct sl_memory *memory, int fd, uint64_t size, bool writable)
{
    (void)writable;
    int r = sl_os_memory_check(fd, sl_os_page_size(), true);
    if (r != 0)
        return r;
    memory->fd = fd;
    memory->size = size;
    memory->address = NULL;
    return 0;
}

/* Copied once, then checked: it is sealed, but its writer may have kept a writable mapping. */
static int read_note(const struct sl_memory *memory, struct note *note)
{
    uint64_t size = sl_os_page_size();
    void *page;
    int r = sl_os_map(memory->fd, size, false, &page);
    if (r != 0)
        return r;
    memcpy(note, page, sizeof *note);
    sl_os_unmap(page, size);
    if (note->magic != MAGIC || note->bytes != memory->size)
        return sl_fail(SLUICE_E_PROTOCOL, "the peer sent a page that is no handle of %llu bytes of GPU memory",
                       (unsigned long long)memory->size);
    return 0;
}

static int ipc_map(struct sl_memory *memory, bool writable)
{
    struct sl_cuda_block *block;
    struct note note;

    (void)writable; /* a handle always gives full access */
    int r = read_note(memory, &note);
    if (r == 0)
        r = sl_cuda_explain_versions(NULL, memory->driver,
                                     sl_cuda_ipc_open(memory->device, &note.share, memory->size, &block));
    if (r != 0)
        return r;
    memory->state = block;
    memory->address = (void *)(uintptr_t)sl_cuda_ipc_address(block);
    sl_os_close(memory->fd);
    memory->fd = -1;
    return 0;
}

static void ipc_destroy(struct sl_memory *memory)
{
    if (memory->state)
        sl_cuda_ipc_drop(memory->state);
    sl_os_close(memory->fd);
    memory->state = NULL;
    memory->address = NULL;
    memory->fd = -1;
}

static int ipc_copy_begin(struct sl_memory *to, const struct sl_memory *from, uint64_t offset, uint64_t size)
{
    return sl_cuda_copy_begin(sl_cuda_ipc_context(to->state), (uintptr_t)to->address, sl_cuda_ipc_context(from->state),
                              (uintptr_t)from->address + offset, (size_t)size);
}

static int ipc_copy_look(struct sl_memory *to)
{
    return sl_cuda_copy_query(sl_cuda_ipc_context(to->state));
}

extern const struct sl_mem_ops sl_mem_cuda_ipc;
const struct sl_mem_ops sl_mem_cuda_ipc = {
    .name = "cuda",
    .kind = SL_MEM_CUDA_IPC,
    .alignment = UNIT,
    .able = ipc_able,
    .create = ipc_create,
    .import = ipc_import,
    .map = ipc_map,
    .destroy = ipc_destroy,
    .reach = sl_cuda_peer_access,
    .copy_begin = ipc_copy_begin,
    .copy_look = ipc_copy_look,
    .driver = sl_cuda_version,
};
