/* SPDX-License-Identifier: MIT
 *
 * How a reader polls its segment, frame after frame. Connecting is in connect.c.
 *
 * Loads are in the opposite order of the writer's stores: it clears the flag before it stores the
 * index, and Python's writers store the version before anything else. A field that Python stores is
 * briefly 0, so only a value other than 0 shows that a new session has begun.
 */
#include "cuda_link/wire/segment_read.h"

#define SILENCE \
    (250 * SLUICE_MS) /* time without a frame after which the state of the segment is checked, and between checks */
#define SLICE  (50 * SLUICE_MS) /* longest sleep of one wait */
#define GLANCE SLUICE_MS        /* interval of checks for a writer that wakes nobody */
#define OLDEST 10               /* seconds: an older time of a frame is not believed */
enum { ZEROS = 1000 };          /* loads until a zero is believed */

/* ---- frames ---- */

/* Does the slot still have the handles that were opened? With writers that store the version first,
 * a reader may have connected to handles which are about to be replaced. */
static bool replaced(const struct sl_cipd_segment_reader *consumer, uint32_t slot)
{
    const struct sl_cipd_session *session = &consumer->session;
    const unsigned char *at = consumer->segment.at;
    return !sl_cipd_handles_stand(at, slot, &session->handles[slot]) ||
           !sl_cipd_metadata_stands(at, &session->layout, &session->metadata);
}

/* The frame's time. Sluice's writers store it for each slot with its index. Others store only that
 * of the newest frame, which is this one unless the index has changed; a torn read is recognised by
 * an implausible value. */
static int64_t time_of(const struct sl_cipd_segment_reader *consumer, uint32_t index, uint32_t slot)
{
    const unsigned char *at = consumer->segment.at;
    int64_t time;
    if (consumer->ext)
        return sl_cipd_ext_time(consumer->ext, slot, index, &time) ? time : 0;
    double seconds = sl_cipd_load_time(at, &consumer->session.layout);
    if (sl_cipd_load_index(at) != index)
        return 0;
    double now = (double)sl_os_now() / 1e9;
    return seconds > 0.0 && seconds <= now && seconds > now - OLDEST ? (int64_t)(seconds * 1e9) : 0;
}

static uint32_t missed_before(const struct sl_cipd_segment_reader *consumer, uint32_t index)
{
    uint32_t last = consumer->index, slots = consumer->session.layout.slots;
    if (last == 0)
        return 0;
    uint32_t frames = sl_cipd_index_distance(last, index, slots);
    /* A smaller index says nothing about missed frames. */
    return frames && frames < UINT32_MAX / 2 ? frames - 1 : 0;
}

/* Why its writer has left the segment for good, as far as `fate` and the lock tell; 0: it has not. */
static enum sl_cipd_reason left_by(const struct sl_cipd_segment_reader *consumer, enum sl_cipd_fate fate)
{
    if (fate == SL_CIPD_REPLACED)
        return SL_CIPD_REASON_ABSENT;
    return consumer->ext && !sl_cipd_segment_locked(&consumer->segment) ? SL_CIPD_REASON_DEAD : 0;
}

/* Nothing new: is the writer still alive? */
static enum sl_cipd_poll quiet(struct sl_cipd_segment_reader *consumer, int64_t now)
{
    if (now - consumer->frame_ns < SILENCE || now < consumer->look_ns)
        return SL_CIPD_NO_FRAME;
    consumer->look_ns = now + SILENCE;
    enum sl_cipd_fate fate = sl_cipd_segment_fate(&consumer->segment);
    consumer->orphan = fate == SL_CIPD_ORPHAN;
    enum sl_cipd_reason reason = left_by(consumer, fate);
    if (!reason)
        return SL_CIPD_NO_FRAME;
    consumer->reason = reason;
    return SL_CIPD_LOST;
}

enum { NOTHING, NEXT_FRAME, NEXT_SESSION };

/* What the segment's words say, the index among them. */
static int news(const struct sl_cipd_segment_reader *consumer, uint32_t *index)
{
    const unsigned char *at = consumer->segment.at;
    uint64_t version = sl_cipd_load_version(at);
    uint32_t slots = sl_cipd_load_slots(at);
    *index = sl_cipd_load_index(at);
    if (!version || !slots)
        return NOTHING;
    if (version != consumer->session.version || slots != consumer->session.layout.slots)
        return NEXT_SESSION;
    return *index && *index != consumer->index ? NEXT_FRAME : NOTHING;
}

bool sl_cipd_read_has_news(struct sl_cipd_segment_reader *consumer, int64_t now_ns)
{
    uint32_t index;
    if (sl_cipd_load_shut(consumer->segment.at, &consumer->session.layout) || news(consumer, &index))
        return true;
    if (now_ns - consumer->frame_ns < SILENCE || now_ns < consumer->glance_ns)
        return false;
    consumer->glance_ns = now_ns + SILENCE;
    if (!left_by(consumer, sl_cipd_segment_fate(&consumer->segment)))
        return false;
    consumer->look_ns = consumer->glance_ns = 0; /* the next poll finds it, and so does who asks before that */
    return true;
}

static enum sl_cipd_poll ended(struct sl_cipd_segment_reader *consumer, enum sl_cipd_poll how)
{
    consumer->reason = how == SL_CIPD_SHUT ? SL_CIPD_REASON_SHUT : SL_CIPD_REASON_CHANGING;
    return how;
}

enum sl_cipd_poll sl_cipd_read_poll(struct sl_cipd_segment_reader *consumer, int64_t now_ns,
                                    struct sl_cipd_frame *frame)
{
    const struct sl_cipd_session *session = &consumer->session;
    const unsigned char *at = consumer->segment.at;
    if (!session->layout.slots)
        return SL_CIPD_LOST;
    if (sl_cipd_load_shut(at, &session->layout))
        return ended(consumer, SL_CIPD_SHUT);
    uint32_t index;
    int what = news(consumer, &index);
    if (what == NOTHING)
        return quiet(consumer, now_ns);
    if (what == NEXT_SESSION)
        return ended(consumer, SL_CIPD_CHANGED);
    uint32_t slot = sl_cipd_index_slot(index, session->layout.slots);
    if (replaced(consumer, slot))
        return ended(consumer, SL_CIPD_CHANGED);
    *frame = (struct sl_cipd_frame){
        .index = index,
        .slot = slot,
        .missed = missed_before(consumer, index),
        .time_ns = time_of(consumer, index, slot),
    };
    consumer->index = index;
    consumer->frame_ns = now_ns;
    consumer->pause_ns = 0;
    consumer->orphan = false;
    return SL_CIPD_FRAME;
}

uint32_t sl_cipd_read_first(const struct sl_cipd_segment_reader *consumer, uint32_t index)
{
    uint32_t slots = consumer->session.layout.slots, first = index;
    int64_t time;
    if (!consumer->ext)
        return consumer->since && consumer->since < index ? consumer->since : index;
    while (first > 1 && index - first < slots - 1 &&
           sl_cipd_ext_time(consumer->ext, sl_cipd_index_slot(first - 1, slots), first - 1, &time))
        first--;
    return first;
}

void sl_cipd_read_frame(const struct sl_cipd_segment_reader *consumer, uint32_t index, struct sl_cipd_frame *frame)
{
    uint32_t slot = sl_cipd_index_slot(index, consumer->session.layout.slots);
    *frame = (struct sl_cipd_frame){ .index = index, .slot = slot, .time_ns = time_of(consumer, index, slot) };
}

/* The frame that the writer, if it is one of Sluice's, has begun; 0 for other writers. */
static uint32_t begun(const struct sl_cipd_segment_reader *consumer)
{
    return consumer->ext ? sl_load(&consumer->ext->begun, acquire) : 0;
}

void sl_cipd_read_finished(const struct sl_cipd_segment_reader *consumer, uint32_t index)
{
    if (consumer->ext && consumer->segment.writable)
        sl_cipd_ext_finish(consumer->ext, index);
}

bool sl_cipd_read_is_whole(const struct sl_cipd_segment_reader *consumer, const struct sl_cipd_frame *frame)
{
    const struct sl_cipd_session *session = &consumer->session;
    const unsigned char *at = consumer->segment.at;
    uint64_t version = 0;
    uint32_t index = 0;
    if (!session->layout.slots)
        return false;
    sl_after_reads(); /* the program's reads of the frame */
    uint32_t writing = begun(consumer);
    for (int i = 0; i < ZEROS && !(index && version); i++) {
        if (i)
            sl_pause();
        index = sl_cipd_load_index(at);
        version = sl_cipd_load_version(at);
    }
    if (!index || version != session->version)
        return false;
    return sl_cipd_index_left(frame->index, writing ? writing : index, writing != 0, session->layout.slots);
}

bool sl_cipd_read_is_gone(const struct sl_cipd_segment_reader *consumer, const struct sl_cipd_frame *frame)
{
    const struct sl_cipd_session *session = &consumer->session;
    uint32_t slots = session->layout.slots;
    uint32_t last = slots ? begun(consumer) : 0;
    if (slots && !last)
        last = sl_cipd_load_index(consumer->segment.at);
    if (!last || sl_cipd_load_version(consumer->segment.at) != session->version)
        return false;
    uint32_t frames = sl_cipd_index_distance(frame->index, last, slots);
    return frames >= slots && frames < UINT32_MAX / 2;
}

/* ---- sleeping ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int sl_cipd_read_wait(struct sl_cipd_segment_reader *consumer, int64_t deadline_ns)
{
    int64_t now = sl_os_now();
    if (now >= deadline_ns)
        return SLUICE_TIMEOUT;
    if (!consumer->session.layout.slots) {
        int64_t until = earlier(earlier(deadline_ns, now + SLICE), consumer->try_ns);
        if (until > now)
            sl_os_sleep(until - now);
        return 0;
    }
    const unsigned char *at = consumer->segment.at;
    bool woken = consumer->ext && consumer->segment.writable;
    if (woken)
        sl_store(&consumer->ext->asleep, 1, seq_cst);
    uint32_t index;
    if (sl_cipd_load_shut(at, &consumer->session.layout) || news(consumer, &index))
        return 0;
    uint32_t pid = woken && !consumer->ended ? sl_load(&consumer->ext->pid, relaxed) : 0;
    int64_t until = earlier(deadline_ns, now + (woken ? SLICE : GLANCE));
    if (sl_os_futex_wait_of(sl_cipd_index_word(at), index, until, pid) == SLUICE_CLOSED) {
        consumer->ended = true; /* so the next poll looks at once, and once, as the pid may be wrong */
        consumer->look_ns = consumer->glance_ns = 0;
        consumer->frame_ns -= SILENCE;
    }
    return 0;
}
