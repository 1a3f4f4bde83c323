/* SPDX-License-Identifier: MIT
 *
 * Runs tests in processes of their own, several at a time if asked to; collects their output, and ends them when they
 * exceed their limit.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/harness.h"

#define MAX_OUTPUT (256 * 1024)
#define REPORT_FD  3

struct run {
    const struct test_entry *entry; /* NULL: no test runs here */
    char id[256], folder[512];
    double seconds; /* its limit */
    int64_t began;
    bool started;
    pid_t pid;
    int output, report; /* our ends of the pipes: its output, and its report */
    int status;
    bool timed_out, cut;
    char *text; /* the first MAX_OUTPUT bytes printed */
    size_t size;
};

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    interrupted = number;
}

static _Noreturn void become_test(const char *id, int output, int report, pid_t parent)
{
    static const struct rlimit no_core = { 0, 0 };
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(null, 0);
    dup2(output, 1);
    dup2(output, 2);
    if (report == REPORT_FD)
        fcntl(report, F_SETFD, 0);
    else
        dup2(report, REPORT_FD);
    execl("/proc/self/exe", "test", "--inside", id, "3", (char *)NULL);
    fprintf(stderr, "exec: %s\n", strerror(errno));
    _exit(1);
}

static bool start(struct run *run, const char *id)
{
    int output[2], report[2];
    pid_t self = getpid();

    if (pipe2(output, O_CLOEXEC) || pipe2(report, O_CLOEXEC))
        return false;
    fflush(NULL);
    run->pid = fork();
    if (run->pid == 0)
        become_test(id, output[1], report[1], self);
    setpgid(run->pid, run->pid); /* also here: this process may need it first */
    close(output[1]);
    close(report[1]);
    run->output = output[0];
    run->report = report[0];
    fcntl(run->output, F_SETFL, O_NONBLOCK);
    fcntl(run->report, F_SETFL, O_NONBLOCK);
    return run->pid > 0;
}

static void collect(struct run *run)
{
    char part[4096];
    ssize_t got;
    while ((got = read(run->output, part, sizeof part)) > 0) {
        size_t room = MAX_OUTPUT - run->size;
        size_t take = (size_t)got < room ? (size_t)got : room;
        memcpy(run->text + run->size, part, take);
        run->size += take;
        run->text[run->size] = 0;
        run->cut = run->cut || take < (size_t)got;
    }
}

/* True if the process has ended or exceeded its limit. Processes that it started may keep the pipe open, so the end of
 * the pipe is no criterion. */
static bool has_ended(struct run *run)
{
    if (!run->started)
        return true;
    collect(run);
    if (waitpid(run->pid, &run->status, WNOHANG) != run->pid) {
        if (test_now() <= run->began + (int64_t)(run->seconds * 1e9) && !interrupted)
            return false;
        run->timed_out = true;
        kill(-run->pid, SIGKILL);
        waitpid(run->pid, &run->status, 0);
    }
    kill(-run->pid, SIGKILL); /* all that it left running */
    collect(run);
    return true;
}

static void show(const struct run *run)
{
    const char *at = run->text, *end = run->text + run->size;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        int length = (int)((stop ? stop : end) - at);
        printf("#   %.*s\n", length, at);
        at += length + 1;
    }
    if (run->cut)
        printf("#   ... (cut off)\n");
}

/* Writes why it failed; returns false if it passed. */
static bool why(const struct run *run, const char *report, double seconds, char *text, size_t size)
{
    if (interrupted)
        snprintf(text, size, "interrupted");
    else if (run->timed_out)
        snprintf(text, size, "killed after %g s", seconds);
    else if (WIFSIGNALED(run->status))
        snprintf(text, size, "died of signal %d (%s)", WTERMSIG(run->status), strsignal(WTERMSIG(run->status)));
    else if (WEXITSTATUS(run->status) == HARNESS_SKIPPED && *report)
        return false;
    else if (WEXITSTATUS(run->status))
        snprintf(text, size, "exit status %d", WEXITSTATUS(run->status));
    else if (strcmp(report, "done"))
        snprintf(text, size, "ended the process before its end");
    else if (strstr(run->text, "Sanitizer: ") || strstr(run->text, ": runtime error: "))
        snprintf(text, size, "a sanitizer complained, in it or in one of its roles");
    else
        return false;
    return true;
}

/* Chooses the seed for the fake driver's random delays (fake/fake.h). A failing test prints it, so that the run can be
 * repeated. */
static void choose_chance(void)
{
    char seed[32];

    if (!getenv("SLUICE_FAKE_JITTER"))
        return;
    snprintf(seed, sizeof seed, "%d", (int)(test_now() / 1000 % 1000000));
    setenv("SLUICE_FAKE_SEED", seed, 0);
}

static void show_chance(void)
{
    const char *jitter = getenv("SLUICE_FAKE_JITTER");

    if (jitter)
        printf("# with SLUICE_FAKE_JITTER=%s SLUICE_FAKE_SEED=%s\n", jitter, getenv("SLUICE_FAKE_SEED"));
}

/* Prints the TAP lines. Returns false if the test failed. */
static bool finish(struct run *run, int number, bool verbose)
{
    char report[1024] = "", reason[128];
    double took = (double)(test_now() - run->began) / 1e9;

    if (run->started) {
        if (read(run->report, report, sizeof report - 1) < 0)
            *report = 0;
        close(run->output);
        close(run->report);
    }
    bool failed = !run->started || why(run, report, run->seconds, reason, sizeof reason);
    if (failed)
        printf("not ok %d - %s\n# %s\n", number, run->id, run->started ? reason : "it could not be started");
    else if (strcmp(report, "done") != 0)
        printf("ok %d - %s # SKIP %s\n", number, run->id, report);
    else
        printf("ok %d - %s\n", number, run->id);
    if (failed)
        show_chance();
    if (failed || verbose)
        show(run);
    if (took > 1)
        printf("# %.1f s\n", took);
    fflush(stdout);
    if (run->folder[0])
        harness_folder_remove(run->folder);
    free(run->text);
    *run = (struct run){ .entry = NULL };
    return !failed;
}

static void begin(struct run *run, const struct test_entry *entry)
{
    *run = (struct run){ .entry = entry, .seconds = entry->seconds * test_patience(), .began = test_now() };
    harness_id(entry->file, entry->label, run->id, sizeof run->id);
    run->text = calloc(1, MAX_OUTPUT + 1);
    if (!run->text || !harness_folder_make(run->folder, sizeof run->folder)) {
        run->folder[0] = 0;
        return;
    }
    setenv(HARNESS_FOLDER, run->folder, 1);
    run->started = start(run, run->id);
}

/* Sleeps until a test prints something, or until the limits have to be checked again. */
static void nap(const struct run *runs, int jobs, int ms)
{
    struct pollfd fds[HARNESS_JOBS];
    nfds_t count = 0;

    for (int i = 0; i < jobs; i++)
        if (runs[i].entry)
            fds[count++] = (struct pollfd){ .fd = runs[i].output, .events = POLLIN };
    int ready = poll(fds, count, ms);
    bool data = false;
    for (nfds_t i = 0; i < count; i++)
        data = data || fds[i].revents & POLLIN;
    if (ready > 0 && !data)
        test_nap(1000000); /* one closed its output and still runs */
}

int harness_run(const struct test_entry *const *tests, int count, int jobs, bool verbose)
{
    struct run runs[HARNESS_JOBS] = { { .entry = NULL } };
    int next = 0, number = 0, failed = 0, ms = 1;

    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    choose_chance();
    while (number < count && !(interrupted && number == next)) {
        bool ended = false;
        for (int i = 0; i < jobs; i++) {
            if (!runs[i].entry && next < count && !interrupted)
                begin(&runs[i], tests[next++]);
            if (runs[i].entry && has_ended(&runs[i])) {
                failed += !finish(&runs[i], ++number, verbose);
                ended = true;
            }
        }
        ms = ended ? 1 : ms < 16 ? ms * 2 : ms;
        if (!ended)
            nap(runs, jobs, ms);
    }
    if (interrupted)
        _exit(128 + interrupted);
    return failed;
}
