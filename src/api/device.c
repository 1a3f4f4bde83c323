/* SPDX-License-Identifier: MIT
 *
 * The public calls of sluice/device.h. Devices, streams and events.
 */
#include <sluice/device.h>

#include "device/device.h"
#include "util/result.h"

/* 0, or SLUICE_E_INVALID if a pointer that the call needs is NULL. */
static int require(const void *pointer, const char *call, const char *parameter)
{
    return pointer ? 0 : sl_fail(SLUICE_E_INVALID, "%s: %s is NULL", call, parameter);
}

int sluice_device_open(struct sluice_device *device, const char *name)
{
    int r = require(device, "sluice_device_open", "device");

    if (r == 0)
        r = require(name, "sluice_device_open", "name");
    return r == 0 ? sl_device_open(device, name) : r;
}

int sluice_device_name(struct sluice_device device, char *name, size_t size)
{
    int r = require(name, "sluice_device_name", "name");

    return r == 0 ? sl_device_name(device, name, size) : r;
}

int sluice_device_synchronize(struct sluice_device device)
{
    return sl_device_synchronize(device);
}

int sluice_device_reset(struct sluice_device device)
{
    return sl_device_reset(device);
}

int sluice_device_close(struct sluice_device *device)
{
    int r = require(device, "sluice_device_close", "device");

    return r == 0 ? sl_device_close(device) : r;
}

int sluice_device_host_alloc(struct sluice_device device, size_t size, void **memory)
{
    int r = require(memory, "sluice_device_host_alloc", "memory");

    return r == 0 ? sl_device_host_alloc(device, size, memory) : r;
}

int sluice_device_host_free(void **memory)
{
    return sl_device_host_free(memory);
}

int sluice_stream_create(struct sluice_device device, const struct sluice_stream_params *params,
                         struct sluice_stream *stream)
{
    int r = require(stream, "sluice_stream_create", "stream");

    return r == 0 ? sl_stream_create(device, params, stream) : r;
}

int sluice_stream_wrap(struct sluice_device device, uintptr_t native, void (*release)(void *user), void *user,
                       struct sluice_stream *stream)
{
    int r = require(stream, "sluice_stream_wrap", "stream");

    return r == 0 ? sl_stream_wrap(device, native, release, user, stream) : r;
}

int sluice_stream_default(struct sluice_device device, struct sluice_stream *stream)
{
    int r = require(stream, "sluice_stream_default", "stream");

    return r == 0 ? sl_stream_default(device, stream) : r;
}

int sluice_stream_native(struct sluice_stream stream, uintptr_t *native)
{
    int r = require(native, "sluice_stream_native", "native");

    return r == 0 ? sl_stream_native(stream, native) : r;
}

int sluice_stream_wait_stream(struct sluice_stream stream, struct sluice_stream other)
{
    return sl_stream_wait_stream(stream, other);
}

int sluice_stream_wait_event(struct sluice_stream stream, struct sluice_event event)
{
    return sl_stream_wait_event(stream, event);
}

int sluice_stream_query(struct sluice_stream stream)
{
    return sl_stream_query(stream);
}

int sluice_stream_synchronize(struct sluice_stream stream)
{
    return sl_stream_synchronize(stream);
}

int sluice_stream_destroy(struct sluice_stream *stream)
{
    int r = require(stream, "sluice_stream_destroy", "stream");

    return r == 0 ? sl_stream_destroy(stream) : r;
}

int sluice_stream_push_current(struct sluice_stream stream)
{
    return sl_stream_push_current(stream);
}

int sluice_stream_pop_current(struct sluice_stream stream)
{
    return sl_stream_pop_current(stream);
}

int sluice_stream_current(struct sluice_stream *stream)
{
    int r = require(stream, "sluice_stream_current", "stream");

    return r == 0 ? sl_stream_current(stream) : r;
}

int sluice_stream_info(struct sluice_stream stream, struct sluice_stream_info *info)
{
    int r = require(info, "sluice_stream_info", "info");

    return r == 0 ? sl_stream_info(stream, info) : r;
}

int sluice_event_create(struct sluice_device device, uint32_t flags, struct sluice_event *event)
{
    int r = require(event, "sluice_event_create", "event");

    return r == 0 ? sl_event_create(device, flags, event) : r;
}

int sluice_event_record(struct sluice_event event, struct sluice_stream stream)
{
    return sl_event_record(event, stream);
}

int sluice_event_query(struct sluice_event event)
{
    return sl_event_query(event);
}

int sluice_event_synchronize(struct sluice_event event)
{
    return sl_event_synchronize(event);
}

int sluice_event_elapsed(struct sluice_event start, struct sluice_event stop, double *milliseconds)
{
    int r = require(milliseconds, "sluice_event_elapsed", "milliseconds");

    return r == 0 ? sl_event_elapsed(start, stop, milliseconds) : r;
}

int sluice_event_destroy(struct sluice_event *event)
{
    int r = require(event, "sluice_event_destroy", "event");

    return r == 0 ? sl_event_destroy(event) : r;
}

int sluice_device_count(uint32_t *count)
{
    int r = require(count, "sluice_device_count", "count");

    return r == 0 ? sl_gpu_count(count) : r;
}

int sluice_device_probe(uint32_t index, struct sluice_device_report *report)
{
    int r = require(report, "sluice_device_probe", "report");

    return r == 0 ? sl_gpu_probe(index, report) : r;
}

int sluice_device_try(uint32_t index, struct sluice_device_trial *trial)
{
    int r = require(trial, "sluice_device_try", "trial");

    return r == 0 ? sl_gpu_selftest(index, trial) : r;
}
