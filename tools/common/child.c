/* SPDX-License-Identifier: MIT
 *
 * Child processes with pipes.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "term.h"

#define PIPE_BYTES (1 << 20) /* the default limit of the kernel */

/* Runs between fork and exec, where only async-signal-safe calls are allowed. */
static void exec_program(char *const argv[], unsigned flags, pid_t parent, const int ends[3], int report)
{
    for (int i = 0; i < 3; i++)
        if (ends[i] >= 0 && dup2(ends[i], i) < 0)
            goto fail;
    /* Its own process group, so that Ctrl-C only reaches us. */
    setpgid(0, 0);
    if (flags & (CHILD_KILL | CHILD_TERM)) {
        prctl(PR_SET_PDEATHSIG, flags & CHILD_KILL ? SIGKILL : SIGTERM);
        if (getppid() != parent)
            _exit(127);
    }
    signal(SIGPIPE, SIG_DFL);
    execvp(argv[0], argv);
fail:;
    int error = errno;
    if (write(report, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Moves a descriptor out, so that close_both() leaves it open. */
static int release_fd(int *fd)
{
    int released = *fd;
    *fd = -1;
    return released;
}

static void close_both(int pair[2])
{
    close_end(&pair[0]);
    close_end(&pair[1]);
}

static int open_pipe(int pair[2])
{
    if (pipe2(pair, O_CLOEXEC) < 0)
        return errno;
    fcntl(pair[1], F_SETPIPE_SZ, PIPE_BYTES); /* may fail */
    return 0;
}

static int open_pipes(unsigned flags, int in[2], int out[2], int err[2], int report[2])
{
    int error = 0;
    if (flags & CHILD_WRITE) {
        error = open_pipe(in);
    } else if ((in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0) {
        error = errno;
    }
    if (!error && flags & CHILD_READ)
        error = open_pipe(out);
    /* Non-blocking on both sides: the child loses messages rather than blocking. */
    if (!error && flags & CHILD_STDERR && pipe2(err, O_CLOEXEC | O_NONBLOCK) < 0)
        error = errno;
    if (!error && pipe2(report, O_CLOEXEC) < 0)
        error = errno;
    return error;
}

void child_add(struct child_args *args, ...)
{
    va_list list;
    va_start(list, args);
    char *argument = va_arg(list, char *);
    for (; argument && args->count < CHILD_ARGUMENTS; argument = va_arg(list, char *))
        args->list[args->count++] = argument;
    va_end(list);
}

int child_start(struct child *child, char *const argv[], unsigned flags)
{
    int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 }, report[2] = { -1, -1 };
    *child = (struct child){ .name = argv[0], .in = -1, .out = -1, .err = -1 };
    int error = open_pipes(flags, in, out, err, report);
    if (!error) {
        pid_t parent = getpid();
        signal(SIGPIPE, SIG_IGN); /* writes to a child that ended return EPIPE */
        child->pid = fork();
        if (child->pid == 0)
            exec_program(argv, flags, parent, (int[3]){ in[0], out[1], err[1] }, report[1]);
        if (child->pid < 0) {
            error = errno;
            child->pid = 0;
        }
    }
    if (!error) {
        close_end(&report[1]);
        ssize_t got;
        do
            got = read(report[0], &error, sizeof error);
        while (got < 0 && errno == EINTR);
        if (got != (ssize_t)sizeof error)
            error = 0; /* exec closed the pipe: the program runs */
    }
    if (!error) {
        child->in = release_fd(&in[1]);
        child->out = release_fd(&out[0]);
        child->err = release_fd(&err[0]);
    } else if (child->pid) {
        child_kill(child);
    }
    close_both(in);
    close_both(out);
    close_both(err);
    close_both(report);
    return error;
}

/* Reads what the child wrote to stderr so far. Never blocks. */
static void drain_stderr(struct child *child)
{
    char text[512];
    ssize_t got;
    while (child->err >= 0 && (got = read(child->err, text, sizeof text)) > 0) {
        size_t size = (size_t)got, capacity = sizeof child->tail;
        if (child->tail_size + size > capacity) {
            size_t kept = capacity - size;
            memmove(child->tail, child->tail + child->tail_size - kept, kept);
            child->tail_size = kept;
        }
        memcpy(child->tail + child->tail_size, text, size);
        child->tail_size += size;
    }
}

bool child_wait(struct child *child, int64_t timeout_ns)
{
    int64_t end = now_ns() + timeout_ns;
    while (child->pid) {
        pid_t got = waitpid(child->pid, &child->status, WNOHANG);
        if (got == child->pid || (got < 0 && errno == ECHILD)) {
            child->pid = 0;
            break;
        }
        drain_stderr(child);
        if (now_ns() >= end)
            return false;
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    drain_stderr(child);
    return true;
}

bool child_closed_input(const struct child *child)
{
    struct pollfd in = { .fd = child->in };
    return child->in >= 0 && poll(&in, 1, 0) > 0 && in.revents & POLLERR;
}

void child_kill(struct child *child)
{
    if (child->name == NULL)
        return;
    if (child->pid) {
        kill(child->pid, SIGKILL);
        while (waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR)
            continue;
        child->pid = 0;
    }
    drain_stderr(child);
    close_end(&child->in);
    close_end(&child->out);
    close_end(&child->err);
}

bool child_finish(struct child *child, int64_t timeout_ns)
{
    if (child->name == NULL)
        return true;
    close_end(&child->in);
    close_end(&child->out);
    bool ended = child_wait(child, timeout_ns);
    child_kill(child);
    return ended && WIFEXITED(child->status) && WEXITSTATUS(child->status) == 0;
}

const char *child_last_line(struct child *child, char *text, size_t size)
{
    drain_stderr(child);
    size_t end = child->tail_size;
    while (end && (child->tail[end - 1] == '\n' || child->tail[end - 1] == '\r'))
        end--;
    size_t start = end;
    while (start && child->tail[start - 1] != '\n' && child->tail[start - 1] != '\r')
        start--;
    size_t used = 0;
    for (size_t i = start; i < end && used + 1 < size; i++)
        if ((unsigned char)child->tail[i] >= ' ')
            text[used++] = child->tail[i];
    text[used] = 0;
    return text;
}

bool child_printed(const struct child *child, const char *text)
{
    return memmem(child->tail, child->tail_size, text, strlen(text)) != NULL;
}

bool child_find(const char *program, char *path, size_t size)
{
    const char *at = getenv("PATH");
    while (at && *at) {
        char full[4096];
        size_t length = strcspn(at, ":");
        snprintf(full, sizeof full, "%.*s/%s", (int)length, at, program);
        if (length && access(full, X_OK) == 0) {
            if (path)
                snprintf(path, size, "%s", full);
            return true;
        }
        at += length + (at[length] == ':');
    }
    return false;
}

size_t child_read(struct child *child, void *to, size_t size)
{
    size_t done = 0;
    while (done < size && !stop_asked()) {
        ssize_t got = read(child->out, (char *)to + done, size - done);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        if (got > 0)
            done += (size_t)got;
    }
    drain_stderr(child);
    return done;
}

bool child_write(struct child *child, const void *from, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t put = write(child->in, (const char *)from + done, size - done);
        if (put < 0 && errno != EINTR)
            return false;
        if (put > 0)
            done += (size_t)put;
    }
    drain_stderr(child);
    return true;
}
