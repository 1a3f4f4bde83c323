/* SPDX-License-Identifier: MIT
 *
 * Runs ranges of work on all cores. The threads start at the first use, and end when there was nothing to do for a
 * second.
 *
 * Work is on a list while some of it is not taken; threads take ranges from the first on it, and so does the caller
 * from its own. It lies on the caller's stack, so the caller waits until no thread uses it.
 */
#include <pthread.h>
#include <stdlib.h>

#include "kernel/kernel.h"
#include "os/os.h"
#include "util/result.h"

enum { MOST_THREADS = 256 };
#define IDLE   INT64_C(1000000000) /* ns */
#define CHUNKS 8                   /* for each thread, so that all finish at about the same time */

struct work {
    struct work *next;
    uint64_t count, chunk;
    sl_word taken; /* the first that no thread has taken; at or beyond count: all are taken */
    void (*function)(void *argument, uint64_t first, uint64_t last);
    void *argument;
    uint32_t users; /* threads of the pool; under the lock */
    sl_word32 gone; /* grows when one of them leaves; the caller sleeps on it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all but `news` */
static struct work *first_work;
static uint32_t threads, idle;
static sl_word32 news; /* grows when there is work; idle threads sleep on it */

static uint32_t most_threads;

static void ask_number(void)
{
    const char *given = getenv("SLUICE_HOST_THREADS");
    char *end;
    long number = given && *given ? strtol(given, &end, 10) : 0;

    if (given && *given && (*end || number < 1))
        sl_log(SLUICE_LOG_WARN, "SLUICE_HOST_THREADS is '%s'; it must be a number from 1 on", given);
    if (number < 1 || (given && *end))
        number = sl_os_cpu_count();
    most_threads = number < MOST_THREADS ? (uint32_t)number : MOST_THREADS;
}

static void run_ranges(struct work *work)
{
    for (;;) {
        uint64_t first = sl_add(&work->taken, work->chunk);
        if (first >= work->count)
            return;
        uint64_t last = work->count - first < work->chunk ? work->count : first + work->chunk;
        work->function(work->argument, first, last);
    }
}

/* Call it with the lock held. */
static void unlist(struct work *work)
{
    struct work **at = &first_work;

    while (*at && *at != work)
        at = &(*at)->next;
    if (*at)
        *at = work->next;
}

/* Call it with the lock held; it releases the lock while it works. */
static void help(struct work *work)
{
    work->users++;
    pthread_mutex_unlock(&lock);
    run_ranges(work);
    pthread_mutex_lock(&lock);
    unlist(work); /* no range is left to take */
    work->users--;
    sl_add(&work->gone, 1);
    sl_os_futex_wake(&work->gone, 1); /* with the lock held, so the caller has not returned yet */
}

/* Call it with the lock held; it releases the lock while it waits. False if there was no work for a second. */
static bool wait_for_work(void)
{
    uint32_t seen = (uint32_t)sl_load(&news, relaxed);
    int64_t deadline = sl_os_deadline(IDLE);
    int r = 0;

    idle++;
    while (!first_work && r != SLUICE_TIMEOUT) {
        pthread_mutex_unlock(&lock);
        r = sl_os_futex_wait(&news, seen, deadline);
        pthread_mutex_lock(&lock);
        seen = (uint32_t)sl_load(&news, relaxed);
    }
    idle--;
    return first_work != NULL;
}

static void thread_main(void *unused)
{
    (void)unused;
    sl_os_name_thread("sluice-host");
    pthread_mutex_lock(&lock);
    do {
        while (first_work)
            help(first_work);
    } while (wait_for_work());
    threads--;
    pthread_mutex_unlock(&lock);
}

/* Call it with the lock held. If there is other work, the idle threads may already be going to it. It does without a
 * thread that cannot be made. */
static void wake_threads(const struct work *work, uint32_t wanted)
{
    uint32_t there = first_work == work ? idle : 0, more = wanted > there ? wanted - there : 0;

    for (; more > 0 && threads + 1 < most_threads; more--) {
        threads++;
        if (sl_os_start_thread(thread_main, NULL) == 0)
            continue;
        threads--;
        break;
    }
    if (idle > 0) {
        sl_add(&news, 1);
        sl_os_futex_wake(&news, (int)wanted);
    }
}

/* Call it with the lock held; it releases the lock while it works. */
static void wait_for_users(struct work *work)
{
    while (work->users > 0) {
        uint32_t seen = (uint32_t)sl_load(&work->gone, relaxed);
        pthread_mutex_unlock(&lock);
        (void)sl_os_futex_wait(&work->gone, seen, SLUICE_FOREVER);
        pthread_mutex_lock(&lock);
    }
}

static void run_on_threads(struct work *work, uint64_t ranges)
{
    uint64_t wanted = ranges < most_threads ? ranges : most_threads;

    pthread_mutex_lock(&lock);
    struct work **last = &first_work;
    while (*last)
        last = &(*last)->next;
    *last = work;
    wake_threads(work, (uint32_t)wanted - 1);
    pthread_mutex_unlock(&lock);
    run_ranges(work);
    pthread_mutex_lock(&lock);
    unlist(work);
    wait_for_users(work);
    pthread_mutex_unlock(&lock);
}

void sl_host_run(uint64_t count, uint64_t unit, void (*function)(void *argument, uint64_t first, uint64_t last),
                 void *argument)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct work work = { .count = count, .function = function, .argument = argument };

    if (count == 0)
        return;
    if (count <= unit || sl_os_forked()) { /* a forked child has no threads, and its lock may stay held */
        function(argument, 0, count);
        return;
    }
    pthread_once(&once, ask_number);
    work.chunk = count / ((uint64_t)most_threads * CHUNKS);
    if (work.chunk < unit)
        work.chunk = unit;
    if (work.chunk == 0)
        work.chunk = 1;
    if (most_threads < 2 || sl_fork_install() != 0)
        function(argument, 0, count);
    else
        run_on_threads(&work, (count + work.chunk - 1) / work.chunk);
}
