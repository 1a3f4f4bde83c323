/* SPDX-License-Identifier: MIT
 *
 * Two GPUs: whether one can access the other's memory directly, and copies where it cannot.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "util/atomic.h"
#include "util/result.h"

#define NAME 64 /* a GPU's model name */

/* A GPU as messages name it. */
struct gpu {
    struct sl_cuda_context looked;
    char uuid[SL_CUDA_UUID_TEXT], name[NAME];
};

static int look_up(const char *name, struct gpu *gpu)
{
    unsigned char uuid[SL_CUDA_UUID];
    int r = sl_cuda_context_describe(name, &gpu->looked);
    if (r == 0)
        r = sl_cu(NULL, DeviceGetUuid, uuid, gpu->looked.device);
    if (r == 0)
        r = sl_cu(NULL, DeviceGetName, gpu->name, NAME, gpu->looked.device);
    if (r == 0)
        sl_cuda_uuid_text(uuid, gpu->uuid);
    return r;
}

/* The driver reports only that there is no access, not why. */
static const char *why_not(const struct gpu *one, const struct gpu *other)
{
    if (sl_cuda_is_disabled(&one->looked, "peers"))
        return "SLUICE_WITHOUT has \"peers\"";
    if (strstr(one->name, "MIG") || strstr(other->name, "MIG"))
        return "instances of a divided GPU (MIG) reach no other's memory";
    return "the driver lets them not be peers: no NVLink or PCIe path that it supports joins them, or an IOMMU, ACS, "
           "or "
           "a virtual machine shuts it (nvidia-smi topo -p2p r)";
}

int sl_cuda_peer_access(const char *name, const char *home)
{
    struct gpu reader, owner;
    int can = 0;
    int r = look_up(name, &reader);
    if (r != 0)
        return r;
    r = look_up(home, &owner);
    /* Hidden from this process: it cannot be queried, but its memory may be mappable all the
     * same. */
    if (r == SLUICE_E_UNSUPPORTED)
        return SLUICE_NOT_READY;
    if (r == 0)
        r = sl_cu(NULL, DeviceCanAccessPeer, &can, reader.looked.device, owner.looked.device);
    if (r == 0 && (!can || sl_cuda_is_disabled(&reader.looked, "peers")))
        r = sl_fail(SLUICE_E_UNSUPPORTED, "%s (%s) cannot reach the memory of %s (%s): %s", reader.uuid, reader.name,
                    owner.uuid, owner.name, why_not(&reader, &owner));
    return r;
}

/* `home` may also be a GPU that this process does not see. */
int sl_cuda_peer_access_failed(struct sl_cuda_context *context, const char *home, int result)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char reason[512], own[SL_CUDA_UUID_TEXT];
    int device;

    if ((result != SLUICE_E_DRIVER && result != SLUICE_E_UNSUPPORTED) || sl_load(&context->lost, relaxed))
        return result;
    snprintf(reason, sizeof reason, "%s", sl_last_error());
    sl_cuda_uuid_text(context->uuid, own);
    bool hidden = sl_cuda_find(home, &device) != 0;
    return sl_fail(SLUICE_E_UNSUPPORTED, "%s (%s) cannot map memory of %s%s%s%.80s%s: %s%s", context->name, own, home,
                   hidden ? ", which this process does not see" : "",
                   hidden && visible ? " (CUDA_VISIBLE_DEVICES is \"" : "", hidden && visible ? visible : "",
                   hidden && visible ? "\")" : "", reason, hidden ? "; let the process see both GPUs" : "");
}

/* ---- copies ---- */

static int find_stream(struct sl_cuda_context *context)
{
    if (context->copy_stream)
        return 0;
    return sl_cu(context, StreamCreateWithPriority, &context->copy_stream, SL_CU_STREAM_NON_BLOCKING, 0);
}

int sl_cuda_copy_begin(struct sl_cuda_context *to, uint64_t address, const struct sl_cuda_context *from,
                       uint64_t source, size_t size)
{
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(to, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    r = find_stream(to);
    if (r == 0 && from->device == to->device)
        r = sl_cu(to, MemcpyDtoDAsync, address, source, size, to->copy_stream);
    else if (r == 0)
        r = sl_cu(to, MemcpyPeerAsync, address, to->handle, source, from->handle, size, to->copy_stream);
    sl_cuda_leave(&scope);
    return r;
}

/* A call that fails says nothing about a copy that is queued already, unless it shows that the GPU is lost. */
int sl_cuda_copy_query(struct sl_cuda_context *to)
{
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(to, SL_CUDA_RELAXED, &scope);

    if (r == 0) {
        int code = to->copy_stream ? sl_cuda.StreamQuery(to->copy_stream) : SL_CU_OK;
        r = code == SL_CU_NOT_READY ? SLUICE_NOT_READY : sl_cuda_check(to, code, "cuStreamQuery");
        sl_cuda_leave(&scope);
    }
    return r < 0 && sl_cuda_alive(to) == 0 ? SLUICE_NOT_READY : r;
}
