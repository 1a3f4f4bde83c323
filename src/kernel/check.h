/* SPDX-License-Identifier: MIT
 *
 * SLUICE_CHECK=streams, for its own files. launch.c calls check.c; that asks history.c for earlier uses of the same
 * memory; that asks order.c whether a wait orders them.
 */
#ifndef SL_KERNEL_CHECK_H
#define SL_KERNEL_CHECK_H

#include "kernel/launch.h"

/* Limits. A use that is forgotten counts as ordered: a missing wait may be overlooked, but none is reported falsely. */
#define SL_ORDER_STREAMS 64  /* streams; beyond that, the work of the least recently used one counts as done */
#define SL_ORDER_MARKS   320 /* likewise: 256 events, the commits and the releases of 32 channels */
#define SL_HISTORY_USES  1024
#define SL_CHECK_SLOTS   128

/* ---- order.c: what is ordered behind what ---- */

/* Where a stream's work is queued. Two handles of one native stream have the same queue. */
struct sl_place {
    const struct sl_device_ops *ops;
    uint64_t stream;
    struct sl_stream_queue queue;
    bool captures;
};

/* A point in a stream's work. */
struct sl_moment {
    uint32_t at; /* the stream's number */
    uint64_t tick;
};

/* Begins to follow waits. Call it once, on any thread. */
void sl_order_follow(void);

/* Call it without the lock. */
void sl_order_place(struct sl_stream *stream, struct sl_place *place);

/* One lock guards the data of order.c and history.c. */
void sl_order_lock(void);
void sl_order_unlock(void);

/* With the lock held: the moment of work that is queued there now. */
struct sl_moment sl_order_now(const struct sl_place *place);

/* With the lock held: does the work at `later`, a moment of now, run after the work at `earlier`? */
bool sl_order_is_behind(struct sl_moment later, struct sl_moment earlier);

/* ---- history.c: what launches did with memory ---- */

/* Rows of `row` bytes, `pitch` apart; a pitch of 0: all bytes. */
struct sl_range {
    uintptr_t begin, end;
    uint64_t row, pitch;
};

struct sl_use {
    struct sl_range range;
    bool writes;
};

struct sl_conflict {
    uint32_t use;    /* the number of the use in conflict */
    char *earlier;   /* "kernel 'blur' may still write it"; room for SL_HISTORY_TEXT */
    uint64_t stream; /* the earlier one's */
};
#define SL_HISTORY_TEXT 112

/* Adds the uses of one launch. False if nothing orders one of them after an earlier use of the same bytes: then none is
 * added. sl_history_undo(*number) removes them again. */
bool sl_history_add(const struct sl_place *place, const char *kernel, const struct sl_use *uses, uint32_t count,
                    uint64_t *number, struct sl_conflict *conflict);
void sl_history_undo(uint64_t number);

/* Forgets earlier uses of the memory. From now on other streams must wait for `stream` before they use it, unless that
 * is SLUICE_ON_CPU. `text` says why, as in struct sl_conflict. */
void sl_history_begin(const void *memory, uint64_t bytes, struct sluice_stream stream, const char *text);

/* ---- check.c ---- */

/* Returns SLUICE_E_ORDER if nothing orders the launch after an earlier one. Then launch, and pass *number and the
 * result to sl_check_launched. */
int sl_check_launch(const struct sl_launching *launching, uint64_t *number);
void sl_check_launched(const struct sl_launching *launching, uint64_t number, int result);

#endif
