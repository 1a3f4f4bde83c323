/* SPDX-License-Identifier: MIT
 *
 * The worker's state: the channels that it reads, the one that it writes, and the program between them.
 */
#ifndef TOOLS_RUN_WORKER_H
#define TOOLS_RUN_WORKER_H

#include <pthread.h>

#include "run.h"

struct run_input {
    const char *name;
    sluice_reader *reader;
    struct sluice_frame frame;     /* the newest one */
    char array[SLUICE_ARRAY_NAME]; /* of it: the first image */
    bool held;
    int state; /* the last result of acquire that was reported */
};

/* Pictures as TO has them in memory of the device. */
enum { IMAGE_PASS, IMAGE_NEXT = 2, IMAGE_LAST, IMAGES }; /* passes take turns with two */

struct run_worker {
    struct run *run;
    char device_name[64];
    struct sluice_device device; /* 0: not open yet */
    struct sluice_stream stream;
    struct run_program *program;
    char *text; /* of the first version, then of the one that is compiled */
    struct run_input inputs[RUN_INPUTS];
    sluice_writer *writer; /* NULL until the first frame */
    struct sluice_format format;
    struct sluice_array images[IMAGES]; /* data: NULL until it is needed */
    int64_t next_ns;                    /* when the next frame is due, if a clock decides */
    int64_t start_ns;                   /* of time */
    double time, rate;
    uint64_t frames, dropped; /* `frames` counts the dropped ones, too */
    uint64_t torn;            /* with --hash */

    pthread_t thread; /* which compiles a new version */
    bool compiles;
    struct run_program *compiled; /* its result; NULL: it failed */
    char line[256];               /* of standard input, the beginning */
    size_t line_size;
    bool input_ended;
};

/* Between two frames: takes lines of standard input and the version that was compiled meanwhile. */
void run_news_take(struct run_worker *worker);
void run_news_end(struct run_worker *worker);

/* From now on this program runs. False if values of settings do not fit, after messages if it is the first one. */
bool run_use(struct run_worker *worker, struct run_program *program);

/* Opens TO, or changes its format, for the frames that the inputs hold now. Returns an exit code. */
int run_output_prepare(struct run_worker *worker);

/* Runs the program on the frames that the inputs hold, and publishes the result. Returns an exit code. */
int run_output_frame(struct run_worker *worker);

void run_output_close(struct run_worker *worker);

/* With --hash, when the kernel has run: checks that the first input still has the hash in its metadata, and writes
 * those of TO's frame. Returns their size. */
uint32_t run_hash(struct run_worker *worker, const struct sluice_array *out, char meta[SLUICE_MAX_META]);

/* Opens the readers of all FROMs. Returns an exit code. */
int run_inputs_open(struct run_worker *worker);

/* Takes the newest frames; waits for one of the first input up to `timeout_ns`. *fresh: there is one, and every other
 * input holds one, too. Returns an exit code; EXIT_DONE with *closed if the first has closed. */
int run_inputs_take(struct run_worker *worker, int64_t timeout_ns, bool *fresh, bool *closed);

/* Releases all frames and closes the readers. */
void run_inputs_close(struct run_worker *worker);

/* A failed call: after a message, the exit code that it means to the supervisor. */
int run_failure(const struct run *run, int result);

#endif
