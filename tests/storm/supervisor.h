/* SPDX-License-Identifier: MIT
 *
 * The supervisor's side of the processes of a storm: starts them, ends them, stops them, starts
 * them again, and notices when one comes no further.
 */
#ifndef STORM_SUPERVISOR_H
#define STORM_SUPERVISOR_H

#include "harness/test.h"
#include "storm/worker.h"

/* Seconds without progress. */
double crew_limit(void);

struct member {
    struct child child;
    bool stopped;
    int64_t go_on_ns; /* when a stopped one is to go on */
    int64_t born_ns;
    uint64_t beat[2];    /* as last seen; two for the process with two threads */
    int64_t still_ns[2]; /* for so long */
};

struct crew {
    struct board *board;
    uint64_t seed;
    struct part dice; /* for part_random */
    struct member members[PROCESSES];
    bool resting[PROCESSES]; /* not to be started again */
    int64_t looked_ns;
    uint64_t kills, by_point, while_stopped, stops, starts;
    uint64_t at_point[64];
};

void crew_begin(struct crew *crew, struct board *board, uint64_t seed);

/* Starts all that are neither there nor resting. */
void crew_start(struct crew *crew);

/* Takes note of those that ended, starts them again, wakes the stopped whose time it is, and fails
 * the test if one makes no progress. To be called every few milliseconds. */
void crew_look(struct crew *crew);

void crew_kill(struct crew *crew, unsigned seat);
void crew_stop(struct crew *crew, unsigned seat, int64_t ns);
void crew_go_on(struct crew *crew);

/* Waits until every reader that is not resting has taken frames of the session that is written now.
 */
void crew_all_forward(struct crew *crew);

/* Waits until all have left by themselves. */
void crew_wait_end(struct crew *crew);

/* Writes the record of what happened, into the file that SLUICE_STORM_RECORD names; fails if a kill
 * point never killed and all should. */
void crew_report(const struct crew *crew, double seconds, bool all_points);

/* Shows where a process is. */
void crew_show(const struct crew *crew, unsigned seat);

#endif
