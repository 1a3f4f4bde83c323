/* SPDX-License-Identifier: MIT
 *
 * Mutexes and threads.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "os/os.h"
#include "util/result.h"

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(sl_mutex), "room for a mutex");
_Static_assert(_Alignof(pthread_mutex_t) <= _Alignof(sl_mutex), "alignment of a mutex");

static pthread_mutex_t *native(sl_mutex *mutex)
{
    return (pthread_mutex_t *)(void *)mutex;
}

void sl_mutex_init(sl_mutex *mutex)
{
    pthread_mutex_init(native(mutex), NULL);
}

void sl_mutex_finish(sl_mutex *mutex)
{
    pthread_mutex_destroy(native(mutex));
}

void sl_mutex_lock(sl_mutex *mutex)
{
    pthread_mutex_lock(native(mutex));
}

void sl_mutex_unlock(sl_mutex *mutex)
{
    pthread_mutex_unlock(native(mutex));
}

uint32_t sl_os_cpu_count(void)
{
    cpu_set_t few;
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more than a set has room for, perhaps */

    if (sched_getaffinity(0, sizeof few, &few) == 0 && CPU_COUNT(&few) > 0)
        return (uint32_t)CPU_COUNT(&few);
    return online > 0 ? (uint32_t)online : 1;
}

void sl_os_name_thread(const char *name)
{
    prctl(PR_SET_NAME, name);
}

void *sl_os_aligned_alloc(size_t unit, size_t size)
{
    return aligned_alloc(unit, size);
}

void sl_os_aligned_free(void *memory)
{
    free(memory);
}

int sl_os_reserve(uint64_t size, void **address)
{
    void *mapped = MAP_FAILED;

    errno = ENOMEM;
    if (size <= SIZE_MAX)
        mapped = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return sl_fail_errno(errno, "reserving %" PRIu64 " bytes", size);
    (void)madvise(mapped, (size_t)size, MADV_NOHUGEPAGE); /* a page for each stack, not 2 MiB for a few */
    *address = mapped;
    return 0;
}

struct start {
    void (*function)(void *argument);
    void *argument;
};

static void *run(void *argument)
{
    struct start start = *(struct start *)argument;

    free(argument);
    prctl(PR_SET_NAME, "sluice task"); /* not that of the thread which starts it */
    start.function(start.argument);
    return NULL;
}

int sl_os_start_thread(void (*function)(void *argument), void *argument)
{
    struct start *start = malloc(sizeof *start);
    sigset_t all, before;
    pthread_t thread;

    if (!start)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for a thread");
    *start = (struct start){ function, argument };
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* inherited by the new thread */
    int error = pthread_create(&thread, NULL, run, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        free(start);
        return sl_fail_errno(error, "starting a thread");
    }
    pthread_detach(thread);
    return 0;
}
