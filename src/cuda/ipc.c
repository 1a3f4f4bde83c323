/* SPDX-License-Identifier: MIT
 *
 * GPU memory that other processes open by a handle of 64 bytes: the older method, for systems that
 * cannot export memory as a descriptor. Whoever opens it may write to it, and it ends with the
 * process that made it.
 *
 * A handle cannot be opened in the process that made it, nor twice in one process. So all blocks
 * that this process has made or opened are listed, and further users share them.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "os/os.h"
#include "util/result.h"

struct sl_cuda_block {
    struct sl_cuda_block *next;
    struct sl_cuda_context *context;
    uint64_t token[2], address, bytes;
    struct sl_cu_memory_handle handle;
    uint32_t users; /* 0: it is being closed */
    bool made;      /* by this process */
};

static struct sl_cuda_block *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* also held while one is opened */
static sl_word32 closed;                                 /* number of blocks closed so far; a futex */

#define CLOSE_PATIENCE (2 * SLUICE_S)

int sl_cuda_ipc_supported(struct sl_cuda_context *context)
{
    return sl_cuda_check_cap(context, SL_CU_CAN_SHARE_EVENTS, "hand memory to others as a handle (cuIpcGetMemHandle)");
}

/* An unlisted block with its context, entered. */
static int begin(const char *device, struct sl_cuda_block **block, struct sl_cuda_scope *scope)
{
    struct sl_cuda_block *made = calloc(1, sizeof *made);

    if (!made)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for the memory of \"%s\"", device);
    int r = sl_cuda_context_open(device, &made->context);
    if (r == 0 && (r = sl_cuda_enter(made->context, SL_CUDA_RELAXED, scope)) != 0)
        sl_cuda_context_close(made->context);
    if (r != 0)
        free(made);
    else
        *block = made;
    return r;
}

/* Lists the block if making or opening it succeeded. */
static int finish(struct sl_cuda_block *block, const struct sl_cuda_scope *scope, const struct sl_cuda_share *share,
                  int result)
{
    sl_cuda_leave(scope);
    if (result != 0) {
        sl_cuda_context_close(block->context);
        free(block);
        return result;
    }
    memcpy(block->token, share->token, sizeof block->token);
    block->handle = share->handle;
    block->users = 1;
    block->next = blocks;
    blocks = block;
    return 0;
}

static void tidy(struct sl_cuda_context *context, int code, const char *function)
{
    if (code != SL_CU_OK && sl_cuda_check(context, code, function) != 0)
        sl_log(SLUICE_LOG_WARN, "left behind: %s", sl_last_error());
}

static int make(struct sl_cuda_block *block, const char *name, size_t size, struct sl_cu_memory_handle *handle)
{
    struct sl_cuda_context *context = block->context;
    int r = sl_cuda_ipc_supported(context);
    if (r != 0)
        return r;
    int code = sl_cuda.MemAlloc(&block->address, size);
    if (code == SL_CU_OUT_OF_MEMORY)
        return sl_cuda_memory_exceeded(context, name, size);
    r = sl_cuda_check(context, code, "cuMemAlloc");
    if (r != 0)
        return r;
    r = sl_cu(context, IpcGetMemHandle, handle, block->address);
    if (r == 0)
        r = sl_cuda_memory_clear(context, block->address, size);
    if (r == SLUICE_TIMEOUT)
        sl_log(SLUICE_LOG_WARN,
               "'%s': %zu bytes of memory of %s stay until the process ends, as work on them does not end", name, size,
               context->name);
    else if (r != 0)
        tidy(context, sl_cuda.MemFree(block->address), "cuMemFree");
    return r;
}

int sl_cuda_ipc_make(const char *device, const char *name, size_t size, struct sl_cuda_share *share,
                     struct sl_cuda_block **block)
{
    struct sl_cuda_scope scope;
    int r = begin(device, block, &scope);
    if (r != 0)
        return r;
    (*block)->made = true;
    (*block)->bytes = size;
    r = make(*block, name, size, &share->handle);
    share->token[0] = sl_os_random();
    share->token[1] = sl_os_random();
    pthread_mutex_lock(&lock);
    r = finish(*block, &scope, share, r);
    pthread_mutex_unlock(&lock);
    return r;
}

/* The bytes from this address on. A peer's claim is not trusted, unless the driver does not know
 * the size. */
static uint64_t bytes_of(uint64_t address)
{
    uint64_t start = 0;
    size_t size = 0;

    if (sl_cuda.PointerGetAttribute(&start, SL_CU_POINTER_RANGE_START, address) != SL_CU_OK ||
        sl_cuda.PointerGetAttribute(&size, SL_CU_POINTER_RANGE_SIZE, address) != SL_CU_OK)
        return UINT64_MAX;
    return address >= start && address - start < size ? size - (address - start) : UINT64_MAX;
}

static int open_handle(struct sl_cuda_block *block, const struct sl_cu_memory_handle *handle)
{
    struct sl_cuda_context *context = block->context;
    int r = sl_cuda_ipc_supported(context);
    if (r != 0)
        return r;
    int code = sl_cuda.IpcOpenMemHandle(&block->address, *handle, SL_CU_IPC_ENABLE_PEERS);
    r = sl_cuda_check(context, code, "cuIpcOpenMemHandle");
    if (r == 0)
        block->bytes = bytes_of(block->address);
    if (r == 0 || r == SLUICE_E_NO_MEMORY || sl_cuda_alive(context) != 0)
        return r;
    return sl_fail(
        SLUICE_E_UNSUPPORTED,
        "%s: the frames' memory cannot be opened (cuIpcOpenMemHandle said %s): their writer has ended, or "
        "is in another container, whose handles mean nothing here, or they lie on another GPU, which this one "
        "does not reach",
        context->name, sl_cuda_code_name(code));
}

/* Memory of programs that do not use this library has no token. */
static bool is_it(const struct sl_cuda_block *block, const struct sl_cuda_share *share)
{
    if (share->token[0] || share->token[1])
        return memcmp(block->token, share->token, sizeof block->token) == 0;
    return memcmp(&block->handle, &share->handle, sizeof block->handle) == 0;
}

static struct sl_cuda_block *find(const struct sl_cuda_share *share, int device)
{
    struct sl_cuda_block *block = blocks;

    while (block && (!is_it(block, share) || (!block->made && block->context->device != device)))
        block = block->next;
    return block;
}

static int share_block(struct sl_cuda_block *block, int device, const char *name)
{
    if (block->context->device != device)
        return sl_fail(
            SLUICE_E_UNSUPPORTED,
            "\"%s\": the frames were made by this process on \"%s\", and without cuMemMap another GPU does not "
            "see them here; use that one",
            name, block->context->name);
    block->users++;
    return 0;
}

/* Called with the lock held, which it releases while it waits. A block that is being closed must be
 * closed before it can be opened again, and the driver may wait for this program's work with that. */
static int find_open(const char *device, const struct sl_cuda_share *share, int ordinal, struct sl_cuda_block **block)
{
    int64_t now = sl_os_now(), deadline = sl_os_deadline(CLOSE_PATIENCE);

    while ((*block = find(share, ordinal)) && (*block)->users == 0) {
        uint32_t seen = sl_load(&closed, acquire);
        if (now >= deadline)
            return sl_fail(SLUICE_E_UNSUPPORTED,
                           "\"%s\": the frames' memory was open here before, and is not closed yet: the driver waits "
                           "for work of this "
                           "program with that",
                           device);
        pthread_mutex_unlock(&lock);
        (void)sl_os_futex_wait(&closed, seen, deadline);
        pthread_mutex_lock(&lock);
        now = sl_os_now();
    }
    return 0;
}

int sl_cuda_ipc_open(const char *device, const struct sl_cuda_share *share, uint64_t bytes,
                     struct sl_cuda_block **block)
{
    struct sl_cuda_context wanted;
    struct sl_cuda_scope scope;
    int r = sl_cuda_context_describe(device, &wanted);
    if (r != 0)
        return r;
    pthread_mutex_lock(&lock);
    r = find_open(device, share, wanted.device, block);
    if (r != 0) {
        pthread_mutex_unlock(&lock);
        return r;
    }
    if (*block) {
        r = share_block(*block, wanted.device, device);
    } else {
        r = begin(device, block, &scope);
        if (r == 0)
            r = finish(*block, &scope, share, open_handle(*block, &share->handle));
    }
    pthread_mutex_unlock(&lock);
    uint64_t there = r == 0 ? (*block)->bytes : bytes;
    if (there < bytes) {
        sl_cuda_ipc_drop(*block);
        r = sl_fail(SLUICE_E_PROTOCOL,
                    "the peer announced %" PRIu64 " bytes of GPU memory, and its handle is of %" PRIu64, bytes, there);
    }
    return r;
}

struct sl_cuda_block *sl_cuda_ipc_find(const struct sl_cu_memory_handle *handle)
{
    struct sl_cuda_share share = { .handle = *handle };

    pthread_mutex_lock(&lock);
    struct sl_cuda_block *block = blocks;
    while (block && (!is_it(block, &share) || block->users == 0))
        block = block->next;
    if (block)
        block->users++;
    pthread_mutex_unlock(&lock);
    return block;
}

uint64_t sl_cuda_ipc_address(const struct sl_cuda_block *block)
{
    return block->address;
}

struct sl_cuda_context *sl_cuda_ipc_context(struct sl_cuda_block *block)
{
    return block->context;
}

bool sl_cuda_ipc_is_open(const struct sl_cu_memory_handle *handle)
{
    struct sl_cuda_share share = { .handle = *handle };

    pthread_mutex_lock(&lock);
    const struct sl_cuda_block *block = blocks;
    while (block && !(is_it(block, &share) && !block->made))
        block = block->next;
    pthread_mutex_unlock(&lock);
    return block != NULL;
}

void sl_cuda_ipc_hold(struct sl_cuda_block *block)
{
    pthread_mutex_lock(&lock);
    block->users++;
    pthread_mutex_unlock(&lock);
}

/* If the context is lost, the memory went with it. */
static void end(struct sl_cuda_block *block)
{
    struct sl_cuda_scope scope;

    if (sl_cuda_enter(block->context, SL_CUDA_RELAXED, &scope) != 0)
        return;
    if (block->made)
        tidy(block->context, sl_cuda.MemFree(block->address), "cuMemFree");
    else
        tidy(block->context, sl_cuda.IpcCloseMemHandle(block->address), "cuIpcCloseMemHandle");
    sl_cuda_leave(&scope);
}

/* Called with the lock held. */
static void unlist(struct sl_cuda_block *block)
{
    struct sl_cuda_block **at = &blocks;

    while (*at != block)
        at = &(*at)->next;
    *at = block->next;
}

void sl_cuda_ipc_drop(struct sl_cuda_block *block)
{
    pthread_mutex_lock(&lock);
    bool last = --block->users == 0;
    if (last && block->made)
        unlist(block);
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    /* Without the lock: the driver may wait, and other threads must be able to open and look up
     * blocks meanwhile. */
    end(block);
    if (!block->made) {
        pthread_mutex_lock(&lock);
        unlist(block);
        sl_add(&closed, 1);
        pthread_mutex_unlock(&lock);
        sl_os_futex_wake(&closed, INT32_MAX);
    }
    sl_cuda_context_close(block->context);
    free(block);
}
