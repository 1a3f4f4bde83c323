/* SPDX-License-Identifier: MIT
 *
 * Is this stream being captured into a graph? And a stream to use instead of the default stream, while a capture on a blocking
 * stream makes that one unusable.
 */
#include "cuda/cuda.h"

#include <pthread.h>

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

/* One for each GPU, however often its context is open: the work of two such streams would run
 * behind the default stream's, but without an order between the two. */
static struct {
    unsigned long long life; /* ID of the context that the stream belongs to */
    struct sl_cu_stream *stream;
    unsigned users;
} besides[64];
static pthread_mutex_t besides_lock = PTHREAD_MUTEX_INITIALIZER;

/* Called with the lock held. */
static int join_beside(struct sl_cuda_context *context, size_t at)
{
    int r = 0;

    if (besides[at].life != context->id) { /* the old stream was destroyed with its context */
        besides[at].life = context->id;
        besides[at].stream = NULL;
        besides[at].users = 0;
    }
    if (!besides[at].stream)
        r = sl_cu(context, StreamCreateWithPriority, &besides[at].stream, 0, 0);
    if (r == 0) {
        besides[at].users++;
        sl_store(&context->beside, besides[at].stream, release);
    } else {
        besides[at].stream = NULL;
    }
    return r;
}

int sl_cuda_beside(struct sl_cuda_context *context, struct sl_cu_stream **stream)
{
    size_t at = (size_t)context->device % (sizeof besides / sizeof *besides);
    struct sl_cuda_scope scope;

    *stream = sl_load(&context->beside, acquire);
    if (*stream)
        return 0;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    pthread_mutex_lock(&besides_lock);
    r = sl_load(&context->beside, relaxed) ? 0 : join_beside(context, at);
    *stream = sl_load(&context->beside, relaxed);
    pthread_mutex_unlock(&besides_lock);
    sl_cuda_leave(&scope);
    return r;
}

/* Work that is queued on it still runs. */
void sl_cuda_leave_beside(struct sl_cuda_context *context)
{
    size_t at = (size_t)context->device % (sizeof besides / sizeof *besides);
    struct sl_cu_stream *last = NULL;
    struct sl_cuda_scope scope;

    if (!sl_load(&context->beside, relaxed))
        return;
    pthread_mutex_lock(&besides_lock);
    if (besides[at].life == context->id && --besides[at].users == 0) {
        last = besides[at].stream;
        besides[at].stream = NULL;
    }
    pthread_mutex_unlock(&besides_lock);
    if (!last || sl_cuda_enter(context, SL_CUDA_RELAXED, &scope) != 0)
        return; /* still in use elsewhere, or destroyed with the context */
    sl_cuda.StreamDestroy(last);
    sl_cuda_leave(&scope);
}
