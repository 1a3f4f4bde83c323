/* SPDX-License-Identifier: MIT
 *
 * Counters and times: updated by any thread without a lock, and read by any.
 */
#include <stdio.h>
#include <string.h>

#include <sluice/timers.h>

#include "os/os.h"
#include "trace/trace.h"
#include "util/result.h"

/* Separate cache lines, so that threads in different stages do not slow each other down. */
struct counters {
    _Alignas(64) sl_word count;
    sl_word total, longest;
    sl_word buckets[SLUICE_TIMER_BUCKETS];
};

static struct counters all[SL_STAGE_COUNT];

static const struct {
    const char *name, *what;
} texts[] = {
#define TEXT(id, name, level, colour, what) { name, what },
    SL_STAGES(TEXT)
#undef TEXT
};

static void add(sl_word *word, uint64_t value)
{
    atomic_fetch_add_explicit(word, value, memory_order_relaxed);
}

static unsigned bucket_of(uint64_t ns)
{
    unsigned bucket = 0;

    while (ns >>= 1)
        bucket++;
    return bucket < SLUICE_TIMER_BUCKETS ? bucket : SLUICE_TIMER_BUCKETS - 1;
}

void sl_timers_add(enum sl_stage stage, int64_t ns)
{
    struct counters *counters = &all[stage];
    uint64_t took = ns > 0 ? (uint64_t)ns : 0;
    uint64_t longest = sl_load(&counters->longest, relaxed);

    add(&counters->count, 1);
    add(&counters->total, took);
    add(&counters->buckets[bucket_of(took)], 1);
    while (took > longest && !atomic_compare_exchange_weak_explicit(&counters->longest, &longest, took,
                                                                    memory_order_relaxed, memory_order_relaxed))
        ;
}

int sl_timers_clear(void)
{
    for (int i = 0; i < SL_STAGE_COUNT; i++) {
        struct counters *counters = &all[i];
        sl_store(&counters->count, 0, relaxed);
        sl_store(&counters->total, 0, relaxed);
        sl_store(&counters->longest, 0, relaxed);
        for (int k = 0; k < SLUICE_TIMER_BUCKETS; k++)
            sl_store(&counters->buckets[k], 0, relaxed);
    }
    return 0;
}

static void read_timer(int stage, struct sluice_timer *timer)
{
    const struct counters *counters = &all[stage];

    memset(timer, 0, sizeof *timer);
    strncpy(timer->name, texts[stage].name, sizeof timer->name - 1);
    strncpy(timer->what, texts[stage].what, sizeof timer->what - 1);
    timer->count = sl_load(&counters->count, relaxed);
    timer->total_ns = sl_load(&counters->total, relaxed);
    timer->longest_ns = sl_load(&counters->longest, relaxed);
    for (int k = 0; k < SLUICE_TIMER_BUCKETS; k++)
        timer->buckets[k] = sl_load(&counters->buckets[k], relaxed);
}

int sl_timers_read(struct sluice_timer *timers, size_t capacity, size_t *count)
{
    if (!count || (!timers && capacity > 0))
        return sl_fail(SLUICE_E_INVALID, "no place for the %s was given", count ? "timers" : "number of timers");
    for (size_t i = 0; i < capacity && i < SL_STAGE_COUNT; i++)
        read_timer((int)i, &timers[i]);
    *count = SL_STAGE_COUNT;
    return 0;
}

/* ---- printing ---- */

/* "12.3 us", always of the same width. */
static const char *time_text(char text[16], double ns)
{
    static const char *const units[] = { "ns", "us", "ms", "s " };
    int unit = 0;

    while (ns >= 999.95 && unit < 3) {
        ns /= 1000;
        unit++;
    }
    snprintf(text, 16, unit ? "%7.1f %s" : "%7.0f %s", ns, units[unit]);
    return text;
}

/* The upper bound of the bucket that has the frame of this rank. */
static double bound(const struct sluice_timer *timer, double part)
{
    uint64_t seen = 0;
    int k = 0;

    while (k < SLUICE_TIMER_BUCKETS - 1 && (double)(seen += timer->buckets[k]) < part * (double)timer->count)
        k++;
    double end = (double)(UINT64_C(2) << k);
    return end < (double)timer->longest_ns ? end : (double)timer->longest_ns;
}

void sl_timers_print(void)
{
    char text[4096], program[32], a[16], b[16], c[16], d[16], e[16];
    size_t used = 0;

    sl_os_program(program, sizeof program);
    for (int i = 0; i < SL_STAGE_COUNT && used < sizeof text - 160; i++) {
        struct sluice_timer timer;
        read_timer(i, &timer);
        if (timer.count == 0)
            continue;
        if (used == 0)
            used = (size_t)snprintf(
                text, sizeof text, "sluice: timers of %s, process %u\n%-12s%10s%11s%11s%11s%11s%11s\n", program,
                sl_os_pid(), "stage", "count", "mean", "p50 under", "p99 under", "longest", "total");
        used += (size_t)snprintf(text + used, sizeof text - used, "%-12s%10llu %s %s %s %s %s\n", timer.name,
                                 (unsigned long long)timer.count,
                                 time_text(a, (double)timer.total_ns / (double)timer.count),
                                 time_text(b, bound(&timer, 0.5)), time_text(c, bound(&timer, 0.99)),
                                 time_text(d, (double)timer.longest_ns), time_text(e, (double)timer.total_ns));
    }
    fwrite(text, 1, used, stderr);
}
