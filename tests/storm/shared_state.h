/* SPDX-License-Identifier: MIT
 *
 * A page that the supervisor and all processes of a storm share: what each does, how far it has got, and the phase.
 */
#ifndef STORM_SHARED_STATE_H
#define STORM_SHARED_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MAX_SEATS  16
#define POINT_NAME 24

enum phase {
    STORM = 1, /* anything may be killed or stopped */
    CALM,      /* nothing is: everybody must make progress */
    SLOTS,     /* the writer counts the slots it can begin */
    END,       /* everybody closes and exits */
};

enum { RECENT = 64 };

struct seat {
    _Atomic uint64_t beat;            /* incremented whenever a call returned */
    _Atomic uint64_t doing;           /* the call it is in: up to 8 letters */
    _Atomic uint64_t frames;          /* taken, or committed */
    _Atomic uint64_t ready;           /* a writer's frames, which a GPU may finish long after their commit */
    _Atomic int64_t ready_ns[RECENT]; /* when they were, by their number */
    _Atomic uint64_t session;         /* of the frame taken last; a writer's own */
    _Atomic uint64_t stolen;          /* a writer's: unread frames that it took back from readers in order */
    _Atomic uint64_t checked;         /* frames checked since the storm began */
    char died_at[POINT_NAME];         /* the kill point at which it died */
};

struct shared_state {
    _Atomic uint32_t phase;
    _Atomic uint32_t change;     /* counts changes of the phase */
    _Atomic uint32_t slots_done; /* the change for which the writer has counted its slots */
    struct seat seats[MAX_SEATS];
};

/* "begin", "acquire"...: the call that this process is in from now on. */
void state_doing(struct seat *seat, const char *what);
void state_beat(struct seat *seat);

/* A frame that a writer has committed is ready. Called on one thread at a time. */
void state_ready(struct seat *seat);

/* When the first frame after the `before`th was ready, or INT64_MAX if none was. Only the latest ones are known. */
int64_t state_first_ready(const struct seat *seat, uint64_t before);

/* Has this phase held since `change`? */
bool state_still(const struct shared_state *state, enum phase phase, uint32_t change);

/* "NAME:COUNT" or "-": this process kills itself when it passes the point for the COUNTth time in a storm. */
void state_arm(const struct shared_state *state, struct seat *seat, const char *spec);

#endif
