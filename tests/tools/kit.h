/* SPDX-License-Identifier: MIT
 *
 * Runs the command `sluice` as a user would, and keeps what it said.
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
    int status;      /* exit code; a signal's number negated */
    char out[1 << 20]; /* what it wrote, once it has ended; `ls` says what all of the machine has in /dev/shm */
    char err[8192];
};

/* The machine has the fake driver's GPUs, which are as most are: the CPU sees nothing of their memory. */
void use_fake_gpu(void);

/* Starts `sluice ARGUMENTS`; the last one is NULL. Its output goes to files in the test's folder.
 */
#define sluice_start(program, ...) \
    start_program((program), (const char *const[]){ __VA_ARGS__, NULL })
void start_program(struct program *program, const char *const arguments[]);

/* Sends a signal (0: none), waits for its end and takes in what it wrote. */
int program_end(struct program *program, int signal_number);

/* What it has written so far, to "err" or "out"; valid until the next call. */
const char *program_so_far(const struct program *program, const char *kind);

/* Both: returns the exit code. */
#define sluice_run(program, ...) (sluice_start(program, __VA_ARGS__), program_end((program), 0))

/* Starts a player of the test picture and waits until its channel is there. */
void start_player(struct program *program, const char *channel, const char *const more[]);
#define player_start(program, channel, ...) \
    start_player((program), (channel), (const char *const[]){ __VA_ARGS__, NULL })

/* Has a reader of the channel taken so many frames? */
bool has_taken(const char *channel, uint64_t frames);

/* Arguments of `sluice top`, and the same for a shell: all channels but those of cuda-link's protocol, which all of the
 * machine shares. */
#define NATIVE        "[!c]*", "c[!i]*"
#define NATIVE_QUOTED "'[!c]*' 'c[!i]*'"

/* Python reads it as JSON, and `expression` over it as `d` is true. */
void check_json(const char *text, const char *expression);

/* The same, true or false: for what is measured, which is any number while a thread stands still. */
bool json_says(const char *text, const char *expression);

/* The thread of a program's that answers for its channels stands still until it is let go; nobody sees that by its process.
 * Skips the test where it may not be done. */
pid_t hold_service_thread(const struct program *program);
void let_go(pid_t thread);

/* A path in the test's folder; four at a time. */
const char *in_dir(const char *name);

bool has_program(const char *name); /* in PATH */

/* All of a file; the caller frees it. */
char *read_all(const char *path, size_t *size);

#endif
