/* SPDX-License-Identifier: MIT
 *
 * The supervisor of a storm's processes: starts, kills, stops and restarts them, and notices when one makes no
 * progress.
 */
#ifndef STORM_SUPERVISOR_H
#define STORM_SUPERVISOR_H

#include "harness/test.h"
#include "storm/worker.h"

/* Seconds without progress. */
double supervisor_limit(void);

struct process {
    struct child child;
    bool stopped;
    int64_t go_on_ns; /* when a stopped one is to be resumed */
    int64_t born_ns;
    uint64_t beat[2];    /* the last value seen; two for the process with two threads */
    int64_t still_ns[2]; /* how long it has been the same */
};

struct supervisor {
    struct shared_state *state;
    uint64_t seed;
    struct worker dice; /* for worker_random */
    struct process processes[PROCESSES];
    bool resting[PROCESSES]; /* not to be restarted */
    int64_t looked_ns;
    uint64_t kills, by_point, while_stopped, stops, starts;
    uint64_t at_point[64];
};

void supervisor_begin(struct supervisor *supervisor, struct shared_state *state, uint64_t seed);

/* Starts all that neither run nor rest. */
void supervisor_start(struct supervisor *supervisor);

/* Records and restarts those that ended, resumes stopped ones in time, and fails the test if one makes no progress. To
 * be called every few milliseconds. */
void supervisor_poll(struct supervisor *supervisor);

void supervisor_kill(struct supervisor *supervisor, unsigned seat);
void supervisor_stop(struct supervisor *supervisor, unsigned seat, int64_t ns);
void supervisor_resume(struct supervisor *supervisor);

/* Waits until every reader that does not rest has taken frames of the present session. */
void supervisor_wait_progress(struct supervisor *supervisor);

/* Waits until all have exited by themselves. */
void supervisor_wait_end(struct supervisor *supervisor);

/* Writes the record, to the file that SLUICE_STORM_RECORD names; fails if a kill point never killed and all should
 * have. */
void supervisor_report(const struct supervisor *supervisor, double seconds, bool all_points);

/* Prints the state of a process. */
void supervisor_show(const struct supervisor *supervisor, unsigned seat);

#endif
