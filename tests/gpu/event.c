/* SPDX-License-Identifier: MIT
 *
 * Events of a GPU.
 */
#include "gpu/kit.h"

struct channel_fixture {
    struct sluice_device device;
    struct sluice_stream stream;
    struct sl_cu_stream *native;
};

static struct channel_fixture set_up(void)
{
    struct channel_fixture fixture;

    gpu_begin();
    gpu_use(0);
    fixture.device = gpu_open();
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.stream));
    fixture.native = gpu_native(fixture.stream);
    gpu_spin(fixture.native, 0);
    CHECK_OK(sluice_stream_synchronize(fixture.stream));
    return fixture;
}

static void tear_down(struct channel_fixture *fixture)
{
    CHECK_OK(sluice_device_close(&fixture->device));
    gpu_end();
}

TEST(a_point_in_a_stream)
{
    struct channel_fixture fixture = set_up();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_event event, copy;

    CHECK_OK(sluice_event_create(fixture.device, 0, &event));
    CHECK_SAYS(sluice_event_query(event), SLUICE_E_NOT_RECORDED, "never recorded");
    CHECK_RESULT(sluice_event_synchronize(event), SLUICE_E_NOT_RECORDED);
    gpu_gate_close(&gate, fixture.native);
    CHECK_OK(sluice_event_record(event, fixture.stream));
    CHECK_SAYS(sluice_event_query(event), SLUICE_NOT_READY, "not been reached");
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_event_synchronize(event));
    gpu_gate_join(&gate);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_event_query(event));
    copy = event;
    CHECK_OK(sluice_event_destroy(&event));
    CHECK_SAYS(sluice_event_query(copy), SLUICE_E_CLOSED, "was destroyed");
    tear_down(&fixture);
}

#define SPENT (2 * SLUICE_MS) /* of CPU time: by a thread that does not sleep */

struct waiter {
    clockid_t clock; /* of its thread's CPU time */
    int64_t began;
    struct gpu_gate gate;
};

static int64_t cpu_of(clockid_t clock)
{
    struct timespec now;

    CHECK(clock_gettime(clock, &now) == 0);
    return now.tv_sec * SLUICE_S + now.tv_nsec;
}

static void *open_when_spent(void *shared)
{
    struct waiter *waiter = shared;

    while (cpu_of(waiter->clock) - waiter->began < SPENT)
        test_nap(SLUICE_MS);
    gpu_gate_open(&waiter->gate);
    return NULL;
}

/* The CPU time that the calling thread spent waiting for an event, which is reached in a moment, or once the thread has
 * spent enough. */
static int64_t wait_with(struct channel_fixture *fixture, uint32_t flags)
{
    struct waiter waiter = { .gate = gpu_gate_new() };
    struct sluice_event event;
    pthread_t thread;

    CHECK_OK(sluice_event_create(fixture->device, flags, &event));
    gpu_gate_close(&waiter.gate, fixture->native);
    CHECK_OK(sluice_event_record(event, fixture->stream));
    CHECK(pthread_getcpuclockid(pthread_self(), &waiter.clock) == 0);
    waiter.began = cpu_of(waiter.clock);
    if (flags & SLUICE_EVENT_SLEEP)
        gpu_gate_open_later(&waiter.gate);
    else
        CHECK(pthread_create(&thread, NULL, open_when_spent, &waiter) == 0);
    CHECK_OK(sluice_event_synchronize(event));
    int64_t took = cpu_of(waiter.clock) - waiter.began;
    if (flags & SLUICE_EVENT_SLEEP)
        gpu_gate_join(&waiter.gate);
    else
        CHECK(pthread_join(thread, NULL) == 0);
    gpu_gate_end(&waiter.gate);
    CHECK_OK(sluice_event_destroy(&event));
    return took;
}

TEST(a_wait_for_an_event_may_sleep)
{
    struct channel_fixture fixture = set_up();

    (void)wait_with(&fixture, SLUICE_EVENT_SLEEP); /* makes what is made once */
    CHECK(wait_with(&fixture, SLUICE_EVENT_SLEEP) < SPENT);
    CHECK(wait_with(&fixture, SLUICE_EVENT_SLEEP | SLUICE_EVENT_TIMING) < SPENT);
    CHECK(wait_with(&fixture, 0) >= SPENT); /* else the above proves nothing: it would never end */
    tear_down(&fixture);
}

TEST(later_work_is_not_waited_for)
{
    struct channel_fixture fixture = set_up();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_event event;

    CHECK_OK(sluice_event_create(fixture.device, 0, &event));
    CHECK_OK(sluice_event_record(event, fixture.stream));
    gpu_gate_close(&gate, fixture.native);
    CHECK_OK(sluice_event_synchronize(event));            /* though the gate is closed */
    CHECK_OK(sluice_event_record(event, fixture.stream)); /* moves the event */
    CHECK_RESULT(sluice_event_query(event), SLUICE_NOT_READY);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_event_synchronize(event));
    gpu_gate_end(&gate);
    tear_down(&fixture);
}

TEST(times)
{
    struct channel_fixture fixture = set_up();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_event start, stop, plain;
    double ms = -7;

    CHECK_OK(sluice_event_create(fixture.device, SLUICE_EVENT_TIMING, &start));
    CHECK_OK(sluice_event_create(fixture.device, SLUICE_EVENT_TIMING, &stop));
    CHECK_OK(sluice_event_create(fixture.device, 0, &plain));
    CHECK_RESULT(sluice_event_elapsed(start, stop, &ms), SLUICE_E_NOT_RECORDED);
    int64_t began = test_now();
    CHECK_OK(sluice_event_record(start, fixture.stream));
    gpu_spin(fixture.native, SPIN);
    gpu_gate_close(&gate, fixture.native);
    CHECK_OK(sluice_event_record(stop, fixture.stream));
    CHECK_OK(sluice_event_record(plain, fixture.stream));
    CHECK_RESULT(sluice_event_elapsed(start, stop, &ms), SLUICE_NOT_READY);
    CHECK_NEAR(ms, -7, 0);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_event_synchronize(stop));
    gpu_gate_end(&gate);
    double most = (double)(test_now() - began) / 1e6;
    CHECK_OK(sluice_event_elapsed(start, stop, &ms));
    CHECK(ms >= (double)SPIN / 1e6 * 0.9 && ms <= most * 1.01); /* no less than the work, no more than all of it took */
    double back;
    CHECK_OK(sluice_event_elapsed(stop, start, &back));
    CHECK_NEAR(back, -ms, 0.001);
    CHECK_SAYS(sluice_event_elapsed(start, plain, &ms), SLUICE_E_NO_TIMING, "SLUICE_EVENT_TIMING");
    tear_down(&fixture);
}

/* A reason that waiting cannot fix is reported before one that it can, whichever of the two events it is. */
TEST(each_reason_against_a_time_has_its_status)
{
    struct channel_fixture fixture = set_up();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_device other_device = gpu_open(); /* the same GPU, opened again */
    struct sluice_event late, done, never, plain, other;
    double ms = -7;

    CHECK_OK(sluice_event_create(fixture.device, SLUICE_EVENT_TIMING, &late));
    CHECK_OK(sluice_event_create(fixture.device, SLUICE_EVENT_TIMING, &done));
    CHECK_OK(sluice_event_create(fixture.device, SLUICE_EVENT_TIMING, &never));
    CHECK_OK(sluice_event_create(fixture.device, 0, &plain));
    CHECK_OK(sluice_event_create(other_device, SLUICE_EVENT_TIMING, &other));
    CHECK_OK(sluice_event_record(done, fixture.stream));
    CHECK_OK(sluice_event_record(plain, fixture.stream));
    CHECK_OK(sluice_event_synchronize(plain));
    gpu_gate_close(&gate, fixture.native);
    CHECK_OK(sluice_event_record(late, fixture.stream));
    const struct {
        struct sluice_event with;
        int result;
        const char *says;
    } cases[] = {
        { done, SLUICE_NOT_READY, "has not been reached yet" },
        { never, SLUICE_E_NOT_RECORDED, "never recorded" },
        { plain, SLUICE_E_NO_TIMING, "made without timing" },
        { other, SLUICE_E_WRONG_DEVICE, "two devices" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_SAYS(sluice_event_elapsed(late, cases[i].with, &ms), cases[i].result, cases[i].says);
        CHECK_SAYS(sluice_event_elapsed(cases[i].with, late, &ms), cases[i].result, cases[i].says);
    }
    CHECK_NEAR(ms, -7, 0);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.stream));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_event_elapsed(done, late, &ms));
    CHECK(ms >= 0);
    CHECK_OK(sluice_device_close(&other_device));
    tear_down(&fixture);
}

TEST(an_event_outlives_the_stream_that_it_is_in)
{
    struct channel_fixture fixture = set_up();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_stream other;
    struct sluice_event event;

    CHECK_OK(sluice_stream_create(fixture.device, NULL, &other));
    CHECK_OK(sluice_event_create(fixture.device, 0, &event));
    gpu_gate_close(&gate, gpu_native(other));
    CHECK_OK(sluice_event_record(event, other));
    CHECK_OK(sluice_stream_destroy(&other));
    CHECK_OK(sluice_stream_wait_event(fixture.stream, event));
    CHECK_OK(sluice_event_destroy(&event)); /* the wait stays */
    CHECK_RESULT(sluice_stream_query(fixture.stream), SLUICE_NOT_READY);
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.stream));
    gpu_gate_join(&gate);
    gpu_gate_end(&gate);
    tear_down(&fixture);
}
