/* SPDX-License-Identifier: MIT
 *
 * Runs the command `sluice` like a user, and keeps its output.
 */
#ifndef TOOLS_KIT_H
#define TOOLS_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "harness/test.h"

struct program {
    pid_t pid;
    unsigned number;
    int status;        /* exit code; a signal's number negated */
    char out[1 << 20]; /* its output, once it has ended; `ls` may print many channels of /dev/shm */
    char err[8192];
};

/* Uses the fake driver's GPUs, whose memory the CPU cannot access. */
void use_fake_gpu(void);

/* Starts `sluice ARGUMENTS`; the last one is NULL. Its output goes to files in the test's folder.
 */
#define sluice_start(program, ...) start_program((program), (const char *const[]){ __VA_ARGS__, NULL })
void start_program(struct program *program, const char *const arguments[]);

/* The same with a descriptor as its standard input. */
void start_program_from(struct program *program, int input, const char *const arguments[]);

/* Sends a signal (0: none), waits for its end and reads its output. */
int program_end(struct program *program, int signal_number);

/* What it has written so far, to "err" or "out"; valid until the next call. */
const char *program_so_far(const struct program *program, const char *kind);

/* Starts it and waits for its end. Returns the exit code. */
#define sluice_run(program, ...) (sluice_start(program, __VA_ARGS__), program_end((program), 0))

/* Plays the test picture and waits until its channel exists. */
void start_player(struct program *program, const char *channel, const char *const more[]);
#define player_start(program, channel, ...) \
    start_player((program), (channel), (const char *const[]){ __VA_ARGS__, NULL })

/* True if a reader of the channel has acquired this many frames. */
bool has_taken(const char *channel, uint64_t frames);

/* Arguments of `sluice top`, and the same for a shell: all channels except those of cuda-link's protocol, which are
 * shared by the whole machine. */
#define NATIVE        "[!c]*", "c[!i]*"
#define NATIVE_QUOTED "'[!c]*' 'c[!i]*'"

/* The first child process of `pid`, or 0. Skips the test on kernels that do not list children. */
pid_t first_child(pid_t pid);

/* Checks that the text is JSON, and that the Python `expression` over it as `d` is true. */
void check_json(const char *text, const char *expression);

/* Returns the value of the expression instead: for measurements, which may be arbitrary while a thread is delayed. */
bool json_says(const char *text, const char *expression);

/* Stops a program's service thread until it is released, while its process does not count as stopped. Skips the test if
 * that is not permitted. */
pid_t hold_service_thread(const struct program *program);
void let_go(pid_t thread);

/* A path in the test's folder; four at a time. */
const char *in_dir(const char *name);

bool has_program(const char *name); /* in PATH */

/* Reads a whole file; the caller frees it. */
char *read_all(const char *path, size_t *size);

#endif
