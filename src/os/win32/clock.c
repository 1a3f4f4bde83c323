/* SPDX-License-Identifier: MIT
 *
 * Time, and random numbers.
 */
#include "os/win32/win32.h"

#include <bcrypt.h>

#include <sluice/base.h>

/* QueryPerformanceCounter, as Python's perf_counter: times in a channel's memory are its. */
int64_t sl_os_now(void)
{
    static sl_word frequency; /* fixed while the system runs */
    int64_t per_second = (int64_t)sl_load(&frequency, relaxed);
    LARGE_INTEGER ticks;

    if (!per_second) {
        QueryPerformanceFrequency(&ticks);
        per_second = ticks.QuadPart;
        sl_store(&frequency, (uint64_t)per_second, relaxed);
    }
    QueryPerformanceCounter(&ticks);
    return ticks.QuadPart / per_second * SLUICE_S + ticks.QuadPart % per_second * SLUICE_S / per_second;
}

int64_t sl_os_now_coarse(void)
{
    return sl_os_now(); /* another clock, GetTickCount, has another zero */
}

int64_t sl_os_deadline(int64_t timeout_ns)
{
    return sl_os_later(sl_os_now(), timeout_ns);
}

int sl_wait_until(const HANDLE *handles, DWORD count, int64_t deadline)
{
    HANDLE all[MAXIMUM_WAIT_OBJECTS];
    DWORD patience = INFINITE, waits = count;

    for (DWORD i = 0; i < count; i++)
        all[i] = handles[i];
    if (deadline != SLUICE_FOREVER) {
        int64_t left = deadline - sl_os_now();
        LARGE_INTEGER due = { .QuadPart = -(left / 100) }; /* negative: from now on */
        HANDLE timer = left > 0 ? sl_thread_timer() : NULL;
        if (left <= 0) {
            patience = 0;
        } else if (timer && left >= 100 && SetWaitableTimer(timer, &due, 0, NULL, NULL, FALSE)) {
            all[waits++] = timer;
        } else {
            patience = left / SLUICE_MS < INT32_MAX ? (DWORD)(left / SLUICE_MS) + 1 : INT32_MAX;
        }
    }
    if (waits == 0) {
        Sleep(patience);
        return -1;
    }
    DWORD which = WaitForMultipleObjects(waits, all, FALSE, patience) - WAIT_OBJECT_0;
    return which < count ? (int)which : -1;
}

void sl_os_sleep(int64_t ns)
{
    if (ns > 0)
        (void)sl_wait_until(NULL, 0, sl_os_deadline(ns));
}

void sl_os_yield(void)
{
    SwitchToThread();
}

uint64_t sl_os_random(void)
{
    uint64_t value = 0;

    while (!value)
        if (BCryptGenRandom(NULL, (unsigned char *)&value, sizeof value, BCRYPT_USE_SYSTEM_PREFERRED_RNG) != 0)
            value = (uint64_t)sl_os_now() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)GetCurrentProcessId() << 40;
    return value;
}

int64_t sl_os_wall_clock(void)
{
    FILETIME now; /* in 100 ns since 1601 */

    GetSystemTimePreciseAsFileTime(&now);
    int64_t ticks = (int64_t)now.dwHighDateTime << 32 | (int64_t)now.dwLowDateTime;
    return (ticks - INT64_C(116444736000000000)) * 100;
}
