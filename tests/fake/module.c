/* SPDX-License-Identifier: MIT
 *
 * The kernels of gpu/kernels.c and of the examples, which the thread of gpu.c does by itself.
 */
#include <stdlib.h>
#include <string.h>

#include "fake/internal.h"

static const struct {
    const char *name;
    enum op_kind kind;
} kernels[] = {
    { "spin", OP_SPIN }, { "fill", OP_FILL }, { "check", OP_CHECK }, { "store", OP_STORE }, { "edges", OP_EDGES },
};
#define KERNELS (sizeof kernels / sizeof *kernels)

struct sl_cu_function {
    struct sl_cu_module *module;
    enum op_kind kind;
};

/* Stays for good, so that a use after its end is found. */
struct sl_cu_module {
    struct sl_cu_context *context;
    unsigned long long life; /* of the context */
    bool owned, ended;
    struct sl_cu_function functions[KERNELS];
    struct sl_cu_module *next;
};

static struct sl_cu_module *modules;

int fake_cuModuleLoadData(struct sl_cu_module **loaded, const void *image)
{
    int code;

    (void)image;
    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context)
        code = fake_wait_all(context); /* as a GPU does */
    if (code == 0) {
        struct sl_cu_module *module = calloc(1, sizeof *module);
        if (!module)
            abort();
        *module = (struct sl_cu_module){
            .context = context, .life = context->id, .owned = fake_thread.library, .next = modules
        };
        for (size_t i = 0; i < KERNELS; i++)
            module->functions[i] = (struct sl_cu_function){ module, kernels[i].kind };
        fake_living.modules += module->owned;
        *loaded = modules = module;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* With its context a module ends. */
static bool usable(const struct sl_cu_module *module)
{
    return !module->ended && module->context->alive && module->context->id == module->life;
}

int fake_cuModuleUnload(struct sl_cu_module *module)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    if (fake_current(&code) && !usable(module)) {
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

int fake_cuModuleGetFunction(struct sl_cu_function **function, struct sl_cu_module *module, const char *name)
{
    int code = SL_CU_NOT_FOUND;

    pthread_mutex_lock(&fake_lock);
    if (!usable(module))
        code = SL_CU_INVALID_HANDLE;
    for (size_t i = 0; i < KERNELS && code == SL_CU_NOT_FOUND; i++) {
        if (strcmp(kernels[i].name, name) == 0) {
            *function = &module->functions[i];
            code = 0;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
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

int fake_cuLaunchKernel(struct sl_cu_function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, struct sl_cu_stream *handle, void **arguments,
                        void **extra)
{
    struct op op = { .kind = function->kind };
    int code;

    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    if (op.kind == OP_SPIN) {
        op.value = wide(arguments[0]);
    } else if (op.kind == OP_EDGES) {
        op.address = wide(arguments[0]);
        op.target = wide(arguments[1]);
        op.size = narrow(arguments[2]);
        op.rows = narrow(arguments[3]);
        op.address_pitch = narrow(arguments[4]);
        op.target_pitch = narrow(arguments[5]);
    } else {
        op.address = wide(arguments[0]);
        op.value = op.kind == OP_STORE ? wide(arguments[1]) : narrow(arguments[2]);
        op.size = op.kind == OP_STORE ? 0 : wide(arguments[1]);
        op.target = op.kind == OP_CHECK ? wide(arguments[3]) : 0;
    }
    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (stream && (!usable(function->module) || function->module->context != stream->context))
        code = SL_CU_INVALID_HANDLE;
    if (code == 0)
        code = fake_queue(stream, &op);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
