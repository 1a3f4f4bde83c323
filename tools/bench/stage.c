/* SPDX-License-Identifier: MIT
 *
 * The processes of a bench: forked before anybody uses the library, each on its CPU, with memory
 * that they share; all of them are gone when the stage closes, whatever happens.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../common/term.h"
#include "bench.h"

#define END_TIME (10 * SLUICE_S)

bool stage_open(struct stage *stage, size_t shared_size)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);

    *stage = (struct stage){ .size = shared_size };
    stage->shared =
        mmap(NULL, shared_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stage->shared == MAP_FAILED)
        stage->shared = NULL;
    if (stage->shared && actor_failure_open())
        return true;
    say_error("bench", "out of shared memory.");
    stage_close(stage);
    return false;
}

static void pin(int cpu)
{
    cpu_set_t *set = CPU_ALLOC(BENCH_CPUS);
    if (!set || cpu < 0)
        return;
    CPU_ZERO_S(CPU_ALLOC_SIZE(BENCH_CPUS), set);
    CPU_SET_S((size_t)cpu, CPU_ALLOC_SIZE(BENCH_CPUS), set);
    sched_setaffinity(0, CPU_ALLOC_SIZE(BENCH_CPUS), set);
    CPU_FREE(set);
}

static struct stage_actor *start(struct stage *stage, int cpu, stage_act *act, int index)
{
    struct stage_actor *actors = realloc(stage->actors, (stage->actor_count + 1) * sizeof *actors);
    pid_t parent = getpid();
    if (!actors) {
        say_error("bench", "out of memory for a process.");
        return NULL;
    }
    stage->actors = actors;
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        say_error("bench", "cannot start a process: %s.", strerror(errno));
        return NULL;
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        pin(cpu);
        actor_timers_begin();
        act(stage->shared, index);
        actor_timers_end();
        _exit(0);
    }
    actors[stage->actor_count] = (struct stage_actor){ .pid = pid };
    return &actors[stage->actor_count++];
}

int stage_start(struct stage *stage, int cpu, stage_act *act, int index)
{
    struct stage_actor *actor = start(stage, cpu, act, index);
    return actor ? actor->pid : 0;
}

int stage_start_victim(struct stage *stage, stage_act *act, int index)
{
    struct stage_actor *actor = start(stage, BENCH_ANY_CPU, act, index);
    if (actor)
        actor->victim = true;
    return actor ? actor->pid : 0;
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

static struct stage_actor *find_actor(struct stage *stage, pid_t pid)
{
    for (size_t i = 0; i < stage->actor_count; i++)
        if (stage->actors[i].pid == pid)
            return &stage->actors[i];
    return NULL;
}

/* Takes note of actors that have ended. True when the stage is over. */
static bool is_over(struct stage *stage, const char *bench, bool *well)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct stage_actor *actor = find_actor(stage, pid);
        if (!actor)
            continue;
        bool lead = actor == stage->actors;
        bool killed = actor->victim && WIFSIGNALED(status);
        actor->pid = 0;
        if (!killed && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
            if (!stop_asked())
                say_error("bench", "%s: %s.", bench,
                          actor_failure()[0] ? actor_failure() : "one of its processes died");
            *well = false;
            return true;
        }
        if (lead) {
            *well = true;
            return true;
        }
    }
    return false;
}

bool stage_play(struct stage *stage, const char *bench, int64_t patience_ns)
{
    int64_t until = now_ns() + patience_ns;
    sigset_t child;
    bool well = false;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    while (!stop_asked() && !is_over(stage, bench, &well)) {
        int64_t left = until - now_ns();
        if (left <= 0) {
            say_error("bench", "%s: timed out.", bench);
            return false;
        }
        struct timespec wait = { .tv_sec = left / SLUICE_S, .tv_nsec = left % SLUICE_S };
        sigtimedwait(&child, NULL, &wait);
    }
    return well;
}

/* With timers each actor is asked to end by itself, in a moment. */
static void let_end(struct stage *stage)
{
    int64_t until = now_ns() + END_TIME;
    bool any = true;
    for (size_t i = 0; i < stage->actor_count; i++)
        if (stage->actors[i].pid > 0)
            kill(stage->actors[i].pid, SIGTERM);
    while (any && now_ns() < until) {
        any = false;
        for (size_t i = 0; i < stage->actor_count; i++) {
            struct stage_actor *actor = &stage->actors[i];
            if (actor->pid > 0 && waitpid(actor->pid, NULL, WNOHANG) == actor->pid)
                actor->pid = 0;
            any = any || actor->pid > 0;
        }
        if (any)
            sleep_until(now_ns() + SLUICE_MS);
    }
}

void stage_close(struct stage *stage)
{
    if (bench_timers_on())
        let_end(stage);
    for (size_t i = 0; i < stage->actor_count; i++)
        if (stage->actors[i].pid > 0)
            kill(stage->actors[i].pid, SIGKILL);
    for (size_t i = 0; i < stage->actor_count; i++)
        while (stage->actors[i].pid > 0 && waitpid(stage->actors[i].pid, NULL, 0) < 0 &&
               errno == EINTR)
            continue;
    free(stage->actors);
    if (stage->shared)
        munmap(stage->shared, stage->size);
    *stage = (struct stage){ 0 };
}
