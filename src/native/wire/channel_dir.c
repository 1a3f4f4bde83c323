/* SPDX-License-Identifier: MIT
 *
 * The folder of channels. Determined once for each writer, reader and query, as the environment may
 * change.
 */
#include "native/wire/native.h"
#include "util/result.h"

int sl_channel_dir_find(struct sl_channel_dir *dir)
{
    dir->fd = -1;
    dir->other_count = 0;
    int r = sl_os_folder_name(dir->folder, sizeof dir->folder, &dir->ours);
    if (r != 0)
        return r;
    while (dir->other_count < SL_OTHER_FOLDERS &&
           sl_os_folder_other(dir->other_count, dir->others[dir->other_count], sizeof dir->others[0]))
        dir->other_count++;
    return 0;
}

int sl_channel_dir_open(struct sl_channel_dir *dir, bool create, bool others)
{
    int r = sl_channel_dir_find(dir);
    if (r != 0)
        return r;
    struct sl_folder_options options = { .create = create, .others = others };
    return sl_os_folder_open(dir->folder, dir->ours, options, &dir->fd);
}

int sl_channel_dir_make(const struct sl_channel_dir *dir)
{
    struct sl_folder_options options = { .create = true };
    int fd, r = sl_os_folder_open(dir->folder, dir->ours, options, &fd);

    if (r == 0)
        sl_os_close(fd);
    return r;
}

void sl_channel_dir_close(struct sl_channel_dir *dir)
{
    sl_os_close(dir->fd);
    dir->fd = -1;
}

/* Is there a live writer of this name in another standard folder? It happens that one program is
 * started with XDG_RUNTIME_DIR and the other without. NULL if not. */
static const char *find_elsewhere(const struct sl_channel_dir *dir, const char *name)
{
    struct sl_folder_options options = { .create = false };

    for (int k = 0; k < dir->other_count; k++) {
        int other_fd, fd;
        bool stale;
        if (sl_os_folder_open(dir->others[k], true, options, &other_fd) != 0)
            continue;
        int r = sl_os_connect(other_fd, dir->others[k], name, &fd, &stale);
        sl_os_close(other_fd);
        if (r == 0) {
            sl_os_close(fd);
            return dir->others[k];
        }
    }
    return NULL;
}

static int not_found(const struct sl_channel_dir *dir, const char *name, bool stale)
{
    const char *other = find_elsewhere(dir, name);
    uint32_t pid;

    if (sl_os_find_claimant(dir->folder, name, &pid))
        return sl_fail(SLUICE_E_NOT_FOUND,
                       "channel '%s' has a writer (process %u), but its socket in %s was removed: the writer puts it "
                       "back within a second, or says in its log why it cannot",
                       name, pid, dir->folder);
    if (other)
        return sl_fail(SLUICE_E_NOT_FOUND, "no channel '%s' in %s, but there is one in %s: set SLUICE_DIR to it", name,
                       dir->folder, other);
    if (stale)
        return sl_fail(SLUICE_E_NOT_FOUND, "the writer of channel '%s' in %s is gone; start it again", name,
                       dir->folder);
    return sl_fail(SLUICE_E_NOT_FOUND, "no channel '%s' in %s: start its writer, or set SLUICE_DIR to its folder", name,
                   dir->folder);
}

int sl_channel_dir_connect(const struct sl_channel_dir *dir, const char *name, int *fd)
{
    struct sl_folder_options options = { .create = false };
    bool stale = false;
    int dir_fd, r = sl_os_folder_open(dir->folder, dir->ours, options, &dir_fd);

    if (r == SLUICE_E_NOT_FOUND)
        return not_found(dir, name, false);
    if (r != 0)
        return r;
    r = sl_os_connect(dir_fd, dir->folder, name, fd, &stale);
    if (r == SLUICE_E_NOT_FOUND)
        r = not_found(dir, name, stale);
    else if (r == SLUICE_AGAIN)
        r = sl_fail(SLUICE_AGAIN, "the writer of channel '%s' does not answer connections: is it stopped?", name);
    sl_os_close(dir_fd);
    return r;
}
