/* SPDX-License-Identifier: MIT */
#include "processes.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

static sigset_t original_mask; /* which forked processes get back */

/* So that sigtimedwait can take it. */
static void block_child_signal(void)
{
    static bool blocked;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, blocked ? NULL : &original_mask);
    blocked = true;
}

struct process *process_start(struct processes *all, process_run *run, void *argument, int index)
{
    struct process *list = realloc(all->at, (all->count + 1) * sizeof *list);
    pid_t parent = getpid();
    if (!list)
        return NULL;
    all->at = list;
    block_child_signal();
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        return NULL;
    if (pid == 0) {
        sigprocmask(SIG_SETMASK, &original_mask, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        run(argument, index);
        _exit(0);
    }
    list[all->count] = (struct process){ .pid = pid };
    return &list[all->count++];
}

bool processes_reap(struct processes *all, struct process_end *end)
{
    pid_t pid;
    while ((pid = waitpid(-1, &end->status, WNOHANG)) > 0)
        for (size_t i = 0; i < all->count; i++) {
            struct process *process = &all->at[i];
            if (process->pid != pid)
                continue;
            process->pid = 0;
            end->index = i;
            end->failed = WIFSIGNALED(end->status) ? !process->victim : WEXITSTATUS(end->status) != 0;
            return true;
        }
    return false;
}

void processes_wait(int64_t until)
{
    int64_t left = until - clock_ns();
    sigset_t child;
    if (left <= 0)
        return;
    const struct timespec time = { .tv_sec = left / KIT_S, .tv_nsec = left % KIT_S };
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigtimedwait(&child, NULL, &time);
}

void processes_kill(struct processes *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i].pid > 0)
            kill(all->at[i].pid, SIGKILL);
    for (size_t i = 0; i < all->count; i++)
        while (all->at[i].pid > 0 && waitpid(all->at[i].pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    all->count = 0;
}

void processes_close(struct processes *all)
{
    processes_kill(all);
    free(all->at);
    *all = (struct processes){ 0 };
}

/* ---- CPUs ---- */

void cpu_pin(int cpu)
{
    cpu_set_t *set = cpu < 0 ? NULL : CPU_ALLOC(CPUS_MAX);
    size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    if (!set)
        return;
    CPU_ZERO_S(size, set);
    CPU_SET_S((size_t)cpu, size, set);
    sched_setaffinity(0, size, set);
    CPU_FREE(set);
}

void cpus_keep_half(bool second, int least)
{
    cpu_set_t all, half;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < least)
        return;
    CPU_ZERO(&half);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && (seen++ >= CPU_COUNT(&all) / 2) == second)
            CPU_SET(cpu, &half);
    sched_setaffinity(0, sizeof half, &half);
}
