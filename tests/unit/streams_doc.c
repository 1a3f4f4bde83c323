/* SPDX-License-Identifier: MIT
 *
 * The code of docs/streams.md.
 */
#include <stdio.h>

#include <sluice/device.h>

#include "harness/test.h"

static void work(int step, struct sluice_stream stream)
{
    CHECK(step > 0);
    CHECK(stream.id != 0);
}

/* Two streams of a device, the second of which waits for a point in the first. */
static int two_streams(const char *name)
{
    struct sluice_device device;
    int r = sluice_device_open(&device, name);
    if (r < 0) {
        fprintf(stderr, "%s\n", sluice_last_error());
        return r;
    }

    struct sluice_stream first, second;
    struct sluice_event drawn;
    CHECK_OK(sluice_stream_create(device, NULL, &first));
    CHECK_OK(sluice_stream_create(device, NULL, &second));
    CHECK_OK(sluice_event_create(device, 0, &drawn));

    work(1, first);
    sluice_event_record(drawn, first);
    work(2, first);
    sluice_stream_wait_event(second, drawn);
    work(3, second); /* after 1, beside 2 */
    sluice_stream_synchronize(second);

    return sluice_device_close(&device); /* ends the streams and the event too */
}

static int measure(struct sluice_device device, struct sluice_stream stream, double *ms)
{
    struct sluice_event start, stop;
    CHECK_OK(sluice_event_create(device, SLUICE_EVENT_TIMING, &start));
    CHECK_OK(sluice_event_create(device, SLUICE_EVENT_TIMING, &stop));

    sluice_event_record(start, stream);
    work(1, stream);
    sluice_event_record(stop, stream);
    sluice_event_synchronize(stop);
    int r = sluice_event_elapsed(start, stop, ms);

    CHECK_OK(sluice_event_destroy(&start));
    CHECK_OK(sluice_event_destroy(&stop));
    return r;
}

/* A function that uses the calling thread's current stream. */
static int draw(struct sluice_device device)
{
    struct sluice_stream stream;
    int r = sluice_stream_current(&stream);
    if (r == SLUICE_NOT_READY)
        r = sluice_stream_default(device, &stream);
    if (r < 0)
        return r;
    work(1, stream);
    return 0;
}

static int draw_on(struct sluice_device device, struct sluice_stream stream)
{
    int r = sluice_stream_push_current(stream);
    if (r < 0)
        return r;
    r = draw(device);
    sluice_stream_pop_current(stream);
    return r;
}

/* A stream that another library made and counts references to. */
struct their_stream {
    int references;
    uintptr_t native;
};

static void let_go(void *user)
{
    struct their_stream *theirs = user;
    theirs->references--;
}

static int borrow(struct sluice_device device, struct their_stream *theirs, struct sluice_stream *stream)
{
    theirs->references++;
    int r = sluice_stream_wrap(device, theirs->native, let_go, theirs, stream);
    if (r < 0)
        theirs->references--; /* let_go is not called for what was never wrapped */
    return r;
}

TEST(the_page_is_right)
{
    struct sluice_device device;
    struct sluice_stream stream;
    struct their_stream theirs = { 1, 0 };
    double ms = -1;

    CHECK_OK(two_streams("host"));
    CHECK_RESULT(two_streams("nowhere"), SLUICE_E_INVALID);
    CHECK_OK(sluice_device_open(&device, "host"));
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(measure(device, stream, &ms));
    CHECK(ms >= 0);
    CHECK_OK(draw(device));
    CHECK_OK(draw_on(device, stream));
    CHECK_RESULT(sluice_stream_current(&stream), SLUICE_NOT_READY);
    CHECK_OK(borrow(device, &theirs, &stream));
    CHECK_EQ(theirs.references, 2);
    CHECK_OK(sluice_stream_destroy(&stream));
    CHECK_EQ(theirs.references, 1);
    CHECK_OK(sluice_device_close(&device));
}
