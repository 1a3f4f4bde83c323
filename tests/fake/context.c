/* SPDX-License-Identifier: MIT
 *
 * Contexts, and each thread's stack of them.
 */
#include <stdlib.h>
#include <string.h>

#include "fake/internal.h"

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
struct sl_cu_context *fake_contexts;
struct fake_things fake_living;

/* Begins one life of a context. */
static void begin(struct sl_cu_context *context)
{
    static unsigned long long lives;

    context->alive = true;
    context->error = 0;
    context->id = ++lives;
    fake_log("context\n");
    context->legacy = fake_stream_new(context, 0, 0);
    fake_gpu_start();
}

/* Ends it, and all that is in it. */
static void end(struct sl_cu_context *context)
{
    context->alive = false;
    fake_pause();
    for (struct sl_cu_stream *s = fake_streams; s; s = s->next)
        if (s->context == context)
            fake_stream_end(s);
    fake_events_end(context);
    fake_modules_end(context);
    fake_graphs_end(context);
    fake_memory_end(context);
    pthread_cond_broadcast(&fake_changed);
    for (struct sl_cu_context *c = fake_contexts; c; c = c->next)
        if (c->alive)
            return;
    fake_gpu_stop();
}

static struct sl_cu_context *new_context(int device, bool primary)
{
    struct sl_cu_context *context = calloc(1, sizeof *context);
    if (!context)
        abort();
    context->device = device;
    context->primary = primary;
    context->next = fake_contexts;
    fake_contexts = context;
    return context;
}

static struct sl_cu_context *primary(int device)
{
    for (struct sl_cu_context *c = fake_contexts; c; c = c->next)
        if (c->primary && c->device == device)
            return c;
    return new_context(device, true);
}

int fake_cuDevicePrimaryCtxRetain(struct sl_cu_context **context, int device)
{
    if (fake_place(device) < 0)
        return SL_CU_INVALID_DEVICE;
    pthread_mutex_lock(&fake_lock);
    *context = primary(device);
    if (!(*context)->alive)
        begin(*context);
    (*context)->holds++;
    fake_living.contexts += fake_thread.library;
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

int fake_cuDevicePrimaryCtxRelease(int device)
{
    int code = SL_CU_OK;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = primary(device);
    if (context->holds == 0) {
        fake_break_rule("released more often than retained");
        code = SL_CU_INVALID_CONTEXT;
    } else {
        fake_living.contexts -= fake_thread.library;
        if (context->holds == 1 && context->alive)
            fake_wait_all(context); /* as a GPU does */
        if (--context->holds == 0 && context->alive)
            end(context);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuDevicePrimaryCtxReset(int device)
{
    pthread_mutex_lock(&fake_lock);
    if (primary(device)->alive)
        end(primary(device));
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

int fake_cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    pthread_mutex_lock(&fake_lock);
    *flags = 0;
    *active = primary(device)->alive;
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

void fake_end_contexts(void)
{
    pthread_mutex_lock(&fake_lock);
    for (struct sl_cu_context *c = fake_contexts; c; c = c->next) {
        c->holds = 0;
        if (c->alive)
            end(c);
    }
    fake_living.contexts = 0;
    pthread_mutex_unlock(&fake_lock);
}

void fake_lose(int device, int code)
{
    pthread_mutex_lock(&fake_lock);
    primary(device)->error = code;
    pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
}

int fake_cuCtxCreate(struct sl_cu_context **context, unsigned flags, int device)
{
    (void)flags;
    pthread_mutex_lock(&fake_lock);
    *context = new_context(device, false);
    begin(*context);
    fake_thread.stack[fake_thread.depth++] = *context;
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

int fake_cuCtxDestroy(struct sl_cu_context *context)
{
    pthread_mutex_lock(&fake_lock);
    if (fake_thread.depth && fake_thread.stack[fake_thread.depth - 1] == context)
        fake_thread.depth--;
    end(context);
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

int fake_cuCtxSetCurrent(struct sl_cu_context *context)
{
    if (fake_thread.depth)
        fake_thread.depth--;
    if (context)
        fake_thread.stack[fake_thread.depth++] = context;
    return SL_CU_OK;
}

int fake_cuCtxGetCurrent(struct sl_cu_context **context)
{
    *context = fake_thread_context();
    return SL_CU_OK;
}

int fake_cuCtxPushCurrent(struct sl_cu_context *context)
{
    pthread_mutex_lock(&fake_lock);
    bool alive = context->alive;
    pthread_mutex_unlock(&fake_lock);
    if (!alive)
        return SL_CU_CONTEXT_IS_DESTROYED;
    if (fake_thread.depth == FAKE_DEPTH)
        return SL_CU_OUT_OF_MEMORY;
    fake_thread.stack[fake_thread.depth++] = context;
    return SL_CU_OK;
}

int fake_cuCtxPopCurrent(struct sl_cu_context **context)
{
    if (!fake_thread.depth)
        return SL_CU_INVALID_CONTEXT;
    struct sl_cu_context *top = fake_thread.stack[--fake_thread.depth];
    if (context)
        *context = top;
    return SL_CU_OK;
}

/* NULL: of the current one. */
int fake_cuCtxGetId(struct sl_cu_context *context, unsigned long long *id)
{
    if (!context && !(context = fake_thread_context()))
        return SL_CU_INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    int code = context->alive ? SL_CU_OK : SL_CU_CONTEXT_IS_DESTROYED;
    *id = context->id;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

struct sl_cu_context *fake_thread_context(void)
{
    return fake_thread.depth ? fake_thread.stack[fake_thread.depth - 1] : NULL;
}

struct sl_cu_context *fake_current(int *code)
{
    struct sl_cu_context *context = fake_thread_context();

    *code = !context ? SL_CU_INVALID_CONTEXT : !context->alive ? SL_CU_CONTEXT_IS_DESTROYED : context->error;
    if (*code == SL_CU_INVALID_CONTEXT)
        fake_break_rule("no context is current");
    return *code ? NULL : context;
}

void fake_check_context(const struct sl_cu_context *own, const struct sl_cu_context *current)
{
    if (own != current)
        fake_break_rule("in another context than its own");
}

int fake_cuCtxSynchronize(void)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context)
        code = fake_break_all_captures();
    if (context && code == 0)
        code = fake_wait_all(context);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
