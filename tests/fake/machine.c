/* SPDX-License-Identifier: MIT
 *
 * The machine: how many GPUs there are, which of them this process sees, and what they can do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "fake/internal.h"

struct fake_machine fake_machine = {
    .version = 13000,
    .devices = 2,
    .memory = (size_t)256 << 20,
    .unit = (size_t)2 << 20,
    .peers = true,
    .compute = 90,
    .is = "",
};

static const struct {
    const char *name;
    int attribute;
} abilities[] = {
    { "memops", SL_CU_CAN_WRITE_64 },
    { "vmm", SL_CU_CAN_MAP_MEMORY },
    { "export", SL_CU_CAN_EXPORT_FD },
    { "register", SL_CU_CAN_REGISTER_HOST },
    { "readonly", SL_CU_CAN_REGISTER_READ_ONLY },
    { "events", SL_CU_CAN_SHARE_EVENTS },
    { "addresses", SL_CU_CAN_USE_HOST_POINTER },
    { "pools", SL_CU_MEMORY_POOLS },
    { "tcc", SL_CU_TCC_DRIVER },
};

static void take_away(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof abilities / sizeof *abilities; i++) {
        if (strlen(abilities[i].name) == length && !strncmp(abilities[i].name, name, length)) {
            fake_machine.cannot[abilities[i].attribute] = 1;
            return;
        }
    }
    if (length == 5 && strncmp(name, "peers", length) == 0) {
        fake_machine.peers = false;
    } else if (length == 6 && strncmp(name, "unseen", length) == 0) {
        fake_machine.unseen = true;
    } else {
        fprintf(stderr, "SLUICE_FAKE_WITHOUT: there is no \"%.*s\"\n", (int)length, name);
        abort();
    }
}

static long long number(const char *variable, long long otherwise)
{
    const char *text = getenv(variable);

    return text && *text ? atoll(text) : otherwise;
}

void fake_log(const char *line)
{
    const char *path = getenv("SLUICE_FAKE_LOG");
    FILE *file = path && *path ? fopen(path, "ae") : NULL;

    if (!file)
        return;
    fputs(line, file);
    fclose(file);
}

/* The same whenever a program starts with the same arguments, so that a failure can be repeated; different ones
 * otherwise. */
static uint64_t seed(void)
{
    uint64_t sum = (uint64_t)number("SLUICE_FAKE_SEED", getpid());
    FILE *file = fopen("/proc/self/cmdline", "re");

    for (int c; file && (c = getc(file)) != EOF;)
        sum = (sum ^ (uint64_t)c) * 0x100000001b3;
    if (file)
        fclose(file);
    return sum;
}

/* Settings in the environment hold in all of a test's processes. */
__attribute__((constructor)) static void look_around(void)
{
    const char *without = getenv("SLUICE_FAKE_WITHOUT");

    fake_log("loaded\n");
    fake_machine.devices = (int)number("SLUICE_FAKE_GPUS", fake_machine.devices);
    fake_machine.version = (int)number("SLUICE_FAKE_VERSION", fake_machine.version);
    fake_machine.memory = (size_t)number("SLUICE_FAKE_MEMORY", (long long)fake_machine.memory >> 20) << 20;
    fake_machine.delay = number("SLUICE_FAKE_DELAY", 0) * 1000;
    fake_machine.jitter = number("SLUICE_FAKE_JITTER", 0) * 1000;
    fake_machine.seed = fake_machine.jitter ? seed() : 0;
    fake_machine.apart = number("SLUICE_FAKE_APART", 0) != 0;
    fake_machine.compute = (int)number("SLUICE_FAKE_COMPUTE", fake_machine.compute);
    fake_machine.mps = (int)number("SLUICE_FAKE_MPS", 0);
    if (getenv("SLUICE_FAKE_IS"))
        fake_machine.is = getenv("SLUICE_FAKE_IS");
    while (without && *without) {
        size_t length = strcspn(without, ",");
        if (length)
            take_away(without, length);
        without += length + (without[length] == ',');
    }
}

/* ---- which GPU is which ---- */

static void uuid_of(int place, unsigned char *uuid)
{
    for (int i = 0; i < 16; i++)
        uuid[i] = (unsigned char)(0xf0 + i);
    uuid[15] = (unsigned char)place;
}

/* The GPU of the machine that a word of CUDA_VISIBLE_DEVICES means; -1: none. */
static int place_of(const char *word, size_t length)
{
    unsigned char uuid[16];
    char text[64];

    for (int place = 0; place < fake_machine.devices; place++) {
        int n = snprintf(text, sizeof text, "%d", place);
        if ((size_t)n == length && strncmp(word, text, length) == 0)
            return place;
        uuid_of(place, uuid);
        n = snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                     uuid[0], uuid[1], uuid[2], uuid[3], uuid[4], uuid[5], uuid[6], uuid[7], uuid[8], uuid[9], uuid[10],
                     uuid[11], uuid[12], uuid[13], uuid[14], uuid[15]);
        if (length > 4 && length <= (size_t)n && strncasecmp(word, text, length) == 0)
            return place;
    }
    return -1;
}

/* As the driver does it: the list ends at the first word that means no GPU. */
int fake_places(int places[FAKE_GPUS])
{
    const char *word = getenv("CUDA_VISIBLE_DEVICES");
    int count = 0;

    while (count < fake_machine.devices && count < FAKE_GPUS) {
        if (!word) {
            places[count] = count;
        } else {
            size_t length = strcspn(word, ",");
            places[count] = place_of(word, length);
            if (places[count] < 0)
                break;
            word += length + (word[length] == ',');
        }
        count++;
    }
    return count;
}

int fake_place(int device)
{
    int places[FAKE_GPUS];
    int count = fake_places(places);

    return device >= 0 && device < count ? places[device] : -1;
}

/* ---- the functions ---- */

static bool is(const char *word)
{
    size_t length = strlen(word);

    for (const char *at = fake_machine.is; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, word, length) == 0)
            return true;
    return false;
}

int fake_cuInit(unsigned flags)
{
    int places[FAKE_GPUS];

    (void)flags;
    if (fake_machine.init)
        return fake_machine.init;
    return fake_places(places) == 0 ? SL_CU_NO_DEVICE : SL_CU_OK;
}

int fake_cuDriverGetVersion(int *version)
{
    *version = fake_machine.version;
    return SL_CU_OK;
}

int fake_cuDeviceGetCount(int *count)
{
    int places[FAKE_GPUS];

    *count = fake_places(places);
    return SL_CU_OK;
}

int fake_cuDeviceGet(int *device, int ordinal)
{
    if (fake_place(ordinal) < 0)
        return SL_CU_INVALID_DEVICE;
    *device = ordinal;
    return SL_CU_OK;
}

int fake_cuDeviceGetUuid(unsigned char *uuid, int device)
{
    int place = fake_place(device);

    uuid_of(place, uuid);
    return place < 0 ? SL_CU_INVALID_DEVICE : SL_CU_OK;
}

int fake_cuDeviceGetName(char *name, int size, int device)
{
    int place = fake_place(device);

    snprintf(name, (size_t)size, "Fake GPU %d%s", place, is("mig") ? " MIG 1g.10gb" : "");
    return place < 0 ? SL_CU_INVALID_DEVICE : SL_CU_OK;
}

int fake_cuDeviceTotalMem(size_t *total, int device)
{
    *total = fake_machine.memory;
    return fake_place(device) < 0 ? SL_CU_INVALID_DEVICE : SL_CU_OK;
}

int fake_cuDeviceGetPCIBusId(char *text, int size, int device)
{
    int place = fake_place(device);

    if (place < 0)
        return SL_CU_INVALID_DEVICE;
    return snprintf(text, (size_t)size, "0000:%02X:00.0", 0x40 + place) < size ? SL_CU_OK : SL_CU_INVALID_VALUE;
}

int fake_cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    if (fake_place(device) < 0 || fake_place(peer) < 0)
        return SL_CU_INVALID_DEVICE;
    *can = fake_machine.peers && device != peer;
    return SL_CU_OK;
}

int fake_cuCtxEnablePeerAccess(struct sl_cu_context *peer, unsigned flags)
{
    static bool enabled[FAKE_GPUS][FAKE_GPUS];
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context && (flags || peer->device == context->device))
        code = flags ? SL_CU_INVALID_VALUE : SL_CU_INVALID_DEVICE;
    else if (context && !fake_machine.peers)
        code = 217; /* PEER_ACCESS_UNSUPPORTED */
    else if (context && enabled[context->device][peer->device])
        code = 704; /* PEER_ACCESS_ALREADY_ENABLED */
    else if (context)
        enabled[context->device][peer->device] = true;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuDeviceGetAttribute(int *value, int attribute, int device)
{
    if (fake_place(device) < 0)
        return SL_CU_INVALID_DEVICE;
    switch (attribute) {
    case SL_CU_COMPUTE_CAPABILITY_MAJOR: *value = fake_machine.compute / 10; break;
    case SL_CU_COMPUTE_CAPABILITY_MINOR: *value = fake_machine.compute % 10; break;
    case SL_CU_COMPUTE_MODE:
        *value = is("prohibited")  ? SL_CU_COMPUTE_PROHIBITED
                 : is("exclusive") ? SL_CU_COMPUTE_EXCLUSIVE_PROCESS
                                   : SL_CU_COMPUTE_DEFAULT;
        break;
    case SL_CU_COPY_ENGINES: *value = 3; break;
    case SL_CU_MOST_SHARED_OPT_IN: *value = 99 << 10; break;
    case SL_CU_KERNEL_TIMEOUT: *value = 0; break;
    case SL_CU_INTEGRATED: *value = is("integrated"); break;
    case SL_CU_MPS_ENABLED: *value = fake_machine.mps > 0; break;
    default: *value = attribute > 0 && attribute < 256 && !fake_machine.cannot[attribute];
    }
    bool known = attribute != SL_CU_MPS_ENABLED || fake_machine.mps >= 0;
    return attribute > 0 && known ? SL_CU_OK : SL_CU_INVALID_VALUE;
}

bool fake_can(int attribute)
{
    if (fake_machine.cannot[attribute])
        fake_break_rule("which this GPU cannot (attribute %d)", attribute);
    return !fake_machine.cannot[attribute];
}
