/* SPDX-License-Identifier: MIT
 *
 * NVML, loaded by name. If the driver lacks a function or the GPU a metric, only that metric is unknown.
 */
#include "nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "term.h"

#define SUCCESS         0
#define TEMPERATURE_GPU 0

struct memory {
    unsigned long long total, free, used;
};

struct utilization {
    unsigned gpu, memory;
};

struct confidential {
    unsigned environment, feature, tools;
};

/* PCIe byte counters. Reading them is fast, while nvmlDeviceGetPcieThroughput takes 20 ms. */
#define FIELD_PCIE_OUT          197
#define FIELD_PCIE_IN           198
#define TYPE_UNSIGNED_LONG      2
#define TYPE_UNSIGNED_LONG_LONG 3
struct field {
    unsigned number, scope;
    long long time_us, took_us;
    int type, result;
    union {
        double fraction;
        unsigned long long number;
    } value;
};
_Static_assert(sizeof(struct field) == 40, "as NVML has it");

static struct {
    void *library;
    bool tried;
    int (*Init_v2)(void);
    int (*Shutdown)(void);
    int (*DeviceGetHandleByUUID)(const char *, void **);
    int (*DeviceGetIndex)(void *, unsigned *);
    int (*DeviceGetName)(void *, char *, unsigned);
    int (*DeviceGetUtilizationRates)(void *, struct utilization *);
    int (*DeviceGetMemoryInfo)(void *, struct memory *);
    int (*DeviceGetPowerUsage)(void *, unsigned *);
    int (*DeviceGetTemperature)(void *, int, unsigned *);
    int (*DeviceGetFieldValues)(void *, int, struct field *);
    int (*SystemGetConfComputeState)(struct confidential *);
    int (*SystemGetDriverVersion)(char *, unsigned);
} nvml;

static const struct {
    const char *symbol;
    void *place;
} functions[] = {
#define FUNCTION(name) \
    { \
        "nvml" #name, &nvml.name \
    }
    FUNCTION(Init_v2),
    FUNCTION(Shutdown),
    FUNCTION(DeviceGetHandleByUUID),
    FUNCTION(DeviceGetIndex),
    FUNCTION(DeviceGetName),
    FUNCTION(DeviceGetUtilizationRates),
    FUNCTION(DeviceGetMemoryInfo),
    FUNCTION(DeviceGetPowerUsage),
    FUNCTION(DeviceGetTemperature),
    FUNCTION(DeviceGetFieldValues),
    FUNCTION(SystemGetConfComputeState),
    FUNCTION(SystemGetDriverVersion),
#undef FUNCTION
};

/* ---- the library ---- */

/* Tries only once: a driver is not installed while the command runs. */
static bool load_library(void)
{
    const char *path = secure_getenv("SLUICE_NVML");
    if (nvml.tried)
        return nvml.library != NULL;
    nvml.tried = true;
    nvml.library = dlopen(path && *path ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nvml.library)
        return false;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        /* POSIX guarantees that function pointers fit a void pointer. */
        void *found = dlsym(nvml.library, functions[i].symbol);
        memcpy(functions[i].place, &found, sizeof found);
    }
    if (nvml.Init_v2 && nvml.DeviceGetHandleByUUID && nvml.Init_v2() == SUCCESS)
        return true;
    dlclose(nvml.library);
    nvml.library = NULL;
    return false;
}

void nvml_close(void)
{
    if (nvml.library && nvml.Shutdown)
        nvml.Shutdown();
    if (nvml.library)
        dlclose(nvml.library);
    nvml.library = NULL;
    nvml.tried = false;
}

int nvml_confidential(void)
{
    struct confidential state = { 0 };
    if (!load_library() || !nvml.SystemGetConfComputeState || nvml.SystemGetConfComputeState(&state) != SUCCESS)
        return -1;
    return state.feature != 0;
}

bool nvml_driver(char *text, size_t size)
{
    return load_library() && nvml.SystemGetDriverVersion &&
           nvml.SystemGetDriverVersion(text, (unsigned)size) == SUCCESS;
}

/* ---- one GPU ---- */

static void uuid_text(char *text, const char *kind, const unsigned char uuid[16])
{
    text += sprintf(text, "%s-", kind);
    for (int i = 0; i < 16; i++)
        text += sprintf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

bool nvml_find(const unsigned char uuid[16], struct nvml_gpu *gpu)
{
    static const char *const kinds[] = { "GPU", "MIG" };
    char text[sizeof gpu->uuid];
    bool found = false;
    for (int i = 0; i < 2 && !found; i++) {
        uuid_text(text, kinds[i], uuid);
        found = nvml_find_by_uuid(text, gpu);
    }
    return found;
}

bool nvml_find_by_uuid(const char *uuid, struct nvml_gpu *gpu)
{
    *gpu = (struct nvml_gpu){ 0 };
    snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
    if (!load_library() || nvml.DeviceGetHandleByUUID(gpu->uuid, &gpu->handle) != SUCCESS)
        gpu->handle = NULL;
    if (!gpu->handle)
        return false;
    if (!nvml.DeviceGetIndex || nvml.DeviceGetIndex(gpu->handle, &gpu->index) != SUCCESS)
        gpu->index = 0;
    if (!nvml.DeviceGetName || nvml.DeviceGetName(gpu->handle, gpu->name, sizeof gpu->name) != SUCCESS)
        snprintf(gpu->name, sizeof gpu->name, "GPU");
    gpu->name[sizeof gpu->name - 1] = 0;
    return true;
}

static bool is_count(const struct field *field)
{
    return field->result == SUCCESS && (field->type == TYPE_UNSIGNED_LONG || field->type == TYPE_UNSIGNED_LONG_LONG);
}

/* The growth of a counter per second; NAN the first time, and if the counter was reset. */
static double rate(const struct field *field, uint64_t *before, double seconds)
{
    uint64_t last = *before, now = field->value.number;
    *before = now;
    return seconds > 0 && now >= last ? (double)(now - last) / seconds : NAN;
}

static void read_pcie(struct nvml_gpu *gpu)
{
    struct field fields[] = { { .number = FIELD_PCIE_IN }, { .number = FIELD_PCIE_OUT } };
    int64_t now = now_ns();
    gpu->pcie_in = gpu->pcie_out = NAN;
    if (!nvml.DeviceGetFieldValues || nvml.DeviceGetFieldValues(gpu->handle, 2, fields) != SUCCESS ||
        !is_count(&fields[0]) || !is_count(&fields[1]))
        return;
    double seconds = gpu->read_ns ? (double)(now - gpu->read_ns) / 1e9 : 0;
    gpu->pcie_in = rate(&fields[0], &gpu->in_before, seconds);
    gpu->pcie_out = rate(&fields[1], &gpu->out_before, seconds);
    gpu->read_ns = now;
}

void nvml_read(struct nvml_gpu *gpu)
{
    struct utilization load;
    struct memory memory;
    unsigned number;
    gpu->load = gpu->memory_used = gpu->memory_total = gpu->watts = gpu->celsius = NAN;
    if (nvml.DeviceGetUtilizationRates && nvml.DeviceGetUtilizationRates(gpu->handle, &load) == SUCCESS)
        gpu->load = load.gpu;
    if (nvml.DeviceGetMemoryInfo && nvml.DeviceGetMemoryInfo(gpu->handle, &memory) == SUCCESS) {
        gpu->memory_used = (double)memory.used;
        gpu->memory_total = (double)memory.total;
    }
    if (nvml.DeviceGetPowerUsage && nvml.DeviceGetPowerUsage(gpu->handle, &number) == SUCCESS)
        gpu->watts = number / 1e3;
    if (nvml.DeviceGetTemperature && nvml.DeviceGetTemperature(gpu->handle, TEMPERATURE_GPU, &number) == SUCCESS)
        gpu->celsius = number;
    read_pcie(gpu);
}
