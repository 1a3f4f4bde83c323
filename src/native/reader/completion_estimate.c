/* SPDX-License-Identifier: MIT */
#include "native/reader/completion_estimate.h"

#define MAX_INTERVAL_NS        SLUICE_MS       /* between two polls */
#define UNRELIABLE_INTERVAL_NS (SLUICE_MS / 4) /* the same before completion, if recent estimates were wrong */

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- polling ---- */

static bool is_reliable(int64_t typical_error)
{
    return typical_error <= SL_POLL_WATCH_NS;
}

/* The pause doubles with the time since the commit: a frame may take far less time than those before it. */
static int64_t next_early_poll(int64_t now, int64_t since, int64_t typical_error)
{
    return now + max(now - since, is_reliable(typical_error) ? MAX_INTERVAL_NS : UNRELIABLE_INTERVAL_NS);
}

/* A frame that is expected a little later than the usual time of watching is watched for up to half as long again. */
static int64_t watch_end(int64_t now, int64_t expected)
{
    int64_t remaining = expected - now;

    return now + SL_POLL_WATCH_NS + max(0, min(remaining - SL_POLL_WATCH_NS / 2, SL_POLL_WATCH_NS / 2));
}

static int64_t next_late_poll(int64_t now, int64_t expected)
{
    int64_t overdue = now - expected;

    return now + max(min(overdue / 8, MAX_INTERVAL_NS), SL_POLL_INTERVAL_NS);
}

struct sl_poll_step sl_completion_estimate_next(const struct sl_completion_estimate *estimate, int64_t now,
                                                int64_t since, bool watched)
{
    int64_t expected_duration = (int64_t)sl_load(&estimate->duration_ns, relaxed);
    int64_t typical_error = (int64_t)sl_load(&estimate->error_ns, relaxed);
    int64_t expected = since + expected_duration;
    int64_t watch_start = expected - SL_POLL_WATCH_NS - min(2 * typical_error, expected_duration / 8);

    if (now < watch_start)
        return (struct sl_poll_step){ min(watch_start, next_early_poll(now, since, typical_error)), false };
    if (!watched && is_reliable(typical_error))
        return (struct sl_poll_step){ watch_end(now, expected), true };
    return (struct sl_poll_step){ next_late_poll(now, expected), false };
}

/* ---- learning ---- */

/* The frame completed at some time between the two polls. If that may have been the expected time, a slightly earlier
 * one is taken: a reader that always finds frames ready when it wakes could not tell by how much it wakes too late. */
static int64_t guess_duration(int64_t expected, int64_t unready, int64_t ready)
{
    int64_t margin = min((ready - unready) / 2, SL_POLL_WATCH_NS);

    if (expected == 0 || unready >= expected)
        return max(unready + margin, 1);
    return max(min(expected, ready) - margin, 1);
}

/* By how much the expected time missed the interval between the two polls. */
static int64_t measure_error(int64_t expected, int64_t unready, int64_t ready)
{
    return expected == 0 ? 0 : max(max(unready - expected, expected - ready), 0);
}

/* A moving average. One frame may at most double it, as a machine that was suspended says little about the GPU. A frame
 * that took less than half of it replaces it: it was a guess, or is out of date. */
static int64_t average_duration(int64_t average, int64_t duration)
{
    if (average == 0 || duration < average / 2)
        return duration;
    return average + (min(duration, 2 * average + 2 * SL_POLL_INTERVAL_NS) - average) / 4;
}

void sl_completion_estimate_update(struct sl_completion_estimate *estimate, int64_t unready_ns, int64_t ready_ns)
{
    int64_t expected = (int64_t)sl_load(&estimate->duration_ns, relaxed);
    int64_t typical_error = (int64_t)sl_load(&estimate->error_ns, relaxed);
    int64_t error = measure_error(expected, unready_ns, ready_ns);
    int64_t average = average_duration(expected, guess_duration(expected, unready_ns, ready_ns));

    error = min(error, max(average / 2, 4 * SL_POLL_WATCH_NS));
    sl_store(&estimate->duration_ns, (uint64_t)average, relaxed);
    sl_store(&estimate->error_ns, (uint64_t)(typical_error + (error - typical_error) / 4), relaxed);
}
