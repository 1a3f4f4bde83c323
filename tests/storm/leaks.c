/* SPDX-License-Identifier: MIT */
#include "storm/leaks.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/test.h"

static int entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;

    if (!dir)
        FAIL("%s cannot be read", path);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* Lines of /proc/self/maps that belong to memory objects of ours; prints them if `show`. */
static int mappings(bool show)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int count = 0;

    if (!maps)
        FAIL("/proc/self/maps cannot be read");
    while (fgets(line, sizeof line, maps)) {
        if (!strstr(line, "memfd:sluice"))
            continue;
        count++;
        if (show)
            fprintf(stderr, "  mapped: %s", line);
    }
    fclose(maps);
    return count;
}

static void *nothing(void *context)
{
    return context;
}

struct belongings belongings_now(void)
{
    static bool asked;
    pthread_t thread;

    /* A sanitizer may start a thread of its own with our first: it counts as there before. */
    if (!asked && !pthread_create(&thread, NULL, nothing, NULL))
        pthread_join(thread, NULL);
    asked = true;
    return (struct belongings){
        .fds = entries("/proc/self/fd") - 1, /* the one that looks */
        .mappings = mappings(false),
        .threads = entries("/proc/self/task"),
        .bytes = mallinfo2().uordblks,
    };
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

void belongings_check(const struct belongings *before, const char *when)
{
    struct belongings now = belongings_now();

    for (int i = 0; i < 1000 && now.threads > before->threads;
         i++) { /* a joined thread takes a moment to go */
        test_nap(1000000);
        now = belongings_now();
    }
    if (now.fds <= before->fds && now.mappings <= before->mappings &&
        now.threads <= before->threads)
        return;
    show_fds();
    mappings(true);
    FAIL("%s: %d descriptors (%d before), %d mappings (%d), %d threads (%d)", when, now.fds,
         before->fds, now.mappings, before->mappings, now.threads, before->threads);
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

void shm_check(void)
{
    DIR *dir = opendir("/dev/shm");

    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strstr(entry->d_name, "sluice"))
            FAIL("/dev/shm/%s is Sluice's", entry->d_name);
    if (dir)
        closedir(dir);
}
