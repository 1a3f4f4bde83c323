/* SPDX-License-Identifier: MIT
 *
 * The part of the CUDA runtime that cuda-link's Python package calls by ctypes, on any driver: NVIDIA's, or the fake
 * one. It lets that package run as a peer in tests (python/tests/upstream). It is not for users: where NVIDIA's runtime
 * is installed, the tests use that.
 *
 * As there, each thread has the primary context of device 0 until it chooses another, and an error stays until it is
 * read. It reports a version without graphs, and has none.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/extra_functions.h"

#ifndef FAKE_DRIVER /* what is loaded without SLUICE_CUDA_DRIVER */
#define FAKE_DRIVER "libcuda.so.1"
#endif
#define RUNTIME_API __attribute__((visibility("default")))

enum {
    VERSION = 11030, /* cuda-link captures graphs from 11040 on */
    GREATEST_PRIORITY = -5,
    TO_DEVICE = 1, /* cudaMemcpyKind */
    FROM_DEVICE = 2,
    ON_HOST = 1, /* cudaMemoryType */
    ON_DEVICE = 2,
    MANAGED = 3,
};

struct attributes { /* cudaPointerAttributes of CUDA 11 and 12 */
    int type, device;
    void *device_pointer, *host_pointer;
};

static struct {
#define MEMBER(name, version, parameters, arguments) int(*name) parameters;
    SL_CUDA_FUNCTIONS(MEMBER)
    EXTRA_FUNCTIONS(MEMBER)
#undef MEMBER
} cu;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *driver;
static int started = SL_CU_NO_DEVICE;
static _Thread_local int chosen; /* the thread's device */
static _Thread_local int last;

/* The fake driver has functions of their own for callers other than the library. */
static void *find(const char *symbol)
{
    char name[80];

    snprintf(name, sizeof name, "test_%s", symbol);
    void *found = dlsym(driver, name);
    return found ? found : dlsym(driver, symbol);
}

static void start(void)
{
    const char *path = getenv("SLUICE_CUDA_DRIVER");

    driver = dlopen(path && *path ? path : FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        return;
#define FIND(name, version, parameters, arguments) *(void **)&cu.name = find("cu" #name #version);
    SL_CUDA_FUNCTIONS(FIND)
    EXTRA_FUNCTIONS(FIND)
#undef FIND
    started = cu.Init ? cu.Init(0) : SL_CU_NO_DEVICE;
}

static int keep(int code)
{
    if (code != 0 && code != SL_CU_NOT_READY)
        last = code;
    return code;
}

static int use(int device)
{
    struct sl_cu_context *context;
    int ordinal, code = cu.DeviceGet(&ordinal, device);

    if (code == 0)
        code = cu.DevicePrimaryCtxRetain(&context, ordinal);
    return code ? code : cu.CtxSetCurrent(context);
}

/* The first step of every call: does the thread have a context? */
static int enter(void)
{
    struct sl_cu_context *context = NULL;

    pthread_once(&once, start);
    if (started)
        return started;
    int code = cu.CtxGetCurrent(&context);
    return code || context ? code : use(chosen);
}

/* RUNTIME(name, (parameters), the result once there is a context) */
#define RUNTIME(name, parameters, expression) \
    RUNTIME_API int cuda##name parameters; \
    RUNTIME_API int cuda##name parameters \
    { \
        int code = enter(); \
        return keep(code ? code : (expression)); \
    }

/* ---- the device ---- */

static int set_device(int device)
{
    int code = use(device);

    if (code == 0)
        chosen = device;
    return code;
}

static int give(int *to, int value)
{
    *to = value;
    return 0;
}

static int last_error(int then)
{
    int code = last;

    last = then;
    return code;
}

static int get_attribute(int *value, int attribute, int device)
{
    int ordinal, code = cu.DeviceGet(&ordinal, device);

    return code ? code : cu.DeviceGetAttribute(value, attribute, ordinal);
}

static int can_access(int *can, int device, int peer)
{
    int a, b, code = cu.DeviceGet(&a, device);

    if (code == 0)
        code = cu.DeviceGet(&b, peer);
    return code ? code : cu.DeviceCanAccessPeer(can, a, b);
}

RUNTIME(SetDevice, (int device), set_device(device))
RUNTIME(GetDevice, (int *device), give(device, chosen))
RUNTIME(DeviceSynchronize, (void), cu.CtxSynchronize())
RUNTIME(DeviceGetAttribute, (int *value, int attribute, int device), get_attribute(value, attribute, device))
RUNTIME(DeviceCanAccessPeer, (int *can, int device, int peer), can_access(can, device, peer))
RUNTIME(MemGetInfo, (size_t * unused, size_t *total), cu.MemGetInfo(unused, total))
RUNTIME(RuntimeGetVersion, (int *version), give(version, VERSION))
RUNTIME(DeviceGetStreamPriorityRange, (int *least, int *greatest), give(least, 0) || give(greatest, GREATEST_PRIORITY))

RUNTIME_API int cudaPeekAtLastError(void);
RUNTIME_API int cudaPeekAtLastError(void)
{
    return last;
}

RUNTIME_API int cudaGetLastError(void);
RUNTIME_API int cudaGetLastError(void)
{
    return last_error(0);
}

RUNTIME_API const char *cudaGetErrorString(int code);
RUNTIME_API const char *cudaGetErrorString(int code)
{
    const char *name = NULL;

    if (code == 0)
        return "no error";
    return enter() == 0 && cu.GetErrorName(code, &name) == 0 && name ? name : "an error of the driver";
}

/* ---- streams and events ---- */

RUNTIME(StreamCreateWithFlags, (struct sl_cu_stream * *stream, unsigned flags),
        cu.StreamCreateWithPriority(stream, flags, 0))
RUNTIME(StreamCreateWithPriority, (struct sl_cu_stream * *stream, unsigned flags, int priority),
        cu.StreamCreateWithPriority(stream, flags, priority))
RUNTIME(StreamDestroy, (struct sl_cu_stream * stream), cu.StreamDestroy(stream))
RUNTIME(StreamQuery, (struct sl_cu_stream * stream), cu.StreamQuery(stream))
RUNTIME(StreamSynchronize, (struct sl_cu_stream * stream), cu.StreamSynchronize(stream))
RUNTIME(StreamWaitEvent, (struct sl_cu_stream * stream, struct sl_cu_event *event, unsigned flags),
        cu.StreamWaitEvent(stream, event, flags))
RUNTIME(EventCreateWithFlags, (struct sl_cu_event * *event, unsigned flags), cu.EventCreate(event, flags))
RUNTIME(EventRecord, (struct sl_cu_event * event, struct sl_cu_stream *stream), cu.EventRecord(event, stream))
RUNTIME(EventRecordWithFlags, (struct sl_cu_event * event, struct sl_cu_stream *stream, unsigned flags),
        flags ? SL_CU_NOT_SUPPORTED : cu.EventRecord(event, stream))
RUNTIME(EventQuery, (struct sl_cu_event * event), cu.EventQuery(event))
RUNTIME(EventSynchronize, (struct sl_cu_event * event), cu.EventSynchronize(event))
RUNTIME(EventDestroy, (struct sl_cu_event * event), cu.EventDestroy(event))
RUNTIME(EventElapsedTime, (float *milliseconds, struct sl_cu_event *from, struct sl_cu_event *to),
        cu.EventElapsedTime(milliseconds, from, to))

/* ---- memory ---- */

static int copy(void *to, const void *from, size_t size, int kind, struct sl_cu_stream *stream)
{
    switch (kind) {
    case TO_DEVICE: return cu.MemcpyHtoDAsync((uintptr_t)to, from, size, stream);
    case FROM_DEVICE: return cu.MemcpyDtoHAsync(to, (uintptr_t)from, size, stream);
    default: return cu.MemcpyAsync((uintptr_t)to, (uintptr_t)from, size, stream);
    }
}

/* Its wait breaks no capture of another stream (measured, driver 580), as that of cudaStreamSynchronize does. */
static int copy_and_wait(void *to, const void *from, size_t size, int kind)
{
    int mode = SL_CU_CAPTURE_MODE_RELAXED, code = copy(to, from, size, kind, SL_CU_LEGACY);

    if (code)
        return code;
    cu.ThreadExchangeStreamCaptureMode(&mode);
    code = cu.StreamSynchronize(SL_CU_LEGACY);
    cu.ThreadExchangeStreamCaptureMode(&mode);
    return code;
}

static int look_at(struct attributes *attributes, void *pointer)
{
    unsigned type = 0;
    unsigned char managed = 0;
    int ordinal = -1;
    uint64_t device = 0;
    void *host = NULL;
    int asked[] = { SL_CU_POINTER_MEMORY_TYPE, SL_CU_POINTER_IS_MANAGED, SL_CU_POINTER_ORDINAL, SL_CU_POINTER_DEVICE,
                    SL_CU_POINTER_HOST };
    void *answers[] = { &type, &managed, &ordinal, &device, &host };
    int code = cu.PointerGetAttributes(5, asked, answers, (uintptr_t)pointer);

    if (code)
        return code;
    *attributes = (struct attributes){
        .type = managed                       ? MANAGED
                : type == SL_CU_MEMORY_DEVICE ? ON_DEVICE
                : type                        ? ON_HOST
                                              : 0,
        .device = ordinal,
        .device_pointer = (void *)(uintptr_t)device,
        .host_pointer = host,
    };
    return 0;
}

RUNTIME(Malloc, (void **memory, size_t size), cu.MemAlloc((uint64_t *)memory, size))
RUNTIME(Free, (void *memory), memory ? cu.MemFree((uintptr_t)memory) : 0)
RUNTIME(MallocHost, (void **memory, size_t size), cu.MemHostAlloc(memory, size, 0))
RUNTIME(HostAlloc, (void **memory, size_t size, unsigned flags), cu.MemHostAlloc(memory, size, flags))
RUNTIME(FreeHost, (void *memory), cu.MemFreeHost(memory))
RUNTIME(HostRegister, (void *memory, size_t size, unsigned flags), cu.MemHostRegister(memory, size, flags))
RUNTIME(HostUnregister, (void *memory), cu.MemHostUnregister(memory))
RUNTIME(Memcpy, (void *to, const void *from, size_t size, int kind), copy_and_wait(to, from, size, kind))
RUNTIME(MemcpyAsync, (void *to, const void *from, size_t size, int kind, struct sl_cu_stream *stream),
        copy(to, from, size, kind, stream))
RUNTIME(PointerGetAttributes, (struct attributes * attributes, void *pointer), look_at(attributes, pointer))

/* ---- for other processes ---- */

RUNTIME(IpcGetMemHandle, (struct sl_cu_memory_handle * handle, void *memory),
        cu.IpcGetMemHandle(handle, (uintptr_t)memory))
RUNTIME(IpcOpenMemHandle, (void **memory, struct sl_cu_memory_handle handle, unsigned flags),
        cu.IpcOpenMemHandle((uint64_t *)memory, handle, flags))
RUNTIME(IpcCloseMemHandle, (void *memory), cu.IpcCloseMemHandle((uintptr_t)memory))
RUNTIME(IpcGetEventHandle, (struct sl_cu_event_handle * handle, struct sl_cu_event *event),
        cu.IpcGetEventHandle(handle, event))
RUNTIME(IpcOpenEventHandle, (struct sl_cu_event * *event, struct sl_cu_event_handle handle),
        cu.IpcOpenEventHandle(event, handle))

/* ---- functions that it lacks, though cuda-link looks for them when it starts ---- */

RUNTIME(StreamBeginCapture, (void), SL_CU_NOT_SUPPORTED)
RUNTIME(StreamEndCapture, (void), SL_CU_NOT_SUPPORTED)
RUNTIME(GraphInstantiateWithFlags, (void), SL_CU_NOT_SUPPORTED)
RUNTIME(GraphLaunch, (void), SL_CU_NOT_SUPPORTED)
RUNTIME(GraphDestroy, (void), SL_CU_NOT_SUPPORTED)
RUNTIME(GraphExecDestroy, (void), SL_CU_NOT_SUPPORTED)
RUNTIME(GraphGetNodes, (void), SL_CU_NOT_SUPPORTED)
RUNTIME(GraphExecMemcpyNodeSetParams, (void), SL_CU_NOT_SUPPORTED)
RUNTIME(GraphExecMemcpyNodeSetParams1D, (void), SL_CU_NOT_SUPPORTED)
RUNTIME(GraphExecEventRecordNodeSetEvent, (void), SL_CU_NOT_SUPPORTED)
RUNTIME(GraphExecEventWaitNodeSetEvent, (void), SL_CU_NOT_SUPPORTED)
