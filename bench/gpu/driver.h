/* SPDX-License-Identifier: MIT
 *
 * The CUDA driver as a program uses it that knows nothing of Sluice: opened at run time, on GPU 0
 * or 1, in the primary context. Every call that fails ends the process with the driver's words.
 */
#ifndef BENCH_GPU_DRIVER_H
#define BENCH_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cu_context;
struct cu_stream;
struct cu_event;
struct cu_module;
struct cu_function;
struct cu_graph;
struct cu_node;
struct cu_exec;

struct cu_location {
    int type, id;
};

struct cu_allocation { /* CUmemAllocationProp */
    int type, handle_types;
    struct cu_location location;
    void *security;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

struct cu_access { /* CUmemAccessDesc */
    struct cu_location location;
    int flags;
};

union cu_mem_op { /* CUstreamBatchMemOpParams: a wait and a write look alike */
    struct {
        int operation;
        uint64_t address, value;
        unsigned flags;
        uint64_t alias;
    } op;
    uint64_t room[6];
};

struct cu_copy_3d { /* CUDA_MEMCPY3D */
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

struct cu_batch { /* CUDA_BATCH_MEM_OP_NODE_PARAMS */
    struct cu_context *context;
    unsigned count;
    union cu_mem_op *operations;
    unsigned flags;
};

enum { CU_WAIT_64 = 4, CU_WRITE_64 = 5 };
enum { CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_INTERPROCESS = 4 };

enum { CU_CAPTURE_THREAD_LOCAL = 1 };

struct cu_update { /* CUgraphExecUpdateResultInfo */
    int result;
    struct cu_node *node, *from;
};

struct cu_event_handle { /* CUipcEventHandle */
    unsigned char bytes[64];
};

/* X(name without its cu, version of its symbol, parameters) */
#define CU_FUNCTIONS(X) \
    X(Init, , (unsigned flags)) \
    X(DeviceGetCount, , (int *count)) \
    X(DeviceCanAccessPeer, , (int *can, int device, int peer)) \
    X(DeviceGetAttribute, , (int *value, int attribute, int device)) \
    X(GetErrorName, , (int code, const char **name)) \
    X(DevicePrimaryCtxRetain, , (struct cu_context * *context, int device)) \
    X(CtxSetCurrent, , (struct cu_context * context)) \
    X(CtxGetId, , (struct cu_context * context, unsigned long long *id)) \
    X(CtxPushCurrent, _v2, (struct cu_context * context)) \
    X(CtxPopCurrent, _v2, (struct cu_context * *context)) \
    X(ThreadExchangeStreamCaptureMode, , (int *mode)) \
    X(StreamIsCapturing, , (struct cu_stream * stream, int *status)) \
    X(PointerGetAttribute, , (void *value, int attribute, uint64_t address)) \
    X(PointerGetAttributes, , (unsigned count, int *attributes, void **values, uint64_t address)) \
    X(StreamCreateWithPriority, , (struct cu_stream * *stream, unsigned flags, int priority)) \
    X(StreamDestroy, _v2, (struct cu_stream * stream)) \
    X(StreamSynchronize, , (struct cu_stream * stream)) \
    X(StreamWaitEvent, , (struct cu_stream * stream, struct cu_event * event, unsigned flags)) \
    X(StreamBeginCapture, _v2, (struct cu_stream * stream, int mode)) \
    X(StreamEndCapture, , (struct cu_stream * stream, struct cu_graph * *graph)) \
    X(StreamWriteValue64, _v2, (struct cu_stream * stream, uint64_t address, uint64_t value, unsigned flags)) \
    X(StreamWaitValue64, _v2, (struct cu_stream * stream, uint64_t address, uint64_t value, unsigned flags)) \
    X(StreamBatchMemOp, _v2, (struct cu_stream * stream, unsigned count, union cu_mem_op *operations, unsigned flags)) \
    X(EventCreate, , (struct cu_event * *event, unsigned flags)) \
    X(EventDestroy, _v2, (struct cu_event * event)) \
    X(EventRecord, , (struct cu_event * event, struct cu_stream * stream)) \
    X(EventQuery, , (struct cu_event * event)) \
    X(IpcGetEventHandle, , (struct cu_event_handle * handle, struct cu_event * event)) \
    X(IpcOpenEventHandle, , (struct cu_event * *event, struct cu_event_handle handle)) \
    X(MemHostRegister, _v2, (void *address, size_t size, unsigned flags)) \
    X(MemHostUnregister, , (void *address)) \
    X(MemHostGetDevicePointer, _v2, (uint64_t * device, void *host, unsigned flags)) \
    X(MemGetInfo, _v2, (size_t * unused, size_t * total)) \
    X(MemAlloc, _v2, (uint64_t * address, size_t size)) \
    X(MemFree, _v2, (uint64_t address)) \
    X(MemAllocAsync, , (uint64_t * address, size_t size, struct cu_stream * stream)) \
    X(MemFreeAsync, , (uint64_t address, struct cu_stream * stream)) \
    X(MemcpyAsync, , (uint64_t to, uint64_t from, size_t size, struct cu_stream * stream)) \
    X(MemcpyDtoDAsync, _v2, (uint64_t to, uint64_t from, size_t size, struct cu_stream * stream)) \
    X(MemcpyDtoHAsync, _v2, (void *to, uint64_t from, size_t size, struct cu_stream *stream)) \
    X(MemcpyHtoDAsync, _v2, (uint64_t to, const void *from, size_t size, struct cu_stream *stream)) \
    X(MemCreate, , (uint64_t * handle, size_t size, const struct cu_allocation *what, unsigned long long flags)) \
    X(MemRelease, , (uint64_t handle)) \
    X(MemExportToShareableHandle, , (void *shareable, uint64_t handle, int type, unsigned long long flags)) \
    X(MemImportFromShareableHandle, , (uint64_t * handle, void *shareable, int type)) \
    X(MemAddressReserve, , \
      (uint64_t * address, size_t size, size_t alignment, uint64_t wish, unsigned long long flags)) \
    X(MemAddressFree, , (uint64_t address, size_t size)) \
    X(MemMap, , (uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags)) \
    X(MemUnmap, , (uint64_t address, size_t size)) \
    X(MemSetAccess, , (uint64_t address, size_t size, const struct cu_access *who, size_t count)) \
    X(ModuleLoadData, , (struct cu_module * *module, const void *image)) \
    X(ModuleUnload, , (struct cu_module * module)) \
    X(ModuleGetFunction, , (struct cu_function * *function, struct cu_module * module, const char *name)) \
    X(LaunchKernel, , \
      (struct cu_function * function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
       unsigned shared, struct cu_stream *stream, void **arguments, void **extra)) \
    X(GraphCreate, , (struct cu_graph * *graph, unsigned flags)) \
    X(GraphAddMemcpyNode, , \
      (struct cu_node * *node, struct cu_graph * graph, struct cu_node *const *after, size_t count, \
       const struct cu_copy_3d *copy, struct cu_context *context)) \
    X(GraphAddBatchMemOpNode, , \
      (struct cu_node * *node, struct cu_graph * graph, struct cu_node *const *after, size_t count, \
       const struct cu_batch *batch)) \
    X(GraphInstantiateWithFlags, , (struct cu_exec * *exec, struct cu_graph * graph, unsigned long long flags)) \
    X(GraphExecBatchMemOpNodeSetParams, , \
      (struct cu_exec * exec, struct cu_node * node, const struct cu_batch *batch)) \
    X(GraphExecUpdate, _v2, (struct cu_exec * exec, struct cu_graph * graph, struct cu_update * update)) \
    X(GraphLaunch, , (struct cu_exec * exec, struct cu_stream * stream)) \
    X(GraphExecDestroy, , (struct cu_exec * exec)) \
    X(GraphDestroy, , (struct cu_graph * graph))

struct cu_driver {
#define CU_MEMBER(name, version, parameters) int(*name) parameters;
    CU_FUNCTIONS(CU_MEMBER)
#undef CU_MEMBER
};
extern struct cu_driver cu;

/* CU(StreamSynchronize, stream): the call, which must go well. */
#define CU(name, ...) cu_check("cu" #name, cu.name(__VA_ARGS__))
void cu_check(const char *function, int code);

/* Opens the driver and makes this GPU's primary context current. The first time it takes long. */
void gpu_open(int device);

/* The module of gpu_kernels on the current GPU. */
struct cu_module *gpu_module(void);

/* Is there a second GPU, which reaches the memory of the first? */
bool gpu_has_peer(void);

struct cu_stream *gpu_stream(void);   /* non-blocking */
struct cu_context *gpu_context(void); /* the current one */

/* Kernels that do nothing for a time: one block, or one on every multiprocessor. */
void gpu_spin(struct cu_stream *stream, int64_t ns);
void gpu_spin_everywhere(struct cu_stream *stream, int64_t ns);

/* Makes host memory known to the GPU; whole pages. Returns where the GPU sees it. */
uint64_t gpu_register(void *memory, size_t size);
void *gpu_pinned(size_t size);
void gpu_pinned_free(void *memory, size_t size);

/* Memory of GPU 0, mapped for the current one, that two processes have: a descriptor made by one maps
 * it in the other. */
#define GPU_PAGE ((size_t)2 << 20)
struct gpu_shared {
    uint64_t address, handle;
    size_t size; /* whole pages */
};
struct gpu_shared gpu_shared_make(size_t size, int *fd);
struct gpu_shared gpu_shared_take(size_t size, int fd); /* closes it */
void gpu_shared_free(struct gpu_shared memory);

#endif
