/* SPDX-License-Identifier: MIT
 *
 * Events on the host.
 */
#include <sluice/device.h>

#include "device/device.h"
#include "harness/test.h"

static const struct sluice_event none = { 0 };

struct fixture {
    struct sluice_device device;
    struct sluice_stream stream;
};

static struct fixture set_up(void)
{
    struct fixture fixture;

    CHECK_OK(sluice_device_open(&fixture.device, "host"));
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.stream));
    return fixture;
}

static void tear_down(struct fixture *fixture)
{
    CHECK_OK(sluice_device_close(&fixture->device));
    CHECK_EQ(sl_device_counts().events, 0);
}

TEST(create_and_destroy)
{
    struct fixture fixture = set_up();
    struct sluice_event event, copy;

    CHECK_OK(sluice_event_create(fixture.device, 0, &event));
    copy = event;
    CHECK_OK(sluice_event_record(event, fixture.stream));
    CHECK_OK(sluice_event_query(event));
    CHECK_OK(sluice_event_synchronize(event));
    CHECK_OK(sluice_stream_wait_event(fixture.stream, event));
    CHECK_OK(sluice_event_destroy(&event));
    CHECK_EQ(event.id, 0);
    CHECK_OK(sluice_event_destroy(&event));

    CHECK_SAYS(sluice_event_destroy(&copy), SLUICE_E_CLOSED, "was destroyed");
    CHECK_NE(copy.id, 0);
    CHECK_RESULT(sluice_event_record(copy, fixture.stream), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_event_query(copy), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_event_synchronize(copy), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_stream_wait_event(fixture.stream, copy), SLUICE_E_CLOSED);
    tear_down(&fixture);
}

TEST(invalid_handles_and_flags)
{
    struct fixture fixture = set_up();
    struct sluice_event event = { 42 }, junk = { 99 };

    CHECK_SAYS(sluice_event_create(fixture.device, 4, &event), SLUICE_E_INVALID, "0x4");
    CHECK_RESULT(sluice_event_create(fixture.device, 0, NULL), SLUICE_E_INVALID);
    CHECK_EQ(event.id, 42);
    CHECK_SAYS(sluice_event_query(none), SLUICE_E_INVALID, "zero handle: no event");
    CHECK_RESULT(sluice_event_query((struct sluice_event){ fixture.stream.id }), SLUICE_E_HANDLE);
    CHECK_RESULT(sluice_event_destroy(&junk), SLUICE_E_HANDLE);
    CHECK_RESULT(sluice_event_destroy(NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_event_create(fixture.device, 0, &event));
    CHECK_SAYS(sluice_event_record(event, SLUICE_ON_CPU), SLUICE_E_INVALID, "SLUICE_ON_CPU");
    CHECK_RESULT(sluice_event_record(event, (struct sluice_stream){ 0 }), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_event_query(event), SLUICE_E_NOT_RECORDED); /* and nothing was recorded */
    tear_down(&fixture);
}

TEST(never_recorded)
{
    struct fixture fixture = set_up();
    struct sluice_event event, other;
    double ms = 42;

    CHECK_OK(sluice_event_create(fixture.device, SLUICE_EVENT_TIMING, &event));
    CHECK_OK(sluice_event_create(fixture.device, SLUICE_EVENT_TIMING, &other));
    CHECK_SAYS(sluice_event_query(event), SLUICE_E_NOT_RECORDED, "sluice_event_record");
    CHECK_RESULT(sluice_event_synchronize(event), SLUICE_E_NOT_RECORDED);
    CHECK_RESULT(sluice_stream_wait_event(fixture.stream, event), SLUICE_E_NOT_RECORDED);
    CHECK_OK(sluice_event_record(other, fixture.stream));
    CHECK_RESULT(sluice_event_elapsed(event, other, &ms), SLUICE_E_NOT_RECORDED);
    CHECK_RESULT(sluice_event_elapsed(other, event, &ms), SLUICE_E_NOT_RECORDED);
    CHECK_NEAR(ms, 42, 0);
    tear_down(&fixture);
}

TEST(elapsed_is_the_time_between_marks)
{
    struct fixture fixture = set_up();
    struct sluice_event start, stop, plain;
    double ms = 0;

    CHECK_OK(sluice_event_create(fixture.device, SLUICE_EVENT_TIMING, &start));
    CHECK_OK(sluice_event_create(fixture.device, SLUICE_EVENT_TIMING, &stop));
    CHECK_OK(sluice_event_create(fixture.device, 0, &plain));
    int64_t before = test_now();
    CHECK_OK(sluice_event_record(start, fixture.stream));
    int64_t between = test_now();
    test_nap(30 * SLUICE_MS);
    int64_t later = test_now();
    CHECK_OK(sluice_event_record(stop, fixture.stream));
    int64_t after = test_now();
    CHECK_OK(sluice_event_record(plain, fixture.stream));

    /* Bounded by clock readings around the calls, however slow the machine is. */
    CHECK_OK(sluice_event_elapsed(start, stop, &ms));
    CHECK(ms >= (double)(later - between) / 1e6 && ms <= (double)(after - before) / 1e6);
    double back = 0;
    CHECK_OK(sluice_event_elapsed(stop, start, &back));
    CHECK_NEAR(back, -ms, 0);
    CHECK_OK(sluice_event_record(start, fixture.stream)); /* moves the event */
    CHECK_OK(sluice_event_elapsed(start, stop, &ms));
    CHECK(ms <= 0);

    CHECK_SAYS(sluice_event_elapsed(start, plain, &ms), SLUICE_E_NO_TIMING, "SLUICE_EVENT_TIMING");
    CHECK_RESULT(sluice_event_elapsed(plain, stop, &ms), SLUICE_E_NO_TIMING);
    CHECK_RESULT(sluice_event_elapsed(start, stop, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_event_elapsed(none, stop, &ms), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_event_elapsed(start, none, &ms), SLUICE_E_INVALID);
    tear_down(&fixture);
}

/* Two opens of the host are two devices: an event is recorded on its own device, and waited for on any. */
TEST(two_devices)
{
    struct fixture fixture = set_up(), other = set_up();
    struct sluice_event event, foreign;
    double ms;

    CHECK_OK(sluice_event_create(fixture.device, SLUICE_EVENT_TIMING, &event));
    CHECK_OK(sluice_event_create(other.device, SLUICE_EVENT_TIMING, &foreign));
    CHECK_SAYS(sluice_event_record(event, other.stream), SLUICE_E_WRONG_DEVICE, "is of \"host\": two devices");
    CHECK_RESULT(sluice_event_query(event), SLUICE_E_NOT_RECORDED);
    CHECK_OK(sluice_event_record(event, fixture.stream));
    CHECK_OK(sluice_event_record(foreign, other.stream));
    CHECK_OK(sluice_stream_wait_event(other.stream, event));
    CHECK_RESULT(sluice_event_elapsed(event, foreign, &ms), SLUICE_E_WRONG_DEVICE);
    CHECK_OK(sluice_device_close(&fixture.device));
    CHECK_SAYS(sluice_stream_wait_event(other.stream, event), SLUICE_E_STALE, "its device was closed");
    tear_down(&other);
}
