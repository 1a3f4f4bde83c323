/* SPDX-License-Identifier: MIT
 *
 * The environment variables of cuda-link, with the same names, defaults and rules: only "1" turns a switch
 * on, and a value that is not a number or out of range means the default. docs/cuda-link.md has the table for users.
 */
#ifndef SL_CUDA_LINK_WIRE_SETTINGS_H
#define SL_CUDA_LINK_WIRE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/cipd.h>

/* What Sluice makes of a variable. */
enum sl_cipd_use {
    SL_CIPD_HONOURED,
    SL_CIPD_NO_EFFECT,     /* it changes nothing in Sluice; `note` says why */
    SL_CIPD_TOUCHDESIGNER, /* only for cuda-link's own programs in and around TouchDesigner */
    SL_CIPD_IN_PYTHON,     /* honoured only by the Python module sluice.cuda_link */
};

/* What its value is. */
enum sl_cipd_kind {
    SL_CIPD_TEXT, /* also of those that have no effect */
    SL_CIPD_SWITCH,
    SL_CIPD_NUMBER,
};

struct sl_cipd_variable {
    const char *name;
    const char *standard; /* its default, as text; "" for none */
    enum sl_cipd_use use;
    enum sl_cipd_kind kind;
    int64_t least, most; /* of a number */
    const char *note;    /* what it does here, or why it does nothing: one clause */
};

/* All variables; the name of the last entry is NULL. */
extern const struct sl_cipd_variable sl_cipd_variables[];

/* How a value of it is read. */
enum sluice_cipd_reading sl_cipd_reading(const struct sl_cipd_variable *variable, const char *text);

/* The values of the variables that are honoured. */
struct sl_cipd_settings {
    bool export_sync;         /* CUDALINK_EXPORT_SYNC: a publish waits for its copy */
    bool use_graphs;          /* CUDALINK_USE_GRAPHS */
    bool strict_device;       /* CUDALINK_STRICT_DEVICE */
    bool high_priority;       /* CUDALINK_LIB_STREAM_PRIO: not "normal" */
    bool barrier_check;       /* CUDALINK_ACTIVATION_BARRIER */
    bool barrier_hold;        /* CUDALINK_TD_ACTIVATION_BARRIER, for writers that hold the barrier */
    int64_t barrier_stale_ns; /* CUDALINK_BARRIER_STALE_NS */
    uint32_t barrier_settle;  /* CUDALINK_TD_BARRIER_SETTLE_FRAMES */
    int64_t wait_spin_ns;     /* CUDALINK_WAIT_SPIN_US */
    bool gpu_wait;            /* CUDALINK_TORCH_GPU_WAIT */
    bool reconnect;           /* CUDALINK_IMPORT_RECONNECT */
};

/* The settings, read from the environment at the first call only. Any thread. */
const struct sl_cipd_settings *sl_cipd_settings(void);

/* Reads the settings now, by `get`, which is like getenv: for tests. */
void sl_cipd_settings_read(struct sl_cipd_settings *settings, const char *(*get)(const char *name));

#endif
