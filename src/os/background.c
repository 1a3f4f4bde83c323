/* SPDX-License-Identifier: MIT
 *
 * Cleanup that no call may wait for, on threads of its own. The same for all systems.
 *
 * The threads are counted for the whole process: a driver that blocks waits for all work that the
 * program has on a GPU, so waiting for any of them means waiting for the same work.
 */
#include <stdlib.h>

#include "os/os.h"
#include "util/result.h"

#define AWAIT_TIMEOUT     (2 * SLUICE_S)
#define MAX_THREADS       16 /* of these threads, for who is about to bring more: what is not freed yet must not pile up */
#define MIN_POLL_INTERVAL (SLUICE_MS / 50)
#define MAX_POLL_INTERVAL SLUICE_MS

struct job {
    void (*function)(void *argument);
    void *argument;
};

static sl_word32 running;
static _Thread_local bool is_background; /* this is one of these threads */

static void run(void *argument)
{
    struct job job = *(struct job *)argument;

    free(argument);
    is_background = true;
    job.function(job.argument);
    sl_add(&running, (uint32_t)-1);
}

bool sl_background_start(void (*function)(void *argument), void *argument)
{
    struct job *job = malloc(sizeof *job);

    if (!job)
        return false;
    *job = (struct job){ function, argument };
    sl_add(&running, 1);
    if (sl_os_start_thread(run, job) == 0)
        return true;
    sl_add(&running, (uint32_t)-1);
    free(job);
    return false;
}

uint32_t sl_background_count(void)
{
    return sl_load(&running, acquire) - (uint32_t)is_background;
}

static bool await_at_most(uint32_t most)
{
    int64_t now = sl_os_now(), deadline = sl_os_deadline(AWAIT_TIMEOUT), interval = MIN_POLL_INTERVAL;

    while (sl_background_count() > most) {
        if (now >= deadline) /* `now` is from before the check: this thread may have been suspended since */
            return false;
        sl_os_sleep(interval);
        interval = interval * 2 < MAX_POLL_INTERVAL ? interval * 2 : MAX_POLL_INTERVAL;
        now = sl_os_now();
    }
    return true;
}

void sl_background_run(void (*function)(void *argument), void *argument)
{
    if (is_background || !sl_background_start(function, argument))
        function(argument);
}

void sl_background_await_capacity(void)
{
    (void)await_at_most(MAX_THREADS - 1);
}

bool sl_background_drain(void)
{
    return sl_background_count() > 0 && await_at_most(0);
}

void sl_background_await(const char *channel)
{
    if (!await_at_most(0))
        sl_log(SLUICE_LOG_WARN,
               "channel '%s': closed while the GPU has work of this program: its memory there stays until that ends",
               channel);
}
