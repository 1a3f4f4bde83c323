/* SPDX-License-Identifier: MIT
 *
 * The processes of a storm. A worker is a role started with its seat's number, its kill point and a seed.
 */
#ifndef STORM_WORKER_H
#define STORM_WORKER_H

#include <sluice/sluice.h>

#include "storm/content.h"
#include "storm/frame_io.h"
#include "storm/shared_state.h"

/* Channel "near" has one writer; the chain reads it and writes "far". */
#define NEAR "near"
#define FAR  "far"

enum seat_number {
    SEAT_WRITER,
    SEAT_NEWEST,
    SEAT_IN_ORDER,
    SEAT_HOLDING,  /* in order, two frames at a time, released in any order */
    SEAT_POLLING,  /* waits on sluice_reader_fd alone */
    SEAT_OBSERVER, /* queries info and lists */
    SEAT_OPENER,   /* keeps opening and closing */
    SEAT_THREADS,  /* two readers in two threads of a process; the second one has the last seat */
    SEAT_CHAIN,
    SEAT_FAR_POLLING,
    SEAT_FAR_IN_ORDER,
    PROCESSES,
    SEAT_SECOND_THREAD = PROCESSES,
    SEATS,
};

struct worker {
    struct shared_state *state;
    struct seat *seat;
    uint64_t random;
    struct frame_io *io; /* its thread's */
};

/* A random number below `n`. */
uint64_t worker_random(struct worker *worker, uint64_t n);

/* True with a probability of 1 in `n`. */
bool worker_chance(struct worker *worker, uint64_t n);

/* ---- reading.c ---- */

#define MOST_HELD 3

struct reading {
    struct worker *worker;
    const char *channel;
    uint32_t mode, depth, hold, every;
    bool far;  /* its metadata was inherited */
    bool poll; /* waits on the descriptor */
    sluice_reader *reader;
    uint64_t session, last, dropped; /* of the frame taken last; 0: none to compare with */
    uint64_t lost;                   /* frames overwritten before they were taken, in this session */
    struct sluice_frame held[MOST_HELD];
    uint32_t held_count;
    int64_t spurious_since; /* when the descriptor began to be readable without a frame; 0: it is not */
};

void reading_open(struct reading *reading, int64_t timeout_ns);
void reading_close(struct reading *reading);

/* Waits for a frame, checks it and keeps it, releasing others if needed. True if one came; it is the last of
 * reading->held. */
bool reading_take(struct reading *reading, int64_t timeout_ns);

/* Checks a held frame again and releases it. False if the writer had taken it back. */
bool reading_give_back(struct reading *reading, uint32_t index);

/* Takes frames until the end of the storm. */
void reading_run(struct reading *reading);

/* ---- writing.c ---- */

struct writing {
    struct worker *worker;
    const char *channel;
    sluice_writer *writer;
    uint64_t session, last, dropped;
    uint64_t rows; /* capacity */
    unsigned kind;
};

void writing_open(struct writing *writing);
void writing_close(struct writing *writing);

/* Begins, fills and commits one frame. In a chain it inherits from the first one that `from` holds, and that one was
 * whole to the end. */
void writing_frame(struct writing *writing, struct reading *from);

/* Changes the format. */
void writing_reformat(struct writing *writing);

/* With only a reader that holds nothing, all slots but the head's can be begun. Waits up to 2 s for those of the dead.
 * */
void writing_count_slots(struct writing *writing);

#endif
