/* SPDX-License-Identifier: MIT
 *
 * Cancels frames of sends that failed because their stream began to capture a graph. Copies that were queued before may
 * still use the slot, and the program's arrays. No signal that tells when they have completed can be queued during the
 * capture, so it is queued afterwards; until then the slot is out of use.
 */
#include "native/writer/writer.h"
#include "util/result.h"

#define POLL_INTERVAL (SLUICE_MS / 2)

enum { NONE, WAITS, SIGNALLED, ENDED };

static struct sl_writer_slot *slot_of(struct sl_deferred_cancel *deferred)
{
    return (struct sl_writer_slot *)(void *)((char *)deferred - offsetof(struct sl_writer_slot, deferred_cancel));
}

/* On any thread: nobody else uses the slot until it is settled. A stream that accepts no more work has completed what
 * it had. */
static bool retry_signal(struct sl_deferred *after)
{
    struct sl_deferred_cancel *deferred =
        (struct sl_deferred_cancel *)(void *)((char *)after - offsetof(struct sl_deferred_cancel, after));
    const struct sl_writer *writer = deferred->writer;
    uint32_t slot = (uint32_t)(slot_of(deferred) - writer->slots);
    struct sl_signal signal = { &writer->in_flight.idle[slot], writer->ring.slots[slot].given_up + 1 };
    int r = writer->in_flight.sync->signal_held(writer->in_flight.pages, after->stream, after->thread, &signal, 1);

    if (r == SLUICE_E_CAPTURING || r == SLUICE_E_NO_MEMORY)
        return false;
    sl_store(&deferred->state, r == 0 ? SIGNALLED : ENDED, release);
    return true;
}

int sl_deferred_cancel_begin(struct sl_writer *writer, uint32_t slot, struct sluice_stream stream)
{
    struct sl_deferred_cancel *deferred = &writer->slots[slot].deferred_cancel;
    struct sl_stream_queue queue;
    int r;

    (void)sl_stream_queue_of(stream, &queue);
    if ((r = sl_stream_hold(stream, &deferred->after.stream)) != 0)
        return r;
    deferred->writer = writer;
    deferred->after.thread = queue.thread;
    deferred->after.run = retry_signal;
    sl_store(&deferred->state, WAITS, relaxed);
    writer->deferred_cancels++;
    sl_deferred_add(&deferred->after);
    return 0;
}

static void settle_slot(struct sl_writer *writer, uint32_t slot)
{
    struct sl_deferred_cancel *deferred = &writer->slots[slot].deferred_cancel;

    sl_deferred_run(&deferred->after);
    uint32_t state = sl_load(&deferred->state, acquire);
    if (state == WAITS)
        return;
    if (state == SIGNALLED)
        writer->ring.slots[slot].given_up++;
    sl_store(&deferred->state, NONE, relaxed);
    writer->deferred_cancels--;
    sl_frame_cancel(writer, slot);
}

void sl_deferred_cancel_settle(struct sl_writer *writer)
{
    for (uint32_t s = 0; writer->deferred_cancels > 0 && s < writer->ring.words.ids; s++)
        if (sl_load(&writer->slots[s].deferred_cancel.state, relaxed) != NONE)
            settle_slot(writer, s);
}

bool sl_deferred_cancel_wait(struct sl_writer *writer, uint32_t slot, int64_t timeout_ns)
{
    int64_t deadline = sl_os_deadline(timeout_ns), now = sl_os_now();

    for (;; now = sl_os_now()) {
        sl_deferred_cancel_settle(writer);
        if (sl_load(&writer->slots[slot].deferred_cancel.state, relaxed) == NONE &&
            (!sl_ring_is_busy(&writer->ring, slot) || sl_in_flight_probe(&writer->in_flight) != 0))
            return true;
        if (now >= deadline)
            return false;
        sl_os_sleep(POLL_INTERVAL);
    }
}

bool sl_deferred_cancel_end(struct sl_writer *writer, int64_t timeout_ns)
{
    int64_t deadline = sl_os_deadline(timeout_ns), now = sl_os_now();

    for (sl_deferred_cancel_settle(writer); writer->deferred_cancels > 0 && now < deadline; now = sl_os_now()) {
        sl_os_sleep(POLL_INTERVAL);
        sl_deferred_cancel_settle(writer);
    }
    bool all = writer->deferred_cancels == 0;
    for (uint32_t s = 0; !all && s < writer->ring.words.ids; s++)
        if (sl_load(&writer->slots[s].deferred_cancel.state, relaxed) != NONE)
            sl_deferred_cancel(&writer->slots[s].deferred_cancel.after);
    return all;
}
