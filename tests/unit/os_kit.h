/* SPDX-License-Identifier: MIT
 *
 * What tests of src/os share.
 */
#ifndef OS_KIT_H
#define OS_KIT_H

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"

static inline bool fd_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static inline int open_count(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir);
    closedir(dir);
    return count;
}

/* From now on only `count` more descriptors can be opened; limit_fds(-1) restores the limit. */
static inline void limit_fds(int count)
{
    static rlim_t before;
    struct rlimit limit;
    int highest = -1, fds[64];
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (!before)
        before = limit.rlim_cur;
    for (int i = 0; i <= count; i++) /* including the first one that must not be available */
        CHECK((highest = fds[i] = dup(0)) >= 0);
    for (int i = 0; i <= count; i++)
        close(fds[i]);
    limit.rlim_cur = count < 0 ? before : (rlim_t)highest;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Checks CLOEXEC and, for what can block, O_NONBLOCK. */
static inline void check_flags(int fd, bool non_blocking)
{
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK(!non_blocking || fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* Waits for a child that ends by itself, with status 0. */
static inline void check_child(pid_t pid)
{
    int status;
    CHECK(pid > 0);
    while (waitpid(pid, &status, 0) < 0)
        CHECK(false);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

/* A path in the test's folder; four may be in use. */
static inline const char *in_dir(const char *name)
{
    static char paths[4][PATH_MAX];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", test_dir(), name);
    return path;
}

static inline mode_t mode_of(const char *path)
{
    struct stat status;
    CHECK_EQ(lstat(path, &status), 0);
    return status.st_mode & 07777;
}

static inline pid_t *forked_child(void)
{
    static pid_t pid;
    return &pid;
}

/* { ... } in a child made by fork, without exec. */
#define IN_CHILD(...) \
    do { \
        if ((*forked_child() = fork()) == 0) { \
            __VA_ARGS__; \
            _exit(0); \
        } \
        check_child(*forked_child()); \
    } while (0)

#endif
