/* SPDX-License-Identifier: MIT
 *
 * Each driver function fails in turn, in each of its calls. The library reports which and why, leaves nothing behind,
 * and keeps the thread's state.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/device.h"
#include "fake/fake.h"
#include "harness/test.h"
#include "mem/mem.h"
#include "os/os.h"
#include "sync/sync.h"

extern const struct sl_mem_ops sl_mem_cuda;
extern const struct sl_mem_ops sl_mem_cuda_ipc;
extern const struct sl_sync_ops sl_sync_cuda;

/* The result of a run: the first failure. */
struct outcome {
    int result;
    char sentence[1024];
    unsigned long long state; /* of the thread, which no call may change */
    void *page;
};

/* Records the first failure, and checks that the call kept the thread's state. */
static bool good(struct outcome *outcome, int result)
{
    if (fake_thread_state() != outcome->state)
        FAIL("a call left another context or mode: %s", sluice_last_error());
    if (result < 0 && outcome->result == 0) {
        outcome->result = result;
        snprintf(outcome->sentence, sizeof outcome->sentence, "%s", sluice_last_error());
    }
    return result >= 0;
}

static void use_streams(struct outcome *o, struct sluice_device device)
{
    struct sluice_stream stream, blocking, standard = { 0 }, wrapped;
    struct sluice_stream_params params = { .size = sizeof params, .blocking = 1 };
    struct sluice_stream_info info = { .size = sizeof info };
    struct sluice_device other = { 0 }; /* on which `native` has no handle yet */
    struct sluice_event start, stop;
    uintptr_t native = 0;
    double ms;

    if (!good(o, sluice_stream_create(device, NULL, &stream)) ||
        !good(o, sluice_stream_create(device, &params, &blocking)) ||
        !good(o, sluice_event_create(device, SLUICE_EVENT_TIMING, &start)) ||
        !good(o, sluice_event_create(device, SLUICE_EVENT_TIMING, &stop)))
        return;
    good(o, sluice_stream_native(stream, &native));
    if (!good(o, sluice_device_open(&other, "cuda:0")) ||
        !good(o, sluice_stream_wrap(other, native, NULL, NULL, &wrapped))) {
        good(o, sluice_device_close(&other));
        return;
    }
    good(o, sluice_stream_default(device, &standard));
    good(o, sluice_event_record(start, stream));
    good(o, sluice_stream_wait_event(blocking, start));
    good(o, sluice_stream_wait_stream(blocking, wrapped));
    good(o, sluice_event_record(stop, blocking));
    good(o, sluice_event_query(start));
    good(o, sluice_event_synchronize(stop));
    good(o, sluice_event_elapsed(start, stop, &ms));
    good(o, sluice_stream_query(standard));
    good(o, sluice_stream_synchronize(blocking));
    good(o, sluice_stream_info(wrapped, &info));
    good(o, sluice_event_destroy(&start));
    good(o, sluice_stream_destroy(&wrapped));
    good(o, sluice_device_close(&other));
    good(o, sluice_device_synchronize(device));
}

static void use_words(struct outcome *o, struct sluice_device device)
{
    struct sl_sync_pages *pages;
    struct sluice_stream stream, standard;
    sl_word *words = o->page;

    if (!good(o, sl_sync_cuda.attach("cuda:0", o->page, 4096, true, &pages)))
        return;
    struct sl_signal signals[] = { { words, 1 }, { words + 8, 2 } };
    if (good(o, sluice_stream_create(device, NULL, &stream))) {
        good(o, sl_sync_cuda.signal(pages, stream, signals, 1));
        good(o, sl_sync_cuda.signal(pages, stream, signals, 2));
        good(o, sluice_stream_synchronize(stream));
    }
    if (good(o, sluice_stream_default(device, &standard)))
        good(o, sl_sync_cuda.signal(pages, standard, signals, 2));
    sl_sync_cuda.detach(pages);
    good(o, 0);
}

static void use_memory(struct outcome *o, const struct sl_mem_ops *ops)
{
    struct sl_memory memory = { .ops = ops, .device = "cuda:0", .fd = -1 };
    struct sl_memory mapped = memory;

    if (!good(o, ops->create(&memory, "frames", 4096, false)))
        return;
    good(o, ops->import(&mapped, dup(memory.fd), memory.size, false));
    good(o, ops->map(&mapped, false));
    ops->destroy(&mapped);
    good(o, 0);
    ops->destroy(&memory);
    good(o, 0);
}

/* Another GPU's memory, mapped across and copied. */
static void use_peers(struct outcome *o)
{
    struct sl_memory memory = { .ops = &sl_mem_cuda, .device = "cuda:0", .fd = -1 };
    struct sl_memory copy = { .ops = &sl_mem_cuda, .device = "cuda:1", .fd = -1 };
    struct sl_memory mapped = { .ops = &sl_mem_cuda, .device = "cuda:1", .home = "cuda:0", .fd = -1 };
    int r;

    if (!good(o, sl_mem_cuda.reach("cuda:1", "cuda:0")) || !good(o, sl_mem_cuda.create(&memory, "frames", 4096, false)))
        return;
    good(o, sl_mem_cuda.import(&mapped, dup(memory.fd), memory.size, false));
    good(o, sl_mem_cuda.map(&mapped, false));
    if (good(o, sl_mem_cuda.create(&copy, "copies", 4096, false))) {
        for (int i = 0; i < 2; i++) {
            const struct sl_memory *from = i || !mapped.address ? &memory : &mapped;
            good(o, sl_mem_cuda.copy_begin(&copy, from, 0, 4096));
            while ((r = sl_mem_cuda.copy_look(&copy)) == SLUICE_NOT_READY)
                sl_os_sleep(SLUICE_MS);
            good(o, r);
        }
        sl_mem_cuda.destroy(&copy);
        good(o, 0);
    }
    sl_mem_cuda.destroy(&mapped);
    good(o, 0);
    sl_mem_cuda.destroy(&memory);
    good(o, 0);
}

/* What a run covers: all uses of a GPU; the fallbacks; or two GPUs. */
enum about { ALL, LACKING, TWO_GPUS };

static struct outcome run(enum about about)
{
    struct outcome outcome = { .state = fake_thread_state() };
    struct sluice_device device;

    outcome.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(outcome.page != MAP_FAILED);
    CHECK(setenv("SLUICE_WITHOUT", about == LACKING ? "memops" : "", 1) == 0);
    if (about == TWO_GPUS) {
        use_peers(&outcome);
    } else if (good(&outcome, sluice_device_open(&device, "cuda:0"))) {
        if (about == ALL)
            use_streams(&outcome, device);
        use_words(&outcome, device);
        use_memory(&outcome, about == LACKING ? &sl_mem_cuda_ipc : &sl_mem_cuda);
        good(&outcome, sluice_device_close(&device));
        CHECK_EQ(device.id, 0);
    }
    /* The page stays: where one could not be unregistered, no other may be placed later. */
    CHECK_EQ(sl_device_counts().devices, 0);
    CHECK_EQ(sl_device_counts().streams, 0);
    CHECK_EQ(sl_device_counts().events, 0);
    return outcome;
}

static long sum(struct fake_things things)
{
    return things.streams + things.events + things.handles + things.reservations + things.mappings +
           things.registrations + things.pinned + things.modules + things.graphs + things.allocations;
}

/* Functions that free something, or come before that: if one fails, one thing is left, and no more. */
static bool frees(enum fake_function function)
{
    switch (function) {
    case FAKE_StreamDestroy:
    case FAKE_EventDestroy:
    case FAKE_MemRelease:
    case FAKE_MemUnmap:
    case FAKE_MemAddressFree:
    case FAKE_MemHostUnregister:
    case FAKE_MemFree:
    case FAKE_DevicePrimaryCtxRelease:
    case FAKE_CtxGetCurrent:
    case FAKE_CtxGetId:
    case FAKE_CtxPushCurrent:
    case FAKE_ThreadExchangeStreamCaptureMode:
    case FAKE_StreamIsCapturing: return true;
    default: return false;
    }
}

/* Restoring a thread's state cannot be made to fail: then the state would differ. */
static bool puts_back(enum fake_function function, long nth)
{
    return function == FAKE_CtxPopCurrent || (function == FAKE_ThreadExchangeStreamCaptureMode && nth % 2 == 0);
}

static void fail_each_call(enum fake_function function, long calls, int code, enum about about)
{
    for (long nth = 1; nth <= calls; nth++) {
        if (puts_back(function, nth))
            continue;
        struct fake_things before = fake_things();
        fake_fail(function, nth, code);
        struct outcome outcome = run(about);
        if (!fake_failed())
            continue; /* fewer calls, as something else was not done */
        struct fake_things after = fake_things();
        long left = sum(after) - sum(before);
        if (left < 0 || left > (frees(function) ? 3 : 0) || after.contexts - before.contexts > frees(function))
            FAIL("%s failed in call %ld: left were %ld contexts, %ld streams, %ld events, %ld "
                 "handles, "
                 "%ld reservations, %ld mappings, %ld registrations, %ld allocations",
                 fake_name(function), nth, after.contexts - before.contexts, after.streams - before.streams,
                 after.events - before.events, after.handles - before.handles, after.reservations - before.reservations,
                 after.mappings - before.mappings, after.registrations - before.registrations,
                 after.allocations - before.allocations);
        if (outcome.result == 0 && !frees(function) && function != FAKE_StreamQuery) /* it queries memory again */
            FAIL("%s failed in call %ld, and nobody said so", fake_name(function), nth);
        if (outcome.result != 0 && !strstr(outcome.sentence, fake_name(function)) && function != FAKE_MemCreate &&
            function != FAKE_MemAlloc)
            FAIL("%s failed in call %ld; the sentence: %s", fake_name(function), nth, outcome.sentence);
        fake_end_contexts(); /* the next run must not find this one's failures */
        const char *rule = fake_broken_rule();
        if (rule)
            FAIL("%s failed in call %ld, and a rule was broken: %s", fake_name(function), nth, rule);
    }
}

static void fail_each(enum about about)
{
    long calls[FAKE_FUNCTION_COUNT];

    TEST_KEEPS_FDS(); /* of memory that could not be released */
    fake_use();
    run(about); /* the second run has no driver to load */
    fake_forget();
    struct outcome outcome = run(about);
    if (outcome.result != 0)
        FAIL("without a failure: %s", outcome.sentence);
    CHECK_EQ(sum(fake_things()), 0);
    CHECK_EQ(fake_things().contexts, 0);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        calls[f] = fake_calls((enum fake_function)f);
    static const int codes[] = { SL_CU_UNKNOWN, SL_CU_OUT_OF_MEMORY, SL_CU_INVALID_VALUE };
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        for (int c = 0; c < (test_slowness() > 1 || about == TWO_GPUS ? 1 : 3) && f != FAKE_GetErrorName; c++)
            fail_each_call((enum fake_function)f, calls[f], codes[c], about);
}

TEST_TIMEOUT(each_call_of_each_function_fails_in_turn, 240)
{
    fail_each(ALL);
}

TEST_TIMEOUT(each_call_of_the_fallbacks_fails_in_turn, 120)
{
    fail_each(LACKING);
}

TEST_TIMEOUT(each_call_fails_in_turn_between_two_gpus, 120)
{
    fail_each(TWO_GPUS);
    CHECK(fake_calls(FAKE_MemcpyPeerAsync) > 0 && fake_calls(FAKE_DeviceCanAccessPeer) > 0);
}

/* Every function is in use: the run above calls each but those for failures, up to the last one that a stream, an
 * event, signals and memory need. */
TEST(every_function_is_called)
{
    fake_use();
    run(ALL);
    for (int f = 0; f <= FAKE_MemHostGetDevicePointer; f++) {
        bool only_then = f == FAKE_GetErrorName || f == FAKE_MemGetInfo || f == FAKE_StreamGetCaptureInfo ||
                         f == FAKE_MemHostGetDevicePointer || f == FAKE_DriverGetVersion;
        if (!only_then && fake_calls((enum fake_function)f) == 0)
            FAIL("%s was never called", fake_name((enum fake_function)f));
    }
}

/* The context dies in each of its calls. */
TEST_TIMEOUT(a_context_lost_at_any_moment, 120)
{
    static const enum fake_function at[] = { FAKE_StreamCreateWithPriority,
                                             FAKE_EventRecord,
                                             FAKE_StreamSynchronize,
                                             FAKE_StreamQuery,
                                             FAKE_MemSetAccess,
                                             FAKE_StreamWriteValue64,
                                             FAKE_LaunchHostFunc,
                                             FAKE_MemAlloc,
                                             FAKE_MemHostRegister,
                                             FAKE_CtxGetId };

    fake_use();
    run(ALL);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        fake_fail(at[i], 1, SL_CU_ILLEGAL_ADDRESS);
        struct outcome outcome = run(at[i] == FAKE_LaunchHostFunc || at[i] == FAKE_MemAlloc ? LACKING : ALL);
        CHECK(fake_failed());
        CHECK_EQ(outcome.result, SLUICE_E_DRIVER);
        CHECK_HAS(outcome.sentence, "ILLEGAL_ADDRESS");
        CHECK_EQ(fake_things().contexts, 0);
    }
}

/* An error of a context may be about the context of a stream that the program passed. */
TEST(a_foreign_context_that_has_ended)
{
    static const int codes[] = { SL_CU_INVALID_CONTEXT, SL_CU_CONTEXT_IS_DESTROYED };
    struct sluice_device device, other;
    struct sluice_stream stream, wrapped;
    uintptr_t native;

    fake_use();
    CHECK_OK(sluice_device_open(&device, "cuda:0"));
    CHECK_OK(sluice_device_open(&other, "cuda:0")); /* on which `native` has no handle yet */
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_stream_native(stream, &native));
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        fake_fail(FAKE_StreamGetCtx, 1, codes[i]);
        CHECK_SAYS(sluice_stream_wrap(other, native, NULL, NULL, &wrapped), SLUICE_E_DRIVER,
                   "is of a context that has ended");
        CHECK(fake_failed());
        CHECK_OK(sluice_stream_synchronize(stream)); /* ours has not */
    }
    CHECK_OK(sluice_device_close(&other));
    CHECK_OK(sluice_device_close(&device));
}

/* After these errors, says NVIDIA's documentation, the process must be restarted. */
/* Another thread records an event again between the query whether it is reached and the one for its time. */
TEST(an_event_that_is_recorded_again_while_it_is_measured)
{
    struct sluice_device device;
    struct sluice_event event;
    struct sluice_stream stream;
    double ms = -7;

    fake_use();
    CHECK_OK(sluice_device_open(&device, "cuda:0"));
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_event_create(device, SLUICE_EVENT_TIMING, &event));
    CHECK_OK(sluice_event_record(event, stream));
    CHECK_OK(sluice_event_synchronize(event));
    fake_fail(FAKE_EventElapsedTime, 1, SL_CU_NOT_READY);
    CHECK_SAYS(sluice_event_elapsed(event, event, &ms), SLUICE_NOT_READY, "recorded again");
    CHECK(fake_failed());
    CHECK_NEAR(ms, -7, 0);
    CHECK_OK(sluice_event_elapsed(event, event, &ms));
    CHECK_OK(sluice_device_close(&device));
    CHECK(!fake_broken_rule());
}

TEST(failures_after_which_a_context_is_of_no_use)
{
    static const int codes[] = { SL_CU_CONTAINED,       SL_CU_LAUNCH_FAILED,         SL_CU_TENSOR_MEMORY_LEAK,
                                 SL_CU_EXTERNAL_DEVICE, SL_CU_MPS_CLIENT_TERMINATED, SL_CU_MISALIGNED_ADDRESS };
    struct sluice_device device;
    struct sluice_stream stream;

    TEST_KEEPS_FDS();
    fake_use();
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        CHECK_OK(sluice_device_open(&device, "cuda:0"));
        CHECK_OK(sluice_stream_create(device, NULL, &stream));
        fake_fail(FAKE_StreamQuery, 1, codes[i]);
        CHECK_SAYS(sluice_stream_query(stream), SLUICE_E_DRIVER, "start");
        CHECK(fake_failed());
        CHECK_SAYS(sluice_stream_query(stream), SLUICE_E_DRIVER, "is lost since");
        CHECK_RESULT(sluice_device_close(&device), SLUICE_E_DRIVER);
        fake_end_contexts(); /* else it is lost for the next one who opens it */
    }
}

/* Memory that cannot be shared is not created. */
TEST(memory_that_gpus_cannot_share)
{
    static const struct {
        const struct sl_mem_ops *ops;
        int attribute;
        const char *word;
    } cannot[] = {
        { &sl_mem_cuda, SL_CU_CAN_MAP_MEMORY, "cuMemMap" },
        { &sl_mem_cuda, SL_CU_CAN_EXPORT_FD, "descriptor" },
        { &sl_mem_cuda_ipc, SL_CU_CAN_SHARE_EVENTS, "cuIpcGetMemHandle" },
    };

    fake_use();
    for (size_t i = 0; i < sizeof cannot / sizeof *cannot; i++) {
        struct sl_memory memory = { .ops = cannot[i].ops, .device = "cuda:0", .fd = -1 };
        fake_machine.cannot[cannot[i].attribute] = 1;
        CHECK_SAYS(memory.ops->able("cuda:0"), SLUICE_E_UNSUPPORTED, cannot[i].word);
        CHECK_SAYS(memory.ops->create(&memory, "frames", 4096, false), SLUICE_E_UNSUPPORTED, cannot[i].word);
        CHECK_EQ(memory.fd, -1);
        fake_machine.cannot[cannot[i].attribute] = 0;
    }
    CHECK_EQ(sum(fake_things()), 0);
}

/* Words that streams cannot write are still signalled, but nothing waits for them. */
TEST(words_that_gpus_cannot_write)
{
    static const struct {
        int attribute;
        const char *word;
    } cannot[] = {
        { SL_CU_CAN_REGISTER_HOST, "cuMemHostRegister" },
        { SL_CU_CAN_REGISTER_READ_ONLY, "host memory" },
        { SL_CU_CAN_WRITE_64, "cuStreamWaitValue64" },
    };
    struct sl_sync_pages *pages;

    fake_use();
    void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < sizeof cannot / sizeof *cannot; i++) {
        fake_machine.cannot[cannot[i].attribute] = 1;
        CHECK_OK(sl_sync_cuda.attach("cuda:0", page, 4096, false, &pages));
        CHECK_EQ(fake_things().registrations, 0);
        CHECK_SAYS(sl_sync_cuda.can_wait(pages), SLUICE_E_UNSUPPORTED, cannot[i].word);
        sl_sync_cuda.detach(pages);
        fake_machine.cannot[cannot[i].attribute] = 0;
    }
    CHECK_OK(sl_sync_cuda.attach("cuda:0", page, 4096, false, &pages));
    CHECK_EQ(fake_things().registrations, 1);
    CHECK_OK(sl_sync_cuda.can_wait(pages));
    sl_sync_cuda.detach(pages);
    munmap(page, 4096);
    CHECK_EQ(sum(fake_things()), 0);
}

/* A GPU that sees host memory at other addresses than the CPU: each word's address is queried. */
TEST(other_addresses)
{
    fake_use();
    fake_machine.cannot[SL_CU_CAN_USE_HOST_POINTER] = 1;
    struct outcome outcome = run(ALL);
    CHECK_EQ(outcome.result, 0);
    CHECK_EQ(fake_calls(FAKE_MemHostGetDevicePointer), 5);
    CHECK(!fake_broken_rule());
}
