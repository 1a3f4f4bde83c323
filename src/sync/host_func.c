/* SPDX-License-Identifier: MIT
 *
 * See host_func.h. The function runs on a thread of the driver's, where driver calls are not allowed:
 * it only stores to memory that was allocated before it was queued.
 */
#include "sync/host_func.h"

#include <stdlib.h>
#include <string.h>

#include "os/os.h"
#include "util/result.h"

enum state {
    IDLE,
    QUEUED,   /* by the thread that queues it, until the function is called */
    RUNNING,  /* its words are being raised */
    DETACHED, /* its pages were detached before the call: it raises nothing, and frees itself */
    LOST,     /* its context was lost, too: it may still be called, so it is leaked */
};

struct func {
    struct func *next; /* constant once it is listed */
    sl_word32 state;
    uint32_t count;
    struct sl_signal signals[SL_SIGNALS];
};

struct sl_host_funcs {
    _Atomic(struct func *) list;
};

int sl_host_funcs_create(struct sl_host_funcs **host_funcs)
{
    *host_funcs = calloc(1, sizeof **host_funcs);
    return *host_funcs ? 0 : sl_fail(SLUICE_E_NO_MEMORY, "no memory for a list of words to raise");
}

/* Changes the state from one to another; false if it was not in the first. */
static bool switch_state(struct func *func, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(&func->state, &from, to);
}

/* A thread that sees the last word raised may get here before the function has returned. Only a few
 * stores remain, so this lasts no longer than the function's thread is preempted. */
static void wait_for_return(struct func *func)
{
    while (sl_load(&func->state, acquire) == RUNNING)
        sl_os_yield();
}

static void leak(struct func *func)
{
    static _Atomic(struct func *) kept;

    func->next = sl_exchange(&kept, func);
}

/* In a lost context a function that has not begun is never called. */
static void detach(struct func *func, const struct sl_cuda_context *context)
{
    bool lives = sl_cuda_alive(context) == 0;

    if (switch_state(func, QUEUED, lives ? DETACHED : LOST)) {
        if (!lives)
            leak(func);
        else
            sl_log(SLUICE_LOG_WARN, "%s: words that were to be raised are not, and pages end", context->name);
        return;
    }
    wait_for_return(func);
    free(func);
}

void sl_host_funcs_destroy(struct sl_host_funcs *host_funcs, const struct sl_cuda_context *context)
{
    struct func *func = host_funcs->list;

    while (func) {
        struct func *next = func->next;
        detach(func, context);
        func = next;
    }
    free(host_funcs);
}

static struct func *add_func(struct sl_host_funcs *host_funcs)
{
    struct func *func = calloc(1, sizeof *func), *first = sl_load(&host_funcs->list, relaxed);

    if (!func)
        return NULL;
    func->state = QUEUED;
    do
        func->next = first;
    while (!atomic_compare_exchange_weak(&host_funcs->list, &first, func));
    return func;
}

/* One that is not in flight. */
static struct func *take_idle_func(struct sl_host_funcs *host_funcs)
{
    for (struct func *func = sl_load(&host_funcs->list, acquire); func; func = func->next)
        if (sl_load(&func->state, relaxed) == IDLE && switch_state(func, IDLE, QUEUED))
            return func;
    return add_func(host_funcs);
}

static void call_func(void *data)
{
    struct func *func = data;

    if (!switch_state(func, QUEUED, RUNNING)) {
        if (sl_load(&func->state, acquire) == DETACHED)
            free(func);
        return;
    }
    for (uint32_t i = 0; i < func->count; i++)
        sl_store(func->signals[i].word, func->signals[i].value, release);
    sl_store(&func->state, IDLE, release);
}

int sl_host_funcs_queue(struct sl_host_funcs *host_funcs, struct sl_cuda_context *context, struct sl_cu_stream *stream,
                        const struct sl_signal *signals, uint32_t count)
{
    if (count > SL_SIGNALS)
        return sl_fail(SLUICE_E_LIMIT, "%u words cannot be raised at once; %d can", count, SL_SIGNALS);
    struct func *func = take_idle_func(host_funcs);
    if (!func)
        return sl_fail(SLUICE_E_NO_MEMORY, "%s: no memory for words to raise", context->name);
    memcpy(func->signals, signals, count * sizeof *signals);
    func->count = count;
    int r = sl_cu(context, LaunchHostFunc, stream, call_func, func);
    if (r != 0)
        sl_store(&func->state, IDLE, release);
    return r;
}
