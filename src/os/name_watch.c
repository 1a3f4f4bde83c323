/* SPDX-License-Identifier: MIT
 *
 * Names that come to a folder or leave it. The kernel reports all names in the folder, which other programs may add and
 * remove as often as they like: so after each report the service thread does not listen for a while.
 */
#include <stdlib.h>
#include <string.h>

#include "os/os.h"
#include "util/result.h"

#define QUIET (2 * SLUICE_MS)

/* A folder that somebody watches. Guarded by the service lock, as is the list. */
struct sl_watched_folder {
    struct sl_watched_folder *next;
    struct sl_watch watch;
    struct sl_name_watch *first;
    bool over; /* it was removed or moved away, or reports were lost */
    char path[];
};

static struct sl_watched_folder *folders;

static void report(void *context, const char *name)
{
    struct sl_watched_folder *folder = context;

    folder->over = folder->over || !name;
    for (struct sl_name_watch *each = folder->first; each; each = each->next)
        if (!name || strcmp(each->name, name) == 0)
            each->changed(each);
}

static void ready(struct sl_watch *watch, bool readable, bool hung_up)
{
    (void)readable;
    (void)hung_up;
    (void)sl_os_watch_read(watch->fd, report, (char *)watch - offsetof(struct sl_watched_folder, watch));
    sl_service_pause(watch, true); /* not all at once, as this runs under the service lock */
    sl_service_set_deadline(watch, sl_os_deadline(QUIET));
}

static void listen_again(struct sl_watch *watch)
{
    sl_service_pause(watch, false);
}

static int begin(struct sl_watched_folder *folder)
{
    int fd, r = *folder->path ? sl_os_watch_open(folder->path, &fd) : sl_os_named_watch(&fd);

    if (r != 0)
        return r;
    folder->watch = (struct sl_watch){ .fd = fd, .ready = ready, .timer = listen_again };
    if ((r = sl_os_close_in_child(fd)) == 0)
        r = sl_service_add(&folder->watch);
    if (r != 0)
        sl_os_close(fd);
    return r;
}

static int open_folder(const char *path, struct sl_watched_folder **out)
{
    struct sl_watched_folder *folder = calloc(1, sizeof *folder + strlen(path) + 1);
    int r;

    if (!folder)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to watch %s", path);
    strcpy(folder->path, path);
    if ((r = begin(folder)) != 0) {
        free(folder);
        return r;
    }
    folder->next = folders;
    folders = *out = folder;
    return 0;
}

int sl_name_watch_join(struct sl_name_watch *watch, const char *path)
{
    struct sl_watched_folder *folder = folders;
    int r = 0;

    while (folder && (folder->over || strcmp(folder->path, path ? path : "") != 0))
        folder = folder->next;
    if (!folder && (r = open_folder(path ? path : "", &folder)) != 0)
        return r;
    watch->folder = folder;
    watch->next = folder->first;
    folder->first = watch;
    return 0;
}

static void close_folder(struct sl_watched_folder *folder)
{
    struct sl_watched_folder **at = &folders;

    while (*at != folder)
        at = &(*at)->next;
    *at = folder->next;
    sl_service_remove(&folder->watch);
    if (!sl_os_forked()) /* in a forked child it is already closed */
        sl_os_close(folder->watch.fd);
    free(folder);
}

bool sl_name_watch_is_over(const struct sl_name_watch *watch)
{
    return watch->folder && watch->folder->over;
}

void sl_name_watch_leave(struct sl_name_watch *watch)
{
    struct sl_watched_folder *folder = watch->folder;
    struct sl_name_watch **at;

    if (!folder)
        return;
    at = &folder->first;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
    watch->folder = NULL;
    if (!folder->first)
        close_folder(folder);
}
