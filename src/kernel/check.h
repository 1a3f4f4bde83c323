/* SPDX-License-Identifier: MIT
 *
 * SLUICE_CHECK=streams, between its files: launch.c calls check.c, which asks history.c for earlier uses of the same
 * memory, which asks order.c whether a wait orders them.
 */
#ifndef SL_KERNEL_CHECK_H
#define SL_KERNEL_CHECK_H

#include "kernel/launch.h"

/* Bounds. What is forgotten counts as ordered: then a missing wait is not found, but none is reported falsely. */
#define SL_ORDER_STREAMS  64  /* streams in use; of more, the work of the least recently used counts as done */
#define SL_ORDER_EVENTS   256 /* the same for events */
#define SL_ORDER_CHANNELS 32
#define SL_HISTORY_USES   1024
#define SL_CHECK_SLOTS    128

/* ---- order.c: what is ordered behind what ---- */

/* Where a stream's work is queued. Two handles of one native stream have the same place. */
struct sl_place {
    const struct sl_device_ops *ops;
    const void *context;
    uintptr_t native; /* 0: the default stream */
    uint64_t thread, stream;
    bool blocking, captures;
};

/* A point of a stream's work. */
struct sl_moment {
    uint32_t at; /* the stream's number */
    uint64_t tick;
};

/* From now on waits are followed. Thread: any, once. */
void sl_order_follow(void);

/* Without the lock. */
void sl_order_place(struct sl_stream *stream, struct sl_place *place);

/* One lock guards what is in order.c and history.c. */
void sl_order_lock(void);
void sl_order_unlock(void);

/* With the lock: the moment of work that is queued there now. */
struct sl_moment sl_order_now(const struct sl_place *place);

/* With the lock: is what is queued at `later`, which was just made, ordered behind `earlier`? Has the CPU waited for
 * it? */
bool sl_order_is_behind(struct sl_moment later, struct sl_moment earlier);
bool sl_order_is_done(struct sl_moment moment);

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
    uint32_t use;    /* which of the uses */
    char *earlier;   /* "kernel 'blur' may still write it"; room for SL_HISTORY_TEXT */
    uint64_t stream; /* of the earlier one */
};
#define SL_HISTORY_TEXT 112

/* Adds the uses of one kernel. False if one is not ordered behind an earlier use of the same bytes: then none is added.
 * *number stands for them in undo, which removes them again. */
bool sl_history_add(const struct sl_place *place, const char *kernel, const struct sl_use *uses, uint32_t count,
                    uint64_t *number, struct sl_conflict *conflict);
void sl_history_undo(uint64_t number);

/* The memory begins anew: nobody uses it any more; other streams must be ordered behind `stream`, unless that is
 * SLUICE_ON_CPU. `text`: why, as in struct sl_conflict. */
void sl_history_begin(const void *memory, uint64_t bytes, struct sluice_stream stream, const char *text);

/* ---- check.c ---- */

/* SLUICE_E_ORDER. *number is for sl_check_launched, with the launch's result. */
int sl_check_launch(const struct sl_launching *launching, uint64_t *number);
void sl_check_launched(const struct sl_launching *launching, uint64_t number, int result);

#endif
