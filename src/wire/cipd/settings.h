/* SPDX-License-Identifier: MIT
 *
 * The environment variables of cuda-link, under their names, with its defaults and its rules: a switch is on
 * by "1" alone, and what is no number means the default. docs/cuda-link.md has the table for users.
 */
#ifndef SL_WIRE_CIPD_SETTINGS_H
#define SL_WIRE_CIPD_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

/* What Sluice makes of a variable. */
enum sl_cipd_use {
    SL_CIPD_HONOURED,
    SL_CIPD_NO_EFFECT,    /* Sluice has nothing that it would change; `note` says why */
    SL_CIPD_TOUCHDESIGNER, /* of programs of cuda-link's own, inside or around TouchDesigner */
    SL_CIPD_IN_PYTHON,     /* by the package's module sluice.cuda_link alone */
};

struct sl_cipd_variable {
    const char *name;
    const char *standard; /* its value if not set, as text; "" for none */
    enum sl_cipd_use use;
    const char *note; /* what it does here, or why it does nothing: one clause */
};

/* All of them, the last one's name NULL. */
extern const struct sl_cipd_variable sl_cipd_variables[];

/* "honoured", "no effect here", "TouchDesigner's side", "in Python". */
const char *sl_cipd_use_text(enum sl_cipd_use use);

/* Those that are honoured. */
struct sl_cipd_settings {
    bool export_sync;         /* CUDALINK_EXPORT_SYNC: a publish waits for its copy */
    bool use_graphs;          /* CUDALINK_USE_GRAPHS */
    bool strict_device;       /* CUDALINK_STRICT_DEVICE */
    bool high_priority;       /* CUDALINK_LIB_STREAM_PRIO: not "normal" */
    bool barrier_check;       /* CUDALINK_ACTIVATION_BARRIER */
    bool barrier_hold;        /* CUDALINK_TD_ACTIVATION_BARRIER, for writers that are to hold it */
    int64_t barrier_stale_ns; /* CUDALINK_BARRIER_STALE_NS */
    uint32_t barrier_settle;  /* CUDALINK_TD_BARRIER_SETTLE_FRAMES */
    int64_t wait_spin_ns;     /* CUDALINK_WAIT_SPIN_US */
    bool doorbell;            /* CUDALINK_DOORBELL */
    bool gpu_wait;            /* CUDALINK_TORCH_GPU_WAIT */
    bool reconnect;           /* CUDALINK_IMPORT_RECONNECT */
};

/* Read from the environment at the first call, the same ever after. Any thread. */
const struct sl_cipd_settings *sl_cipd_settings(void);

/* What `get` (as getenv) says, read now: for tests. */
void sl_cipd_settings_read(struct sl_cipd_settings *settings, const char *(*get)(const char *name));

#endif
