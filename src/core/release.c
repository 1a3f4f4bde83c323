/* SPDX-License-Identifier: MIT
 *
 * A reader's frame while it is out, and its release.
 */
#include <string.h>

#include "core/reader.h"
#include "core/view.h"
#include "util/hooks.h"
#include "util/result.h"

/* The entry of a frame that is out, or NULL with a sentence. */
static struct sl_held *find_entry(struct sluice_reader *reader, const struct sluice_frame *frame)
{
    uint64_t index = frame->opaque[SL_FRAME_ENTRY], token = frame->opaque[SL_FRAME_TOKEN];

    if (frame->opaque[SL_FRAME_OWNER] == atomic_load_explicit(&reader->object.id, memory_order_relaxed) &&
        index < SLUICE_MAX_SLOTS && token > SL_HELD_ENDING &&
        sl_load(&reader->held[index].token, acquire) == token)
        return &reader->held[index];
    sl_say("channel '%s': this frame was released already, or is not this reader's", reader->name);
    return NULL;
}

static int release_frame(struct sluice_reader *reader, struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sl_held *entry = find_entry(reader, frame);
    uint64_t token = frame->opaque[SL_FRAME_TOKEN];
    int r;

    if (!entry)
        return SLUICE_E_STALE;
    if ((r = sl_stream_check(stream, reader->device)) != 0)
        return r;
    /* Of several threads that release the same frame one comes through. */
    if (!atomic_compare_exchange_strong_explicit(&entry->token, &token, SL_HELD_ENDING, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return sl_fail(SLUICE_E_STALE, "channel '%s': this frame was released already", reader->name);

    struct sl_link *link = entry->session->link;
    SL_KILL_POINT("before_release");
    sl_lease_end(&entry->session->lease, entry->slot);
    SL_KILL_POINT("after_release");
    bool lost = sl_load(link->page.evicted, seq_cst) != 0;
    if (sl_load(link->waiting, relaxed))
        (void)sl_os_send(link->wake_fd, "", 1, NULL, 0);
    sl_timing_released(&reader->timing, &link->page, token);
    memset(frame->opaque, 0, sizeof frame->opaque);
    frame->meta = NULL;
    sl_store(&entry->token, 0, release); /* last: its memory and an old session may be gone from here on */
    if (lost)
        return sl_fail(SLUICE_E_LOST, "channel '%s': the writer took this frame back while it was read: it may not have been whole",
                       reader->name);
    return 0;
}

int sluice_reader_release(sluice_reader *handle, struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    r = frame ? release_frame(reader, frame, stream)
              : sl_fail(SLUICE_E_INVALID, "channel '%s': no frame to release was given", reader->name);
    sl_object_drop(&reader->object);
    return r;
}

int sl_reader_view(struct sl_object *object, const struct sluice_frame *frame, struct sl_view *view)
{
    struct sluice_reader *reader = (struct sluice_reader *)object;
    struct sl_held *entry = find_entry(reader, frame);

    if (!entry)
        return SLUICE_E_STALE;
    view->format = &entry->memory->format;
    view->record = entry->session->link->ops->link_record(entry->session->link, entry->slot);
    view->address = entry->address;
    view->read_only = !entry->session->link->writable;
    return 0;
}
