/* SPDX-License-Identifier: MIT
 *
 * The process that stays: it starts the worker, and starts another one if a kernel crashes it. It makes no call of the
 * library, so that workers are made by fork alone.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/args.h"
#include "../common/term.h"
#include "run.h"

#define SLICE        20             /* ms: how long the worker's end may go unnoticed */
#define END_TIME     (3 * SLUICE_S) /* for a worker to end by itself */
#define CRASHES      3              /* so many of one version within this time, and it is not started again */
#define CRASHES_TIME (10 * SLUICE_S)

static _Noreturn void be_worker(struct run *run, pid_t parent)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILED);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        signal(faults[i], SIG_DFL); /* not a sanitizer: the supervisor reports them */
    _exit(run_work(run));
}

/* Runs a worker until it ends. Returns its status, or -1 after a message. */
static int run_worker(struct run *run)
{
    int64_t kill_ns = 0;
    int status;
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        be_worker(run, parent);
    if (pid < 0) {
        say_error(run->command, "cannot start a process: %s.", strerror(errno));
        return -1;
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (stop_asked() && !kill_ns) {
            kill_ns = now_ns() + END_TIME;
            kill(pid, SIGTERM);
        } else if (kill_ns && now_ns() >= kill_ns) {
            kill(pid, SIGKILL);
        }
        poll(NULL, 0, SLICE); /* which a signal ends */
    }
    return status;
}

static bool ends_often(int64_t ends[CRASHES])
{
    memmove(ends, ends + 1, (CRASHES - 1) * sizeof *ends);
    ends[CRASHES - 1] = now_ns();
    return ends[0] && ends[CRASHES - 1] - ends[0] < CRASHES_TIME;
}

/* The kernel has crashed its worker. True if another one goes on: with the last version that worked, or when the file
 * is saved. */
static bool recover(struct run *run, int status, int64_t ends[CRASHES])
{
    struct run_kept *kept = run->kept;
    bool often = kept->works[0] && !kept->untried && ends_often(ends);
    char how[64] = "the GPU's driver failed";
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (kept->works[0] && !often) {
        say_error(run->command, "%s has crashed (%s)%s", run->name, how,
                  kept->untried ? "; the last version that worked goes on." : "; it was started again.");
        return true;
    }
    say_error(run->command, "%s has crashed (%s)%s%s", run->name, how, often ? " again and again" : "",
              run->watch ? "; it is started again when it is saved." : ".");
    kept->works[0] = 0;
    kept->waits = true;
    return run->watch;
}

int run_supervise(struct run *run)
{
    int64_t ends[CRASHES] = { 0 };
    if (run->watch && !run_watch(run))
        return EXIT_FAILED;
    for (;;) {
        int status = run_worker(run);
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : WORKER_CRASHED;
        if (stop_asked())
            return EXIT_DONE;
        if (status == -1 || (code == WORKER_CRASHED && !recover(run, status, ends)))
            return EXIT_FAILED;
        if (code == WORKER_MOVED && ends_often(ends)) {
            say_error(run->command, "the channels go from one device to another again and again.");
            return EXIT_FAILED;
        }
        if (code != WORKER_CRASHED && code != WORKER_MOVED)
            return code;
    }
}
