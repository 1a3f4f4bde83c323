/* SPDX-License-Identifier: MIT
 *
 * Another program as a child process, with pipes: started from a list of arguments (never a shell),
 * its last words kept for the message if it fails, and ended and reaped by whoever started it.
 */
#ifndef TOOLS_CHILD_H
#define TOOLS_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum child_flags {
    CHILD_WRITE = 1,  /* child.in is a pipe into its standard input */
    CHILD_READ = 2,   /* child.out is a pipe out of its standard output */
    CHILD_STDERR = 4,  /* what it writes to stderr is kept, not shown */
    CHILD_KILL = 8,   /* it is killed when this process dies */
    CHILD_TERM = 16, /* it gets SIGTERM when this process dies */
};

struct child {
    const char *name; /* its argv[0], for messages; the caller's memory */
    pid_t pid;        /* 0 if there is none */
    int in, out, err; /* descriptors, or -1 */
    int status;       /* as waitpid has it, once reaped */
    char words[1024]; /* the end of what it wrote to stderr */
    size_t words_size;
};

/* A list of arguments under construction; more than fit are an error that child_start reports. */
#define CHILD_ARGUMENTS 64
struct child_args {
    char *list[CHILD_ARGUMENTS + 1];
    size_t count;
};

/* Adds arguments up to a NULL; they are not copied. */
void child_add(struct child_args *line, ...) __attribute__((sentinel));

/* Returns 0, or an errno: ENOENT if there is no such program. */
int child_start(struct child *child, char *const argv[], unsigned flags);

/* Reaps it if it has ended within `timeout_ns`. */
bool child_wait(struct child *child, int64_t timeout_ns);

/* Has it closed its end of the pipe that it is written to? Then it is about to end. */
bool child_closed_input(const struct child *child);

/* Closes the pipes and waits up to `timeout_ns` for its end, then kills it. Returns true if it
 * ended by itself with status 0. */
bool child_finish(struct child *child, int64_t timeout_ns);

/* Kills it and reaps it. A child that was never started (all zero) is done already. */
void child_kill(struct child *child);

/* The last line of what it wrote to stderr, without control characters; "" if there was none. */
const char *child_last_line(struct child *child, char *text, size_t size);

/* Is this among what it wrote to stderr? After child_last_line. */
bool child_printed(const struct child *child, const char *text);

/* Is there a program of this name in PATH? Its path goes to `path` if that is not NULL. */
bool child_find(const char *program, char *path, size_t size);

/* Reads until `size` bytes are there; returns how many were. A stop that is asked for ends it. */
size_t child_read(struct child *child, void *to, size_t size);

/* Writes all; false if the child has gone, or a stop was asked for a while ago. */
bool child_write(struct child *child, const void *from, size_t size);

#endif
