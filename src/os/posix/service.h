/* SPDX-License-Identifier: MIT
 *
 * The service thread as its two files see it: service_lock.c and service.c.
 */
#ifndef SL_OS_POSIX_SERVICE_H
#define SL_OS_POSIX_SERVICE_H

#include <pthread.h>
#include <sys/epoll.h>

#include "os/os.h"

enum { SL_WORKER_BATCH = 64 };

/* One run of the thread, with its own epoll. */
struct sl_worker {
    pthread_t thread;
    int epoll, kick;
    bool stop;     /* it has no users any more */
    bool detached; /* stopped from one of its own callbacks */
    int64_t until; /* wake time; INT64_MIN while it is awake */
    struct epoll_event batch[SL_WORKER_BATCH];
    int batched; /* number of events being processed */
    struct sl_worker *next;
};

/* Guarded by the service lock. */
extern struct sl_worker *sl_worker;          /* NULL: not running */
extern struct sl_worker *sl_workers_stopped; /* to be joined by the thread that has the lock now */

/* Frees a worker whose thread has ended, or was never started. */
void sl_worker_finish(struct sl_worker *worker);

/* Does a thread wait for the service lock? */
bool sl_service_contended(void);

#endif
