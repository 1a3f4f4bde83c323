/* SPDX-License-Identifier: MIT */
#include "fault/wrap.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>

#define PEERPIDFD 77   /* SO_PEERPIDFD, which older headers lack */
#define ADD_SEALS 1033 /* F_ADD_SEALS; <fcntl.h> would bring declarations that the names below are not */

#define SET_LOCK 37 /* F_OFD_SETLK */

static _Atomic int armed_call = -1;
static _Atomic long armed_left;
static _Atomic int armed_error;
static _Atomic bool fired;
static _Atomic long blocks;
static _Atomic bool old_kernel;

void fault_arm(enum fault_call call, long nth, int error)
{
    armed_error = error;
    armed_left = nth;
    fired = false;
    armed_call = (int)call;
}

bool fault_disarm(void)
{
    armed_call = -1;
    return fired;
}

bool fault_fired(void)
{
    return fired;
}

long fault_blocks(void)
{
    return blocks;
}

void fault_old_kernel(bool old)
{
    old_kernel = old;
}

static bool fails(enum fault_call call)
{
    if (armed_call != (int)call || atomic_fetch_sub(&armed_left, 1) != 1)
        return false;
    fired = true;
    errno = armed_error;
    return true;
}

/* A call with fixed arguments, under its name and under its 64-bit name. */
#define WRAP(type, name, call, failure, parameters, arguments) \
    type __real_##name parameters; \
    type __wrap_##name parameters; \
    type __wrap_##name parameters \
    { \
        return fails(FAULT_##call) ? (failure) : __real_##name arguments; \
    }

/* ---- memory ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *block);

static void *counted(void *block)
{
    blocks += block != NULL;
    return block;
}

void *__wrap_malloc(size_t size)
{
    return fails(FAULT_malloc) ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails(FAULT_calloc) ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    if (fails(FAULT_realloc))
        return NULL;
    return old ? __real_realloc(old, size) : counted(__real_realloc(old, size));
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
void *__real_aligned_alloc(size_t unit, size_t size);
void *__wrap_aligned_alloc(size_t unit, size_t size);

char *__wrap_strdup(const char *text)
{
    return fails(FAULT_strdup) ? NULL : counted(__real_strdup(text));
}

void *__wrap_aligned_alloc(size_t unit, size_t size)
{
    return fails(FAULT_aligned_alloc) ? NULL : counted(__real_aligned_alloc(unit, size));
}

void __wrap_free(void *block)
{
    blocks -= block != NULL;
    __real_free(block);
}

#define MMAP(name) \
    WRAP(void *, name, mmap, MAP_FAILED, (void *at, size_t size, int prot, int flags, int fd, off_t offset), \
         (at, size, prot, flags, fd, offset))
MMAP(mmap)
MMAP(mmap64)
WRAP(int, memfd_create, memfd_create, -1, (const char *name, unsigned flags), (name, flags))
WRAP(int, fallocate, fallocate, -1, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
WRAP(int, fallocate64, fallocate, -1, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
WRAP(int, ftruncate, ftruncate, -1, (int fd, off_t size), (fd, size))
WRAP(int, ftruncate64, ftruncate, -1, (int fd, off_t size), (fd, size))

/* ---- with an optional argument ---- */

#define FCNTL(name) \
    int __real_##name(int fd, int command, ...); \
    int __wrap_##name(int fd, int command, ...); \
    int __wrap_##name(int fd, int command, ...) \
    { \
        va_list list; \
        va_start(list, command); \
        long argument = va_arg(list, long); \
        va_end(list); \
        return (command == ADD_SEALS && fails(FAULT_add_seals)) || (command == SET_LOCK && fails(FAULT_set_lock)) \
                   ? -1 \
                   : __real_##name(fd, command, argument); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

#define OPEN(name) \
    int __real_##name(const char *path, int flags, ...); \
    int __wrap_##name(const char *path, int flags, ...); \
    int __wrap_##name(const char *path, int flags, ...) \
    { \
        va_list list; \
        va_start(list, flags); \
        unsigned mode = va_arg(list, unsigned); \
        va_end(list); \
        return fails(FAULT_open) ? -1 : __real_##name(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int __real_##name(int dir, const char *path, int flags, ...); \
    int __wrap_##name(int dir, const char *path, int flags, ...); \
    int __wrap_##name(int dir, const char *path, int flags, ...) \
    { \
        va_list list; \
        va_start(list, flags); \
        unsigned mode = va_arg(list, unsigned); \
        va_end(list); \
        return fails(FAULT_openat) ? -1 : __real_##name(dir, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
    long arguments[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_pidfd_open && fails(FAULT_pidfd_open))
        return -1;
    return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

/* ---- what kernels need ---- */

WRAP(int, posix_spawn, posix_spawn, armed_error,
     (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
      char *const argv[], char *const environment[]),
     (pid, path, actions, attributes, argv, environment))
WRAP(char *, mkdtemp, mkdtemp, NULL, (char *path), (path))
WRAP(int, renameat, renameat, -1, (int dir, const char *from, int to_dir, const char *to), (dir, from, to_dir, to))

/* ---- sockets, descriptors, files, threads ---- */

WRAP(int, socket, socket, -1, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(int, socketpair, socketpair, -1, (int domain, int type, int protocol, int *fds), (domain, type, protocol, fds))
WRAP(int, bind, bind, -1, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
WRAP(int, listen, listen, -1, (int fd, int backlog), (fd, backlog))
WRAP(int, accept4, accept4, -1, (int fd, struct sockaddr *address, socklen_t *size, int flags),
     (fd, address, size, flags))
WRAP(int, connect, connect, -1, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
WRAP(ssize_t, sendmsg, sendmsg, -1, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
WRAP(ssize_t, recvmsg, recvmsg, -1, (int fd, struct msghdr *message, int flags), (fd, message, flags))
WRAP(int, eventfd, eventfd, -1, (unsigned count, int flags), (count, flags))
WRAP(int, epoll_create1, epoll_create1, -1, (int flags), (flags))
WRAP(int, inotify_init1, inotify_init1, -1, (int flags), (flags))
WRAP(int, inotify_add_watch, inotify_add_watch, -1, (int fd, const char *path, uint32_t mask), (fd, path, mask))
WRAP(FILE *, fopen, fopen, NULL, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, fopen64, fopen, NULL, (const char *path, const char *mode), (path, mode))
WRAP(DIR *, opendir, opendir, NULL, (const char *path), (path))
WRAP(int, link, link, -1, (const char *from, const char *to), (from, to))
WRAP(int, linkat, linkat, -1, (int dir, const char *from, int to_dir, const char *to, int flags),
     (dir, from, to_dir, to, flags))
WRAP(int, rename, rename, -1, (const char *from, const char *to), (from, to))
WRAP(DIR *, fdopendir, fdopendir, NULL, (int fd), (fd))
WRAP(int, flock, flock, -1, (int fd, int operation), (fd, operation))
WRAP(int, fchmodat, fchmodat, -1, (int dir, const char *path, mode_t mode, int flags), (dir, path, mode, flags))
WRAP(int, pthread_create, pthread_create, armed_error,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
     (thread, attributes, start, argument))

int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size);

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
    if (old_kernel && level == SOL_SOCKET && option == PEERPIDFD) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return fails(FAULT_getsockopt) ? -1 : __real_getsockopt(fd, level, option, value, size);
}

/* Removing a descriptor needs no resource, so it cannot fail. */
int __real_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);

int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    return operation != EPOLL_CTL_DEL && fails(FAULT_epoll_ctl) ? -1 : __real_epoll_ctl(epoll, operation, fd, event);
}
