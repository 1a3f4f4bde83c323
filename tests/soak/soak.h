/* SPDX-License-Identifier: MIT
 *
 * What the processes of a soak share: one page of counters, so that measuring disturbs nobody.
 */
#ifndef SOAK_SOAK_H
#define SOAK_SOAK_H

#include <stdatomic.h>
#include <stdint.h>

#define CHANNEL  "soak"
#define CHAPTERS 12 /* in a row of the record: each row covers every rate, format and reopening */

enum seat_number {
    SEAT_WRITER,
    SEAT_NEWEST,
    SEAT_IN_ORDER,
    SEAT_HOLDING, /* in order, three frames at a time */
    SEAT_POLLING, /* waits on sluice_reader_fd alone */
    SEAT_THIRD,   /* takes every third frame */
    SEAT_OPENER,  /* opens and closes all the time, in all modes */
    SEAT_OBSERVER,
    SEAT_PYTHON, /* where there is one */
    SEATS,
};

/* Latencies by size: eight steps for each doubling. */
#define STEPS 512

struct seat {
    _Atomic uint64_t frames; /* taken, or committed */
    _Atomic uint64_t openings;
    _Atomic uint64_t dropped;        /* the writer's */
    _Atomic uint64_t asked;          /* the observer's queries */
    _Atomic uint32_t latency[STEPS]; /* commit to acquire */
};

enum stage { RUN, READERS_LEAVE, ALL_LEAVE };

struct shared_state {
    _Atomic uint32_t stage;
    _Atomic int64_t chapter_ns;
    struct seat seats[SEATS];
};

/* The most that all readers together may hold. */
#define MOST_LEASES 16

/* The step of a time, and the time in the middle of a step. */
unsigned step_of(int64_t ns);
double step_ns(unsigned step);

#endif
