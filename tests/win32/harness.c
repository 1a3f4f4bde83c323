/* SPDX-License-Identifier: MIT
 *
 * The harness (harness/test.h) for Windows: each test runs in a process of its own with a time limit, its roles are
 * processes that end with it, and the binary writes TAP. With --together they run in one process, as starting one takes
 * Wine longer than most unit tests; the first that fails ends it.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "harness/harness.h"

#define MAX_CHILDREN 64

struct test_entry *harness_tests;
struct role_entry *harness_roles;

void harness_id(const char *file, const char *label, char *id, size_t size)
{
    const char *slash = strrchr(file, '/');
    const char *base = slash ? slash + 1 : file;
    const char *dot = strrchr(base, '.');

    snprintf(id, size, "%.*s.%s", dot ? (int)(dot - base) : (int)strlen(base), base, label);
}

void test_register(struct test_entry *entry)
{
    struct test_entry **at = &harness_tests;

    while (*at && (strcmp((*at)->file, entry->file) < 0 ||
                   (strcmp((*at)->file, entry->file) == 0 && (*at)->line < entry->line)))
        at = &(*at)->next;
    entry->next = *at;
    *at = entry;
}

void role_register(struct role_entry *entry)
{
    entry->next = harness_roles;
    harness_roles = entry;
}

/* ---- time, place ---- */

double test_slowness(void)
{
    return 1;
}

double test_patience(void)
{
    return 3;
}

long test_scale(long count)
{
    return count;
}

int64_t test_now(void)
{
    LARGE_INTEGER ticks, frequency;

    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&ticks);
    return ticks.QuadPart / frequency.QuadPart * 1000000000 +
           ticks.QuadPart % frequency.QuadPart * 1000000000 / frequency.QuadPart;
}

void test_nap(int64_t ns)
{
    Sleep((DWORD)(ns / 1000000) + 1);
}

const char *test_program(void)
{
    static char path[MAX_PATH];

    GetModuleFileNameA(NULL, path, MAX_PATH);
    return path;
}

const char *test_dir(void)
{
    SKIP("Sluice's own channels need Linux");
}

void test_keeps_fds(void)
{
}

static char running_now[300]; /* the test that runs, as a line of TAP; together only */
static jmp_buf skipped;       /* back from it */

void harness_leave(int status)
{
    if (*running_now)
        puts(running_now);
    fflush(NULL);
    TerminateProcess(GetCurrentProcess(), (UINT)status);
    abort();
}

void test_skip(const char *format, ...)
{
    va_list list;

    if (*running_now)
        printf("%s # ", running_now + strlen("not "));
    va_start(list, format);
    printf("SKIP ");
    vprintf(format, list);
    va_end(list);
    putchar('\n');
    if (*running_now)
        longjmp(skipped, 1);
    harness_leave(HARNESS_SKIPPED);
}

/* ---- processes: a job ends all of them with this one ---- */

struct process {
    HANDLE process, in, out; /* in: its stdin; out: what it wrote, to be read */
};
static struct process children[MAX_CHILDREN];

static HANDLE job(void)
{
    static HANDLE made;
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = { .BasicLimitInformation.LimitFlags =
                                                        JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE };

    if (!made && (made = CreateJobObjectW(NULL, NULL)) != NULL)
        SetInformationJobObject(made, JobObjectExtendedLimitInformation, &limits, sizeof limits);
    return made;
}

static bool start(const char *line, bool own_errors, struct process *process)
{
    SECURITY_ATTRIBUTES inherited = { .nLength = sizeof inherited, .bInheritHandle = TRUE };
    STARTUPINFOA info = { .cb = sizeof info, .dwFlags = STARTF_USESTDHANDLES };
    PROCESS_INFORMATION made;
    char copy[4096];

    if (!CreatePipe(&info.hStdInput, &process->in, &inherited, 0) ||
        !CreatePipe(&process->out, &info.hStdOutput, &inherited, 0))
        return false;
    SetHandleInformation(process->in, HANDLE_FLAG_INHERIT, 0);
    SetHandleInformation(process->out, HANDLE_FLAG_INHERIT, 0);
    info.hStdError = own_errors ? GetStdHandle(STD_ERROR_HANDLE) : info.hStdOutput;
    snprintf(copy, sizeof copy, "%s", line);
    fflush(NULL);
    bool done = CreateProcessA(NULL, copy, NULL, NULL, TRUE, 0, NULL, NULL, &info, &made);
    CloseHandle(info.hStdInput);
    CloseHandle(info.hStdOutput);
    if (!done)
        return false;
    AssignProcessToJobObject(job(), made.hProcess);
    CloseHandle(made.hThread);
    process->process = made.hProcess;
    return true;
}

static struct process *process_of(const struct child *child)
{
    if (child->pid < 1)
        FAIL("%s is gone", child->label);
    return &children[child->pid - 1];
}

struct child child_start(const char *const *argv)
{
    struct child child = { .in = 0, .out = 0 };
    char line[4096] = "";
    int at = 0;

    for (; *argv; argv++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s\"%s\"", *line ? " " : "", *argv);
    while (at < MAX_CHILDREN && children[at].process)
        at++;
    if (at == MAX_CHILDREN || !start(line, true, &children[at]))
        FAIL("cannot start %s: error %lu", line, GetLastError());
    child.pid = at + 1;
    return child;
}

struct child role_start_at(const char *file, const char *role, ...)
{
    const char *argv[20] = { test_program(), "--role" };
    char id[256];
    int count = 3;
    va_list list;

    harness_id(file, role, id, sizeof id);
    argv[2] = id;
    va_start(list, role);
    for (const char *argument; count < 19 && (argument = va_arg(list, const char *));)
        argv[count++] = argument;
    va_end(list);
    struct child child = child_start(argv);
    snprintf(child.label, sizeof child.label, "%s", role);
    return child;
}

void child_send(struct child *child, const char *line)
{
    char text[1024];
    DWORD sent, size = (DWORD)snprintf(text, sizeof text, "%s\n", line);

    if (!WriteFile(process_of(child)->in, text, size, &sent, NULL) || sent != size)
        FAIL("%s does not take \"%s\"", child->label, line);
}

/* False at the end of its output. */
static bool take(struct child *child)
{
    DWORD there = 0, got, room = (DWORD)(sizeof child->text - 1 - child->text_size);

    if (!PeekNamedPipe(process_of(child)->out, NULL, 0, NULL, &there, NULL))
        return false;
    if (there &&
        ReadFile(process_of(child)->out, child->text + child->text_size, there < room ? there : room, &got, NULL))
        child->text_size += got;
    return true;
}

const char *child_line_at(const char *file, int line, struct child *child, double seconds)
{
    static char text[sizeof child->text];
    int64_t until = test_now() + (int64_t)(seconds * test_patience() * 1e9);
    bool more = true;

    for (;;) {
        char *stop = memchr(child->text, '\n', child->text_size);
        if (stop) {
            size_t length = (size_t)(stop - child->text);
            memcpy(text, child->text, length);
            text[length] = 0;
            if (length && text[length - 1] == '\r')
                text[length - 1] = 0;
            child->text_size -= length + 1;
            memmove(child->text, stop + 1, child->text_size);
            return text;
        }
        if (!more)
            return NULL;
        if (test_now() > until)
            test_fail(file, line, "%s has not written a line in %g s", child->label, seconds * test_patience());
        if ((more = take(child)) && !memchr(child->text, '\n', child->text_size))
            Sleep(1);
    }
}

void child_expect_at(const char *file, int line, struct child *child, const char *text, double seconds)
{
    const char *got = child_line_at(file, line, child, seconds);

    if (!got || strcmp(got, text) != 0)
        test_fail(file, line, "%s should write \"%s\", not \"%s\"", child->label, text, got ? got : "the end");
}

static void close_in(struct process *process)
{
    if (process->in)
        CloseHandle(process->in);
    process->in = NULL;
}

bool child_ended(struct child *child)
{
    DWORD status;

    if (child->pid == 0)
        return true;
    struct process *process = process_of(child);
    if (WaitForSingleObject(process->process, 0) != WAIT_OBJECT_0)
        return false;
    GetExitCodeProcess(process->process, &status);
    child->status = (int)status;
    close_in(process);
    CloseHandle(process->out);
    CloseHandle(process->process);
    *process = (struct process){ 0 };
    child->pid = 0;
    return true;
}

int child_wait_at(const char *file, int line, struct child *child, double seconds)
{
    int64_t until = test_now() + (int64_t)(seconds * test_patience() * 1e9);

    while (!child_ended(child)) {
        if (test_now() > until)
            test_fail(file, line, "%s has not ended in %g s", child->label, seconds * test_patience());
        Sleep(1);
    }
    return child->status;
}

/* Windows has one way: TerminateProcess. */
void child_kill(struct child *child, int signal_number)
{
    (void)signal_number;
    if (child_ended(child))
        return;
    HANDLE process = process_of(child)->process;
    TerminateProcess(process, 137);
    WaitForSingleObject(process, INFINITE);
    (void)child_ended(child);
}

void role_stop_at(const char *file, int line, struct child *child)
{
    if (child->pid)
        close_in(process_of(child));
    int status = child_wait_at(file, line, child, 10);
    if (status)
        test_fail(file, line, "%s ended with status %d", child->label, status);
}

char *role_line(void)
{
    static char line[1024];

    if (!fgets(line, sizeof line, stdin))
        return NULL;
    line[strcspn(line, "\r\n")] = 0;
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

/* ---- running ---- */

static int run_role(int argc, char **argv)
{
    for (const struct role_entry *r = harness_roles; r; r = r->next) {
        char id[256];
        harness_id(r->file, r->label, id, sizeof id);
        if (!strcmp(id, argv[0]))
            return r->run(argc, argv);
    }
    FAIL("there is no ROLE(%s)", argv[0]);
}

static int run_inside(const char *name)
{
    for (const struct test_entry *e = harness_tests; e; e = e->next) {
        char id[256];
        harness_id(e->file, e->label, id, sizeof id);
        if (strcmp(id, name) != 0)
            continue;
        e->run();
        harness_leave(0);
    }
    fprintf(stderr, "there is no test %s\n", name);
    return 2;
}

/* What it writes is kept, and shown if it fails. */
static bool run_one(const struct test_entry *entry, const char *id, int number)
{
    static char text[256 * 1024];
    char line[1024];
    struct process process;
    DWORD size = 0, got, there, status = 1;
    int64_t began = test_now();
    bool ended = false;

    snprintf(line, sizeof line, "\"%s\" --inside %s", test_program(), id);
    if (!start(line, false, &process))
        return printf("not ok %d - %s\n# it cannot be started\n", number, id), false;
    close_in(&process);
    while (test_now() - began < (int64_t)(entry->seconds * test_patience() * 1e9)) {
        ended = WaitForSingleObject(process.process, 0) == WAIT_OBJECT_0;
        while (PeekNamedPipe(process.out, NULL, 0, NULL, &there, NULL) && there && size + there < sizeof text &&
               ReadFile(process.out, text + size, there, &got, NULL))
            size += got;
        if (ended)
            break;
        Sleep(1);
    }
    text[size] = 0;
    if (ended)
        GetExitCodeProcess(process.process, &status);
    else
        TerminateProcess(process.process, 1);
    CloseHandle(process.process);
    CloseHandle(process.out);
    char *skip = status == HARNESS_SKIPPED ? strstr(text, "SKIP ") : NULL;
    if (skip)
        skip[strcspn(skip, "\r\n")] = 0;
    printf("%sok %d - %s%s%s\n", status && !skip ? "not " : "", number, id, skip ? " # " : "", skip ? skip : "");
    if (status && !skip)
        printf("# %s\n%s\n", ended ? "it failed:" : "it did not end in time:", text);
    fflush(stdout);
    return status == 0 || skip;
}

static bool chosen(const char *id, char **patterns, int count)
{
    for (int i = 0; i < count; i++)
        if (strncmp(id, patterns[i], strlen(patterns[i])) == 0)
            return true;
    return count == 0;
}

static int run_together(void)
{
    static const struct test_entry *e; /* longjmp leaves them as they are */
    static int number;
    char id[256];

    for (e = harness_tests; e; e = e->next) {
        harness_id(e->file, e->label, id, sizeof id);
        snprintf(running_now, sizeof running_now, "not ok %d - %s", ++number, id);
        if (setjmp(skipped))
            continue;
        e->run();
        puts(running_now + strlen("not "));
    }
    *running_now = 0;
    printf("1..%d\n", number);
    return 0;
}

int main(int argc, char **argv)
{
    int total = 0, number = 0, failed = 0;
    char id[256];

    _setmode(_fileno(stdout), _O_BINARY);
    if (argc == 2 && !strcmp(argv[1], "--together"))
        return run_together();
    if (argc >= 3 && !strcmp(argv[1], "--role"))
        return run_role(argc - 2, argv + 2);
    if (argc == 3 && !strcmp(argv[1], "--inside"))
        return run_inside(argv[2]);
    for (const struct test_entry *e = harness_tests; e; e = e->next)
        total += (harness_id(e->file, e->label, id, sizeof id), chosen(id, argv + 1, argc - 1));
    printf("TAP version 13\n1..%d\n", total);
    for (const struct test_entry *e = harness_tests; e; e = e->next) {
        harness_id(e->file, e->label, id, sizeof id);
        if (chosen(id, argv + 1, argc - 1))
            failed += !run_one(e, id, ++number);
    }
    return failed || !total;
}
