/* SPDX-License-Identifier: MIT
 *
 * The frames that a reader holds: a table of entries; a frame's arrays, its pin, and whether it is still whole.
 */
#include "native/reader/peer_copy.h"
#include "native/reader/reader.h"
#include "util/result.h"

struct sl_held *sl_held_find(struct sl_reader *reader, const struct sluice_frame *frame)
{
    uint64_t index = frame->opaque[SL_FRAME_ENTRY], token = frame->opaque[SL_FRAME_TOKEN];

    if (frame->opaque[SL_FRAME_OWNER] == atomic_load_explicit(&reader->base.object.id, memory_order_relaxed) &&
        index < SLUICE_MAX_SLOTS && token > SL_HELD_DEFERRED && sl_load(&reader->held[index].token, acquire) == token)
        return &reader->held[index];
    sl_say("channel '%s': this frame was released already, or is not this reader's", reader->base.name);
    return NULL;
}

bool sl_held_uses(const struct sl_reader *reader, const struct sl_session *session, const struct sl_link_memory *memory)
{
    for (uint32_t i = 0; i < reader->params.hold; i++) {
        const struct sl_held *entry = &reader->held[i];
        if (sl_load(&entry->token, acquire) != 0 && entry->session == session && (!memory || entry->memory == memory))
            return true;
    }
    return false;
}

uint32_t sl_held_most(const struct sl_reader *reader)
{
    return reader->holds_most && reader->session ? reader->session->link->most : reader->params.hold;
}

/* Frames of earlier writers count for them, not for this one; a writer that is gone needs no slot. */
static bool holds_most_of_session(const struct sl_reader *reader)
{
    uint32_t held = 0;

    if (sl_load(&reader->session->link->gone, acquire))
        return false;
    for (uint32_t i = 0; i < SLUICE_MAX_SLOTS; i++)
        held += sl_load(&reader->held[i].token, acquire) != 0 && reader->held[i].session == reader->session;
    return held >= sl_held_most(reader);
}

struct sl_held *sl_held_find_free(struct sl_reader *reader)
{
    uint32_t hold = reader->params.hold, i = reader->last_entry;

    if (reader->holds_most && reader->session && holds_most_of_session(reader))
        return NULL;
    for (uint32_t n = 0; n < hold; n++, i = i + 1 < hold ? i + 1 : 0)
        if (sl_load(&reader->held[i].token, acquire) == 0)
            return &reader->held[i];
    return NULL;
}

bool sl_held_is_evicted(const struct sl_link *link)
{
    sl_after_reads();
    return sl_load(link->page.evicted, seq_cst) != 0;
}

int sl_native_check(struct sluice_reader *base, const struct sluice_frame *frame)
{
    const struct sl_held *entry = sl_held_find(sl_reader_of(base), frame);

    if (!entry)
        return SLUICE_E_STALE;
    if (!entry->copied && sl_held_is_evicted(entry->session->link))
        return sl_fail(SLUICE_E_LOST, "channel '%s': the writer took this frame back while it was read", base->name);
    return 0;
}

/* Was the frame acquired before it was ready, and is it not ready yet? */
static bool is_in_flight(const struct sl_held *entry)
{
    return entry->on_stream && !entry->copied &&
           !sl_reached(sl_load(&entry->session->link->words.ready[entry->slot], acquire), entry->sequence);
}

int sl_native_reader_view(struct sluice_reader *base, const struct sluice_frame *frame, struct sl_view *view)
{
    const struct sl_held *entry = sl_held_find(sl_reader_of(base), frame);

    if (!entry)
        return SLUICE_E_STALE;
    view->format = &entry->memory->format;
    view->geometries = entry->record->arrays;
    view->address = entry->address;
    view->device = entry->session->device;
    view->behind = is_in_flight(entry) ? entry->stream : SLUICE_ON_CPU;
    view->read_only = !entry->session->link->writable;
    return 0;
}

int sl_native_reader_pin(struct sluice_reader *base, const struct sluice_frame *frame, sluice_pin **pin)
{
    struct sl_reader *reader = sl_reader_of(base);
    struct sl_held *entry = sl_held_find(reader, frame);

    if (!entry)
        return SLUICE_E_STALE;
    if (entry->copied) {
        *pin = (sluice_pin *)sl_peer_copy_pin(reader, entry);
    } else {
        sl_add(&entry->memory->shared.users, 1);
        *pin = (sluice_pin *)&entry->memory->shared;
    }
    return 0;
}
