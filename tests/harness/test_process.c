/* SPDX-License-Identifier: MIT
 *
 * The process of a test: runs the test, then checks what it left behind.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness/harness.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif

#define MAX_FDS 1024

static int report_fd = -1;
static bool keeps_fds, fds_before[MAX_FDS];
static int threads_before;
static char own_folder[512]; /* for a run without a runner */

double test_slowness(void)
{
#ifdef SANITIZED
    return 4;
#else
    return 1;
#endif
}

double test_patience(void)
{
    return 3 * test_slowness();
}

long test_scale(long count)
{
    const char *text = getenv("SLUICE_TEST_SCALE");
    double scale = text ? strtod(text, NULL) : 1;
    long scaled = (long)((double)count * scale);
    return scaled < 1 ? 1 : scaled;
}

int64_t test_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void test_nap(int64_t ns)
{
    struct timespec time = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
    nanosleep(&time, NULL);
}

const char *test_program(void)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        FAIL("/proc/self/exe cannot be read");
    path[length] = 0;
    return path;
}

void test_keeps_fds(void)
{
    keeps_fds = true;
}

static void report(const char *text)
{
    if (report_fd >= 0 && write(report_fd, text, strlen(text)) < 0)
        perror("report");
}

void harness_leave(int status)
{
    fflush(NULL);
    if (*own_folder)
        harness_folder_remove(own_folder);
    _exit(status);
}

void test_skip(const char *format, ...)
{
    char reason[512];
    va_list list;
    va_start(list, format);
    vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    if (report_fd < 0)
        fprintf(stderr, "skipped: %s\n", reason);
    report(reason);
    harness_leave(HARNESS_SKIPPED);
}

/* The open descriptors, one flag each. */
static void open_fds(bool open[MAX_FDS])
{
    memset(open, 0, MAX_FDS * sizeof open[0]);
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        FAIL("/proc/self/fd cannot be read");
    for (struct dirent *entry; (entry = readdir(dir));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != dirfd(dir) && fd < MAX_FDS)
            open[fd] = true;
    }
    closedir(dir);
}

static int threads(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

void test_begins_here(void)
{
    threads_before = threads();
    open_fds(fds_before);
}

static bool left_open(const bool *before, const bool *after)
{
    bool left = false;
    for (int fd = 0; fd < MAX_FDS; fd++)
        left = left || (after[fd] && !before[fd]);
    return left;
}

static bool check_fds(const bool *before)
{
    int64_t until = test_now() + END_TIME;
    bool after[MAX_FDS], good = true;
    open_fds(after);
    while (left_open(before, after) && test_now() < until) {
        test_nap(1000000);
        open_fds(after);
    }
    for (int fd = 0; fd < MAX_FDS; fd++) {
        char link[64], target[256] = "?";
        if (before[fd] == after[fd])
            continue;
        good = false;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = after[fd] ? readlink(link, target, sizeof target - 1) : 1;
        target[length > 0 ? length : 1] = 0;
        if (after[fd])
            fprintf(stderr, "descriptor %d was left open: %s\n", fd, target);
        else
            fprintf(stderr, "descriptor %d was open before the test and is not any more\n", fd);
    }
    return good;
}

static bool check_threads(int before)
{
    int64_t until = test_now() + END_TIME;
    while (threads() > before && test_now() < until)
        test_nap(1000000);
    if (threads() <= before)
        return true;
    fprintf(stderr, "%d threads more than before the test, ten seconds after its end:\n", threads() - before);
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[300], name[64] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (file && fgets(name, sizeof name, file))
            fprintf(stderr, "  thread %s: %s", entry->d_name, name);
        if (file)
            fclose(file);
    }
    if (dir)
        closedir(dir);
    return false;
}

static void *nothing(void *argument)
{
    return argument;
}

void harness_test_process(const struct test_entry *entry, int report_to)
{
    char runtime[600], cache[4200];
    pthread_t thread;

    report_fd = report_to;
    if (report_fd >= 0)
        fcntl(report_fd, F_SETFD, FD_CLOEXEC); /* roles must not inherit it */
    if (!getenv(HARNESS_FOLDER)) {             /* --no-fork */
        if (!harness_folder_make(own_folder, sizeof own_folder))
            FAIL("no temporary folder can be made");
        setenv(HARNESS_FOLDER, own_folder, 1);
    }
    snprintf(runtime, sizeof runtime, "%s/runtime", getenv(HARNESS_FOLDER));
    mkdir(runtime, 0700);
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    snprintf(cache, sizeof cache, "%s-kernels", test_program()); /* all tests of a binary share what was compiled */
    setenv("SLUICE_CACHE", cache, 1);
    unsetenv("SLUICE_DIR");

    /* A sanitizer may start a thread of its own with the program's first one; it counts as there before. */
    if (!pthread_create(&thread, NULL, nothing, NULL))
        pthread_join(thread, NULL);
    test_begins_here();

    entry->run();

    harness_end_children();
    bool good = check_threads(threads_before);
    good = (keeps_fds || check_fds(fds_before)) && good;
    if (*own_folder)
        harness_folder_remove(own_folder);
    if (good)
        report("done");
    exit(good ? 0 : 1); /* not _exit: leaks are checked and coverage is written */
}
