/* SPDX-License-Identifier: MIT
 *
 * Conversions on GPUs, by the kernels of convert.ptx, which are loaded once for each device that is opened.
 */
#include "cuda/cuda.h"

#include "convert/convert.h"
#include "convert/embedded.h"
#include "kernel/kernel.h"

enum { BLOCK_WIDE = 32, BLOCK_HIGH = 8 }; /* as convert.cu has it */

static const char *const names[SL_CONVERT_KERNELS] = {
    "sl_convert_any", "sl_convert_rgba", "sl_convert_nv12", "sl_share_any", "sl_share_rgba",
};
enum { ANY, RGBA, NV12, SHARE_ANY, SHARE_RGBA };

/* ---- kernels ---- */

/* If two threads come at once, both load; the kernels of one are used, the others end with the device. */
static int load(struct sl_device *device)
{
    const struct sluice_module_params params = { .size = sizeof params,
                                                 .kind = SLUICE_MODULE_PTX,
                                                 .name = "convert.ptx" };
    struct sluice_kernel kernels[SL_CONVERT_KERNELS];
    struct sluice_module module;
    struct sluice_device handle = { atomic_load_explicit(&device->object.id, memory_order_relaxed) };
    int r = sl_module_load(handle, sl_convert_ptx, sl_convert_ptx_size, &params, &module);

    if (r != 0)
        return r;
    for (int i = 0; i < SL_CONVERT_KERNELS && r == 0; i++)
        r = sl_kernel_get(module, names[i], &kernels[i]);
    for (int i = 0; i < SL_CONVERT_KERNELS && r == 0; i++)
        sl_store(&device->convert[i], kernels[i].id, release);
    if (r != 0)
        sl_module_unload(&module);
    return r;
}

static int kernel_of(struct sl_device *device, int which, struct sluice_kernel *kernel)
{
    kernel->id = sl_load(&device->convert[which], acquire);
    struct sl_object *object = kernel->id ? sl_object_find(kernel->id, SL_HANDLE_KERNEL) : NULL;
    if (object) {
        sl_object_drop(object);
        return 0;
    }
    int r = load(device); /* for the first time, or after a reset */
    kernel->id = sl_load(&device->convert[which], acquire);
    return r;
}

/* ---- which one ---- */

/* Four bytes side by side that can be read at once. */
static bool is_rgba(const struct sl_pixels *p)
{
    const struct sl_component *at = p->at;
    const unsigned char *first = at[0].first < at[2].first ? at[0].first : at[2].first;

    return p->family == SL_RGB && p->sample == SL_U8 && p->count == 4 && at[0].step == 4 && at[1].first == first + 1 &&
           (at[0].first == first + 2 || at[2].first == first + 2) && at[3].first == first + 3 &&
           (((uintptr_t)first | (uintptr_t)at[0].pitch) & 3) == 0;
}

static bool is_nv12(const struct sl_pixels *p)
{
    return p->family == SL_YUV && p->sample == SL_U8 && p->at[0].step == 1 && p->at[1].step == 2 &&
           p->at[2].first == p->at[1].first + 1 && p->shift_y &&
           (((uintptr_t)p->at[1].first | (uintptr_t)p->at[1].pitch) & 1) == 0;
}

static int choose(const struct sl_job *job)
{
    if (job->to.shift_x)
        return is_rgba(&job->from) ? SHARE_RGBA : SHARE_ANY;
    return is_rgba(&job->from) ? RGBA : is_nv12(&job->from) ? NV12 : ANY;
}

/* ---- memory ---- */

/* A kernel that touches the CPU's own memory kills the context. */
static int check_memory(struct sl_cuda_context *context, const struct sl_pixels *pixels, const char *role)
{
    unsigned type = 0;
    int attribute = SL_CU_POINTER_MEMORY_TYPE;
    void *value = &type;
    int r = sl_cu(context, PointerGetAttributes, 1, &attribute, &value, (uintptr_t)pixels->at[0].first);

    if (r != 0 || type != 0)
        return r;
    return sl_fail(
        SLUICE_E_INVALID,
        "sluice_convert: `%s` is in host memory that \"%s\" cannot reach: pass a stream of \"host\", or copy it "
        "to the GPU first",
        role, context->name);
}

static int check_both(struct sl_device *device, const struct sl_job *job)
{
    struct sl_cuda_context *context = device->state;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_PLAIN, &scope);

    if (r != 0)
        return r;
    r = check_memory(context, &job->to, "to");
    if (r == 0)
        r = check_memory(context, &job->from, "from");
    sl_cuda_leave(&scope);
    return r;
}

/* ---- the call ---- */

int sl_convert_cuda(const struct sl_job *job, struct sluice_stream handle, struct sl_stream *stream)
{
    const struct sluice_argument value = SLUICE_VALUE(*job);
    const struct sl_argument argument = { .given = &value };
    struct sluice_launch shape = { .size = sizeof shape, .block = { BLOCK_WIDE, BLOCK_HIGH } };
    struct sl_device *device = stream->object.device;
    uint32_t wide = BLOCK_WIDE << job->to.shift_x, high = BLOCK_HIGH << job->to.shift_y;
    struct sluice_kernel kernel;

    shape.grid[0] = ((uint32_t)job->to.width + wide - 1) / wide;
    shape.grid[1] = ((uint32_t)job->to.height + high - 1) / high;
    int r = check_both(device, job);
    if (r == 0)
        r = kernel_of(device, choose(job), &kernel);
    return r == 0 ? sl_launch(kernel, handle, &shape, &argument, 1) : r;
}
