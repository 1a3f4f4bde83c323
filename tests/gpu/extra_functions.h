/* SPDX-License-Identifier: MIT
 *
 * The driver functions that tests need beyond the library's own table: tests act as the rest of a program, which
 * captures graphs, launches kernels and has contexts of its own. Same form as there.
 */
#ifndef GPU_EXTRA_FUNCTIONS_H
#define GPU_EXTRA_FUNCTIONS_H

#include "cuda/driver.h"

enum { CAPTURE_GLOBAL = 0, CAPTURE_THREAD_LOCAL = 1, CAPTURE_RELAXED = 2 };

#define EXTRA_FUNCTIONS(X) \
    X(DevicePrimaryCtxReset, _v2, (int device), (device)) \
    X(DevicePrimaryCtxGetState, , (int device, unsigned *flags, int *active), (device, flags, active)) \
    X(CtxCreate, _v2, (struct sl_cu_context * *context, unsigned flags, int device), (context, flags, device)) \
    X(CtxDestroy, _v2, (struct sl_cu_context * context), (context)) \
    X(CtxSetCurrent, , (struct sl_cu_context * context), (context)) \
    X(CtxSynchronize, , (void), ()) \
    X(StreamBeginCapture, _v2, (struct sl_cu_stream * stream, int mode), (stream, mode)) \
    X(StreamEndCapture, , (struct sl_cu_stream * stream, struct sl_cu_graph * *graph), (stream, graph)) \
    X(GraphGetNodes, , (struct sl_cu_graph * graph, struct sl_cu_node * *nodes, size_t * count), \
      (graph, nodes, count)) \
    X(GraphMemcpyNodeGetParams, , (struct sl_cu_node * node, struct sl_cu_copy_3d * copy), (node, copy)) \
    X(GraphExecMemcpyNodeSetParams, , \
      (struct sl_cu_exec * exec, struct sl_cu_node * node, const struct sl_cu_copy_3d *copy, \
       struct sl_cu_context *context), \
      (exec, node, copy, context)) \
    X(MemAllocManaged, , (uint64_t * address, size_t size, unsigned flags), (address, size, flags))

#endif
