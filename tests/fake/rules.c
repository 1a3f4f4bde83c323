/* SPDX-License-Identifier: MIT
 *
 * The fake driver finds the broken rules that it is there to find. Here the test plays the library.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "cuda/driver.h"
#include "fake/fake.h"
#include "harness/test.h"

/* What the library does around its calls. */
struct call {
    struct sl_cu_context *context;
    int mode;
};

static struct call enter(void)
{
    struct call call = { .mode = SL_CU_CAPTURE_MODE_RELAXED };

    fake_use();
    unsetenv("SLUICE_FAKE_FATAL");
    CHECK_OK(sl_cuda_load());
    CHECK_EQ(sl_cuda.ThreadExchangeStreamCaptureMode(&call.mode), 0);
    CHECK_EQ(sl_cuda.DevicePrimaryCtxRetain(&call.context, 0), 0);
    CHECK_EQ(sl_cuda.CtxPushCurrent(call.context), 0);
    return call;
}

static void leave(struct call *call)
{
    CHECK_EQ(sl_cuda.CtxPopCurrent(&call->context), 0);
    CHECK_EQ(sl_cuda.DevicePrimaryCtxRelease(0), 0);
    CHECK_EQ(sl_cuda.ThreadExchangeStreamCaptureMode(&call->mode), 0);
}

static struct sl_cu_stream *make_stream(void)
{
    struct sl_cu_stream *stream;

    CHECK_EQ(sl_cuda.StreamCreateWithPriority(&stream, SL_CU_STREAM_NON_BLOCKING, 0), 0);
    return stream;
}

static uint64_t *make_pinned(void)
{
    void *memory;

    CHECK_EQ(sl_cuda.MemHostAlloc(&memory, 4096, SL_CU_HOST_PORTABLE), 0);
    return memory;
}

TEST(calls_that_break_captures)
{
    struct call call = enter();
    struct sl_cu_stream *stream = make_stream();

    CHECK_EQ(sl_cuda.StreamQuery(stream), 0);
    CHECK(!fake_broken_rule());
    CHECK_EQ(sl_cuda.ThreadExchangeStreamCaptureMode(&call.mode), 0); /* the caller's again */
    CHECK_EQ(sl_cuda.StreamQuery(stream), 0);
    CHECK_HAS(fake_broken_rule(), "cuStreamQuery: called outside of the relaxed mode");
    CHECK_EQ(sl_cuda.ThreadExchangeStreamCaptureMode(&call.mode), 0);
    CHECK_EQ(sl_cuda.StreamDestroy(stream), 0);
    leave(&call);
}

static void *use_default_stream(void *event)
{
    struct call call = enter();
    int status;

    CHECK_EQ(sl_cuda.StreamIsCapturing(NULL, &status), 0);
    CHECK_EQ(sl_cuda.EventRecord(event, NULL), 0);
    leave(&call);
    return NULL;
}

/* Another thread's queries and calls are its own. */
TEST(work_on_a_stream_that_two_threads_asked_about)
{
    struct call call = enter();
    struct sl_cu_event *event;
    pthread_t beside;
    int status;

    CHECK_EQ(sl_cuda.EventCreate(&event, 0), 0);
    CHECK_EQ(sl_cuda.StreamIsCapturing(NULL, &status), 0);
    CHECK(pthread_create(&beside, NULL, use_default_stream, event) == 0);
    CHECK(pthread_join(beside, NULL) == 0);
    CHECK_EQ(sl_cuda.EventRecord(event, NULL), 0);
    CHECK(!fake_broken_rule());
    CHECK_EQ(sl_cuda.StreamIsCapturing(NULL, &status), 0);
    CHECK_EQ(sl_cuda.EventRecord(event, NULL), 0);
    CHECK(pthread_create(&beside, NULL, use_default_stream, event) == 0);
    CHECK(pthread_join(beside, NULL) == 0);
    CHECK(!fake_broken_rule());
    CHECK_EQ(sl_cuda.EventRecord(event, NULL), 0); /* the other thread queried it */
    CHECK_HAS(fake_broken_rule(), "cuEventRecord: on a stream of somebody else's");
    CHECK_EQ(sl_cuda.EventDestroy(event), 0);
    leave(&call);
}

TEST(work_on_a_stream_that_was_not_asked_about)
{
    struct call call = enter();
    struct sl_cu_event *event;
    int status;

    CHECK_EQ(sl_cuda.EventCreate(&event, 0), 0);
    CHECK_EQ(sl_cuda.StreamIsCapturing(NULL, &status), 0);
    CHECK_EQ(sl_cuda.EventRecord(event, NULL), 0);
    CHECK(!fake_broken_rule());
    CHECK_EQ(sl_cuda.EventRecord(event, NULL), 0); /* it was queried only once */
    CHECK_HAS(fake_broken_rule(), "cuEventRecord: on a stream of somebody else's");
    CHECK_EQ(sl_cuda.EventDestroy(event), 0);
    leave(&call);
}

/* One rule for each call that uses something after its end: the second free of everything. */
static void end_twice(int what)
{
    struct call call = enter();
    struct sl_cu_stream *stream = make_stream();
    struct sl_cu_allocation allocation = { .type = SL_CU_ALLOCATION_PINNED, .location = { SL_CU_LOCATION_DEVICE, 0 } };
    struct sl_cu_event *event;
    uint64_t *pinned = make_pinned(), gpus, handle, reserved;
    size_t unit = fake_machine.unit;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(page != MAP_FAILED);
    CHECK_EQ(sl_cuda.EventCreate(&event, 0), 0);
    CHECK_EQ(sl_cuda.MemAlloc(&gpus, 8), 0);
    CHECK_EQ(sl_cuda.MemHostRegister(page, 4096, 0), 0);
    CHECK_EQ(sl_cuda.MemCreate(&handle, unit, &allocation, 0), 0);
    CHECK_EQ(sl_cuda.MemAddressReserve(&reserved, unit, 0, 0, 0), 0);
    CHECK_EQ(sl_cuda.MemMap(reserved, unit, 0, handle, 0), 0);
    CHECK(what != 8 || sl_cuda.MemAddressFree(reserved, unit) != 0);
    for (int twice = 0; twice < 2; twice++) {
        if (twice == 1 && what != 8)
            CHECK(!fake_broken_rule());
#define TWICE(number, call) CHECK(twice == 0 ? (call) == 0 : what != (number) || (call) != 0)
        TWICE(0, sl_cuda.StreamDestroy(stream));
        TWICE(1, sl_cuda.EventDestroy(event));
        TWICE(2, sl_cuda.MemFree(gpus));
        TWICE(3, sl_cuda.MemFreeHost(pinned));
        TWICE(4, sl_cuda.MemHostUnregister(page));
        TWICE(5, sl_cuda.MemUnmap(reserved, unit));
        TWICE(6, sl_cuda.MemAddressFree(reserved, unit));
        TWICE(7, sl_cuda.MemRelease(handle));
#undef TWICE
    }
    munmap(page, 4096);
    leave(&call);
}

TEST(use_after_the_end)
{
    static const char *const rules[] = {
        "cuStreamDestroy: on a stream that is none, or not any more",
        "cuEventDestroy: on an event that is none, or not any more",
        "cuMemFree: of memory that is not there, or not any more",
        "cuMemFreeHost: of memory that is not there, or not any more",
        "cuMemHostUnregister: of memory that is not registered",
        "cuMemUnmap: of memory that is not mapped there",
        "cuMemAddressFree: of addresses that are not reserved",
        "cuMemRelease: on a handle of memory that is none",
        "cuMemAddressFree: of addresses where memory is mapped still",
    };

    for (int i = 0; i < (int)(sizeof rules / sizeof *rules); i++) {
        end_twice(i);
        CHECK_HAS(fake_broken_rule(), rules[i]);
        fake_forget_rule();
    }
}

TEST(objects_of_another_context)
{
    struct call call = enter(), other = { .context = NULL };
    struct sl_cu_stream *stream = make_stream();
    struct sl_cu_event *event, *theirs;
    uint64_t *pinned = make_pinned(), gpus;

    CHECK_EQ(sl_cuda.EventCreate(&event, 0), 0);
    CHECK_EQ(sl_cuda.MemAlloc(&gpus, 8), 0);
    CHECK_EQ(sl_cuda.DevicePrimaryCtxRetain(&other.context, 1), 0);
    CHECK_EQ(sl_cuda.CtxPushCurrent(other.context), 0);
    CHECK_EQ(sl_cuda.EventCreate(&theirs, 0), 0);
    CHECK(!fake_broken_rule());
    CHECK_EQ(sl_cuda.StreamQuery(stream), 0);
    CHECK_HAS(fake_broken_rule(), "cuStreamQuery: in another context than its own");
    fake_forget_rule();
    CHECK_EQ(sl_cuda.MemFree(gpus), 0);
    CHECK_HAS(fake_broken_rule(), "cuMemFree: in another context than its own");
    fake_forget_rule();
    CHECK_EQ(sl_cuda.MemFreeHost(pinned), 0);
    CHECK_HAS(fake_broken_rule(), "cuMemFreeHost: in another context than its own");
    fake_forget_rule();
    CHECK_EQ(sl_cuda.CtxPopCurrent(&other.context), 0);
    CHECK_NE(sl_cuda.EventRecord(theirs, stream), 0);
    CHECK_HAS(fake_broken_rule(), "cuEventRecord: of an event of another context than the stream's");
    fake_forget_rule();
    CHECK_EQ(sl_cuda.EventDestroy(theirs), 0);
    CHECK_EQ(sl_cuda.EventDestroy(event), 0);
    CHECK_EQ(sl_cuda.StreamDestroy(stream), 0);
    CHECK_EQ(sl_cuda.DevicePrimaryCtxRelease(1), 0);
    CHECK(!fake_broken_rule());
    leave(&call);
}

TEST(copies_of_memory_that_is_not_pinned)
{
    struct call call = enter();
    struct sl_cu_stream *stream = make_stream();
    uint64_t *pinned = make_pinned(), *second = make_pinned(), loose = 7, gpus;

    CHECK_EQ(sl_cuda.MemAlloc(&gpus, 8), 0);
    CHECK_EQ(sl_cuda.MemcpyAsync(gpus, (uintptr_t)pinned, 8, stream), 0);
    CHECK_EQ(sl_cuda.MemcpyAsync((uintptr_t)second, gpus, 8, stream), 0);
    CHECK_EQ(sl_cuda.MemcpyDtoHAsync(&loose, gpus, 8, stream), 0); /* in the relaxed mode it may wait */
    CHECK_EQ(loose, 0);
    CHECK(!fake_broken_rule());
    CHECK_EQ(sl_cuda.ThreadExchangeStreamCaptureMode(&call.mode), 0); /* the caller's again */
    CHECK_EQ(sl_cuda.MemcpyDtoHAsync(&loose, gpus, 8, stream), 0);
    CHECK_EQ(sl_cuda.ThreadExchangeStreamCaptureMode(&call.mode), 0);
    CHECK_HAS(fake_broken_rule(), "cuMemcpyDtoHAsync: of memory that is not pinned");
    fake_forget_rule();
    CHECK_EQ(sl_cuda.MemcpyAsync((uintptr_t)second, (uintptr_t)pinned, 8, stream), 0);
    CHECK_HAS(fake_broken_rule(), "or from the host's to the host's");
    CHECK_EQ(sl_cuda.MemFree(gpus), 0);
    CHECK_EQ(sl_cuda.StreamDestroy(stream), 0);
    CHECK_EQ(sl_cuda.MemFreeHost(pinned), 0);
    CHECK_EQ(sl_cuda.MemFreeHost(second), 0);
    leave(&call);
}

static struct sl_cu_copy_3d copy_of(uint64_t *to, uint64_t *from)
{
    return (struct sl_cu_copy_3d){ .from_type = SL_CU_MEMORY_DEVICE,
                                   .from_device = (uintptr_t)from,
                                   .to_type = SL_CU_MEMORY_DEVICE,
                                   .to_device = (uintptr_t)to,
                                   .width = 8,
                                   .height = 1,
                                   .depth = 1 };
}

/* A graph of a copy and a signal after it, as send makes it; launched twice, the second time with another value. */
static void make_graph(struct call *call, bool in_order)
{
    struct sl_cu_stream *stream = make_stream();
    uint64_t *pinned = make_pinned();
    struct sl_cu_copy_3d copy = copy_of(pinned, pinned + 1);
    union sl_cu_mem_op word = { .write = { SL_CU_MEM_OP_WRITE_64, (uintptr_t)(pinned + 2), 7, 0, 0 } };
    struct sl_cu_batch batch = { call->context, 1, &word, 0 };
    struct sl_cu_node *first, *second;
    struct sl_cu_graph *graph;
    struct sl_cu_exec *exec;

    CHECK_EQ(sl_cuda.GraphCreate(&graph, 0), 0);
    CHECK_EQ(sl_cuda.GraphAddMemcpyNode(&first, graph, NULL, 0, &copy, call->context), 0);
    CHECK_EQ(sl_cuda.GraphAddBatchMemOpNode(&second, graph, &first, in_order, &batch), 0);
    CHECK_EQ(sl_cuda.GraphInstantiateWithFlags(&exec, graph, 0), 0);
    for (uint64_t value = 7; value < 9; value++) {
        pinned[1] = word.write.value = value;
        CHECK_EQ(sl_cuda.GraphExecBatchMemOpNodeSetParams(exec, second, &batch), 0);
        CHECK_EQ(sl_cuda.GraphLaunch(exec, stream), 0);
        CHECK_EQ(sl_cuda.StreamSynchronize(stream), 0);
        CHECK_EQ(pinned[0], value);
        CHECK_EQ(pinned[2], value);
    }
    batch.count = 0;
    CHECK_NE(sl_cuda.GraphExecBatchMemOpNodeSetParams(exec, second, &batch), 0);
    CHECK_EQ(fake_things().graphs, 2);
    CHECK_EQ(sl_cuda.GraphDestroy(graph), 0);
    CHECK_EQ(sl_cuda.GraphExecDestroy(exec), 0);
    CHECK_EQ(fake_things().graphs, 0);
    CHECK_EQ(sl_cuda.StreamDestroy(stream), 0);
    CHECK_EQ(sl_cuda.MemFreeHost(pinned), 0);
}

TEST(graphs_of_the_librarys_own)
{
    struct call call = enter();

    make_graph(&call, true);
    CHECK(!fake_broken_rule());
    make_graph(&call, false);
    CHECK_HAS(fake_broken_rule(), "cuGraphAddBatchMemOpNode: a node that does not wait for the one before it");
    leave(&call);
}

TEST(features_that_the_gpu_lacks)
{
    struct call call = enter();
    struct sl_cu_stream *stream = make_stream();
    uint64_t *pinned = make_pinned();

    CHECK_EQ(sl_cuda.StreamWriteValue64(stream, (uintptr_t)pinned, 1, 0), 0);
    CHECK_EQ(sl_cuda.StreamSynchronize(stream), 0);
    CHECK(!fake_broken_rule());
    fake_machine.cannot[SL_CU_CAN_WRITE_64] = 1;
    CHECK_EQ(sl_cuda.StreamWriteValue64(stream, (uintptr_t)pinned, 2, 0), SL_CU_NOT_SUPPORTED);
    CHECK_EQ(*pinned, 1);
    CHECK_HAS(fake_broken_rule(), "cuStreamWriteValue64: which this GPU cannot (attribute 122)");
    CHECK_EQ(sl_cuda.StreamDestroy(stream), 0);
    CHECK_EQ(sl_cuda.MemFreeHost(pinned), 0);
    leave(&call);
}

static void ask_back(void *said)
{
    *(int *)said = sl_cuda.CtxGetId(NULL, &(unsigned long long){ 0 });
}

TEST(calls_by_what_the_gpu_calls)
{
    struct call call = enter();
    struct sl_cu_stream *stream = make_stream();
    int said = 0;

    CHECK_EQ(sl_cuda.LaunchHostFunc(stream, ask_back, &said), 0);
    CHECK_EQ(sl_cuda.StreamSynchronize(stream), 0);
    CHECK_EQ(said, SL_CU_NOT_PERMITTED);
    CHECK_HAS(fake_broken_rule(), "cuCtxGetId: called by a function that the GPU calls");
    CHECK_EQ(sl_cuda.StreamDestroy(stream), 0);
    leave(&call);
}

/* The service thread is known by its name. */
static void *call_on_service_thread(void *name)
{
    int count;

    CHECK_EQ(prctl(PR_SET_NAME, name), 0);
    CHECK_EQ(sl_cuda.DeviceGetCount(&count), 0);
    return NULL;
}

TEST(calls_on_the_service_thread)
{
    struct call call = enter();
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, call_on_service_thread, "sluice task") == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(!fake_broken_rule());
    CHECK(pthread_create(&thread, NULL, call_on_service_thread, "sluice service") == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_HAS(fake_broken_rule(), "cuDeviceGetCount: called on the service thread");
    leave(&call);
}

TEST(memory_that_is_unmapped_too_soon)
{
    struct call call = enter();
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK_EQ(sl_cuda.MemHostRegister(page, 4096, SL_CU_HOST_PORTABLE), 0);
    CHECK(mmap(page, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
          page); /* nobody gets the address */
    CHECK(!fake_broken_rule());
    CHECK_EQ(sl_cuda.MemHostUnregister(page), 0);
    CHECK_HAS(fake_broken_rule(), "cuMemHostUnregister: unmapped before it was unregistered");
    CHECK_EQ(munmap(page, 4096), 0);
    leave(&call);
}

/* The driver needs none to register memory, nor to know whether it is still mapped. */
TEST(memory_that_is_registered_without_descriptors)
{
    struct call call = enter();
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct rlimit limit;

    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, limit.rlim_max }), 0);
    CHECK_EQ(sl_cuda.MemHostRegister(page, 4096, SL_CU_HOST_PORTABLE), 0);
    CHECK_EQ(sl_cuda.MemHostUnregister(page), 0);
    CHECK(!fake_broken_rule());
    CHECK_EQ(sl_cuda.MemHostRegister(page, 4096, SL_CU_HOST_PORTABLE), 0);
    CHECK(mmap(page, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
    CHECK_EQ(sl_cuda.MemHostUnregister(page), 0);
    CHECK_HAS(fake_broken_rule(), "cuMemHostUnregister: unmapped before it was unregistered");
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_EQ(munmap(page, 4096), 0);
    leave(&call);
}
