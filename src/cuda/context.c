/* SPDX-License-Identifier: MIT
 *
 * A GPU's primary context: found by name, and retained while a device is open.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "util/atomic.h"
#include "util/result.h"

/* ---- which GPU ---- */

void sl_cuda_uuid_text(const unsigned char *uuid, char text[SL_CUDA_UUID_TEXT])
{
    char *at = text + sprintf(text, "GPU-");

    for (int i = 0; i < SL_CUDA_UUID; i++)
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Reads the 32 digits of a UUID, with or without the prefix "GPU-" or "MIG-". */
static bool read_uuid(const char *text, unsigned char *uuid)
{
    int digits = 0;

    if (strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0)
        text += 4;
    for (; *text; text++) {
        int value = hex_digit(*text);
        if (*text == '-')
            continue;
        if (value < 0 || digits == 2 * SL_CUDA_UUID)
            return false;
        uuid[digits / 2] = (unsigned char)(digits % 2 ? uuid[digits / 2] << 4 | value : value);
        digits++;
    }
    return digits == 2 * SL_CUDA_UUID;
}

/* SLUICE_E_UNSUPPORTED, with the GPUs that this process does see in the message. */
static int fail_no_gpu(const char *name, int count)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char first[SL_CUDA_UUID_TEXT] = "?";
    unsigned char uuid[SL_CUDA_UUID];
    int device;

    if (sl_cuda.DeviceGet(&device, 0) == SL_CU_OK && sl_cuda.DeviceGetUuid(uuid, device) == SL_CU_OK)
        sl_cuda_uuid_text(uuid, first);
    return sl_fail(SLUICE_E_UNSUPPORTED,
                   "device \"%s\": there is no such GPU; this process sees %d, \"cuda:0\" to "
                   "\"cuda:%d\", the first being %s%s%.80s%s",
                   name, count, count - 1, first, visible ? " (CUDA_VISIBLE_DEVICES is \"" : "", visible ? visible : "",
                   visible ? "\")" : "");
}

static int find_uuid(const char *name, const unsigned char *wanted, int count, int *device)
{
    for (int i = 0; i < count; i++) {
        unsigned char uuid[SL_CUDA_UUID];
        int r = sl_cu(NULL, DeviceGet, device, i);
        if (r == 0)
            r = sl_cu(NULL, DeviceGetUuid, uuid, *device);
        if (r != 0)
            return r;
        if (memcmp(uuid, wanted, sizeof uuid) == 0)
            return 0;
    }
    return fail_no_gpu(name, count);
}

int sl_cuda_find(const char *name, int *device)
{
    unsigned char uuid[SL_CUDA_UUID];
    const char *which = strncmp(name, "cuda:", 5) == 0 ? name + 5 : "";
    size_t digits = strspn(which, "0123456789");
    int count;

    int r = sl_cu(NULL, DeviceGetCount, &count);
    if (r != 0)
        return r;
    if (digits > 0 && digits <= 3 && !which[digits]) {
        int ordinal = atoi(which);
        if (ordinal >= count)
            return fail_no_gpu(name, count);
        return sl_cu(NULL, DeviceGet, device, ordinal);
    }
    if (read_uuid(which, uuid))
        return find_uuid(name, uuid, count, device);
    return sl_fail(SLUICE_E_INVALID,
                   "\"%.80s\" is not the name of a GPU, such as \"cuda:0\" or "
                   "\"cuda:UUID\"",
                   name);
}

int sl_cuda_identify(const char *name, unsigned char uuid[SL_CUDA_UUID])
{
    int device = 0;
    int r = sl_cuda_load();
    if (r == 0)
        r = sl_cuda_find(name, &device);
    return r == 0 ? sl_cu(NULL, DeviceGetUuid, uuid, device) : r;
}

/* ---- opening ---- */

/* The context is also created and released in the relaxed mode, as that allocates and frees memory. */
static int retain(struct sl_cuda_context *context)
{
    int mode = SL_CU_CAPTURE_MODE_RELAXED;
    int r = sl_cu(context, ThreadExchangeStreamCaptureMode, &mode);
    if (r != 0)
        return r;
    r = sl_cu(context, DevicePrimaryCtxRetain, &context->handle, context->device);
    sl_cuda.ThreadExchangeStreamCaptureMode(&mode);
    return r;
}

/* Also for a lost context, and for one that was reset: our reference to it still counts. */
static void release(struct sl_cuda_context *context)
{
    int mode = SL_CU_CAPTURE_MODE_RELAXED;

    if (sl_cuda.ThreadExchangeStreamCaptureMode(&mode) != SL_CU_OK)
        return; /* leaks the reference rather than invalidate a capture */
    sl_cuda.DevicePrimaryCtxRelease(context->device);
    sl_cuda.ThreadExchangeStreamCaptureMode(&mode);
}

static int open_context(struct sl_cuda_context *context)
{
    int same = 0;
    int r = sl_cu(context, DeviceGetUuid, context->uuid, context->device);
    if (r == 0)
        r = sl_cu(context, DeviceGetAttribute, &same, SL_CU_CAN_USE_HOST_POINTER, context->device);
    if (r == 0)
        r = retain(context);
    if (r != 0)
        return r;
    context->same_addresses = same != 0;
    r = sl_cu(context, CtxGetId, context->handle, &context->id);
    if (r != 0)
        release(context);
    return r;
}

int sl_cuda_context_describe(const char *name, struct sl_cuda_context *context)
{
    int device = 0;
    int r = sl_cuda_load();
    if (r == 0)
        r = sl_cuda_find(name, &device);
    if (r != 0)
        return r;
    *context = (struct sl_cuda_context){ .device = device };
    snprintf(context->name, sizeof context->name, "%s", name);
    return sl_cuda_read_disabled(&context->disabled);
}

int sl_cuda_context_open(const char *name, struct sl_cuda_context **out)
{
    struct sl_cuda_context *context = calloc(1, sizeof *context);
    if (!context)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for device \"%s\" (%zu bytes)", name, sizeof *context);
    int r = sl_cuda_context_describe(name, context);
    if (r == 0)
        r = open_context(context);
    if (r == 0)
        context->batches_work = sl_cuda_batches_work(context);
    if (r != 0)
        free(context);
    else
        *out = context;
    return r;
}

/* Work that is queued on it still runs. */
static void destroy_copy_stream(struct sl_cuda_context *context)
{
    struct sl_cuda_scope scope;

    if (!context->copy_stream || sl_cuda_enter(context, SL_CUDA_RELAXED, &scope) != 0)
        return; /* destroyed with the context */
    sl_cuda.StreamDestroy(context->copy_stream);
    sl_cuda_leave(&scope);
}

void sl_cuda_context_close(struct sl_cuda_context *context)
{
    if (!context)
        return;
    sl_cuda_aux_stream_release(context);
    destroy_copy_stream(context);
    release(context);
    free(context);
}
