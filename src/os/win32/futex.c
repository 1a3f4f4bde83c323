/* SPDX-License-Identifier: MIT
 *
 * Sleeps on words: within this process here, on words of named memory in shared_wait.c. Not WaitOnAddress, whose
 * time-outs are as coarse as Windows' ticks.
 */
#include "os/win32/win32.h"

enum { BUCKETS = 64 };

struct sleeper {
    struct sleeper *next;
    const sl_word32 *word;
    HANDLE event;
    bool woken;
};

static struct bucket {
    SRWLOCK lock;
    struct sleeper *first;
} buckets[BUCKETS]; /* zeros: SRWLOCK_INIT */

static struct bucket *bucket_of(const sl_word32 *word)
{
    return &buckets[((uintptr_t)word >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}

static void leave(struct bucket *bucket, struct sleeper *sleeper)
{
    struct sleeper **at = &bucket->first;

    while (*at && *at != sleeper)
        at = &(*at)->next;
    if (*at)
        *at = sleeper->next;
}

static int wait_here(const sl_word32 *word, uint32_t value, int64_t deadline)
{
    struct bucket *bucket = bucket_of(word);
    struct sleeper sleeper = { .word = word, .event = sl_thread_event() };

    if (!sleeper.event) {
        sl_os_sleep(SLUICE_MS);
        return 0;
    }
    AcquireSRWLockExclusive(&bucket->lock);
    bool same = sl_load(word, seq_cst) == value;
    if (same) {
        sleeper.next = bucket->first;
        bucket->first = &sleeper;
    }
    ReleaseSRWLockExclusive(&bucket->lock);
    if (!same)
        return 0;
    bool woken = sl_wait_until(&sleeper.event, 1, deadline) == 0;
    AcquireSRWLockExclusive(&bucket->lock);
    leave(bucket, &sleeper);
    ReleaseSRWLockExclusive(&bucket->lock);
    if (!woken && sleeper.woken) /* just now: the event is for this wait, not for the next one */
        woken = WaitForSingleObject(sleeper.event, 0) == WAIT_OBJECT_0;
    return woken ? 0 : SLUICE_TIMEOUT;
}

int sl_os_futex_wait_of(const sl_word32 *word, uint32_t value, int64_t deadline, uint32_t pid)
{
    struct sl_shared *shared;
    int r;

    if (sl_load(word, seq_cst) != value)
        return 0;
    if (deadline <= 0)
        return SLUICE_TIMEOUT;
    if (!(shared = sl_shared_find(word)))
        return wait_here(word, value, deadline);
    r = sl_shared_wait(shared, word, value, deadline, pid);
    sl_shared_drop(shared);
    return r;
}

int sl_os_futex_wait(const sl_word32 *word, uint32_t value, int64_t deadline)
{
    return sl_os_futex_wait_of(word, value, deadline, 0);
}

int sl_os_futex_wait_precise(const sl_word32 *word, uint32_t value, int64_t until)
{
    return sl_os_futex_wait(word, value, until);
}

void sl_os_futex_wake(const sl_word32 *word, int count)
{
    struct sl_shared *shared = sl_shared_find(word);

    if (shared) {
        sl_shared_wake(shared);
        sl_shared_drop(shared);
        return;
    }
    struct bucket *bucket = bucket_of(word);
    AcquireSRWLockExclusive(&bucket->lock);
    for (struct sleeper **at = &bucket->first; *at && count > 0;) {
        struct sleeper *sleeper = *at;
        if (sleeper->word != word) {
            at = &sleeper->next;
            continue;
        }
        *at = sleeper->next;
        sleeper->woken = true;
        SetEvent(sleeper->event);
        count--;
    }
    ReleaseSRWLockExclusive(&bucket->lock);
}
