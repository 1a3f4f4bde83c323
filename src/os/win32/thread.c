/* SPDX-License-Identifier: MIT
 *
 * Mutexes and threads.
 */
#include "os/win32/win32.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "util/result.h"

#ifndef CREATE_WAITABLE_TIMER_HIGH_RESOLUTION
#define CREATE_WAITABLE_TIMER_HIGH_RESOLUTION 2 /* Windows 10 1803 */
#endif

_Static_assert(sizeof(SRWLOCK) <= sizeof(sl_mutex), "room for a lock");

static SRWLOCK *native(sl_mutex *mutex)
{
    return (SRWLOCK *)(void *)mutex;
}

void sl_mutex_init(sl_mutex *mutex)
{
    InitializeSRWLock(native(mutex));
}

void sl_mutex_finish(sl_mutex *mutex)
{
    (void)mutex;
}

void sl_mutex_lock(sl_mutex *mutex)
{
    AcquireSRWLockExclusive(native(mutex));
}

void sl_mutex_unlock(sl_mutex *mutex)
{
    ReleaseSRWLockExclusive(native(mutex));
}

uint32_t sl_os_cpu_count(void)
{
    DWORD_PTR ours, machine;
    uint32_t count = 0;

    if (GetProcessAffinityMask(GetCurrentProcess(), &ours, &machine))
        count = (uint32_t)__builtin_popcountll(ours);
    return count ? count : 1;
}

void sl_os_name_thread(const char *name)
{
    typedef HRESULT(WINAPI * set_description)(HANDLE, PCWSTR); /* Windows 10 1607 */
    set_description set;
    wchar_t wide[32];

    void *found = sl_os_dl_symbol(GetModuleHandleW(L"kernel32.dll"), "SetThreadDescription");
    memcpy(&set, &found, sizeof set);
    if (set && sl_wide(name, wide, 32))
        set(GetCurrentThread(), wide);
}

int sl_os_reserve(uint64_t size, void **address)
{
    *address = VirtualAlloc(NULL, (SIZE_T)size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    return *address ? 0 : sl_fail_windows(GetLastError(), "reserving %" PRIu64 " bytes", size);
}

void *sl_os_aligned_alloc(size_t unit, size_t size)
{
    return _aligned_malloc(size, unit);
}

void sl_os_aligned_free(void *memory)
{
    _aligned_free(memory);
}

/* ---- what a thread keeps ---- */

struct kept {
    HANDLE timer, event;
};

static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
static DWORD key = FLS_OUT_OF_INDEXES;

static void WINAPI forget(void *mine)
{
    struct kept *kept = mine;

    if (!kept)
        return;
    if (kept->timer)
        CloseHandle(kept->timer);
    if (kept->event)
        CloseHandle(kept->event);
    free(kept);
}

static BOOL CALLBACK make_key(INIT_ONCE *unused, void *parameter, void **context)
{
    (void)unused;
    (void)parameter;
    (void)context;
    sl_stay_loaded(); /* each thread that ends calls `forget` */
    key = FlsAlloc(forget);
    return TRUE;
}

static struct kept *kept_by_thread(void)
{
    InitOnceExecuteOnce(&once, make_key, NULL, NULL);
    struct kept *kept = key == FLS_OUT_OF_INDEXES ? NULL : FlsGetValue(key);
    if (kept || key == FLS_OUT_OF_INDEXES || !(kept = calloc(1, sizeof *kept)))
        return kept;
    kept->timer = CreateWaitableTimerExW(NULL, NULL, CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, TIMER_ALL_ACCESS);
    if (!kept->timer)
        kept->timer = CreateWaitableTimerExW(NULL, NULL, 0, TIMER_ALL_ACCESS);
    kept->event = CreateEventW(NULL, FALSE, FALSE, NULL);
    FlsSetValue(key, kept);
    return kept;
}

HANDLE sl_thread_timer(void)
{
    struct kept *kept = kept_by_thread();

    return kept ? kept->timer : NULL;
}

HANDLE sl_thread_event(void)
{
    struct kept *kept = kept_by_thread();

    return kept ? kept->event : NULL;
}

/* ---- threads ---- */

struct start {
    void (*function)(void *argument);
    void *argument;
};

static DWORD WINAPI run(void *argument)
{
    struct start start = *(struct start *)argument;

    free(argument);
    sl_os_name_thread("sluice task");
    start.function(start.argument);
    return 0;
}

int sl_os_start_thread(void (*function)(void *argument), void *argument)
{
    struct start *start = malloc(sizeof *start);

    if (!start)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for a thread");
    *start = (struct start){ function, argument };
    sl_stay_loaded();
    HANDLE thread = CreateThread(NULL, 0, run, start, 0, NULL);
    if (!thread) {
        DWORD code = GetLastError();
        free(start);
        return sl_fail_windows(code, "starting a thread");
    }
    CloseHandle(thread);
    return 0;
}
