/* SPDX-License-Identifier: MIT
 *
 * Mutexes and threads.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

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

uint64_t sl_os_thread_number(void)
{
    static sl_word last;
    static _Thread_local uint64_t mine;

    if (mine == 0)
        mine = sl_add(&last, 1) + 1;
    return mine;
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
