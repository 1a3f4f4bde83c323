/* SPDX-License-Identifier: MIT
 *
 * What a writer stores. A session is built first and committed last, by its version; a reader that
 * looks earlier sees the old version with an index of 0, which is no frame.
 */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "cuda_link/wire/segment_write.h"
#include "util/hooks.h"
#include "util/result.h"

#define ALIVE (1500 * SLUICE_MS) /* a writer that publishes one frame a second is not late by then */
enum { ZEROS = 1000 };           /* loads until a zero is believed */

static void wake(const struct sl_cipd_segment *segment)
{
    if (segment->bell >= 0)
        sl_os_bell_ring(segment->bell);
    sl_os_futex_wake(sl_cipd_index_word(segment->at), INT_MAX);
}

/* The layout found in the segment, whoever wrote it; false if there is none that is valid and
 * complete. */
static bool layout_there(const struct sl_cipd_segment *segment, struct sl_cipd_layout *layout)
{
    return sl_cipd_load_magic(segment->at) == SL_CIPD_MAGIC &&
           sl_cipd_layout(sl_cipd_load_slots(segment->at), layout) && layout->total <= segment->size;
}

/* Until when a frame with this timestamp means that its writer may be alive. 0: the frame is too
 * old, or there is none. */
static int64_t lives_until(const unsigned char *at, const struct sl_cipd_layout *layout)
{
    double now = (double)sl_os_now() / 1e9, time = 0.0;
    for (int i = 0; i < ZEROS && time == 0.0; i++) /* 0 may be a store of Python's in progress */
        time = sl_cipd_load_time(at, layout);
    if (!(time > now - (double)ALIVE / 1e9 && time < now + 1.0))
        return 0;
    return (int64_t)((time < now ? time : now) * 1e9) + ALIVE;
}

/* Does another program publish here? Other programs' writers take no lock, so the segment is
 * watched until the next frame is overdue; but not if they have shut it, or have not published
 * recently. */
static bool busy(const struct sl_cipd_segment *segment)
{
    struct sl_cipd_layout layout;
    const unsigned char *at = segment->at;
    const struct sl_cipd_private_ext *ext = sl_cipd_private_ext(segment->at, segment->size);
    if (!layout_there(segment, &layout) || sl_cipd_load_shut(at, &layout))
        return false;
    if (ext && sl_cipd_ext_is_live(ext, sl_cipd_load_version(at))) /* Sluice's own, and we hold its lock */
        return false;
    uint32_t first = sl_cipd_load_index(at);
    int64_t until = lives_until(at, &layout), now = 0;
    while (now < until) {
        sl_os_sleep(SLUICE_MS);
        /* Before the load: then a frame published until that time is seen, even if this thread is
         * suspended in between. */
        now = sl_os_now();
        uint32_t index = sl_cipd_load_index(at);
        if (first == 0) /* a store of Python's was in progress */
            first = index;
        else if (index && index != first)
            return true;
    }
    return false;
}

/* Is what is there another program's, and not what a killed writer of ours has left? */
static bool is_others(const struct sl_cipd_segment *segment)
{
    const struct sl_cipd_private_ext *ext = sl_cipd_private_ext(segment->at, segment->size);
    uint64_t version = sl_cipd_load_version(segment->at);

    return !ext || !(sl_cipd_ext_is_live(ext, version) || sl_cipd_ext_changes(ext, version));
}

int sl_cipd_write_open(struct sl_cipd_segment_writer *producer, const char *name)
{
    struct sl_cipd_segment_writer made = SL_CIPD_SEGMENT_WRITER_INIT;
    bool fresh;
    int result = sl_cipd_segment_own(&made.segment, name, &fresh);
    if (result)
        return result;
    if (busy(&made.segment)) {
        sl_cipd_segment_leave(&made.segment);
        return sl_fail(SLUICE_E_EXISTS, "cuda-link channel %s: another program is writing frames to it", name);
    }
    made.others = !fresh && is_others(&made.segment);
    made.shut = true;
    *producer = made;
    return 0;
}

/* ---- sessions ---- */

/* Can a session with this number of slots replace another in the same segment? A footer must not
 * move within a segment: readers of the old session would look for its flag among the handles of
 * the new one. Where no other segment can get the name, it does. */
static bool fits(const struct sl_cipd_segment *segment, const struct sl_cipd_layout *layout)
{
    struct sl_cipd_layout there;
    uint32_t magic = sl_cipd_load_magic(segment->at);
    if (segment->size < layout->total)
        return false;
    if (!sl_os_named_has_names())
        return true;
    if (layout_there(segment, &there))
        return there.slots == layout->slots;
    return magic == 0 && sl_cipd_load_version(segment->at) == 0; /* never used */
}

static void write_session(struct sl_cipd_segment *segment, const struct sl_cipd_layout *layout, uint64_t version,
                          const unsigned char gpu[SL_CIPD_GPU], const struct sl_cipd_handles *handles,
                          const struct sl_cipd_metadata *metadata)
{
    unsigned char *at = segment->at;
    struct sl_cipd_private_ext *ext = sl_cipd_private_ext(at, segment->size);

    if (ext)
        sl_cipd_ext_change(ext);
    sl_cipd_store_index(at, 0); /* no old index with the new layout */
    sl_cipd_store_shut(at, layout, 0);
    sl_cipd_store_magic(at, SL_CIPD_MAGIC);
    sl_cipd_store_slots(at, layout->slots);
    for (uint32_t slot = 0; slot < layout->slots; slot++)
        sl_cipd_store_handles(at, slot, &handles[slot]);
    sl_cipd_store_metadata(at, layout, metadata);
    sl_cipd_store_time(at, layout, 0.0);
    SL_KILL_POINT("cipd_begin");
    sl_cipd_store_version(at, version);
    SL_KILL_POINT("cipd_version");
    /* Last: a writer that dies before has a session like another program's, and leaves nothing private that would count
     * as the next version's. */
    if (ext)
        sl_cipd_ext_begin(ext, version, sl_os_pid(), gpu);
    wake(segment);
}

/* Marks a session as ended, whoever began it. */
static void end_session(struct sl_cipd_segment *segment, const struct sl_cipd_layout *layout)
{
    static const struct sl_cipd_handles none;
    sl_cipd_store_shut(segment->at, layout, 1);
    wake(segment);
    for (uint32_t slot = 0; slot < layout->slots; slot++)
        sl_cipd_store_handles(segment->at, slot, &none);
}

/* When its readers see the flag they look up the name again, and find a complete session there. */
static int begin_elsewhere(struct sl_cipd_segment_writer *producer, const struct sl_cipd_layout *layout,
                           uint64_t version, const struct sl_cipd_handles *handles,
                           const struct sl_cipd_metadata *metadata)
{
    struct sl_cipd_segment *old = &producer->segment, made;
    struct sl_cipd_private_ext *ext = sl_cipd_private_ext(old->at, old->size);
    struct sl_cipd_layout there;
    int result = sl_cipd_segment_refresh(old); /* is the name still ours, so that it can be moved? */
    if (result < 0 || (result = sl_cipd_segment_make(&made, old->name)) != 0)
        return result;
    write_session(&made, layout, version, producer->gpu, handles, metadata);
    if ((result = sl_cipd_segment_publish(&made)) != 0) {
        sl_cipd_segment_close(&made);
        return result;
    }
    if (layout_there(old, &there))
        end_session(old, &there);
    /* Now, although its memory is freed later, as this segment is unmapped by then. */
    if (ext)
        sl_cipd_ext_end(ext);
    sl_cipd_segment_close(old);
    *old = made;
    return 0;
}

int sl_cipd_write_begin(struct sl_cipd_segment_writer *producer, uint32_t slots, const struct sl_cipd_handles *handles,
                        const struct sl_cipd_metadata *metadata)
{
    struct sl_cipd_layout layout, there;
    if (!sl_cipd_layout(slots, &layout))
        return sl_fail(SLUICE_E_INVALID, "a cuda-link channel has 1 to %d slots, not %" PRIu32, SL_CIPD_MAX_SLOTS,
                       slots);
    for (uint32_t slot = 0; slot < slots; slot++)
        if (sl_cipd_zero(handles[slot].memory, SL_CIPD_HANDLE))
            return sl_fail(SLUICE_E_INVALID, "slot %" PRIu32 " of cuda-link channel %s has no memory handle", slot,
                           producer->segment.name);

    struct sl_cipd_segment *segment = &producer->segment;
    uint64_t before = sl_cipd_load_version(segment->at);
    uint32_t last = sl_cipd_load_index(segment->at);
    uint64_t version = (before > producer->version ? before : producer->version) + 1;
    if (version == 0)
        version = 1;
    int result = 0;
    if (segment->hidden || fits(segment, &layout)) {
        if (layout_there(segment, &there) && there.slots != slots) /* no other memory can take its place */
            end_session(segment, &there);
        write_session(segment, &layout, version, producer->gpu, handles, metadata);
        result = sl_cipd_segment_show(segment); /* atomically: complete or not at all */
    } else {
        result = begin_elsewhere(producer, &layout, version, handles, metadata);
    }
    if (result)
        return result;
    producer->layout = layout;
    producer->metadata = *metadata;
    producer->version = version;
    producer->ext = sl_cipd_private_ext(segment->at, segment->size);
    /* cuda-link's importers remember the last index, which the new session's first frame must not
     * have */
    if (last)
        producer->index = last;
    producer->slot = sl_cipd_index_next_slot(producer->index, slots);
    producer->shut = false;
    producer->rival = false;
    producer->others = false;
    return 0;
}

/* ---- frames ---- */

/* Not the lines that readers poll until there is a frame: those would be taken away again. */
void sl_cipd_write_prefetch(const struct sl_cipd_segment_writer *producer)
{
    if (!producer->ext)
        return;
    sl_fetch_to_store(&producer->ext->begun);
    sl_fetch_to_store(&producer->ext->times[producer->slot]);
}

void sl_cipd_write_announce(struct sl_cipd_segment_writer *producer)
{
    if (producer->ext)
        sl_cipd_ext_announce(producer->ext, sl_cipd_index_next(producer->index, producer->layout.slots));
}

uint32_t sl_cipd_write_publish(struct sl_cipd_segment_writer *producer, int64_t time_ns)
{
    unsigned char *at = producer->segment.at;
    struct sl_cipd_private_ext *ext = producer->ext;
    uint32_t index = sl_cipd_index_next(producer->index, producer->layout.slots);

    bool slept = ext && sl_cipd_ext_before_publish(ext, producer->slot, index, time_ns);
    sl_cipd_store_time(at, &producer->layout, (double)time_ns / 1e9);
    sl_cipd_store_shut(at, &producer->layout, 0);
    SL_KILL_POINT("cipd_publish");
    uint32_t there = sl_cipd_swap_index(at, index);
    /* 0: the first frame of the session, or a store of Python's in progress. */
    if (there && there != producer->index)
        producer->rival = true;
    if (ext && !producer->silent && sl_cipd_ext_after_publish(ext, slept))
        wake(&producer->segment);
    else if (producer->segment.bell >= 0 && !producer->silent) /* for a reader of cuda-link's */
        sl_os_bell_ring(producer->segment.bell);
    producer->index = index;
    if (++producer->slot == producer->layout.slots)
        producer->slot = 0;
    return index;
}

uint32_t sl_cipd_write_finished(const struct sl_cipd_segment_writer *producer)
{
    return producer->ext ? sl_cipd_ext_finished(producer->ext) : 0;
}

void sl_cipd_write_skip(struct sl_cipd_segment_writer *producer)
{
    if (!producer->shut)
        sl_cipd_store_shut(producer->segment.at, &producer->layout, 0);
}

/* ---- the end, and what is done now and then ---- */

/* Has another program begun a session in our segment? */
static bool is_taken(const struct sl_cipd_segment_writer *producer)
{
    uint64_t version = sl_cipd_load_version(producer->segment.at);

    for (int i = 0; i < ZEROS && !version; i++) /* 0 may be a store of Python's in progress */
        version = sl_cipd_load_version(producer->segment.at);
    return producer->layout.slots && version && version != producer->version;
}

void sl_cipd_write_shut(struct sl_cipd_segment_writer *producer)
{
    if (producer->shut)
        return;
    producer->shut = true;
    if (!is_taken(producer))
        end_session(&producer->segment, &producer->layout);
}

void sl_cipd_write_free(struct sl_cipd_segment_writer *producer)
{
    if (producer->shut && producer->ext)
        sl_cipd_ext_end(producer->ext);
}

int sl_cipd_write_refresh(struct sl_cipd_segment_writer *producer)
{
    int result = sl_cipd_segment_refresh(&producer->segment);
    if (result < 0 || producer->shut)
        return result;
    uint64_t version = sl_cipd_load_version(producer->segment.at);
    uint32_t index = sl_cipd_load_index(producer->segment.at);
    if (index && index != producer->index)
        producer->rival = true;
    if (producer->rival || (version && version != producer->version)) /* 0: a store of Python's in progress */
        return sl_fail(SLUICE_E_EXISTS,
                       "cuda-link channel %s: another program writes into the same segment; one of "
                       "the two must have another name",
                       producer->segment.name);
    return result;
}

void sl_cipd_write_close(struct sl_cipd_segment_writer *producer)
{
    if (producer->segment.fd < 0)
        return;
    sl_cipd_write_shut(producer);
    if (producer->others || is_taken(producer))
        sl_cipd_segment_leave(&producer->segment);
    else
        sl_cipd_segment_close(&producer->segment);
    producer->ext = NULL;
}
