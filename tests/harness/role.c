/* SPDX-License-Identifier: MIT
 *
 * Other processes of a test: roles (this binary again) and other programs.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/harness.h"

#define MAX_CHILDREN  256
#define MAX_ARGUMENTS 32

/* The running children, ended with the test. Not thread-safe. */
static struct running {
    pid_t pid;
    int in, out;
} running[MAX_CHILDREN];

static struct running *find_running(pid_t pid)
{
    for (int i = 0; i < MAX_CHILDREN; i++)
        if (running[i].pid == pid)
            return &running[i];
    FAIL(pid ? "not a child that runs" : "more than 256 children at once");
}

static void close_in(struct child *child)
{
    if (child->in < 0)
        return;
    find_running(child->pid)->in = -1;
    close(child->in);
    child->in = -1;
}

/* Reads what is available of its stdout, as far as there is room. False at the end of the output. */
static bool take(struct child *child)
{
    size_t room = sizeof child->text - 1 - child->text_size;
    ssize_t got = 0;
    while (child->out >= 0 && room && (got = read(child->out, child->text + child->text_size, room)) > 0) {
        child->text_size += (size_t)got;
        room -= (size_t)got;
    }
    return !room || got < 0; /* negative: nothing more for now */
}

/* The child was waited for. Its last output is kept for child_line. */
static void ended(struct child *child, int status)
{
    close_in(child);
    take(child);
    close(child->out);
    child->out = -1;
    *find_running(child->pid) = (struct running){ 0 };
    child->status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    child->pid = 0;
}

void harness_end_children(void)
{
    for (int i = 0; i < MAX_CHILDREN; i++) {
        struct running *r = &running[i];
        if (!r->pid)
            continue;
        kill(r->pid, SIGKILL);
        waitpid(r->pid, NULL, 0);
        if (r->in >= 0)
            close(r->in);
        close(r->out);
        r->pid = 0;
    }
}

static _Noreturn void become_child(const char *const *argv, int in, int out, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    dup2(in, 0);
    dup2(out, 1);
    execvp(argv[0], (char *const *)argv);
    static const char text[] = "a child program cannot be started\n";
    if (write(2, text, sizeof text - 1) < 0)
        _exit(126);
    _exit(127);
}

struct child child_start(const char *const *argv)
{
    struct child child = { .in = -1, .out = -1 };
    struct running *entry = find_running(0);
    int in[2], out[2];
    pid_t self = getpid();

    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        FAIL("no pipe for %s: %s", argv[0], strerror(errno));
    fflush(NULL);
    child.pid = fork();
    if (child.pid == 0)
        become_child(argv, in[0], out[1], self);
    if (child.pid < 0)
        FAIL("%s cannot be started: %s", argv[0], strerror(errno));
    close(in[0]);
    close(out[1]);
    child.in = in[1];
    child.out = out[0];
    fcntl(child.out, F_SETFL, O_NONBLOCK);
    snprintf(child.label, sizeof child.label, "%s", argv[0]);
    *entry = (struct running){ .pid = child.pid, .in = child.in, .out = child.out };
    return child;
}

struct child role_start_at(const char *file, const char *role, ...)
{
    const char *argv[MAX_ARGUMENTS + 4] = { "/proc/self/exe", "--role", NULL };
    char id[256];
    int count = 3;
    va_list list;

    harness_id(file, role, id, sizeof id);
    argv[2] = id;
    va_start(list, role);
    for (const char *argument; count < MAX_ARGUMENTS && (argument = va_arg(list, const char *));)
        argv[count++] = argument;
    va_end(list);
    struct child child = child_start(argv);
    snprintf(child.label, sizeof child.label, "%s", role);
    return child;
}

void child_send(struct child *child, const char *line)
{
    char text[1024];
    int size = snprintf(text, sizeof text, "%s\n", line);
    if (size >= (int)sizeof text)
        FAIL("a line of %d bytes is too long", size);
    if (child->in < 0)
        FAIL("%s is gone, or its stdin is closed", child->label);
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    ssize_t sent = write(child->in, text, (size_t)size);
    signal(SIGPIPE, before);
    if (sent != size)
        FAIL("%s does not take \"%s\": %s", child->label, line, strerror(errno));
}

const char *child_line_at(const char *file, int line, struct child *child, double seconds)
{
    static char text[sizeof child->text];
    int64_t until = test_now() + (int64_t)(seconds * test_patience() * 1e9);
    bool more = true;

    for (;;) {
        char *stop = memchr(child->text, '\n', child->text_size);
        if (!stop && !more) {
            if (!child->text_size)
                return NULL;
            stop = child->text + child->text_size; /* a last line without a newline */
        }
        if (stop) {
            size_t length = (size_t)(stop - child->text), used = length + (length < child->text_size);
            memcpy(text, child->text, length);
            text[length] = 0;
            child->text_size -= used;
            memmove(child->text, child->text + used, child->text_size);
            return text;
        }
        if (child->text_size == sizeof child->text - 1)
            test_fail(file, line, "%s wrote a line that is too long", child->label);
        int64_t left = until - test_now();
        if (left < 0)
            test_fail(file, line, "%s has not written a line in %g s", child->label, seconds * test_patience());
        struct pollfd fd = { .fd = child->out, .events = POLLIN };
        if (child->out < 0 || poll(&fd, 1, (int)(left / 1000000) + 1) > 0)
            more = take(child);
    }
}

void child_expect_at(const char *file, int line, struct child *child, const char *text, double seconds)
{
    const char *got = child_line_at(file, line, child, seconds);
    if (!got || strcmp(got, text) != 0)
        test_fail(file, line, "%s should write \"%s\", not %s%s%s", child->label, text, got ? "\"" : "",
                  got ? got : "end", got ? "\"" : "");
}

bool child_ended(struct child *child)
{
    int status;
    if (child->pid && waitpid(child->pid, &status, WNOHANG) == child->pid)
        ended(child, status);
    return child->pid == 0;
}

int child_wait_at(const char *file, int line, struct child *child, double seconds)
{
    int64_t until = test_now() + (int64_t)(seconds * test_patience() * 1e9);
    while (!child_ended(child)) {
        if (test_now() > until)
            test_fail(file, line, "%s has not ended in %g s", child->label, seconds * test_patience());
        test_nap(500000);
    }
    return child->status;
}

void child_kill(struct child *child, int signal_number)
{
    int status;
    if (child_ended(child))
        return;
    kill(child->pid, signal_number);
    if (signal_number == SIGKILL && waitpid(child->pid, &status, 0) == child->pid)
        ended(child, status);
    /* SIGSTOP takes effect a little later; the caller may rely on the child being stopped. */
    siginfo_t stopped;
    if (signal_number == SIGSTOP)
        waitid(P_PID, (id_t)child->pid, &stopped, WSTOPPED | WEXITED | WNOWAIT);
}

void role_stop_at(const char *file, int line, struct child *child)
{
    if (child->pid)
        close_in(child);
    int status = child_wait_at(file, line, child, 10);
    if (status)
        test_fail(file, line, "%s ended with status %d", child->label, status);
}

/* ---- in a role ---- */

int harness_role(int argc, char **argv)
{
    const struct role_entry *found = NULL;
    for (const struct role_entry *r = harness_roles; r; r = r->next) {
        char id[256];
        harness_id(r->file, r->label, id, sizeof id);
        if (!strcmp(id, argv[0]))
            found = r;
        else if (!found && !strcmp(r->label, argv[0]))
            found = r;
    }
    if (!found)
        FAIL("there is no ROLE(%s)", argv[0]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    argv[0] = (char *)(uintptr_t)found->label;
    return found->run(argc, argv);
}

char *role_line(void)
{
    static char line[1024];
    if (!fgets(line, sizeof line, stdin))
        return NULL;
    line[strcspn(line, "\n")] = 0;
    return line;
}

void role_say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    putchar('\n');
    fflush(stdout);
}
