/* SPDX-License-Identifier: MIT
 *
 * The fake kind of device (see fake_device.h).
 */
#include "fake_device.h"

#include <string.h>

#include "harness/test.h"
#include "util/result.h"

struct fake_device fake;

static int called(void)
{
    fake.calls++;
    return fake.fails ? sl_fail(fake.fails, "the fake device is set to fail") : 0;
}

static int on_device(struct sl_device *device)
{
    (void)device;
    return called();
}

static void closed(struct sl_device *device)
{
    (void)device;
    fake.closed++;
}

static int make_stream(struct sl_stream *stream)
{
    stream->native = 0xfa;
    CHECK_OK(sluice_device_close(&fake.shut));
    return called();
}

static int wrap_stream(struct sl_stream *stream, uintptr_t native)
{
    stream->native = native;
    CHECK_OK(sluice_device_close(&fake.shut));
    return called();
}

static void end_stream(struct sl_stream *stream)
{
    stream->native = 0xdead;
    fake.destroyed++;
}

static enum sl_capture capture(struct sl_stream *stream)
{
    (void)stream;
    return fake.capturing ? SL_CAPTURE_ACTIVE : SL_CAPTURE_NONE;
}

static int query_stream(struct sl_stream *stream)
{
    (void)stream;
    int r = called();
    return r == 0 && fake.busy ? SLUICE_NOT_READY : r;
}

static int synchronize_stream(struct sl_stream *stream)
{
    int r = called();
    fake.waiting++;
    while (fake.stuck)
        test_nap(100000);
    fake.waiting--;
    CHECK_EQ(stream->native, 0xfa); /* it stays alive while a thread is inside */
    return r;
}

static void state_of(struct sl_stream *const *streams, uint32_t count, enum sl_stream_state *states)
{
    (void)streams;
    for (uint32_t i = 0; i < count; i++)
        states[i] = fake.busy ? SL_STREAM_BUSY : SL_STREAM_IDLE;
}

static int wait_streams(struct sl_stream *const *streams, uint32_t count, struct sl_stream *const *others,
                        uint32_t other_count)
{
    (void)streams;
    (void)count;
    (void)others;
    (void)other_count;
    return called();
}

static int wait_event(struct sl_stream *stream, struct sl_event *event)
{
    (void)stream;
    (void)event;
    return called();
}

static int on_event(struct sl_event *event)
{
    (void)event;
    return called();
}

static void end_event(struct sl_event *event)
{
    (void)event;
    fake.destroyed++;
}

static int record(struct sl_event *event, struct sl_stream *stream)
{
    (void)event;
    (void)stream;
    return called();
}

static int query_event(struct sl_event *event)
{
    (void)event;
    int r = called();
    return r == 0 && fake.busy ? SLUICE_NOT_READY : r;
}

static int elapsed(struct sl_event *start, struct sl_event *stop, double *milliseconds)
{
    (void)start;
    (void)stop;
    *milliseconds = 7;
    return called();
}

const struct sl_device_ops fake_ops = {
    .name = "fake",
    .open = on_device,
    .close = closed,
    .synchronize = on_device,
    .stream_create = make_stream,
    .stream_wrap = wrap_stream,
    .stream_default = make_stream,
    .stream_destroy = end_stream,
    .stream_capture = capture,
    .stream_query = query_stream,
    .stream_synchronize = synchronize_stream,
    .streams_state = state_of,
    .streams_wait = wait_streams,
    .stream_wait_event = wait_event,
    .event_create = on_event,
    .event_destroy = end_event,
    .event_record = record,
    .event_query = query_event,
    .event_synchronize = on_event,
    .event_elapsed = elapsed,
};

struct sluice_device fake_open(void)
{
    struct sluice_device device;

    memset(&fake, 0, sizeof fake);
    CHECK_OK(sl_device_open_as(&fake_ops, "fake:0", &device));
    return device;
}
