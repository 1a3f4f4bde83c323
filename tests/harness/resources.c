/* SPDX-License-Identifier: MIT */
#include "harness/resources.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness/harness.h"

static int entries(pid_t pid, const char *folder)
{
    char path[64];
    int count = 0;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, folder);
    DIR *dir = opendir(path);
    if (!dir)
        return -1;
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

int process_fds(pid_t pid)
{
    return entries(pid, "fd") - (pid == getpid()); /* without the one that this count opens */
}

int process_threads(pid_t pid)
{
    return entries(pid, "task");
}

static FILE *open_maps(pid_t pid, const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return fopen(path, "re");
}

static int count_mappings(pid_t pid, const char *text, FILE *show)
{
    FILE *maps = open_maps(pid, "maps");
    char line[1024];
    int count = 0;

    if (!maps)
        return -1;
    while (fgets(line, sizeof line, maps)) {
        if (!strstr(line, text))
            continue;
        count++;
        if (show)
            fprintf(show, "  mapped: %s", line);
    }
    fclose(maps);
    return count;
}

int process_mappings(pid_t pid, const char *text)
{
    return count_mappings(pid, text, NULL);
}

struct process_memory process_memory(pid_t pid)
{
    struct process_memory memory = { -1, -1, -1 };
    FILE *file = open_maps(pid, "smaps_rollup");
    char line[256];

    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "Rss: %ld", &memory.resident);
        sscanf(line, "Pss: %ld", &memory.proportional);
        sscanf(line, "Anonymous: %ld", &memory.own);
    }
    if (file)
        fclose(file);
    return memory;
}

static void *nothing(void *context)
{
    return context;
}

struct resources resources_now(void)
{
    static bool asked;
    pthread_t thread;

    /* A sanitizer may start a thread of its own with the program's first one; it counts as there before. */
    if (!asked && !pthread_create(&thread, NULL, nothing, NULL))
        pthread_join(thread, NULL);
    asked = true;
    struct resources now = { .fds = process_fds(getpid()),
                             .mappings = process_mappings(getpid(), "memfd:sluice"),
                             .threads = process_threads(getpid()),
                             .bytes = mallinfo2().uordblks };
    if (now.fds < 0 || now.mappings < 0 || now.threads < 0)
        FAIL("/proc/self cannot be read");
    return now;
}

static void show_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char link[300], target[256];
        snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(link, target, sizeof target - 1);
        if (length > 0)
            fprintf(stderr, "  open: %s %.*s\n", entry->d_name, (int)length, target);
    }
    if (dir)
        closedir(dir);
}

static bool has_more(const struct resources *now, const struct resources *before)
{
    return now->fds > before->fds || now->mappings > before->mappings || now->threads > before->threads;
}

void resources_check(const struct resources *before, const char *when)
{
    int64_t until = test_now() + END_TIME;
    struct resources now = resources_now();

    while (has_more(&now, before) && test_now() < until) {
        test_nap(1000000);
        now = resources_now();
    }
    if (!has_more(&now, before))
        return;
    show_fds();
    count_mappings(getpid(), "memfd:sluice", stderr);
    FAIL("%s: %d descriptors (%d before), %d mappings (%d), %d threads (%d)", when, now.fds, before->fds, now.mappings,
         before->mappings, now.threads, before->threads);
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), e = strlen(end);
    return n > e && strcmp(name + n - e, end) == 0;
}

void folder_check(bool ended)
{
    DIR *dir = opendir(test_dir());

    if (!dir)
        FAIL("the folder of channels cannot be read");
    for (struct dirent *entry; (entry = readdir(dir));) {
        bool lock = ends_with(entry->d_name, ".lock");
        if (entry->d_name[0] == '.' || lock)
            continue;
        if (ended || entry->d_type != DT_SOCK || ends_with(entry->d_name, ".tmp"))
            FAIL("%s is left in the folder of channels", entry->d_name);
    }
    closedir(dir);
}

static time_t start;

__attribute__((constructor)) static void note_start(void)
{
    start = time(NULL);
}

static bool is_new(DIR *dir, const char *name)
{
    struct stat file;
    return fstatat(dirfd(dir), name, &file, AT_SYMLINK_NOFOLLOW) == 0 && file.st_ctime >= start;
}

void shm_check(void)
{
    DIR *dir = opendir("/dev/shm");

    for (struct dirent *entry; dir && (entry = readdir(dir));)
        /* cuda-link's channels have names there, and tests that run in parallel use this prefix. */
        if (strstr(entry->d_name, "sluice") && !strstr(entry->d_name, "sluice-test-") &&
            !strstr(entry->d_name, "sluice test>>") && is_new(dir, entry->d_name))
            FAIL("/dev/shm/%s is Sluice's", entry->d_name);
    if (dir)
        closedir(dir);
}
