/* SPDX-License-Identifier: MIT
 *
 * Channels of cuda-link's protocol: each driver call fails in turn, on the writer's side and on the side of a reader in
 * another process.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "fake/cipd_kit.h"
#include "fake/fake.h"
#include "harness/resources.h"
#include "harness/test.h"

struct outcome {
    int result;
    char sentence[1024];
    unsigned long long state;
};

static bool good(struct outcome *outcome, int result)
{
    if (fake_thread_state() != outcome->state)
        FAIL("a call left another context or mode: %s", sluice_last_error());
    if (result != 0 && outcome->result == 0) {
        outcome->result = result;
        snprintf(outcome->sentence, sizeof outcome->sentence, "%s", sluice_last_error());
    }
    return result == 0;
}

/* All calls of a writer. */
static struct outcome write_all(bool block)
{
    struct outcome outcome = { .state = fake_thread_state() }, *o = &outcome;
    struct sluice_format format = cipd_format();
    unsigned char bytes[512] = { 1 };
    struct sluice_array array;
    struct sluice_frame frame;
    struct sluice_ticket ticket;
    sluice_writer *writer;

    CHECK_OK(sluice_array_wrap(&array, NULL, bytes, format.arrays[0].dtype, 3, format.arrays[0].shape, NULL));
    if (!good(o, cipd_open_writer(&writer, &format, block)))
        return outcome;
    for (int i = 0; i < 3; i++) {
        if (good(o, sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, &ticket)))
            good(o, sluice_ticket_wait(ticket, 20 * SLUICE_S));
        if (good(o, sluice_writer_begin(writer, SLUICE_DEFAULT, &frame)) &&
            !good(o, sluice_writer_commit(writer, &frame, SLUICE_ON_CPU)))
            (void)sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU);
    }
    good(o, sluice_writer_reformat(writer, &format));
    good(o, sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
    good(o, sluice_writer_close(&writer));
    return outcome;
}

/* All calls of a reader, with a writer in another process. */
static struct outcome read_all(bool copy)
{
    struct outcome outcome = { .state = fake_thread_state() }, *o = &outcome;
    struct sluice_format format = cipd_format();
    unsigned char bytes[512];
    struct sluice_array array;
    struct sluice_frame frame;
    sluice_reader *reader;

    CHECK_OK(sluice_array_wrap(&array, NULL, bytes, format.arrays[0].dtype, 3, format.arrays[0].shape, NULL));
    if (!good(o, cipd_open_reader(&reader, copy, 0)))
        return outcome;
    if (good(o, sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame))) {
        good(o, sluice_reader_fetch(reader, &frame, &array, 1, SLUICE_ON_CPU, NULL));
        good(o, sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    good(o, sluice_reader_close(&reader));
    return outcome;
}

/* The next frame is chosen in a time slice, as if one had been overtaken. */
static void want_timeslice(sluice_reader *handle)
{
    struct sluice_reader *reader;

    CHECK_OK(sl_reader_hold(handle, &reader));
    sl_cipd_reader_of(reader)->timeslice.left = 1;
    sl_object_drop(&reader->object);
}

/* Copies of frames that keep arriving. */
static struct outcome read_in_timeslices(bool in_timeslices)
{
    struct outcome outcome = { .state = fake_thread_state() }, *o = &outcome;
    struct sluice_frame frame;
    sluice_reader *reader;

    if (!good(o, cipd_open_reader(&reader, true, 0)))
        return outcome;
    for (int i = 0; i < 3; i++) {
        if (!good(o, sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame)))
            continue;
        good(o, sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        if (in_timeslices)
            want_timeslice(reader);
    }
    good(o, sluice_reader_close(&reader));
    return outcome;
}

/* A writer in another process. */
static sluice_writer *open_there(int argc, char **argv)
{
    struct sluice_format format = cipd_format();
    sluice_writer *writer;

    CHECK_EQ(argc, 2);
    cipd_set_name(argv[1]);
    fake_use();
    CHECK_OK(cipd_open_writer(&writer, &format, false));
    return writer;
}

static void publish(sluice_writer *writer)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
}

/* A writer that publishes, without hurry, until its stdin ends. */
ROLE(cipd_fake_camera)
{
    struct pollfd input = { .fd = 0, .events = POLLIN };
    sluice_writer *writer = open_there(argc, argv);

    role_say("open");
    while (poll(&input, 1, 2) == 0)
        publish(writer);
    CHECK_OK(sluice_writer_close(&writer));
    fake_end_contexts();
    return 0;
}

/* A writer that has published, and stays. */
ROLE(cipd_fake_writer)
{
    sluice_writer *writer = open_there(argc, argv);

    publish(writer);
    role_say("open");
    (void)role_line();
    CHECK_OK(sluice_writer_close(&writer));
    fake_end_contexts();
    return 0;
}

static long sum(struct fake_things things)
{
    return things.streams + things.events + things.mappings + things.registrations + things.pinned + things.graphs +
           things.allocations;
}

/* If these fail, what they should free is left; and what is queried before each call may keep a whole pool. */
static bool may_leave(enum fake_function function)
{
    switch (function) {
    case FAKE_StreamDestroy:
    case FAKE_EventDestroy:
    case FAKE_EventQuery:
    case FAKE_MemHostUnregister:
    case FAKE_MemFree:
    case FAKE_MemFreeHost:
    case FAKE_IpcCloseMemHandle:
    case FAKE_DevicePrimaryCtxRelease:
    case FAKE_CtxGetCurrent:
    case FAKE_CtxGetId:
    case FAKE_CtxPushCurrent:
    case FAKE_ThreadExchangeStreamCaptureMode:
    case FAKE_StreamIsCapturing: return true;
    default: return false;
    }
}

/* Then there is another way, or the peer is trusted, and no error is needed. */
static bool has_another_way(enum fake_function function)
{
    return function == FAKE_StreamWriteValue64 || function == FAKE_IpcOpenMemHandle ||
           function == FAKE_IpcOpenEventHandle || function == FAKE_PointerGetAttribute ||
           function == FAKE_StreamQuery /* queried again */ || strncmp(fake_name(function), "cuGraph", 7) == 0;
}

static void fail_call(enum fake_function function, long nth, int code, struct outcome (*run)(bool), bool way)
{
    struct fake_things before = fake_things();
    int threads = resources_now().threads + 1; /* the GPU's */

    fake_fail(function, nth, code);
    struct outcome outcome = run(way);

    if (!fake_failed())
        return;
    long left, most = may_leave(function) ? 6 : 0;
    int64_t began = test_now();
    while (((left = sum(fake_things()) - sum(before)) > most || resources_now().threads > threads) &&
           test_now() - began < 20 * SLUICE_S)
        test_nap(SLUICE_MS); /* memory is freed on a thread of its own, for which close waits a limited time */
    if (left < 0 || left > most)
        FAIL("%s failed in call %ld: %ld things are left", fake_name(function), nth, left);
    if (outcome.result == 0 && !may_leave(function) && !has_another_way(function))
        FAIL("%s failed in call %ld, and nobody said so", fake_name(function), nth);
    fake_end_contexts();
    const char *rule = fake_broken_rule();
    if (rule)
        FAIL("%s failed in call %ld, and a rule was broken: %s", fake_name(function), nth, rule);
}

static void fail_each(struct outcome (*run)(bool), bool way)
{
    long calls[FAKE_FUNCTION_COUNT];

    run(way);
    fake_forget();
    struct outcome outcome = run(way);
    if (outcome.result != 0)
        FAIL("without a failure: %s", outcome.sentence);
    CHECK_EQ(sum(fake_things()), 0);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        calls[f] = fake_calls((enum fake_function)f);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++) {
        enum fake_function function = (enum fake_function)f;
        long most = function == FAKE_EventQuery && calls[f] > 16 ? 16 : calls[f]; /* called again and again */
        for (long nth = 1; nth <= most && function != FAKE_GetErrorName; nth += 1 + nth / 8) {
            /* Some of these calls restore a thread's state; which ones cannot be identified by a number where several
             * threads make them. */
            if (function != FAKE_CtxPopCurrent && function != FAKE_ThreadExchangeStreamCaptureMode)
                fail_call(function, nth, SL_CU_UNKNOWN, run, way);
        }
    }
}

TEST_TIMEOUT(cipd_each_call_of_a_writer_fails_in_turn, 300)
{
    TEST_KEEPS_FDS();
    fake_use();
    fail_each(write_all, false);
    fail_each(write_all, true);
}

TEST_TIMEOUT(cipd_each_call_of_a_reader_fails_in_turn, 300)
{
    TEST_KEEPS_FDS();
    fake_use();
    struct child child = role_start("cipd_fake_writer", cipd_channel(), NULL);
    child_expect(&child, "open", 20);
    fail_each(read_all, false);
    fail_each(read_all, true);
    role_stop(&child);
}

TEST_TIMEOUT(cipd_each_call_of_a_timeslice_fails_in_turn, 300)
{
    TEST_KEEPS_FDS();
    fake_use();
    struct child child = role_start("cipd_fake_camera", cipd_channel(), NULL);
    child_expect(&child, "open", 20);
    fail_each(read_in_timeslices, true);
    role_stop(&child);
}
