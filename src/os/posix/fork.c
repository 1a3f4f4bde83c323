/* SPDX-License-Identifier: MIT
 *
 * Detects forks without exec.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "util/result.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool installed; /* guarded by the lock */

/* 1 in the process that installed it, 0 in its forked children, as the kernel wipes the page. If
 * the kernel cannot do that, `owner` has the pid. */
static _Atomic(_Atomic unsigned char *) mark;
static pid_t owner;

bool sl_os_forked(void)
{
    _Atomic unsigned char *ours = sl_load(&mark, acquire);
    if (!ours)
        return false; /* nothing was in use yet */
    if (!sl_load(ours, relaxed))
        return true;
    return owner && owner != getpid();
}

static void before_fork(void)
{
    sl_service_before_fork();
    sl_descriptors_before_fork();
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
    sl_descriptors_after_fork(false);
    sl_service_after_fork(false);
}

/* Only calls close(): there are no other threads in the child, and locks that they held stay locked
 * for ever. */
static void after_fork_in_child(void)
{
    sl_store(sl_load(&mark, relaxed), 0, relaxed);
    pthread_mutex_unlock(&lock);
    sl_descriptors_after_fork(true);
    sl_service_after_fork(true);
}

static void make_mark(void)
{
    static _Atomic unsigned char plain;
    _Atomic unsigned char *ours = &plain;
    size_t size = sl_os_page_size();
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && madvise(page, size, MADV_WIPEONFORK) == 0) {
        ours = page;
    } else {
        if (page != MAP_FAILED)
            munmap(page, size);
        owner = getpid();
    }
    sl_store(ours, 1, relaxed);
    sl_store(&mark, ours, release);
}

int sl_fork_install(void)
{
    if (sl_os_forked())
        return sl_fail(SLUICE_E_FORKED, "this process was forked from one that uses Sluice; to use "
                                        "it here too, start the process by exec (in Python: the spawn method)");
    int error = 0;
    pthread_mutex_lock(&lock);
    if (!installed)
        error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    if (!installed && !error) {
        make_mark();
        installed = true;
    }
    pthread_mutex_unlock(&lock);
    return error ? sl_fail_errno(error, "preparing for forks") : 0;
}

int sl_os_close_in_child(int fd)
{
    int result = sl_fork_install();
    return result ? result : sl_descriptors_add(fd);
}
