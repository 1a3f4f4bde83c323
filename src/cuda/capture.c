/* SPDX-License-Identifier: MIT
 *
 * Is somebody capturing a graph on this stream? And the way around the one that is shut by that.
 */
#include "cuda/cuda.h"
#include "util/atomic.h"

int sl_cuda_capture(struct sl_cuda_context *context, struct sl_cu_stream *stream,
                    enum sl_cuda_capture *state, uint64_t *id)
{
    int status = SL_CU_CAPTURE_STATUS_NONE;
    int code = sl_cuda.StreamIsCapturing(stream, &status);

    if (id)
        *id = 0;
    if (code == SL_CU_CAPTURE_IMPLICIT) {
        *state = SL_CUDA_CAPTURE_SHUT;
        return 0;
    }
    if (code == SL_CU_CAPTURE_UNSUPPORTED || code == SL_CU_CAPTURE_INVALIDATED) {
        *state = SL_CUDA_CAPTURE_BROKEN;
        return 0;
    }
    if (code != SL_CU_OK)
        return sl_cuda_said(context, code, "cuStreamIsCapturing");
    *state = status == SL_CU_CAPTURE_STATUS_NONE     ? SL_CUDA_CAPTURE_NONE
             : status == SL_CU_CAPTURE_STATUS_ACTIVE ? SL_CUDA_CAPTURE_ACTIVE
                                                     : SL_CUDA_CAPTURE_BROKEN;
    if (!id || *state != SL_CUDA_CAPTURE_ACTIVE)
        return 0;
    return sl_cu(context, StreamGetCaptureInfo, stream, &status, id, NULL, NULL, NULL);
}

/* The first one there makes it for all. */
static int make_beside(struct sl_cuda_context *context, struct sl_cu_stream **stream)
{
    struct sl_cu_stream *made, *other = NULL;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    r = sl_cu(context, StreamCreateWithPriority, &made, 0, 0);
    if (r == 0 && !atomic_compare_exchange_strong(&context->beside, &other, made)) {
        sl_cuda.StreamDestroy(made);
        made = other;
    }
    sl_cuda_leave(&scope);
    if (r == 0)
        *stream = made;
    return r;
}

int sl_cuda_beside(struct sl_cuda_context *context, struct sl_cu_stream **stream)
{
    *stream = sl_load(&context->beside, acquire);
    return *stream ? 0 : make_beside(context, stream);
}
