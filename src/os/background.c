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

#define PATIENCE (2 * SLUICE_S)
#define MOST 16 /* of these threads, for who is about to bring more: what is not freed yet must not pile up */
#define FIRST_LOOK (SLUICE_MS / 50)
#define LAST_LOOK SLUICE_MS

struct job {
    void (*function)(void *argument);
    void *argument;
};

static sl_word32 running;
static _Thread_local bool apart; /* this is one of these threads */

static void run(void *argument)
{
    struct job job = *(struct job *)argument;

    free(argument);
    apart = true;
    job.function(job.argument);
    sl_add(&running, (uint32_t)-1);
}

bool sl_apart_begin(void (*function)(void *argument), void *argument)
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

uint32_t sl_apart_count(void) { return sl_load(&running, acquire) - (uint32_t)apart; }

static bool await(uint32_t most)
{
    int64_t now = sl_os_now(), deadline = sl_os_deadline(PATIENCE), look = FIRST_LOOK;

    while (sl_apart_count() > most) {
        if (now >= deadline) /* `now` is from before the check: this thread may have been suspended since */
            return false;
        sl_os_sleep(look);
        look = look * 2 < LAST_LOOK ? look * 2 : LAST_LOOK;
        now = sl_os_now();
    }
    return true;
}

void sl_apart(void (*function)(void *argument), void *argument)
{
    if (apart || !sl_apart_begin(function, argument))
        function(argument);
}

void sl_apart_await_room(void) { (void)await(MOST - 1); }

bool sl_apart_settle(void) { return sl_apart_count() > 0 && await(0); }

void sl_apart_await(const char *channel)
{
    if (!await(0))
        sl_log(SLUICE_LOG_WARN, "channel '%s': closed while the GPU has work of this program: its memory there stays until that ends",
               channel);
}
