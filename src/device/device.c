/* SPDX-License-Identifier: MIT
 *
 * Devices: opening by name, reset and close. The only file that lists the kinds of device.
 */
#include "device/device.h"

#include <inttypes.h>
#include <string.h>

#include "util/result.h"

static bool is_host(const char *name)
{
    return strcmp(name, "host") == 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Does `text` match `pattern`, where an x stands for a hexadecimal digit? */
static bool looks_like(const char *text, const char *pattern)
{
    for (; *pattern; text++, pattern++) {
        if (*pattern == 'x' ? !is_hex(*text) : *text != *pattern)
            return false;
    }
    return *text == '\0';
}

/* "cuda:0" or "cuda:UUID", with or without the prefix "GPU-" or, for a MIG instance, "MIG-", as the
 * driver's tools print it. */
static bool is_cuda(const char *name)
{
    if (strncmp(name, "cuda:", 5) != 0)
        return false;
    name += 5;
    size_t digits = 0;
    while (is_digit(name[digits]))
        digits++;
    if (digits >= 1 && digits <= 3 && name[digits] == '\0')
        return true;
    if (strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0)
        name += 4;
    return looks_like(name, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
}

static const struct {
    bool (*is_name)(const char *name);
    const struct sl_device_ops *ops;
} kinds[] = {
    { is_host, &sl_device_host },
    { is_cuda, &sl_device_cuda },
};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

const struct sl_device_ops *sl_device_kind(const char *name)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (kinds[i].is_name(name))
            return kinds[i].ops;
    }
    return NULL;
}

const struct sl_device_ops *sl_device_of_kind(const char *kind)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].ops->name, kind) == 0)
            return kinds[i].ops;
    }
    return NULL;
}

/* ---- opening ---- */

int sl_device_open(struct sluice_device *device, const char *name)
{
    const struct sl_device_ops *ops = sl_device_kind(name);

    if (ops)
        return sl_device_open_as(ops, name, device);
    return sl_fail(SLUICE_E_INVALID,
                   "\"%.80s\" is not the name of a device; names are \"host\", \"cuda:0\" or "
                   "\"cuda:UUID\"",
                   name);
}

static void finish_device(struct sl_object *object)
{
    struct sl_device *device = (struct sl_device *)object;

    device->ops->close(device);
    sl_mutex_finish(&device->lock);
    sl_mutex_finish(&device->fork_lock);
    sl_device_count(SL_HANDLE_DEVICE, -1);
}

int sl_device_open_as(const struct sl_device_ops *ops, const char *name, struct sluice_device *handle)
{
    int r = sl_object_forked();
    if (r == 0)
        r = sl_fork_install();
    if (r != 0)
        return r;
    struct sl_device *device = (struct sl_device *)sl_object_new(SL_HANDLE_DEVICE, sizeof *device);
    if (!device)
        return SLUICE_E_NO_MEMORY;

    size_t length = strlen(name); /* is_name has checked that it fits */
    memcpy(device->name, name, length < SL_DEVICE_NAME ? length : SL_DEVICE_NAME - 1);
    device->ops = ops;
    device->open = true;
    r = ops->open(device);
    if (r == 0) {
        sl_mutex_init(&device->lock);
        sl_mutex_init(&device->fork_lock);
        device->object.finish = finish_device;
        sl_device_count(SL_HANDLE_DEVICE, 1);
        r = sl_object_name(&device->object, &handle->id);
    }
    if (r != 0)
        sl_object_drop(&device->object);
    return r;
}

int sl_device_copy_name(const char *device, char *name, size_t size)
{
    size_t length = strlen(device) + 1;

    if (size < length)
        return sl_fail(SLUICE_E_LIMIT, "the device's name needs %zu bytes, there is room for %zu; %d are always enough",
                       length, size, SL_DEVICE_NAME);
    memcpy(name, device, length);
    return 0;
}

int sl_device_name(struct sluice_device handle, char *name, size_t size)
{
    struct sl_device *device;
    int r = sl_device_hold(handle, &device);
    if (r != 0)
        return r;
    r = sl_device_copy_name(device->name, name, size);
    sl_object_drop(&device->object);
    return r;
}

/* ---- waiting, reset and close ---- */

/* SLUICE_E_CAPTURING if one of the device's streams captures. */
static int none_capturing(struct sl_device *device, const char *what)
{
    int r = 0;

    sl_mutex_lock(&device->lock);
    for (struct sl_object *object = device->objects; object && r == 0; object = object->next) {
        if (object->kind == SL_HANDLE_STREAM)
            r = sl_stream_not_capturing((struct sl_stream *)object, what);
    }
    sl_mutex_unlock(&device->lock);
    return r;
}

static int synchronize(struct sl_device *device)
{
    int r = device->ops->synchronize(device);

    if (r == 0)
        sl_stream_add_host_wait(sl_object_id(&device->object));
    return r;
}

int sl_device_synchronize(struct sluice_device handle)
{
    struct sl_device *device;
    int r = sl_device_hold(handle, &device);
    if (r != 0)
        return r;
    r = none_capturing(device, "its device cannot be synchronized");
    if (r == 0)
        r = synchronize(device);
    sl_object_drop(&device->object);
    return r;
}

/* Ends the handles of all objects, and destroys those that no thread uses. */
static void end_objects(struct sl_device *device, enum sl_end how)
{
    struct sl_object *ended = NULL;

    sl_mutex_lock(&device->lock);
    device->default_stream = 0;
    while (device->objects) {
        struct sl_object *object = device->objects;
        sl_device_disown(object, how);
        object->next = ended;
        ended = object;
    }
    sl_mutex_unlock(&device->lock);

    while (ended) {
        struct sl_object *object = ended;
        ended = object->next;
        if (object->kind == SL_HANDLE_STREAM)
            sl_deferred_end_stream((struct sl_stream *)object);
        sl_object_drop(object);
    }
}

int sl_device_reset(struct sluice_device handle)
{
    struct sl_device *device;
    int r = sl_device_hold(handle, &device);
    if (r != 0)
        return r;
    r = none_capturing(device, "its device cannot be reset");
    if (r == 0) {
        r = synchronize(device);
        end_objects(device, SL_END_RESET); /* also, and especially, if the driver call failed */
    }
    sl_object_drop(&device->object);
    return r;
}

/* Ends the device's own handle, so that no new object is adopted. False if another thread has done
 * so. */
static bool shut(struct sl_device *device)
{
    sl_mutex_lock(&device->lock);
    bool first = device->open && sl_object_unname(&device->object, SL_END_CLOSED);
    device->open = false;
    sl_mutex_unlock(&device->lock);
    return first;
}

void sl_device_drop(struct sluice_device handle)
{
    struct sl_device *device;

    if (handle.id == 0 || sl_device_hold(handle, &device) != 0)
        return;
    if (shut(device)) {
        end_objects(device, SL_END_CLOSED);
        sl_object_drop(&device->object); /* the handle's reference */
    }
    sl_object_drop(&device->object);
}

int sl_device_close(struct sluice_device *handle)
{
    if (handle->id == 0)
        return 0;
    struct sl_device *device;
    int r = sl_device_hold(*handle, &device);
    if (r != 0)
        return r;
    r = none_capturing(device, "its device cannot be closed");
    if (r == 0) {
        r = synchronize(device);
        if (shut(device)) {
            end_objects(device, SL_END_CLOSED);
            sl_object_drop(&device->object); /* the handle's reference */
            handle->id = 0;
        } else {
            r = sl_object_ended(handle->id, SL_HANDLE_DEVICE);
        }
    }
    sl_object_drop(&device->object);
    return r;
}
