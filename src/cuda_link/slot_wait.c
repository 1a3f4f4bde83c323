/* SPDX-License-Identifier: MIT
 *
 * How a writer waits on the CPU for its GPU.
 */
#include "cuda_link/cuda_link.h"
#include "util/result.h"

#define SPIN (200 * INT64_C(1000))

int sl_cipd_await(struct sl_cipd_writer *writer, sl_cipd_query *query, const struct sl_cipd_slot *slot,
                  int64_t timeout_ns, int64_t *waited_ns)
{
    int64_t began = 0, now = 0;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(writer->context, SL_CUDA_RELAXED, &scope);

    if (r != 0)
        return r;
    while ((r = query(writer, slot)) == SLUICE_NOT_READY) {
        if (began == 0)
            began = now = sl_os_now();
        /* `now` is from before the query: this thread may have been suspended since. */
        if (now >= sl_os_later(began, timeout_ns))
            break;
        if (now - began >= SPIN) /* until then without a pause, as a query takes long enough */
            sl_os_sleep(SL_CIPD_POLL_INTERVAL);
        now = sl_os_now();
    }
    sl_cuda_leave(&scope);
    *waited_ns = now - began;
    return r;
}

/* Has the GPU done all work queued for the slot? */
static int query_slot(struct sl_cipd_writer *writer, const struct sl_cipd_slot *slot)
{
    return sl_cuda_query_event(writer->context, slot->last_work.event);
}

int sl_cipd_await_slot(struct sl_cipd_writer *writer, struct sl_cipd_slot *slot, int64_t timeout_ns)
{
    int64_t waited_ns = 0;
    int r = slot->last_work.stream == 0 ? 0 : sl_cipd_await(writer, query_slot, slot, timeout_ns, &waited_ns);

    sl_store(&slot->wait_ns, (uint64_t)waited_ns, relaxed);
    return r;
}

bool sl_cipd_drain(struct sl_cipd_writer *writer, int64_t patience_ns)
{
    int64_t until = sl_os_deadline(patience_ns);
    bool done = true;

    for (uint32_t i = 0; writer->pool && i < writer->pool->count && done; i++) {
        int64_t left = until - sl_os_now();
        done = sl_cipd_await_slot(writer, &writer->pool->slots[i], left > 0 ? left : 0) != SLUICE_NOT_READY;
    }
    return done;
}
