/* SPDX-License-Identifier: MIT
 *
 * The folder of channels. Determined once for each writer, reader and query, as the environment may
 * change.
 */
#include "util/result.h"
#include "native/wire/native.h"

int sl_place_find(struct sl_place *place)
{
    place->dir = -1;
    place->other_count = 0;
    int r = sl_os_folder_name(place->folder, sizeof place->folder, &place->ours);
    if (r != 0)
        return r;
    while (place->other_count < SL_OTHER_FOLDERS &&
           sl_os_folder_other(place->other_count, place->others[place->other_count], sizeof place->others[0]))
        place->other_count++;
    return 0;
}

int sl_place_open(struct sl_place *place, bool create, bool others)
{
    int r = sl_place_find(place);
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

/* Is there a live writer of this name in another standard folder? It happens that one program is
 * started with XDG_RUNTIME_DIR and the other without. NULL if not. */
static const char *find_elsewhere(const struct sl_place *place, const char *name)
{
    struct sl_folder_options options = { .create = false };

    for (int k = 0; k < place->other_count; k++) {
        int dir, fd;
        bool stale;
        if (sl_os_folder_open(place->others[k], true, options, &dir) != 0)
            continue;
        int r = sl_os_connect(dir, place->others[k], name, &fd, &stale);
        sl_os_close(dir);
        if (r == 0) {
            sl_os_close(fd);
            return place->others[k];
        }
    }
    return NULL;
}

static int not_found(const struct sl_place *place, const char *name, bool stale)
{
    const char *other = find_elsewhere(place, name);

    if (other)
        return sl_fail(SLUICE_E_NOT_FOUND, "no channel '%s' in %s, but there is one in %s: set SLUICE_DIR to it", name,
                       place->folder, other);
    if (stale)
        return sl_fail(SLUICE_E_NOT_FOUND, "the writer of channel '%s' in %s is gone; start it again", name,
                       place->folder);
    return sl_fail(SLUICE_E_NOT_FOUND, "no channel '%s' in %s: start its writer, or set SLUICE_DIR to its folder", name,
                   place->folder);
}

int sl_place_connect(const struct sl_place *place, const char *name, int *fd)
{
    struct sl_folder_options options = { .create = false };
    bool stale = false;
    int dir, r = sl_os_folder_open(place->folder, place->ours, options, &dir);

    if (r == SLUICE_E_NOT_FOUND)
        return not_found(place, name, false);
    if (r != 0)
        return r;
    r = sl_os_connect(dir, place->folder, name, fd, &stale);
    if (r == SLUICE_E_NOT_FOUND)
        r = not_found(place, name, stale);
    else if (r == SLUICE_AGAIN)
        r = sl_fail(SLUICE_AGAIN, "the writer of channel '%s' does not answer connections: is it stopped?", name);
    sl_os_close(dir);
    return r;
}
