/* SPDX-License-Identifier: MIT
 *
 * The streams and events of a device: a handle ends exactly when its object leaves the device's list.
 */
#include "device/device.h"
#include "util/result.h"

static _Atomic uint32_t counts[SL_HANDLE_KINDS];

void sl_device_count(enum sl_handle_kind kind, int change)
{
    atomic_fetch_add_explicit(&counts[kind], (uint32_t)change, memory_order_relaxed);
}

struct sl_device_counts sl_device_counts(void)
{
    struct sl_device_counts now = {
        .devices = atomic_load_explicit(&counts[SL_HANDLE_DEVICE], memory_order_relaxed),
        .streams = atomic_load_explicit(&counts[SL_HANDLE_STREAM], memory_order_relaxed),
        .events = atomic_load_explicit(&counts[SL_HANDLE_EVENT], memory_order_relaxed),
    };
    return now;
}

int sl_device_hold(struct sluice_device handle, struct sl_device **device)
{
    struct sl_object *object;
    int r = sl_object_hold(handle.id, SL_HANDLE_DEVICE, &object);

    if (r == 0)
        *device = (struct sl_device *)object;
    return r;
}

int sl_device_object(struct sluice_device handle, enum sl_handle_kind kind, size_t size, void **result)
{
    struct sl_device *device;
    int r = sl_device_hold(handle, &device);
    if (r != 0)
        return r;
    struct sl_object *object = sl_object_new(kind, size);
    if (!object) {
        sl_object_drop(&device->object);
        return SLUICE_E_NO_MEMORY;
    }
    object->device = device; /* with the reference taken above */
    *result = object;
    return 0;
}

static void list(struct sl_device *device, struct sl_object *object)
{
    object->next = device->objects;
    if (device->objects)
        device->objects->previous = object;
    device->objects = object;
    object->listed = true;
    if (object->kind == SL_HANDLE_STREAM)
        sl_stream_listed((struct sl_stream *)object);
}

static void unlist(struct sl_device *device, struct sl_object *object)
{
    if (object->previous)
        object->previous->next = object->next;
    else
        device->objects = object->next;
    if (object->next)
        object->next->previous = object->previous;
    object->next = object->previous = NULL;
    object->listed = false;
    if (object->kind == SL_HANDLE_STREAM)
        sl_stream_unlisted((struct sl_stream *)object);
}

int sl_device_adopt(struct sl_object *object, uint64_t (*known)(struct sl_object *object), uint64_t *id)
{
    struct sl_device *device = object->device;
    int r = 0;
    bool listed = false;

    sl_mutex_lock(&device->lock);
    if (!device->open) {
        uint64_t ended = sl_object_id(&device->object);
        r = sl_object_ended(ended, SL_HANDLE_DEVICE);
    } else if (!known || (*id = known(object)) == 0) {
        r = sl_object_name(object, id);
        listed = r == 0;
    }
    if (listed)
        list(device, object);
    sl_mutex_unlock(&device->lock);

    if (!listed)
        sl_object_drop(object);
    return r;
}

bool sl_device_disown(struct sl_object *object, enum sl_end how)
{
    if (!object->listed)
        return false;
    unlist(object->device, object);
    return sl_object_unname(object, how);
}

int sl_device_end(uint64_t *id, enum sl_handle_kind kind)
{
    struct sl_object *object;

    if (*id == 0)
        return 0;
    int r = sl_object_hold(*id, kind, &object);
    if (r != 0)
        return r;
    sl_mutex_lock(&object->device->lock);
    bool ended = sl_device_disown(object, SL_END_DESTROYED);
    sl_mutex_unlock(&object->device->lock);
    if (ended) {
        sl_object_drop(object); /* the handle's reference */
        *id = 0;
    } else {
        r = sl_object_ended(*id, kind);
    }
    sl_object_drop(object);
    return r;
}
