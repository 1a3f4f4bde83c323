/* SPDX-License-Identifier: MIT
 *
 * The activation barrier: 64 bytes of shared memory with one name for the whole machine, by which a sender that is
 * being set up asks all others to skip their frames. Holders increment a count, checkers read it.
 *
 * Python rewrites all 64 bytes at each change, so it may undo a change of ours. Therefore the count is ignored
 * once the timestamp beside it is stale. Only the count (offset 8) and the skips (24) are changed
 * in place.
 *
 * One thread at a time for each object.
 */
#ifndef SL_CUDA_LINK_WIRE_BARRIER_H
#define SL_CUDA_LINK_WIRE_BARRIER_H

#include "cuda_link/wire/segment.h"
#include "os/os.h"

#define SL_CIPD_BARRIER_NAME   "cudalink_activation_barrier"
#define SL_CIPD_BARRIER_MAGIC  UINT32_C(0xCDA1BAAA)
#define SL_CIPD_BARRIER_BYTES  64
#define SL_CIPD_BARRIER_STALE  INT64_C(5000000000) /* ns */
#define SL_CIPD_BARRIER_SETTLE 30                  /* published frames */

struct sl_cipd_barrier_state {
    uint32_t magic, version, count, skips, pid;
    uint64_t change_ns;
};

struct sl_cipd_barrier {
    char name[SL_CIPD_NAME + 1];
    int64_t stale_ns;
    uint32_t settle;        /* frames from the end of the set-up to the end of the hold */
    uint64_t skipped;       /* frames that sl_cipd_barrier_check said to skip */
    const sl_word *changes; /* changes when names may have been added or removed (shm_watch.h); NULL: no such notice */
    /* private from here on */
    struct sl_cipd_segment segment;
    int64_t look_ns;  /* when to look for the name next */
    int64_t alert_ns; /* until then it looks often, as a name was added or removed */
    uint64_t seen;    /* the last value of *changes */
    uint32_t left;    /* frames until the hold ends; 0: not counting */
    bool held;        /* the count includes us */
    bool is_logged;   /* a stale barrier was logged */
};

/* `name` NULL: the machine's own (tests use their own). SLUICE_E_NAME. */
int sl_cipd_barrier_init(struct sl_cipd_barrier *barrier, const char *name);

/* Checker, before each frame: must it be skipped? False if there is no barrier, nobody holds it, its timestamp
 * is older than stale_ns, or it is something else. Counts a skip in the segment. A caller that skips calls
 * sl_cipd_write_skip. Looks for the name at most every 10 ms while there is none, and every 250 ms whether it still is
 * the same; with `changes` it does so only for a second after a change, else every second. */
bool sl_cipd_barrier_check(struct sl_cipd_barrier *barrier, int64_t now_ns);

/* Holder, before its set-up: makes the segment if need be, and adds itself to the count. What holders that died have
 * left of it (above 0, stale timestamp) is subtracted by one of those who enter then. Waits up to a second if another
 * process is making or writing the barrier. A failure only means that senders do not pause. */
int sl_cipd_barrier_enter(struct sl_cipd_barrier *barrier, int64_t now_ns);

/* Holder, after its set-up: the hold ends `settle` published frames later (0: at once). */
void sl_cipd_barrier_settle(struct sl_cipd_barrier *barrier, int64_t now_ns);

/* Holder, after each frame that it published. */
void sl_cipd_barrier_published(struct sl_cipd_barrier *barrier, int64_t now_ns);

/* Holder: removes itself from the count, which never goes below 0. Does nothing if not held. */
void sl_cipd_barrier_leave(struct sl_cipd_barrier *barrier, int64_t now_ns);

/* Holder, periodically while it holds: restores the name if it was removed. */
void sl_cipd_barrier_refresh(struct sl_cipd_barrier *barrier);

/* Leaves if need be, and unmaps. The segment stays: it is the machine's. */
void sl_cipd_barrier_finish(struct sl_cipd_barrier *barrier, int64_t now_ns);

/* Is a barrier with this time stamp ignored? Stamps slightly in the future count as current; those far in the future
 * are as stale as old ones. */
bool sl_cipd_barrier_stale(uint64_t change_ns, int64_t now_ns, int64_t limit_ns);

/* The barrier's contents, for display; SLUICE_E_NOT_FOUND if there is none. */
int sl_cipd_barrier_read(const char *name, struct sl_cipd_barrier_state *state);

#endif
