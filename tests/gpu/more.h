/* SPDX-License-Identifier: MIT
 *
 * What tests ask of the CUDA driver beyond the library's own table: they act as the rest of a
 * program, which captures graphs, launches kernels and has contexts of its own. Same form as there.
 */
#ifndef GPU_MORE_H
#define GPU_MORE_H

#include "cuda/driver.h"

struct cu_module;
struct cu_function;
struct cu_exec;

enum { CAPTURE_GLOBAL = 0, CAPTURE_THREAD_LOCAL = 1, CAPTURE_RELAXED = 2 };

#define MORE_FUNCTIONS(X) \
    X(DeviceGetName, , (char *name, int size, int device), (name, size, device)) \
    X(DevicePrimaryCtxReset, _v2, (int device), (device)) \
    X(DevicePrimaryCtxGetState, , (int device, unsigned *flags, int *active), \
      (device, flags, active)) \
    X(CtxCreate, _v2, (struct sl_cu_context **context, unsigned flags, int device), \
      (context, flags, device)) \
    X(CtxDestroy, _v2, (struct sl_cu_context *context), (context)) \
    X(CtxSetCurrent, , (struct sl_cu_context *context), (context)) \
    X(CtxSynchronize, , (void), ()) \
    X(StreamBeginCapture, _v2, (struct sl_cu_stream *stream, int mode), (stream, mode)) \
    X(StreamEndCapture, , (struct sl_cu_stream *stream, struct sl_cu_graph **graph), \
      (stream, graph)) \
    X(GraphGetNodes, , \
      (struct sl_cu_graph *graph, struct sl_cu_node **nodes, size_t *count), \
      (graph, nodes, count)) \
    X(GraphDestroy, , (struct sl_cu_graph *graph), (graph)) \
    X(GraphInstantiateWithFlags, , \
      (struct cu_exec **exec, struct sl_cu_graph *graph, unsigned long long flags), \
      (exec, graph, flags)) \
    X(GraphLaunch, , (struct cu_exec *exec, struct sl_cu_stream *stream), (exec, stream)) \
    X(GraphExecDestroy, , (struct cu_exec *exec), (exec)) \
    X(MemAlloc, _v2, (uint64_t *address, size_t size), (address, size)) \
    X(MemFree, _v2, (uint64_t address), (address)) \
    X(MemcpyDtoHAsync, _v2, \
      (void *host, uint64_t device, size_t size, struct sl_cu_stream *stream), \
      (host, device, size, stream)) \
    X(StreamWaitValue64, _v2, \
      (struct sl_cu_stream *stream, uint64_t address, uint64_t value, unsigned flags), \
      (stream, address, value, flags)) \
    X(ModuleLoadData, , (struct cu_module **module, const void *image), (module, image)) \
    X(ModuleGetFunction, , \
      (struct cu_function **function, struct cu_module *module, const char *name), \
      (function, module, name)) \
    X(LaunchKernel, , \
      (struct cu_function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, \
       unsigned by, unsigned bz, unsigned shared, struct sl_cu_stream *stream, void **arguments, \
       void **extra), \
      (function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra))

#endif
