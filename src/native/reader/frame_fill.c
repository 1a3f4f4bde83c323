/* SPDX-License-Identifier: MIT
 *
 * Makes a frame for the caller from a slot that the reader has leased.
 */
#include <string.h>

#include "channel/frame_view.h"
#include "format/format.h"
#include "native/reader/acquire.h"
#include "native/reader/peer_copy.h"
#include "util/hooks.h"
#include "util/result.h"

static int check_record(const struct sl_reader *reader, const struct sl_record *record,
                        const struct sl_link_memory *memory, uint64_t sequence)
{
    const struct sluice_format *format = &memory->format;

    if (record->sequence != sequence || record->generation != memory->generation ||
        record->array_count != format->array_count || record->meta_size > SLUICE_MAX_META ||
        record->offset % SL_SLOT_ALIGN != 0 || record->offset > memory->object.size ||
        memory->object.size - record->offset < format->slot_bytes)
        return sl_fail(SLUICE_E_PROTOCOL, "channel '%s': the header of frame %llu is damaged", reader->base.name,
                       (unsigned long long)sequence);
    return 0;
}

/* How many frames this reader has missed since the last one that it took. */
static uint64_t count_missed(struct sl_session *session, uint64_t dropped)
{
    uint64_t missed = session->lease.skipped - session->skipped;

    if (session->generation != 0 && dropped >= session->dropped)
        missed += dropped - session->dropped;
    session->skipped = session->lease.skipped;
    session->dropped = dropped;
    return missed;
}

static void fill_frame(struct sl_reader *reader, const struct sl_held *entry, const struct sl_record *record,
                       uint64_t token, struct sluice_frame *frame)
{
    struct sl_session *session = entry->session;
    struct sl_link *link = session->link;

    *frame = (struct sluice_frame){
        /* all members: if some are left out, compilers clear the whole struct first, which is slow */
        .sequence = entry->sequence,
        .session = link->session,
        .missed = count_missed(session, record->dropped),
        .capture_ns = record->capture_ns,
        .commit_ns = sl_link_local_time(link, record->commit_ns),
        .meta_size = record->meta_size,
        .capture_clock = record->capture_clock,
        /* Only a writer stores through this pointer; readers map the memory read-only. */
        .meta = (void *)(uintptr_t)entry->meta,
        .slot = entry->copied ? (uint32_t)(entry - reader->held) : entry->slot,
        .generation = record->generation,
        .array_count = record->array_count,
        .flags = 0,
        .opaque = { [SL_FRAME_OWNER] = atomic_load_explicit(&reader->base.object.id, memory_order_relaxed),
                    [SL_FRAME_TOKEN] = token,
                    [SL_FRAME_ENTRY] = (uint64_t)(entry - reader->held),
                    0,
                    0,
                    0 },
    };
    if (frame->capture_clock == SLUICE_CLOCK_MONOTONIC)
        frame->capture_ns = sl_link_local_time(link, frame->capture_ns);
    if (reader->last_session != link->session)
        frame->flags |= SLUICE_FRAME_NEW_SESSION;
    if (session->generation != frame->generation)
        frame->flags |= SLUICE_FRAME_NEW_FORMAT;
    session->generation = frame->generation;
    reader->last_session = link->session;
}

/* For statistics and observers. */
static void count_frame(struct sl_reader *reader, const struct sl_held *entry, const struct sluice_frame *frame,
                        uint64_t token)
{
    struct sl_link *link = entry->session->link;
    int64_t now = reader->now ? reader->now : sl_os_now();
    uint64_t latency = now > frame->commit_ns ? (uint64_t)now - (uint64_t)frame->commit_ns : 0;

    sl_store(&link->page.lease_ns[entry->slot], (uint64_t)now + (uint64_t)link->clock_offset_ns, relaxed);
    sl_store(&reader->counts.latency_ns, latency, relaxed);
    sl_store(&reader->counts.taken, sl_load(&reader->counts.taken, relaxed) + 1, relaxed);
    sl_store(&reader->counts.missed, sl_load(&reader->counts.missed, relaxed) + frame->missed, relaxed);
    sl_store(link->page.taken, sl_load(&reader->counts.taken, relaxed), relaxed);
    sl_store(link->page.missed, sl_load(&reader->counts.missed, relaxed), relaxed);
    sl_store(link->page.latency_ns, latency, relaxed);
    sl_store(link->page.last, entry->sequence, relaxed);
    sl_timing_taken(&reader->timing, &link->page, now, latency, token);
}

/* If an entry of the same slot still has a queued release, nobody has checked it since. That release is done, or the
 * writer would not have reused the slot. There is at most one, the entry that last had the slot. */
static struct sl_held *find_entry(struct sl_reader *reader, uint32_t slot, const sl_word *lease)
{
    struct sl_held *last = &reader->held[reader->entry_of[slot]];

    if (sl_load(&last->token, acquire) != SL_HELD_QUEUED || last->word != lease)
        return sl_held_find_free(reader);
    sl_store(&last->token, 0, release);
    return last;
}

int sl_frame_fill(struct sl_reader *reader, uint32_t slot, uint64_t sequence, struct sluice_stream stream,
                  struct sluice_frame *frame)
{
    struct sl_session *session = reader->session;
    const struct sl_record *record = sl_link_record(session->link, slot);
    struct sl_held *entry = find_entry(reader, slot, &session->link->page.lease[slot]);
    struct sl_link_memory *memory;
    int r;

    if ((r = sl_slot_map_get(session, slot, record, &memory)) != 0)
        return r;
    struct sl_record header; /* copied once, then checked, then used; its arrays only when requested */
    memcpy(&header, record, offsetof(struct sl_record, arrays));
    if ((r = check_record(reader, &header, memory, sequence)) != 0)
        return r;
    *entry = (struct sl_held){
        .token = SL_HELD_ENDING,
        .session = session,
        .memory = memory,
        .address = (char *)memory->object.address + header.offset,
        .word = &session->link->page.lease[slot],
        .record = record,
        .meta = sl_link_meta(session->link, slot),
        .copied = false,
        .slot = slot,
        .on_stream = session->pages && stream.id != SLUICE_ON_CPU.id,
        .stream = stream,
        .deferred = { .run = NULL },
        .reader = NULL,
        .sequence = sequence,
        .span = { 0, 0 },
    };
    if (session->peer_copy && (r = sl_peer_copy_frame(reader, entry)) != 0)
        return r;
    SL_KILL_POINT("before_keep");
    sl_lease_keep(&session->lease, sequence);
    reader->last_entry = (uint32_t)(entry - reader->held);
    reader->entry_of[slot] = (uint8_t)reader->last_entry;
    session->next_slot[session->last_slot] = (uint8_t)slot;
    session->last_slot = (uint8_t)slot;
    SL_KILL_POINT("after_keep");
    uint64_t token = ++reader->next_token << 8 | (uint64_t)(entry - reader->held) | UINT64_C(1) << 63;
    fill_frame(reader, entry, &header, token, frame);
    count_frame(reader, entry, frame, token);
    SL_SPAN_BEGIN(READ, &entry->span, reader->base.name, sequence);
    if (entry->copied)
        sl_release_lease(session, slot);
    sl_store(&entry->token, token, release);
    SL_KILL_POINT("after_acquire");
    return 0;
}
