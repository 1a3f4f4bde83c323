/* SPDX-License-Identifier: MIT */
#include "copy/fence_wait.h"

#include <sluice/base.h>

#include "os/os.h"

#define MIN_SPIN     (20 * INT64_C(1000))
#define MIN_SLEEP    (5 * INT64_C(1000))
#define MAX_SLEEP    (SLUICE_MS / 2)
#define SLEEP_ERROR  (20 * INT64_C(1000)) /* how late a sleep ends */
#define MAX_ESTIMATE (4 * SLUICE_S)

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void sl_copy_timing_start(struct sl_copy_timing *timing, uint64_t bytes)
{
    sl_store(&timing->queued_ns, (uint64_t)sl_os_now(), relaxed);
    sl_store(&timing->mib, (bytes >> 20) + 1, relaxed);
}

/* ---- the estimate ---- */

/* 0: not known. */
static int64_t estimate_duration(const struct sl_copy_speed *speed, const struct sl_copy_timing *timing)
{
    uint64_t mib = sl_load(&timing->mib, relaxed), ns_per_mib = sl_load(&speed->ns_per_mib, relaxed);

    if (mib == 0 || ns_per_mib == 0)
        return 0;
    return ns_per_mib < (uint64_t)MAX_ESTIMATE / mib ? (int64_t)(ns_per_mib * mib) : MAX_ESTIMATE;
}

/* A quarter of a short copy, an eighth of a long one, and a millisecond in between. */
static int64_t estimate_error(int64_t duration)
{
    return min(duration / 4, max(duration / 8, SLUICE_MS));
}

/* Moves the speed a little towards the copy's. A copy that ended during a sleep may have ended long before, so it only
 * ever lowers the speed's time, and at once. A copy that took long because of other work counts as twice the usual time
 * at most. */
static void update_speed(struct sl_copy_speed *speed, const struct sl_copy_timing *timing, bool ended_in_sleep)
{
    uint64_t mib = sl_load(&timing->mib, relaxed), old = sl_load(&speed->ns_per_mib, relaxed);

    if (mib == 0)
        return;
    int64_t took = sl_os_now() - (int64_t)sl_load(&timing->queued_ns, relaxed);
    uint64_t measured = took > 0 ? (uint64_t)took / mib : 0, updated = old - old / 4;
    if (old == 0 || (ended_in_sleep && measured < updated))
        updated = measured;
    else if (!ended_in_sleep)
        updated += (measured < 2 * old ? measured : 2 * old) / 4;
    sl_store(&speed->ns_per_mib, updated, relaxed);
}

/* ---- a wait ---- */

struct sl_fence_wait sl_fence_wait_begin(const struct sl_copy_speed *speed, const struct sl_copy_timing *timing,
                                         int64_t spin_ns, int64_t timeout_ns)
{
    int64_t now = sl_os_now(), duration = estimate_duration(speed, timing);
    struct sl_fence_wait wait = { .start = now,
                                  .spin_from = now,
                                  .spin_until = now + max(spin_ns, MIN_SPIN),
                                  .deadline = sl_os_deadline(timeout_ns) };

    if (duration == 0)
        return wait;
    int64_t end = (int64_t)sl_load(&timing->queued_ns, relaxed) + duration, error = estimate_error(duration);
    if (end - error - SLEEP_ERROR > now + SLEEP_ERROR)
        wait.spin_from = end - error - SLEEP_ERROR;
    if (end + error > now)
        wait.spin_until = end + error + MIN_SPIN;
    return wait;
}

/* After the estimated end, sleeps grow with the time that the wait has taken. */
void sl_fence_wait_pause(struct sl_fence_wait *wait, int64_t now, const sl_word32 *stop)
{
    int64_t until;

    wait->slept = now < wait->spin_from;
    if (wait->slept)
        until = min(wait->spin_from, now + MAX_SLEEP);
    else if (now < wait->spin_until)
        until = now;
    else
        until = now + min(max((now - wait->start) / 8, MIN_SLEEP), MAX_SLEEP);
    if (until == now)
        sl_pause();
    else
        (void)sl_os_futex_wait_precise(stop, 0, min(until, wait->deadline));
}

void sl_fence_wait_end(const struct sl_fence_wait *wait, struct sl_copy_speed *speed,
                       const struct sl_copy_timing *timing)
{
    update_speed(speed, timing, wait->slept);
}
