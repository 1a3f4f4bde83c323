/* SPDX-License-Identifier: MIT
 *
 * The world that the explorer walks: one writer and two readers on three or four slots.
 */
#ifndef MODEL_WORLD_H
#define MODEL_WORLD_H

#include "model/explore.h"
#include "native/protocol/lease.h"
#include "native/protocol/ring.h"

#define READERS     2
#define MOST_SLOTS  4
#define MOST_FRAMES 12 /* including those that are there at the beginning */
#define WRITER      0  /* the actors: the writer, then the readers */

/* A mutation of the code's accesses. */
enum mutation {
    NONE,
    WEAK_LEASE,    /* R2 is not seq_cst */
    WEAK_MARK,     /* W4 is not seq_cst: the writer looks, then marks */
    WEAK_PUBLISH,  /* W7 to W9 are relaxed: a frame may be seen before its content */
    NO_VALIDATION, /* R3 does not check */
    NO_RESTORE,    /* W6 does nothing */
    NO_CURSORS,    /* W3 does not check */
    NO_LEASES,     /* W5 does not check */
    CURSOR_FIRST,  /* I3 before I2 */
    HEAD_REUSED,   /* W1 takes the head's slot too */
    LAPSE_ALIVE,   /* a living reader's leases lapse */
    JOIN_LATE,     /* a reader begins before it is in the table */
};

struct setting {
    uint32_t mode[READERS], depth[READERS], hold[READERS];
    enum { THERE, JOINS, ABSENT } second; /* reader 1: from the start, from any time, or never */
    uint32_t slots;                       /* 0: three */
    uint32_t there;                       /* frames that were committed before it begins, and nobody has read */
    uint32_t frames;                      /* to be committed, or dropped */
    enum sl_keep keep;
    bool steal;         /* a starving writer takes unread frames */
    bool kill[READERS]; /* may die at any step */
    bool buffers;
    enum mutation mutation;
};

/* What is being explored. */
extern struct setting setting;

/* All of the state: shared words first, then each actor's own, then what the checks store. */
struct world {
    sl_word head, slot_seq[MOST_SLOTS], ready[MOST_SLOTS], data[MOST_SLOTS];
    sl_word lease_words[READERS][MOST_SLOTS], cursor[READERS];
    struct sl_reader_slot table[READERS];
    uint32_t table_count;
    uint32_t choosing; /* the writer has the channel lock */
    struct sl_lease lease[READERS];
    uint64_t taken[READERS], first[READERS];
    uint64_t hold[READERS][MOST_SLOTS]; /* frames that a reader relies on */
    uint32_t marked[MOST_FRAMES];       /* frames that the writer took back, or tried to */
    uint32_t in_table[READERS], joined[READERS], lapsed[READERS];
    uint64_t dropped;
    uint64_t withheld[READERS]; /* CURSOR_FIRST: the lease, and where */
    sl_word *withheld_at[READERS];
    struct sl_ring ring; /* the last: of its slots only the first are used */
};

extern struct world w;

/* Explores a setting; the path to a violation is printed if `print`. */
struct explore_result world_explore(struct setting what, bool print);

/* mutation.c: applies setting.mutation, and records which frames were marked. */
void mutate(struct explore_access *access);

#endif
