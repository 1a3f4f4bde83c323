/* SPDX-License-Identifier: MIT
 *
 * A free slot for a writer's next frame, and what is tried when there is none.
 */
#include <stdio.h>

#include "native/writer/writer.h"
#include "util/result.h"

/* A slot may become free without a wake (a queued release, a store that raced with our flag):
 * a waiting begin looks again after this time, which doubles (protocol 3.9). */
#define FIRST_LOOK (SLUICE_MS / 20)
#define LAST_LOOK SLUICE_MS

/* A slot that is added is there in a few ms, unless the GPU is busy with something long. So long a begin that would drop its frame
 * waits for it, and one that waits looks for nothing else. */
#define GROW_PATIENCE (SLUICE_S / 4)
#define GROW_BRIEFLY (20 * SLUICE_MS)

static int take(struct sl_writer *writer, enum sl_keep keep)
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

/* Does a wait end because the device is lost? Its slots' work will never be done then, and nothing can be begun in them. */
static bool is_lost(const struct sl_writer *writer, int64_t now, int64_t *asked)
{
    if (!writer->in_flight.idle || now - *asked < SL_LATE)
        return false;
    *asked = now;
    return sl_in_flight_probe(&writer->in_flight) != 0;
}

bool sl_free_slot_wait(struct sl_writer *writer, int64_t since, int64_t timeout_ns,
                       bool (*enough)(struct sl_writer *, int *), int *out)
{
    struct sl_serve *serve = writer->serve;
    int64_t start = sl_os_now(), now = start, deadline = sl_os_later(since, timeout_ns), look = FIRST_LOOK, asked = now;
    bool found;

    sl_store(serve->waiting, 1, seq_cst);
    for (;;) {
        uint32_t freed = sl_load(&serve->freed, acquire);
        if ((found = enough(writer, out)) || now >= deadline || is_lost(writer, now, &asked))
            break;
        sl_serve_evict(serve, writer->params.lease_timeout_ns);
        int64_t until = now + look;
        (void)sl_os_futex_wait(&serve->freed, freed, until < deadline ? until : deadline);
        look = look * 2 < LAST_LOOK ? look * 2 : LAST_LOOK;
        now = sl_os_now();
    }
    sl_store(serve->waiting, 0, relaxed);
    sl_mutex_lock(&serve->lock);
    if (now != start) /* else it was there at the first look */
        writer->waited_ns += (uint64_t)(now - since);
    sl_mutex_unlock(&serve->lock);
    return found;
}

static bool take_kept(struct sl_writer *writer, int *slot)
{
    *slot = take(writer, SL_KEEP_ALL);
    return *slot >= 0;
}

static bool take_kept_or_added(struct sl_writer *writer, int *slot)
{
    return take_kept(writer, slot) || (sl_grow_settle(writer) == 0 && take_kept(writer, slot));
}

/* For a writer that waits: a slot is added, or becomes free. */
static int wait_free(struct sl_writer *writer, int64_t timeout_ns)
{
    int64_t since = sl_os_now();
    int slot = sl_grow(writer, timeout_ns < GROW_BRIEFLY ? timeout_ns : GROW_BRIEFLY) == 0 ? take(writer, SL_KEEP_ALL) : -1;

    if (slot < 0)
        (void)sl_free_slot_wait(writer, since, timeout_ns, take_kept_or_added, &slot);
    return slot;
}

/* No slot is free. Tries, in order of the cost to others: to add a slot, to evict a reader that holds one too long, to take
 * an unread frame from a slow reader, to wait. */
static int make_free(struct sl_writer *writer, int64_t timeout_ns)
{
    int slot = -1;

    if (timeout_ns > 0) {
        SL_STAGE_BEGIN(WAIT_SLOT);
        slot = wait_free(writer, timeout_ns);
        SL_STAGE_END(WAIT_SLOT);
        return slot;
    }
    if (sl_grow(writer, GROW_PATIENCE) == 0)
        slot = take(writer, SL_KEEP_DEPTH);
    if (slot < 0 && sl_serve_evict(writer->serve, writer->params.lease_timeout_ns) > 0)
        slot = take(writer, SL_KEEP_DEPTH);
    return slot < 0 ? take(writer, SL_KEEP_LEASED) : slot;
}

int sl_free_slot_find(struct sl_writer *writer, int64_t timeout_ns)
{
    int slot = take(writer, timeout_ns > 0 ? SL_KEEP_ALL : SL_KEEP_DEPTH);

    writer->took_long = writer->took_long || slot < 0;
    return slot < 0 ? make_free(writer, timeout_ns) : slot;
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
    return sl_fail(SLUICE_NO_SLOT, "channel '%s': none of its %u slots is free (%u being written%s)%s%s", writer->base.name,
                   writer->slot_count, writer->begun, working, holders[0] ? ": " : "", holders);
}
