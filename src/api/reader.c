/* SPDX-License-Identifier: MIT
 *
 * The public calls of sluice/reader.h.
 */
#include <sluice/reader.h>

#include <stdio.h>

#include "channel/channel.h"
#include "channel/fetch.h"
#include "kernel/kernel.h"
#include "trace/trace.h"
#include "util/params.h"
#include "util/result.h"

#define LEAST_PARAMS offsetof(struct sluice_reader_params, depth)
#define LEAST_STATS  offsetof(struct sluice_reader_stats, sessions)

static int check_frame(const struct sluice_reader *reader, const struct sluice_frame *frame)
{
    return frame ? 0 : sl_fail(SLUICE_E_INVALID, "channel '%s': frame is NULL", reader->name);
}

/* ---- open, close ---- */

int sluice_reader_open(sluice_reader **out, const struct sluice_reader_params *caller)
{
    struct sluice_reader_params params;
    const struct sl_channel_ops *ops;
    struct sluice_reader *reader;
    const char *name;
    uint64_t handle;
    int r;

    if (!out)
        return sl_fail(SLUICE_E_INVALID, "sluice_reader_open: reader is NULL");
    if ((r = sl_object_forked()) != 0 ||
        (r = sl_params_load(&params, sizeof params, LEAST_PARAMS, caller, "struct sluice_reader_params")) != 0 ||
        (r = sl_channel_of(params.name, &ops, &name)) != 0 ||
        (r = sl_channel_check_reader_params(ops, name, &params)) != 0)
        return r;
    reader = (struct sluice_reader *)sl_object_new(SL_HANDLE_READER, ops->reader_bytes);
    if (!reader)
        return SLUICE_E_NO_MEMORY;
    reader->ops = ops;
    snprintf(reader->name, sizeof reader->name, "%s", name);
    sl_mutex_init(&reader->copier_lock);
    sl_frame_streams_begin(&reader->streams);
    sl_trace_open();
    SL_STAGE_BEGIN(OPEN);
    if ((r = ops->reader_open(reader, &params)) == 0)
        r = sl_object_name(&reader->object, &handle);
    SL_STAGE_END(OPEN);
    if (r != 0) {
        sl_object_drop(&reader->object);
        return r;
    }
    *out = (sluice_reader *)(uintptr_t)handle;
    return 0;
}

int sluice_reader_stop(sluice_reader *handle)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    reader->ops->reader_stop(reader);
    sl_object_drop(&reader->object);
    return 0;
}

int sluice_reader_close(sluice_reader **handle)
{
    struct sluice_reader *reader;
    int r;

    if (!handle || !*handle)
        return 0;
    if ((r = sl_reader_hold(*handle, &reader)) != 0) {
        if (r == SLUICE_E_FORKED)
            *handle = NULL;
        return r;
    }
    if (sl_checks_streams())
        sl_check_slot_over(NULL);
    reader->ops->reader_stop(reader); /* also wakes an acquire on another thread */
    reader->ops->reader_stopped(reader);
    if (sl_object_unname(&reader->object, SL_END_CLOSED))
        sl_object_drop(&reader->object);
    sl_object_drop(&reader->object);
    *handle = NULL;
    return 0;
}

/* ---- frames ---- */

/* For SLUICE_CHECK: the frame is there, or will be on the stream that waits for it. */
static void take_frame(struct sluice_reader *reader, const struct sluice_frame *frame)
{
    struct sl_view view = { .behind = SLUICE_ON_CPU };

    if (reader->ops->reader_view(reader, frame, &view) != 0)
        return;
    sl_check_take_over(SL_HAND_COMMIT, reader->name, view.behind);
    sl_check_slot(view.address, view.format->slot_bytes, view.behind);
}

static void give_frame(struct sluice_reader *reader, const struct sluice_frame *frame)
{
    struct sl_view view = { .behind = SLUICE_ON_CPU };

    if (reader->ops->reader_view(reader, frame, &view) == 0)
        sl_check_slot_over(view.address);
}

/* On a reader that is held. */
static int acquire(struct sluice_reader *reader, struct sluice_stream stream, int64_t timeout_ns,
                   struct sluice_frame *frame)
{
    int r;

    if ((r = check_frame(reader, frame)) != 0)
        return r;
    if (timeout_ns < SLUICE_DEFAULT)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': a time-out of %lld ns", reader->name, (long long)timeout_ns);
    if ((r = sl_reader_enter(reader)) != 0)
        return r;
    SL_STAGE_BEGIN(ACQUIRE);
    r = reader->ops->acquire(reader, stream, timeout_ns == SLUICE_DEFAULT ? SLUICE_S : timeout_ns, frame);
    if (r == 0 && sl_checks_streams())
        take_frame(reader, frame);
    SL_STAGE_END(ACQUIRE);
    sl_reader_leave(reader);
    return r;
}

int sluice_reader_acquire(sluice_reader *handle, struct sluice_stream stream, int64_t timeout_ns,
                          struct sluice_frame *frame)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    r = acquire(reader, stream, timeout_ns, frame);
    sl_object_drop(&reader->object);
    return r;
}

int sluice_reader_release(sluice_reader *handle, struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    SL_STAGE_BEGIN(RELEASE);
    if (sl_checks_streams())
        sl_check_hand_over(SL_HAND_RELEASE, reader->name, stream);
    if ((r = check_frame(reader, frame)) == 0 && sl_checks_streams())
        give_frame(reader, frame);
    if (r == 0)
        r = sl_frame_streams_in_use(&reader->streams) ? sl_release_behind_all(reader, frame, stream)
                                                      : reader->ops->release(reader, frame, stream);
    SL_STAGE_END(RELEASE);
    sl_object_drop(&reader->object);
    return r;
}

int sluice_reader_check(sluice_reader *handle, const struct sluice_frame *frame)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    if ((r = check_frame(reader, frame)) == 0)
        r = reader->ops->check(reader, frame);
    sl_object_drop(&reader->object);
    return r;
}

int sluice_reader_pin(sluice_reader *handle, const struct sluice_frame *frame, sluice_pin **pin)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    if (!pin)
        r = sl_fail(SLUICE_E_INVALID, "channel '%s': pin is NULL", reader->name);
    else if ((r = check_frame(reader, frame)) == 0)
        r = reader->ops->reader_pin(reader, frame, pin);
    sl_object_drop(&reader->object);
    return r;
}

int sluice_reader_fetch(sluice_reader *handle, const struct sluice_frame *frame, const struct sluice_array *arrays,
                        uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    SL_STAGE_BEGIN(FETCH);
    if (sl_checks_streams())
        sl_check_hand_over(SL_HAND_COPY, NULL, stream);
    if ((r = check_frame(reader, frame)) == 0)
        r = sl_fetch(reader, frame, arrays, count, stream, ticket);
    SL_STAGE_END(FETCH);
    sl_object_drop(&reader->object);
    return r;
}

/* ---- format, device, descriptor, stats ---- */

int sluice_reader_format(sluice_reader *handle, struct sluice_format *format)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    r = reader->ops->reader_format(reader, format);
    sl_object_drop(&reader->object);
    return r;
}

static int give_device(const struct sluice_reader *reader, const char *device, char *name, size_t size)
{
    if (!name)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': name is NULL", reader->name);
    if (!device[0])
        return sl_fail(SLUICE_NO_WRITER, "channel '%s': its device is not known before a writer has connected",
                       reader->name);
    return sl_device_copy_name(device, name, size);
}

int sluice_reader_device(sluice_reader *handle, char *name, size_t size)
{
    char device[SL_DEVICE_NAME];
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    reader->ops->reader_device(reader, device);
    r = give_device(reader, device, name, size);
    sl_object_drop(&reader->object);
    return r;
}

int sluice_reader_fd(sluice_reader *handle)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    r = reader->ops->reader_fd(reader);
    if (r >= 0)
        r = sl_os_descriptor(r);
    sl_object_drop(&reader->object);
    return r;
}

int sluice_reader_handle(sluice_reader *handle, void **out)
{
    struct sluice_reader *reader;
    int r = out ? sl_reader_hold(handle, &reader) : sl_fail(SLUICE_E_INVALID, "sluice_reader_handle: handle is NULL");

    if (r != 0)
        return r;
    r = reader->ops->reader_fd(reader);
    if (r >= 0)
        r = sl_os_handle(r, out);
    sl_object_drop(&reader->object);
    return r;
}

int sluice_reader_stats(sluice_reader *handle, struct sluice_reader_stats *caller)
{
    struct sluice_reader_stats stats = { .size = 0 };
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    reader->ops->reader_stats(reader, &stats);
    r = sl_params_store(caller, &stats, sizeof stats, LEAST_STATS, "struct sluice_reader_stats");
    sl_object_drop(&reader->object);
    return r;
}
