/* SPDX-License-Identifier: MIT
 *
 * The numbers that stand for handles.
 */
#include "os/win32/win32.h"

#include <stdlib.h>
#include <string.h>

#include "util/result.h"

enum { MOST = 4096 };

static SRWLOCK lock = SRWLOCK_INIT;
static struct sl_object_fd *objects[MOST];

static void close_handles(struct sl_object_fd *object)
{
    CloseHandle(object->handle);
    if (object->lock)
        CloseHandle(object->lock);
    free(object);
}

int sl_fd_new(HANDLE handle, const char *name, int *fd)
{
    struct sl_object_fd *object = calloc(1, sizeof *object);
    int at = 0;

    if (!object) {
        CloseHandle(handle);
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for a handle");
    }
    object->handle = handle;
    if (name)
        strncpy(object->name, name, SL_OS_NAMED);
    AcquireSRWLockExclusive(&lock);
    while (at < MOST && objects[at])
        at++;
    if (at < MOST)
        objects[at] = object;
    ReleaseSRWLockExclusive(&lock);
    if (at == MOST) {
        close_handles(object);
        return sl_fail(SLUICE_E_NO_DESCRIPTORS, "this process has %d handles of channels open already", MOST);
    }
    *fd = at;
    return 0;
}

struct sl_object_fd *sl_fd_find(int fd)
{
    if (fd < 0 || fd >= MOST)
        return NULL;
    AcquireSRWLockShared(&lock);
    struct sl_object_fd *object = objects[fd];
    ReleaseSRWLockShared(&lock);
    return object;
}

void sl_os_close(int fd)
{
    struct sl_object_fd *object = sl_fd_find(fd);

    if (!object)
        return;
    AcquireSRWLockExclusive(&lock);
    objects[fd] = NULL;
    ReleaseSRWLockExclusive(&lock);
    close_handles(object);
}

int sl_os_descriptors_left(uint32_t count)
{
    (void)count; /* handles do not run out before memory does */
    return 0;
}

int sl_os_descriptor(int fd)
{
    (void)fd;
    return sl_fail(SLUICE_E_UNSUPPORTED, "Windows polls no descriptors: wait for the handle (sluice_reader_handle)");
}

int sl_os_handle(int fd, void **handle)
{
    struct sl_object_fd *object = sl_fd_find(fd);

    if (!object)
        return sl_fail(SLUICE_E_INVALID, "%d stands for no handle", fd);
    *handle = object->handle;
    return 0;
}

void sl_os_keep_in_child(int fd)
{
    (void)fd; /* no process is forked here */
}
