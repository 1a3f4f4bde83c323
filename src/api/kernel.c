/* SPDX-License-Identifier: MIT
 *
 * The public calls of sluice/kernel.h: modules, kernels, launches, scratch memory.
 */
#include <sluice/kernel.h>

#include "channel/channel.h"
#include "kernel/kernel.h"
#include "util/result.h"

static int require(const void *pointer, const char *call, const char *parameter)
{
    return pointer ? 0 : sl_fail(SLUICE_E_INVALID, "%s: %s is NULL", call, parameter);
}

int sluice_module_load(struct sluice_device device, const void *image, size_t bytes,
                       const struct sluice_module_params *params, struct sluice_module *module)
{
    int r = require(image, "sluice_module_load", "image");

    if (r == 0)
        r = require(module, "sluice_module_load", "module");
    return r == 0 ? sl_module_load(device, image, bytes, params, module) : r;
}

int sluice_module_unload(struct sluice_module *module)
{
    return module ? sl_module_unload(module) : 0;
}

size_t sluice_compile_log(char *text, size_t size)
{
    return sl_compile_log(text, text ? size : 0);
}

int sluice_kernel_compiler(const char *kind, char *text, size_t size)
{
    int r = require(kind, "sluice_kernel_compiler", "kind");

    if (r == 0)
        r = require(text, "sluice_kernel_compiler", "text");
    return r == 0 ? sl_kernel_compiler(kind, text, size) : r;
}

int sluice_kernel_cache(char *path, size_t size)
{
    int r = require(path, "sluice_kernel_cache", "path");

    return r == 0 ? sl_cache_folder(path, size) : r;
}

int sluice_module_kernel(struct sluice_module module, uint32_t index, char *name, size_t size)
{
    int r = require(name, "sluice_module_kernel", "name");

    return r == 0 ? sl_module_kernel(module, index, name, size) : r;
}

int sluice_kernel_get(struct sluice_module module, const char *name, struct sluice_kernel *kernel)
{
    int r = require(name, "sluice_kernel_get", "name");

    if (r == 0)
        r = require(kernel, "sluice_kernel_get", "kernel");
    return r == 0 ? sl_kernel_get(module, name, kernel) : r;
}

int sluice_kernel_info(struct sluice_kernel kernel, struct sluice_kernel_info *info)
{
    int r = require(info, "sluice_kernel_info", "info");

    return r == 0 ? sl_kernel_info(kernel, info) : r;
}

/* ---- launches ---- */

struct frame_argument {
    struct sl_view view;
    struct sluice_array array;
};

static const char *channel_of(const struct sl_object *object)
{
    return object->kind == SL_HANDLE_WRITER ? ((const struct sluice_writer *)object)->name
                                            : ((const struct sluice_reader *)object)->name;
}

/* The frame's array, which work on `stream` uses from now on. */
static int open_frame(const struct sluice_argument *given, struct sluice_stream stream, struct frame_argument *frame,
                      struct sl_argument *argument)
{
    uint32_t index;

    if (!given->data)
        return sl_fail(SLUICE_E_INVALID, "sluice_launch: a frame is NULL");
    int r = sl_view_begin(given->data, &frame->view);
    if (r != 0)
        return r;
    r = sl_view_find(&frame->view, given->name, &index);
    if (r == 0)
        r = sl_view_array(&frame->view, index, &frame->array);
    if (r == 0)
        r = sl_frame_streams_add(frame->view.streams, given->data, frame->view.device, stream, NULL, NULL);
    if (r != 0) {
        sl_view_end(&frame->view);
        return r;
    }
    argument->array = &frame->array;
    argument->channel = channel_of(frame->view.object);
    argument->read_only = frame->view.read_only;
    return 0;
}

static int open_argument(const struct sluice_argument *given, struct sluice_stream stream,
                         struct frame_argument *frames, uint32_t *frame_count, struct sl_argument *argument)
{
    *argument = (struct sl_argument){ .given = given, .read_only = given->access == SLUICE_ACCESS_IN };
    if (given->kind < SLUICE_ARGUMENT_BYTES || given->kind > SLUICE_ARGUMENT_HOST ||
        given->access > SLUICE_ACCESS_INOUT)
        return sl_fail(SLUICE_E_INVALID,
                       "sluice_launch: an argument's kind is %u and its access %u; use SLUICE_MEMORY "
                       "and the like",
                       given->kind, given->access);
    if (given->kind == SLUICE_ARGUMENT_FRAME) {
        int r = open_frame(given, stream, &frames[*frame_count], argument);
        *frame_count += r == 0;
        return r;
    }
    if (given->kind != SLUICE_ARGUMENT_ARRAY)
        return 0;
    argument->array = given->data;
    if (!argument->array || !argument->array->data)
        return sl_fail(SLUICE_E_INVALID, "sluice_launch: an array is NULL, or has no data");
    argument->read_only = argument->read_only || argument->array->read_only;
    return 0;
}

static uint32_t count_frames(const struct sluice_argument *arguments, uint32_t count)
{
    uint32_t frames = 0;

    for (uint32_t i = 0; i < count; i++)
        frames += arguments[i].kind == SLUICE_ARGUMENT_FRAME;
    return frames;
}

#define MOST_FRAMES 16 /* of one launch */

int sluice_launch(struct sluice_kernel kernel, struct sluice_stream stream, const struct sluice_launch *launch,
                  const struct sluice_argument *arguments, uint32_t count)
{
    struct sl_argument opened[SLUICE_MAX_PARAMETERS];
    struct frame_argument frames[MOST_FRAMES];
    uint32_t frame_count = 0;

    int r = require(launch, "sluice_launch", "launch");
    if (r == 0 && count > 0)
        r = require(arguments, "sluice_launch", "arguments");
    if (r != 0)
        return r;
    if (count > SLUICE_MAX_PARAMETERS || count_frames(arguments, count) > MOST_FRAMES)
        return sl_fail(SLUICE_E_LIMIT, "sluice_launch: %u arguments, %u of them frames; there can be %d and %d", count,
                       count <= SLUICE_MAX_PARAMETERS ? count_frames(arguments, count) : 0, SLUICE_MAX_PARAMETERS,
                       MOST_FRAMES);
    for (uint32_t i = 0; i < count && r == 0; i++)
        r = open_argument(&arguments[i], stream, frames, &frame_count, &opened[i]);
    if (r == 0)
        r = sl_launch(kernel, stream, launch, count > 0 ? opened : NULL, count);
    while (frame_count > 0)
        sl_view_end(&frames[--frame_count].view);
    return r;
}

/* ---- scratch memory ---- */

int sluice_memory_alloc(struct sluice_device device, struct sluice_stream stream, size_t bytes, void **memory)
{
    int r = require(memory, "sluice_memory_alloc", "memory");

    return r == 0 ? sl_memory_alloc(device, stream, bytes, memory) : r;
}

int sluice_memory_free(struct sluice_stream stream, void **memory)
{
    return memory && *memory ? sl_memory_free(stream, memory) : 0;
}
