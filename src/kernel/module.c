/* SPDX-License-Identifier: MIT
 *
 * Modules: compiles a source or finds it in the cache, and loads the result.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"
#include "util/params.h"
#include "util/result.h"

#define LEAST_PARAMS 8 /* size and kind */

/* ---- what it is ---- */

static bool starts_with(const void *image, size_t bytes, const char *start, size_t length)
{
    return bytes >= length && memcmp(image, start, length) == 0;
}

/* PTX begins with ".version", after comments. */
static bool is_ptx(const char *text, size_t bytes)
{
    size_t at = 0;

    while (at < bytes) {
        if (strchr(" \t\r\n", text[at])) {
            at++;
        } else if (bytes - at > 1 && text[at] == '/' && text[at + 1] == '/') {
            const char *end = memchr(text + at, '\n', bytes - at);
            at = end ? (size_t)(end - text) : bytes;
        } else {
            return starts_with(text + at, bytes - at, ".version", 8);
        }
    }
    return false;
}

static uint32_t kind_of(const void *image, size_t bytes)
{
    if (starts_with(image, bytes, ELFMAG, SELFMAG) || starts_with(image, bytes, "\x50\xed\x55\xba", 4))
        return SLUICE_MODULE_BINARY;
    return is_ptx(image, bytes) ? SLUICE_MODULE_PTX : SLUICE_MODULE_SOURCE;
}

/* ---- loading ---- */

static void finish_module(struct sl_object *object)
{
    struct sl_module *module = (struct sl_module *)object;

    if (module->native)
        sl_kernel_kind(object->device)->unload(module);
    sl_code_free(&module->code);
}

/* What the scan of a source finds may be left out by the preprocessor; then the rest is compiled. */
static int compile_found(struct sl_module *module, const struct sl_source *source)
{
    const struct sl_kernel_ops *ops = sl_kernel_kind(module->object.device);
    const size_t size = source->kernel_count * sizeof *source->kernels;
    const char **kernels = malloc(size);
    struct sl_source rest = *source;
    int r;

    if (!kernels)
        return sl_fail(SLUICE_E_NO_MEMORY, "%s: no memory for the names of its kernels", source->name);
    rest.kernels = memcpy(kernels, source->kernels, size);
    do
        r = ops->compile(module->object.device, &rest, &module->code);
    while (r == SLUICE_E_INVALID && sl_unknown_leave_out(&rest, kernels));
    free(kernels);
    return r;
}

static int build(struct sl_module *module, const struct sl_source *source, bool found, uint32_t flags)
{
    struct sl_device *device = module->object.device;
    const struct sl_kernel_ops *ops = sl_kernel_kind(device);
    bool cached = (flags & SLUICE_MODULE_NO_CACHE) == 0;
    char compiler[SL_COMPILER];

    int r = ops->compiler(device, compiler, sizeof compiler);
    if (r != 0)
        return r;
    if (cached && sl_cache_find(source, compiler, &module->code)) {
        sl_compile_log_set(module->code.log);
        return 0;
    }
    r = found ? compile_found(module, source) : ops->compile(device, source, &module->code);
    if (r == 0 && cached)
        sl_cache_store(source, compiler, &module->code);
    return r;
}

static int build_source(struct sl_module *module, const char *text, size_t bytes,
                        const struct sluice_module_params *params)
{
    const char *const *found = NULL;
    struct sl_source source = {
        .name = module->name,
        .text = text,
        .bytes = bytes,
        .options = params->options,
        .option_count = params->option_count,
        .kernels = params->kernels,
        .kernel_count = params->kernel_count,
    };
    int r = 0;

    sl_compile_log_set(NULL);
    if (memchr(text, 0, bytes))
        return sl_fail(SLUICE_E_INVALID, "%s contains a byte of 0, so it is not a source", module->name);
    if (source.kernel_count == 0) {
        r = sl_source_kernels(module->name, text, bytes, &found, &source.kernel_count);
        source.kernels = found;
    }
    if (r == 0)
        r = build(module, &source, found != NULL, params->flags);
    free((void *)found);
    return r;
}

/* PTX ends with a NUL, as the driver wants it. */
static int keep_binary(struct sl_module *module, const void *image, size_t bytes)
{
    struct sl_code *code = &module->code;
    char *copy = malloc(bytes + 1);

    if (!copy)
        return sl_fail(SLUICE_E_NO_MEMORY, "%s: no memory for %zu bytes", module->name, bytes);
    memcpy(copy, image, bytes);
    copy[bytes] = 0;
    *code = (struct sl_code){ .block = copy, .bytes = copy, .size = bytes };
    return 0;
}

static int fill_in(struct sl_module *module, const void *image, size_t bytes, const struct sluice_module_params *params)
{
    uint32_t kind = params->kind;
    int r;

    snprintf(module->name, sizeof module->name, "%s", params->name ? params->name : "kernels");
    if (bytes > 0 && ((const char *)image)[bytes - 1] == 0 && kind_of(image, bytes) != SLUICE_MODULE_BINARY)
        bytes--; /* the end of a string */
    if (bytes == 0)
        return sl_fail(SLUICE_E_INVALID, "%s is empty", module->name);
    if (kind == SLUICE_MODULE_ANY)
        kind = kind_of(image, bytes);
    if (kind > SLUICE_MODULE_BINARY)
        return sl_fail(SLUICE_E_INVALID, "sluice_module_params.kind is %u, which is not in enum sluice_module_kind",
                       kind);
    if (kind == SLUICE_MODULE_SOURCE)
        r = build_source(module, image, bytes, params);
    else if (params->kernel_count > 0 || params->option_count > 0)
        r = sl_fail(SLUICE_E_INVALID, "%s is compiled already: it takes no options and no list of kernels",
                    module->name);
    else
        r = keep_binary(module, image, bytes);
    return r == 0 ? sl_kernel_kind(module->object.device)->load(module) : r;
}

static int read_params(const struct sluice_module_params *given, struct sluice_module_params *params)
{
    memset(params, 0, sizeof *params);
    if (!given)
        return 0;
    int r = sl_params_load(params, sizeof *params, LEAST_PARAMS, given, "struct sluice_module_params");
    if (r != 0)
        return r;
    if (params->flags & ~(uint32_t)SLUICE_MODULE_NO_CACHE)
        return sl_fail(SLUICE_E_INVALID, "sluice_module_params.flags is 0x%x; the only flag is SLUICE_MODULE_NO_CACHE",
                       params->flags);
    if ((params->option_count > 0 && !params->options) || (params->kernel_count > 0 && !params->kernels))
        return sl_fail(SLUICE_E_INVALID, "sluice_module_params: a list of options or kernels is NULL");
    return 0;
}

int sl_module_load(struct sluice_device device, const void *image, size_t bytes,
                   const struct sluice_module_params *given, struct sluice_module *handle)
{
    struct sluice_module_params params;
    void *object;

    sl_check_start();
    int r = read_params(given, &params);
    if (r == 0)
        r = sl_device_object(device, SL_HANDLE_MODULE, sizeof(struct sl_module), &object);
    if (r != 0)
        return r;
    struct sl_module *module = object;
    module->object.finish = finish_module;
    if ((r = fill_in(module, image, bytes, &params)) == 0)
        return sl_device_adopt(&module->object, NULL, &handle->id);
    sl_object_drop(&module->object);
    return r;
}

/* ---- its end ---- */

/* Ends the handles of a module and its kernels, all at once. False if the module's handle had ended before. */
static bool end_handles(struct sl_module *module, struct sl_object **ended)
{
    struct sl_device *device = module->object.device;

    *ended = NULL;
    sl_mutex_lock(&device->lock);
    bool first = sl_device_disown(&module->object, SL_END_DESTROYED);
    for (struct sl_kernel *k = module->kernels; first && k; k = k->next) {
        if (!sl_device_disown(&k->object, SL_END_DESTROYED))
            continue;
        k->object.next = *ended;
        *ended = &k->object;
    }
    sl_mutex_unlock(&device->lock);
    return first;
}

int sl_module_unload(struct sluice_module *handle)
{
    struct sl_object *object, *ended;

    if (handle->id == 0)
        return 0;
    int r = sl_object_hold(handle->id, SL_HANDLE_MODULE, &object);
    if (r != 0)
        return r;
    if (!end_handles((struct sl_module *)object, &ended)) {
        r = sl_object_ended(handle->id, SL_HANDLE_MODULE);
        sl_object_drop(object);
        return r;
    }
    while (ended) {
        struct sl_object *kernel = ended;
        ended = kernel->next;
        sl_object_drop(kernel); /* the handle's reference */
    }
    handle->id = 0;
    sl_object_drop(object); /* the same */
    sl_object_drop(object);
    return 0;
}
