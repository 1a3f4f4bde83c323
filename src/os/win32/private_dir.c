/* SPDX-License-Identifier: MIT
 *
 * Folders that only this user can access, which keep compiled kernels: none here yet, so each process compiles.
 */
#include "os/os.h"
#include "util/result.h"

#define NO_CACHE "compiled kernels are not kept on Windows so far"

int sl_os_private_dir_open(const char *path, bool make, int *dir)
{
    (void)path;
    (void)make;
    (void)dir;
    return sl_fail(SLUICE_E_UNSUPPORTED, NO_CACHE);
}

int sl_os_private_read(int dir, const char *name, uint64_t most, void **bytes, size_t *size)
{
    (void)dir;
    (void)name;
    (void)most;
    (void)bytes;
    (void)size;
    return sl_fail(SLUICE_E_UNSUPPORTED, NO_CACHE);
}

int sl_os_private_replace(int dir, const char *name, const void *bytes, size_t size)
{
    (void)dir;
    (void)name;
    (void)bytes;
    (void)size;
    return sl_fail(SLUICE_E_UNSUPPORTED, NO_CACHE);
}

void sl_os_private_touch(int dir, const char *name)
{
    (void)dir;
    (void)name;
}

int sl_os_private_list(int dir, int (*each)(void *context, const char *name, int64_t changed), void *context)
{
    (void)dir;
    (void)each;
    (void)context;
    return sl_fail(SLUICE_E_UNSUPPORTED, NO_CACHE);
}
