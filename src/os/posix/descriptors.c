/* SPDX-License-Identifier: MIT
 *
 * Which descriptors a forked child must not keep, and how descriptors are closed.
 *
 * A fork copies the descriptors first and the memory later, while other threads run. Therefore entries change only
 * under a lock that a fork takes, so that a child never has a descriptor without its entry.
 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "util/result.h"

enum { DESCRIPTORS = 1 << 20 }; /* the kernel's default limit */

static pthread_mutex_t entries_lock = PTHREAD_MUTEX_INITIALIZER;
static sl_word entries[DESCRIPTORS / 64]; /* one bit for each descriptor */
static int highest = -1;

int sl_descriptors_add(int fd)
{
    if (fd < 0 || fd >= DESCRIPTORS)
        return sl_fail(fd < 0 ? SLUICE_E_INVALID : SLUICE_E_LIMIT,
                       "descriptor %d: only those from 0 to %d can be closed in a forked child", fd, DESCRIPTORS - 1);
    pthread_mutex_lock(&entries_lock);
    sl_word *word = &entries[fd / 64];
    sl_store(word, sl_load(word, relaxed) | UINT64_C(1) << fd % 64, relaxed);
    if (fd > highest)
        highest = fd;
    pthread_mutex_unlock(&entries_lock);
    return 0;
}

int sl_above_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(fd);
    errno = error;
    return moved;
}

int sl_fail_call(int error, const char *call, const char *what)
{
    if (error != EPERM && error != ENOSYS)
        return sl_fail_errno(error, "%s", what);
    return sl_fail_errno(error, "%s: is %s denied here? Allow it (seccomp; SystemCallFilter= of a service)", what,
                         call);
}

void sl_os_keep_in_child(int fd)
{
    if (fd < 0 || fd >= DESCRIPTORS)
        return;
    pthread_mutex_lock(&entries_lock);
    sl_store(&entries[fd / 64], sl_load(&entries[fd / 64], relaxed) & ~(UINT64_C(1) << fd % 64), relaxed);
    pthread_mutex_unlock(&entries_lock);
}

/* Closes a descriptor and removes its entry, atomically with respect to a fork in another thread. */
static void close_listed(int fd)
{
    uint64_t bit = UINT64_C(1) << fd % 64;
    sl_word *word = fd < DESCRIPTORS ? &entries[fd / 64] : NULL;
    if (!word || !(sl_load(word, relaxed) & bit)) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&entries_lock);
    sl_store(word, sl_load(word, relaxed) & ~bit, relaxed);
    close(fd);
    pthread_mutex_unlock(&entries_lock);
}

void sl_os_close(int fd)
{
    int error = errno;
    if (fd >= 0)
        close_listed(fd);
    errno = error;
}

void sl_descriptors_before_fork(void)
{
    pthread_mutex_lock(&entries_lock);
}

void sl_descriptors_after_fork(bool child)
{
    for (int word = 0; child && word <= highest / 64 && highest >= 0; word++) {
        uint64_t bits = sl_load(&entries[word], relaxed);
        sl_store(&entries[word], 0, relaxed);
        for (; bits; bits &= bits - 1)
            close(word * 64 + __builtin_ctzll(bits));
    }
    if (child)
        highest = -1;
    pthread_mutex_unlock(&entries_lock);
}
