/* SPDX-License-Identifier: MIT
 *
 * Each driver call of a capture, a graph and a parallel section fails in turn: it is reported, the next capture works,
 * and nothing is left. And how many calls a parallel section makes.
 */
#include <stdio.h>
#include <string.h>

#include <sluice/graph.h>

#include "device/device.h"
#include "fake/fake.h"
#include "gpu/kit.h"

/* The result of a run: the first failure. */
struct outcome {
    int result;
    char sentence[1024];
};

static bool good(struct outcome *outcome, int result)
{
    if (result < 0 && outcome->result == 0) {
        outcome->result = result;
        snprintf(outcome->sentence, sizeof outcome->sentence, "%s", sluice_last_error());
    }
    return result >= 0;
}

static void nothing(void *data)
{
    (void)data;
}

/* As the rest of the program does. */
static void work(struct sluice_stream stream)
{
    CU(LaunchHostFunc, gpu_native(stream), nothing, NULL);
}

/* Forks, joins and launches; the number of branches is the graph's structure. */
static void capture(struct outcome *o, struct sluice_stream stream, struct sluice_graph *graph, uint32_t branches)
{
    struct sluice_stream streams[4];

    if (!good(o, sluice_capture_begin(stream)))
        return;
    work(stream);
    if (good(o, sluice_fork(stream, branches, streams))) {
        for (uint32_t i = 0; i < branches; i++)
            work(streams[i]);
        good(o, sluice_join(stream, branches, streams));
    }
    if (good(o, sluice_capture_end(stream, graph)))
        good(o, sluice_graph_launch(*graph, stream));
}

static struct outcome run(void)
{
    struct outcome outcome = { .result = 0 };
    struct sluice_graph graph = { 0 }, last = { 0 };
    struct sluice_stream stream, streams[2];
    struct sluice_device device;

    gpu_use(0);
    if (!good(&outcome, sluice_device_open(&device, "cuda:0"))) {
        gpu_end();
        return outcome;
    }
    if (good(&outcome, sluice_stream_create(device, NULL, &stream))) {
        for (uint32_t i = 0; i < 4; i++)
            capture(&outcome, stream, &graph, 1 + i / 2); /* made, updated, rebuilt, updated */
        if (good(&outcome, sluice_fork(stream, 2, streams)))
            good(&outcome, sluice_join(stream, 2, streams));
        if (outcome.result != 0 && fake_failed()) { /* all works again */
            struct outcome again = { .result = 0 };
            capture(&again, stream, &last, 4);
            if (again.result)
                FAIL("after \"%s\": %s", outcome.sentence, again.sentence);
        }
    }
    good(&outcome, sluice_graph_destroy(&graph));
    good(&outcome, sluice_device_close(&device));
    CHECK_EQ(device.id, 0);
    CHECK_EQ(sl_device_counts().streams, 0);
    gpu_end();
    return outcome;
}

static long left(void)
{
    struct fake_things things = fake_things();

    return things.streams + things.events + things.graphs;
}

/* If one of these fails, a thing may be left, and nobody can be told. */
static bool frees(enum fake_function function)
{
    switch (function) {
    case FAKE_StreamDestroy:
    case FAKE_EventDestroy:
    case FAKE_GraphDestroy:
    case FAKE_GraphExecDestroy:
    case FAKE_DevicePrimaryCtxRelease:
    case FAKE_CtxGetCurrent:
    case FAKE_CtxGetId:
    case FAKE_CtxPushCurrent:
    case FAKE_CtxPopCurrent:
    case FAKE_ThreadExchangeStreamCaptureMode:
    case FAKE_StreamIsCapturing:
    case FAKE_StreamQuery: return true;
    default: return false;
    }
}

static void fail_each_call(enum fake_function function, long calls)
{
    for (long nth = 1; nth <= calls; nth++) {
        long before = left();
        bool failed;
        fake_fail(function, nth, SL_CU_UNKNOWN);
        struct outcome outcome = run();
        failed = outcome.result != 0;
        if (!failed)
            FAIL("%s failed in call %ld, and nobody said so", fake_name(function), nth);
        if (!strstr(outcome.sentence, fake_name(function)))
            FAIL("%s failed in call %ld; the sentence: %s", fake_name(function), nth, outcome.sentence);
        if (left() != before)
            FAIL("%s failed in call %ld: %ld things are left", fake_name(function), nth, left() - before);
        fake_end_contexts();
        if (fake_broken_rule())
            FAIL("%s failed in call %ld, and a rule was broken: %s", fake_name(function), nth, fake_broken_rule());
    }
}

TEST_TIMEOUT(each_call_fails_in_turn, 120)
{
    long calls[FAKE_FUNCTION_COUNT];

    TEST_KEEPS_FDS();
    fake_use();
    CHECK(gpu_load());
    run(); /* the second run has no driver to load */
    fake_forget();
    struct outcome outcome = run();
    if (outcome.result != 0)
        FAIL("without a failure: %s", outcome.sentence);
    CHECK_EQ(left(), 0);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        calls[f] = fake_calls((enum fake_function)f);
    CHECK(calls[FAKE_GraphExecUpdate] == 3 && calls[FAKE_GraphInstantiateWithFlags] == 2 &&
          calls[FAKE_GraphGetEdges] == 2);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        /* After a failure to end a capture it goes on: only the program can end it. */
        if (f != FAKE_GetErrorName && f != FAKE_StreamEndCapture && !frees((enum fake_function)f))
            fail_each_call((enum fake_function)f, calls[f]);
}

TEST(the_calls_of_a_fork_and_a_join)
{
    struct sluice_stream stream, streams[4];
    struct sluice_device device;
    long calls = 0;

    fake_use();
    CHECK(gpu_load());
    gpu_use(0);
    CHECK_OK(sluice_device_open(&device, "cuda:0"));
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    for (int i = 0; i < 2; i++) { /* the first time it makes streams and events */
        CHECK_OK(sluice_device_synchronize(device));
        fake_forget();
        CHECK_OK(sluice_fork(stream, 4, streams));
        CHECK_OK(sluice_join(stream, 4, streams));
    }
    CHECK_EQ(fake_calls(FAKE_EventRecord), 5);
    CHECK_EQ(fake_calls(FAKE_StreamWaitEvent), 8);
    CHECK_EQ(fake_calls(FAKE_StreamQuery), 4);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        calls += fake_calls((enum fake_function)f);
    CHECK_EQ(calls, 38);
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}
