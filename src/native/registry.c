/* SPDX-License-Identifier: MIT
 *
 * Which channels exist.
 */
#include "native/registry.h"

#include <stdlib.h>
#include <string.h>

#include "native/wire/wire.h"
#include "os/os.h"
#include "util/result.h"

const char *sl_registry_folder(void)
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

    /* The folder may also have sockets that are not channels. */
    if (sl_native_check_name(name) != 0)
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

/* A refused connection means that the writer is dead; a full queue, that it is alive. Removes nothing (protocol 5.8).
 * False for a socket of some other program. */
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

int sl_registry_list(const char *folder, struct sluice_registry_entry *entries, size_t capacity, size_t *count)
{
    struct listing listing = { .entries = NULL };
    char path[256];
    int dir, r;

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

int sl_registry_watch(const char *folder, struct sl_registry_watch *watch)
{
    int dir, r = open_folder(&folder, watch->folder, sizeof watch->folder, true, &dir);

    if (r != 0)
        return r;
    sl_os_close(dir);
    if (folder != watch->folder && strlen(folder) >= sizeof watch->folder)
        return sl_fail(SLUICE_E_INVALID, "the folder's name is too long to be watched: %s", folder);
    if (folder != watch->folder)
        strcpy(watch->folder, folder);
    if (!sl_os_file_at(-1, watch->folder, &watch->watched))
        watch->watched = (struct sl_os_file){ 0 };
    return sl_os_watch_open(watch->folder, &watch->fd);
}

bool sl_registry_watch_again(struct sl_registry_watch *watch)
{
    const char *folder = watch->folder;
    struct sl_os_file there = { 0 };
    int dir;

    if (sl_os_file_at(-1, folder, &there) && there.device == watch->watched.device &&
        there.inode == watch->watched.inode)
        return false;
    if (open_folder(&folder, NULL, 0, true, &dir) != 0)
        return false;
    sl_os_close(dir);
    if (!sl_os_file_at(-1, folder, &there) || sl_os_watch_add(watch->fd, folder) != 0)
        return false;
    watch->watched = there;
    return true;
}
