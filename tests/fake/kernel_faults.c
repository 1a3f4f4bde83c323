/* SPDX-License-Identifier: MIT
 *
 * Each driver call fails in turn while kernels live: loaded, launched on scratch memory, with host arrays, in a graph,
 * unloaded. It is reported, all works again, and nothing is left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "device/device.h"
#include "fake/fake.h"
#include "gpu/kit.h"

#define COUNT 1000

static const char source[] = "__global__ void twice(int *out, const int *in, int n)\n"
                             "{\n"
                             "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    if (i < n)\n"
                             "        out[i] = in[i] * 2;\n"
                             "}\n";

/* The first failure. */
struct outcome {
    int result;
    char sentence[1024];
};

struct life {
    struct outcome outcome;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_module module;
    struct sluice_kernel kernel;
    struct sluice_graph graph;
    int in[COUNT], out[COUNT];
    void *scratch, *pinned;
};

static bool good(struct life *life, int result)
{
    struct outcome *outcome = &life->outcome;

    if (result < 0 && outcome->result == 0) {
        outcome->result = result;
        snprintf(outcome->sentence, sizeof outcome->sentence, "%s", sluice_last_error());
    }
    return result >= 0;
}

static bool launch(struct life *life, struct sluice_argument out, struct sluice_argument in)
{
    struct sluice_launch shape = { .size = sizeof shape, .over = { COUNT } };
    struct sluice_argument arguments[] = { out, in, SLUICE_INTEGER(COUNT) };

    return good(life, sluice_launch(life->kernel, life->stream, &shape, arguments, 3));
}

static void check_numbers(const struct life *life, const int *found)
{
    for (int i = 0; i < COUNT && life->outcome.result == 0; i++)
        CHECK_EQ(found[i], 2 * i);
}

static void use_host_arrays(struct life *life)
{
    struct sluice_argument in = SLUICE_HOST(life->in, sizeof life->in);

    memset(life->out, 0, sizeof life->out);
    launch(life, SLUICE_HOST(life->out, sizeof life->out), in);
    check_numbers(life, life->out);
    if (!good(life, sluice_device_host_alloc(life->device, 2 * sizeof life->in, &life->pinned)))
        return;
    int *pinned = life->pinned;
    memcpy(pinned, life->in, sizeof life->in);
    launch(life, SLUICE_HOST(pinned + COUNT, sizeof life->in), SLUICE_HOST(pinned, sizeof life->in));
    good(life, sluice_stream_synchronize(life->stream));
    check_numbers(life, pinned + COUNT);
    good(life, sluice_device_host_free(&life->pinned));
}

static void use_scratch(struct life *life)
{
    struct sluice_argument in = SLUICE_HOST(life->in, sizeof life->in);
    struct sluice_argument out = SLUICE_HOST(life->out, sizeof life->out);

    if (!good(life, sluice_memory_alloc(life->device, life->stream, sizeof life->in, &life->scratch)))
        return;
    launch(life, SLUICE_MEMORY(life->scratch), in);
    for (int i = 0; i < 2; i++) { /* made, updated */
        if (!good(life, sluice_capture_begin(life->stream)))
            break;
        launch(life, SLUICE_MEMORY(life->scratch), SLUICE_MEMORY(life->scratch));
        if (good(life, sluice_capture_end(life->stream, &life->graph)))
            good(life, sluice_graph_launch(life->graph, life->stream));
    }
    launch(life, out, SLUICE_MEMORY(life->scratch));
    for (int i = 0; i < COUNT && life->outcome.result == 0; i++)
        CHECK_EQ(life->out[i], 16 * i); /* twice by the host array, the graph, again, and at last */
    good(life, sluice_memory_free(life->stream, &life->scratch));
}

static void use_all(struct life *life)
{
    struct sluice_module_params params = { .size = sizeof params, .name = "fx.cu" };
    struct sluice_kernel_info info = { .size = sizeof info };

    if (!good(life, sluice_stream_create(life->device, NULL, &life->stream)) ||
        !good(life, sluice_module_load(life->device, source, strlen(source), &params, &life->module)))
        return;
    if (good(life, sluice_kernel_get(life->module, "twice", &life->kernel)) &&
        good(life, sluice_kernel_info(life->kernel, &info))) {
        use_host_arrays(life);
        use_scratch(life);
    }
    good(life, sluice_graph_destroy(&life->graph));
    good(life, sluice_module_unload(&life->module));
}

/* After a failure all works again, on the same device. */
static struct outcome run(void)
{
    struct life *life = calloc(1, sizeof *life);
    struct outcome outcome;

    CHECK(life);
    for (int i = 0; i < COUNT; i++)
        life->in[i] = i;
    gpu_use(0);
    if (good(life, sluice_device_open(&life->device, "cuda:0"))) {
        use_all(life);
        outcome = life->outcome;
        if (outcome.result != 0 && fake_failed()) {
            life->outcome.result = 0;
            use_all(life);
            if (life->outcome.result)
                FAIL("after \"%s\": %s", outcome.sentence, life->outcome.sentence);
        }
        life->outcome = outcome;
        good(life, sluice_device_host_free(&life->pinned));
        good(life, sluice_device_close(&life->device));
        CHECK_EQ(life->device.id, 0);
    }
    outcome = life->outcome;
    CHECK_EQ(sl_device_counts().streams, 0);
    gpu_settle();
    gpu_end();
    free(life);
    return outcome;
}

static long left(void)
{
    struct fake_things t = fake_things();

    return t.streams + t.events + t.graphs + t.modules + t.pinned + t.allocations + t.registrations;
}

/* If one of these fails, a thing may be left, and nobody can be told; or it only asks. */
static bool passes(enum fake_function function)
{
    switch (function) {
    case FAKE_GetErrorName:
    case FAKE_StreamDestroy:
    case FAKE_EventDestroy:
    case FAKE_GraphDestroy:
    case FAKE_GraphExecDestroy:
    case FAKE_ModuleUnload:
    case FAKE_MemFree:
    case FAKE_MemFreeAsync:
    case FAKE_MemFreeHost:
    case FAKE_DevicePrimaryCtxRelease:
    case FAKE_CtxGetCurrent:
    case FAKE_CtxGetId:
    case FAKE_CtxPushCurrent:
    case FAKE_CtxPopCurrent:
    case FAKE_ThreadExchangeStreamCaptureMode:
    case FAKE_StreamIsCapturing:
    case FAKE_StreamEndCapture: /* it goes on: only the program can end it */
    case FAKE_StreamQuery: return true;
    default: return false;
    }
}

/* What the library does without: then the work is done in another way. */
static bool is_optional(enum fake_function function)
{
    switch (function) {
    case FAKE_DeviceGetAttribute:                /* as if the GPU could not do it */
    case FAKE_PointerGetAttributes: return true; /* as of memory that is not pinned */
    default: return false;
    }
}

static void fail_each_call(enum fake_function function, long calls)
{
    for (long nth = 1; nth <= calls; nth++) {
        long before = left();
        fake_fail(function, nth, SL_CU_UNKNOWN);
        struct outcome outcome = run();
        if (outcome.result == 0 && !is_optional(function))
            FAIL("%s failed in call %ld, and nobody said so", fake_name(function), nth);
        if (outcome.result != 0 && !strstr(outcome.sentence, fake_name(function)))
            FAIL("%s failed in call %ld; the sentence: %s", fake_name(function), nth, outcome.sentence);
        if (left() != before)
            FAIL("%s failed in call %ld: %ld things are left", fake_name(function), nth, left() - before);
        fake_end_contexts();
        if (fake_broken_rule())
            FAIL("%s failed in call %ld, and a rule was broken: %s", fake_name(function), nth, fake_broken_rule());
    }
}

static void fail_all(void)
{
    long calls[FAKE_FUNCTION_COUNT];

    TEST_KEEPS_FDS(); /* the fake driver keeps each image open */
    CHECK(setenv("SLUICE_NVRTC", FAKE_NVRTC, 1) == 0 && setenv("SLUICE_CACHE", test_dir(), 1) == 0);
    fake_use();
    CHECK(gpu_load());
    run(); /* loads the driver, and fills the cache */
    fake_forget();
    struct outcome outcome = run();
    if (outcome.result != 0)
        FAIL("without a failure: %s", outcome.sentence);
    CHECK_EQ(left(), 0);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        calls[f] = fake_calls((enum fake_function)f);
    CHECK_GE(calls[FAKE_LaunchKernel], 5);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        if (!passes((enum fake_function)f))
            fail_each_call((enum fake_function)f, calls[f]);
}

TEST_TIMEOUT(each_call_of_kernels_fails_in_turn, 120)
{
    fail_all();
}

/* Then memory is allocated and freed beside the streams. */
TEST_TIMEOUT(each_call_of_kernels_fails_in_turn_without_pools, 120)
{
    CHECK(setenv("SLUICE_FAKE_WITHOUT", "pools", 1) == 0);
    fail_all();
}
