/* SPDX-License-Identifier: MIT
 *
 * Child processes with pipes, started from a list of arguments, never by a shell.
 */
#ifndef TOOLS_CHILD_H
#define TOOLS_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum child_flags {
    CHILD_WRITE = 1,  /* child.in is a pipe to its standard input */
    CHILD_READ = 2,   /* child.out is a pipe from its standard output */
    CHILD_STDERR = 4, /* the end of its stderr is kept in child.tail, not shown */
    CHILD_KILL = 8,   /* it gets SIGKILL when this process dies */
    CHILD_TERM = 16,  /* it gets SIGTERM when this process dies */
    CHILD_MORE = 32,  /* child.more are pipes from its descriptors 3 and 4 */
};

struct child {
    const char *name; /* its argv[0]; the caller's memory */
    pid_t pid;        /* 0: not running */
    int in, out, err; /* descriptors, or -1 */
    int more[2];
    int status;      /* from waitpid, once it was reaped */
    char tail[1024]; /* the end of its stderr */
    size_t tail_size;
    char said[2048]; /* the beginning of its stderr, as far as child_next_line has not taken it */
    size_t said_size;
    bool said_more; /* than fits */
};

/* An argv under construction. Arguments beyond the limit are left out. */
#define CHILD_ARGUMENTS 96
struct child_args {
    char *list[CHILD_ARGUMENTS + 1];
    size_t count;
};

/* Adds arguments up to a NULL, without copying them. */
void child_add(struct child_args *args, ...) __attribute__((sentinel));

/* Returns 0 or an errno: ENOENT if there is no such program. */
int child_start(struct child *child, char *const argv[], unsigned flags);

/* The same with a descriptor as its standard input, which is closed here; -1: as child_start. */
int child_start_from(struct child *child, char *const argv[], unsigned flags, int input);

/* Starts a process that writes the bytes to `to`, and then what it reads from `from`. Both are closed here. Returns 0
 * or an errno. */
int child_pump(struct child *child, const void *bytes, size_t size, int from, int to);

/* Waits up to `timeout_ns` for its end and reaps it; false if it is still running. */
bool child_wait(struct child *child, int64_t timeout_ns);

/* True if it closed its standard input, which a program does when it is about to end. */
bool child_closed_input(const struct child *child);

/* Closes the pipes, waits up to `timeout_ns`, then kills it. True if it exited with status 0 by itself. */
bool child_finish(struct child *child, int64_t timeout_ns);

/* Kills and reaps it. Does nothing if it was never started (all zero). */
void child_kill(struct child *child);

/* The last line of its stderr, without control characters; "" if there is none. */
const char *child_last_line(struct child *child, char *text, size_t size);

/* Takes the next whole line of its stderr, without control characters; false if there is none. Once it has ended, a
 * line need not be whole. Of a very long output only the beginning is kept. */
bool child_next_line(struct child *child, char *text, size_t size);

/* How it ended, if not by itself with status 0: "was killed by signal 9", "ended with status 1". */
const char *child_end(const struct child *child, char text[64]);

/* True if PATH has the program, or it is a path. Stores its path in `path` if that is not NULL. */
bool child_find(const char *program, char *path, size_t size);

/* Reads `size` bytes, or fewer at the end of the pipe or when stop_asked(). Returns the number. */
size_t child_read(struct child *child, void *to, size_t size);

/* Writes all bytes; false if the child closed the pipe. */
bool child_write(struct child *child, const void *from, size_t size);

#endif
