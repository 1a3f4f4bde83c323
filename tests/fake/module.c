/* SPDX-License-Identifier: MIT
 *
 * Modules and their functions. Images of the stand-in for NVRTC have real kernels; any PTX has those of gpu/kernels.c
 * and of the examples, which the thread of gpu.c does by itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake/internal.h"
#include "fake/nvrtc/image.h"

#define MOST_THREADS 1024

static const struct {
    struct fake_kernel kernel; /* its name and parameters */
    enum op_kind kind;
} kernels[] = {
    { { "spin", NULL, 1, (const size_t[]){ 8 } }, OP_SPIN },
    { { "fill", NULL, 3, (const size_t[]){ 8, 8, 4 } }, OP_FILL },
    { { "check", NULL, 4, (const size_t[]){ 8, 8, 4, 8 } }, OP_CHECK },
    { { "store", NULL, 2, (const size_t[]){ 8, 8 } }, OP_STORE },
    { { "edges", NULL, 6, (const size_t[]){ 8, 8, 4, 4, 4, 4 } }, OP_EDGES },
};
#define KERNELS (sizeof kernels / sizeof *kernels)

struct sl_cu_function {
    struct sl_cu_module *module;
    const struct fake_kernel *kernel;
    enum op_kind kind;
    bool loaded; /* else its first launch does that */
    struct sl_cu_function *next;
};

/* Stays for good, so that a use after its end is found. */
struct sl_cu_module {
    struct sl_cu_context *context;
    unsigned long long life; /* of the context */
    bool owned, ended;
    struct fake_image *image;         /* NULL: the kernels above */
    struct sl_cu_function *functions; /* that were asked for */
    struct sl_cu_module *next;
};

static struct sl_cu_module *modules;

static int load(struct sl_cu_module **loaded, const void *bytes, const char **log)
{
    struct fake_image *image = NULL;
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context)
        code = fake_wait_all(context); /* as a GPU does */
    if (code == 0)
        code = fake_image_open(bytes, &image, log);
    if (code == 0) {
        struct sl_cu_module *module = calloc(1, sizeof *module);
        if (!module)
            abort();
        *module = (struct sl_cu_module){
            .context = context, .life = context->id, .owned = fake_thread.library, .image = image, .next = modules
        };
        fake_living.modules += module->owned;
        *loaded = modules = module;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuModuleLoadData(struct sl_cu_module **module, const void *image)
{
    return load(module, image, &(const char *){ "" });
}

int fake_cuModuleLoadDataEx(struct sl_cu_module **module, const void *image, unsigned count, int *options,
                            void **values)
{
    const char *log = "";
    char *to = NULL;
    size_t size = 0;
    int code = load(module, image, &log);

    for (unsigned i = 0; i < count; i++) {
        if (options[i] == SL_CU_JIT_ERROR_LOG)
            to = values[i];
        if (options[i] == SL_CU_JIT_ERROR_LOG_SIZE)
            size = (uintptr_t)values[i];
    }
    if (to && size > 0)
        snprintf(to, size, "%s", log);
    return code;
}

/* With its context a module ends. */
bool fake_module_usable(const struct sl_cu_module *module)
{
    return !module->ended && module->context->alive && module->context->id == module->life;
}

int fake_cuModuleUnload(struct sl_cu_module *module)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context)
        code = fake_wait_all(context);
    if (context && !fake_module_usable(module)) {
        fake_break_rule("of a module that is none any more");
        code = SL_CU_INVALID_HANDLE;
    }
    if (code == 0) {
        module->ended = true;
        fake_living.modules -= module->owned;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

void fake_modules_end(struct sl_cu_context *context)
{
    for (struct sl_cu_module *m = modules; m; m = m->next) {
        if (m->context != context || m->ended)
            continue;
        m->ended = true;
        fake_living.modules -= m->owned;
    }
}

/* What the module has by that name. */
static bool find(const struct sl_cu_module *module, const char *name, struct sl_cu_function *function)
{
    if (module->image) {
        function->kernel = fake_image_find(module->image, name);
        function->kind = OP_RUN;
        return function->kernel;
    }
    for (size_t i = 0; i < KERNELS; i++) {
        if (strcmp(kernels[i].kernel.name, name) == 0) {
            function->kernel = &kernels[i].kernel;
            function->kind = kernels[i].kind;
            return true;
        }
    }
    return false;
}

/* Each of a module's has one handle. */
static struct sl_cu_function *get(struct sl_cu_module *module, const struct sl_cu_function *found)
{
    struct sl_cu_function *function = module->functions;

    while (function && function->kernel != found->kernel)
        function = function->next;
    if (function)
        return function;
    if (!(function = malloc(sizeof *function)))
        abort();
    *function = *found;
    function->module = module;
    function->next = module->functions;
    return module->functions = function;
}

int fake_cuModuleGetFunction(struct sl_cu_function **function, struct sl_cu_module *module, const char *name)
{
    struct sl_cu_function found = { .loaded = false };
    int code = SL_CU_OK;

    pthread_mutex_lock(&fake_lock);
    if (!fake_module_usable(module))
        code = SL_CU_INVALID_HANDLE;
    else if (!find(module, name, &found))
        code = SL_CU_NOT_FOUND;
    else
        *function = get(module, &found);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuFuncLoad(struct sl_cu_function *function)
{
    pthread_mutex_lock(&fake_lock);
    function->loaded = true;
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

int fake_cuFuncIsLoaded(int *state, struct sl_cu_function *function)
{
    *state = function->loaded;
    return SL_CU_OK;
}

/* It loads the function. */
int fake_cuFuncGetAttribute(int *value, int attribute, struct sl_cu_function *function)
{
    *value = attribute == SL_CU_FUNCTION_MOST_THREADS ? MOST_THREADS : attribute == SL_CU_FUNCTION_REGISTERS ? 16 : 0;
    return fake_cuFuncLoad(function);
}

int fake_cuFuncSetAttribute(struct sl_cu_function *function, int attribute, int value)
{
    (void)function;
    return attribute == SL_CU_FUNCTION_MOST_DYNAMIC_SHARED && value >= 0 ? SL_CU_OK : SL_CU_INVALID_VALUE;
}

int fake_cuFuncGetParamInfo(struct sl_cu_function *function, size_t index, size_t *offset, size_t *size)
{
    const struct fake_kernel *kernel = function->kernel;
    size_t at = 0;

    if (index >= kernel->count)
        return SL_CU_INVALID_VALUE;
    for (size_t i = 0; i <= index; i++) {
        size_t unit = kernel->sizes[i] % 8 == 0 ? 8 : kernel->sizes[i] % 4 == 0 ? 4 : 1;
        at = (at + unit - 1) / unit * unit;
        *offset = at;
        at += kernel->sizes[i];
    }
    *size = kernel->sizes[index];
    return SL_CU_OK;
}

static uint64_t wide(void *argument)
{
    uint64_t value;
    memcpy(&value, argument, sizeof value);
    return value;
}

static uint32_t narrow(void *argument)
{
    uint32_t value;
    memcpy(&value, argument, sizeof value);
    return value;
}

static void read_arguments(struct op *op, void **arguments)
{
    if (op->kind == OP_SPIN) {
        op->value = wide(arguments[0]);
    } else if (op->kind == OP_EDGES) {
        op->address = wide(arguments[0]);
        op->target = wide(arguments[1]);
        op->size = narrow(arguments[2]);
        op->rows = narrow(arguments[3]);
        op->address_pitch = narrow(arguments[4]);
        op->target_pitch = narrow(arguments[5]);
    } else {
        op->address = wide(arguments[0]);
        op->value = op->kind == OP_STORE ? wide(arguments[1]) : narrow(arguments[2]);
        op->size = op->kind == OP_STORE ? 0 : wide(arguments[1]);
        op->target = op->kind == OP_CHECK ? wide(arguments[3]) : 0;
    }
}

int fake_cuLaunchKernel(struct sl_cu_function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, struct sl_cu_stream *handle, void **arguments,
                        void **extra)
{
    const uint32_t grid[] = { gx, gy, gz }, block[] = { bx, by, bz };
    struct op op = { .kind = function->kind, .module = function->module };
    int code;

    (void)extra;
    if ((uint64_t)gx * gy * gz == 0 || (uint64_t)bx * by * bz == 0 || (uint64_t)bx * by * bz > MOST_THREADS)
        return SL_CU_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (stream && (!fake_module_usable(function->module) || function->module->context != stream->context))
        code = SL_CU_INVALID_HANDLE;
    if (code == 0 && !function->loaded)
        fake_break_rule("of a kernel that was not loaded before, which this does now");
    if (code == 0) {
        if (op.kind == OP_RUN)
            op.launch = fake_launch_new(function->module->image, function->kernel, grid, block, shared, arguments);
        else
            read_arguments(&op, arguments);
        code = fake_queue(stream, &op);
        fake_launch_drop(op.launch);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}
