/* SPDX-License-Identifier: MIT
 *
 * Calls that fail on demand. The linker redirects the library's calls (--wrap) here: the Nth one of a kind fails with a
 * given error, once. Blocks of memory are counted.
 */
#ifndef FAULT_WRAP_H
#define FAULT_WRAP_H

#include <stdbool.h>

/* X(name, errors...): the calls that can be made to fail, and how. */
#define FAULT_CALLS(X) \
    X(malloc, ENOMEM) \
    X(calloc, ENOMEM) \
    X(realloc, ENOMEM) \
    X(mmap, ENOMEM) \
    X(memfd_create, EMFILE, ENOMEM) \
    X(fallocate, ENOSPC, ENOMEM) \
    X(ftruncate, ENOSPC) \
    X(add_seals, EPERM) \
    X(socket, EMFILE, ENOMEM) \
    X(socketpair, EMFILE) \
    X(bind, ENOSPC, EACCES) \
    X(listen, EADDRINUSE) \
    X(accept4, EMFILE, ECONNABORTED) \
    X(connect, ECONNREFUSED, EAGAIN, EACCES) \
    X(sendmsg, EAGAIN, ENOBUFS, ETOOMANYREFS, ENOMEM) \
    X(recvmsg, EAGAIN, ECONNRESET, ENOMEM) \
    X(getsockopt, EMFILE, ENOMEM) \
    X(eventfd, EMFILE) \
    X(epoll_create1, EMFILE) \
    X(epoll_ctl, ENOMEM, ENOSPC) \
    X(pidfd_open, EMFILE) \
    X(inotify_init1, EMFILE) \
    X(inotify_add_watch, ENOSPC) \
    X(open, EMFILE, EACCES) \
    X(openat, EMFILE, EACCES) \
    X(fopen, EMFILE) \
    X(fdopendir, ENOMEM) \
    X(flock, ENOLCK) \
    X(fchmodat, EPERM) \
    X(pthread_create, EAGAIN)

/* The same, for calls that only named shared memory needs (named_shm.c). */
#define FAULT_NAMED_CALLS(X) \
    X(link, EPERM, ENOSPC) \
    X(linkat, EPERM, ENOSPC) \
    X(rename, EACCES) \
    X(opendir, EMFILE) \
    X(set_lock, ENOLCK)

/* The same, for calls that only kernels need (kernels.c). */
#define FAULT_KERNEL_CALLS(X) \
    X(strdup, ENOMEM) \
    X(aligned_alloc, ENOMEM) \
    X(posix_spawn, EAGAIN, ENOMEM, ENOENT) \
    X(mkdtemp, ENOSPC, EACCES) \
    X(renameat, ENOSPC, EACCES)

enum fault_call {
#define FAULT_ENTRY(name, ...) FAULT_##name,
    FAULT_CALLS(FAULT_ENTRY) FAULT_NAMED_CALLS(FAULT_ENTRY) FAULT_KERNEL_CALLS(FAULT_ENTRY)
#undef FAULT_ENTRY
};

/* The `nth` call of this kind from now on, on any thread, fails. */
void fault_arm(enum fault_call call, long nth, int error);

/* Back to normal. True if a call was made to fail since fault_arm. */
bool fault_disarm(void);
bool fault_fired(void);

/* From now on as on a kernel that cannot identify the peer's process (SO_PEERPIDFD: Linux 6.5). */
void fault_old_kernel(bool old);

/* The number of allocated blocks of memory. */
long fault_blocks(void);

#endif
