/* SPDX-License-Identifier: MIT
 *
 * Is this stream being captured into a graph? And a stream to use instead of the default stream, while a capture on a
 * blocking stream makes that one unusable.
 */
#include "cuda/cuda.h"

#include <pthread.h>

#include "util/atomic.h"

int sl_cuda_capture(struct sl_cuda_context *context, struct sl_cu_stream *stream, enum sl_cuda_capture *state,
                    uint64_t *id)
{
    int status = SL_CU_CAPTURE_STATUS_NONE;
    uint64_t found = 0;
    int code = id ? sl_cuda.StreamGetCaptureInfo(stream, &status, &found, NULL, NULL, NULL)
                  : sl_cuda.StreamIsCapturing(stream, &status);

    if (id)
        *id = 0;
    if (code == SL_CU_CAPTURE_IMPLICIT) {
        *state = SL_CUDA_CAPTURE_BLOCKED;
        return 0;
    }
    if (code == SL_CU_CAPTURE_UNSUPPORTED || code == SL_CU_CAPTURE_INVALIDATED) {
        *state = SL_CUDA_CAPTURE_BROKEN;
        return 0;
    }
    if (code != SL_CU_OK)
        return sl_cuda_check(context, code, id ? "cuStreamGetCaptureInfo" : "cuStreamIsCapturing");
    *state = status == SL_CU_CAPTURE_STATUS_NONE     ? SL_CUDA_CAPTURE_NONE
             : status == SL_CU_CAPTURE_STATUS_ACTIVE ? SL_CUDA_CAPTURE_ACTIVE
                                                     : SL_CUDA_CAPTURE_BROKEN;
    if (id && *state == SL_CUDA_CAPTURE_ACTIVE)
        *id = found;
    return 0;
}

int sl_cuda_may_launch(struct sl_cuda_context *context, struct sl_cu_stream *stream, uint64_t *id)
{
    enum sl_cuda_capture state = SL_CUDA_CAPTURE_NONE;
    int r = sl_cuda_capture(context, stream, &state, id);

    if (r != 0 || state == SL_CUDA_CAPTURE_NONE || state == SL_CUDA_CAPTURE_ACTIVE)
        return r;
    return sl_fail(
        SLUICE_E_CAPTURING, "%s: %s", context->name,
        sl_cuda_code_remedy(state == SL_CUDA_CAPTURE_BLOCKED ? SL_CU_CAPTURE_IMPLICIT : SL_CU_CAPTURE_INVALIDATED));
}

/* One for each GPU, however often its context is open: the work of two such streams would run
 * behind the default stream's, but without an order between the two. */
static struct {
    unsigned long long life; /* ID of the context that the stream belongs to */
    struct sl_cu_stream *stream;
    unsigned users;
} aux_streams[64];
static pthread_mutex_t aux_streams_lock = PTHREAD_MUTEX_INITIALIZER;

/* Called with the lock held. */
static int join_aux_stream(struct sl_cuda_context *context, size_t at)
{
    int r = 0;

    if (aux_streams[at].life != context->id) { /* the old stream was destroyed with its context */
        aux_streams[at].life = context->id;
        aux_streams[at].stream = NULL;
        aux_streams[at].users = 0;
    }
    if (!aux_streams[at].stream)
        r = sl_cu(context, StreamCreateWithPriority, &aux_streams[at].stream, 0, 0);
    if (r == 0) {
        aux_streams[at].users++;
        sl_store(&context->aux_stream, aux_streams[at].stream, release);
    } else {
        aux_streams[at].stream = NULL;
    }
    return r;
}

int sl_cuda_aux_stream(struct sl_cuda_context *context, struct sl_cu_stream **stream)
{
    size_t at = (size_t)context->device % (sizeof aux_streams / sizeof *aux_streams);
    struct sl_cuda_scope scope;

    *stream = sl_load(&context->aux_stream, acquire);
    if (*stream)
        return 0;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    pthread_mutex_lock(&aux_streams_lock);
    r = sl_load(&context->aux_stream, relaxed) ? 0 : join_aux_stream(context, at);
    *stream = sl_load(&context->aux_stream, relaxed);
    pthread_mutex_unlock(&aux_streams_lock);
    sl_cuda_leave(&scope);
    return r;
}

/* Work that is queued on it still runs. */
void sl_cuda_aux_stream_release(struct sl_cuda_context *context)
{
    size_t at = (size_t)context->device % (sizeof aux_streams / sizeof *aux_streams);
    struct sl_cu_stream *last = NULL;
    struct sl_cuda_scope scope;

    if (!sl_load(&context->aux_stream, relaxed))
        return;
    pthread_mutex_lock(&aux_streams_lock);
    if (aux_streams[at].life == context->id && --aux_streams[at].users == 0) {
        last = aux_streams[at].stream;
        aux_streams[at].stream = NULL;
    }
    pthread_mutex_unlock(&aux_streams_lock);
    if (!last || sl_cuda_enter(context, SL_CUDA_RELAXED, &scope) != 0)
        return; /* still in use elsewhere, or destroyed with the context */
    sl_cuda.StreamDestroy(last);
    sl_cuda_leave(&scope);
}
