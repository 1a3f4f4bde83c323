/* SPDX-License-Identifier: MIT
 *
 * Time, and random numbers.
 */
#include <errno.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/time.h>

#include "os/posix/posix.h"
#include "os_kit.h"

TEST(clock_runs_forward)
{
    int64_t before = sl_os_now();
    CHECK(before > 0);
    for (int i = 0; i < 1000; i++) {
        int64_t now = sl_os_now();
        CHECK(now >= before);
        before = now;
    }
}

TEST(clock_coarse_is_late_by_ten_milliseconds_at_most)
{
    int64_t until = sl_os_deadline(20 * SLUICE_S);
    for (int in_time = 0; in_time < 1000;) {
        int64_t before = sl_os_now(), coarse = sl_os_now_coarse();
        CHECK_LE(coarse, sl_os_now());
        CHECK_LE(before, until);
        in_time +=
            coarse >= before - 11 * SLUICE_MS; /* except while the CPU that updates the kernel's time is suspended */
    }
}

TEST(clock_deadlines_saturate)
{
    CHECK(sl_os_deadline(SLUICE_FOREVER) == SLUICE_FOREVER);
    CHECK(sl_os_deadline(SLUICE_FOREVER - 1) == SLUICE_FOREVER);
    int64_t before = sl_os_now(), deadline = sl_os_deadline(SLUICE_S);
    CHECK_GE(deadline, before + SLUICE_S);
    CHECK_LE(deadline, sl_os_now() + SLUICE_S);
    CHECK(sl_os_deadline(0) <= sl_os_now());
    CHECK(sl_os_deadline(-SLUICE_S) < before);
    CHECK(sl_os_deadline(INT64_MIN) < 0);
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
}

TEST(clock_sleeps_through_signals)
{
    struct sigaction action = { .sa_handler = on_alarm };
    struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    int64_t before = sl_os_now();
    sl_os_sleep(20 * SLUICE_MS);
    CHECK_GE(sl_os_now() - before, 20 * SLUICE_MS);
    before = sl_os_now();
    sl_os_sleep(0);
    sl_os_sleep(-5);
    sl_os_sleep(INT64_MIN);
    CHECK_LE(sl_os_now() - before, 20 * SLUICE_S);
}

TEST(clock_random_numbers)
{
    uint64_t ones = 0, zeros = 0, before = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t value = sl_os_random();
        CHECK(value && value != before);
        ones |= value;
        zeros |= ~value;
        before = value;
    }
    CHECK(!~ones && !~zeros);
}

/* ---- a copy of the file for a kernel without random numbers ---- */

static ssize_t no_getrandom(void *buffer, size_t size, unsigned flags)
{
    static int calls;
    (void)buffer;
    (void)size;
    (void)flags;
    errno = calls++ % 2 ? ENOSYS : EINTR;
    return -1;
}

static int64_t poor_now(void);
static int64_t poor_now_coarse(void);
static int64_t poor_deadline(int64_t timeout_ns);
static void poor_sleep(int64_t ns);
static void poor_yield(void);
static uint64_t poor_random(void);
static struct timespec poor_timespec(int64_t ns);

#define getrandom        no_getrandom
#define sl_os_now        poor_now
#define sl_os_now_coarse poor_now_coarse
#define sl_os_deadline   poor_deadline
#define sl_os_sleep      poor_sleep
#define sl_os_yield      poor_yield
#define sl_os_random     poor_random
#define sl_timespec      poor_timespec
#include "os/posix/clock.c"

TEST(clock_random_numbers_without_the_kernel)
{
    uint64_t ones = 0, zeros = 0, before = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t value = poor_random();
        CHECK(value && value != before);
        ones |= value;
        zeros |= ~value;
        before = value;
    }
    CHECK(!~ones && !~zeros);
    CHECK(poor_now_coarse() > 0);
    poor_sleep(1);
    poor_yield();
}
