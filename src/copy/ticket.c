/* SPDX-License-Identifier: MIT
 *
 * Tickets tell when a queued copy is done. The stream stores a value to a word behind the copy, so querying a ticket is
 * reading a word: no driver call, safe during captures, on any thread. For a sent frame that is the word that makes the
 * frame ready; other copies use a word of the fence pool that issues the ticket.
 *
 * A ticket is a number: its pool (12 bits, from 1), its index there (8), and a serial (44) that no other ticket of this
 * process has. A pool that was closed and is opened again begins with a higher serial, so tickets from before are
 * recognised.
 */
#include <stdlib.h>

#include "copy/copy.h"
#include "copy/fence_wait.h"
#include "device/device.h"
#include "sync/sync.h"
#include "util/atomic.h"
#include "util/result.h"

#define MAX_POOLS             4095
#define INDEX_BITS            8
#define SERIAL_BITS           44
#define SERIAL_MASK           ((UINT64_C(1) << SERIAL_BITS) - 1)
#define DEVICE_CHECK_INTERVAL (50 * SLUICE_MS)

struct entry {
    uint64_t serial;       /* of the last ticket with this index, */
    struct sl_fence fence; /* and its fence; without a word: there was no ticket yet */
    struct sl_copy_timing timing;
    sl_word failed_serial; /* the last ticket that failed, */
    sl_word32 result;      /* and its result */
};

struct sl_fence_pool {
    sl_word32 users;   /* references: the owner's and those of threads inside a call; 0: the pool is free */
    sl_word32 closing; /* also set until the pool is open */
    uint32_t index;
    uint64_t first_serial; /* serials up to here are of earlier owners */
    sl_word *words;
    int (*check_device)(void *user);
    void *user;
    struct sl_copy_speed speed;

    sl_mutex lock; /* guards `next` and, while other threads may issue tickets, `serial` and `fence` of the entries */
    uint32_t next;
    struct entry entries[SL_FENCE_POOL_WORDS];
};

/* Pools are reused and never freed, so a ticket of any age can be looked up safely. */
static _Atomic(struct sl_fence_pool *) pools[MAX_POOLS];
static sl_word last_serial;

/* ---- open and close ---- */

/* NULL if there is no memory, or another thread has made the pool with this index. */
static struct sl_fence_pool *create_pool(uint32_t index)
{
    struct sl_fence_pool *pool = calloc(1, sizeof *pool), *other = NULL;

    if (!pool)
        return NULL;
    pool->users = 1;
    pool->closing = 1;
    pool->index = index;
    sl_mutex_init(&pool->lock);
    if (atomic_compare_exchange_strong(&pools[index], &other, pool))
        return pool;
    sl_mutex_finish(&pool->lock);
    free(pool);
    return NULL;
}

/* Returns a free pool with one reference, not open yet. */
static struct sl_fence_pool *claim_pool(void)
{
    for (uint32_t i = 0; i < MAX_POOLS; i++) {
        struct sl_fence_pool *pool = sl_load(&pools[i], acquire);
        uint32_t free_pool = 0;
        if (!pool && (pool = create_pool(i)) != NULL)
            return pool;
        if (pool && atomic_compare_exchange_strong(&pool->users, &free_pool, 1))
            return pool;
    }
    return NULL;
}

int sl_fence_pool_open(sl_word *words, int (*check_device)(void *user), void *user, struct sl_fence_pool **out)
{
    struct sl_fence_pool *pool = claim_pool();

    if (!pool)
        return sl_fail(SLUICE_E_LIMIT, "too many writers and readers that copy: %d are open", MAX_POOLS);
    pool->words = words;
    pool->check_device = check_device;
    pool->user = user;
    pool->next = 0;
    pool->first_serial = sl_load(&last_serial, seq_cst);
    sl_store(&pool->speed.ns_per_mib, 0, relaxed);
    for (uint32_t i = 0; i < SL_FENCE_POOL_WORDS; i++) {
        pool->entries[i].serial = 0;
        pool->entries[i].fence = (struct sl_fence){ .word = NULL };
        sl_store(&pool->entries[i].failed_serial, 0, relaxed);
    }
    sl_store(&pool->closing, 0, seq_cst);
    *out = pool;
    return 0;
}

static bool hold_pool(struct sl_fence_pool *pool)
{
    uint32_t users = sl_load(&pool->users, seq_cst);

    while (users > 0)
        if (atomic_compare_exchange_weak(&pool->users, &users, users + 1))
            return true;
    return false;
}

static void drop_pool(struct sl_fence_pool *pool)
{
    bool only_owner_left = atomic_fetch_sub(&pool->users, 1) == 2;

    if (only_owner_left && sl_load(&pool->closing, seq_cst))
        sl_os_futex_wake(&pool->users, 1);
}

void sl_fence_pool_close(struct sl_fence_pool *pool)
{
    uint32_t users = 1;

    if (!pool)
        return;
    sl_store(&pool->closing, 1, seq_cst);
    sl_os_futex_wake(&pool->closing, INT32_MAX);
    while (!atomic_compare_exchange_strong(&pool->users, &users, 0)) {
        (void)sl_os_futex_wait(&pool->users, users, sl_os_deadline(SLUICE_MS));
        users = 1;
    }
}

/* ---- fences ---- */

/* A slot's word may be poisoned because a later frame in that slot was lost. */
static bool is_reached(const struct sl_fence *fence)
{
    uint64_t word = sl_load(fence->word, acquire);

    if (sl_reached(word, fence->value))
        return true;
    return word == SL_POISON && fence->slot_seq && sl_load(fence->slot_seq, acquire) != fence->value;
}

static uint64_t serial_of(uint64_t id)
{
    return id & SERIAL_MASK;
}

static struct entry *entry_of(struct sl_fence_pool *pool, uint64_t id)
{
    return &pool->entries[id >> SERIAL_BITS & (SL_FENCE_POOL_WORDS - 1)];
}

/* Returns the next entry whose work has ended, or NULL. With the lock. */
static struct entry *find_idle_entry(struct sl_fence_pool *pool)
{
    for (uint32_t i = 0; i < SL_FENCE_POOL_WORDS; i++) {
        struct entry *entry = &pool->entries[(pool->next + i) % SL_FENCE_POOL_WORDS];
        if (!entry->fence.word || is_reached(&entry->fence))
            return entry;
    }
    return NULL;
}

/* Completes the fence with a new ticket and, if it has no word, one of the pool's. With the lock. */
static void issue_ticket(struct sl_fence_pool *pool, struct entry *entry, struct sl_fence *fence)
{
    uint32_t index = (uint32_t)(entry - pool->entries);

    entry->serial = sl_add(&last_serial, 1) + 1;
    fence->id =
        (uint64_t)(pool->index + 1) << (INDEX_BITS + SERIAL_BITS) | (uint64_t)index << SERIAL_BITS | entry->serial;
    if (!fence->word) {
        fence->word = &pool->words[index];
        fence->value = entry->serial;
    }
    entry->fence = *fence;
    sl_store(&entry->timing.mib, 0, relaxed);
    pool->next = index + 1;
}

bool sl_fence_pool_adopt(struct sl_fence_pool *pool, struct sl_fence *fence)
{
    sl_mutex_lock(&pool->lock);
    struct entry *entry = find_idle_entry(pool);
    if (entry)
        issue_ticket(pool, entry, fence);
    sl_mutex_unlock(&pool->lock);
    return entry != NULL;
}

int sl_fence_pool_issue(struct sl_fence_pool *pool, struct sl_fence *fence)
{
    *fence = (struct sl_fence){ .word = NULL };
    if (sl_fence_pool_adopt(pool, fence))
        return 0;
    return sl_fail(SLUICE_E_BUSY, "%d copies are under way already: wait for one of their tickets",
                   SL_FENCE_POOL_WORDS);
}

void sl_fence_pool_expect(struct sl_fence_pool *pool, const struct sl_fence *fence, uint64_t bytes)
{
    sl_copy_timing_start(&entry_of(pool, fence->id)->timing, bytes);
}

void sl_fence_pool_complete(struct sl_fence_pool *pool, const struct sl_fence *fence, int result)
{
    struct entry *entry = entry_of(pool, fence->id);

    if (result != 0) {
        sl_store(&entry->result, (uint32_t)result, relaxed);
        sl_store(&entry->failed_serial, serial_of(fence->id), release);
    }
    sl_store(fence->word, fence->value, release);
}

/* ---- waiting ---- */

static int fail_closed(void)
{
    return sl_fail(SLUICE_E_STALE, "the writer or reader that issued this ticket has been closed");
}

static int copy_result(const struct entry *entry, const struct sl_fence *fence)
{
    if (sl_load(&entry->failed_serial, acquire) != serial_of(fence->id))
        return 0;
    return sl_fail((int)sl_load(&entry->result, relaxed),
                   "the copy failed: the device's driver failed when it was under way");
}

int sl_fence_pool_wait(struct sl_fence_pool *pool, const struct sl_fence *fence, int64_t spin_ns, int64_t timeout_ns)
{
    struct entry *entry = entry_of(pool, fence->id);

    if (is_reached(fence))
        return copy_result(entry, fence);
    struct sl_fence_wait wait = sl_fence_wait_begin(&pool->speed, &entry->timing, spin_ns, timeout_ns);
    int64_t now = wait.start, next_check = now + DEVICE_CHECK_INTERVAL;
    while (!is_reached(fence)) {
        if (sl_load(&pool->closing, acquire))
            return fail_closed();
        if (now >= wait.deadline)
            return SLUICE_TIMEOUT;
        if (now >= next_check) {
            int r = pool->check_device(pool->user);
            if (r < 0)
                return r;
            next_check = now + DEVICE_CHECK_INTERVAL;
        }
        sl_fence_wait_pause(&wait, now, &pool->closing);
        now = sl_os_now();
    }
    sl_fence_wait_end(&wait, &pool->speed, &entry->timing);
    return copy_result(entry, fence);
}

int sl_fence_pool_drain(struct sl_fence_pool *pool, int64_t timeout_ns)
{
    int64_t deadline = sl_os_deadline(timeout_ns);
    int r = 0;

    for (uint32_t i = 0; i < SL_FENCE_POOL_WORDS && r == 0; i++) {
        const struct sl_fence *fence = &pool->entries[i].fence;
        int64_t left = deadline == SLUICE_FOREVER ? SLUICE_FOREVER : deadline - sl_os_now();
        if (fence->word && !is_reached(fence))
            r = sl_fence_pool_wait(pool, fence, 0, left > 0 ? left : 0);
    }
    return r;
}

/* ---- tickets ---- */

static int fail_unknown(void)
{
    return sl_fail(SLUICE_E_HANDLE, "not a ticket of send or fetch");
}

/* Finds the pool that issued the ticket, with one more reference. */
static int find_pool(uint64_t id, struct sl_fence_pool **out)
{
    uint32_t number = (uint32_t)(id >> (INDEX_BITS + SERIAL_BITS));
    struct sl_fence_pool *pool = number > 0 && number <= MAX_POOLS ? sl_load(&pools[number - 1], acquire) : NULL;

    if (!pool || serial_of(id) == 0 || serial_of(id) > sl_load(&last_serial, seq_cst))
        return fail_unknown();
    if (!hold_pool(pool))
        return fail_closed();
    if (sl_load(&pool->closing, seq_cst) || serial_of(id) <= pool->first_serial) {
        drop_pool(pool);
        return fail_closed();
    }
    *out = pool;
    return 0;
}

/* If the index has a later ticket, this one's work has ended, and the fence is one that is reached. */
static int find_fence(struct sl_fence_pool *pool, uint64_t id, struct sl_fence *fence)
{
    struct entry *entry = entry_of(pool, id);

    *fence = (struct sl_fence){ .id = id, .word = &pool->words[entry - pool->entries], .value = 0 };
    sl_mutex_lock(&pool->lock);
    uint64_t last = entry->serial;
    if (last == serial_of(id))
        *fence = entry->fence;
    sl_mutex_unlock(&pool->lock);
    return last < serial_of(id) ? fail_unknown() : 0;
}

int sl_ticket_wait(uint64_t id, int64_t timeout_ns)
{
    struct sl_fence_pool *pool;
    struct sl_fence fence;
    int r;

    if (id == SL_TICKET_DONE)
        return 0;
    if (id == SL_TICKET_UNKNOWN)
        return sl_fail(SLUICE_E_BUSY,
                       "it is not known when this copy ends: %d others were under way when it was queued",
                       SL_FENCE_POOL_WORDS);
    if (id == 0)
        return sl_fail(SLUICE_E_HANDLE, "zero ticket: send or fetch fills it in");
    if ((r = sl_object_forked()) != 0 || (r = find_pool(id, &pool)) != 0)
        return r;
    if ((r = find_fence(pool, id, &fence)) == 0)
        r = sl_fence_pool_wait(pool, &fence, 0, timeout_ns);
    drop_pool(pool);
    return r;
}
