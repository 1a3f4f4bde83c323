/* SPDX-License-Identifier: MIT
 *
 * The service thread: sleeps on one epoll, and runs the watches' callbacks under the service lock.
 *
 * A worker is one run of the thread, with its own epoll. The thread that removes its last user
 * tells it to stop, and joins it after unlocking, so that nothing of it is left when that call
 * returns.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "os/posix/service.h"
#include "os/timers.h"
#include "util/result.h"

enum { STACK = 256 * 1024 };

/* For how long, and how often at most, the thread lets others take the lock. */
#define YIELD_INTERVAL (50 * INT64_C(1000))
#define MAX_YIELDS     400

static _Thread_local struct sl_worker *self;

/* Guarded by the service lock. */
static struct sl_timers timers;
static size_t watches, holds;

/* ---- the thread ---- */

static void sleep_until(const struct sl_worker *w, int64_t deadline)
{
    struct pollfd events = { .fd = w->epoll, .events = POLLIN };
    struct timespec left = { 0, 0 };
    if (deadline != SLUICE_FOREVER) {
        int64_t ns = deadline - sl_os_now();
        left = sl_timespec(ns > 0 ? ns : 0);
    }
    ppoll(&events, 1, deadline == SLUICE_FOREVER ? NULL : &left, NULL);
}

/* Runs the timers that were due at `now`, which is before the descriptors were polled: data that
 * came in time is handled before a timer reports its absence, even if this thread was suspended in
 * between. One round only, however many timers are due again at once, as other threads want the
 * lock, too. */
static void run_timers(const struct sl_worker *w, int64_t now)
{
    for (size_t left = timers.count; left && !w->stop && sl_timers_first(&timers) <= now; left--) {
        struct sl_watch *watch = timers.heap[0];
        sl_timers_remove(&timers, watch);
        watch->deadline = 0;
        watch->timer(watch);
    }
}

/* The mutex is not fair: peers that keep this thread busy would otherwise keep the lock from all
 * other threads, which have to be woken first. */
static void yield_lock(void)
{
    for (int i = 0; i < MAX_YIELDS && sl_service_contended(); i++)
        sl_os_sleep(YIELD_INTERVAL);
}

static void stop_polling(struct sl_watch *watch)
{
    if (!watch->muted && sl_worker)
        epoll_ctl(sl_worker->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->muted = true;
}

static void report(struct sl_watch *watch, uint32_t events)
{
    bool readable = events & EPOLLIN;
    bool hung_up = events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP);
    if (hung_up) {
        /* After a hang-up a socket is always readable, so query how much it has. A descriptor that
         * cannot tell (a pidfd) has nothing more to report. */
        int left = 0;
        bool counted = ioctl(watch->fd, FIONREAD, &left) == 0;
        if (counted && !left)
            readable = false;
        if (!counted || !left)
            stop_polling(watch);
    }
    if (watch->ready)
        watch->ready(watch, readable, hung_up);
}

static void run_events(struct sl_worker *w)
{
    int count;
    SL_RETRY(count, epoll_wait(w->epoll, w->batch, SL_WORKER_BATCH, 0));
    w->batched = count < 0 ? 0 : count;
    for (int i = 0; i < w->batched; i++) {
        void *source = w->batch[i].data.ptr;
        uint64_t kicks;
        if (source == w)
            (void)!read(w->kick, &kicks, sizeof(kicks));
        else if (source) /* unless an earlier callback has removed it */
            report(source, w->batch[i].events);
    }
    w->batched = 0;
}

static void *run(void *context)
{
    struct sl_worker *w = context;
    self = w;
    prctl(PR_SET_NAME, "sluice service");
    prctl(PR_SET_TIMERSLACK, 1000ul); /* with the default slack a timer of 50 us takes 100 */
    sl_service_lock();
    while (!w->stop) {
        w->until = sl_timers_first(&timers);
        int64_t until = w->until;
        sl_service_unlock();
        sleep_until(w, until);
        yield_lock();
        sl_service_lock();
        w->until = INT64_MIN;
        int64_t now = sl_os_now();
        if (!w->stop)
            run_events(w);
        if (!w->stop)
            run_timers(w, now);
    }
    bool detached = w->detached;
    sl_service_unlock();
    if (detached)
        sl_worker_finish(w);
    return NULL;
}

/* ---- starting and stopping it ---- */

static int start_thread(struct sl_worker *w)
{
    sigset_t all, before;
    pthread_attr_t small;
    int error = pthread_attr_init(&small);
    if (error)
        return error;
    pthread_attr_setstacksize(&small, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* inherited by the new thread */
    error = pthread_create(&w->thread, &small, run, w);
    if (error == EINVAL) /* programs with much thread-local data need a larger stack */
        error = pthread_create(&w->thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
    return error;
}

static int worker_init(struct sl_worker *w)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = w };
    w->until = INT64_MIN;
    w->epoll = sl_above_standard(epoll_create1(EPOLL_CLOEXEC));
    if (w->epoll < 0)
        return sl_fail_call(errno, "epoll_create1", "starting the service thread");
    w->kick = sl_above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (w->kick < 0)
        return sl_fail_call(errno, "eventfd2", "starting the service thread");
    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->kick, &event) < 0)
        return sl_fail_errno(errno, "starting the service thread");
    int result = sl_os_close_in_child(w->epoll);
    if (!result)
        result = sl_os_close_in_child(w->kick);
    if (result)
        return result;
    int error = start_thread(w);
    return error ? sl_fail(SLUICE_E_SYSTEM, "starting the service thread: %s", strerror(error)) : 0;
}

static int start(void)
{
    int result = sl_fork_install();
    if (result || sl_worker)
        return result;
    struct sl_worker *w = calloc(1, sizeof(*w));
    if (!w)
        return sl_fail_errno(ENOMEM, "starting the service thread");
    w->epoll = w->kick = -1;
    result = worker_init(w);
    if (result)
        sl_worker_finish(w);
    else
        sl_worker = w;
    return result;
}

static void kick(void)
{
    uint64_t one = 1;
    if (sl_worker && sl_worker != self)
        (void)!write(sl_worker->kick, &one, sizeof(one));
}

static void stop_if_unused(void)
{
    if (watches || holds)
        return;
    sl_timers_finish(&timers);
    if (!sl_worker || sl_os_forked()) /* a forked child has the record, but not the thread */
        return;
    kick();
    sl_worker->stop = true;
    if (sl_worker == self) {
        sl_worker->detached = true;
        pthread_detach(pthread_self());
    } else {
        sl_worker->next = sl_workers_stopped;
        sl_workers_stopped = sl_worker;
    }
    sl_worker = NULL;
}

/* ---- watches ---- */

static int watch_descriptor(struct sl_watch *watch)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = watch };
    watch->muted = false;
    if (watch->fd < 0 || epoll_ctl(sl_worker->epoll, EPOLL_CTL_ADD, watch->fd, &event) == 0)
        return 0;
    switch (errno) {
    case EPERM:
    case EBADF:
    case EEXIST:
        return sl_fail(SLUICE_E_INVALID, "descriptor %d cannot be watched: %s", watch->fd,
                       errno == EEXIST ? "it is already" : strerror(errno));
    case ENOSPC:
        return sl_fail(SLUICE_E_NO_MEMORY,
                       "watching descriptor %d: this user watches too many "
                       "(raise fs.epoll.max_user_watches)",
                       watch->fd);
    default: return sl_fail_errno(errno, "watching descriptor %d", watch->fd);
    }
}

int sl_service_add(struct sl_watch *watch)
{
    if (watch->added)
        return sl_fail(SLUICE_E_INVALID, "this watch was added already");
    int result = start();
    if (!result && !sl_timers_reserve(&timers, watches + 1))
        result = sl_fail_errno(ENOMEM, "watching descriptor %d", watch->fd);
    if (!result)
        result = watch_descriptor(watch);
    if (result) {
        stop_if_unused();
        return result;
    }
    watches++;
    watch->added = true;
    watch->heap_index = 0;
    sl_service_set_deadline(watch, watch->deadline);
    return 0;
}

void sl_service_pause(struct sl_watch *watch, bool paused)
{
    struct epoll_event event = { .events = paused ? 0 : EPOLLIN | EPOLLRDHUP, .data.ptr = watch };
    if (watch->added && watch->fd >= 0 && !watch->muted && sl_worker)
        epoll_ctl(sl_worker->epoll, EPOLL_CTL_MOD, watch->fd, &event);
}

void sl_service_remove(struct sl_watch *watch)
{
    if (!watch->added)
        return;
    /* A child shares the epoll with its parent, and must not change it. */
    if (watch->fd >= 0 && !sl_os_forked())
        stop_polling(watch);
    for (int i = 0; sl_worker && i < sl_worker->batched; i++)
        if (sl_worker->batch[i].data.ptr == watch)
            sl_worker->batch[i].data.ptr = NULL;
    sl_timers_remove(&timers, watch);
    watch->added = false;
    watches--;
    stop_if_unused();
}

void sl_service_set_deadline(struct sl_watch *watch, int64_t deadline)
{
    watch->deadline = deadline;
    if (!watch->added)
        return;
    sl_timers_remove(&timers, watch);
    if (!deadline || !watch->timer)
        return;
    sl_timers_insert(&timers, watch);
    if (sl_worker && deadline < sl_worker->until) {
        sl_worker->until = deadline;
        kick();
    }
}

int sl_service_hold(void)
{
    int result = start();
    if (!result)
        holds++;
    return result;
}

void sl_service_drop(void)
{
    if (holds) {
        holds--;
        stop_if_unused();
    }
}
