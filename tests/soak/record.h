/* SPDX-License-Identifier: MIT
 *
 * The record of a soak: a row a minute (or less, of a shorter soak) for each process, and the trend
 * over all rows.
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
    int samples;               /* of the row that is filled now */
    struct seat before[SEATS]; /* counters at its begin */
};

/* One look at a process: memory is averaged over a row, descriptors and the like are the most. */
void record_sample(struct record *record, unsigned seat, pid_t pid);

/* Ends the row that is filled now. */
void record_row(struct record *record, const struct board *board);

/* How much a column grew over the soak, from the median slope of all pairs of rows. The first sixth
 * does not count: tables and pools get their size. */
double record_growth(const struct record *record, unsigned seat, enum column column);
double record_mean(const struct record *record, unsigned seat, enum column column);

/* All of it as JSON, a line a row, into the file that SLUICE_SOAK_RECORD names. */
void record_write(const struct record *record, const pid_t *pids);

extern const char *const seat_names[SEATS];
extern const char *const column_names[COLUMNS];

#endif
