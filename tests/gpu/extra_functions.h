/* SPDX-License-Identifier: MIT
 *
 * The driver functions that tests need beyond the library's own table: tests act as the rest of a program, which has
 * contexts of its own and changes nodes of graphs. Same form as there.
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
    X(ModuleLoadData, , (struct sl_cu_module * *module, const void *image), (module, image)) \
    X(GraphMemcpyNodeGetParams, , (struct sl_cu_node * node, struct sl_cu_copy_3d * copy), (node, copy)) \
    X(GraphExecMemcpyNodeSetParams, , \
      (struct sl_cu_exec * exec, struct sl_cu_node * node, const struct sl_cu_copy_3d *copy, \
       struct sl_cu_context *context), \
      (exec, node, copy, context)) \
    X(MemAllocManaged, , (uint64_t * address, size_t size, unsigned flags), (address, size, flags))

#endif
