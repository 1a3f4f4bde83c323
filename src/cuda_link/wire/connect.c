/* SPDX-License-Identifier: MIT
 *
 * How a reader gets a session: a consistent and checked copy of the segment, or the reason why
 * there is none.
 *
 * Python's writers store a new version before they store handles and metadata, so an unchanged
 * version does not prove that a copy is consistent. A frame does: the first is published after all
 * of them. (Or it is the last one of the session before, whose number stands until Python has
 * stored version and number of slots: its slot has what it had, or nothing that can be opened, and
 * poll finds it replaced a moment later.) If there is no frame yet, the copy must be unchanged some
 * time later. Sluice's writers announce that they are changing the data, however long that takes
 * (private_ext.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cuda_link/wire/segment_read.h"
#include "util/hooks.h"
#include "util/result.h"

#define SETTLED  (2 * SLUICE_MS) /* between two copies of a segment without frames */
#define SHORTEST SLUICE_MS
#define LONGEST  (500 * SLUICE_MS)

static const struct {
    int result;
    const char *text;
} reasons[] = {
#define REASON_ROW(name, result, text) { result, text },
    SL_CIPD_REASONS(REASON_ROW)
#undef REASON_ROW
};

const char *sl_cipd_reason_text(enum sl_cipd_reason reason)
{
    return reasons[reason].text;
}

bool sl_cipd_same_metadata(const struct sl_cipd_metadata *a, const struct sl_cipd_metadata *b)
{
    return a->width == b->width && a->height == b->height && a->components == b->components && a->kind == b->kind &&
           a->bits == b->bits && a->flags == b->flags && a->bytes == b->bytes;
}

int sl_cipd_read_init(struct sl_cipd_segment_reader *consumer, const char *name)
{
    int result = sl_cipd_segment_check_name(name, SL_CIPD_NAME);
    if (result)
        return result;
    *consumer = (struct sl_cipd_segment_reader){ .segment = SL_CIPD_SEGMENT_INIT, .reason = SL_CIPD_REASON_NOT_TRIED };
    memcpy(consumer->segment.name, name, strlen(name) + 1);
    return 0;
}

/* ---- one look ---- */

static enum sl_cipd_reason check_magic(uint32_t magic)
{
    switch (magic) {
    case SL_CIPD_MAGIC: return SL_CIPD_REASON_NONE;
    case SL_CIPD_MAGIC_09: return SL_CIPD_REASON_OLD_MAGIC;
    case 0: return SL_CIPD_REASON_EMPTY;
    default: return SL_CIPD_REASON_ALIEN;
    }
}

/* From here on only our copy is read. */
static enum sl_cipd_reason check_copy(struct sl_cipd_session *copy)
{
    static const enum sl_cipd_reason faults[] = {
        [SL_CIPD_FORMAT_GOOD] = SL_CIPD_REASON_NONE,
        [SL_CIPD_FORMAT_EMPTY] = SL_CIPD_REASON_NO_METADATA,
        [SL_CIPD_FORMAT_UNKNOWN] = SL_CIPD_REASON_BAD_FORMAT,
        [SL_CIPD_FORMAT_BYTES] = SL_CIPD_REASON_BAD_BYTES,
    };
    for (uint32_t slot = 0; slot < copy->layout.slots; slot++)
        if (sl_cipd_zero(copy->handles[slot].memory, SL_CIPD_HANDLE))
            return SL_CIPD_REASON_NO_HANDLES;
    /* For its error message, which is more detailed than ours. */
    (void)sl_cipd_format_decode(&copy->metadata, &copy->format);
    return faults[sl_cipd_format_fault(&copy->metadata)];
}

static enum sl_cipd_reason bad_slots(uint32_t slots)
{
    if (!slots)
        return SL_CIPD_REASON_NO_SLOTS;
    sl_say("it announces %" PRIu32 " slots, more slots than the protocol has: its writer can have %d at most", slots,
           SL_CIPD_MAX_SLOTS);
    return SL_CIPD_REASON_TOO_MANY_SLOTS;
}

static enum sl_cipd_reason too_short(const struct sl_cipd_segment *segment, uint32_t slots,
                                     const struct sl_cipd_layout *layout)
{
    sl_say("the segment is too small for what it announces: it has %zu bytes, and %" PRIu32 " slots take %" PRIu32,
           segment->size, slots, layout->total);
    return SL_CIPD_REASON_SHORT;
}

/* Copies the segment. *running: it has a frame. */
static enum sl_cipd_reason look(const struct sl_cipd_segment *segment, struct sl_cipd_session *copy, bool *running)
{
    const unsigned char *at = segment->at;
    enum sl_cipd_reason reason = check_magic(sl_cipd_load_magic(at));
    if (reason)
        return reason;
    copy->version = sl_cipd_load_version(at);
    uint32_t index = sl_cipd_load_index(at), slots = sl_cipd_load_slots(at);
    if (!copy->version)
        return SL_CIPD_REASON_EMPTY;
    if (!sl_cipd_layout(slots, &copy->layout))
        return bad_slots(slots);
    if (segment->size < copy->layout.total)
        return too_short(segment, slots, &copy->layout);
    if (sl_cipd_load_shut(at, &copy->layout))
        return SL_CIPD_REASON_SHUT;
    sl_cipd_load_metadata(at, &copy->layout, &copy->metadata);
    for (uint32_t slot = 0; slot < slots; slot++)
        sl_cipd_load_handles(at, slot, &copy->handles[slot]);
    SL_KILL_POINT("cipd_copied");
    if (sl_cipd_load_slots(at) != slots || sl_cipd_load_version(at) != copy->version)
        return SL_CIPD_REASON_CHANGING;
    /* Loaded first, as the flag is set before the handles are cleared. */
    if (sl_cipd_load_shut(at, &copy->layout))
        return SL_CIPD_REASON_SHUT;
    *running = index && sl_cipd_load_index(at);
    return check_copy(copy);
}

static bool same_copy(const struct sl_cipd_session *a, const struct sl_cipd_session *b)
{
    return a->version == b->version && a->layout.slots == b->layout.slots &&
           !memcmp(a->handles, b->handles, a->layout.slots * sizeof(*a->handles)) &&
           sl_cipd_same_metadata(&a->metadata, &b->metadata);
}

/* Is the copy equal to the one made some time ago? If not, it is kept for the next comparison. */
static bool settled(struct sl_cipd_segment_reader *consumer, const struct sl_cipd_session *copy,
                    const struct sl_os_named *memory, int64_t now)
{
    bool same = consumer->seen_ns && consumer->seen_memory.inode == memory->inode &&
                consumer->seen_memory.device == memory->device && same_copy(&consumer->seen, copy);
    if (same && now - consumer->seen_ns >= SETTLED)
        return true;
    if (!same) {
        consumer->seen = *copy;
        consumer->seen_memory = *memory;
        consumer->seen_ns = now > 0 ? now : 1;
    }
    return false;
}

/* ---- attempts ---- */

static enum sl_cipd_reason attach(struct sl_cipd_segment_reader *consumer)
{
    char name[SL_CIPD_NAME + 1];
    memcpy(name, consumer->segment.name, sizeof(name));
    switch (sl_cipd_segment_attach(&consumer->segment, name)) {
    case 0: return SL_CIPD_REASON_NONE;
    case SLUICE_E_NOT_FOUND: return SL_CIPD_REASON_ABSENT;
    case SLUICE_E_PERMISSION: return SL_CIPD_REASON_REFUSED;
    case SLUICE_NO_WRITER: return SL_CIPD_REASON_SHORT;
    default: return SL_CIPD_REASON_FAILED;
    }
}

static void detach(struct sl_cipd_segment_reader *consumer)
{
    sl_cipd_segment_close(&consumer->segment);
    consumer->session.layout.slots = 0;
    consumer->ext = NULL;
    consumer->orphan = consumer->ended = false;
}

static enum sl_cipd_reason attempt(struct sl_cipd_segment_reader *consumer, int64_t now)
{
    struct sl_cipd_session copy = { .version = 0 };
    struct sl_cipd_segment *segment = &consumer->segment;
    bool running = false;
    enum sl_cipd_reason reason = attach(consumer);
    if (reason)
        return reason;
    struct sl_cipd_private_ext *ext = sl_cipd_private_ext(segment->at, segment->size);
    reason = look(segment, &copy, &running);
    bool ours = !reason && ext && sl_cipd_ext_is_live(ext, copy.version);
    if (ours && !sl_cipd_segment_locked(segment))
        reason = SL_CIPD_REASON_DEAD;
    else if (!reason && !ours && ext && sl_cipd_ext_changes(ext, copy.version) && sl_cipd_segment_locked(segment))
        reason = SL_CIPD_REASON_CHANGING;
    else if (!reason && !running && !settled(consumer, &copy, &segment->memory, now))
        reason = SL_CIPD_REASON_UNSETTLED;
    else if (!reason && !ours && consumer->copies && copy.layout.slots == 1)
        reason = SL_CIPD_REASON_ONE_SLOT;
    if (reason) {
        detach(consumer);
        return reason;
    }
    consumer->session = copy;
    consumer->ext = ours ? ext : NULL;
    return SL_CIPD_REASON_NONE;
}

/* Was the error message set when the segment was opened? Then it names the channel. */
static bool said_all(enum sl_cipd_reason reason)
{
    return reason == SL_CIPD_REASON_ABSENT || reason == SL_CIPD_REASON_REFUSED || reason == SL_CIPD_REASON_FAILED;
}

/* Was an error message set that is more detailed than the reason's own text? */
static bool said_more(enum sl_cipd_reason reason)
{
    return said_all(reason) || reason == SL_CIPD_REASON_SHORT || reason == SL_CIPD_REASON_TOO_MANY_SLOTS ||
           reason == SL_CIPD_REASON_BAD_FORMAT || reason == SL_CIPD_REASON_BAD_BYTES;
}

const char *sl_cipd_read_why(const struct sl_cipd_segment_reader *consumer)
{
    return consumer->why[0] ? consumer->why : reasons[consumer->reason].text;
}

static int say(const struct sl_cipd_segment_reader *consumer)
{
    int result = reasons[consumer->reason].result;
    if (!result)
        return 0;
    if (consumer->why[0] && said_all(consumer->reason))
        return sl_fail_text(result, consumer->why);
    return sl_fail(result, "cuda-link channel %s: %s", consumer->segment.name, sl_cipd_read_why(consumer));
}

static void wait_longer(struct sl_cipd_segment_reader *consumer, int64_t now)
{
    int64_t pause = consumer->pause_ns * 2;
    consumer->pause_ns = pause < SHORTEST ? SHORTEST : pause > LONGEST ? LONGEST : pause;
    consumer->try_ns = now + consumer->pause_ns;
}

int sl_cipd_read_connect(struct sl_cipd_segment_reader *consumer, int64_t now_ns)
{
    if (consumer->session.layout.slots)
        return 0;
    if (now_ns < consumer->try_ns)
        return say(consumer);
    consumer->reason = attempt(consumer, now_ns);
    snprintf(consumer->why, sizeof(consumer->why), "%s", said_more(consumer->reason) ? sl_last_error() : "");
    if (consumer->reason == SL_CIPD_REASON_UNSETTLED)
        consumer->try_ns = now_ns + SETTLED;
    else if (consumer->reason)
        wait_longer(consumer, now_ns);
    if (consumer->reason)
        return say(consumer);
    consumer->index = 0;
    consumer->since = sl_cipd_load_index(consumer->segment.at);
    consumer->frame_ns = now_ns;
    consumer->look_ns = consumer->glance_ns = 0;
    consumer->seen_ns = 0;
    return 0;
}

void sl_cipd_read_retry_now(struct sl_cipd_segment_reader *consumer)
{
    consumer->try_ns = 0;
    consumer->pause_ns = 0;
}

int64_t sl_cipd_read_next_try(const struct sl_cipd_segment_reader *consumer)
{
    return consumer->try_ns;
}

void sl_cipd_read_drop(struct sl_cipd_segment_reader *consumer, enum sl_cipd_reason reason)
{
    detach(consumer);
    consumer->reason = reason;
    consumer->why[0] = 0;
    if (reason == SL_CIPD_REASON_HANDLES_FAILED)
        wait_longer(consumer, sl_os_now());
    else
        consumer->try_ns = 0;
}
