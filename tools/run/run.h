/* SPDX-License-Identifier: MIT
 *
 * sluice run: a kernel between channels. A child process, the worker, does everything; it is started again if the
 * kernel crashes it.
 */
#ifndef TOOLS_RUN_H
#define TOOLS_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/sluice.h>

#define RUN_INPUTS   8
#define RUN_SETTINGS 64
#define RUN_OPTIONS  32
#define RUN_NAME     64
#define RUN_SOURCE   (4 << 20) /* bytes of a source, with its end */

/* Exit codes of the worker, besides those of the command. */
#define WORKER_CRASHED 70 /* the kernel has crashed the GPU's context */
#define WORKER_MOVED   71 /* the channels are on another device now */

/* A setting that the user has changed. */
struct run_value {
    char name[RUN_NAME], text[RUN_NAME];
};

struct run {
    const char *command; /* for messages */
    const char *path;    /* of the kernel */
    const char *name;    /* the last part of `path` */
    const char *from[RUN_INPUTS];
    uint32_t from_count;
    const char *to;
    const char *device, *kernel;
    const char *options[RUN_OPTIONS]; /* for the compiler */
    uint32_t option_count;
    uint32_t width, height; /* 0: those of the first FROM */
    uint32_t format;        /* 0: that of the first FROM */
    double rate;            /* 0: each frame of the first FROM */
    uint32_t slots;
    uint32_t max_frames; /* 0: no limit */
    bool watch, in_order, once, hash, quiet;
    int watch_fd; /* inotify, for the folder of the file `watched` */
    char watched[256];
    struct run_kept *kept;
};

/* What outlives a worker: in memory that all of them share. */
struct run_kept {
    struct run_value values[RUN_SETTINGS];
    uint32_t value_count;
    int64_t saved_ns;       /* when the file was saved, until it is read; 0: it was not */
    bool opened;            /* a worker has opened TO */
    bool untried;           /* the version that runs is another one than `works` */
    bool waits;             /* no version works: a new worker waits until the file is saved */
    char works[RUN_SOURCE]; /* the last version that has finished a frame; "": none yet */
};

/* Runs workers until one ends by itself, or a signal stops the command. Returns an exit code. */
int run_supervise(struct run *run);

/* The worker's life. Returns its exit code. */
int run_work(struct run *run);

/* Begins to watch the file; false after a message. */
bool run_watch(struct run *run);

/* The file's text, to be freed; NULL after a message. */
char *run_read(const struct run *run);

/* Parses "gain 2" or "gain=2"; false after a message. */
bool run_value_parse(const struct run *run, const char *line, struct run_value *value);

/* Remembers a value, for programs that are loaded later. */
void run_value_keep(struct run_kept *kept, const struct run_value *value);

/* ---- the names of parameters ---- */

struct run_parameter {
    char name[RUN_NAME];
    bool has_range;
    double initial, min, max; /* of the comment: = 1 (0..4) */
    char wrong[RUN_NAME];     /* a comment that was not understood, or "" */
};

/* Finds the parameters of a kernel with so many of them in the text of a source. False if there is none. */
bool run_parameters(const char *text, const char *kernel, uint32_t count, struct run_parameter *parameters);

/* ---- a compiled source ---- */

struct run_setting {
    struct run_parameter parameter;
    struct sluice_dtype dtype;
    double value;
};

/* Numbers that are no settings of the user: their places in the list of settings. */
enum { RUN_TIME, RUN_FRAME, RUN_RATE, RUN_GIVEN };

/* RUN_BEFORE: what the pass before has written. */
enum run_binding_kind { RUN_OUT, RUN_BEFORE, RUN_CHANNEL, RUN_LAST, RUN_NUMBER };

/* What a parameter gets. */
struct run_binding {
    enum run_binding_kind kind;
    uint32_t index; /* of the channel or setting */
    bool real;
};

struct run_pass {
    struct sluice_kernel kernel;
    struct run_binding bindings[SLUICE_MAX_PARAMETERS];
    uint32_t count;
};

#define RUN_PASSES 16

struct run_program {
    char *text; /* the source */
    struct sluice_module module;
    struct sluice_kernel clear; /* makes `last` black */
    struct run_pass passes[RUN_PASSES];
    uint32_t pass_count;
    int channels; /* so many are read */
    struct run_setting settings[RUN_GIVEN + RUN_SETTINGS];
    uint32_t setting_count;
    bool feedback; /* a pass has `last` */
};

/* Compiles a source, whose memory it takes. NULL after a message. */
struct run_program *run_program_load(const struct run *run, struct sluice_device device, char *text);

/* Gives a setting the value in `text`; false after a message, unless `quiet`. */
bool run_program_set(const struct run *run, struct run_program *program, const struct run_value *value, bool quiet);

void run_program_unload(struct run_program *program);

/* "; gain = 1 (0 to 4), on = 0"; "" if there are none. */
const char *run_program_settings(const struct run_program *program, char *text, size_t size);

#endif
