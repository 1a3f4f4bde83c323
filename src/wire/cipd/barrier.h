/* SPDX-License-Identifier: MIT
 *
 * The activation barrier: 64 bytes under one name for the machine, by which a sender that is just being
 * set up asks all others to skip their frames. Holders raise a count, checkers look at it.
 *
 * Python rewrites all 64 bytes at each change, so a change of ours may be undone; nothing here trusts the
 * count for longer than the stamp beside it is fresh. Only the count (8) and the skips (24) are changed
 * in place.
 *
 * One thread at a time for each object.
 */
#ifndef SL_WIRE_CIPD_BARRIER_H
#define SL_WIRE_CIPD_BARRIER_H

#include "os/os.h"
#include "wire/cipd/segment.h"

#define SL_CIPD_BARRIER_NAME "cudalink_activation_barrier"
#define SL_CIPD_BARRIER_MAGIC UINT32_C(0xCDA1BAAA)
#define SL_CIPD_BARRIER_BYTES 64
#define SL_CIPD_BARRIER_STALE INT64_C(5000000000) /* ns */
#define SL_CIPD_BARRIER_SETTLE 30                 /* published frames */

struct sl_cipd_barrier_state {
    uint32_t magic, version, count, skips, pid;
    uint64_t change_ns;
};

struct sl_cipd_barrier {
    char name[SL_CIPD_NAME + 1];
    int64_t stale_ns;
    uint32_t settle;                /* frames from the end of the set-up to the end of the hold */
    uint64_t skipped;               /* frames that `check` said to skip */
    const sl_word *changes;         /* another one when names may have come or gone (names.h); NULL: nobody tells */
    /* private from here on */
    struct sl_cipd_segment segment;
    int64_t look_ns;                /* next look for the name */
    int64_t alert_ns;               /* until then it is looked for often: something has come or gone */
    uint64_t seen;                  /* of *changes */
    uint32_t left;                  /* frames until the hold ends; 0: not counting */
    bool held;                      /* our one is in the count */
    bool said;                      /* that the barrier is stale */
};

/* `name` NULL: the machine's own (tests have one of theirs). SLUICE_E_NAME. */
int sl_cipd_barrier_init(struct sl_cipd_barrier *barrier, const char *name);

/* Checker, before each frame: must it be skipped? False if there is no barrier, nobody holds it, its stamp
 * is older than stale_ns, or it is something else. A skip is counted in the segment. A caller that skips calls
 * sl_cipd_produce_skip. Looks for the name each 10 ms at most while there is none, and each 250 ms whether it still is the
 * same; where `changes` tells, so only for a second from a change on, else each second. */
bool sl_cipd_barrier_check(struct sl_cipd_barrier *barrier, int64_t now_ns);

/* Holder, before it begins its set-up: makes the segment if need be, adds itself. A count that a holder left which
 * died (above 0, its stamp stale) begins at 0 again. One that somebody else is just making, or writing, is waited for, a second
 * at most. A failure means only that nobody is held up. */
int sl_cipd_barrier_enter(struct sl_cipd_barrier *barrier, int64_t now_ns);

/* Holder, behind its set-up: the hold ends `settle` published frames later (0: at once). */
void sl_cipd_barrier_settle(struct sl_cipd_barrier *barrier, int64_t now_ns);

/* Holder, behind each frame that it published. */
void sl_cipd_barrier_published(struct sl_cipd_barrier *barrier, int64_t now_ns);

/* Holder: takes itself off the count, which stays at 0 if it is 0. Does nothing if not held. */
void sl_cipd_barrier_leave(struct sl_cipd_barrier *barrier, int64_t now_ns);

/* Holder, now and then while it holds: gives the name back if it was taken away. */
void sl_cipd_barrier_tend(struct sl_cipd_barrier *barrier);

/* Leaves if need be, unmaps. The segment stays: it is the machine's. */
void sl_cipd_barrier_finish(struct sl_cipd_barrier *barrier, int64_t now_ns);

/* What stands there; SLUICE_E_NOT_FOUND if nothing does. For people. */
int sl_cipd_barrier_look(const char *name, struct sl_cipd_barrier_state *state);

#endif
