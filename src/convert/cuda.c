/* SPDX-License-Identifier: MIT
 *
 * Conversions on GPUs, by the kernels of convert.ptx, which are loaded once for each device that is opened.
 */
#include "cuda/cuda.h"

#include "convert/convert.h"
#include "convert/embedded.h"
#include "kernel/kernel.h"

enum { BLOCK_WIDE = 32, BLOCK_HIGH = 8, ROW = 192 }; /* as the kernels have them */

enum {
    ANY,
    RGBA,
    SHARE_ANY,
    SHARE_RGBA,
    RESIZE_RGBA,
    RESIZE_NV12,
    SAME_RGBA,
    SAME_PLANES,
    SAME_TO_PLANES,
    SAME_NV12,
    SAME_TO_NV12,
    NONE
};

/* How many columns and rows of the target each thread makes. */
static const struct shape {
    const char *name;
    uint32_t columns, rows;
} shapes[SL_CONVERT_KERNELS] = {
    [ANY] = { "sl_convert_any", 1, 1 },
    [RGBA] = { "sl_convert_rgba", 1, 1 },
    [SHARE_ANY] = { "sl_share_any", 2, 2 },
    [SHARE_RGBA] = { "sl_share_rgba", 2, 2 },
    [RESIZE_RGBA] = { "sl_resize_rgba", 1, 1 },
    [RESIZE_NV12] = { "sl_resize_nv12", 1, 1 },
    [SAME_RGBA] = { "sl_same_rgba", 4, 1 },
    [SAME_PLANES] = { "sl_same_planes", 4, 1 },
    [SAME_TO_PLANES] = { "sl_same_to_planes", 4, 1 },
    [SAME_NV12] = { "sl_same_nv12", 4, 2 },
    [SAME_TO_NV12] = { "sl_same_to_nv12", 4, 2 },
};

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
        r = sl_kernel_get(module, shapes[i].name, &kernels[i]);
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

static bool is_aligned(const unsigned char *at, long long pitch, uintptr_t to)
{
    return (((uintptr_t)at | (uintptr_t)pitch) & (to - 1)) == 0;
}

/* Four bytes side by side that can be read at once, and more such pixels. */
static bool is_rgba(const struct sl_pixels *p, int x, uintptr_t alignment)
{
    return p->count == 4 && sl_is_bytes(p) && is_aligned(p->at[1].first - 1 + 4 * x, p->at[1].pitch, alignment);
}

/* Of the full range, where a byte is a component. */
static bool is_full(const struct sl_pixels *p)
{
    return p->mul[0] == 255 && p->add[0] == 0 && p->mul[1] == 255 && p->add[1] == 0;
}

static bool is_nv12(const struct sl_pixels *p, uintptr_t alignment)
{
    return p->family == SL_YUV && p->sample == SL_U8 && p->at[0].step == 1 && p->at[1].step == 2 &&
           p->at[2].first == p->at[1].first + 1 && p->shift_y && is_aligned(p->at[1].first, p->at[1].pitch, alignment);
}

/* Two rows of four columns of NV12 at x, y, with their chroma. */
static bool is_nv12_block(const struct sl_pixels *p, int x, int y)
{
    return is_nv12(p, 4) && is_aligned(p->at[0].first, p->at[0].pitch, 4) && x % 4 == 0 && y % 2 == 0;
}

/* RGB in planes of floats, four of which can be read at once from x on. */
static bool is_planes(const struct sl_pixels *p, int x)
{
    int size = p->sample == SL_F16 ? 2 : 4;
    bool is = p->family == SL_RGB && p->count == 3 && (p->sample == SL_F16 || p->sample == SL_F32);

    for (int i = 0; i < 3 && is; i++)
        is = p->at[i].step == size && is_aligned(p->at[i].first + size * x, p->at[i].pitch, 4 * (uintptr_t)size);
    return is;
}

static bool is_gray(const struct sl_pixels *p, int x)
{
    return p->family == SL_GRAY && p->sample == SL_U8 && p->at[0].step == 1 &&
           is_aligned(p->at[0].first + x, p->at[0].pitch, 4);
}

static int choose_same(const struct sl_job *job)
{
    const struct sl_pixels *to = &job->to, *from = &job->from;
    bool stays = sl_stays(&job->x) && sl_stays(&job->y) && job->resize == SL_NEAREST && !job->bordered;
    bool from_rgba = is_rgba(from, job->x.first, 16), to_rgba = is_rgba(to, 0, 16);

    if (!stays || to->width % 4 != 0 || job->multiply || job->divide)
        return NONE;
    if (to_rgba && from_rgba && to->mul[0] == from->mul[0] && to->add[0] == from->add[0])
        return SAME_RGBA;
    if (to_rgba && is_full(to) && is_planes(from, job->x.first))
        return SAME_PLANES;
    if (is_planes(to, 0) && (from_rgba || is_gray(from, job->x.first)))
        return SAME_TO_PLANES;
    if (to_rgba && is_full(to) && to->opaque && to->height % 2 == 0 && is_nv12_block(from, job->x.first, job->y.first))
        return SAME_NV12;
    return from_rgba && is_full(from) && is_nv12_block(to, 0, 0) ? SAME_TO_NV12 : NONE;
}

/* Do the columns that a block depends on fit into its memory? */
static bool fits_row(const struct sl_axis *x)
{
    double per = (double)x->per / (double)(1LL << SL_POSITION_BITS);
    return (BLOCK_WIDE - 1) * per + 2 * (double)x->radius + 3 <= ROW;
}

static int choose(const struct sl_job *job)
{
    bool from_rgba = is_rgba(&job->from, 0, 4), from_nv12 = is_nv12(&job->from, 2);
    int same = choose_same(job);

    if (same != NONE)
        return same;
    if (job->to.shift_x)
        return from_rgba ? SHARE_RGBA : SHARE_ANY;
    if (job->resize == SL_TRIANGLE && fits_row(&job->x) && (from_rgba || from_nv12))
        return from_rgba ? RESIZE_RGBA : RESIZE_NV12;
    return from_rgba ? RGBA : ANY;
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
    int which = choose(job);
    uint32_t wide = BLOCK_WIDE * shapes[which].columns, high = BLOCK_HIGH * shapes[which].rows;
    struct sluice_kernel kernel;

    if (which == SHARE_ANY || which == SHARE_RGBA)
        high = BLOCK_HIGH << job->to.shift_y;
    shape.grid[0] = ((uint32_t)job->to.width + wide - 1) / wide;
    shape.grid[1] = ((uint32_t)job->to.height + high - 1) / high;
    int r = check_both(device, job);
    if (r == 0)
        r = kernel_of(device, which, &kernel);
    return r == 0 ? sl_launch(kernel, handle, &shape, &argument, 1) : r;
}
