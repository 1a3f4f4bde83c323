/* SPDX-License-Identifier: MIT
 *
 * Events that other processes open: a page that both see says how far they are.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake/internal.h"

struct address { /* what is in a handle: where the page is to be found */
    char magic[8];
    int pid, fd;
};

static const char magic[8] = "fakeevt";

static struct shared_event *map(int fd)
{
    void *page = mmap(NULL, sizeof(struct shared_event), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (page == MAP_FAILED)
        abort();
    return page;
}

int fake_event_share(struct sl_cu_event *event)
{
    if (!(event->flags & SL_CU_EVENT_INTERPROCESS))
        return 0;
    if (!fake_can(SL_CU_CAN_SHARE_EVENTS))
        return SL_CU_NOT_SUPPORTED;
    if (!(event->flags & SL_CU_EVENT_DISABLE_TIMING))
        return SL_CU_INVALID_VALUE;
    event->fd = memfd_create("fake event", MFD_CLOEXEC);
    if (event->fd < 0 || ftruncate(event->fd, sizeof(struct shared_event)))
        abort();
    event->shared = map(event->fd);
    return 0;
}

/* Queued work may still wait for it, so the page stays. */
void fake_event_unshare(struct sl_cu_event *event)
{
    if (event->shared && !event->foreign)
        close(event->fd);
}

int fake_cuIpcGetEventHandle(struct sl_cu_event_handle *handle, struct sl_cu_event *event)
{
    struct address address = { .pid = getpid(), .fd = event->fd };
    int code;

    pthread_mutex_lock(&fake_lock);
    if (fake_event_usable(event, &code) && (!event->shared || event->foreign))
        code = SL_CU_INVALID_HANDLE;
    pthread_mutex_unlock(&fake_lock);
    if (code)
        return code;
    memcpy(address.magic, magic, sizeof magic);
    memset(handle, 0, sizeof *handle);
    memcpy(handle->bytes, &address, sizeof address);
    return SL_CU_OK;
}

/* The page of another process's event; -1: it is not there (any more). */
static int find(const struct sl_cu_event_handle *handle)
{
    struct address address;
    char path[64];

    memcpy(&address, handle->bytes, sizeof address);
    if (memcmp(address.magic, magic, sizeof magic) != 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", address.pid, address.fd);
    return address.pid == getpid() ? -1 : open(path, O_RDWR | O_CLOEXEC);
}

int fake_cuIpcOpenEventHandle(struct sl_cu_event **event, struct sl_cu_event_handle handle)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context && !fake_can(SL_CU_CAN_SHARE_EVENTS))
        code = SL_CU_NOT_SUPPORTED;
    if (code == 0) {
        int fd = find(&handle);
        if (fd < 0) {
            code = SL_CU_INVALID_HANDLE;
        } else {
            *event = fake_event_new(context, SL_CU_EVENT_DISABLE_TIMING);
            (*event)->foreign = true;
            (*event)->shared = map(fd);
            close(fd);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}
