/* SPDX-License-Identifier: MIT
 *
 * Time, and random numbers.
 */
#include <errno.h>
#include <sched.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <sluice/base.h>

#include "os/posix/posix.h"
#include "util/atomic.h"

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * SLUICE_S + now.tv_nsec;
}

int64_t sl_os_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t sl_os_now_coarse(void)
{
#ifdef CLOCK_MONOTONIC_COARSE
    return read_clock(CLOCK_MONOTONIC_COARSE);
#else
    return read_clock(CLOCK_MONOTONIC);
#endif
}

struct timespec sl_timespec(int64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / SLUICE_S), .tv_nsec = (long)(ns % SLUICE_S) };
}

int64_t sl_os_deadline(int64_t timeout_ns)
{
    return sl_os_later(sl_os_now(), timeout_ns);
}

void sl_os_sleep(int64_t ns)
{
    if (ns <= 0)
        return;
    struct timespec until = sl_timespec(sl_os_deadline(ns));
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

/* If the kernel provides no random numbers: not secret, but hardly ever the same twice. */
static uint64_t mixed(void)
{
    static sl_word count;
    uint64_t x = (uint64_t)sl_os_now() ^ (uint64_t)getpid() << 40 ^ (uint64_t)(uintptr_t)&x;
    x += sl_add(&count, 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

void sl_os_yield(void)
{
    (void)sched_yield();
}

uint64_t sl_os_random(void)
{
    uint64_t value = 0;
    while (!value) {
        ssize_t got;
        SL_RETRY(got, getrandom(&value, sizeof(value), 0));
        if (got != sizeof(value))
            value = mixed();
    }
    return value;
}
