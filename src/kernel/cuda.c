/* SPDX-License-Identifier: MIT
 *
 * Kernels on GPUs: loading, functions, launches.
 */
#include "kernel/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/graph.h"
#include "util/result.h"

#define LOG_SIZE 4096

/* A kernel may have this much shared memory without asking for more. */
#define SHARED (48 << 10)

static struct sl_cuda_context *context_of(const struct sl_object *object)
{
    return object->device->state;
}

/* ---- modules ---- */

/* "ptxas application ptx input, line 9; fatal : Parsing error near ..." */
static int fail_to_load(const struct sl_module *module, int code, const char *log)
{
    struct sl_cuda_context *context = context_of(&module->object);
    int length = (int)strcspn(log, "\n");

    switch (code) {
    case SL_CU_INVALID_VALUE:
    case SL_CU_INVALID_IMAGE:
    case SL_CU_NO_BINARY_FOR_GPU:
    case SL_CU_INVALID_PTX:
    case SL_CU_NOT_FOUND: /* a symbol that it uses */
    case SL_CU_UNSUPPORTED_PTX_VERSION: break;
    default: return sl_cuda_check(context, code, "cuModuleLoadDataEx");
    }
    return sl_fail(SLUICE_E_INVALID, "%s cannot be loaded on \"%s\": %s (%d)%s%.*s", module->name, context->name,
                   sl_cuda_code_name(code), code, length ? ": " : "", length, log);
}

static int load(struct sl_module *module)
{
    struct sl_cuda_context *context = context_of(&module->object);
    int options[] = { SL_CU_JIT_ERROR_LOG, SL_CU_JIT_ERROR_LOG_SIZE };
    struct sl_cu_module *native;
    struct sl_cuda_scope scope;
    char log[LOG_SIZE] = "";
    void *values[] = { log, (void *)(uintptr_t)(sizeof log - 1) };

    int r = sl_cuda_image_check(module->name, module->code.bytes, module->code.size, module->code.kernel_count > 0);
    if (r != 0 || (r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope)) != 0)
        return r;
    int code = sl_cuda.ModuleLoadDataEx(&native, module->code.bytes, 2, options, values);
    sl_cuda_leave(&scope);
    if (code != SL_CU_OK)
        return fail_to_load(module, code, log);
    module->native = native;
    return 0;
}

struct unloading {
    struct sl_device *device; /* a reference */
    struct sl_cu_module *native;
};

/* Waits for the work that uses it. */
static void unload_now(struct sl_device *device, struct sl_cu_module *native)
{
    struct sl_cuda_context *context = device->state;
    struct sl_cuda_scope scope;

    if (sl_cuda_enter(context, SL_CUDA_RELAXED, &scope) != 0)
        return; /* it ended with the context */
    if (sl_cu(context, ModuleUnload, native) != 0)
        sl_log(SLUICE_LOG_WARN, "a module could not be unloaded: %s", sl_last_error());
    sl_cuda_leave(&scope);
}

static void unload_in_background(void *argument)
{
    struct unloading *unloading = argument;

    unload_now(unloading->device, unloading->native);
    sl_object_drop(&unloading->device->object);
    free(unloading);
}

static void unload(struct sl_module *module)
{
    struct unloading *unloading = malloc(sizeof *unloading);

    if (!unloading) {
        unload_now(module->object.device, module->native);
        return;
    }
    *unloading = (struct unloading){ module->object.device, module->native };
    sl_object_keep(&unloading->device->object);
    sl_background_run(unload_in_background, unloading);
}

/* ---- functions ---- */

static int query(struct sl_kernel *kernel, struct sl_cu_function *function)
{
    struct sl_cuda_context *context = context_of(&kernel->object);
    int threads = 0, shared = 0, local = 0, registers = 0, most = 0;
    int r = sl_cu(context, FuncGetAttribute, &threads, SL_CU_FUNCTION_MOST_THREADS, function);

    if (r == 0)
        r = sl_cu(context, FuncGetAttribute, &shared, SL_CU_FUNCTION_SHARED, function);
    if (r == 0)
        r = sl_cu(context, FuncGetAttribute, &local, SL_CU_FUNCTION_LOCAL, function);
    if (r == 0)
        r = sl_cu(context, FuncGetAttribute, &registers, SL_CU_FUNCTION_REGISTERS, function);
    if (r == 0)
        r = sl_cu(context, DeviceGetAttribute, &most, SL_CU_MOST_SHARED_OPT_IN, context->device);
    if (r != 0)
        return r;
    most -= shared;
    if (most + shared > SHARED) {
        r = sl_cu(context, FuncSetAttribute, function, SL_CU_FUNCTION_MOST_DYNAMIC_SHARED, most);
        if (r != 0)
            return r;
    } else {
        most = SHARED - shared;
    }
    kernel->most_threads = (uint32_t)threads;
    kernel->most_shared = most > 0 ? (uint32_t)most : 0;
    kernel->registers = (uint32_t)registers;
    kernel->shared = (uint32_t)shared;
    kernel->local = (uint32_t)local;
    return 0;
}

/* Drivers load a function at its first launch, unless asked to load it before. Those that cannot be asked load it when
 * its attributes are queried. */
static int get(struct sl_kernel *kernel, const char *symbol)
{
    struct sl_cuda_context *context = context_of(&kernel->object);
    struct sl_cu_function *function;
    struct sl_cuda_scope scope;

    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    int code = sl_cuda.ModuleGetFunction(&function, kernel->module->native, symbol);
    if (code == SL_CU_NOT_FOUND)
        r = SLUICE_E_NOT_FOUND;
    else
        r = sl_cuda_check(context, code, "cuModuleGetFunction");
    if (r == 0 && sl_cuda.FuncLoad)
        r = sl_cu(context, FuncLoad, function);
    if (r == 0)
        r = query(kernel, function);
    if (r == 0)
        kernel->native = function;
    sl_cuda_leave(&scope);
    return r;
}

static int parameters(struct sl_kernel *kernel, struct sluice_parameter *parameters, uint32_t *count)
{
    struct sl_cuda_context *context = context_of(&kernel->object);
    struct sl_cuda_scope scope;
    size_t offset, size;
    uint32_t i = 0;
    int code = SL_CU_OK;

    if (!sl_cuda.FuncGetParamInfo)
        return SLUICE_NOT_READY;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    for (; i <= SLUICE_MAX_PARAMETERS; i++) {
        code = sl_cuda.FuncGetParamInfo(kernel->native, i, &offset, &size);
        if (code != SL_CU_OK)
            break;
        if (i < SLUICE_MAX_PARAMETERS)
            parameters[i].bytes = (uint32_t)size;
    }
    sl_cuda_leave(&scope);
    if (i > SLUICE_MAX_PARAMETERS)
        return sl_fail(SLUICE_E_LIMIT, "%s: kernel '%s' has more than %d parameters", kernel->module->name,
                       kernel->name, SLUICE_MAX_PARAMETERS);
    if (code != SL_CU_INVALID_VALUE) /* there is no such parameter */
        return sl_cuda_check(context, code, "cuFuncGetParamInfo");
    *count = i;
    return 0;
}

/* ---- launches ---- */

/* A graph that records the launch keeps the kernel loaded. */
static int may_launch(struct sl_cuda_context *context, struct sl_kernel *kernel, struct sl_cu_stream *stream)
{
    bool any = atomic_load_explicit(&sl_captures, memory_order_acquire) > 0;
    uint64_t capture = 0;
    int r = sl_cuda_may_launch(context, stream, any ? &capture : NULL);

    return r == 0 && capture != 0 ? sl_capture_needs(capture, &kernel->object) : r;
}

static int launch(const struct sl_call *call, struct sl_stream *stream)
{
    struct sl_cuda_context *context = context_of(&stream->object);
    struct sl_cu_stream *native = (struct sl_cu_stream *)stream->native;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_PLAIN, &scope);

    if (r != 0)
        return r;
    r = may_launch(context, call->kernel, native);
    if (r == 0)
        r = sl_cu(context, LaunchKernel, call->kernel->native, call->grid[0], call->grid[1], call->grid[2],
                  call->block[0], call->block[1], call->block[2], call->shared, native, (void **)call->values, NULL);
    sl_cuda_leave(&scope);
    return r;
}

const struct sl_kernel_ops sl_kernel_cuda = {
    .kind = "cuda",
    .compiler = sl_cuda_compiler,
    .compiler_name = sl_cuda_compiler_name,
    .compile = sl_cuda_compile,
    .load = load,
    .unload = unload,
    .get = get,
    .parameters = parameters,
    .launch = launch,
    .memory_alloc = sl_cuda_scratch_alloc,
    .memory_free = sl_cuda_scratch_free,
    .is_pinned = sl_cuda_is_pinned,
    .copy_in = sl_cuda_copy_in,
    .copy_out = sl_cuda_copy_out,
};
