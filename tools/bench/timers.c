/* SPDX-License-Identifier: MIT
 *
 * sluice bench --timers: the times of the stages of each call, gathered from all actors in shared memory. An
 * actor that still works when the stage closes is asked to end and adds its timers.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/term.h"
#include "bench.h"
#include "kit/memory.h"

#define MOST_STAGES 64

/* The timers of all processes of the current row. */
static struct gathered {
    struct {
        atomic_ullong count, total, longest, buckets[SLUICE_TIMER_BUCKETS];
    } stages[MOST_STAGES];
} * gathered;

bool bench_timers_open(void)
{
    gathered = memory_shared(sizeof *gathered);
    if (gathered)
        return true;
    say_error("bench", "out of memory for timers.");
    return false;
}

bool bench_timers_on(void)
{
    return gathered != NULL;
}

/* ---- in actors ---- */

static void add_timers(void)
{
    static struct sluice_timer timers[MOST_STAGES];
    size_t count = 0;
    (void)sluice_timers(timers, MOST_STAGES, &count);
    for (size_t i = 0; i < count && i < MOST_STAGES; i++) {
        unsigned long long longest = atomic_load(&gathered->stages[i].longest);
        atomic_fetch_add(&gathered->stages[i].count, timers[i].count);
        atomic_fetch_add(&gathered->stages[i].total, timers[i].total_ns);
        for (int k = 0; k < SLUICE_TIMER_BUCKETS; k++)
            atomic_fetch_add(&gathered->stages[i].buckets[k], timers[i].buckets[k]);
        while (timers[i].longest_ns > longest &&
               !atomic_compare_exchange_weak(&gathered->stages[i].longest, &longest, timers[i].longest_ns))
            continue;
    }
}

static void add_timers_and_end(int number)
{
    (void)number;
    add_timers(); /* only memory is read and written */
    _exit(0);
}

void actor_timers_begin(void)
{
    if (!gathered)
        return;
    signal(SIGTERM, add_timers_and_end);
    actor_check(sluice_timers_set(1), "timers");
}

void actor_timers_end(void)
{
    if (!gathered)
        return;
    signal(SIGTERM, SIG_IGN);
    add_timers();
}

/* ---- afterwards ---- */

/* The upper end of the bucket with this percentile. */
static int64_t bound(const struct sluice_timer *timer, double part)
{
    uint64_t seen = 0, end;
    int k = 0;
    while (k < SLUICE_TIMER_BUCKETS - 1 && (double)(seen += timer->buckets[k]) < part * (double)timer->count)
        k++;
    end = UINT64_C(2) << k;
    return (int64_t)(end < timer->longest_ns ? end : timer->longest_ns);
}

void bench_timers_note(struct bench *bench, const char *row)
{
    struct sluice_timer timers[MOST_STAGES];
    size_t count = 0;
    if (!gathered)
        return;
    (void)sluice_timers(timers, MOST_STAGES, &count); /* for their names */
    for (size_t i = 0; i < count && i < MOST_STAGES; i++) {
        struct sluice_timer *timer = &timers[i];
        timer->count = atomic_load(&gathered->stages[i].count);
        timer->total_ns = atomic_load(&gathered->stages[i].total);
        timer->longest_ns = atomic_load(&gathered->stages[i].longest);
        for (int k = 0; k < SLUICE_TIMER_BUCKETS; k++)
            timer->buckets[k] = atomic_load(&gathered->stages[i].buckets[k]);
        struct bench_stage *stages =
            timer->count ? realloc(bench->stages, (bench->stage_count + 1) * sizeof *stages) : NULL;
        if (!stages)
            continue;
        bench->stages = stages;
        stages[bench->stage_count++] = (struct bench_stage){
            .bench = row,
            .count = timer->count,
            .mean = (int64_t)(timer->total_ns / timer->count),
            .p50 = bound(timer, 0.5),
            .p99 = bound(timer, 0.99),
            .longest = (int64_t)timer->longest_ns,
        };
        memcpy(stages[bench->stage_count - 1].name, timer->name, sizeof timer->name);
    }
    memset(gathered, 0, sizeof *gathered);
}

void bench_timers_json(const struct bench *bench, struct json *json)
{
    json_key(json, "stages");
    json_array(json);
    for (size_t i = 0; i < bench->stage_count; i++) {
        const struct bench_stage *stage = &bench->stages[i];
        json_object(json);
        json->compact = true; /* one row a line */
        json_pair_string(json, "bench", stage->bench);
        json_pair_string(json, "stage", stage->name);
        json_pair_uint(json, "n", stage->count);
        json_pair_int(json, "mean_ns", stage->mean);
        json_pair_int(json, "p50_under_ns", stage->p50);
        json_pair_int(json, "p99_under_ns", stage->p99);
        json_pair_int(json, "longest_ns", stage->longest);
        json_close(json);
        json->compact = false;
    }
    json_close_array(json);
}

void bench_timers_text(const struct bench *bench)
{
    static const char *const headers[] = { "bench", "stage", ">n", ">mean", ">p50 under", ">p99 under", ">longest" };
    struct table table;
    if (bench->stage_count == 0)
        return;
    printf("\n");
    table_begin(&table, headers, sizeof headers / sizeof headers[0]);
    for (size_t i = 0; i < bench->stage_count; i++) {
        const struct bench_stage *stage = &bench->stages[i];
        const int64_t values[] = { stage->mean, stage->p50, stage->p99, stage->longest };
        char text[TERM_TEXT];
        table_cell(&table, COLOUR_PLAIN, "%s", stage->bench);
        table_cell(&table, COLOUR_PLAIN, "%s", stage->name);
        table_cell(&table, COLOUR_DIM, "%llu", (unsigned long long)stage->count);
        for (size_t k = 0; k < 4; k++)
            table_cell(&table, COLOUR_PLAIN, "%s", text_duration(text, values[k]));
    }
    table_print(&table);
}
