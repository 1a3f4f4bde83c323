/* SPDX-License-Identifier: MIT
 *
 * Forks without exec: the child is detected, and loses the descriptors that it must not keep.
 *
 * A fork copies the descriptors first and the memory later, while other threads run. Therefore
 * entries change only under a lock that a fork takes, so that a child never has a descriptor
 * without its entry.
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

enum { DESCRIPTORS = 1 << 20 }; /* the kernel's default limit */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sl_word entries[DESCRIPTORS / 64]; /* one bit for each descriptor */
static int highest = -1;
static bool installed;

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
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
    sl_service_after_fork(false);
}

/* Only calls close(): there are no other threads in the child, and locks that they held stay locked
 * for ever. */
static void after_fork_in_child(void)
{
    sl_store(sl_load(&mark, relaxed), 0, relaxed);
    for (int word = 0; word <= highest / 64 && highest >= 0; word++) {
        uint64_t bits = sl_load(&entries[word], relaxed);
        sl_store(&entries[word], 0, relaxed);
        for (; bits; bits &= bits - 1)
            close(word * 64 + __builtin_ctzll(bits));
    }
    highest = -1;
    pthread_mutex_unlock(&lock);
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
    if (result)
        return result;
    if (fd < 0 || fd >= DESCRIPTORS)
        return sl_fail(fd < 0 ? SLUICE_E_INVALID : SLUICE_E_LIMIT,
                       "descriptor %d: only those from 0 to %d can be closed in a forked child", fd,
                       DESCRIPTORS - 1);
    pthread_mutex_lock(&lock);
    sl_word *word = &entries[fd / 64];
    sl_store(word, sl_load(word, relaxed) | UINT64_C(1) << fd % 64, relaxed);
    if (fd > highest)
        highest = fd;
    pthread_mutex_unlock(&lock);
    return 0;
}

void sl_os_keep_in_child(int fd)
{
    if (fd < 0 || fd >= DESCRIPTORS)
        return;
    pthread_mutex_lock(&lock);
    sl_store(&entries[fd / 64], sl_load(&entries[fd / 64], relaxed) & ~(UINT64_C(1) << fd % 64), relaxed);
    pthread_mutex_unlock(&lock);
}

void sl_fork_close(int fd)
{
    uint64_t bit = UINT64_C(1) << fd % 64;
    sl_word *word = fd < DESCRIPTORS ? &entries[fd / 64] : NULL;
    if (!word || !(sl_load(word, relaxed) & bit)) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&lock);
    sl_store(word, sl_load(word, relaxed) & ~bit, relaxed);
    close(fd);
    pthread_mutex_unlock(&lock);
}
