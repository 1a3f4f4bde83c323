/* SPDX-License-Identifier: MIT
 *
 * The service lock, which a fork takes, too. Whoever unlocks it joins the threads that have been stopped.
 */
#include <pthread.h>
#include <stdlib.h>

#include "os/posix/posix.h"
#include "os/posix/service.h"

struct sl_worker *sl_worker;
struct sl_worker *sl_workers_stopped;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sl_word32 wanted;           /* number of threads that wait for the lock */
static _Thread_local bool holding; /* this thread has the lock */

void sl_worker_finish(struct sl_worker *worker)
{
    sl_os_close(worker->epoll);
    sl_os_close(worker->kick);
    free(worker);
}

void sl_service_lock(void)
{
    if (pthread_mutex_trylock(&lock) != 0) {
        sl_add(&wanted, 1);
        pthread_mutex_lock(&lock);
        sl_add(&wanted, (uint32_t)-1);
    }
    holding = true;
}

bool sl_service_contended(void)
{
    return sl_load(&wanted, relaxed) != 0;
}

void sl_service_unlock(void)
{
    struct sl_worker *ended = sl_workers_stopped;
    sl_workers_stopped = NULL;
    holding = false;
    pthread_mutex_unlock(&lock);
    /* These run no callbacks any more, so they cannot wait for a lock that the caller may hold. */
    while (ended) {
        struct sl_worker *next = ended->next;
        pthread_join(ended->thread, NULL);
        sl_worker_finish(ended);
        ended = next;
    }
}

/* ---- forks ---- */

static _Thread_local bool held_before;

void sl_service_before_fork(void)
{
    held_before = holding; /* a callback may fork */
    if (!held_before)
        sl_service_lock();
}

void sl_service_after_fork(bool child)
{
    if (child && sl_worker)
        sl_worker->epoll = sl_worker->kick = -1; /* already closed, and the thread does not exist here */
    if (child)
        sl_workers_stopped = NULL;
    if (!held_before)
        sl_service_unlock();
}
