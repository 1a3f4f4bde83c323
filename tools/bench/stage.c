/* SPDX-License-Identifier: MIT
 *
 * The processes of a bench: forked before anything uses the library, each on its CPU, with memory
 * that they share; all of them are gone when the stage closes, whatever happens.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/term.h"
#include "bench.h"
#include "kit/failure.h"
#include "kit/memory.h"

#define END_TIMEOUT (10 * SLUICE_S)

bool stage_open(struct stage *stage, size_t shared_size)
{
    *stage = (struct stage){ .size = shared_size, .shared = memory_shared(shared_size) };
    if (stage->shared && failure_open()) {
        failure_clear();
        return true;
    }
    say_error("bench", "out of shared memory.");
    stage_close(stage);
    return false;
}

struct actor {
    void *shared;
    int cpu;
    stage_act *act;
};

static void run(void *argument, int index)
{
    const struct actor *actor = argument;
    cpu_pin(actor->cpu);
    actor_timers_begin();
    actor->act(actor->shared, index);
    actor_timers_end();
}

static bool start_actor(struct stage *stage, int cpu, bool victim, stage_act *act, int index)
{
    struct actor actor = { .shared = stage->shared, .cpu = cpu, .act = act };
    struct process *process = process_start(&stage->processes, run, &actor, index);
    if (!process) {
        say_error("bench", "cannot start a process: %s.", strerror(errno));
        return false;
    }
    process->victim = victim;
    return true;
}

bool stage_start(struct stage *stage, int cpu, stage_act *act, int index)
{
    return start_actor(stage, cpu, false, act, index);
}

bool stage_start_victim(struct stage *stage, stage_act *act, int index)
{
    return start_actor(stage, BENCH_ANY_CPU, true, act, index);
}

static void burn(void *shared, int index)
{
    (void)shared;
    (void)index;
    for (volatile unsigned long work = 0;; work = work + 1)
        continue;
}

bool stage_start_burners(struct stage *stage, const struct bench *bench)
{
    for (int i = 0; i < bench->cpu_count; i++)
        if (!stage_start(stage, bench->cpus[i], burn, i))
            return false;
    return true;
}

/* True when an actor has failed or the lead, which was started first, has ended. */
static bool is_over(struct stage *stage, const char *bench, bool *well)
{
    struct process_end end;
    while (processes_reap(&stage->processes, &end)) {
        if (end.failed) {
            if (!stop_asked())
                say_error("bench", "%s: %s.", bench, failure_text()[0] ? failure_text() : "one of its processes died");
            *well = false;
            return true;
        }
        if (end.index == 0) {
            *well = true;
            return true;
        }
    }
    return false;
}

bool stage_play(struct stage *stage, const char *bench, int64_t timeout_ns)
{
    int64_t until = clock_ns() + timeout_ns;
    bool well = false;
    while (!stop_asked() && !is_over(stage, bench, &well)) {
        if (clock_ns() >= until) {
            say_error("bench", "%s: timed out.", bench);
            return false;
        }
        processes_wait(until);
    }
    return well;
}

/* With timers each actor is asked to end by itself, and gives what it has. */
static void end_actors(struct stage *stage)
{
    int64_t until = clock_ns() + END_TIMEOUT;
    size_t running = 0;
    struct process_end end;
    for (size_t i = 0; i < stage->processes.count; i++)
        if (stage->processes.at[i].pid > 0) {
            kill(stage->processes.at[i].pid, SIGTERM);
            running++;
        }
    while (running > 0 && clock_ns() < until)
        if (processes_reap(&stage->processes, &end))
            running--;
        else
            processes_wait(until);
}

void stage_close(struct stage *stage)
{
    if (bench_timers_on())
        end_actors(stage);
    processes_close(&stage->processes);
    if (stage->shared)
        munmap(stage->shared, stage->size);
    *stage = (struct stage){ 0 };
}
