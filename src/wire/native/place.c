/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "util/result.h"
#include "wire/native/native.h"

int sl_place_open(struct sl_place *place, bool create, bool others)
{
    int r = sl_os_folder_name(place->folder, sizeof place->folder, &place->ours);
    if (r != 0)
        return r;
    struct sl_folder_options options = { .create = create, .others = others };
    return sl_os_folder_open(place->folder, place->ours, options, &place->dir);
}

void sl_place_close(struct sl_place *place)
{
    sl_os_close(place->dir);
    place->dir = -1;
}

/* Is a writer of this name alive in another standard folder? People start one program with
 * XDG_RUNTIME_DIR and the other without. */
static bool find_elsewhere(const char *name, const char *folder, char *found, size_t size)
{
    struct sl_folder_options options = { .create = false };

    for (int k = 0; sl_os_folder_other(k, found, size); k++) {
        int dir, fd;
        bool stale;
        if (strcmp(found, folder) == 0 || sl_os_folder_open(found, true, options, &dir) != 0)
            continue;
        int r = sl_os_connect(dir, found, name, &fd, &stale);
        sl_os_close(dir);
        if (r == 0) {
            sl_os_close(fd);
            return true;
        }
    }
    return false;
}

static int not_found(const char *name, const char *folder, bool stale)
{
    char other[256];

    if (find_elsewhere(name, folder, other, sizeof other))
        return sl_fail(SLUICE_E_NOT_FOUND, "no channel '%s' in %s, but there is one in %s: set SLUICE_DIR to it", name,
                       folder, other);
    if (stale)
        return sl_fail(SLUICE_E_NOT_FOUND, "the writer of channel '%s' in %s is gone; start it again", name, folder);
    return sl_fail(SLUICE_E_NOT_FOUND, "no channel '%s' in %s: start its writer, or set SLUICE_DIR to its folder", name,
                   folder);
}

int sl_place_connect(const char *name, int *fd)
{
    struct sl_place place;
    bool stale = false;
    int r = sl_place_open(&place, false, false);

    if (r == SLUICE_E_NOT_FOUND)
        return not_found(name, place.folder, false);
    if (r != 0)
        return r;
    r = sl_os_connect(place.dir, place.folder, name, fd, &stale);
    if (r == SLUICE_E_NOT_FOUND)
        r = not_found(name, place.folder, stale);
    else if (r == SLUICE_AGAIN)
        r = sl_fail(SLUICE_AGAIN, "the writer of channel '%s' does not answer connections: is it stopped?", name);
    sl_place_close(&place);
    return r;
}
