/* SPDX-License-Identifier: MIT
 *
 * One launch, for the files that check it and do it.
 */
#ifndef SL_KERNEL_LAUNCH_H
#define SL_KERNEL_LAUNCH_H

#include "kernel/kernel.h"

union sl_slot {
    int64_t integer;
    double float64;
    float float32;
    void *pointer;
};

/* Lies on the stack; only the arguments that exist are initialised. */
struct sl_launching {
    struct sl_kernel *kernel;
    struct sl_stream *stream;
    const struct sl_argument *arguments;
    bool any_host; /* host arrays were passed */
    struct sl_call call;
    union sl_slot slots[SLUICE_MAX_PARAMETERS];
    struct sl_picture pictures[SLUICE_MAX_PARAMETERS];
};

/* arguments.c: fills in call.values. */
int sl_arguments_check(struct sl_launching *launching);

/* ---- stage.c: host arrays ---- */

struct sl_staged {
    void *host, *device;
    uint64_t bytes;
    bool in, out, pinned;
};

struct sl_stage {
    uint32_t count;
    struct sl_staged arrays[SLUICE_MAX_PARAMETERS];
};

/* Lists the arrays to copy: none on host, where they are used in place. Returns SLUICE_E_INVALID if they overlap,
 * SLUICE_E_CAPTURING. */
int sl_stage_check(const struct sl_launching *launching, struct sl_stage *stage);

/* before: copies them in, and puts their addresses on the GPU into the slots. after: copies them back if the kernel was
 * queued (`result` is 0), frees the memory, and waits if it must. Returns `result`, or its own failure. */
int sl_stage_before(struct sl_launching *launching, struct sl_stage *stage);
int sl_stage_after(struct sl_launching *launching, struct sl_stage *stage, int result);

#endif
