/* SPDX-License-Identifier: MIT
 *
 * What the driver at hand does and costs, for whoever builds on it: which calls break another
 * thread's capture, and how long the calls of a frame's path take. Written as JSON lines into the
 * file that SLUICE_GPU_FACTS names, if any (tools/gpu-check reads it).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "gpu/kit.h"
#include "sync/sync.h"

extern const struct sl_sync_ops sl_sync_cuda;

static FILE *open_facts(void)
{
    const char *path = getenv("SLUICE_GPU_FACTS");
    FILE *file = fopen(path && *path ? path : "/dev/null", "ae");

    CHECK(file);
    return file;
}

/* ---- captures ---- */

/* What the calls work on: a stream of the test's own, and the one that another thread captures on.
 */
struct bench {
    struct sl_cu_context *context;
    struct sl_cu_stream *mine, *theirs;
    struct sl_cu_event *start, *stop;
    uint64_t memory;
    void *page;
};

static int is_capturing(struct bench *b)
{
    int status;
    return cu.StreamIsCapturing(b->theirs, &status);
}

static int capture_info(struct bench *b)
{
    int status;
    uint64_t id;
    return cu.StreamGetCaptureInfo(b->theirs, &status, &id, NULL, NULL, NULL);
}

static int its_context(struct bench *b)
{
    struct sl_cu_context *context;
    return cu.StreamGetCtx(b->theirs, &context);
}

static int its_flags(struct bench *b)
{
    unsigned flags;
    return cu.StreamGetFlags(b->theirs, &flags);
}

static int its_priority(struct bench *b)
{
    int priority;
    return cu.StreamGetPriority(b->theirs, &priority);
}

static int context_id(struct bench *b)
{
    unsigned long long id;
    return cu.CtxGetId(b->context, &id);
}

static int context_synchronize(struct bench *b)
{
    (void)b;
    return cu.CtxSynchronize();
}

static int retain_release(struct bench *b)
{
    struct sl_cu_context *context;
    (void)b;
    int code = cu.DevicePrimaryCtxRetain(&context, 0);
    return code ? code : cu.DevicePrimaryCtxRelease(0);
}

static int stream_life(struct bench *b)
{
    struct sl_cu_stream *stream;
    (void)b;
    int code = cu.StreamCreateWithPriority(&stream, SL_CU_STREAM_NON_BLOCKING, 0);
    return code ? code : cu.StreamDestroy(stream);
}

static int event_life(struct bench *b)
{
    struct sl_cu_event *event;
    (void)b;
    int code = cu.EventCreate(&event, SL_CU_EVENT_DISABLE_TIMING);
    return code ? code : cu.EventDestroy(event);
}

static int stream_query(struct bench *b)
{
    return cu.StreamQuery(b->mine);
}

static int stream_synchronize(struct bench *b)
{
    return cu.StreamSynchronize(b->mine);
}

static int default_synchronize(struct bench *b)
{
    (void)b;
    return cu.StreamSynchronize(NULL);
}

static int event_query(struct bench *b)
{
    return cu.EventQuery(b->start);
}

static int event_synchronize(struct bench *b)
{
    return cu.EventSynchronize(b->start);
}

static int event_elapsed(struct bench *b)
{
    float ms;
    return cu.EventElapsedTime(&ms, b->start, b->stop);
}

static int event_record(struct bench *b)
{
    return cu.EventRecord(b->stop, b->mine);
}

static int wait_event(struct bench *b)
{
    return cu.StreamWaitEvent(b->mine, b->start, 0);
}

static int memory_set(struct bench *b)
{
    return cu.MemsetD8Async(b->memory, 0, 64, b->mine);
}

static int memory_info(struct bench *b)
{
    size_t left, total;
    (void)b;
    return cu.MemGetInfo(&left, &total);
}

static int memory_life(struct bench *b)
{
    uint64_t memory;
    (void)b;
    int code = cu.MemAlloc(&memory, 4096);
    return code ? code : cu.MemFree(memory);
}

static int shared_memory_life(struct bench *b)
{
    struct sl_cu_allocation what = { .type = SL_CU_ALLOCATION_PINNED,
                                     .handle_types = SL_CU_HANDLE_POSIX_FD,
                                     .location = { SL_CU_LOCATION_DEVICE, 0 } };
    uint64_t handle;
    (void)b;
    int code = cu.MemCreate(&handle, (size_t)2 << 20, &what, 0);
    return code ? code : cu.MemRelease(handle);
}

static int registered_life(struct bench *b)
{
    int code = cu.MemHostRegister(b->page, 4096, SL_CU_HOST_PORTABLE | SL_CU_HOST_DEVICEMAP);
    return code ? code : cu.MemHostUnregister(b->page);
}

static const struct {
    const char *name;
    int (*call)(struct bench *b);
} calls[] = {
    { "stream is capturing (it)", is_capturing },
    { "stream get capture info (it)", capture_info },
    { "stream get context (it)", its_context },
    { "stream get flags (it)", its_flags },
    { "stream get priority (it)", its_priority },
    { "context get id", context_id },
    { "context synchronize", context_synchronize },
    { "primary context retain, release", retain_release },
    { "stream create, destroy", stream_life },
    { "event create, destroy", event_life },
    { "stream query", stream_query },
    { "stream synchronize", stream_synchronize },
    { "default stream synchronize", default_synchronize },
    { "event query", event_query },
    { "event synchronize", event_synchronize },
    { "event elapsed", event_elapsed },
    { "event record", event_record },
    { "stream wait event", wait_event },
    { "memset", memory_set },
    { "memory get info", memory_info },
    { "memory alloc, free", memory_life },
    { "shared memory create, release", shared_memory_life },
    { "host register, unregister", registered_life },
};
#define CALLS (sizeof calls / sizeof *calls)

struct capturer {
    struct bench *bench;
    unsigned flags;
    int code;
    pthread_barrier_t meet;
};

static void *capture(void *shared)
{
    struct capturer *capturer = shared;
    struct sl_cu_graph *graph = NULL;

    gpu_use(0);
    capturer->bench->theirs = gpu_stream(capturer->flags);
    CU(StreamBeginCapture, capturer->bench->theirs, CAPTURE_GLOBAL);
    pthread_barrier_wait(&capturer->meet);
    pthread_barrier_wait(&capturer->meet);
    capturer->code = cu.StreamEndCapture(capturer->bench->theirs, &graph);
    if (graph)
        cu.GraphDestroy(graph);
    CU(StreamDestroy, capturer->bench->theirs);
    cu.CtxSetCurrent(NULL);
    return NULL;
}

/* One call beside one capture: what it said, and what became of the capture. False if that was
 * broken though it must not be. */
static bool beside(struct bench *bench, size_t call, unsigned flags, int mode, FILE *file)
{
    struct capturer capturer = { .bench = bench, .flags = flags };
    pthread_t thread;

    CHECK(pthread_barrier_init(&capturer.meet, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, capture, &capturer) == 0);
    pthread_barrier_wait(&capturer.meet);
    int now = mode;
    CU(ThreadExchangeStreamCaptureMode, &now);
    int said = calls[call].call(bench);
    CU(ThreadExchangeStreamCaptureMode, &now);
    pthread_barrier_wait(&capturer.meet);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_barrier_destroy(&capturer.meet);
    fprintf(file,
            "{\"fact\": \"capture\", \"call\": \"%s\", \"mode\": \"%s\", \"stream\": \"%s\", "
            "\"said\": %d, \"capture\": %d}\n",
            calls[call].name, mode == CAPTURE_RELAXED ? "relaxed" : "global",
            flags ? "non-blocking" : "blocking", said, capturer.code);
    /* What the library does in the relaxed mode, or as a mere look, must harm no capture. */
    bool ours = calls[call].call != context_synchronize && calls[call].call != default_synchronize &&
                calls[call].call != its_flags;
    if (!ours || (mode != CAPTURE_RELAXED && call > 5) || capturer.code == 0)
        return true;
    fprintf(stderr, "%s broke a capture (%d, flags %u), though done with care\n", calls[call].name,
            capturer.code, flags);
    return false;
}

TEST_TIMEOUT(which_calls_break_a_capture, 60)
{
    struct bench b;
    FILE *file = open_facts();
    bool good = true;

    gpu_begin();
    b.context = gpu_use(0);
    b.mine = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    b.memory = gpu_memory(4096);
    b.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU(EventCreate, &b.start, 0);
    CU(EventCreate, &b.stop, 0);
    CU(EventRecord, b.start, b.mine);
    CU(EventRecord, b.stop, b.mine);
    CU(StreamSynchronize, b.mine);
    for (size_t call = 0; call < CALLS; call++)
        for (int blocking = 0; blocking < 2; blocking++)
            for (int mode = CAPTURE_GLOBAL; mode <= CAPTURE_RELAXED; mode += 2)
                good &= beside(&b, call, blocking ? 0 : SL_CU_STREAM_NON_BLOCKING, mode, file);
    CU(EventDestroy, b.start);
    CU(EventDestroy, b.stop);
    CU(StreamDestroy, b.mine);
    munmap(b.page, 4096);
    fclose(file);
    CHECK(good);
    gpu_end();
}

/* ---- costs ---- */

#define ROUNDS 4000

static struct {
    struct sluice_stream stream;
    struct sluice_event event;
    struct sl_cu_stream *native;
    struct sl_cu_context *context;
    sl_word *word;
    struct sl_sync_pages *pages;
} costs;

static void cost_current(void)
{
    struct sl_cu_context *now;
    CU(CtxGetCurrent, &now);
}

static void cost_id(void)
{
    unsigned long long id;
    CU(CtxGetId, costs.context, &id);
}

static void cost_push_pop(void)
{
    struct sl_cu_context *now;
    CU(CtxPushCurrent, costs.context);
    CU(CtxPopCurrent, &now);
}

static void cost_exchange(void)
{
    int mode = CAPTURE_RELAXED;
    CU(ThreadExchangeStreamCaptureMode, &mode);
    CU(ThreadExchangeStreamCaptureMode, &mode);
}

static void cost_is_capturing(void)
{
    int status;
    CU(StreamIsCapturing, costs.native, &status);
}

static void cost_write(void)
{
    CU(StreamWriteValue64, costs.native, (uintptr_t)costs.word, 1, 0);
}

static void cost_signal(void)
{
    struct sl_signal signal = { costs.word, 2 };
    CHECK_OK(sl_sync_cuda.signal(costs.pages, costs.stream, &signal, 1));
}

static void cost_signal_four(void)
{
    struct sl_signal signals[4];
    for (int i = 0; i < 4; i++)
        signals[i] = (struct sl_signal){ costs.word + i * 8, 3 };
    CHECK_OK(sl_sync_cuda.signal(costs.pages, costs.stream, signals, 4));
}

static void cost_record(void)
{
    CHECK_OK(sluice_event_record(costs.event, costs.stream));
}

static void cost_event_query(void)
{
    CHECK(sluice_event_query(costs.event) >= 0);
}

static void cost_stream_query(void)
{
    CHECK(sluice_stream_query(costs.stream) >= 0);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void measure(const char *name, void (*call)(void), FILE *file)
{
    static int64_t times[ROUNDS / 16];
    struct sl_cu_context *now;

    for (size_t i = 0; i < ROUNDS / 16; i++) {
        int64_t began = test_now();
        for (int k = 0; k < 16; k++)
            call();
        times[i] = (test_now() - began) / 16;
        CU(CtxPushCurrent, costs.context);
        CU(StreamSynchronize, costs.native); /* so that the queue never fills */
        CU(CtxPopCurrent, &now);
    }
    qsort(times, ROUNDS / 16, sizeof *times, by_size);
    fprintf(file, "{\"fact\": \"cost\", \"call\": \"%s\", \"p50_ns\": %lld, \"p99_ns\": %lld}\n",
            name, (long long)times[ROUNDS / 32], (long long)times[ROUNDS / 16 * 99 / 100]);
}

TEST_TIMEOUT(what_the_calls_cost, 60)
{
    struct sluice_device device;
    FILE *file = open_facts();

    gpu_begin();
    costs.context = gpu_use(0);
    costs.word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK_OK(sl_sync_cuda.attach("cuda:0", (void *)costs.word, 4096, true, &costs.pages));
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &costs.stream));
    CHECK_OK(sluice_event_create(device, 0, &costs.event));
    costs.native = gpu_native(costs.stream);
    measure("cuCtxGetCurrent", cost_current, file);
    measure("cuCtxGetId", cost_id, file);
    measure("cuCtxPushCurrent + PopCurrent", cost_push_pop, file);
    measure("cuThreadExchangeStreamCaptureMode, twice", cost_exchange, file);
    measure("cuStreamIsCapturing", cost_is_capturing, file);
    measure("cuStreamWriteValue64", cost_write, file);
    measure("signal, context current", cost_signal, file);
    measure("signal of 4 words, context current", cost_signal_four, file);
    measure("event record, context current", cost_record, file);
    measure("event query, context current", cost_event_query, file);
    measure("stream query, context current", cost_stream_query, file);
    cu.CtxSetCurrent(NULL);
    measure("signal, context not current", cost_signal, file);
    measure("event record, context not current", cost_record, file);
    gpu_use(0);
    CHECK_OK(sluice_device_close(&device));
    sl_sync_cuda.detach(costs.pages);
    munmap((void *)costs.word, 4096);
    fclose(file);
    gpu_end();
}
