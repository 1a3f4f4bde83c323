/* SPDX-License-Identifier: MIT
 *
 * The kernels of gpu/kernels.c, which the thread of gpu.c does by itself.
 */
#include <string.h>

#include "fake/inside.h"

struct cu_module {
    int unused;
};

struct cu_function {
    const char *name;
    enum op_kind kind;
};

static struct cu_module module;
static struct cu_function functions[] = {
    { "spin", OP_SPIN },
    { "fill", OP_FILL },
    { "check", OP_CHECK },
    { "store", OP_STORE },
};

int fake_cuModuleLoadData(struct cu_module **loaded, const void *image)
{
    (void)image;
    *loaded = &module;
    return SL_CU_OK;
}

int fake_cuModuleGetFunction(struct cu_function **function, struct cu_module *from,
                             const char *name)
{
    (void)from;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(functions[i].name, name) == 0) {
            *function = &functions[i];
            return SL_CU_OK;
        }
    }
    return SL_CU_INVALID_VALUE;
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

int fake_cuLaunchKernel(struct cu_function *function, unsigned gx, unsigned gy, unsigned gz,
                        unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        struct sl_cu_stream *handle, void **arguments, void **extra)
{
    struct op op = { .kind = function->kind };
    int code;

    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    if (op.kind == OP_SPIN) {
        op.value = wide(arguments[0]);
    } else {
        op.address = wide(arguments[0]);
        op.value = op.kind == OP_STORE ? wide(arguments[1]) : narrow(arguments[2]);
        op.size = op.kind == OP_STORE ? 0 : wide(arguments[1]);
        op.target = op.kind == OP_CHECK ? wide(arguments[3]) : 0;
    }
    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (stream)
        code = fake_queue(stream, &op);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
