/* SPDX-License-Identifier: MIT
 *
 * A free slot for a writer's next frame, and what is tried when there is none.
 */
#include <stdio.h>

#include "native/writer/writer.h"
#include "util/result.h"

/* A slot may become free without a wake (by a queued release, or by a store that raced with our flag), so a begin that
 * waits also polls; the interval doubles (protocol 3.9). */
#define MIN_POLL_INTERVAL (SLUICE_MS / 20)
#define MAX_POLL_INTERVAL SLUICE_MS

/* Adding a slot takes a few ms, unless the GPU is busy. A begin that would drop its frame waits for that at most
 * GROW_TIMEOUT; one that may wait for a reader, too, does nothing else for at most GROW_TIMEOUT_OF_WAIT. */
#define GROW_TIMEOUT         (SLUICE_S / 4)
#define GROW_TIMEOUT_OF_WAIT (20 * SLUICE_MS)

static int take_slot(struct sl_writer *writer, enum sl_keep keep)
{
    struct sl_serve *serve = writer->serve;
    bool stolen = false;

    if (writer->old_slots)
        sl_slot_memory_retire(writer, keep);
    sl_mutex_lock(&serve->lock);
    int slot = sl_ring_take(&writer->ring, serve->readers, serve->reader_count, keep, &stolen);
    writer->totals.stolen += stolen;
    sl_mutex_unlock(&serve->lock);
    return slot;
}

/* If the device is lost, the work on its slots never completes, so the wait for one ends. */
static bool is_device_lost(const struct sl_writer *writer, int64_t now, int64_t *probed_ns)
{
    if (!writer->in_flight.idle || now - *probed_ns < SL_LATE)
        return false;
    *probed_ns = now;
    return sl_in_flight_probe(&writer->in_flight) != 0;
}

bool sl_free_slot_wait(struct sl_writer *writer, int64_t since, int64_t timeout_ns,
                       bool (*is_done)(struct sl_writer *, int *), int *out)
{
    struct sl_serve *serve = writer->serve;
    int64_t start = sl_os_now(), now = start, deadline = sl_os_later(since, timeout_ns), interval = MIN_POLL_INTERVAL,
            probed_ns = now;
    bool found;

    sl_store(serve->waiting, 1, seq_cst);
    for (;;) {
        uint32_t freed = sl_load(&serve->freed, acquire);
        if ((found = is_done(writer, out)) || now >= deadline || is_device_lost(writer, now, &probed_ns))
            break;
        sl_serve_evict(serve, writer->params.lease_timeout_ns);
        int64_t until = now + interval;
        (void)sl_os_futex_wait(&serve->freed, freed, until < deadline ? until : deadline);
        interval = interval * 2 < MAX_POLL_INTERVAL ? interval * 2 : MAX_POLL_INTERVAL;
        now = sl_os_now();
    }
    sl_store(serve->waiting, 0, relaxed);
    sl_mutex_lock(&serve->lock);
    if (now != start) /* else a slot was free at once */
        writer->waited_ns += (uint64_t)(now - since);
    sl_mutex_unlock(&serve->lock);
    return found;
}

static bool take_unneeded(struct sl_writer *writer, int *slot)
{
    *slot = take_slot(writer, SL_KEEP_ALL);
    return *slot >= 0;
}

static bool take_unneeded_or_added(struct sl_writer *writer, int *slot)
{
    return take_unneeded(writer, slot) || (sl_grow_settle(writer) == 0 && take_unneeded(writer, slot));
}

/* For a writer that waits: a slot is added, or becomes free. */
static int wait_for_slot(struct sl_writer *writer, int64_t timeout_ns)
{
    int64_t since = sl_os_now();
    int slot = sl_grow(writer, timeout_ns < GROW_TIMEOUT_OF_WAIT ? timeout_ns : GROW_TIMEOUT_OF_WAIT) == 0
                   ? take_slot(writer, SL_KEEP_ALL)
                   : -1;

    if (slot < 0)
        (void)sl_free_slot_wait(writer, since, timeout_ns, take_unneeded_or_added, &slot);
    return slot;
}

/* No slot is free. Tries, in order of the cost to others: to add a slot, to evict a reader that holds one too long, to
 * take an unread frame from a slow reader, to wait. */
static int make_slot_free(struct sl_writer *writer, int64_t timeout_ns)
{
    int slot = -1;

    if (timeout_ns > 0) {
        SL_STAGE_BEGIN(WAIT_SLOT);
        slot = wait_for_slot(writer, timeout_ns);
        SL_STAGE_END(WAIT_SLOT);
        return slot;
    }
    if (sl_grow(writer, GROW_TIMEOUT) == 0)
        slot = take_slot(writer, SL_KEEP_DEPTH);
    if (slot < 0 && sl_serve_evict(writer->serve, writer->params.lease_timeout_ns) > 0)
        slot = take_slot(writer, SL_KEEP_DEPTH);
    return slot < 0 ? take_slot(writer, SL_KEEP_LEASED) : slot;
}

int sl_free_slot_find(struct sl_writer *writer, int64_t timeout_ns)
{
    int slot = take_slot(writer, timeout_ns > 0 ? SL_KEEP_ALL : SL_KEEP_DEPTH);

    writer->took_long = writer->took_long || slot < 0;
    return slot < 0 ? make_slot_free(writer, timeout_ns) : slot;
}

int sl_free_slot_report_none(struct sl_writer *writer, uint64_t dropped)
{
    char holders[640], working[48] = "";
    uint32_t count = sl_in_flight_count(&writer->ring);

    sl_mutex_lock(&writer->serve->lock);
    writer->totals.dropped += dropped;
    sl_serve_totals(writer->serve, &writer->totals);
    sl_serve_holders(writer->serve, holders, sizeof holders);
    sl_mutex_unlock(&writer->serve->lock);
    if (writer->in_flight.idle && count > 0)
        snprintf(working, sizeof working, ", %u not finished by the device", count);
    return sl_fail(SLUICE_NO_SLOT, "channel '%s': none of its %u slots is free (%u being written%s)%s%s",
                   writer->base.name, writer->slot_count, writer->begun, working, holders[0] ? ": " : "", holders);
}
