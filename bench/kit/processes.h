/* SPDX-License-Identifier: MIT
 *
 * The processes of a bench: forked, placed on CPUs, awaited, and ended whatever happens. The process
 * that starts them uses neither Sluice nor a GPU itself, so that the forked ones can.
 */
#ifndef BENCH_KIT_PROCESSES_H
#define BENCH_KIT_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid;   /* 0 once it has ended */
    bool victim; /* another process may kill it */
};

struct processes {
    struct process *at;
    size_t count;
};

/* What a process does; it ends with status 0 when this returns. */
typedef void process_run(void *argument, int index);

/* Starts one more process, which is killed when this one ends. NULL: see errno. The pointer is valid until
 * the next start. `argument` may be on the caller's stack: the process has a copy. */
struct process *process_start(struct processes *all, process_run *run, void *argument, int index);

struct process_end {
    size_t index;
    bool failed; /* by its status, or by a signal if it is no victim */
    int status;  /* as waitpid returns it */
};

/* Takes one process that has ended; false if there is none. */
bool processes_reap(struct processes *all, struct process_end *end);

/* Sleeps until a process ends, a signal arrives or it is `until`. */
void processes_wait(int64_t until);

void processes_kill(struct processes *all);  /* and waits for their end */
void processes_close(struct processes *all); /* also frees the list */

/* ---- in a process: its CPUs ---- */

#define CPUS_MAX 1024

void cpu_pin(int cpu); /* negative: not at all */

/* The process keeps to one half of its CPUs, if it has at least so many. */
void cpus_keep_half(bool second, int least);

#endif
