/* SPDX-License-Identifier: MIT
 *
 * Events of a GPU.
 */
#include "gpu/kit.h"

struct scene {
    struct sluice_device device;
    struct sluice_stream stream;
    struct sl_cu_stream *native;
};

static struct scene set_up(void)
{
    struct scene scene;

    gpu_begin();
    gpu_use(0);
    scene.device = gpu_open();
    CHECK_OK(sluice_stream_create(scene.device, NULL, &scene.stream));
    scene.native = gpu_native(scene.stream);
    gpu_spin(scene.native, 0);
    CHECK_OK(sluice_stream_synchronize(scene.stream));
    return scene;
}

static void tear_down(struct scene *scene)
{
    CHECK_OK(sluice_device_close(&scene->device));
    gpu_end();
}

TEST(a_point_in_a_stream)
{
    struct scene scene = set_up();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_event event, copy;

    CHECK_OK(sluice_event_create(scene.device, 0, &event));
    CHECK_SAYS(sluice_event_query(event), SLUICE_E_NOT_RECORDED, "never recorded");
    CHECK_RESULT(sluice_event_synchronize(event), SLUICE_E_NOT_RECORDED);
    gpu_gate_close(&gate, scene.native);
    CHECK_OK(sluice_event_record(event, scene.stream));
    CHECK_SAYS(sluice_event_query(event), SLUICE_NOT_READY, "not been reached");
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_event_synchronize(event));
    gpu_gate_opened(&gate);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_event_query(event));
    copy = event;
    CHECK_OK(sluice_event_destroy(&event));
    CHECK_SAYS(sluice_event_query(copy), SLUICE_E_CLOSED, "was destroyed");
    tear_down(&scene);
}

#define SPENT (2 * SLUICE_MS) /* of a CPU: by somebody who does not sleep */

struct waiter {
    clockid_t clock; /* of its thread's CPU */
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

/* What the CPU did for the calling thread while it waited for an event: it is reached in a moment, or when it did enough. */
static int64_t wait_with(struct scene *scene, uint32_t flags)
{
    struct waiter waiter = { .gate = gpu_gate_new() };
    struct sluice_event event;
    pthread_t thread;

    CHECK_OK(sluice_event_create(scene->device, flags, &event));
    gpu_gate_close(&waiter.gate, scene->native);
    CHECK_OK(sluice_event_record(event, scene->stream));
    CHECK(pthread_getcpuclockid(pthread_self(), &waiter.clock) == 0);
    waiter.began = cpu_of(waiter.clock);
    if (flags & SLUICE_EVENT_SLEEP)
        gpu_gate_open_later(&waiter.gate);
    else
        CHECK(pthread_create(&thread, NULL, open_when_spent, &waiter) == 0);
    CHECK_OK(sluice_event_synchronize(event));
    int64_t took = cpu_of(waiter.clock) - waiter.began;
    if (flags & SLUICE_EVENT_SLEEP)
        gpu_gate_opened(&waiter.gate);
    else
        CHECK(pthread_join(thread, NULL) == 0);
    gpu_gate_end(&waiter.gate);
    CHECK_OK(sluice_event_destroy(&event));
    return took;
}

TEST(who_waits_for_an_event_may_sleep)
{
    struct scene scene = set_up();

    (void)wait_with(&scene, SLUICE_EVENT_SLEEP); /* what is made once is made now */
    CHECK(wait_with(&scene, SLUICE_EVENT_SLEEP) < SPENT);
    CHECK(wait_with(&scene, SLUICE_EVENT_SLEEP | SLUICE_EVENT_TIMING) < SPENT);
    CHECK(wait_with(&scene, 0) >= SPENT); /* else the above shows nothing: it would never end */
    tear_down(&scene);
}

TEST(what_is_queued_behind_is_not_waited_for)
{
    struct scene scene = set_up();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_event event;

    CHECK_OK(sluice_event_create(scene.device, 0, &event));
    CHECK_OK(sluice_event_record(event, scene.stream));
    gpu_gate_close(&gate, scene.native);
    CHECK_OK(sluice_event_synchronize(event)); /* though the gate is closed */
    CHECK_OK(sluice_event_record(event, scene.stream)); /* moves the mark */
    CHECK_RESULT(sluice_event_query(event), SLUICE_NOT_READY);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_event_synchronize(event));
    gpu_gate_end(&gate);
    tear_down(&scene);
}

TEST(times)
{
    struct scene scene = set_up();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_event start, stop, plain;
    double ms = -7;

    CHECK_OK(sluice_event_create(scene.device, SLUICE_EVENT_TIMING, &start));
    CHECK_OK(sluice_event_create(scene.device, SLUICE_EVENT_TIMING, &stop));
    CHECK_OK(sluice_event_create(scene.device, 0, &plain));
    CHECK_RESULT(sluice_event_elapsed(start, stop, &ms), SLUICE_E_NOT_RECORDED);
    int64_t began = test_now();
    CHECK_OK(sluice_event_record(start, scene.stream));
    gpu_spin(scene.native, SPIN);
    gpu_gate_close(&gate, scene.native);
    CHECK_OK(sluice_event_record(stop, scene.stream));
    CHECK_OK(sluice_event_record(plain, scene.stream));
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
    tear_down(&scene);
}

/* What no waiting can mend is told before what it can, whichever of the two events it is. */
TEST(each_reason_against_a_time_has_its_status)
{
    struct scene scene = set_up();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_device other_device = gpu_open(); /* the same GPU, opened again */
    struct sluice_event late, done, never, plain, other;
    double ms = -7;

    CHECK_OK(sluice_event_create(scene.device, SLUICE_EVENT_TIMING, &late));
    CHECK_OK(sluice_event_create(scene.device, SLUICE_EVENT_TIMING, &done));
    CHECK_OK(sluice_event_create(scene.device, SLUICE_EVENT_TIMING, &never));
    CHECK_OK(sluice_event_create(scene.device, 0, &plain));
    CHECK_OK(sluice_event_create(other_device, SLUICE_EVENT_TIMING, &other));
    CHECK_OK(sluice_event_record(done, scene.stream));
    CHECK_OK(sluice_event_record(plain, scene.stream));
    CHECK_OK(sluice_event_synchronize(plain));
    gpu_gate_close(&gate, scene.native);
    CHECK_OK(sluice_event_record(late, scene.stream));
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
    CHECK_OK(sluice_stream_synchronize(scene.stream));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_event_elapsed(done, late, &ms));
    CHECK(ms >= 0);
    CHECK_OK(sluice_device_close(&other_device));
    tear_down(&scene);
}

TEST(an_event_outlives_the_stream_that_it_is_in)
{
    struct scene scene = set_up();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_stream other;
    struct sluice_event event;

    CHECK_OK(sluice_stream_create(scene.device, NULL, &other));
    CHECK_OK(sluice_event_create(scene.device, 0, &event));
    gpu_gate_close(&gate, gpu_native(other));
    CHECK_OK(sluice_event_record(event, other));
    CHECK_OK(sluice_stream_destroy(&other));
    CHECK_OK(sluice_stream_wait_event(scene.stream, event));
    CHECK_OK(sluice_event_destroy(&event)); /* the wait stays */
    CHECK_RESULT(sluice_stream_query(scene.stream), SLUICE_NOT_READY);
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_stream_synchronize(scene.stream));
    gpu_gate_opened(&gate);
    gpu_gate_end(&gate);
    tear_down(&scene);
}
