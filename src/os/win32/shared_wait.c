/* SPDX-License-Identifier: MIT
 *
 * Waits on words of named memory, across processes. WaitOnAddress reaches this process only, so each waiting thread
 * has an event with a name, and a small section beside the memory says which of them wait:
 *
 * - whoever waits sets its bit, looks at the word once more, and waits for its event;
 * - whoever wakes takes all bits, and sets the event of each.
 *
 * A process that died while it waited leaves a bit that costs one event, and a place that is given away.
 */
#include "os/win32/win32.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 64 };
#define POLL (2 * SLUICE_MS) /* between looks at the word where there is no place */

struct places {
    sl_word waiting;        /* a bit for each place */
    sl_word32 pids[PLACES]; /* whose it is; 0: free */
};

struct sl_shared {
    struct sl_shared *next;
    const char *address;
    uint64_t size;
    uint32_t users; /* the mapping, and calls under way; under the lock */
    HANDLE section;
    struct places *places;
    sl_word32 taken[PLACES]; /* a thread of ours waits there */
    _Atomic(HANDLE) events[PLACES];
    _Atomic(HANDLE) bell; /* the doorbell of cuda-link's writer; NULL: not found yet */
    char name[SL_OS_NAMED + 1];
};

static SRWLOCK lock = SRWLOCK_INIT;
static struct sl_shared *first;

void sl_shared_add(const void *address, uint64_t size, const char *name)
{
    struct sl_shared *shared = *name ? calloc(1, sizeof *shared) : NULL;
    wchar_t wide[SL_OBJECT_NAME];

    if (!shared)
        return;
    strcpy(shared->name, name);
    sl_beside_name("sluice_wait_", name, "", wide);
    shared->section = CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, 0, sizeof *shared->places, wide);
    if (shared->section)
        shared->places = MapViewOfFile(shared->section, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, sizeof *shared->places);
    shared->address = address;
    shared->size = size;
    shared->users = 1;
    AcquireSRWLockExclusive(&lock);
    shared->next = first;
    first = shared;
    ReleaseSRWLockExclusive(&lock);
}

struct sl_shared *sl_shared_find(const void *word)
{
    AcquireSRWLockExclusive(&lock);
    struct sl_shared *shared = first;
    while (shared && ((const char *)word < shared->address || (const char *)word >= shared->address + shared->size))
        shared = shared->next;
    if (shared)
        shared->users++;
    ReleaseSRWLockExclusive(&lock);
    return shared;
}

static void finish(struct sl_shared *shared)
{
    for (int i = 0; i < PLACES; i++) {
        HANDLE event = sl_load(&shared->events[i], relaxed);
        if (event)
            CloseHandle(event);
        uint32_t ours = sl_os_pid();
        if (shared->places && sl_load(&shared->taken[i], relaxed) == 2)
            atomic_compare_exchange_strong(&shared->places->pids[i], &ours, 0);
    }
    HANDLE bell = sl_load(&shared->bell, relaxed);
    if (bell)
        CloseHandle(bell);
    if (shared->places)
        UnmapViewOfFile(shared->places);
    if (shared->section)
        CloseHandle(shared->section);
    free(shared);
}

void sl_shared_drop(struct sl_shared *shared)
{
    AcquireSRWLockExclusive(&lock);
    bool last = --shared->users == 0;
    ReleaseSRWLockExclusive(&lock);
    if (last)
        finish(shared);
}

void sl_shared_remove(const void *address)
{
    AcquireSRWLockExclusive(&lock);
    struct sl_shared **at = &first;
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    struct sl_shared *shared = *at;
    if (shared)
        *at = shared->next;
    ReleaseSRWLockExclusive(&lock);
    if (shared)
        sl_shared_drop(shared);
}

/* ---- places: free, taken by a waiting thread of ours, or kept by this process for the next one ---- */

enum { FREE, WAITING, KEPT };

static HANDLE event_of(struct sl_shared *shared, int place)
{
    HANDLE event = sl_load(&shared->events[place], acquire), none = NULL;
    wchar_t name[SL_OBJECT_NAME];
    char number[8];

    if (event)
        return event;
    snprintf(number, sizeof number, ".%d", place);
    sl_beside_name("sluice_wake_", shared->name, number, name);
    if (!(event = CreateEventW(NULL, FALSE, FALSE, name)))
        return NULL;
    if (atomic_compare_exchange_strong(&shared->events[place], &none, event))
        return event;
    CloseHandle(event); /* another thread was quicker */
    return none;
}

static int take_place(struct sl_shared *shared)
{
    for (int dead = 0; shared->places && dead < 2; dead++)
        for (int i = 0; i < PLACES; i++) {
            uint32_t mine = sl_load(&shared->taken[i], relaxed), pid = sl_load(&shared->places->pids[i], acquire);
            if (mine == WAITING || !atomic_compare_exchange_strong(&shared->taken[i], &mine, WAITING))
                continue;
            if (mine == KEPT && pid == sl_os_pid())
                return i;
            if ((pid == 0 || (dead && !sl_os_process_runs(pid))) &&
                atomic_compare_exchange_strong(&shared->places->pids[i], &pid, sl_os_pid()))
                return i;
            sl_store(&shared->taken[i], FREE, release);
        }
    return -1;
}

/* ---- waiting ---- */

/* cuda-link's writers ring it for one waiting program. Sluice's readers listen to it only if the writer is not
 * Sluice's, which wakes them otherwise: so they do not take it away from a reader of cuda-link's. */
static HANDLE bell_of(struct sl_shared *shared)
{
    HANDLE bell = sl_load(&shared->bell, acquire), none = NULL;
    wchar_t name[SL_OBJECT_NAME];

    sl_beside_name("sluice_lock_", shared->name, "", name);
    HANDLE writer = OpenMutexW(SYNCHRONIZE, FALSE, name);
    if (writer) {
        CloseHandle(writer);
        return NULL;
    }
    if (bell)
        return bell;
    sl_beside_name("cudalink_db_", shared->name, "", name);
    if (!(bell = OpenEventW(SYNCHRONIZE, FALSE, name)))
        return NULL;
    if (atomic_compare_exchange_strong(&shared->bell, &none, bell))
        return bell;
    CloseHandle(bell);
    return none;
}

int sl_shared_wait(struct sl_shared *shared, const sl_word32 *word, uint32_t value, int64_t deadline, uint32_t pid)
{
    HANDLE writer = pid ? OpenProcess(SYNCHRONIZE, FALSE, pid) : NULL;
    int place = take_place(shared), woken = 0;
    HANDLE handles[2] = { place < 0 ? NULL : event_of(shared, place), pid ? writer : bell_of(shared) };

    if (!handles[0]) {
        int64_t soon = sl_os_deadline(POLL);
        (void)sl_wait_until(NULL, 0, soon < deadline ? soon : deadline);
        woken = soon < deadline;
    } else {
        uint64_t bit = UINT64_C(1) << place;
        atomic_fetch_or(&shared->places->waiting, bit);
        woken = sl_load(word, seq_cst) != value ? 1 : 1 + sl_wait_until(handles, handles[1] ? 2 : 1, deadline);
        atomic_fetch_and(&shared->places->waiting, ~bit);
    }
    if (place >= 0)
        sl_store(&shared->taken[place], KEPT, release);
    if (writer)
        CloseHandle(writer);
    return !woken ? SLUICE_TIMEOUT : woken == 2 && writer ? SLUICE_CLOSED : 0;
}

void sl_shared_wake(struct sl_shared *shared)
{
    uint64_t waiting =
        shared->places && sl_load(&shared->places->waiting, seq_cst) ? sl_exchange(&shared->places->waiting, 0) : 0;

    for (; waiting; waiting &= waiting - 1) {
        HANDLE event = event_of(shared, __builtin_ctzll(waiting));
        if (event)
            SetEvent(event);
    }
}
