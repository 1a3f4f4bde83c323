/* SPDX-License-Identifier: MIT
 *
 * The process that stays: it starts the worker, again if a kernel crashes it, and tells it of lines on standard input
 * and of new versions of the file. It makes no call of the library, so that workers are made by fork alone.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/args.h"
#include "../common/term.h"
#include "files.h"
#include "run.h"

#define SLICE        200            /* ms: how long a signal may go unnoticed */
#define END_TIME     (3 * SLUICE_S) /* for a worker to end by itself */
#define CRASHES      3              /* so many of one version within this time, and it is not started again */
#define CRASHES_TIME (10 * SLUICE_S)

struct supervisor {
    struct run *run; /* with the version that a new worker starts with */
    pid_t pid;       /* of the worker; 0: none runs, until the file is saved */
    int fd;          /* to it */
    char *latest;    /* the version that was sent to it last, or NULL */
    uint32_t number; /* of that */
    bool works;      /* the version in `run` has finished a frame */
    int64_t crashes[CRASHES];
    struct run_file file;
    struct run_lines lines;
};

/* ---- the worker ---- */

static _Noreturn void be_worker(struct supervisor *supervisor, int fd, pid_t parent)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };
    setpgid(0, 0); /* so that Ctrl-C only reaches the supervisor */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILED);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        signal(faults[i], SIG_DFL); /* the supervisor reports them */
    close(supervisor->fd);
    _exit(run_work(supervisor->run, fd));
}

static int start_worker(struct supervisor *supervisor)
{
    int pair[2];
    pid_t parent = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        say_error(supervisor->run->command, "cannot start a process: %s.", strerror(errno));
        return EXIT_FAILED;
    }
    supervisor->fd = pair[0];
    fflush(NULL);
    supervisor->pid = fork();
    if (supervisor->pid == 0)
        be_worker(supervisor, pair[1], parent);
    close(pair[1]);
    if (supervisor->pid > 0)
        return EXIT_DONE;
    say_error(supervisor->run->command, "cannot start a process: %s.", strerror(errno));
    close(pair[0]);
    supervisor->pid = 0;
    return EXIT_FAILED;
}

static void send_message(struct supervisor *supervisor, uint32_t kind, const char *text)
{
    struct run_message message = { .kind = kind, .number = supervisor->number, .bytes = (uint32_t)strlen(text) };
    const char *parts[] = { (const char *)&message, text };
    size_t sizes[] = { sizeof message, message.bytes };
    for (int i = 0; i < 2 && supervisor->pid; i++)
        while (sizes[i]) {
            ssize_t put = send(supervisor->fd, parts[i], sizes[i], MSG_NOSIGNAL);
            if (put < 0 && (errno != EINTR || stop_asked()))
                return; /* it has ended, which is noticed by its status */
            parts[i] += put > 0 ? put : 0;
            sizes[i] -= put > 0 ? (size_t)put : 0;
        }
}

/* A version that works is the one that workers start with from now on. */
static void take_message(struct supervisor *supervisor)
{
    struct run_message message;
    if (recv(supervisor->fd, &message, sizeof message, MSG_WAITALL) != sizeof message)
        return;
    if (message.number == supervisor->run->number)
        supervisor->works = true;
    if (!supervisor->latest || message.number != supervisor->number)
        return;
    free(supervisor->run->text);
    supervisor->run->text = supervisor->latest;
    supervisor->run->number = supervisor->number;
    supervisor->latest = NULL;
    supervisor->works = true;
}

/* ---- its end ---- */

static bool crashes_often(struct supervisor *supervisor)
{
    int64_t now = now_ns(), *crashes = supervisor->crashes;
    memmove(crashes, crashes + 1, (CRASHES - 1) * sizeof *crashes);
    crashes[CRASHES - 1] = now;
    return crashes[0] && now - crashes[0] < CRASHES_TIME;
}

/* The worker was ended by the kernel. Goes on with the last version that works. Returns an exit code. */
static int recover(struct supervisor *supervisor, int status)
{
    struct run *run = supervisor->run;
    char how[64];
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "the GPU's driver failed");
    bool latest = supervisor->latest != NULL; /* the version that has crashed is not the one in `run` */
    bool often = !latest && supervisor->works && crashes_often(supervisor);
    free(supervisor->latest);
    supervisor->latest = NULL;
    if (supervisor->works && !often) {
        say_error(run->command, "%s has crashed (%s)%s", run->name, how,
                  latest ? "; the last version that worked goes on." : "; it was started again.");
        run->restarted = true;
        return start_worker(supervisor);
    }
    say_error(run->command, "%s has crashed (%s)%s%s", run->name, how, often ? " again and again" : "",
              run->watch ? "; it is started again when it is saved." : ".");
    return run->watch ? EXIT_DONE : EXIT_FAILED;
}

/* The channels are on another device now, for which another worker compiles the kernel. Returns an exit code. */
static int follow(struct supervisor *supervisor)
{
    supervisor->run->restarted = true;
    if (!crashes_often(supervisor))
        return start_worker(supervisor);
    say_error(supervisor->run->command, "the channels go from one device to another again and again.");
    return EXIT_FAILED;
}

/* Reaps the worker. *code: its own end is the command's. */
static bool has_ended(struct supervisor *supervisor, int *code)
{
    int status;
    char byte;
    if (!supervisor->pid || waitpid(supervisor->pid, &status, WNOHANG) != supervisor->pid)
        return false;
    while (recv(supervisor->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0)
        take_message(supervisor);
    close(supervisor->fd);
    supervisor->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == WORKER_MOVED) {
        *code = follow(supervisor);
        return *code != EXIT_DONE;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) != WORKER_CRASHED) {
        *code = WEXITSTATUS(status);
        return true;
    }
    *code = recover(supervisor, status);
    return *code != EXIT_DONE;
}

static void stop_worker(struct supervisor *supervisor)
{
    int64_t end = now_ns() + END_TIME;
    if (!supervisor->pid)
        return;
    close(supervisor->fd);
    while (waitpid(supervisor->pid, NULL, WNOHANG) == 0) {
        if (now_ns() >= end)
            kill(supervisor->pid, SIGKILL);
        poll(NULL, 0, 5);
    }
    supervisor->pid = 0;
}

/* ---- news ---- */

static void take_file(struct supervisor *supervisor)
{
    char *text = run_file_read(supervisor->run, true);
    if (!text)
        return;
    supervisor->number++;
    free(supervisor->latest);
    supervisor->latest = text;
    if (supervisor->pid) {
        send_message(supervisor, RUN_SOURCE, text);
        return;
    }
    free(supervisor->run->text);
    supervisor->run->text = text;
    supervisor->run->number = supervisor->number;
    supervisor->latest = NULL;
    supervisor->works = false;
    (void)start_worker(supervisor);
}

static void take_line(struct supervisor *supervisor, const char *line)
{
    struct run_value value;
    if (!run_value_parse(supervisor->run, line, &value))
        return;
    run_value_keep(supervisor->run, &value);
    send_message(supervisor, RUN_LINE, line);
}

static int loop(struct supervisor *supervisor)
{
    int code = EXIT_DONE;
    while (!stop_asked() && !has_ended(supervisor, &code)) {
        struct pollfd fds[] = { { .fd = supervisor->pid ? supervisor->fd : -1, .events = POLLIN },
                                { .fd = run_lines_fd(&supervisor->lines), .events = POLLIN },
                                { .fd = supervisor->file.fd, .events = POLLIN } };
        const char *line;
        poll(fds, 3, run_file_wait(&supervisor->file, SLICE));
        if (fds[0].revents & POLLIN)
            take_message(supervisor);
        else if (fds[0].revents)
            poll(NULL, 0, 1); /* it ends at this moment */
        if (fds[1].revents)
            run_lines_read(&supervisor->lines);
        while ((line = run_lines_next(&supervisor->lines)))
            take_line(supervisor, line);
        if (run_file_changed(&supervisor->file, fds[2].revents != 0))
            take_file(supervisor);
    }
    return code;
}

int run_supervise(struct run *run)
{
    struct supervisor supervisor = { .run = run, .fd = -1, .number = 1, .file.fd = -1 };
    run->number = 1;
    if (run->watch && !run_file_watch(&supervisor.file, run))
        return EXIT_FAILED;
    run->text = run_file_read(run, false);
    int code = run->text ? start_worker(&supervisor) : EXIT_FAILED;
    if (code == EXIT_DONE)
        code = loop(&supervisor);
    stop_worker(&supervisor);
    run_file_close(&supervisor.file);
    free(supervisor.latest);
    free(run->text);
    return code;
}
