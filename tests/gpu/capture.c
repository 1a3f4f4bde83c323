/* SPDX-License-Identifier: MIT
 *
 * Captures of graphs: the library breaks nobody's capture, and adds nothing to a graph unasked.
 */
#include "gpu/capture_thread.h"

#define COUNT 4096

/* A device from open to close, with its own streams and others'. */
static void live(struct sl_cu_stream *theirs)
{
    struct sluice_device device = gpu_open();
    struct sluice_stream_params params = { .size = sizeof params, .blocking = 1 };
    struct sluice_stream stream, blocking, wrapped, gone;
    struct sluice_stream_info info = { .size = sizeof info };
    struct sluice_event start, stop;
    double ms;

    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_stream_create(device, &params, &blocking));
    CHECK_OK(sluice_stream_wrap(device, (uintptr_t)theirs, NULL, NULL, &wrapped));
    CHECK_OK(sluice_event_create(device, SLUICE_EVENT_TIMING, &start));
    CHECK_OK(sluice_event_create(device, SLUICE_EVENT_TIMING, &stop));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(sluice_event_record(start, stream));
        CHECK_OK(sluice_stream_wait_event(wrapped, start));
        CHECK_OK(sluice_stream_wait_stream(blocking, wrapped));
        CHECK_OK(sluice_event_record(stop, blocking));
        CHECK_OK(sluice_event_synchronize(stop));
        CHECK_OK(sluice_event_query(start));
        CHECK_OK(sluice_event_elapsed(start, stop, &ms));
        CHECK_OK(sluice_stream_synchronize(wrapped));
        CHECK_OK(sluice_stream_query(blocking));
        CHECK_OK(sluice_stream_info(wrapped, &info));
        CHECK_EQ(info.capturing, 0);
        CHECK_OK(sluice_stream_create(device, NULL, &gone));
        CHECK_OK(sluice_stream_destroy(&gone));
    }
    CHECK_OK(sluice_event_destroy(&start));
    CHECK_OK(sluice_device_synchronize(device));
    CHECK_OK(sluice_device_reset(device));
    CHECK_OK(sluice_device_close(&device));
}

/* Every use of the default stream, which is usable or `shut`. At the end the device is closed, unless that had to be
 * refused: then it is `left`. */
static void use_default(bool shut, struct sluice_device *left)
{
    struct sluice_device device = gpu_open();
    struct sluice_stream stream, standard, wrapped;
    struct sluice_stream_info info = { .size = sizeof info };
    struct sluice_event event;
    int expected = shut ? SLUICE_E_CAPTURING : 0;

    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_event_create(device, 0, &event));
    CHECK_OK(sluice_stream_default(device, &standard));
    CHECK_OK(sluice_stream_wrap(device, 0, NULL, NULL, &wrapped));
    CHECK_OK(sluice_stream_info(standard, &info));
    CHECK_EQ(info.capturing, 0);
    CHECK_RESULT(sluice_stream_query(standard), expected);
    CHECK_RESULT(sluice_stream_synchronize(standard), expected);
    CHECK_RESULT(sluice_stream_wait_stream(standard, stream), expected);
    CHECK_RESULT(sluice_stream_wait_stream(stream, standard), expected);
    CHECK_RESULT(sluice_event_record(event, standard), expected);
    CHECK_OK(sluice_event_record(event, stream));
    CHECK_RESULT(sluice_stream_wait_event(standard, event), expected);
    CHECK_RESULT(sluice_stream_synchronize(wrapped), expected);
    CHECK_RESULT(sluice_device_synchronize(device), expected);
    if (shut) {
        CHECK_HAS(sluice_last_error(), "blocking stream");
        CHECK_RESULT(sluice_device_reset(device), SLUICE_E_CAPTURING);
        CHECK_OK(sluice_stream_synchronize(stream)); /* nothing was queued */
    }
    CHECK_RESULT(sluice_device_close(&device), expected);
    CHECK_EQ(device.id == 0, !shut);
    *left = device;
}

static void matrix(unsigned flags)
{
    bool blocking = flags == 0;
    struct sluice_device kept;

    gpu_begin();
    gpu_use(0);
    struct sl_cu_stream *theirs = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    gpu_spin(theirs, 0);
    CU(StreamSynchronize, theirs);
    kept = gpu_open();
    for (int mode = CAPTURE_GLOBAL; mode <= CAPTURE_RELAXED; mode++) {
        struct capture_thread capturer;
        struct sluice_device left;
        capture_thread_begin(&capturer, mode, flags);
        live(theirs);
        use_default(blocking, &left);
        capture_thread_end(&capturer);
        capture_thread_check(&capturer, theirs);
        CHECK_OK(sluice_device_close(&left));
    }
    CU(StreamDestroy, theirs);
    CHECK_OK(sluice_device_close(&kept));
    gpu_end();
}

TEST(a_life_beside_captures_on_streams_that_do_not_block)
{
    matrix(SL_CU_STREAM_NON_BLOCKING);
}

TEST(a_life_beside_captures_on_blocking_streams)
{
    matrix(0);
}

/* The control: without its guards the library's calls do break captures. */
TEST(without_the_guards_such_calls_break_a_capture)
{
    struct capture_thread capturer;

    gpu_begin();
    gpu_use(0);
    struct sl_cu_stream *mine = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    capture_thread_begin(&capturer, CAPTURE_GLOBAL, SL_CU_STREAM_NON_BLOCKING);
    CHECK_NE(cu.StreamQuery(mine), 0);
    capture_thread_end(&capturer);
    CHECK_NE(capturer.code, 0);
    capture_thread_begin(&capturer, CAPTURE_RELAXED, 0);
    CHECK_EQ(cu.StreamQuery(NULL), SL_CU_CAPTURE_IMPLICIT);
    capture_thread_end(&capturer);
    CHECK_NE(capturer.code, 0);
    CU(StreamDestroy, mine);
    gpu_end();
}

/* ---- a stream of ours that captures ---- */

struct channel_fixture {
    struct sluice_device device;
    struct sluice_stream stream, other;
    struct sluice_event event;
    struct sl_cu_stream *native;
    uint64_t memory;
};

static struct channel_fixture capturing(void)
{
    struct channel_fixture fixture;

    gpu_begin();
    gpu_use(0);
    fixture.memory = gpu_memory(COUNT * 4);
    fixture.device = gpu_open();
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.stream));
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.other));
    CHECK_OK(sluice_event_create(fixture.device, 0, &fixture.event));
    fixture.native = gpu_native(fixture.stream);
    gpu_fill(fixture.native, fixture.memory, COUNT, 1);
    CU(StreamSynchronize, fixture.native);
    CU(StreamBeginCapture, fixture.native, CAPTURE_GLOBAL);
    return fixture;
}

/* Ends the capture, which must be whole; replays the graph `replays` times. */
static size_t ended(struct channel_fixture *fixture, int replays)
{
    struct sl_cu_graph *graph;
    struct sl_cu_exec *exec;
    size_t nodes;

    CU(StreamEndCapture, fixture->native, &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CU(GraphInstantiateWithFlags, &exec, graph, 0);
    for (int i = 0; i < replays; i++)
        CU(GraphLaunch, exec, fixture->native);
    CU(StreamSynchronize, fixture->native);
    CU(GraphExecDestroy, exec);
    CU(GraphDestroy, graph);
    return nodes;
}

TEST(a_stream_that_captures_refuses_what_would_break_it)
{
    struct channel_fixture fixture = capturing();
    struct sluice_stream_info info = { .size = sizeof info };
    struct sluice_stream copy = fixture.stream, wrapped;

    CHECK_OK(sluice_stream_info(fixture.stream, &info));
    CHECK_EQ(info.capturing, 1);
    CHECK_SAYS(sluice_stream_query(fixture.stream), SLUICE_E_CAPTURING, "capturing a graph");
    CHECK_RESULT(sluice_stream_synchronize(fixture.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_destroy(&copy), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_synchronize(fixture.device), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_reset(fixture.device), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_close(&fixture.device), SLUICE_E_CAPTURING);
    /* It can be wrapped, and the wrapper ended. */
    CHECK_OK(sluice_stream_wrap(fixture.device, (uintptr_t)fixture.native, NULL, NULL, &wrapped));
    CHECK_RESULT(sluice_stream_query(wrapped), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_stream_destroy(&wrapped));
    /* A graph cannot wait for work outside of it. */
    CHECK_OK(sluice_event_record(fixture.event, fixture.other));
    CHECK_SAYS(sluice_stream_wait_event(fixture.stream, fixture.event), SLUICE_E_CAPTURING, "outside of it");
    CHECK_RESULT(sluice_stream_wait_stream(fixture.stream, fixture.other), SLUICE_E_CAPTURING);

    gpu_fill(fixture.native, fixture.memory, COUNT, 3);
    CHECK_EQ(ended(&fixture, 100), 1);
    CHECK_EQ(gpu_differ(fixture.native, fixture.memory, COUNT, 3), 0);
    CHECK_OK(sluice_stream_query(fixture.stream));
    CHECK_OK(sluice_device_close(&fixture.device));
    gpu_end();
}

TEST(events_make_forks_and_joins_in_a_graph)
{
    struct channel_fixture fixture = capturing();
    struct sluice_stream standard;

    CHECK_OK(sluice_stream_default(fixture.device, &standard));
    CHECK_OK(sluice_event_record(fixture.event, fixture.stream));
    CHECK_SAYS(sluice_event_query(fixture.event), SLUICE_E_CAPTURING, "record it again");
    CHECK_RESULT(sluice_event_synchronize(fixture.event), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_wait_event(standard, fixture.event), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_stream_wait_event(fixture.other, fixture.event)); /* a fork */
    gpu_fill(gpu_native(fixture.other), fixture.memory, COUNT / 2, 4);
    gpu_fill(fixture.native, fixture.memory + COUNT * 2, COUNT / 2, 4);
    CHECK_RESULT(sluice_stream_query(fixture.other), SLUICE_E_CAPTURING); /* it takes part in the capture now */
    CHECK_OK(sluice_stream_wait_stream(fixture.stream, fixture.other));   /* and a join */
    CHECK_EQ(ended(&fixture, 3), 2);
    CHECK_EQ(gpu_differ(fixture.native, fixture.memory, COUNT, 4), 0);
    CHECK_OK(sluice_stream_query(fixture.other));

    /* An event that was recorded in a capture has no time until it is recorded again. */
    CHECK_RESULT(sluice_event_query(fixture.event), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_event_record(fixture.event, fixture.other));
    CHECK_OK(sluice_event_synchronize(fixture.event));
    CHECK_OK(sluice_device_close(&fixture.device));
    gpu_end();
}

TEST(two_captures_do_not_mix)
{
    struct channel_fixture fixture = capturing();
    struct sl_cu_stream *second = gpu_native(fixture.other);
    struct sl_cu_graph *graph;

    CU(StreamBeginCapture, second, CAPTURE_RELAXED);
    CHECK_OK(sluice_event_record(fixture.event, fixture.stream));
    CHECK_SAYS(sluice_stream_wait_event(fixture.other, fixture.event), SLUICE_E_CAPTURING, "two captures");
    CHECK_RESULT(sluice_stream_wait_stream(fixture.other, fixture.stream), SLUICE_E_CAPTURING);
    gpu_fill(fixture.native, fixture.memory, COUNT, 6);
    CU(StreamEndCapture, second, &graph);
    CU(GraphDestroy, graph);
    CHECK_EQ(ended(&fixture, 1), 1);
    CHECK_EQ(gpu_differ(fixture.native, fixture.memory, COUNT, 6), 0);
    CHECK_OK(sluice_device_close(&fixture.device));
    gpu_end();
}

/* A failed capture: E_CAPTURING until the program has ended it. */
TEST(a_broken_capture_is_left_to_its_owner)
{
    struct channel_fixture fixture = capturing();
    struct sl_cu_graph *graph;

    CHECK_NE(cu.StreamQuery(fixture.native), 0); /* breaks it */
    CHECK_RESULT(sluice_stream_query(fixture.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_event_record(fixture.event, fixture.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_wait_stream(fixture.stream, fixture.other), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_wait_stream(fixture.other, fixture.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_reset(fixture.device), SLUICE_E_CAPTURING);
    CHECK_NE(cu.StreamEndCapture(fixture.native, &graph), 0);
    CHECK_OK(sluice_stream_query(fixture.stream));
    CHECK_OK(sluice_device_close(&fixture.device));
    gpu_end();
}
