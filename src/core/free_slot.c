/* SPDX-License-Identifier: MIT
 *
 * A free slot for a writer's next frame, and what is tried when there is none.
 */
#include <stdio.h>

#include "core/writer.h"
#include "util/result.h"

/* A slot may become free without a wake (a queued release, a store that raced with our flag):
 * a waiting begin looks again after this time, which doubles (protocol 3.9). */
#define FIRST_LOOK (SLUICE_MS / 20)
#define LAST_LOOK SLUICE_MS

/* A slot that is added is there in a few ms, unless the GPU is busy with something long. So long a begin that would drop its frame
 * waits for it, and one that waits looks for nothing else. */
#define GROW_PATIENCE (SLUICE_S / 4)
#define GROW_BRIEFLY (20 * SLUICE_MS)

static int take(struct sluice_writer *writer, enum sl_keep keep)
{
    struct sl_serve *serve = writer->serve;
    bool stolen = false;

    if (writer->old_slots)
        sl_generation_retire(writer, keep);
    sl_mutex_lock(&serve->lock);
    int slot = sl_ring_take(&writer->ring, serve->readers, serve->reader_count, keep, &stolen);
    writer->totals.stolen += stolen;
    sl_mutex_unlock(&serve->lock);
    return slot;
}

/* Does a wait end because the device is lost? Its slots' work will never be done then, and nothing can be begun in them. */
static bool is_lost(const struct sluice_writer *writer, int64_t now, int64_t *asked)
{
    if (!writer->flight.idle || now - *asked < SL_LATE)
        return false;
    *asked = now;
    return sl_flight_probe(&writer->flight) != 0;
}

bool sl_free_slot_wait(struct sluice_writer *writer, int64_t deadline, bool (*enough)(struct sluice_writer *, int *),
                       int *out)
{
    struct sl_serve *serve = writer->serve;
    int64_t start = sl_os_now(), now = start, look = FIRST_LOOK, asked = now;
    bool found;

    sl_store(serve->waiting, 1, seq_cst);
    for (;;) {
        uint32_t freed = sl_load(&serve->freed, acquire);
        if ((found = enough(writer, out)) || now >= deadline || is_lost(writer, now, &asked))
            break;
        serve->ops->evict(serve, writer->params.lease_timeout_ns);
        int64_t until = now + look;
        (void)sl_os_wait(&serve->freed, freed, until < deadline ? until : deadline);
        look = look * 2 < LAST_LOOK ? look * 2 : LAST_LOOK;
        now = sl_os_now();
    }
    sl_store(serve->waiting, 0, relaxed);
    sl_mutex_lock(&serve->lock);
    writer->waited_ns += (uint64_t)(now - start);
    sl_mutex_unlock(&serve->lock);
    return found;
}

static bool take_kept(struct sluice_writer *writer, int *slot)
{
    *slot = take(writer, SL_KEEP_ALL);
    return *slot >= 0;
}

static bool take_kept_or_added(struct sluice_writer *writer, int *slot)
{
    return take_kept(writer, slot) || (sl_grow_settle(writer) == 0 && take_kept(writer, slot));
}

/* No slot is free. Tries, in order of the cost to others: to add a slot, to evict a reader that holds one too long, to take
 * an unread frame from a slow reader, to wait. */
static int make_free(struct sluice_writer *writer, int64_t timeout_ns)
{
    bool waits = timeout_ns > 0;
    int64_t deadline = sl_os_deadline(timeout_ns);
    int64_t patience = !waits ? GROW_PATIENCE : timeout_ns < GROW_BRIEFLY ? timeout_ns : GROW_BRIEFLY;
    int slot = sl_grow(writer, patience) == 0 ? take(writer, waits ? SL_KEEP_ALL : SL_KEEP_DEPTH) : -1;

    if (slot >= 0)
        return slot;
    if (waits) {
        SL_STAGE_BEGIN(WAIT_SLOT);
        (void)sl_free_slot_wait(writer, deadline, take_kept_or_added, &slot);
        SL_STAGE_END(WAIT_SLOT);
        return slot;
    }
    if (writer->serve->ops->evict(writer->serve, writer->params.lease_timeout_ns) > 0 &&
        (slot = take(writer, SL_KEEP_DEPTH)) >= 0)
        return slot;
    return take(writer, SL_KEEP_LEASED);
}

int sl_free_slot_find(struct sluice_writer *writer, int64_t timeout_ns)
{
    int slot = take(writer, timeout_ns > 0 ? SL_KEEP_ALL : SL_KEEP_DEPTH);

    writer->took_long = writer->took_long || slot < 0;
    return slot < 0 ? make_free(writer, timeout_ns) : slot;
}

int sl_free_slot_none(struct sluice_writer *writer, uint64_t dropped)
{
    char holders[640], working[48] = "";
    uint32_t count = sl_flight_count(&writer->ring);

    sl_mutex_lock(&writer->serve->lock);
    writer->totals.dropped += dropped;
    writer->serve->ops->totals(writer->serve, &writer->totals);
    writer->serve->ops->holders(writer->serve, holders, sizeof holders);
    sl_mutex_unlock(&writer->serve->lock);
    if (writer->flight.idle && count > 0)
        snprintf(working, sizeof working, ", %u not finished by the device", count);
    return sl_fail(SLUICE_NO_SLOT, "channel '%s': none of its %u slots is free (%u being written%s)%s%s", writer->name,
                   writer->slot_count, writer->begun, working, holders[0] ? ": " : "", holders);
}
