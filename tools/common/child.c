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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "term.h"

#define PIPE_BYTES (1 << 20) /* the default limit of the kernel */

/* Runs between fork and exec, where only async-signal-safe calls are allowed. */
static void exec_program(char *const argv[], unsigned flags, pid_t parent, const int ends[5], int report)
{
    /* Out of the way of descriptors 3 and 4. */
    int more[2] = { -1, -1 };
    for (int i = 0; i < 2 && ends[3] >= 0; i++)
        more[i] = fcntl(ends[3 + i], F_DUPFD_CLOEXEC, 10);
    report = fcntl(report, F_DUPFD_CLOEXEC, 10);
    for (int i = 0; i < 3; i++)
        if (ends[i] >= 0 && dup2(ends[i], i) < 0)
            goto fail;
    for (int i = 0; i < 2; i++)
        if (more[i] >= 0 && dup2(more[i], 3 + i) < 0)
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

static int open_pipes(unsigned flags, int input, int in[2], int out[2], int more[2][2], int err[2], int report[2])
{
    int error = 0;
    if (input >= 0) {
        in[0] = input;
    } else if (flags & CHILD_WRITE) {
        error = open_pipe(in);
    } else if ((in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0) {
        error = errno;
    }
    if (!error && flags & CHILD_READ)
        error = open_pipe(out);
    for (int i = 0; i < 2 && !error && flags & CHILD_MORE; i++)
        error = open_pipe(more[i]);
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
    return child_start_from(child, argv, flags, -1);
}

int child_start_from(struct child *child, char *const argv[], unsigned flags, int input)
{
    int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 }, report[2] = { -1, -1 };
    int more[2][2] = { { -1, -1 }, { -1, -1 } };
    *child = (struct child){ .name = argv[0], .in = -1, .out = -1, .err = -1, .more = { -1, -1 } };
    int error = open_pipes(flags, input, in, out, more, err, report);
    if (!error) {
        pid_t parent = getpid();
        signal(SIGPIPE, SIG_IGN); /* writes to a child that ended return EPIPE */
        child->pid = fork();
        if (child->pid == 0)
            exec_program(argv, flags, parent, (int[5]){ in[0], out[1], err[1], more[0][1], more[1][1] }, report[1]);
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
        for (int i = 0; i < 2; i++)
            child->more[i] = release_fd(&more[i][0]);
        child->err = release_fd(&err[0]);
    } else if (child->pid) {
        child_kill(child);
    }
    close_both(in);
    close_both(out);
    close_both(more[0]);
    close_both(more[1]);
    close_both(err);
    close_both(report);
    return error;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t put = write(fd, bytes, size);
        if (put < 0 && errno != EINTR)
            return false;
        if (put > 0) {
            bytes += put;
            size -= (size_t)put;
        }
    }
    return true;
}

/* What the process of child_pump does. */
static void pump(const char *bytes, size_t size, int from, int to)
{
    static char part[65536];
    bool splices = true;
    if (!write_all(to, bytes, size))
        _exit(0);
    for (;;) {
        ssize_t got = splices ? splice(from, NULL, to, NULL, PIPE_BYTES, SPLICE_F_MOVE) : read(from, part, sizeof part);
        if (got == 0)
            _exit(0);
        if (got < 0 && errno == EINVAL && splices)
            splices = false; /* neither is a pipe */
        else if (got < 0 && errno != EINTR)
            _exit(0);
        else if (got > 0 && !splices && !write_all(to, part, (size_t)got))
            _exit(0);
    }
}

int child_pump(struct child *child, const void *bytes, size_t size, int from, int to)
{
    pid_t parent = getpid();
    *child = (struct child){ .name = "pump", .in = -1, .out = -1, .err = -1, .more = { -1, -1 } };
    child->pid = fork();
    if (child->pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(127);
        /* Nothing else of this process stays open in it, above all no other end of a pipe. */
        if ((from = fcntl(from, F_DUPFD, 3)) < 0 || (to = fcntl(to, F_DUPFD, 3)) < 0 || dup2(from, 0) < 0 ||
            dup2(to, 1) < 0)
            _exit(127);
        close(2);
        syscall(SYS_close_range, 3, ~0u, 0);
        pump(bytes, size, 0, 1);
    }
    int error = child->pid < 0 ? errno : 0;
    if (error)
        *child = (struct child){ 0 };
    close(from);
    close(to);
    return error;
}

/* Reads what the child wrote to stderr so far. Never blocks. */
static void drain_stderr(struct child *child)
{
    char text[512];
    ssize_t got;
    while (child->err >= 0 && (got = read(child->err, text, sizeof text)) > 0) {
        size_t size = (size_t)got, capacity = sizeof child->tail, room = sizeof child->said - child->said_size;
        size_t kept_now = size < room ? size : room;
        memcpy(child->said + child->said_size, text, kept_now);
        child->said_size += kept_now;
        child->said_more |= kept_now < size;
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
    close_end(&child->more[0]);
    close_end(&child->more[1]);
    close_end(&child->err);
}

bool child_finish(struct child *child, int64_t timeout_ns)
{
    if (child->name == NULL)
        return true;
    close_end(&child->in);
    close_end(&child->out);
    close_end(&child->more[0]);
    close_end(&child->more[1]);
    bool ended = child_wait(child, timeout_ns);
    child_kill(child);
    return ended && WIFEXITED(child->status) && WEXITSTATUS(child->status) == 0;
}

/* Without control characters. */
static void copy_line(const char *from, size_t length, char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < length && used + 1 < size; i++)
        if ((unsigned char)from[i] >= ' ')
            text[used++] = from[i];
    text[used] = 0;
}

static bool ends_line(char c)
{
    return c == '\n' || c == '\r';
}

const char *child_last_line(struct child *child, char *text, size_t size)
{
    drain_stderr(child);
    size_t end = child->tail_size;
    while (end && ends_line(child->tail[end - 1]))
        end--;
    size_t start = end;
    while (start && !ends_line(child->tail[start - 1]))
        start--;
    copy_line(child->tail + start, end - start, text, size);
    return text;
}

bool child_next_line(struct child *child, char *text, size_t size)
{
    drain_stderr(child);
    do {
        size_t length = 0;
        while (length < child->said_size && !ends_line(child->said[length]))
            length++;
        bool whole = length < child->said_size;
        if (length == 0 && !whole)
            return false;
        if (!whole && child->pid && length < sizeof child->said)
            return false; /* the rest may still come */
        copy_line(child->said, length, text, size);
        child->said_size -= length + whole;
        memmove(child->said, child->said + length + whole, child->said_size);
    } while (!text[0]);
    return true;
}

const char *child_end(const struct child *child, char text[64])
{
    if (WIFSIGNALED(child->status))
        snprintf(text, 64, "was killed by signal %d", WTERMSIG(child->status));
    else
        snprintf(text, 64, "ended with status %d", WEXITSTATUS(child->status));
    return text;
}

bool child_find(const char *program, char *path, size_t size)
{
    const char *at = getenv("PATH");
    if (strchr(program, '/')) {
        if (path)
            snprintf(path, size, "%s", program);
        return access(program, X_OK) == 0;
    }
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
