/* SPDX-License-Identifier: MIT
 *
 * Kernels of a module: found by name, and described. The list of the kinds of devices.
 */
#include "kernel/kernel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/params.h"
#include "util/result.h"

static const struct sl_kernel_ops *const kinds[] = { &sl_kernel_host, &sl_kernel_cuda };

const struct sl_kernel_ops *sl_kernel_kind(const struct sl_device *device)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i]->kind, device->ops->name) == 0)
            return kinds[i];
    return NULL; /* NULL without CUDA */
}

int sl_kernel_compiler(const char *kind, char *text, size_t size)
{
    char name[SL_COMPILER_NAME];

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i]->kind, kind) != 0)
            continue;
        int r = kinds[i]->compiler_name(name, sizeof name);
        if (r == 0 && (size_t)snprintf(text, size, "%s", name) >= size)
            return sl_fail(SLUICE_E_INVALID, "sluice_kernel_compiler: the text has %zu bytes, more than size, %zu",
                           strlen(name) + 1, size);
        return r;
    }
    return sl_fail(SLUICE_E_INVALID, "sluice_kernel_compiler: '%.40s' is not a kind of device: \"host\" or \"cuda\"",
                   kind);
}

static void finish_kernel(struct sl_object *object)
{
    struct sl_kernel *kernel = (struct sl_kernel *)object;
    struct sl_module *module = kernel->module;
    struct sl_kernel **at = &module->kernels;

    sl_mutex_lock(&object->device->lock);
    while (*at && *at != kernel)
        at = &(*at)->next;
    if (*at)
        *at = kernel->next;
    sl_mutex_unlock(&object->device->lock);
    free(kernel->name);
    free(kernel->own);
    sl_object_drop(&module->object);
}

static const struct sl_description *described(const struct sl_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->code.kernel_count; i++)
        if (strcmp(module->code.kernels[i].name, name) == 0)
            return &module->code.kernels[i];
    return NULL;
}

static int not_found(const struct sl_module *module, const char *name)
{
    char list[512] = "";
    size_t length = 0;

    if (module->code.kernel_count == 0)
        return sl_fail(SLUICE_E_NOT_FOUND,
                       "%s has no kernel '%.200s'; in PTX and binaries kernels have the names that the compiler made: "
                       "declare them extern \"C\", or load the source",
                       module->name, name);
    for (uint32_t i = 0; i < module->code.kernel_count && length < sizeof list; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s'%s'", i ? ", " : "",
                                   module->code.kernels[i].name);
    return sl_fail(SLUICE_E_NOT_FOUND, "%s has no kernel '%.200s'; it has %s%s", module->name, name, list,
                   length < sizeof list ? "" : "...");
}

/* Asks the driver about a kernel without a description. */
static int ask_parameters(struct sl_kernel *kernel)
{
    int r;

    kernel->count = UINT32_MAX;
    kernel->own = calloc(SLUICE_MAX_PARAMETERS, sizeof *kernel->own);
    if (!kernel->own)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for the parameters of a kernel");
    kernel->parameters = kernel->own;
    r = sl_kernel_kind(kernel->object.device)->parameters(kernel, kernel->own, &kernel->count);
    return r == SLUICE_NOT_READY ? 0 : r;
}

static int fill_in(struct sl_kernel *kernel, const struct sl_module *module, const char *name)
{
    const struct sl_description *description = described(module, name);

    if (module->code.kernel_count > 0 && !description)
        return not_found(module, name);
    if (!(kernel->name = strdup(name)))
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for the name of a kernel");
    int r = sl_kernel_kind(kernel->object.device)->get(kernel, description ? description->symbol : name);
    if (r != 0)
        return r == SLUICE_E_NOT_FOUND ? not_found(module, name) : r;
    if (!description)
        return ask_parameters(kernel);
    kernel->count = description->count;
    kernel->parameters = description->parameters;
    return 0;
}

/* Call it with the device's lock held, which also guards the list. Skips kernels whose handle ended with the device.
 */
static uint64_t known(const struct sl_module *module, const char *name)
{
    for (const struct sl_kernel *k = module->kernels; k; k = k->next) {
        uint64_t id = atomic_load_explicit(&k->object.id, memory_order_relaxed);
        if (strcmp(k->name, name) == 0 && sl_handle_is_alive(id, SL_HANDLE_KERNEL))
            return id;
    }
    return 0;
}

/* Adds the kernel to the list, unless another thread has added it. */
static uint64_t known_or_listed(struct sl_object *object)
{
    struct sl_kernel *kernel = (struct sl_kernel *)object;
    uint64_t id = known(kernel->module, kernel->name);

    if (id == 0) {
        kernel->next = kernel->module->kernels;
        kernel->module->kernels = kernel;
    }
    return id;
}

static int add(struct sl_module *module, const char *name, uint64_t *id)
{
    struct sl_kernel *kernel = (struct sl_kernel *)sl_object_new(SL_HANDLE_KERNEL, sizeof *kernel);

    if (!kernel)
        return SLUICE_E_NO_MEMORY;
    kernel->object.device = module->object.device;
    sl_object_keep(&module->object.device->object);
    kernel->module = module;
    sl_object_keep(&module->object);
    kernel->object.finish = finish_kernel;
    int r = fill_in(kernel, module, name);
    if (r == 0)
        return sl_device_adopt(&kernel->object, known_or_listed, id);
    sl_object_drop(&kernel->object);
    return r;
}

int sl_module_kernel(struct sluice_module handle, uint32_t index, char *name, size_t size)
{
    struct sl_object *object;
    int r = sl_object_hold(handle.id, SL_HANDLE_MODULE, &object);

    if (r != 0)
        return r;
    const struct sl_module *module = (const struct sl_module *)object;
    const char *found = index < module->code.kernel_count ? module->code.kernels[index].name : NULL;
    if (!found)
        r = sl_fail(SLUICE_E_NOT_FOUND, "%s names %" PRIu32 " kernels", module->name, module->code.kernel_count);
    else if (strlen(found) >= size)
        r = sl_fail(SLUICE_E_LIMIT, "%s: the name of kernel '%.200s' has %zu characters", module->name, found,
                    strlen(found));
    else
        strcpy(name, found);
    sl_object_drop(object);
    return r;
}

int sl_kernel_get(struct sluice_module handle, const char *name, struct sluice_kernel *kernel)
{
    struct sl_object *object;
    int r = sl_object_hold(handle.id, SL_HANDLE_MODULE, &object);

    if (r != 0)
        return r;
    sl_mutex_lock(&object->device->lock);
    uint64_t id = known((struct sl_module *)object, name);
    sl_mutex_unlock(&object->device->lock);
    if (id == 0)
        r = add((struct sl_module *)object, name, &id);
    if (r == 0)
        kernel->id = id;
    sl_object_drop(object);
    return r;
}

int sl_kernel_info(struct sluice_kernel handle, struct sluice_kernel_info *info)
{
    struct sl_object *object;
    int r = sl_object_hold(handle.id, SL_HANDLE_KERNEL, &object);

    if (r != 0)
        return r;
    const struct sl_kernel *kernel = (const struct sl_kernel *)object;
    struct sluice_kernel_info mine = {
        .parameter_count = kernel->count,
        .most_threads = kernel->most_threads,
        .registers = kernel->registers,
        .shared = kernel->shared,
        .local = kernel->local,
    };
    if (kernel->count != UINT32_MAX)
        memcpy(mine.parameters, kernel->parameters, kernel->count * sizeof *mine.parameters);
    r = sl_params_store(info, &mine, sizeof mine, sizeof info->size, "struct sluice_kernel_info");
    sl_object_drop(object);
    return r;
}
