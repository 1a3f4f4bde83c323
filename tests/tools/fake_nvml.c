/* SPDX-License-Identifier: MIT
 *
 * NVIDIA's management library for machines without a GPU: two GPUs, whose UUIDs are all 1 and all 2, a MIG
 * instance, all 3, and the second GPU of the fake CUDA driver. FAKE_NVML says how it behaves: "dead" does not start,
 * "bare" has no metrics, "confidential" has confidential computing on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API           __attribute__((visibility("default")))
#define NOT_SUPPORTED 3
#define NOT_FOUND     6
#define LOST          9

struct gpu {
    const char *uuid, *name;
    unsigned index, load, milliwatts, celsius;
    unsigned long long used, total;
    unsigned long long in, out;
};

static struct gpu gpus[] = {
    { "GPU-01010101-0101-0101-0101-010101010101", "Fake H200", 4, 87, 312400, 54, 12ull << 30, 140ull << 30, 1000,
      500 },
    { "GPU-02020202-0202-0202-0202-020202020202", "Fake H100\033[2J", 5, 0, 71000, 31, 1ull << 30, 80ull << 30, 0, 0 },
    { "MIG-03030303-0303-0303-0303-030303030303", "Fake MIG 1g", 0, 0, 0, 0, 1ull << 30, 10ull << 30, 0, 0 },
    { "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe01", "Fake GPU 1", 1, 42, 250000, 40, 2ull << 30, 4ull << 30, 0, 0 },
};

static int is(const char *act)
{
    const char *value = getenv("FAKE_NVML");
    return value && strcmp(value, act) == 0;
}

/* The number of starts minus the number of ends: must be 0 at the end. */
API int fake_nvml_running;

API int nvmlInit_v2(void);
API int nvmlShutdown(void);
API int nvmlDeviceGetHandleByUUID(const char *uuid, struct gpu **gpu);
API int nvmlDeviceGetIndex(struct gpu *gpu, unsigned *index);
API int nvmlDeviceGetName(struct gpu *gpu, char *name, unsigned size);
API int nvmlDeviceGetUtilizationRates(struct gpu *gpu, unsigned *load);
API int nvmlDeviceGetMemoryInfo(struct gpu *gpu, unsigned long long *memory);
API int nvmlDeviceGetPowerUsage(struct gpu *gpu, unsigned *milliwatts);
API int nvmlDeviceGetTemperature(struct gpu *gpu, int sensor, unsigned *celsius);
API int nvmlDeviceGetFieldValues(struct gpu *gpu, int count, void *values);
API int nvmlSystemGetConfComputeState(unsigned *state);

int nvmlInit_v2(void)
{
    if (is("dead"))
        return LOST;
    fake_nvml_running++;
    return 0;
}

int nvmlShutdown(void)
{
    fake_nvml_running--;
    return 0;
}

int nvmlSystemGetConfComputeState(unsigned *state)
{
    if (is("bare"))
        return NOT_SUPPORTED;
    state[0] = 2;
    state[1] = is("confidential") ? 1 : 0;
    state[2] = 0;
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct gpu **gpu)
{
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        if (strcmp(gpus[i].uuid, uuid) == 0) {
            *gpu = &gpus[i];
            return 0;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetIndex(struct gpu *gpu, unsigned *index)
{
    *index = gpu->index;
    return 0;
}

int nvmlDeviceGetName(struct gpu *gpu, char *name, unsigned size)
{
    snprintf(name, size, "%s", gpu->name);
    return 0;
}

int nvmlDeviceGetUtilizationRates(struct gpu *gpu, unsigned *load)
{
    if (is("bare") || gpu->uuid[0] == 'M')
        return NOT_SUPPORTED;
    load[0] = gpu->load;
    load[1] = 3;
    return 0;
}

int nvmlDeviceGetMemoryInfo(struct gpu *gpu, unsigned long long *memory)
{
    if (is("bare"))
        return NOT_SUPPORTED;
    memory[0] = gpu->total;
    memory[1] = gpu->total - gpu->used;
    memory[2] = gpu->used;
    return 0;
}

int nvmlDeviceGetPowerUsage(struct gpu *gpu, unsigned *milliwatts)
{
    if (is("bare") || gpu->milliwatts == 0)
        return NOT_SUPPORTED;
    *milliwatts = gpu->milliwatts;
    return 0;
}

int nvmlDeviceGetTemperature(struct gpu *gpu, int sensor, unsigned *celsius)
{
    if (is("bare") || gpu->celsius == 0 || sensor != 0)
        return NOT_SUPPORTED;
    *celsius = gpu->celsius;
    return 0;
}

/* One value: number, scope, two times, type, result, value; 40 bytes. Each query adds 1 MiB of input. */
int nvmlDeviceGetFieldValues(struct gpu *gpu, int count, void *values)
{
    for (int i = 0; i < count; i++) {
        char *value = (char *)values + 40 * i;
        unsigned number;
        int type = 3, result = 0;
        memcpy(&number, value, sizeof number);
        unsigned long long counter = number == 198 ? (gpu->in += 1 << 20) : gpu->out;
        if (is("bare") || (number != 197 && number != 198) || gpu->uuid[0] == 'M')
            result = NOT_SUPPORTED;
        memcpy(value + 24, &type, sizeof type);
        memcpy(value + 28, &result, sizeof result);
        memcpy(value + 32, &counter, sizeof counter);
    }
    return 0;
}
