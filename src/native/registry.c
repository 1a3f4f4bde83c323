/* SPDX-License-Identifier: MIT
 *
 * Which channels exist, and their state.
 */
#include <stdlib.h>
#include <string.h>

#include "util/params.h"
#include "device/device.h"
#include "util/result.h"
#include "native/wire/wire.h"

const char *sluice_registry_folder(void)
{
    static _Thread_local char folder[256];
    bool ours;

    if (sl_os_folder_name(folder, sizeof folder, &ours) != 0)
        folder[0] = '\0';
    return folder;
}

/* ---- list ---- */

struct listing {
    struct sluice_registry_entry *entries;
    size_t count, room;
    int result;
};

static int add_entry(void *context, const char *name, uint32_t uid)
{
    struct listing *listing = context;
    const struct sl_wire_ops *wire;
    const char *plain;

    /* The folder may also have sockets that are not channels; a file's name has no scheme. */
    if (sl_wire_of(name, &wire, &plain) != 0 || plain != name)
        return 0;
    if (listing->count == listing->room) {
        size_t room = listing->room ? listing->room * 2 : 16;
        void *entries = realloc(listing->entries, room * sizeof *listing->entries);
        if (!entries)
            return sl_fail(SLUICE_E_NO_MEMORY, "no memory for a list of %zu channels", room);
        listing->entries = entries;
        listing->room = room;
    }
    struct sluice_registry_entry *entry = &listing->entries[listing->count++];
    memset(entry, 0, sizeof *entry);
    memcpy(entry->name, name, strlen(name));
    entry->uid = uid;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct sluice_registry_entry *)a)->name, ((const struct sluice_registry_entry *)b)->name);
}

/* A refused connection means that the writer is dead; a full queue, that it is alive. Removes nothing (protocol 5.8). False for
 * a socket of some other program. */
static bool probe(int dir, const char *path, struct sluice_registry_entry *entry)
{
    struct sl_peer_identity peer;
    bool stale;
    int fd, r = sl_os_connect(dir, path, entry->name, &fd, &stale);

    entry->live = r == 0 || r == SLUICE_AGAIN || r == SLUICE_E_PERMISSION;
    if (r != 0)
        return r != SLUICE_E_PROTOCOL;
    if (sl_os_peer(fd, &peer) == 0) {
        entry->pid = peer.pid;
        sl_os_close(peer.pidfd);
    }
    sl_os_close(fd);
    return true;
}

/* `folder`, or this process's own, whose name goes to `path`: the name, and the folder opened. */
static int open_folder(const char **folder, char *path, size_t size, bool create, int *dir)
{
    struct sl_folder_options options = { .create = create };
    bool ours = false;
    int r;

    if (!*folder) {
        if ((r = sl_os_folder_name(path, size, &ours)) != 0)
            return r;
        *folder = path;
    }
    return sl_os_folder_open(*folder, ours, options, dir);
}

int sluice_registry_list(const char *folder, struct sluice_registry_entry *entries, size_t capacity, size_t *count)
{
    struct listing listing = { .entries = NULL };
    char path[256];
    int dir, r;

    if (!count || (!entries && capacity))
        return sl_fail(SLUICE_E_INVALID, "no place for the list was given");
    if ((r = sl_object_forked()) != 0)
        return r;
    if ((r = open_folder(&folder, path, sizeof path, false, &dir)) == SLUICE_E_NOT_FOUND) {
        *count = 0;
        return 0;
    }
    if (r != 0)
        return r;
    r = sl_os_list(dir, add_entry, &listing);
    if (r == 0) {
        if (listing.count)
            qsort(listing.entries, listing.count, sizeof *listing.entries, by_name);
        size_t channels = 0;
        for (size_t i = 0; i < listing.count; i++) {
            if (!probe(dir, folder, &listing.entries[i]))
                continue;
            if (channels < capacity)
                entries[channels] = listing.entries[i];
            channels++;
        }
        *count = channels;
    }
    sl_os_close(dir);
    free(listing.entries);
    return r;
}

/* ---- watch ---- */

struct sluice_watch {
    struct sl_object object;
    int fd;
};

static void finish_watch(struct sl_object *object)
{
    struct sluice_watch *watch = (struct sluice_watch *)object;

    sl_os_close(watch->fd);
    watch->fd = -1;
}

int sluice_registry_watch_open(sluice_watch **out, const char *folder)
{
    char path[256];
    uint64_t handle;
    int dir, r;

    if (!out)
        return sl_fail(SLUICE_E_INVALID, "no place for the watch's handle was given");
    if ((r = sl_object_forked()) != 0)
        return r;
    /* A folder that does not exist cannot be watched: make it. */
    if ((r = open_folder(&folder, path, sizeof path, true, &dir)) != 0)
        return r;
    sl_os_close(dir);
    struct sluice_watch *watch = (struct sluice_watch *)sl_object_new(SL_HANDLE_WATCH, sizeof *watch);
    if (!watch)
        return SLUICE_E_NO_MEMORY;
    watch->fd = -1;
    watch->object.finish = finish_watch;
    if ((r = sl_os_watch_open(folder, &watch->fd)) != 0 || (r = sl_object_name(&watch->object, &handle)) != 0) {
        sl_object_drop(&watch->object);
        return r;
    }
    *out = (sluice_watch *)(uintptr_t)handle;
    return 0;
}

static int hold_watch(sluice_watch *handle, struct sluice_watch **watch)
{
    struct sl_object *object;
    int r = sl_object_hold((uint64_t)(uintptr_t)handle, SL_HANDLE_WATCH, &object);

    if (r == 0)
        *watch = (struct sluice_watch *)object;
    return r;
}

int sluice_registry_watch_fd(sluice_watch *handle)
{
    struct sluice_watch *watch;
    int r = hold_watch(handle, &watch);

    if (r != 0)
        return r;
    r = watch->fd;
    sl_object_drop(&watch->object);
    return r;
}

int sluice_registry_watch_next(sluice_watch *handle, int64_t timeout_ns)
{
    struct sluice_watch *watch;
    int r = hold_watch(handle, &watch);

    if (r != 0)
        return r;
    r = sl_os_wait_readable(watch->fd, sl_os_deadline(timeout_ns < 0 ? SLUICE_S : timeout_ns));
    if (r == 0)
        (void)sl_os_watch_drain(watch->fd);
    else if (r == SLUICE_TIMEOUT)
        sl_say("no channel came or went");
    sl_object_drop(&watch->object);
    return r;
}

int sluice_registry_watch_close(sluice_watch **handle)
{
    struct sluice_watch *watch;
    int r;

    if (!handle || !*handle)
        return 0;
    if ((r = hold_watch(*handle, &watch)) != 0) {
        if (r == SLUICE_E_FORKED)
            *handle = NULL;
        return r;
    }
    if (sl_object_unname(&watch->object, SL_END_CLOSED))
        sl_object_drop(&watch->object);
    sl_object_drop(&watch->object);
    *handle = NULL;
    return 0;
}

/* ---- info ---- */

int sluice_channel_info(const char *channel, int64_t timeout_ns, struct sluice_channel_info *caller,
                        struct sluice_reader_info *readers, uint32_t capacity)
{
    struct sluice_channel_info info = { .size = sizeof info };
    const struct sl_wire_ops *wire;
    const char *name;
    int r;

    if ((r = sl_object_forked()) != 0 || (r = sl_wire_of(channel, &wire, &name)) != 0)
        return r;
    if (!readers && capacity)
        return sl_fail(SLUICE_E_INVALID, "no place for the readers was given");
    r = wire->info(name, timeout_ns < 0 ? SLUICE_S : timeout_ns, &info, readers, capacity);
    if (r != 0)
        return r;
    return sl_params_store(caller, &info, sizeof info, offsetof(struct sluice_channel_info, format),
                           "struct sluice_channel_info");
}
