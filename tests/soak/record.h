/* SPDX-License-Identifier: MIT
 *
 * The record of a soak: a row for each process and minute (or less, in a shorter soak), and the trend over all rows.
 */
#ifndef SOAK_RECORD_H
#define SOAK_RECORD_H

#include <sys/types.h>

#include "soak/soak.h"

#define MAX_ROWS 60

enum column { FRAMES, P50_NS, P99_NS, RSS_KIB, PSS_KIB, OWN_KIB, FDS, MAPPINGS, THREADS, COLUMNS };

struct record {
    int rows;
    double row_seconds;
    double cells[MAX_ROWS][SEATS][COLUMNS];
    long dropped[MAX_ROWS], openings[MAX_ROWS], answers[MAX_ROWS];
    int leases[MAX_ROWS];      /* the most that were held at once */
    int samples;               /* in the present row */
    struct seat before[SEATS]; /* counters at its beginning */
};

/* Samples a process: memory is averaged over a row, for descriptors and the like the maximum counts. */
void record_sample(struct record *record, unsigned seat, pid_t pid);

/* Ends the present row. */
void record_row(struct record *record, const struct shared_state *shared);

/* The growth of a column over the soak, from the median slope of all pairs of rows. The first sixth does not count,
 * while tables and pools get their size. */
double record_growth(const struct record *record, unsigned seat, enum column column);
double record_mean(const struct record *record, unsigned seat, enum column column);

/* Writes all of it as JSON, one line for each row, to the file that SLUICE_SOAK_RECORD names. */
void record_write(const struct record *record, const pid_t *pids);

extern const char *const seat_names[SEATS];
extern const char *const column_names[COLUMNS];

#endif
