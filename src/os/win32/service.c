/* SPDX-License-Identifier: MIT
 *
 * The service thread: waits for handles and for the earliest deadline, and runs the watches' callbacks under the
 * service lock.
 *
 * A worker is one run of the thread. Who removes its last user tells it to stop; it ends by itself, and frees itself.
 */
#include "os/win32/win32.h"

#include <stdlib.h>

#include "os/timers.h"
#include "util/result.h"

enum { MOST_WATCHED = MAXIMUM_WAIT_OBJECTS - 2 }; /* besides the kick and a timer */

struct worker {
    HANDLE kick, thread;
    bool stop;
    int64_t until; /* wake time; INT64_MIN while it is awake */
    struct worker *next;
};

static SRWLOCK lock = SRWLOCK_INIT;
static _Thread_local struct worker *self;

/* Guarded by the lock. */
static struct worker *worker;  /* NULL: not running */
static struct worker *stopped; /* to be joined by the thread that has the lock now */
static struct sl_timers timers;
static size_t watches, holds;
static struct sl_watch *watched[MOST_WATCHED];
static DWORD watched_count;

void sl_service_lock(void)
{
    AcquireSRWLockExclusive(&lock);
}

void sl_service_unlock(void)
{
    struct worker *ended = stopped;

    stopped = NULL;
    ReleaseSRWLockExclusive(&lock);
    /* These run no callbacks any more, so they cannot wait for a lock that the caller may hold. */
    while (ended) {
        struct worker *next = ended->next;
        WaitForSingleObject(ended->thread, INFINITE);
        CloseHandle(ended->thread);
        CloseHandle(ended->kick);
        free(ended);
        ended = next;
    }
}

/* ---- the thread ---- */

/* Those that were due at `now`, one round only, as other threads want the lock, too. */
static void run_timers(const struct worker *w, int64_t now)
{
    for (size_t left = timers.count; left && !w->stop && sl_timers_first(&timers) <= now; left--) {
        struct sl_watch *watch = timers.heap[0];
        sl_timers_remove(&timers, watch);
        watch->deadline = 0;
        watch->timer(watch);
    }
}

static bool still_watched(const struct sl_watch *watch)
{
    for (DWORD i = 0; i < watched_count; i++)
        if (watched[i] == watch)
            return true;
    return false;
}

static void run_events(const struct worker *w, struct sl_watch *const *seen, DWORD count)
{
    for (DWORD i = 0; i < count && !w->stop; i++) {
        struct sl_object_fd *object = still_watched(seen[i]) && !seen[i]->muted ? sl_fd_find(seen[i]->fd) : NULL;
        if (object && seen[i]->ready && WaitForSingleObject(object->handle, 0) == WAIT_OBJECT_0)
            seen[i]->ready(seen[i], true, false);
    }
}

static void wait_once(struct worker *w)
{
    HANDLE handles[MOST_WATCHED + 1] = { w->kick };
    struct sl_watch *seen[MOST_WATCHED];
    DWORD count = 0;

    for (DWORD i = 0; i < watched_count; i++) {
        struct sl_object_fd *object = watched[i]->muted ? NULL : sl_fd_find(watched[i]->fd);
        if (!object)
            continue;
        seen[count++] = watched[i];
        handles[count] = object->handle;
    }
    w->until = sl_timers_first(&timers);
    int64_t until = w->until;
    sl_service_unlock();
    (void)sl_wait_until(handles, count + 1, until);
    int64_t now = sl_os_now(); /* before the handles are looked at: what came in time is handled before a timer */
    sl_service_lock();
    w->until = INT64_MIN;
    run_events(w, seen, count);
    if (!w->stop)
        run_timers(w, now);
}

static DWORD WINAPI run(void *context)
{
    struct worker *w = context;

    self = w;
    sl_os_name_thread("sluice service");
    sl_service_lock();
    while (!w->stop)
        wait_once(w);
    bool detached = !w->thread;
    sl_service_unlock();
    if (detached) {
        CloseHandle(w->kick);
        free(w);
    }
    return 0;
}

/* ---- starting and stopping it ---- */

static int start(void)
{
    struct worker *w;

    if (worker)
        return 0;
    if (!(w = calloc(1, sizeof *w)))
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for the service thread");
    sl_stay_loaded();
    w->until = INT64_MIN;
    w->kick = CreateEventW(NULL, FALSE, FALSE, NULL);
    w->thread = w->kick ? CreateThread(NULL, 0, run, w, 0, NULL) : NULL;
    if (!w->thread) {
        int r = sl_fail_windows(GetLastError(), "starting the service thread");
        if (w->kick)
            CloseHandle(w->kick);
        free(w);
        return r == SLUICE_E_NO_MEMORY ? r : SLUICE_E_SYSTEM;
    }
    worker = w;
    return 0;
}

static void kick(void)
{
    if (worker && worker != self)
        SetEvent(worker->kick);
}

static void stop_if_unused(void)
{
    if (watches || holds)
        return;
    sl_timers_finish(&timers);
    if (!worker)
        return;
    kick();
    worker->stop = true;
    if (worker == self) { /* from one of its own callbacks */
        CloseHandle(worker->thread);
        worker->thread = NULL;
    } else {
        worker->next = stopped;
        stopped = worker;
    }
    worker = NULL;
}

/* ---- watches ---- */

int sl_service_add(struct sl_watch *watch)
{
    if (watch->added)
        return sl_fail(SLUICE_E_INVALID, "descriptor %d cannot be watched: it is already", watch->fd);
    if (watch->fd >= 0 && !sl_fd_find(watch->fd))
        return sl_fail(SLUICE_E_INVALID, "descriptor %d cannot be watched: it is none", watch->fd);
    if (watch->fd >= 0 && watched_count == MOST_WATCHED)
        return sl_fail(SLUICE_E_LIMIT, "a process can watch %d handles", MOST_WATCHED);
    if (!sl_timers_reserve(&timers, watches + 1))
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for a timer");
    int r = start();
    if (r != 0)
        return r;
    watch->muted = false;
    watch->heap_index = 0;
    watch->added = true;
    watches++;
    if (watch->fd >= 0) {
        watched[watched_count++] = watch;
        kick();
    }
    if (watch->deadline)
        sl_service_set_deadline(watch, watch->deadline);
    return 0;
}

void sl_service_remove(struct sl_watch *watch)
{
    if (!watch->added)
        return;
    for (DWORD i = 0; i < watched_count; i++)
        if (watched[i] == watch)
            watched[i--] = watched[--watched_count];
    if (watch->fd >= 0)
        kick(); /* it may be waiting for a handle that is closed next */
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
    if (worker && deadline < worker->until) {
        worker->until = deadline;
        kick();
    }
}

void sl_service_pause(struct sl_watch *watch, bool paused)
{
    watch->muted = paused;
    kick();
}

int sl_service_hold(void)
{
    int r = start();

    if (r == 0)
        holds++;
    return r;
}

void sl_service_drop(void)
{
    if (holds) {
        holds--;
        stop_if_unused();
    }
}
