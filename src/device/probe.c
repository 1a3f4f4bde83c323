/* SPDX-License-Identifier: MIT
 *
 * Which GPUs there are and what they can do, from their attributes alone: no context is made.
 */
#include <stdio.h>
#include <string.h>

#include "cuda/cuda.h"
#include "device/device.h"
#include "util/result.h"

#define LARGEST_STRUCT 65536 /* a larger size was never set */
#define PEERS          64

static int start(int *count)
{
    int r = sl_object_forked();
    if (r == 0)
        r = sl_fork_install();
    return r == 0 ? sl_cuda_count(count) : r;
}

int sl_gpu_count(uint32_t *count)
{
    int found = 0;

    int r = start(&found);
    if (r == 0)
        *count = (uint32_t)found;
    return r;
}

static int find(uint32_t index, int *device)
{
    int count;
    int r = start(&count);
    if (r != 0)
        return r;
    if (count <= 0 || index >= (uint32_t)count)
        return sl_fail(SLUICE_E_UNSUPPORTED, "device \"cuda:%u\": there is no such GPU; this process sees %d", index,
                       count);
    return sl_cu(NULL, DeviceGet, device, (int)index);
}

/* A driver that does not know an attribute is taken to lack the ability. */
static int attribute(int device, enum sl_cu_attribute which)
{
    int value = 0;

    return sl_cuda.DeviceGetAttribute(&value, (int)which, device) == SL_CU_OK ? value : 0;
}

static uint32_t abilities(int device)
{
    static const struct {
        enum sl_cu_attribute attribute;
        enum sluice_device_ability ability;
    } table[] = {
        { SL_CU_CAN_MAP_MEMORY, SLUICE_CAN_MAP },
        { SL_CU_CAN_EXPORT_FD, SLUICE_CAN_EXPORT },
        { SL_CU_CAN_WRITE_64, SLUICE_CAN_QUEUE_WORDS },
        { SL_CU_CAN_SHARE_EVENTS, SLUICE_CAN_SHARE_EVENTS },
        { SL_CU_CAN_REGISTER_HOST, SLUICE_CAN_REGISTER },
        { SL_CU_CAN_REGISTER_READ_ONLY, SLUICE_CAN_REGISTER_READ_ONLY },
    };
    struct sl_cuda_context context = { .device = device };
    uint32_t can = 0;

    if (sl_cuda_read_disabled(&context.disabled) != 0)
        return 0; /* then every open fails, with the reason */
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (sl_cuda_check_cap(&context, table[i].attribute, "") == 0)
            can |= table[i].ability;
    return can;
}

static uint32_t traits(int device, const char *model)
{
    int mode = attribute(device, SL_CU_COMPUTE_MODE);
    uint32_t is = 0;

    if (attribute(device, SL_CU_INTEGRATED))
        is |= SLUICE_IS_INTEGRATED;
    if (strstr(model, " MIG ")) /* there is no attribute for it, but the name has it: "... MIG 1g.10gb" */
        is |= SLUICE_IS_MIG;
    if (mode == SL_CU_COMPUTE_EXCLUSIVE_PROCESS)
        is |= SLUICE_IS_EXCLUSIVE;
    if (mode == SL_CU_COMPUTE_PROHIBITED)
        is |= SLUICE_IS_CLOSED;
    return is;
}

/* The GPUs whose memory it can access directly; one that cannot be queried counts as not
 * accessible. */
static uint64_t peers(int device)
{
    uint64_t set = 0;
    int count = 0;

    if (sl_cuda.DeviceGetCount(&count) != SL_CU_OK)
        return 0;
    for (int i = 0; i < count && i < PEERS; i++) {
        int other, can = 0;
        if (sl_cuda.DeviceGet(&other, i) == SL_CU_OK && other != device &&
            sl_cuda.DeviceCanAccessPeer(&can, device, other) == SL_CU_OK && can)
            set |= UINT64_C(1) << i;
    }
    return set;
}

static int describe(int device, struct sluice_device_report *report)
{
    unsigned char uuid[SL_CUDA_UUID];
    char text[SL_CUDA_UUID_TEXT];
    size_t memory = 0;
    int version = 0;

    int r = sl_cu(NULL, DriverGetVersion, &version);
    if (r == 0)
        r = sl_cu(NULL, DeviceGetName, report->model, sizeof report->model, device);
    if (r == 0)
        r = sl_cu(NULL, DeviceGetUuid, uuid, device);
    if (r == 0)
        r = sl_cu(NULL, DeviceTotalMem, &memory, device);
    if (r != 0)
        return r;
    if (sl_cuda.DeviceGetPCIBusId(report->pci, sizeof report->pci, device) != SL_CU_OK)
        report->pci[0] = '\0'; /* an integrated GPU may have none */
    report->driver = (uint32_t)version;
    report->driver_min = SL_CUDA_MIN_VERSION;
    report->compute_min = SL_CUDA_MIN_COMPUTE;
    report->compute = (uint32_t)(10 * attribute(device, SL_CU_COMPUTE_CAPABILITY_MAJOR) +
                                 attribute(device, SL_CU_COMPUTE_CAPABILITY_MINOR));
    report->memory = memory;
    report->can = abilities(device);
    report->is = traits(device, report->model);
    report->peers = peers(device);
    report->mps = (uint32_t)sl_cuda_mps(device);
    sl_cuda_uuid_text(uuid, text);
    if (report->is & SLUICE_IS_MIG)
        memcpy(text, "MIG", 3);
    memcpy(report->uuid, text, sizeof text);
    return 0;
}

/* Copies as much as the caller's struct has room for; members of a newer caller that are unknown
 * here become 0. */
static void hand_out(void *to, uint32_t room, const void *from, size_t size)
{
    memset(to, 0, room);
    memcpy(to, from, room < size ? room : size);
    memcpy(to, &room, sizeof room);
}

int sl_gpu_probe(uint32_t index, struct sluice_device_report *report)
{
    struct sluice_device_report mine = { 0 };
    int device, mode = SL_CU_CAPTURE_MODE_RELAXED;

    if (report->size < sizeof mine || report->size > LARGEST_STRUCT)
        return sl_fail(SLUICE_E_INVALID, "sluice_device_report.size is %u; set it to sizeof of the struct",
                       report->size);
    int r = find(index, &device);
    if (r == 0)
        r = sl_cu(NULL, ThreadExchangeStreamCaptureMode, &mode);
    if (r != 0)
        return r;
    r = describe(device, &mine);
    sl_cuda.ThreadExchangeStreamCaptureMode(&mode);
    if (r == 0)
        hand_out(report, report->size, &mine, sizeof mine);
    return r;
}

int sl_gpu_selftest(uint32_t index, struct sluice_device_trial *trial)
{
    struct sluice_device_trial mine = { 0 };
    char name[SL_DEVICE_NAME];
    int device;

    if (trial->size < sizeof mine || trial->size > LARGEST_STRUCT)
        return sl_fail(SLUICE_E_INVALID, "sluice_device_trial.size is %u; set it to sizeof of the struct", trial->size);
    int r = find(index, &device);
    if (r != 0)
        return r;
    snprintf(name, sizeof name, "cuda:%u", index);
    r = sl_device_selftest(name, abilities(device), &mine);
    if (r == 0)
        hand_out(trial, trial->size, &mine, sizeof mine);
    return r;
}
