/* SPDX-License-Identifier: MIT
 *
 * sluice bench: what its files share. A bench starts processes (actors) on a stage, they measure,
 * and it puts rows into the report. The process that starts them never uses the library itself, so
 * that the forked ones can. bench/kit has what other benches need, too.
 */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <sluice/sluice.h>

#include "../common/json.h"
#include "kit/clock.h"
#include "kit/processes.h"
#include "kit/samples.h"
#include "kit/words.h"

/* ---- the run ---- */

struct bench {
    bool quick;
    const char *device; /* a GPU that channels are on; NULL: host memory */
    int cpus[CPUS_MAX]; /* that we may use; one of each core first */
    int cpu_count;
    double load; /* of the machine, when the run began */
    struct bench_row *rows;
    size_t row_count;
    struct bench_stage *stages; /* with --timers */
    size_t stage_count;
};

/* The time in ns for sampling that takes `seconds` in a full run. */
int64_t bench_time(const struct bench *bench, double seconds);

/* With two or more CPUs the lead runs on the first and the others in turn on the rest; with one
 * nothing is pinned. */
#define BENCH_ANY_CPU (-1)
int bench_cpu(const struct bench *bench, int index);

/* Fills in the CPUs that this process may use, and the load of the machine. */
void bench_find_cpus(struct bench *bench);

/* The rows. Each returns false after reporting why it failed. */
bool bench_clock_read(struct bench *bench);
bool bench_begin_commit(struct bench *bench);
bool bench_acquire_release(struct bench *bench);
bool bench_handoff_spinning(struct bench *bench);
bool bench_handoff_sleeping(struct bench *bench);
bool bench_handoff_size(struct bench *bench);
bool bench_readers(struct bench *bench);
bool bench_readers_idle(struct bench *bench);
bool bench_loaded_spinning(struct bench *bench);
bool bench_loaded_sleeping(struct bench *bench);
bool bench_send(struct bench *bench);
bool bench_fetch(struct bench *bench);
bool bench_idle_cpu(struct bench *bench);
bool bench_kill_reader(struct bench *bench);
bool bench_kill_writer(struct bench *bench);
bool bench_connect(struct bench *bench);
bool bench_convert_nv12(struct bench *bench);
bool bench_convert_tensor(struct bench *bench);
bool bench_kernel_launch(struct bench *bench);
bool bench_kernel_barrier(struct bench *bench);
bool bench_kernel_sobel(struct bench *bench);

/* ---- rows: report.c ---- */

extern const char bench_commit[]; /* that was built */

#define BENCH_MIN_SAMPLES 10 /* samples, also when a busy machine leaves no time for them */

#define BENCH_PARAMS 10

struct bench_row {
    const char *bench;
    struct bench_param {
        const char *name;
        const char *text; /* NULL: the number */
        int64_t number;
        bool is_bool;
    } params[BENCH_PARAMS];
    size_t param_count;
    struct percentiles times;
    int64_t limit_p50;
    size_t count;
    bool has_limit;
};

/* A row of these samples, which it sorts; `limit` (or NULL) are those of the bare limit. The row is
 * valid until the next one is made. NULL if there are no samples. */
struct bench_row *bench_row(struct bench *bench, const char *name, struct samples *samples, struct samples *limit);
void row_int(struct bench_row *row, const char *name, int64_t value);
void row_text(struct bench_row *row, const char *name, const char *value);
void row_bool(struct bench_row *row, const char *name, bool value);
/* Whether processes were pinned, and where the first two ran. */
void row_cpus(struct bench_row *row, const struct bench *bench, const char *first, const char *second);

void bench_print_json(const struct bench *bench, FILE *out);
void bench_print_text(const struct bench *bench);

/* ---- timers of the actors' calls: timers.c ---- */

/* One stage in all processes of a row. p50 and p99 are upper bounds of these percentiles. */
struct bench_stage {
    const char *bench;
    char name[16];
    uint64_t count;
    int64_t mean, p50, p99, longest; /* nanoseconds */
};

/* Actors that are started from now on have timers. */
bool bench_timers_open(void);
bool bench_timers_on(void);

/* In an actor, before and after what it does; nothing if timers are off. */
void actor_timers_begin(void);
void actor_timers_end(void);

/* Stores the timers of a row's processes and clears them for the next row. */
void bench_timers_note(struct bench *bench, const char *row);
void bench_timers_json(const struct bench *bench, struct json *json); /* the key "stages" */
void bench_timers_text(const struct bench *bench);

/* ---- processes: stage.c ---- */

struct stage {
    void *shared; /* memory that all actors share, zeroed */
    size_t size;
    struct processes processes;
};

/* What an actor does. The actor ends when it returns. */
typedef void stage_act(void *shared, int index);

bool stage_open(struct stage *stage, size_t shared_size);

/* Starts an actor that does `act(shared, index)`. The first one started leads: when it ends the
 * stage is over. A victim may be killed by another actor. */
bool stage_start(struct stage *stage, int cpu, stage_act *act, int index);
bool stage_start_victim(struct stage *stage, stage_act *act, int index);

/* One process a CPU that does nothing but keep it busy. */
bool stage_start_burners(struct stage *stage, const struct bench *bench);

/* Waits until the lead ends. False after reporting why, if an actor failed or time ran out. */
bool stage_play(struct stage *stage, const char *bench, int64_t timeout_ns);
void stage_close(struct stage *stage); /* ends all actors */

/* ---- in the processes: actor.c ---- */

/* How long actors wait for each other, long enough for a busy machine. */
#define ACTOR_TIMEOUT (20 * SLUICE_S)
_Noreturn void actor_fail(const char *what);    /* with the library's sentence */
void actor_check(int result, const char *what); /* fails if not 0 */

/* Puts the channels of all actors started later on this GPU; NULL: in host memory. */
void actor_set_device(const char *device);

/* The stream of the actor's commits and releases: its own on the GPU, else SLUICE_ON_CPU. */
struct sluice_stream actor_stream(void);
/* Memory that frames are sent from and fetched into, pinned for a GPU. It is never freed. */
void *actor_memory(uint64_t bytes);
bool actor_on_gpu(void);

/* A channel of this name whose frames are `bytes` long, and a reader of it. */
sluice_writer *actor_writer(const char *name, uint64_t bytes, uint32_t slots);
sluice_reader *actor_waiting_reader(const char *name); /* there need not be a writer yet */
sluice_reader *actor_reader(const char *name, uint32_t mode, uint32_t depth, int64_t spin_ns);

#endif
