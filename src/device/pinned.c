/* SPDX-License-Identifier: MIT
 *
 * Host memory that a device copies at full speed. It is not an object of the device: it stays valid
 * until it is freed, whatever is closed meanwhile.
 */
#include <pthread.h>
#include <stdlib.h>

#include "device/device.h"
#include "util/result.h"

struct pinned {
    struct pinned *next;
    void *memory, *keeper;
    const struct sl_device_ops *ops;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pinned *all;

int sl_device_host_alloc(struct sluice_device handle, size_t size, void **memory)
{
    struct sl_device *device;
    int r = sl_device_hold(handle, &device);
    if (r != 0)
        return r;
    struct pinned *pinned = calloc(1, sizeof *pinned);
    if (!pinned)
        r = sl_fail(SLUICE_E_NO_MEMORY, "no memory for what stands for pinned memory");
    else if (size == 0)
        r = sl_fail(SLUICE_E_INVALID, "sluice_device_host_alloc: size is 0");
    else
        r = device->ops->host_alloc(device, size, &pinned->memory, &pinned->keeper);
    if (r == 0) {
        pinned->ops = device->ops;
        pthread_mutex_lock(&lock);
        pinned->next = all;
        all = pinned;
        pthread_mutex_unlock(&lock);
        *memory = pinned->memory;
    } else {
        free(pinned);
    }
    sl_object_drop(&device->object);
    return r;
}

static struct pinned *take(const void *memory)
{
    struct pinned **at = &all, *found;

    pthread_mutex_lock(&lock);
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

int sl_device_host_free(void **memory)
{
    if (!memory || !*memory)
        return 0;
    int r = sl_object_forked();
    if (r != 0)
        return r;
    struct pinned *pinned = take(*memory);
    if (!pinned)
        return sl_fail(SLUICE_E_INVALID, "%p is not of sluice_device_host_alloc, or was freed already", *memory);
    r = pinned->ops->host_free(pinned->memory, pinned->keeper);
    free(pinned);
    *memory = NULL;
    return r;
}
