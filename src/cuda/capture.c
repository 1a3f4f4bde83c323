/* SPDX-License-Identifier: MIT
 *
 * Is somebody capturing a graph on this stream?
 */
#include "cuda/cuda.h"

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
