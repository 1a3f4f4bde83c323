/* SPDX-License-Identifier: MIT
 *
 * NVIDIA's CUDA driver API as used here: loaded at run time, never linked, and without NVIDIA's
 * headers. This is the only file that names its functions; types and numbers follow its binary
 * interface. The fake driver of the tests is generated from the same table.
 */
#ifndef SL_CUDA_DRIVER_H
#define SL_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_cu_context; /* CUcontext and so on point to these */
struct sl_cu_stream;
struct sl_cu_event;
struct sl_cu_graph;
struct sl_cu_node; /* CUgraphNode: a node of a graph that is not instantiated */
struct sl_cu_exec; /* CUgraphExec: a graph that can be launched */
struct sl_cu_module;
struct sl_cu_function;

/* CUdevice is an int, CUresult an int, CUdeviceptr and CUmemGenericAllocationHandle a uint64_t. */

/* The streams that have special handles instead of addresses. 0 is the legacy default stream, too. */
#define SL_CU_LEGACY     ((struct sl_cu_stream *)1)
#define SL_CU_PER_THREAD ((struct sl_cu_stream *)2)

enum sl_cu_code {
    SL_CU_OK = 0,
    SL_CU_INVALID_VALUE = 1,
    SL_CU_OUT_OF_MEMORY = 2,
    SL_CU_DEINITIALIZED = 4,
    SL_CU_STUB_LIBRARY = 34,
    SL_CU_DEVICE_UNAVAILABLE = 46,
    SL_CU_NO_DEVICE = 100,
    SL_CU_INVALID_DEVICE = 101,
    SL_CU_NOT_LICENSED = 102,
    SL_CU_INVALID_IMAGE = 200,
    SL_CU_INVALID_CONTEXT = 201,
    SL_CU_NO_BINARY_FOR_GPU = 209,
    SL_CU_ECC_UNCORRECTABLE = 214,
    SL_CU_INVALID_PTX = 218,
    SL_CU_NVLINK_UNCORRECTABLE = 220,
    SL_CU_UNSUPPORTED_PTX_VERSION = 222,
    SL_CU_CONTAINED = 226,
    SL_CU_OPERATING_SYSTEM = 304,
    SL_CU_INVALID_HANDLE = 400,
    SL_CU_ILLEGAL_STATE = 401,
    SL_CU_NOT_FOUND = 500,
    SL_CU_NOT_READY = 600,
    SL_CU_ILLEGAL_ADDRESS = 700,
    SL_CU_LAUNCH_TIMEOUT = 702,
    SL_CU_CONTEXT_IS_DESTROYED = 709,
    SL_CU_ASSERT = 710,
    SL_CU_ALREADY_REGISTERED = 712,
    SL_CU_NOT_REGISTERED = 713,
    SL_CU_HARDWARE_STACK_ERROR = 714,
    SL_CU_ILLEGAL_INSTRUCTION = 715,
    SL_CU_MISALIGNED_ADDRESS = 716,
    SL_CU_INVALID_ADDRESS_SPACE = 717,
    SL_CU_INVALID_PC = 718,
    SL_CU_LAUNCH_FAILED = 719,
    SL_CU_TENSOR_MEMORY_LEAK = 721,
    SL_CU_NOT_PERMITTED = 800,
    SL_CU_NOT_SUPPORTED = 801,
    SL_CU_SYSTEM_NOT_READY = 802,
    SL_CU_SYSTEM_DRIVER_MISMATCH = 803,
    SL_CU_COMPAT_NOT_SUPPORTED = 804,
    SL_CU_MPS_CONNECTION_FAILED = 805,
    SL_CU_MPS_RPC_FAILURE = 806,
    SL_CU_MPS_SERVER_NOT_READY = 807,
    SL_CU_MPS_MAX_CLIENTS = 808,
    SL_CU_MPS_MAX_CONNECTIONS = 809,
    SL_CU_MPS_CLIENT_TERMINATED = 810,
    SL_CU_CAPTURE_UNSUPPORTED = 900,
    SL_CU_CAPTURE_INVALIDATED = 901,
    SL_CU_CAPTURE_MERGE = 902,
    SL_CU_CAPTURE_UNMATCHED = 903,
    SL_CU_CAPTURE_UNJOINED = 904,
    SL_CU_CAPTURE_ISOLATION = 905,
    SL_CU_CAPTURE_IMPLICIT = 906,
    SL_CU_CAPTURED_EVENT = 907,
    SL_CU_CAPTURE_WRONG_THREAD = 908,
    SL_CU_EXEC_UPDATE_FAILURE = 910,
    SL_CU_EXTERNAL_DEVICE = 911,
    SL_CU_UNKNOWN = 999,
};

enum {
    SL_CU_STREAM_NON_BLOCKING = 1,
    SL_CU_EVENT_BLOCKING_SYNC = 1,
    SL_CU_EVENT_DISABLE_TIMING = 2,
    SL_CU_EVENT_INTERPROCESS = 4, /* requires SL_CU_EVENT_DISABLE_TIMING */
    SL_CU_CAPTURE_MODE_THREAD_LOCAL = 1,
    SL_CU_CAPTURE_MODE_RELAXED = 2,
    SL_CU_CAPTURE_STATUS_NONE = 0,
    SL_CU_CAPTURE_STATUS_ACTIVE = 1,
    SL_CU_CAPTURE_STATUS_INVALIDATED = 2,
    SL_CU_HANDLE_POSIX_FD = 1,
    SL_CU_IPC_ENABLE_PEERS = 1,
    SL_CU_LOCATION_DEVICE = 1,
    SL_CU_ALLOCATION_PINNED = 1,
    SL_CU_ACCESS_READ = 1,
    SL_CU_ACCESS_READ_WRITE = 3,
    SL_CU_HOST_PORTABLE = 1,
    SL_CU_HOST_DEVICEMAP = 2,
    SL_CU_HOST_READ_ONLY = 8,
    SL_CU_MEM_OP_WAIT_64 = 4,
    SL_CU_MEM_OP_WRITE_64 = 5,
    SL_CU_WAIT_GEQ = 0, /* (int64_t)(word - value) >= 0 */
    SL_CU_WAIT_EQ = 1,
    SL_CU_MEMORY_HOST = 1, /* CUmemorytype */
    SL_CU_MEMORY_DEVICE = 2,
    SL_CU_MEMORY_UNIFIED = 4,
    SL_CU_COMPUTE_DEFAULT = 0, /* value of SL_CU_COMPUTE_MODE */
    SL_CU_COMPUTE_PROHIBITED = 2,
    SL_CU_COMPUTE_EXCLUSIVE_PROCESS = 3,
};

/* CUdevice_attribute. Of 64-bit stream memory operations there is one attribute, for waits and
 * writes alike. */
enum sl_cu_attribute {
    SL_CU_KERNEL_TIMEOUT = 17,
    SL_CU_INTEGRATED = 18,
    SL_CU_COMPUTE_MODE = 20,
    SL_CU_TCC_DRIVER = 35, /* Windows: a driver model of its own, not WDDM */
    SL_CU_COPY_ENGINES = 40,
    SL_CU_COMPUTE_CAPABILITY_MAJOR = 75,
    SL_CU_COMPUTE_CAPABILITY_MINOR = 76,
    SL_CU_CAN_USE_HOST_POINTER = 91,
    SL_CU_MOST_SHARED_OPT_IN = 97, /* bytes of a block, for kernels that ask for them */
    SL_CU_CAN_REGISTER_HOST = 99,
    SL_CU_CAN_MAP_MEMORY = 102,
    SL_CU_CAN_EXPORT_FD = 103,
    SL_CU_CAN_REGISTER_READ_ONLY = 113,
    SL_CU_MEMORY_POOLS = 115, /* MemAllocAsync */
    SL_CU_CAN_WRITE_64 = 122,
    SL_CU_CAN_WAIT_64 = 122,
    SL_CU_MPS_ENABLED = 133,      /* newer drivers only */
    SL_CU_CAN_SHARE_EVENTS = 125, /* and memory, by handles of 64 bytes */
};

/* CUfunction_attribute. */
enum sl_cu_function_attribute {
    SL_CU_FUNCTION_MOST_THREADS = 0, /* of a block */
    SL_CU_FUNCTION_SHARED = 1,       /* bytes of a block, without those given at a launch */
    SL_CU_FUNCTION_LOCAL = 3,        /* bytes of a thread */
    SL_CU_FUNCTION_REGISTERS = 4,
    SL_CU_FUNCTION_MOST_DYNAMIC_SHARED = 8, /* can be set */
};

/* CUjit_option: with ModuleLoadDataEx, a value of the size of a pointer for each. */
enum sl_cu_jit_option {
    SL_CU_JIT_INFO_LOG = 3, /* char * */
    SL_CU_JIT_INFO_LOG_SIZE = 4,
    SL_CU_JIT_ERROR_LOG = 5, /* char * */
    SL_CU_JIT_ERROR_LOG_SIZE = 6,
};

/* CUpointer_attribute: the attributes that PointerGetAttributes can query, and the types it stores.
 * It stores 0 for an attribute that a pointer does not have. */
enum sl_cu_pointer_attribute {
    SL_CU_POINTER_CONTEXT = 1,      /* struct sl_cu_context *; NULL for memory mapped by MemMap */
    SL_CU_POINTER_MEMORY_TYPE = 2,  /* unsigned; 0: the driver does not know the pointer */
    SL_CU_POINTER_DEVICE = 3,       /* uint64_t: the address on GPUs */
    SL_CU_POINTER_HOST = 4,         /* void *: the address on the CPU */
    SL_CU_POINTER_BUFFER_ID = 7,    /* unsigned long long: never reused in this process */
    SL_CU_POINTER_IS_MANAGED = 8,   /* unsigned char (bool) */
    SL_CU_POINTER_ORDINAL = 9,      /* int; -2: none */
    SL_CU_POINTER_RANGE_START = 11, /* uint64_t */
    SL_CU_POINTER_RANGE_SIZE = 12,  /* size_t */
    SL_CU_POINTER_MAPPED = 13,      /* unsigned char (bool) */
    SL_CU_POINTER_ACCESS = 16,      /* int: SL_CU_ACCESS_..., of the current context's GPU */
};

struct sl_cu_location {
    int type, id;
};

struct sl_cu_allocation { /* CUmemAllocationProp */
    int type, handle_types;
    struct sl_cu_location location;
    void *security;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

struct sl_cu_access { /* CUmemAccessDesc */
    struct sl_cu_location location;
    int flags;
};

/* CUstreamBatchMemOpParams, of which we use the 64-bit write and wait: both have the same layout. */
union sl_cu_mem_op {
    struct sl_cu_mem_op_value {
        int operation;
        uint64_t address, value;
        unsigned flags;
        uint64_t alias;
    } write, wait;
    uint64_t room[6];
};

/* CUDA_MEMCPY2D: a place and a pitch for each side; the types are SL_CU_MEMORY_... */
struct sl_cu_copy_2d {
    size_t from_x, from_y;
    int from_type;
    const void *from_host;
    uint64_t from_device;
    void *from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    int to_type;
    void *to_host;
    uint64_t to_device;
    void *to_array;
    size_t to_pitch;
    size_t width, height; /* in bytes, in rows */
};

/* CUDA_MEMCPY3D: the same with layers, which we do not use: `depth` is 1. */
struct sl_cu_copy_3d {
    size_t from_x, from_y, from_z, from_level;
    int from_type;
    const void *from_host;
    uint64_t from_device;
    void *from_array, *from_reserved;
    size_t from_pitch, from_height;
    size_t to_x, to_y, to_z, to_level;
    int to_type;
    void *to_host;
    uint64_t to_device;
    void *to_array, *to_reserved;
    size_t to_pitch, to_height;
    size_t width, height, depth;
};

struct sl_cu_batch { /* CUDA_BATCH_MEM_OP_NODE_PARAMS: the arguments of StreamBatchMemOp, as a graph node */
    struct sl_cu_context *context;
    unsigned count;
    union sl_cu_mem_op *operations;
    unsigned flags;
};

struct sl_cu_update {               /* CUgraphExecUpdateResultInfo */
    int result;                     /* 0: it was updated; enum sl_cu_update_result: why not */
    struct sl_cu_node *node, *from; /* where the two graphs differ */
};

enum sl_cu_update_result {
    SL_CU_UPDATE_FAILED = 1,
    SL_CU_UPDATE_TOPOLOGY_CHANGED = 2,
    SL_CU_UPDATE_TYPE_CHANGED = 3,
};

struct sl_cu_event_handle { /* CUipcEventHandle */
    char bytes[64];
};

struct sl_cu_memory_handle { /* CUipcMemHandle */
    char bytes[64];
};

/* X(name without the prefix cu, version suffix of its symbol, parameters, arguments). A function
 * that has changed over the years has a version in its symbol; the plain name is the oldest. These
 * are the newest that CUDA 12.0 has. None is a "per-thread default stream" variant: 0 is the legacy
 * default stream. */
#define SL_CUDA_FUNCTIONS(X) \
    X(Init, , (unsigned flags), (flags)) \
    X(DriverGetVersion, , (int *version), (version)) \
    X(GetErrorName, , (int code, const char **name), (code, name)) \
    X(DeviceGetCount, , (int *count), (count)) \
    X(DeviceGet, , (int *device, int ordinal), (device, ordinal)) \
    X(DeviceGetUuid, _v2, (unsigned char *uuid, int device), (uuid, device)) \
    X(DeviceGetAttribute, , (int *value, int attribute, int device), (value, attribute, device)) \
    X(DevicePrimaryCtxRetain, , (struct sl_cu_context * *context, int device), (context, device)) \
    X(DevicePrimaryCtxRelease, _v2, (int device), (device)) \
    X(CtxGetId, , (struct sl_cu_context * context, unsigned long long *id), (context, id)) \
    X(CtxGetCurrent, , (struct sl_cu_context * *context), (context)) \
    X(CtxPushCurrent, _v2, (struct sl_cu_context * context), (context)) \
    X(CtxPopCurrent, _v2, (struct sl_cu_context * *context), (context)) \
    X(ThreadExchangeStreamCaptureMode, , (int *mode), (mode)) \
    X(StreamIsCapturing, , (struct sl_cu_stream * stream, int *status), (stream, status)) \
    X(StreamGetCaptureInfo, _v2, \
      (struct sl_cu_stream * stream, int *status, uint64_t *id, struct sl_cu_graph **graph, \
       struct sl_cu_node *const **nodes, size_t *count), \
      (stream, status, id, graph, nodes, count)) \
    X(StreamCreateWithPriority, , (struct sl_cu_stream * *stream, unsigned flags, int priority), \
      (stream, flags, priority)) \
    X(StreamDestroy, _v2, (struct sl_cu_stream * stream), (stream)) \
    X(StreamGetCtx, , (struct sl_cu_stream * stream, struct sl_cu_context * *context), (stream, context)) \
    X(StreamGetFlags, , (struct sl_cu_stream * stream, unsigned *flags), (stream, flags)) \
    X(StreamGetPriority, , (struct sl_cu_stream * stream, int *priority), (stream, priority)) \
    X(StreamQuery, , (struct sl_cu_stream * stream), (stream)) \
    X(StreamSynchronize, , (struct sl_cu_stream * stream), (stream)) \
    X(StreamWaitEvent, , (struct sl_cu_stream * stream, struct sl_cu_event * event, unsigned flags), \
      (stream, event, flags)) \
    X(StreamWriteValue64, _v2, (struct sl_cu_stream * stream, uint64_t address, uint64_t value, unsigned flags), \
      (stream, address, value, flags)) \
    X(StreamBatchMemOp, _v2, \
      (struct sl_cu_stream * stream, unsigned count, union sl_cu_mem_op *operations, unsigned flags), \
      (stream, count, operations, flags)) \
    X(EventCreate, , (struct sl_cu_event * *event, unsigned flags), (event, flags)) \
    X(EventDestroy, _v2, (struct sl_cu_event * event), (event)) \
    X(EventRecord, , (struct sl_cu_event * event, struct sl_cu_stream * stream), (event, stream)) \
    X(EventQuery, , (struct sl_cu_event * event), (event)) \
    X(EventSynchronize, , (struct sl_cu_event * event), (event)) \
    X(EventElapsedTime, , (float *milliseconds, struct sl_cu_event *start, struct sl_cu_event *stop), \
      (milliseconds, start, stop)) \
    X(MemGetInfo, _v2, (size_t * unused, size_t * total), (unused, total)) \
    X(MemGetAllocationGranularity, , (size_t * unit, const struct sl_cu_allocation *what, int option), \
      (unit, what, option)) \
    X(MemCreate, , (uint64_t * handle, size_t size, const struct sl_cu_allocation *what, unsigned long long flags), \
      (handle, size, what, flags)) \
    X(MemRelease, , (uint64_t handle), (handle)) \
    X(MemExportToShareableHandle, , (void *shareable, uint64_t handle, int type, unsigned long long flags), \
      (shareable, handle, type, flags)) \
    X(MemImportFromShareableHandle, , (uint64_t * handle, void *shareable, int type), (handle, shareable, type)) \
    X(MemAddressReserve, , \
      (uint64_t * address, size_t size, size_t alignment, uint64_t wish, unsigned long long flags), \
      (address, size, alignment, wish, flags)) \
    X(MemAddressFree, , (uint64_t address, size_t size), (address, size)) \
    X(MemMap, , (uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags), \
      (address, size, offset, handle, flags)) \
    X(MemUnmap, , (uint64_t address, size_t size), (address, size)) \
    X(MemSetAccess, , (uint64_t address, size_t size, const struct sl_cu_access *who, size_t count), \
      (address, size, who, count)) \
    X(MemsetD8Async, , (uint64_t address, unsigned char value, size_t size, struct sl_cu_stream *stream), \
      (address, value, size, stream)) \
    X(MemHostRegister, _v2, (void *address, size_t size, unsigned flags), (address, size, flags)) \
    X(MemHostUnregister, , (void *address), (address)) \
    X(MemHostGetDevicePointer, _v2, (uint64_t * device, void *host, unsigned flags), (device, host, flags)) \
    /* Properties of a GPU. */ \
    X(DeviceGetName, , (char *name, int size, int device), (name, size, device)) \
    X(DeviceTotalMem, _v2, (size_t * total, int device), (total, device)) \
    X(DeviceGetPCIBusId, , (char *text, int size, int device), (text, size, device)) \
    X(DeviceCanAccessPeer, , (int *can, int device, int peer), (can, device, peer)) \
    X(CtxEnablePeerAccess, , (struct sl_cu_context * peer, unsigned flags), (peer, flags)) \
    /* Waits in streams, and unique IDs of streams. */ \
    X(StreamWaitValue64, _v2, (struct sl_cu_stream * stream, uint64_t address, uint64_t value, unsigned flags), \
      (stream, address, value, flags)) \
    X(StreamGetId, , (struct sl_cu_stream * stream, unsigned long long *id), (stream, id)) \
    X(LaunchHostFunc, , (struct sl_cu_stream * stream, void (*function)(void *data), void *data), \
      (stream, function, data)) \
    /* Copies, and queries about pointers. */ \
    X(MemcpyHtoDAsync, _v2, (uint64_t to, const void *from, size_t size, struct sl_cu_stream *stream), \
      (to, from, size, stream)) \
    X(MemcpyDtoHAsync, _v2, (void *to, uint64_t from, size_t size, struct sl_cu_stream *stream), \
      (to, from, size, stream)) \
    X(MemcpyDtoDAsync, _v2, (uint64_t to, uint64_t from, size_t size, struct sl_cu_stream * stream), \
      (to, from, size, stream)) \
    X(MemcpyAsync, , (uint64_t to, uint64_t from, size_t size, struct sl_cu_stream * stream), \
      (to, from, size, stream)) \
    X(MemcpyPeerAsync, , \
      (uint64_t to, struct sl_cu_context * to_context, uint64_t from, struct sl_cu_context * from_context, \
       size_t size, struct sl_cu_stream * stream), \
      (to, to_context, from, from_context, size, stream)) \
    X(Memcpy2DAsync, _v2, (const struct sl_cu_copy_2d *copy, struct sl_cu_stream *stream), (copy, stream)) \
    X(MemHostAlloc, , (void **memory, size_t size, unsigned flags), (memory, size, flags)) \
    X(MemFreeHost, , (void *memory), (memory)) \
    X(PointerGetAttribute, , (void *value, int attribute, uint64_t pointer), (value, attribute, pointer)) \
    X(PointerGetAttributes, , (unsigned count, int *attributes, void **values, uint64_t pointer), \
      (count, attributes, values, pointer)) \
    /* Events that other processes may open. */ \
    X(IpcGetEventHandle, , (struct sl_cu_event_handle * handle, struct sl_cu_event * event), (handle, event)) \
    X(IpcOpenEventHandle, , (struct sl_cu_event * *event, struct sl_cu_event_handle handle), (event, handle)) \
    /* Memory that other processes may open, where it cannot be exported as a descriptor. */ \
    X(MemAlloc, _v2, (uint64_t * address, size_t size), (address, size)) \
    X(MemFree, _v2, (uint64_t address), (address)) \
    X(IpcGetMemHandle, , (struct sl_cu_memory_handle * handle, uint64_t address), (handle, address)) \
    X(IpcOpenMemHandle, _v2, (uint64_t * address, struct sl_cu_memory_handle handle, unsigned flags), \
      (address, handle, flags)) \
    X(IpcCloseMemHandle, , (uint64_t address), (address)) \
    /* Kernels, and memory in stream order. */ \
    X(ModuleLoadDataEx, , \
      (struct sl_cu_module * *module, const void *image, unsigned count, int *options, void **values), \
      (module, image, count, options, values)) \
    X(ModuleUnload, , (struct sl_cu_module * module), (module)) \
    X(ModuleGetFunction, , (struct sl_cu_function * *function, struct sl_cu_module * module, const char *name), \
      (function, module, name)) \
    X(FuncGetAttribute, , (int *value, int attribute, struct sl_cu_function *function), (value, attribute, function)) \
    X(FuncSetAttribute, , (struct sl_cu_function * function, int attribute, int value), (function, attribute, value)) \
    X(LaunchKernel, , \
      (struct sl_cu_function * function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
       unsigned shared, struct sl_cu_stream *stream, void **arguments, void **extra), \
      (function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra)) \
    X(MemAllocAsync, , (uint64_t * address, size_t size, struct sl_cu_stream * stream), (address, size, stream)) \
    X(MemFreeAsync, , (uint64_t address, struct sl_cu_stream * stream), (address, stream)) \
    /* Graphs, captured on a program's demand or built node by node. */ \
    X(StreamBeginCapture, _v2, (struct sl_cu_stream * stream, int mode), (stream, mode)) \
    X(StreamEndCapture, , (struct sl_cu_stream * stream, struct sl_cu_graph * *graph), (stream, graph)) \
    X(GraphGetNodes, , (struct sl_cu_graph * graph, struct sl_cu_node * *nodes, size_t * count), \
      (graph, nodes, count)) \
    X(GraphGetEdges, , \
      (struct sl_cu_graph * graph, struct sl_cu_node * *from, struct sl_cu_node * *to, size_t * count), \
      (graph, from, to, count)) \
    X(GraphExecUpdate, _v2, (struct sl_cu_exec * exec, struct sl_cu_graph * graph, struct sl_cu_update * update), \
      (exec, graph, update)) \
    X(GraphCreate, , (struct sl_cu_graph * *graph, unsigned flags), (graph, flags)) \
    X(GraphAddMemcpyNode, , \
      (struct sl_cu_node * *node, struct sl_cu_graph * graph, struct sl_cu_node *const *after, size_t count, \
       const struct sl_cu_copy_3d *copy, struct sl_cu_context *context), \
      (node, graph, after, count, copy, context)) \
    X(GraphAddBatchMemOpNode, , \
      (struct sl_cu_node * *node, struct sl_cu_graph * graph, struct sl_cu_node *const *after, size_t count, \
       const struct sl_cu_batch *batch), \
      (node, graph, after, count, batch)) \
    X(GraphExecBatchMemOpNodeSetParams, , \
      (struct sl_cu_exec * exec, struct sl_cu_node * node, const struct sl_cu_batch *batch), (exec, node, batch)) \
    X(GraphInstantiateWithFlags, , (struct sl_cu_exec * *exec, struct sl_cu_graph * graph, unsigned long long flags), \
      (exec, graph, flags)) \
    X(GraphLaunch, , (struct sl_cu_exec * exec, struct sl_cu_stream * stream), (exec, stream)) \
    X(GraphExecDestroy, , (struct sl_cu_exec * exec), (exec)) \
    X(GraphDestroy, , (struct sl_cu_graph * graph), (graph))

/* Functions of CUDA 12.4, which older drivers lack: then they are NULL. Same form. */
#define SL_CUDA_OPTIONAL_VERSION 12040
#define SL_CUDA_OPTIONAL_FUNCTIONS(X) \
    X(FuncIsLoaded, , (int *state, struct sl_cu_function *function), (state, function)) \
    X(FuncLoad, , (struct sl_cu_function * function), (function)) \
    X(FuncGetParamInfo, , (struct sl_cu_function * function, size_t index, size_t * offset, size_t * size), \
      (function, index, offset, size))

struct sl_cuda_driver {
#define SL_CUDA_MEMBER(name, version, parameters, arguments) int(*name) parameters;
    SL_CUDA_FUNCTIONS(SL_CUDA_MEMBER)
    SL_CUDA_OPTIONAL_FUNCTIONS(SL_CUDA_MEMBER)
#undef SL_CUDA_MEMBER
};

/* Valid once sl_cuda_load has returned 0, for the life of the process. */
extern struct sl_cuda_driver sl_cuda;

/* The driver's file: SLUICE_CUDA_DRIVER, else libcuda.so.1. */
const char *sl_cuda_library(void);

/* Finds the functions in the driver's library, which is for CUDA `version`. SLUICE_E_UNSUPPORTED if one is missing. */
int sl_cuda_bind(void *library, int version);

/* ---- load.c ---- */

/* Loads and initialises the driver. After a failure the next call tries again. SLUICE_E_UNSUPPORTED
 * with the reason and the remedy: no driver, too old, no GPU, ...; SLUICE_E_NO_DESCRIPTORS. */
int sl_cuda_load(void);

/* Has this process loaded the driver, be it for another library? Does not load it. Cheap. */
bool sl_cuda_present(void);

/* Version of the loaded driver: 13000 for CUDA 13.0; 0 if none is loaded. Does not load it. */
uint32_t sl_cuda_version(void);

#endif
