/* SPDX-License-Identifier: MIT
 *
 * What the installed driver does, for those who build on it: which calls break another thread's capture.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "gpu/kit.h"

/* What the calls work on: a stream of the test's own, and the one on which another thread captures. */
struct bench {
    struct sl_cu_context *context;
    struct sl_cu_stream *mine, *theirs;
    struct sl_cu_event *start, *stop;
    struct sl_cu_exec *exec;
    uint64_t memory, word;
    void *page, *pinned;
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

static int wait_value(struct bench *b)
{
    return cu.StreamWaitValue64(b->mine, b->word, 0, SL_CU_WAIT_GEQ);
}

static int write_value(struct bench *b)
{
    return cu.StreamWriteValue64(b->mine, b->word, 0, 0);
}

static int copy_to_host(struct bench *b)
{
    return cu.MemcpyDtoHAsync(b->pinned, b->memory, 64, b->mine);
}

static int copy_from_host(struct bench *b)
{
    return cu.MemcpyHtoDAsync(b->memory, b->pinned, 64, b->mine);
}

static int copy_on_gpu(struct bench *b)
{
    return cu.MemcpyDtoDAsync(b->memory, b->memory + 1024, 64, b->mine);
}

static int copy_window(struct bench *b)
{
    struct sl_cu_copy_2d copy = { .from_type = SL_CU_MEMORY_DEVICE,
                                  .from_device = b->memory,
                                  .from_pitch = 64,
                                  .to_type = SL_CU_MEMORY_HOST,
                                  .to_host = b->pinned,
                                  .to_pitch = 32,
                                  .width = 16,
                                  .height = 4 };
    return cu.Memcpy2DAsync(&copy, b->mine);
}

static int pointer_attributes(struct bench *b)
{
    unsigned type;
    unsigned long long id;
    int attributes[] = { SL_CU_POINTER_MEMORY_TYPE, SL_CU_POINTER_BUFFER_ID };
    return cu.PointerGetAttributes(2, attributes, (void *[]){ &type, &id }, b->memory);
}

static int stream_id(struct bench *b)
{
    unsigned long long id;
    return cu.StreamGetId(b->theirs, &id);
}

static int launch_nothing(struct bench *b)
{
    gpu_spin(b->mine, 0);
    return 0;
}

static int graph_launch(struct bench *b)
{
    return cu.GraphLaunch(b->exec, b->mine);
}

/* A graph captured by a thread that must not be disturbed. */
static int graph_life(struct bench *b)
{
    struct sl_cu_graph *graph = NULL;
    struct sl_cu_exec *exec;

    int code = cu.StreamBeginCapture(b->mine, CAPTURE_THREAD_LOCAL);
    if (code)
        return code;
    cu.MemsetD8Async(b->memory, 0, 64, b->mine);
    code = cu.StreamEndCapture(b->mine, &graph);
    if (code)
        return code;
    code = cu.GraphInstantiateWithFlags(&exec, graph, 0);
    if (code == 0)
        code = cu.GraphExecDestroy(exec);
    cu.GraphDestroy(graph);
    return code;
}

/* A graph made node by node, as the library makes it: a copy, then a signal. */
static int graph_by_hand(struct bench *b)
{
    struct sl_cu_copy_3d copy = { .from_type = SL_CU_MEMORY_DEVICE,
                                  .from_device = b->memory + 1024,
                                  .to_type = SL_CU_MEMORY_DEVICE,
                                  .to_device = b->memory,
                                  .width = 64,
                                  .height = 1,
                                  .depth = 1 };
    union sl_cu_mem_op word = { .write = { SL_CU_MEM_OP_WRITE_64, b->word, 0, 0, 0 } };
    struct sl_cu_batch batch = { b->context, 1, &word, 0 };
    struct sl_cu_node *first, *second;
    struct sl_cu_graph *graph;
    struct sl_cu_exec *exec;

    int code = cu.GraphCreate(&graph, 0);
    if (code)
        return code;
    code = cu.GraphAddMemcpyNode(&first, graph, NULL, 0, &copy, b->context);
    if (code == 0)
        code = cu.GraphAddBatchMemOpNode(&second, graph, &first, 1, &batch);
    if (code == 0)
        code = cu.GraphInstantiateWithFlags(&exec, graph, 0);
    if (code == 0) {
        code = cu.GraphLaunch(exec, b->mine);
        code = code ? code : cu.GraphExecBatchMemOpNodeSetParams(exec, second, &batch);
        code = code ? code : cu.GraphLaunch(exec, b->mine);
        int last = cu.GraphExecDestroy(exec); /* possibly while it runs */
        code = code ? code : last;
    }
    int last = cu.GraphDestroy(graph);
    return code ? code : last;
}

static int pinned_life(struct bench *b)
{
    void *memory;
    (void)b;
    int code = cu.MemHostAlloc(&memory, 4096, SL_CU_HOST_PORTABLE);
    return code ? code : cu.MemFreeHost(memory);
}

static int shared_event_life(struct bench *b)
{
    struct sl_cu_event *event;
    struct sl_cu_event_handle handle;
    (void)b;
    int code = cu.EventCreate(&event, SL_CU_EVENT_DISABLE_TIMING | SL_CU_EVENT_INTERPROCESS);
    if (code)
        return code;
    code = cu.IpcGetEventHandle(&handle, event);
    int second = cu.EventDestroy(event);
    return code ? code : second;
}

static int module_life(struct bench *b)
{
    struct sl_cu_module *module;
    (void)b;
    int code = cu.ModuleLoadData(&module, gpu_kernels);
    return code ? code : cu.ModuleUnload(module);
}

static void do_nothing(void *nothing)
{
    (void)nothing;
}

static int host_function(struct bench *b)
{
    return cu.LaunchHostFunc(b->mine, do_nothing, NULL);
}

static int memory_life(struct bench *b)
{
    struct sl_cu_memory_handle handle;
    uint64_t memory;
    (void)b;
    int code = cu.MemAlloc(&memory, (size_t)2 << 20);
    if (code)
        return code;
    code = cu.IpcGetMemHandle(&handle, memory);
    int second = cu.MemFree(memory);
    return code ? code : second;
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

/* Which captures of other threads survive the call. */
enum bears {
    ALWAYS,  /* all, in every mode: a plain query, which the library makes before anything else */
    RELAXED, /* all, in the relaxed mode, which the library uses */
    FACT,    /* recorded only; the library does not make this call */
};

static const struct {
    const char *name;
    int (*call)(struct bench *b);
    enum bears bears;
} calls[] = {
    { "stream is capturing (it)", is_capturing, ALWAYS },
    { "stream get capture info (it)", capture_info, ALWAYS },
    { "stream get context (it)", its_context, ALWAYS },
    { "stream get flags (it)", its_flags, FACT },
    { "stream get priority (it)", its_priority, ALWAYS },
    { "context get id", context_id, ALWAYS },
    { "context synchronize", context_synchronize, FACT },
    { "primary context retain, release", retain_release, RELAXED },
    { "stream create, destroy", stream_life, RELAXED },
    { "event create, destroy", event_life, RELAXED },
    { "stream query", stream_query, RELAXED },
    { "stream synchronize", stream_synchronize, RELAXED },
    { "default stream synchronize", default_synchronize, FACT },
    { "event query", event_query, RELAXED },
    { "event synchronize", event_synchronize, RELAXED },
    { "event elapsed", event_elapsed, RELAXED },
    { "event record", event_record, RELAXED },
    { "stream wait event", wait_event, RELAXED },
    { "memset", memory_set, RELAXED },
    { "memory get info", memory_info, RELAXED },
    { "memory alloc, free", memory_life, RELAXED },
    { "shared memory create, release", shared_memory_life, RELAXED },
    { "host register, unregister", registered_life, RELAXED },
    { "stream wait value", wait_value, RELAXED },
    { "stream write value", write_value, RELAXED },
    { "copy to host", copy_to_host, RELAXED },
    { "copy from host", copy_from_host, RELAXED },
    { "copy on the GPU", copy_on_gpu, RELAXED },
    { "copy of a window", copy_window, RELAXED },
    { "pointer get attributes", pointer_attributes, RELAXED },
    { "stream get id (it)", stream_id, FACT },
    { "launch", launch_nothing, FACT },
    { "launch host function", host_function, RELAXED },
    { "graph launch", graph_launch, RELAXED },
    { "graph by hand: make, launch, change, launch, destroy", graph_by_hand, RELAXED },
    { "graph capture, instantiate, destroy", graph_life, FACT },
    { "host alloc, free", pinned_life, RELAXED },
    { "shared event create, destroy", shared_event_life, FACT },
    { "module load, unload", module_life, FACT },
};
#define CALLS (sizeof calls / sizeof *calls)

struct capture_thread {
    struct bench *bench;
    unsigned flags;
    int code;
    pthread_barrier_t meet;
};

/* A trivial graph to launch. */
static struct sl_cu_exec *make_exec(struct bench *b)
{
    struct sl_cu_graph *graph;
    struct sl_cu_exec *exec;

    CU(StreamBeginCapture, b->mine, CAPTURE_RELAXED);
    CU(MemsetD8Async, b->memory, 0, 64, b->mine);
    CU(StreamEndCapture, b->mine, &graph);
    CU(GraphInstantiateWithFlags, &exec, graph, 0);
    CU(GraphDestroy, graph);
    return exec;
}

static void *capture(void *shared)
{
    struct capture_thread *capturer = shared;
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

/* One call beside one capture: its result, and what became of the capture. False if the capture broke and must not. */
static bool beside(struct bench *bench, size_t call, unsigned flags, int mode, FILE *file)
{
    struct capture_thread capturer = { .bench = bench, .flags = flags };
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
            calls[call].name, mode == CAPTURE_RELAXED ? "relaxed" : "global", flags ? "non-blocking" : "blocking", said,
            capturer.code);
    enum bears bears = calls[call].bears;
    if (bears == FACT || (bears == RELAXED && mode != CAPTURE_RELAXED) || capturer.code == 0)
        return true;
    fprintf(stderr, "%s broke a capture (%d, flags %u), though done with care\n", calls[call].name, capturer.code,
            flags);
    return false;
}

TEST_TIMEOUT(which_calls_break_a_capture, 60)
{
    struct bench b;
    FILE *file = gpu_facts();
    bool good = true;

    gpu_begin();
    b.context = gpu_use(0);
    b.mine = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    b.memory = gpu_memory(4096);
    b.exec = make_exec(&b);
    b.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU(MemHostAlloc, &b.pinned, 4096, SL_CU_HOST_PORTABLE | SL_CU_HOST_DEVICEMAP);
    CU(MemHostGetDevicePointer, &b.word, b.pinned, 0);
    gpu_spin(b.mine, 0); /* loads the kernels */
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
    CU(GraphExecDestroy, b.exec);
    CU(MemFreeHost, b.pinned);
    munmap(b.page, 4096);
    fclose(file);
    CHECK(good);
    gpu_end();
}
