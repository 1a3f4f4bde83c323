/* SPDX-License-Identifier: MIT
 *
 * Makes a GPU's context current, and the thread's capture mode relaxed, around driver calls.
 */
#include "cuda/cuda.h"
#include "util/result.h"

/* This thread had no current context when it was last asked for. */
static _Thread_local bool no_context;

/* Is it already current, and still the context that was opened? Usually true, and then nothing else is queried. A
 * thread without a current context is asked for that first: a call that fails takes NVIDIA's driver more than a
 * microsecond. */
static int find_current(struct sl_cuda_context *context, bool *is)
{
    struct sl_cu_context *current = NULL;
    unsigned long long id;
    int r = no_context ? sl_cu(context, CtxGetCurrent, &current) : 0;

    *is = false;
    if (r != 0 || (no_context && !current))
        return r;
    int code = sl_cuda.CtxGetId(NULL, &id);
    no_context = code == SL_CU_INVALID_CONTEXT;
    *is = code == SL_CU_OK && id == context->id;
    return 0;
}

/* Is it still the context that was opened? After a reset a new context may have the same address,
 * in which none of our streams and events exist. */
static int check_identity(struct sl_cuda_context *context)
{
    unsigned long long id;
    int r = sl_cu(context, CtxGetId, context->handle, &id);

    if (r == 0 && id != context->id)
        r = sl_cuda_check(context, SL_CU_CONTEXT_IS_DESTROYED, "cuCtxGetId");
    return r;
}

/* The caller's own context is saved even if it has died. */
static int make_current(struct sl_cuda_context *context, struct sl_cuda_scope *scope)
{
    int r = check_identity(context);

    if (r == 0)
        r = sl_cu(context, CtxPushCurrent, context->handle);
    scope->pushed = r == 0;
    return r;
}

static int relax_capture_mode(struct sl_cuda_context *context, struct sl_cuda_scope *scope)
{
    int r = sl_cu(context, ThreadExchangeStreamCaptureMode, &scope->mode);

    scope->exchanged = r == 0;
    return r;
}

int sl_cuda_enter(struct sl_cuda_context *context, enum sl_cuda_mode mode, struct sl_cuda_scope *scope)
{
    *scope = (struct sl_cuda_scope){ .mode = SL_CU_CAPTURE_MODE_RELAXED };
    bool current;
    int r = sl_cuda_alive(context);
    if (r == 0)
        r = find_current(context, &current);
    if (r == 0 && !current)
        r = make_current(context, scope);
    if (r == 0 && mode == SL_CUDA_RELAXED && (r = relax_capture_mode(context, scope)) != 0)
        sl_cuda_leave(scope);
    return r;
}

int sl_cuda_relax(struct sl_cuda_context *context, struct sl_cuda_scope *scope)
{
    *scope = (struct sl_cuda_scope){ .mode = SL_CU_CAPTURE_MODE_RELAXED };
    return relax_capture_mode(context, scope);
}

void sl_cuda_leave(const struct sl_cuda_scope *scope)
{
    int mode = scope->mode;
    struct sl_cu_context *ours;

    if (scope->exchanged)
        sl_cuda.ThreadExchangeStreamCaptureMode(&mode);
    if (scope->pushed)
        sl_cuda.CtxPopCurrent(&ours);
}
