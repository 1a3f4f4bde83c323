/* SPDX-License-Identifier: MIT
 *
 * Slots of sends that failed because their stream had begun to capture. Copies that were queued before may still use such a
 * slot, and the program's arrays; and a capturing stream takes no word that would tell when they have ended. So the word is queued
 * once the capture has ended, and until then the slot is out of use.
 */
#include "native/writer/writer.h"
#include "util/result.h"

#define LOOK (SLUICE_MS / 2)

enum { NONE, WAITS, SIGNALLED, ENDED };

static struct sl_writer_slot *slot_of(struct sl_withdrawn *withdrawn)
{
    return (struct sl_writer_slot *)(void *)((char *)withdrawn - offsetof(struct sl_writer_slot, withdrawn));
}

/* On any thread, but the writer's slot is nobody else's until it is settled. A stream that accepts no work any more has done what
 * it had. */
static bool try_again(struct sl_after *after)
{
    struct sl_withdrawn *withdrawn = (struct sl_withdrawn *)(void *)((char *)after - offsetof(struct sl_withdrawn, after));
    const struct sl_writer *writer = withdrawn->writer;
    uint32_t slot = (uint32_t)(slot_of(withdrawn) - writer->slots);
    struct sl_signal signal = { &writer->flight.idle[slot], writer->ring.slots[slot].given_up + 1 };
    int r = writer->flight.sync->signal_held(writer->flight.pages, after->stream, after->thread, &signal, 1);

    if (r == SLUICE_E_CAPTURING || r == SLUICE_E_NO_MEMORY)
        return false;
    sl_store(&withdrawn->state, r == 0 ? SIGNALLED : ENDED, release);
    return true;
}

int sl_withdraw(struct sl_writer *writer, uint32_t slot, struct sluice_stream stream)
{
    struct sl_withdrawn *withdrawn = &writer->slots[slot].withdrawn;
    struct sl_stream_place place;
    int r;

    (void)sl_stream_place(stream, &place);
    if ((r = sl_stream_hold(stream, &withdrawn->after.stream)) != 0)
        return r;
    withdrawn->writer = writer;
    withdrawn->after.thread = place.thread;
    withdrawn->after.run = try_again;
    sl_store(&withdrawn->state, WAITS, relaxed);
    writer->withdrawn++;
    sl_after_begin(&withdrawn->after);
    return 0;
}

static void settle(struct sl_writer *writer, uint32_t slot)
{
    struct sl_withdrawn *withdrawn = &writer->slots[slot].withdrawn;

    sl_after_try(&withdrawn->after);
    uint32_t state = sl_load(&withdrawn->state, acquire);
    if (state == WAITS)
        return;
    if (state == SIGNALLED)
        writer->ring.slots[slot].given_up++;
    sl_store(&withdrawn->state, NONE, relaxed);
    writer->withdrawn--;
    sl_frame_cancel(writer, slot);
}

void sl_withdraw_settle(struct sl_writer *writer)
{
    for (uint32_t s = 0; writer->withdrawn > 0 && s < writer->ring.words.ids; s++)
        if (sl_load(&writer->slots[s].withdrawn.state, relaxed) != NONE)
            settle(writer, s);
}

bool sl_withdraw_wait(struct sl_writer *writer, uint32_t slot, int64_t timeout_ns)
{
    int64_t deadline = sl_os_deadline(timeout_ns), now = sl_os_now();

    for (;; now = sl_os_now()) {
        sl_withdraw_settle(writer);
        if (sl_load(&writer->slots[slot].withdrawn.state, relaxed) == NONE &&
            (!sl_ring_works(&writer->ring, slot) || sl_flight_probe(&writer->flight) != 0))
            return true;
        if (now >= deadline)
            return false;
        sl_os_sleep(LOOK);
    }
}

bool sl_withdraw_end(struct sl_writer *writer, int64_t timeout_ns)
{
    int64_t deadline = sl_os_deadline(timeout_ns), now = sl_os_now();

    for (sl_withdraw_settle(writer); writer->withdrawn > 0 && now < deadline; now = sl_os_now()) {
        sl_os_sleep(LOOK);
        sl_withdraw_settle(writer);
    }
    bool all = writer->withdrawn == 0;
    for (uint32_t s = 0; !all && s < writer->ring.words.ids; s++)
        if (sl_load(&writer->slots[s].withdrawn.state, relaxed) != NONE)
            sl_after_cancel(&writer->slots[s].withdrawn.after);
    return all;
}
