/* SPDX-License-Identifier: MIT
 *
 * What GPU tests share (see kit.h).
 */
#include "gpu/kit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/harness.h"
#include "os/os.h"

struct gpu_driver cu;
void (*gpu_warm_up)(void);

static void *library;
static int device_count;
static struct sl_cu_context *contexts[16];
static uint64_t memories[64];
static int memory_count;

/* The fake driver lets tests break the rules that it checks for the library. */
static void *find(const char *symbol)
{
    char name[80];

    snprintf(name, sizeof name, "test_%s", symbol);
    void *found = dlsym(library, name);
    return found ? found : dlsym(library, symbol);
}

bool gpu_load(void)
{
    static const struct {
        const char *symbol;
        size_t offset;
    } functions[] = {
#define FUNCTION(name, version, parameters, arguments) { "cu" #name #version, offsetof(struct gpu_driver, name) },
        SL_CUDA_FUNCTIONS(FUNCTION) EXTRA_FUNCTIONS(FUNCTION)
#undef FUNCTION
    };

    if (library)
        return true;
    library = dlopen(sl_cuda_library(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        *(void **)((char *)&cu + functions[i].offset) = find(functions[i].symbol);
    return true;
}

bool gpu_is_fake(void)
{
    return gpu_load() && dlsym(library, "fake_broken_rule");
}

/* After the test: did the library keep the fake driver's rules? */
static void look_for_broken_rules(void)
{
    const char *(*broken_rule)(void);

    *(void **)&broken_rule = dlsym(library, "fake_broken_rule");
    const char *rule = broken_rule();
    if (rule) {
        fprintf(stderr, "the library broke a rule: %s\n", rule);
        fflush(stderr);
        _exit(1);
    }
}

void gpu_begin(void)
{
    gpu_begin_with(1);
}

/* The runner of all tests knows how many GPUs there are, so a test need not start the driver to find too few. */
static void skip_without(int devices)
{
    const char *known = getenv("SLUICE_TEST_GPU");

    if (known && atoi(known) > 0 && atoi(known) < devices)
        SKIP("it takes %d GPUs, here is %d", devices, atoi(known));
}

void gpu_begin_with(int devices)
{
    skip_without(devices);
    if (sl_cuda_load() != 0) {
        if (getenv("SLUICE_CUDA_DRIVER") || getenv("SLUICE_TEST_GPU"))
            FAIL("there must be a driver: %s", sluice_last_error());
        SKIP("no GPU: %s", sluice_last_error());
    }
    CHECK(gpu_load());
    CU(DeviceGetCount, &device_count);
    if (device_count < devices)
        SKIP("it takes %d GPUs, here is %d", devices, device_count);
    if (gpu_is_fake()) {
        CHECK(atexit(look_for_broken_rules) == 0);
        return;
    }
    TEST_KEEPS_FDS(); /* the driver's own come and go; the fake one counts ours */
    if (gpu_warm_up && !contexts[0])
        gpu_warm_up();
}

void gpu_check(const char *file, int line, const char *function, int code)
{
    const char *name = "?";

    if (code == 0)
        return;
    cu.GetErrorName(code, &name);
    test_fail(file, line, "%s said %s (%d)", function, name, code);
}

struct sl_cu_context *gpu_use(int device)
{
    if (!contexts[device])
        CU(DevicePrimaryCtxRetain, &contexts[device], device);
    CU(CtxSetCurrent, contexts[device]);
    return contexts[device];
}

void gpu_end(void)
{
    while (memory_count > 0)
        CU(MemFree, memories[--memory_count]);
    cu.CtxSetCurrent(NULL);
    for (int i = 0; i < 16; i++) {
        if (contexts[i] && gpu_is_fake())
            cu.DevicePrimaryCtxRelease(i);
        if (gpu_is_fake())
            contexts[i] = NULL;
    }
}

struct sl_cu_stream *gpu_stream(unsigned flags)
{
    struct sl_cu_stream *stream;

    CU(StreamCreateWithPriority, &stream, flags, 0);
    return stream;
}

struct sl_cu_stream *gpu_begin_on_stream(int devices)
{
    gpu_begin_with(devices);
    gpu_use(0);
    struct sl_cu_stream *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    gpu_spin(stream, 0); /* the first launch takes longer */
    CU(StreamSynchronize, stream);
    return stream;
}

void gpu_end_on_stream(struct sl_cu_stream *stream)
{
    CU(StreamDestroy, stream);
    gpu_end();
}

struct sluice_device gpu_open(void)
{
    struct sluice_device device;

    CHECK_OK(sluice_device_open(&device, "cuda:0"));
    return device;
}

struct sl_cu_stream *gpu_native(struct sluice_stream stream)
{
    uintptr_t native;

    CHECK_OK(sluice_stream_native(stream, &native));
    return (struct sl_cu_stream *)native;
}

void gpu_settle(void)
{
    CHECK_SOON(sl_background_count() == 0, 20);
}

FILE *gpu_facts(void)
{
    const char *path = getenv("SLUICE_GPU_FACTS");
    FILE *file = fopen(path && *path ? path : "/dev/null", "ae");

    CHECK(file);
    return file;
}

/* ---- work ---- */

static struct sl_cu_function *kernel(const char *name)
{
    static struct {
        unsigned long long context;
        struct sl_cu_module *module;
    } loaded[8];
    struct sl_cu_function *function;
    unsigned long long id;
    struct sl_cu_context *now;
    int mode = CAPTURE_RELAXED, i = 0;

    CU(CtxGetCurrent, &now);
    CHECK(now);
    CU(CtxGetId, now, &id);
    while (loaded[i].context && loaded[i].context != id)
        i++;
    CU(ThreadExchangeStreamCaptureMode, &mode); /* whoever else captures meanwhile */
    if (!loaded[i].context) {
        CU(ModuleLoadData, &loaded[i].module, gpu_kernels);
        loaded[i].context = id;
    }
    CU(ModuleGetFunction, &function, loaded[i].module, name);
    CU(ThreadExchangeStreamCaptureMode, &mode);
    return function;
}

static void launch(const char *name, struct sl_cu_stream *stream, uint64_t threads, void **arguments)
{
    unsigned block = threads == 1 ? 1 : 256;
    unsigned grid = (unsigned)((threads + block - 1) / block);

    CU(LaunchKernel, kernel(name), grid, 1, 1, block, 1, 1, 0, stream, arguments, NULL);
}

void gpu_spin(struct sl_cu_stream *stream, int64_t ns)
{
    uint64_t time = (uint64_t)ns;

    launch("spin", stream, 1, (void *[]){ &time });
}

void gpu_fill(struct sl_cu_stream *stream, uint64_t words, uint64_t count, uint32_t value)
{
    launch("fill", stream, count, (void *[]){ &words, &count, &value });
}

void gpu_store(struct sl_cu_stream *stream, uint64_t word, uint64_t value)
{
    launch("store", stream, 1, (void *[]){ &word, &value });
}

uint64_t gpu_memory(size_t bytes)
{
    uint64_t address;

    CHECK(memory_count < 64);
    CU(MemAlloc, &address, bytes);
    memories[memory_count++] = address;
    return address;
}

void gpu_compare(struct sl_cu_stream *stream, uint64_t words, uint64_t count, uint32_t value, uint64_t bad)
{
    launch("check", stream, count, (void *[]){ &words, &count, &value, &bad });
}

uint64_t gpu_differ(struct sl_cu_stream *stream, uint64_t words, uint64_t count, uint32_t value)
{
    uint32_t found = 77;
    uint64_t bad;

    CU(MemAlloc, &bad, 4);
    CU(MemsetD8Async, bad, 0, 4, stream);
    gpu_compare(stream, words, count, value, bad);
    CU(MemcpyDtoHAsync, &found, bad, 4, stream);
    CU(StreamSynchronize, stream);
    CU(MemFree, bad);
    return found;
}

/* ---- gates ---- */

#define MOMENT (20 * SLUICE_MS)

struct gpu_gate gpu_gate_new(void)
{
    struct gpu_gate gate = { .turn = 0 };
    void *word;

    CU(MemHostAlloc, &word, 8, SL_CU_HOST_PORTABLE | SL_CU_HOST_DEVICEMAP);
    gate.word = word;
    atomic_store(gate.word, 0);
    return gate;
}

/* Where streams have no memory operations. */
static void stand(void *shared)
{
    const struct gpu_gate *gate = shared;

    while (!gate->open)
        test_nap(SLUICE_MS / 10);
}

void gpu_gate_close(struct gpu_gate *gate, struct sl_cu_stream *stream)
{
    uint64_t word;

    gate->open = false;
    CU(MemHostGetDevicePointer, &word, (void *)gate->word, 0);
    int code = cu.StreamWaitValue64(stream, word, ++gate->turn, SL_CU_WAIT_GEQ);
    gate->words = code != SL_CU_NOT_SUPPORTED;
    if (gate->words)
        gpu_check(__FILE__, __LINE__, "cuStreamWaitValue64", code);
    else
        CU(LaunchHostFunc, stream, stand, gate);
}

void gpu_gate_open(struct gpu_gate *gate)
{
    gate->open = true; /* first, so that whoever passes the gate sees it */
    atomic_store(gate->word, gate->turn);
}

static void *open_in_a_moment(void *shared)
{
    test_nap(MOMENT);
    gpu_gate_open(shared);
    return NULL;
}

void gpu_gate_open_later(struct gpu_gate *gate)
{
    CHECK(pthread_create(&gate->thread, NULL, open_in_a_moment, gate) == 0);
}

void gpu_gate_join(struct gpu_gate *gate)
{
    CHECK(gate->open);
    CHECK(pthread_join(gate->thread, NULL) == 0);
}

void gpu_gate_end(struct gpu_gate *gate)
{
    CU(MemFreeHost, (void *)gate->word);
}
