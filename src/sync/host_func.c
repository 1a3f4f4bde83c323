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
    TAKEN,   /* by the thread that queues it, until the function is called */
    RUNNING, /* its words are being raised */
    LEFT,    /* its pages were detached before the call: it raises nothing, and frees itself */
    LOST,    /* its context was lost, too: it may still be called, so it is leaked */
};

struct errand {
    struct errand *next; /* constant once it is listed */
    sl_word32 state;
    uint32_t count;
    struct sl_signal signals[SL_SIGNALS];
};

struct sl_errands {
    _Atomic(struct errand *) list;
};

int sl_errands_begin(struct sl_errands **errands)
{
    *errands = calloc(1, sizeof **errands);
    return *errands ? 0 : sl_fail(SLUICE_E_NO_MEMORY, "no memory for a list of words to raise");
}

/* Changes the state from one to another; false if it was not in the first. */
static bool turn(struct errand *errand, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(&errand->state, &from, to);
}

/* A thread that sees the last word raised may get here before the function has returned. Only a few
 * stores remain, so this lasts no longer than the function's thread is preempted. */
static void wait_for_return(struct errand *errand)
{
    while (sl_load(&errand->state, acquire) == RUNNING)
        sl_os_yield();
}

static void keep(struct errand *errand)
{
    static _Atomic(struct errand *) kept;

    errand->next = sl_exchange(&kept, errand);
}

/* In a lost context a function that has not begun is never called. */
static void let_go(struct errand *errand, const struct sl_cuda_context *context)
{
    bool lives = sl_cuda_alive(context) == 0;

    if (turn(errand, TAKEN, lives ? LEFT : LOST)) {
        if (!lives)
            keep(errand);
        else
            sl_log(SLUICE_LOG_WARN, "%s: words that were to be raised are not, and pages end", context->name);
        return;
    }
    wait_for_return(errand);
    free(errand);
}

void sl_errands_end(struct sl_errands *errands, const struct sl_cuda_context *context)
{
    struct errand *errand = errands->list;

    while (errand) {
        struct errand *next = errand->next;
        let_go(errand, context);
        errand = next;
    }
    free(errands);
}

static struct errand *make(struct sl_errands *errands)
{
    struct errand *errand = calloc(1, sizeof *errand), *first = sl_load(&errands->list, relaxed);

    if (!errand)
        return NULL;
    errand->state = TAKEN;
    do
        errand->next = first;
    while (!atomic_compare_exchange_weak(&errands->list, &first, errand));
    return errand;
}

/* One that is not in flight. */
static struct errand *take(struct sl_errands *errands)
{
    for (struct errand *errand = sl_load(&errands->list, acquire); errand; errand = errand->next)
        if (sl_load(&errand->state, relaxed) == IDLE && turn(errand, IDLE, TAKEN))
            return errand;
    return make(errands);
}

static void run(void *data)
{
    struct errand *errand = data;

    if (!turn(errand, TAKEN, RUNNING)) {
        if (sl_load(&errand->state, acquire) == LEFT)
            free(errand);
        return;
    }
    for (uint32_t i = 0; i < errand->count; i++)
        sl_store(errand->signals[i].word, errand->signals[i].value, release);
    sl_store(&errand->state, IDLE, release);
}

int sl_errands_queue(struct sl_errands *errands, struct sl_cuda_context *context, struct sl_cu_stream *stream,
                     const struct sl_signal *signals, uint32_t count)
{
    if (count > SL_SIGNALS)
        return sl_fail(SLUICE_E_LIMIT, "%u words cannot be raised at once; %d can", count, SL_SIGNALS);
    struct errand *errand = take(errands);
    if (!errand)
        return sl_fail(SLUICE_E_NO_MEMORY, "%s: no memory for words to raise", context->name);
    memcpy(errand->signals, signals, count * sizeof *signals);
    errand->count = count;
    int r = sl_cu(context, LaunchHostFunc, stream, run, errand);
    if (r != 0)
        sl_store(&errand->state, IDLE, release);
    return r;
}
