/* SPDX-License-Identifier: MIT
 *
 * sluice run: a kernel between channels. One process watches the file and standard input; its child, the worker, has
 * the channels and runs the kernel, and is started again if the kernel crashes it.
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

    /* What a worker starts with. */
    char *text;      /* the source */
    uint32_t number; /* of the source: the file's first version is 1 */
    bool restarted;  /* the source has run before */
    struct run_value values[RUN_SETTINGS];
    uint32_t value_count, set_count; /* set_count: of --set */
};

/* Between the two processes: a header, then `bytes` bytes. */
enum run_message_kind {
    RUN_SOURCE = 1, /* to the worker: version `number` of the source */
    RUN_LINE = 2,   /* to the worker: "gain 2" */
    RUN_WORKS = 3,  /* from the worker: version `number` has finished a frame */
};

struct run_message {
    uint32_t kind, number, bytes;
};

/* Runs workers until one ends by itself, or a signal stops the command. Returns an exit code. */
int run_supervise(struct run *run);

/* The worker's life; `fd` leads to the other process. Returns its exit code. */
int run_work(struct run *run, int fd);

/* Parses "gain 2" or "gain=2"; false after a message. */
bool run_value_parse(const struct run *run, const char *line, struct run_value *value);

/* Remembers a value, for programs that are loaded later. */
void run_value_keep(struct run *run, const struct run_value *value);

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

enum run_binding_kind { RUN_OUT, RUN_PICTURE, RUN_LAST, RUN_TIME, RUN_FRAME, RUN_RATE, RUN_SETTING };

/* What a parameter gets. */
struct run_binding {
    enum run_binding_kind kind;
    uint32_t index; /* of the picture or setting */
    bool real;
};

struct run_pass {
    struct sluice_kernel kernel;
    struct run_binding bindings[SLUICE_MAX_PARAMETERS];
    uint32_t count, pictures; /* number of parameters, and of those that are RUN_PICTURE */
};

#define RUN_PASSES 16

struct run_program {
    uint32_t number; /* of the source */
    struct sluice_module module;
    struct sluice_kernel clear; /* makes `last` black */
    struct run_pass passes[RUN_PASSES];
    uint32_t pass_count;
    struct run_setting settings[RUN_SETTINGS];
    uint32_t setting_count;
    bool feedback; /* a pass has `last` */
};

/* Compiles a source. NULL after a message. */
struct run_program *run_program_load(const struct run *run, struct sluice_device device, const char *text,
                                     uint32_t number);

/* Gives a setting the value in `text`; false after a message, unless `quiet`. */
bool run_program_set(const struct run *run, struct run_program *program, const struct run_value *value, bool quiet);

void run_program_unload(struct run_program *program);

/* "gain = 1 (0 to 4), on = 0"; "" if there are none. */
char *run_program_settings(const struct run_program *program, char *text, size_t size);

#endif
