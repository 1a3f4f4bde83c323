/* SPDX-License-Identifier: MIT
 *
 * The service thread is notified of all names in the folder of shared memory, which other programs
 * may add and remove as often as they like: so after each notification it does not listen for a
 * while.
 */
#include "cuda_link/wire/shm_watch.h"

#include <sluice/base.h>
#include <string.h>

#include "os/os.h"

#define QUIET (10 * SLUICE_MS)

static struct sl_watch watch; /* this and `first`: guarded by the service lock */
static struct sl_cipd_shm_watch *first;

static void count(void *context, const char *name)
{
    (void)context;
    for (struct sl_cipd_shm_watch *watched = first; watched; watched = watched->next)
        if (!name || strcmp(watched->name, name) == 0)
            sl_add(&watched->changes, 1);
}

static void told(struct sl_watch *which, bool readable, bool hung_up)
{
    (void)readable;
    (void)hung_up;
    (void)sl_os_watch_read(which->fd, count, NULL); /* not all at once, as this runs under the service lock */
    sl_service_pause(which, true);
    sl_service_set_deadline(which, sl_os_deadline(QUIET));
}

static void listen_again(struct sl_watch *which)
{
    sl_service_pause(which, false);
}

static int begin(void)
{
    int fd, r = sl_os_named_watch(&fd);

    if (r != 0)
        return r;
    watch = (struct sl_watch){ .fd = fd, .ready = told, .timer = listen_again };
    if ((r = sl_os_close_in_child(fd)) == 0)
        r = sl_service_add(&watch);
    if (r != 0)
        sl_os_close(fd);
    return r;
}

bool sl_cipd_shm_watch_join(struct sl_cipd_shm_watch *watched, const char *name)
{
    sl_service_lock();
    bool there = first || begin() == 0;
    if (there) {
        watched->name = name;
        watched->next = first;
        first = watched;
    }
    sl_service_unlock();
    return there;
}

void sl_cipd_shm_watch_leave(struct sl_cipd_shm_watch *watched)
{
    struct sl_cipd_shm_watch **at = &first;

    sl_service_lock();
    while (*at != watched)
        at = &(*at)->next;
    *at = watched->next;
    if (!first) {
        sl_service_remove(&watch);
        if (!sl_os_forked()) /* in a forked child it is already closed */
            sl_os_close(watch.fd);
    }
    sl_service_unlock();
}
