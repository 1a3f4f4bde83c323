/* SPDX-License-Identifier: MIT
 *
 * The folder of Sluice's own channels, which do not exist here yet: each call that comes first for one says so.
 */
#include "os/win32/win32.h"

int sl_os_folder_name(char *path, size_t size, bool *ours)
{
    (void)path;
    (void)size;
    (void)ours;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

bool sl_os_folder_other(int k, char *path, size_t size)
{
    (void)k;
    (void)path;
    (void)size;
    return false;
}

int sl_os_folder_open(const char *path, bool ours, struct sl_folder_options options, int *dir)
{
    (void)path;
    (void)ours;
    (void)options;
    (void)dir;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

int sl_os_lock(int dir, const char *name, int *fd, uint32_t *holder)
{
    (void)dir;
    (void)name;
    (void)fd;
    (void)holder;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

void sl_os_lock_forget(int fd)
{
    (void)fd;
}

void sl_os_remove(int dir, const char *name)
{
    (void)dir;
    (void)name;
}

bool sl_os_file_at(int dir, const char *name, struct sl_os_file *file)
{
    (void)dir;
    (void)name;
    (void)file;
    return false;
}

bool sl_os_is_file(int fd, const struct sl_os_file *file)
{
    (void)fd;
    (void)file;
    return false;
}

int sl_os_list(int dir, int (*each)(void *context, const char *name, uint32_t uid), void *context)
{
    (void)dir;
    (void)each;
    (void)context;
    return 0;
}

int sl_os_watch_open(const char *path, int *fd)
{
    (void)path;
    (void)fd;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

int sl_os_watch_add(int fd, const char *path)
{
    (void)fd;
    (void)path;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

bool sl_os_watch_drain(int fd)
{
    (void)fd;
    return false;
}

bool sl_os_watch_read(int fd, void (*each)(void *context, const char *name), void *context)
{
    (void)fd;
    (void)each;
    (void)context;
    return false;
}
