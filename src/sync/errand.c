/* SPDX-License-Identifier: MIT
 *
 * See errand.h. The function runs on a thread of the driver's, where it must not call the driver: it only
 * stores, and memory for it is made before it is queued.
 */
#include "sync/errand.h"

#include <stdlib.h>
#include <string.h>

#include "os/os.h"
#include "util/result.h"

#define END_PATIENCE (10 * SLUICE_MS) /* a function that has raised its words returns at once */

struct errand {
    struct errand *next; /* fixed once it is listed */
    sl_word32 taken;     /* by whoever queues it, until it was run */
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

/* Whoever sees the last word raised may be here before the function has returned. In a context that is lost
 * it is never called. */
static bool is_back(const struct errand *errand, const struct sl_cuda_context *context)
{
    int64_t deadline = sl_os_deadline(END_PATIENCE);

    while (sl_load(&errand->taken, acquire)) {
        if (sl_os_now() >= deadline)
            return sl_load(&context->lost, relaxed) != 0;
        sl_os_yield();
    }
    return true;
}

void sl_errands_end(struct sl_errands *errands, const struct sl_cuda_context *context)
{
    struct errand *errand = errands->list;

    while (errand) {
        struct errand *next = errand->next;
        if (is_back(errand, context))
            free(errand);
        else
            sl_log(SLUICE_LOG_WARN, "%s: words that were to be raised are not, and pages end", context->name);
        errand = next;
    }
    free(errands);
}

static struct errand *make(struct sl_errands *errands)
{
    struct errand *errand = calloc(1, sizeof *errand), *first = sl_load(&errands->list, relaxed);

    if (!errand)
        return NULL;
    errand->taken = 1;
    do
        errand->next = first;
    while (!atomic_compare_exchange_weak(&errands->list, &first, errand));
    return errand;
}

/* One that is not under way. */
static struct errand *take(struct sl_errands *errands)
{
    for (struct errand *errand = sl_load(&errands->list, acquire); errand; errand = errand->next)
        if (!sl_load(&errand->taken, relaxed) && sl_exchange(&errand->taken, 1) == 0)
            return errand;
    return make(errands);
}

static void run(void *data)
{
    struct errand *errand = data;

    for (uint32_t i = 0; i < errand->count; i++)
        sl_store(errand->signals[i].word, errand->signals[i].value, release);
    sl_store(&errand->taken, 0, release);
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
        sl_store(&errand->taken, 0, release);
    return r;
}
