/* SPDX-License-Identifier: MIT
 *
 * Counts changes of a name of shared memory.
 */
#include "cuda_link/wire/shm_watch.h"

#include <stddef.h>

static void count(struct sl_name_watch *watch)
{
    struct sl_cipd_shm_watch *watched =
        (struct sl_cipd_shm_watch *)(void *)((char *)watch - offsetof(struct sl_cipd_shm_watch, watch));

    sl_add(&watched->changes, 1);
}

bool sl_cipd_shm_watch_join(struct sl_cipd_shm_watch *watched, const char *name)
{
    watched->watch = (struct sl_name_watch){ .name = name, .changed = count };
    sl_service_lock();
    bool there = sl_name_watch_join(&watched->watch, NULL) == 0;
    sl_service_unlock();
    return there;
}

void sl_cipd_shm_watch_leave(struct sl_cipd_shm_watch *watched)
{
    sl_service_lock();
    sl_name_watch_leave(&watched->watch);
    sl_service_unlock();
}
