/* SPDX-License-Identifier: MIT
 *
 * One page that the supervisor and all processes of a storm share: who does what, how far each has
 * come, and what is asked of all: their test_board.
 */
#ifndef STORM_SHARED_STATE_H
#define STORM_SHARED_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MAX_SEATS  16
#define POINT_NAME 24

enum weather {
    STORM = 1, /* anything may be killed or stopped */
    CALM,      /* nothing is: everybody must come forward */
    SLOTS,     /* the writer counts the slots it can begin */
    END,       /* everybody closes and leaves */
};

enum { RECENT = 64 };

struct seat {
    _Atomic uint64_t beat;    /* raised whenever a call came back */
    _Atomic uint64_t doing;   /* the call it is in: up to 8 letters */
    _Atomic uint64_t frames;  /* taken, or committed */
    _Atomic uint64_t ready; /* a writer's frames, which a GPU may make long after their commit */
    _Atomic int64_t ready_ns[RECENT]; /* when they were, by their number */
    _Atomic uint64_t session; /* of the frame taken last; a writer's own */
    _Atomic uint64_t stolen; /* a writer's: unread frames that it took back from readers in order */
    _Atomic uint64_t checked; /* frames looked at, since the storm began */
    char died_at[POINT_NAME]; /* the kill point it ended at */
};

struct board {
    _Atomic uint32_t weather;
    _Atomic uint32_t change;     /* counts changes of the weather */
    _Atomic uint32_t slots_done; /* the change that the writer has counted its slots for */
    struct seat seats[MAX_SEATS];
};

/* "begin", "acquire"...: what this seat does from now on. */
void board_doing(struct seat *seat, const char *what);
void board_beat(struct seat *seat);

/* A frame that a writer has committed is ready. One thread at a time. */
void board_ready(struct seat *seat);

/* When the first of the frames behind the `before`th was ready, or INT64_MAX for none. Of many only the latest are known. */
int64_t board_first_ready(const struct seat *seat, uint64_t before);

/* Has this weather held since `change`? */
bool board_still(const struct board *board, enum weather weather, uint32_t change);

/* "NAME:COUNT" or "-": this process kills itself when it passes the point for the COUNTth time in a
 * storm. */
void board_arm(const struct board *board, struct seat *seat, const char *spec);

#endif
