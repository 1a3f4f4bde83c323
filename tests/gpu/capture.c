/* SPDX-License-Identifier: MIT
 *
 * Captures of graphs: nobody's is broken by us, and nothing of ours gets into one unasked.
 */
#include "gpu/capture_thread.h"

#define COUNT 4096

/* A device's life, from open to close, with streams of ours and of others. */
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

/* Every use of the default stream, which is open or `shut`. In the end the device is closed, unless
 * that had to be refused: then it is `left`. */
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
        CHECK_OK(sluice_stream_synchronize(stream)); /* nothing was done */
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
        struct capturer capturer;
        struct sluice_device left;
        capturer_begin(&capturer, mode, flags);
        live(theirs);
        use_default(blocking, &left);
        capturer_end(&capturer);
        capturer_check(&capturer, theirs);
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

/* The control: what the library does is not harmless by itself. */
TEST(without_care_such_calls_break_a_capture)
{
    struct capturer capturer;

    gpu_begin();
    gpu_use(0);
    struct sl_cu_stream *mine = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    capturer_begin(&capturer, CAPTURE_GLOBAL, SL_CU_STREAM_NON_BLOCKING);
    CHECK_NE(cu.StreamQuery(mine), 0);
    capturer_end(&capturer);
    CHECK_NE(capturer.code, 0);
    capturer_begin(&capturer, CAPTURE_RELAXED, 0);
    CHECK_EQ(cu.StreamQuery(NULL), SL_CU_CAPTURE_IMPLICIT);
    capturer_end(&capturer);
    CHECK_NE(capturer.code, 0);
    CU(StreamDestroy, mine);
    gpu_end();
}

/* ---- a stream of ours that captures ---- */

struct scene {
    struct sluice_device device;
    struct sluice_stream stream, other;
    struct sluice_event event;
    struct sl_cu_stream *native;
    uint64_t memory;
};

static struct scene capturing(void)
{
    struct scene scene;

    gpu_begin();
    gpu_use(0);
    scene.memory = gpu_memory(COUNT * 4);
    scene.device = gpu_open();
    CHECK_OK(sluice_stream_create(scene.device, NULL, &scene.stream));
    CHECK_OK(sluice_stream_create(scene.device, NULL, &scene.other));
    CHECK_OK(sluice_event_create(scene.device, 0, &scene.event));
    scene.native = gpu_native(scene.stream);
    gpu_fill(scene.native, scene.memory, COUNT, 1);
    CU(StreamSynchronize, scene.native);
    CU(StreamBeginCapture, scene.native, CAPTURE_GLOBAL);
    return scene;
}

/* Ends the capture, which must be whole; replays it so often. */
static size_t ended(struct scene *scene, int replays)
{
    struct sl_cu_graph *graph;
    struct sl_cu_exec *exec;
    size_t nodes;

    CU(StreamEndCapture, scene->native, &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CU(GraphInstantiateWithFlags, &exec, graph, 0);
    for (int i = 0; i < replays; i++)
        CU(GraphLaunch, exec, scene->native);
    CU(StreamSynchronize, scene->native);
    CU(GraphExecDestroy, exec);
    CU(GraphDestroy, graph);
    return nodes;
}

TEST(a_stream_that_captures_refuses_what_would_break_it)
{
    struct scene scene = capturing();
    struct sluice_stream_info info = { .size = sizeof info };
    struct sluice_stream copy = scene.stream, wrapped;

    CHECK_OK(sluice_stream_info(scene.stream, &info));
    CHECK_EQ(info.capturing, 1);
    CHECK_SAYS(sluice_stream_query(scene.stream), SLUICE_E_CAPTURING, "capturing a graph");
    CHECK_RESULT(sluice_stream_synchronize(scene.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_destroy(&copy), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_synchronize(scene.device), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_reset(scene.device), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_close(&scene.device), SLUICE_E_CAPTURING);
    /* It can be wrapped, and the wrapping ended. */
    CHECK_OK(sluice_stream_wrap(scene.device, (uintptr_t)scene.native, NULL, NULL, &wrapped));
    CHECK_RESULT(sluice_stream_query(wrapped), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_stream_destroy(&wrapped));
    /* A graph cannot wait for work outside of it. */
    CHECK_OK(sluice_event_record(scene.event, scene.other));
    CHECK_SAYS(sluice_stream_wait_event(scene.stream, scene.event), SLUICE_E_CAPTURING,
               "outside of it");
    CHECK_RESULT(sluice_stream_wait_stream(scene.stream, scene.other), SLUICE_E_CAPTURING);

    gpu_fill(scene.native, scene.memory, COUNT, 3);
    CHECK_EQ(ended(&scene, 100), 1);
    CHECK_EQ(gpu_differ(scene.native, scene.memory, COUNT, 3), 0);
    CHECK_OK(sluice_stream_query(scene.stream));
    CHECK_OK(sluice_device_close(&scene.device));
    gpu_end();
}

TEST(events_make_forks_and_joins_in_a_graph)
{
    struct scene scene = capturing();
    struct sluice_stream standard;

    CHECK_OK(sluice_stream_default(scene.device, &standard));
    CHECK_OK(sluice_event_record(scene.event, scene.stream));
    CHECK_SAYS(sluice_event_query(scene.event), SLUICE_E_CAPTURING, "record it again");
    CHECK_RESULT(sluice_event_synchronize(scene.event), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_wait_event(standard, scene.event), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_stream_wait_event(scene.other, scene.event)); /* a fork */
    gpu_fill(gpu_native(scene.other), scene.memory, COUNT / 2, 4);
    gpu_fill(scene.native, scene.memory + COUNT * 2, COUNT / 2, 4);
    CHECK_RESULT(sluice_stream_query(scene.other), SLUICE_E_CAPTURING); /* it takes part now */
    CHECK_OK(sluice_stream_wait_stream(scene.stream, scene.other));     /* and a join */
    CHECK_EQ(ended(&scene, 3), 2);
    CHECK_EQ(gpu_differ(scene.native, scene.memory, COUNT, 4), 0);
    CHECK_OK(sluice_stream_query(scene.other));

    /* No moment belongs to what was recorded in it, until it is recorded again. */
    CHECK_RESULT(sluice_event_query(scene.event), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_event_record(scene.event, scene.other));
    CHECK_OK(sluice_event_synchronize(scene.event));
    CHECK_OK(sluice_device_close(&scene.device));
    gpu_end();
}

TEST(two_captures_do_not_mix)
{
    struct scene scene = capturing();
    struct sl_cu_stream *second = gpu_native(scene.other);
    struct sl_cu_graph *graph;

    CU(StreamBeginCapture, second, CAPTURE_RELAXED);
    CHECK_OK(sluice_event_record(scene.event, scene.stream));
    CHECK_SAYS(sluice_stream_wait_event(scene.other, scene.event), SLUICE_E_CAPTURING,
               "two captures");
    CHECK_RESULT(sluice_stream_wait_stream(scene.other, scene.stream), SLUICE_E_CAPTURING);
    gpu_fill(scene.native, scene.memory, COUNT, 6);
    CU(StreamEndCapture, second, &graph);
    CU(GraphDestroy, graph);
    CHECK_EQ(ended(&scene, 1), 1);
    CHECK_EQ(gpu_differ(scene.native, scene.memory, COUNT, 6), 0);
    CHECK_OK(sluice_device_close(&scene.device));
    gpu_end();
}

/* A capture that failed: still nothing but E_CAPTURING until the program has ended it. */
TEST(a_broken_capture_is_left_to_its_owner)
{
    struct scene scene = capturing();
    struct sl_cu_graph *graph;

    CHECK_NE(cu.StreamQuery(scene.native), 0); /* breaks it */
    CHECK_RESULT(sluice_stream_query(scene.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_event_record(scene.event, scene.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_wait_stream(scene.stream, scene.other), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_wait_stream(scene.other, scene.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_reset(scene.device), SLUICE_E_CAPTURING);
    CHECK_NE(cu.StreamEndCapture(scene.native, &graph), 0);
    CHECK_OK(sluice_stream_query(scene.stream));
    CHECK_OK(sluice_device_close(&scene.device));
    gpu_end();
}
