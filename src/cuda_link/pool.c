/* SPDX-License-Identifier: MIT
 *
 * Slots: memory and events that other processes open by their handles, and how they are freed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "mem/mem.h"
#include "util/result.h"

#define ALLOCATION_UNIT \
    (UINT64_C(2) << 20) /* a handle shares the driver's whole allocation, so each slot has its own */

/* ---- making and opening ---- */

static void end_slot(struct sl_cipd_pool *pool, struct sl_cipd_slot *slot)
{
    sl_cuda_signal_drop(pool->context, slot->signal);
    if (slot->block)
        sl_cuda_ipc_drop(slot->block);
}

static void free_pool(struct sl_cipd_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++)
        end_slot(pool, &pool->slots[i]);
    sl_cuda_context_close(pool->context);
    free(pool);
}

static int new_pool(const char *channel, const char *device, uint32_t count, uint64_t bytes, struct sl_cipd_pool **out)
{
    struct sl_cipd_pool *pool = calloc(1, sizeof *pool);

    if (!pool)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel 'cipd:%s': no memory for a table of slots", channel);
    int r = sl_cuda_context_open(device, &pool->context);
    if (r != 0) {
        free(pool);
        return r;
    }
    pool->count = count;
    pool->bytes = bytes;
    *out = pool;
    return 0;
}

/* What was made of it may be freed no sooner than other work on the GPU ends. */
static int fail_and_free(struct sl_cipd_free_queue *queue, struct sl_cipd_pool *pool, int result)
{
    char why[640];

    snprintf(why, sizeof why, "%s", sl_last_error());
    sl_cipd_free_queue_add(queue, pool, 0);
    return sl_fail_text(result, why);
}

static int make_signal(struct sl_cipd_pool *pool, struct sl_cipd_slot *slot, struct sl_cipd_handles *handles)
{
    struct sl_cu_event_handle handle;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(pool->context, SL_CUDA_RELAXED, &scope);

    if (r != 0)
        return r;
    r = sl_cuda_signal_make(pool->context, &handle, &slot->signal);
    sl_cuda_leave(&scope);
    if (r != 0)
        return r;
    memcpy(handles->event, &handle, sizeof handles->event);
    slot->last_work.event = sl_cuda_signal_event(slot->signal);
    return 0;
}

int sl_cipd_pool_make(struct sl_cipd_free_queue *queue, const char *channel, const char *device, uint32_t count,
                      uint64_t bytes, struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS], struct sl_cipd_pool **out)
{
    uint64_t size = (bytes + ALLOCATION_UNIT - 1) / ALLOCATION_UNIT * ALLOCATION_UNIT;
    struct sl_cuda_share share;
    struct sl_cipd_pool *pool;
    int r = new_pool(channel, device, count, bytes, &pool);

    if (r != 0)
        return r;
    memset(handles, 0, SL_CIPD_MAX_SLOTS * sizeof *handles);
    SL_STAGE_BEGIN(MAKE_SLOTS);
    for (uint32_t i = 0; i < count && r == 0; i++) {
        struct sl_cipd_slot *slot = &pool->slots[i];
        r = sl_cuda_ipc_make(device, channel, (size_t)size, &share, &slot->block);
        if (r != 0) {
            slot->block = NULL;
            break;
        }
        slot->address = sl_cuda_ipc_address(slot->block);
        memcpy(handles[i].memory, &share.handle, sizeof handles[i].memory);
        r = make_signal(pool, slot, &handles[i]);
    }
    SL_STAGE_END(MAKE_SLOTS);
    if (r != 0)
        return fail_and_free(queue, pool, r);
    *out = pool;
    return 0;
}

static int open_slot(struct sl_cipd_pool *pool, const char *device, struct sl_cipd_slot *slot,
                     const struct sl_cipd_handles *handles)
{
    struct sl_cuda_share share = { .token = { 0, 0 } };
    struct sl_cu_event_handle handle;
    struct sl_cuda_scope scope;

    memcpy(&share.handle, handles->memory, sizeof share.handle);
    memcpy(&handle, handles->event, sizeof handle);
    int r = sl_cuda_ipc_open(device, &share, pool->bytes, &slot->block);
    if (r != 0) {
        slot->block = NULL;
        return r;
    }
    slot->address = sl_cuda_ipc_address(slot->block);
    if (sl_cipd_zero(handles->event, sizeof handles->event))
        return 0;
    r = sl_cuda_enter(pool->context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    r = sl_cuda_signal_open(pool->context, &handle, &slot->signal);
    sl_cuda_leave(&scope);
    if (r != 0)
        slot->signal = NULL;
    return r;
}

int sl_cipd_pool_open(struct sl_cipd_free_queue *queue, const char *channel, const char *device,
                      const struct sl_cipd_session *session, struct sl_cipd_pool **out)
{
    struct sl_cipd_pool *pool;
    int r = new_pool(channel, device, session->layout.slots, session->metadata.bytes, &pool);

    if (r != 0)
        return r;
    SL_STAGE_BEGIN(MAP);
    for (uint32_t i = 0; i < pool->count && r == 0; i++)
        r = open_slot(pool, device, &pool->slots[i], &session->handles[i]);
    SL_STAGE_END(MAP);
    if (r != 0)
        return fail_and_free(queue, pool, r);
    *out = pool;
    return 0;
}

/* ---- the end ---- */

struct sl_cipd_free_queue {
    sl_word32 users; /* references: its owner's, and one for each piece in it */
    sl_word32 count; /* number of pieces; a futex */
    char channel[SLUICE_CIPD_MAX_NAME + 1];
};

struct piece {
    struct sl_cipd_free_queue *free_queue;
    void (*end)(void *what);
    void *what;
    int64_t at; /* when to free it */
};

int sl_cipd_free_queue_create(const char *channel, struct sl_cipd_free_queue **queue)
{
    *queue = calloc(1, sizeof **queue);
    if (!*queue)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel 'cipd:%s': no memory for the slots that are given back", channel);
    sl_store(&(*queue)->users, 1, relaxed);
    snprintf((*queue)->channel, sizeof(*queue)->channel, "%s", channel);
    return 0;
}

void sl_cipd_free_queue_release(struct sl_cipd_free_queue *queue)
{
    if (queue && sl_add(&queue->users, (uint32_t)-1) == 1)
        free(queue);
}

static void free_piece(void *argument)
{
    struct piece *piece = argument;
    int64_t now = sl_os_now();

    if (piece->at > now)
        sl_os_sleep(piece->at - now);
    piece->end(piece->what);
    sl_add(&piece->free_queue->count, (uint32_t)-1);
    sl_os_futex_wake(&piece->free_queue->count, INT32_MAX);
    sl_cipd_free_queue_release(piece->free_queue);
    free(piece);
}

static void end_pool(void *pool)
{
    free_pool(pool);
}

void sl_cipd_free_queue_add(struct sl_cipd_free_queue *queue, struct sl_cipd_pool *pool, int64_t grace_ns)
{
    if (pool)
        sl_cipd_free_queue_run(queue, end_pool, pool, grace_ns);
}

void sl_cipd_free_queue_run(struct sl_cipd_free_queue *queue, void (*end_it)(void *what), void *what, int64_t grace_ns)
{
    struct piece *piece = calloc(1, sizeof *piece);
    if (!piece) { /* leaked rather than freed while readers use it */
        sl_log(SLUICE_LOG_WARN,
               "channel 'cipd:%s': memory of its GPU stays until the process ends: the CPU has none for freeing it",
               queue->channel);
        return;
    }
    *piece = (struct piece){
        .free_queue = queue, .end = end_it, .what = what, .at = grace_ns > 0 ? sl_os_deadline(grace_ns) : 0
    };
    sl_add(&queue->users, 1);
    sl_add(&queue->count, 1);
    if (sl_os_start_thread(free_piece, piece) == 0)
        return;
    sl_log(SLUICE_LOG_WARN,
           "channel 'cipd:%s': memory of its GPU is freed by the thread that uses the channel, which may wait: %s",
           queue->channel, sl_last_error());
    free_piece(piece);
}

uint32_t sl_cipd_free_queue_count(const struct sl_cipd_free_queue *queue)
{
    return sl_load(&queue->count, acquire);
}

uint32_t sl_cipd_free_queue_wait(struct sl_cipd_free_queue *queue, int64_t patience_ns)
{
    int64_t deadline = sl_os_deadline(patience_ns);
    uint32_t left;

    while ((left = sl_cipd_free_queue_count(queue)) != 0 && sl_os_now() < deadline)
        (void)sl_os_futex_wait(&queue->count, left, deadline);
    return left;
}

/* ---- pins ---- */

struct pinned {
    struct sl_mem_shared shared;
    struct sl_cuda_block *block;
};

static void unpin(struct sl_mem_shared *shared)
{
    struct pinned *pinned = (struct pinned *)shared;

    sl_cuda_ipc_drop(pinned->block);
    free(pinned);
}

int sl_cipd_pin(struct sl_cipd_slot *slot, sluice_pin **pin)
{
    struct pinned *pinned = calloc(1, sizeof *pinned);

    if (!pinned)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for a pin");
    pinned->block = slot->block;
    sl_cuda_ipc_hold(slot->block);
    sl_store(&pinned->shared.users, 1, relaxed);
    pinned->shared.in_background = true;
    pinned->shared.end = unpin;
    *pin = (sluice_pin *)&pinned->shared;
    return 0;
}
