/* SPDX-License-Identifier: MIT
 *
 * The public calls of sluice/writer.h. Writers, pins and tickets.
 */
#include <sluice/writer.h>

#include <stdio.h>

#include "channel/channel.h"
#include "channel/stream_deps.h"
#include "copy/copy.h"
#include "format/format.h"
#include "kernel/kernel.h"
#include "mem/mem.h"
#include "trace/trace.h"
#include "util/params.h"
#include "util/result.h"

#define LEAST_PARAMS offsetof(struct sluice_writer_params, slots)
#define LEAST_STATS  offsetof(struct sluice_writer_stats, cancelled)

static int check_frame(const struct sluice_writer *writer, const struct sluice_frame *frame)
{
    return frame ? 0 : sl_fail(SLUICE_E_INVALID, "channel '%s': frame is NULL", writer->name);
}

static int check_timeout(const struct sluice_writer *writer, int64_t timeout_ns, int64_t least)
{
    if (timeout_ns >= least)
        return 0;
    return sl_fail(SLUICE_E_INVALID, "channel '%s': a time-out of %lld ns", writer->name, (long long)timeout_ns);
}

/* ---- open, close ---- */

int sluice_writer_open(sluice_writer **out, const struct sluice_writer_params *caller)
{
    struct sluice_writer_params params;
    const struct sl_channel_ops *ops;
    struct sluice_writer *writer;
    const char *name;
    uint64_t handle;
    int r;

    if (!out)
        return sl_fail(SLUICE_E_INVALID, "sluice_writer_open: writer is NULL");
    if ((r = sl_object_forked()) != 0 ||
        (r = sl_params_load(&params, sizeof params, LEAST_PARAMS, caller, "struct sluice_writer_params")) != 0 ||
        (r = sl_channel_of(params.name, &ops, &name)) != 0 ||
        (r = sl_channel_check_writer_params(ops, name, &params)) != 0)
        return r;
    writer = (struct sluice_writer *)sl_object_new(SL_HANDLE_WRITER, ops->writer_bytes);
    if (!writer)
        return SLUICE_E_NO_MEMORY;
    writer->ops = ops;
    snprintf(writer->name, sizeof writer->name, "%s", name);
    sl_frame_streams_begin(&writer->streams);
    sl_trace_open();
    SL_STAGE_BEGIN(OPEN);
    if ((r = ops->writer_open(writer, &params)) == 0)
        r = sl_object_name(&writer->object, &handle);
    SL_STAGE_END(OPEN);
    if (r != 0) {
        sl_object_drop(&writer->object);
        return r;
    }
    *out = (sluice_writer *)(uintptr_t)handle;
    return 0;
}

int sluice_writer_close(sluice_writer **handle)
{
    struct sluice_writer *writer;
    int r;

    if (!handle || !*handle)
        return 0;
    if ((r = sl_writer_hold(*handle, &writer)) != 0) {
        if (r == SLUICE_E_FORKED)
            *handle = NULL;
        return r;
    }
    if (sl_checks_streams())
        sl_check_slot_over(NULL);
    if (sl_object_unname(&writer->object, SL_END_CLOSED))
        sl_object_drop(&writer->object);
    sl_object_drop(&writer->object);
    *handle = NULL;
    return 0;
}

/* ---- frames ---- */

/* For SLUICE_CHECK: readers have released the slot. */
static void take_slot(struct sluice_writer *writer, const struct sluice_frame *frame)
{
    struct sl_view view = { .address = NULL };

    if (writer->ops->writer_view(writer, frame, &view) != 0)
        return;
    sl_check_take_over(SL_HAND_RELEASE, writer->name, SLUICE_ON_CPU);
    sl_check_slot(view.address, view.format->slot_bytes, SLUICE_ON_CPU);
}

int sluice_writer_begin(sluice_writer *handle, int64_t timeout_ns, struct sluice_frame *frame)
{
    struct sluice_writer *writer;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    SL_STAGE_BEGIN(BEGIN);
    if ((r = check_frame(writer, frame)) == 0 && (r = check_timeout(writer, timeout_ns, SLUICE_DEFAULT)) == 0)
        r = writer->ops->begin(writer, timeout_ns, frame);
    if (r == 0 && sl_checks_streams())
        take_slot(writer, frame);
    SL_STAGE_END(BEGIN);
    sl_writer_leave(writer);
    return r;
}

int sluice_writer_wait(sluice_writer *handle, int64_t timeout_ns)
{
    struct sluice_writer *writer;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    if ((r = check_timeout(writer, timeout_ns, 0)) == 0)
        r = writer->ops->wait(writer, timeout_ns);
    sl_writer_leave(writer);
    return r;
}

int sluice_writer_wait_readers(sluice_writer *handle, uint32_t count, int64_t timeout_ns)
{
    if (timeout_ns < 0)
        return sl_fail(SLUICE_E_INVALID, "sluice_writer_wait_readers: a time-out of %lld ns", (long long)timeout_ns);
    return sl_writer_wait_readers(handle, count, timeout_ns);
}

static void give_slot(struct sluice_writer *writer, const struct sluice_frame *frame)
{
    struct sl_view view = { .address = NULL };

    if (writer->ops->writer_view(writer, frame, &view) == 0)
        sl_check_slot_over(view.address);
}

static int commit(struct sluice_writer *writer, struct sluice_frame *frame, struct sluice_stream stream)
{
    int r = sl_stream_wait_check(stream);

    if (sl_checks_streams()) {
        sl_check_hand_over(SL_HAND_COMMIT, writer->name, stream);
        give_slot(writer, frame);
    }
    return r == 0 ? writer->ops->commit(writer, frame, stream) : r;
}

static int cancel(struct sluice_writer *writer, struct sluice_frame *frame, struct sluice_stream stream)
{
    if (sl_checks_streams()) {
        sl_check_hand_over(SL_HAND_RELEASE, writer->name, stream);
        give_slot(writer, frame);
    }
    return writer->ops->cancel(writer, frame, stream);
}

/* Behind all streams that use the frame. */
static int end_frame(struct sluice_writer *writer, struct sluice_frame *frame, struct sluice_stream stream,
                     int (*end)(struct sluice_writer *, struct sluice_frame *, struct sluice_stream))
{
    uint64_t token = frame->opaque[SL_FRAME_TOKEN], entry = frame->opaque[SL_FRAME_ENTRY];
    int r = sl_frame_streams_end_on(&writer->streams, frame, &stream);

    if (r == 0)
        r = end(writer, frame, stream);
    if (frame->opaque[SL_FRAME_OWNER] == 0)
        sl_frame_streams_forget(&writer->streams, token, entry);
    return r;
}

int sluice_writer_commit(sluice_writer *handle, struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sluice_writer *writer;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    SL_STAGE_BEGIN(COMMIT);
    if ((r = check_frame(writer, frame)) == 0)
        r = end_frame(writer, frame, stream, commit);
    SL_STAGE_END(COMMIT);
    sl_writer_leave(writer);
    return r;
}

int sluice_writer_cancel(sluice_writer *handle, struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sluice_writer *writer;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    if ((r = check_frame(writer, frame)) == 0)
        r = end_frame(writer, frame, stream, cancel);
    sl_writer_leave(writer);
    return r;
}

static int send(struct sluice_writer *writer, struct sluice_frame *header, const struct sluice_array *arrays,
                uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket)
{
    int r = sl_stream_wait_check(stream);

    if (sl_checks_streams()) {
        sl_check_hand_over(SL_HAND_COMMIT, writer->name, stream);
        sl_check_hand_over(SL_HAND_COPY, NULL, stream);
    }
    return r == 0 ? writer->ops->send(writer, header, arrays, count, stream, ticket) : r;
}

int sluice_writer_send_frame(sluice_writer *handle, struct sluice_frame *header, const struct sluice_array *arrays,
                             uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket)
{
    struct sluice_writer *writer;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    SL_STAGE_BEGIN(SEND);
    if ((r = check_frame(writer, header)) == 0)
        r = send(writer, header, arrays, count, stream, ticket);
    SL_STAGE_END(SEND);
    sl_writer_leave(writer);
    return r;
}

int sluice_writer_send(sluice_writer *handle, const struct sluice_array *arrays, uint32_t count,
                       struct sluice_stream stream, struct sluice_ticket *ticket)
{
    struct sluice_frame header; /* a send reads only the members set below; clearing the rest would take time */

    header.capture_ns = 0;
    header.capture_clock = SLUICE_CLOCK_MONOTONIC;
    header.meta = NULL;
    header.meta_size = 0;
    return sluice_writer_send_frame(handle, &header, arrays, count, stream, ticket);
}

/* ---- format, stats ---- */

int sluice_writer_reformat(sluice_writer *handle, const struct sluice_format *caller)
{
    struct sluice_writer *writer;
    struct sluice_format format;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    if ((r = sl_format_load(&format, caller)) == 0)
        r = writer->ops->reformat(writer, &format);
    sl_writer_leave(writer);
    return r;
}

int sluice_writer_format(sluice_writer *handle, struct sluice_format *format)
{
    struct sluice_writer *writer;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    r = writer->ops->writer_format(writer, format);
    sl_writer_leave(writer);
    return r;
}

int sluice_writer_stats(sluice_writer *handle, struct sluice_writer_stats *caller)
{
    struct sluice_writer_stats stats = { .size = 0 };
    struct sluice_writer *writer;
    int r = sl_writer_hold(handle, &writer);

    if (r != 0)
        return r;
    writer->ops->writer_stats(writer, &stats);
    r = sl_params_store(caller, &stats, sizeof stats, LEAST_STATS, "struct sluice_writer_stats");
    sl_object_drop(&writer->object);
    return r;
}

/* ---- pins, tickets ---- */

int sluice_writer_pin(sluice_writer *handle, const struct sluice_frame *frame, sluice_pin **pin)
{
    struct sluice_writer *writer;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    if (!pin)
        r = sl_fail(SLUICE_E_INVALID, "channel '%s': pin is NULL", writer->name);
    else if ((r = check_frame(writer, frame)) == 0)
        r = writer->ops->writer_pin(writer, frame, pin);
    sl_writer_leave(writer);
    return r;
}

int sluice_pin_drop(sluice_pin **pin)
{
    int r;

    if (!pin || !*pin)
        return 0;
    if ((r = sl_object_forked()) == 0)
        sl_mem_drop((struct sl_mem_shared *)*pin);
    *pin = NULL;
    return r;
}

static int wait_for_copy(struct sluice_ticket ticket, int64_t timeout_ns)
{
    int r = sl_ticket_wait(ticket.id, timeout_ns);

    if (r == 0 && sl_checks_streams())
        sl_check_take_over(SL_HAND_COPY, NULL, SLUICE_ON_CPU);
    return r;
}

int sluice_ticket_wait(struct sluice_ticket ticket, int64_t timeout_ns)
{
    int r = wait_for_copy(ticket, timeout_ns);

    return r == SLUICE_TIMEOUT ? sl_fail(SLUICE_TIMEOUT, "the copy is still under way") : r;
}

int sluice_ticket_query(struct sluice_ticket ticket)
{
    int r = wait_for_copy(ticket, 0);

    return r == SLUICE_TIMEOUT ? sl_fail(SLUICE_NOT_READY, "the copy is still under way") : r;
}
