/* SPDX-License-Identifier: MIT
 *
 * Takes a frame that is not ready, for a stream that waits for it on the GPU (a reader's option `ahead`). gpu_wait.c
 * guards the waits.
 */
#include "native/reader/acquire.h"
#include "native/reader/gpu_wait.h"
#include "util/result.h"

#define POLL_GAP_NS \
    (5 * INT64_C(1000)) /* a stream continues about this long after the frame that it waits for is ready */
#define MAX_BACKOFF_FRAMES 64
#define SPARE_SEMAPHORES   8 /* to request, besides those for the frames that are not polled first */

static bool poll_newest(struct sl_session *session)
{
    int64_t until = sl_os_deadline(POLL_GAP_NS);

    for (int turn = 1; turn % 4 != 0 || sl_os_now() < until; turn++) {
        (void)sl_prefetch_watch_newest(session); /* may be a later frame than the next one */
        if (!sl_lease_is_ahead(&session->lease))
            return true;
    }
    return false;
}

/* Work that is queued once the CPU has seen the frame ready starts sooner than work behind a wait on the GPU, so the
 * CPU polls for about as long as such a wait would cost. Each time without success doubles the number of frames for
 * which it does not. */
bool sl_acquire_poll_briefly(struct sl_reader *reader)
{
    struct sl_session_ahead *ahead = &reader->session->ahead;

    if (ahead->polls_to_skip > 0) {
        ahead->polls_to_skip--;
        return false;
    }
    reader->now = 0;
    bool ready = poll_newest(reader->session);
    if (ready)
        ahead->backoff = 0;
    else
        ahead->backoff = ahead->backoff < MAX_BACKOFF_FRAMES / 2 ? ahead->backoff * 2 + 1 : MAX_BACKOFF_FRAMES;
    ahead->polls_to_skip = ahead->backoff;
    return ready;
}

/* Has the writer signal this reader's semaphores for the next frames, which may be late, too. This reader may take one
 * of many. */
static void request_semaphores(const struct sl_session *session)
{
    const struct sl_page *page = &session->link->page;
    uint64_t head = sl_head_sequence(sl_load(session->lease.words.head, relaxed)), last = session->lease.last;
    uint64_t stride = last != 0 && head > last ? head - last : 1;
    uint64_t frames = (session->ahead.backoff + SPARE_SEMAPHORES) * stride;

    if (sl_load(page->semaphores_to, relaxed) <
        head + frames / 2) /* not for each frame: the writer reads this cache line */
        sl_store(page->semaphores_to, head + frames, relaxed);
}

/* Is there a semaphore that a stream can wait on for this frame, and a place among the waits? */
static bool begin_wait(struct sl_reader *reader, uint32_t slot, uint64_t sequence, const struct sl_stream *stream)
{
    struct sl_session *session = reader->session;
    uint64_t from = sl_load(session->link->page.semaphores_from, acquire);
    struct sl_link_memory *memory;

    if (from == 0 || sequence < from || sl_load(&session->poisoned[slot], relaxed))
        return false;
    if (sl_slot_map_get(session, slot, sl_link_record(session->link, slot), &memory) != 0)
        return false;
    return sl_gpu_wait_begin(reader, slot, sequence, stream);
}

/* Queues a wait on the stream for a frame that is leased. SLUICE_TIMEOUT if the CPU has to wait instead. */
static int queue_wait(struct sl_reader *reader, uint32_t slot, uint64_t sequence, const struct sl_stream *stream)
{
    struct sl_session *session = reader->session;
    int r;

    if (!begin_wait(reader, slot, sequence, stream))
        return SLUICE_TIMEOUT;
    r = session->sync->await(session->pages, stream, &session->link->page.semaphores[slot], sequence);
    if (r != 0)
        sl_gpu_wait_cancel(reader, slot, sequence);
    return r;
}

static int take_frame(struct sl_reader *reader, const struct sl_stream *held, struct sluice_stream stream,
                      struct sluice_frame *frame)
{
    struct sl_lease *lease = &reader->session->lease;
    uint64_t sequence;
    int slot = sl_lease_take_ahead(lease, &sequence);

    if (slot < 0)
        return SLUICE_TIMEOUT;
    int r = queue_wait(reader, (uint32_t)slot, sequence, held);
    if (r == 0)
        r = sl_frame_fill(reader, (uint32_t)slot, sequence, stream,
                          frame); /* if it fails, the queued wait is harmless */
    if (r != 0)
        sl_lease_end(lease, (uint32_t)slot);
    else
        frame->flags |= SLUICE_FRAME_AHEAD;
    return r;
}

int sl_acquire_ahead(struct sl_reader *reader, struct sluice_stream stream, struct sluice_frame *frame)
{
    struct sl_stream *held;
    int r;

    request_semaphores(reader->session);
    if ((r = sl_stream_hold(stream, &held)) != 0)
        return r;
    if (!reader->now)
        reader->now = sl_os_now();
    r = take_frame(reader, held, stream, frame);
    sl_object_drop(&held->object);
    return r;
}
