/* SPDX-License-Identifier: MIT
 *
 * The streams that a device lends to parallel sections. Under the device's lock.
 */
#include <string.h>

#include "device/device.h"

static uint32_t index_of(const struct sl_stream *stream)
{
    const struct sl_device *device = stream->object.device;
    uint32_t at = 0;

    while (device->forks[at] != stream)
        at++;
    return at;
}

void sl_fork_listed(struct sl_stream *stream)
{
    struct sl_device *device = stream->object.device;

    device->forks[device->fork_count++] = stream;
    device->fork_making--;
}

void sl_fork_unlisted(struct sl_stream *stream)
{
    struct sl_device *device = stream->object.device;
    uint32_t at = index_of(stream);

    device->fork_count--;
    memmove(&device->forks[at], &device->forks[at + 1], (device->fork_count - at) * sizeof *device->forks);
}

struct sl_stream *sl_fork_next(struct sl_device *device, enum sl_capture state, uint32_t *at)
{
    while (*at < device->fork_count) {
        struct sl_stream *stream = device->forks[(*at)++];
        if (stream->lent_to == 0 && device->ops->stream_capture(stream) == state)
            return stream;
    }
    return NULL;
}

void sl_fork_give_back(struct sl_stream *stream)
{
    struct sl_device *device = stream->object.device;

    stream->lent_to = 0;
    if (!stream->object.listed) /* it has ended with its device */
        return;
    sl_fork_unlisted(stream);
    device->forks[device->fork_count++] = stream;
}
