/* SPDX-License-Identifier: MIT
 *
 * Launches: everything is checked before anything is queued.
 */
#include "kernel/launch.h"

#include <inttypes.h>
#include <string.h>

#include "kernel/check.h"
#include "util/params.h"
#include "util/result.h"

#define LEAST_LAUNCH  (sizeof(uint32_t) * 4) /* size and over */
#define MOST_BLOCKS_X UINT32_C(0x7fffffff)   /* CUDA's limits */
#define MOST_BLOCKS_Y 65535
#define MOST_X        1024
#define MOST_Z        64

/* ---- shape ---- */

static bool is_given(const uint32_t shape[3])
{
    return shape[0] || shape[1] || shape[2];
}

static void ones(uint32_t shape[3])
{
    for (int i = 0; i < 3; i++)
        shape[i] = shape[i] ? shape[i] : 1;
}

static uint64_t threads(const uint32_t block[3])
{
    return (uint64_t)block[0] * block[1] * block[2];
}

/* With `over`, a block has no more threads than are wanted. */
static void choose_block(const uint32_t wanted[3], bool over, uint32_t most, uint32_t block[3])
{
    bool flat = wanted[1] <= 1 && wanted[2] <= 1;
    const uint32_t usual[3] = { flat ? 256 : 32, flat ? 1 : 8, 1 };

    for (int i = 0; i < 3; i++)
        block[i] = over && wanted[i] > 0 && wanted[i] < usual[i] ? wanted[i] : usual[i];
    while (threads(block) > most && block[1] > 1)
        block[1] /= 2;
    while (threads(block) > most && block[0] > 1)
        block[0] /= 2;
}

static int check_shape(const struct sl_call *call)
{
    const struct sl_kernel *kernel = call->kernel;
    const uint32_t *grid = call->grid, *block = call->block;

    if (threads(block) > kernel->most_threads || block[0] > MOST_X || block[1] > MOST_X || block[2] > MOST_Z)
        return sl_fail(SLUICE_E_LIMIT,
                       "kernel '%s' (%s): a block of %" PRIu32 " x %" PRIu32 " x %" PRIu32
                       " threads; it can have %" PRIu32 " in all, and %d x %d x %d",
                       kernel->name, kernel->module->name, block[0], block[1], block[2], kernel->most_threads, MOST_X,
                       MOST_X, MOST_Z);
    if (grid[0] > MOST_BLOCKS_X || grid[1] > MOST_BLOCKS_Y || grid[2] > MOST_BLOCKS_Y)
        return sl_fail(SLUICE_E_LIMIT,
                       "kernel '%s' (%s): a grid of %" PRIu32 " x %" PRIu32 " x %" PRIu32
                       " blocks; it can have %" PRIu32 " x %d x %d",
                       kernel->name, kernel->module->name, grid[0], grid[1], grid[2], MOST_BLOCKS_X, MOST_BLOCKS_Y,
                       MOST_BLOCKS_Y);
    if (call->shared > kernel->most_shared)
        return sl_fail(SLUICE_E_LIMIT,
                       "kernel '%s' (%s): %" PRIu32 " bytes of shared memory for a block; there are %" PRIu32,
                       kernel->name, kernel->module->name, call->shared, kernel->most_shared);
    return 0;
}

static int read_shape(const struct sluice_launch *given, struct sl_call *call)
{
    struct sluice_launch mine;
    const struct sl_kernel *kernel = call->kernel;
    int r = sl_params_load(&mine, sizeof mine, LEAST_LAUNCH, given, "struct sluice_launch");

    if (r != 0)
        return r;
    if (is_given(mine.over) == is_given(mine.grid))
        return sl_fail(SLUICE_E_INVALID,
                       "kernel '%s' (%s): give either over (how many threads) or grid (how many blocks), not %s",
                       kernel->name, kernel->module->name, is_given(mine.over) ? "both" : "neither");
    const uint32_t *wanted = is_given(mine.over) ? mine.over : mine.grid;
    if (!is_given(mine.block))
        choose_block(wanted, is_given(mine.over), kernel->most_threads, mine.block);
    ones(mine.block);
    memcpy(call->block, mine.block, sizeof call->block);
    memcpy(call->grid, wanted, sizeof call->grid);
    ones(call->grid);
    for (int i = 0; i < 3 && is_given(mine.over); i++)
        call->grid[i] = call->grid[i] / mine.block[i] + (call->grid[i] % mine.block[i] != 0);
    call->shared = mine.shared;
    return check_shape(call);
}

/* ---- the launch ---- */

static int same_device(const struct sl_kernel *kernel, const struct sl_stream *stream)
{
    if (kernel->object.device == stream->object.device)
        return 0;
    return sl_fail(SLUICE_E_WRONG_DEVICE,
                   "kernel '%s' (%s) is of \"%s\", the stream of %s\"%s\": each sluice_device_open makes a device of "
                   "its own; load the module for the stream's device",
                   kernel->name, kernel->module->name, kernel->object.device->name,
                   strcmp(kernel->object.device->name, stream->object.device->name) == 0 ? "another open of " : "",
                   stream->object.device->name);
}

static int add_uses(const struct sl_launching *launching, struct sluice_stream stream)
{
    int r = 0;

    for (uint32_t i = 0; i < launching->call.count && r == 0; i++)
        if (launching->arguments[i].given->kind == SLUICE_ARGUMENT_MEMORY)
            r = sl_memory_used(launching->arguments[i].given->data, stream);
    return r;
}

static int launch_staged(struct sl_launching *launching)
{
    const struct sl_kernel_ops *ops = sl_kernel_kind(launching->kernel->object.device);
    struct sl_stage stage;

    int r = sl_stage_check(launching, &stage);
    if (r != 0)
        return r;
    r = sl_stage_before(launching, &stage);
    if (r == 0)
        r = ops->launch(&launching->call, launching->stream);
    return sl_stage_after(launching, &stage, r);
}

static int queue(struct sl_launching *launching)
{
    if (launching->any_host)
        return launch_staged(launching);
    return sl_kernel_kind(launching->kernel->object.device)->launch(&launching->call, launching->stream);
}

static int queue_checked(struct sl_launching *launching)
{
    uint64_t number;
    int r = sl_check_launch(launching, &number);

    if (r != 0)
        return r;
    r = queue(launching);
    sl_check_launched(launching, number, r);
    return r;
}

static int launch(struct sl_launching *launching, struct sluice_stream stream, const struct sluice_launch *shape)
{
    int r = same_device(launching->kernel, launching->stream);

    if (r == 0)
        r = read_shape(shape, &launching->call);
    if (r == 0)
        r = sl_arguments_check(launching);
    if (r == 0)
        r = add_uses(launching, stream);
    if (r != 0)
        return r;
    return sl_checks_streams() ? queue_checked(launching) : queue(launching);
}

int sl_launch(struct sluice_kernel kernel, struct sluice_stream stream, const struct sluice_launch *shape,
              const struct sl_argument *arguments, uint32_t count)
{
    struct sl_launching launching;
    struct sl_object *object;
    int r = sl_object_hold(kernel.id, SL_HANDLE_KERNEL, &object);

    if (r != 0)
        return r;
    launching.kernel = launching.call.kernel = (struct sl_kernel *)object;
    launching.arguments = arguments;
    launching.any_host = false;
    launching.call.count = count;
    if ((r = sl_stream_hold(stream, &launching.stream)) == 0) {
        r = launch(&launching, stream, shape);
        sl_object_drop(&launching.stream->object);
    }
    sl_object_drop(object);
    return r;
}
