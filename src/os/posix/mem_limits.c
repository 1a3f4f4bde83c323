/* SPDX-License-Identifier: MIT
 *
 * The size of a page, and how much memory is left: on the machine, and in this process's control groups (a container's
 * limit is one). Allocating more than that does not fail: the kernel kills a process.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/posix/posix.h"

enum { PATH = 512, LINE = 256 };

size_t sl_os_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Up to two values from a file of lines "NAME VALUE". False unless all were found. */
static bool read_values(const char *path, const char *const *names, uint64_t *values, int count)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    int found = 0;
    char line[LINE], name[64];
    uint64_t value;
    while (found < count && fgets(line, sizeof(line), file))
        for (int i = 0; i < count; i++)
            if (sscanf(line, "%63s %" SCNu64, name, &value) == 2 && !strcmp(name, names[i])) {
                values[i] = value;
                found++;
            }
    fclose(file);
    return found == count;
}

static bool read_number(const char *folder, const char *name, uint64_t *number)
{
    char path[PATH + 64];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool found = fscanf(file, "%" SCNu64, number) == 1; /* "max": no limit */
    fclose(file);
    return found;
}

struct version {
    const char *root, *limit, *usage;
    const char *caches[2]; /* memory that the kernel reclaims before it kills */
};

static const struct version versions[] = {
    { "/sys/fs/cgroup", "memory.max", "memory.current", { "inactive_file", "active_file" } },
    { "/sys/fs/cgroup/memory",
      "memory.limit_in_bytes",
      "memory.usage_in_bytes",
      { "total_inactive_file", "total_active_file" } },
};

static uint64_t available_in(const struct version *version, const char *folder)
{
    char stat[PATH + 64];
    uint64_t limit, usage, caches[2] = { 0, 0 };
    if (!read_number(folder, version->limit, &limit) || !read_number(folder, version->usage, &usage))
        return UINT64_MAX;
    snprintf(stat, sizeof(stat), "%s/memory.stat", folder);
    if (read_values(stat, version->caches, caches, 2))
        usage -= caches[0] + caches[1] < usage ? caches[0] + caches[1] : usage;
    return limit > usage ? limit - usage : 0;
}

/* What is left for the group and all its ancestors. `path` is as this process sees it: in a
 * container often just "/". */
static uint64_t room_up_from(const struct version *version, const char *path)
{
    char folder[PATH];
    uint64_t least = UINT64_MAX;
    int length = snprintf(folder, sizeof(folder), "%s%s", version->root, path);
    if (length < 0 || (size_t)length >= sizeof(folder))
        return least;
    for (;;) {
        uint64_t room = available_in(version, folder);
        least = room < least ? room : least;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < strlen(version->root))
            return least;
        *slash = '\0';
    }
}

static uint64_t room_of_groups(void)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    uint64_t least = UINT64_MAX;
    char line[PATH];
    /* NUMBER:CONTROLLERS:PATH; 0 and no controllers: version 2. */
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        char *kinds = strchr(line, ':'), *path = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!path)
            continue;
        *kinds++ = *path++ = '\0';
        bool second = !strcmp(line, "0");
        if (!second && strcmp(kinds, "memory") != 0)
            continue;
        uint64_t room = room_up_from(&versions[!second], path);
        least = room < least ? room : least;
    }
    if (file)
        fclose(file);
    return least;
}

uint64_t sl_memory_available(void)
{
    static const char *const names[] = { "MemAvailable:", "SwapFree:" };
    uint64_t kib[2], groups = room_of_groups();
    if (!read_values("/proc/meminfo", names, kib, 2))
        return groups;
    uint64_t swap = kib[1] * 1024, machine = kib[0] * 1024 + swap;
    groups = groups > UINT64_MAX - swap ? groups : groups + swap;
    return machine < groups ? machine : groups;
}
