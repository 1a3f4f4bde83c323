/* SPDX-License-Identifier: MIT
 *
 * A reader waits for a frame: it spins, then sleeps until the writer wakes it. For a frame in flight on a GPU, which
 * cannot wake it, it polls.
 */
#include "native/reader/acquire.h"

#define DRIVER_TIMEOUT (250 * SLUICE_MS) /* how long a dead writer's GPU may still finish frames */

/* Its device may work on for a moment (protocol 4.1); a writer that closed has waited for that. */
int64_t sl_wait_rests_until(const struct sl_session *session, int64_t now)
{
    bool rests = session->pages && !session->lease.over && !sl_load(session->link->closed, acquire) &&
                 !sl_load(session->link->page.evicted, acquire);

    return rests ? (session->gone_ns ? session->gone_ns : now) + DRIVER_TIMEOUT : 0;
}

static bool is_called(const struct sl_reader *reader)
{
    return sl_load(&reader->attention, seq_cst) || sl_load(&reader->closing, seq_cst);
}

static int check_next(const struct sl_session *session)
{
    return sl_lease_look(&session->lease.words, session->lease.mode, sl_lease_want(&session->lease));
}

static bool session_has_news(const struct sl_session *session)
{
    if (sl_wait_evicted(session))
        return !session->reported_evicted;
    int found = check_next(session);
    return (found != SL_LEASE_NONE && found != SL_LEASE_SOON) ||
           (sl_load(session->link->closed, acquire) && !session->reported_closed);
}

bool sl_wait_has_news(const struct sl_reader *reader)
{
    return is_called(reader) || sl_load(&reader->unreported, acquire) ||
           (reader->session && session_has_news(reader->session));
}

/* Is there a committed frame that its writer's device still works on? */
static bool is_in_flight(const struct sl_reader *reader)
{
    const struct sl_session *session = reader->session;

    return session && session->pages && !session->lease.over && !sl_wait_evicted(session) &&
           check_next(session) == SL_LEASE_SOON;
}

/* Is there a committed frame that the stream could wait for? */
static bool may_take_ahead(const struct sl_session *session)
{
    return session && session->ahead.on_stream && !sl_wait_evicted(session) && sl_lease_is_ahead(&session->lease) &&
           session->ahead.refused != sl_lease_want(&session->lease);
}

/* Checked before a sleep, and while spinning. acquire has already tried to take the remaining frames of an ended
 * session. */
static bool should_return(const struct sl_reader *reader)
{
    const struct sl_session *session = reader->session;

    return is_called(reader) || sl_load(&reader->unreported, acquire) ||
           (session && !sl_load(&session->link->gone, acquire) &&
            (session_has_news(session) || may_take_ahead(session)));
}

int64_t sl_wait_spins_until(const struct sl_reader *reader, int64_t deadline)
{
    int64_t end = reader->params.spin_ns < 0 ? 0 : sl_os_deadline(reader->params.spin_ns);

    return end < deadline ? end : deadline;
}

#define WATCH_TURNS 160 /* iterations of the spin, some 20 us: how long a committed frame is watched */

enum spun { NOTHING, NEWS, READY /* the watched frame */ };

/* Spins until there is news, or until the deadline. Meanwhile it prefetches the data of a frame that is committed but
 * not ready. */
static enum spun spin(const struct sl_reader *reader, int64_t deadline)
{
    const struct sl_session *session = reader->session;
    int64_t end = sl_wait_spins_until(reader, deadline);
    uint64_t seen = 0, head, want = session ? sl_lease_want(&session->lease) : 0;
    uint32_t watch_turns = 0;

    for (uint32_t i = 1; end != 0; i++) {
        if (session && (head = sl_load(session->lease.words.head, relaxed)) != seen) {
            seen = head;
            watch_turns = sl_head_sequence(head) >= want ? WATCH_TURNS : 0;
            sl_prefetch_newest(session); /* first, so that these lines arrive together with those that are read next */
        }
        if (should_return(reader))
            return NEWS;
        if (watch_turns > 0) {
            watch_turns--;
            if (sl_prefetch_watch_newest(session) && check_next(session) >= 0)
                return READY;
        } else {
            sl_pause();
        }
        if (i % 32 == 0 && sl_os_now() >= end)
            return NOTHING;
    }
    return NOTHING;
}

/* Reads a header without a lease: nobody writes to that of a frame that is not ready, but if it becomes ready now the
 * header may soon be another frame's. That is harmless, as the time is only used as a guess. */
int64_t sl_wait_since(const struct sl_session *session, uint64_t want, int64_t now)
{
    struct sl_link *link = session->link;
    int slot = sl_lease_first(&link->words, want);

    if (slot < 0)
        return now;
    const struct sl_record *record = sl_link_record(link, (uint32_t)slot);
    int64_t at = sl_link_local_time(link, (int64_t)sl_load_wide(&record->commit_ns));
    return at > 0 && at < now ? at : now;
}

/* Watches the frame instead of a nap, which would be too long. True if it is ready, and should be taken at once. */
static bool watch_frame(const struct sl_reader *reader, int64_t until)
{
    struct sl_session *session = reader->session;

    for (int64_t now = session->awaited.unready_ns; now < until;) {
        if (sl_prefetch_watch_newest(session) && check_next(session) >= 0)
            return true;
        if (should_return(reader))
            break;
        session->awaited.unready_ns = now; /* read before the polls */
        now = sl_os_now();
    }
    return false;
}

/* A GPU cannot wake a thread: polls, when the estimate says so (protocol 3.8). */
static bool wait_for_device(struct sl_reader *reader, int64_t deadline)
{
    struct sl_session *session = reader->session;
    uint64_t want = sl_lease_want(&session->lease);
    uint32_t bell_count = sl_load(session->link->page.bell, acquire);
    int64_t now = sl_os_now();
    bool ready = false;

    if (session->awaited.sequence != want) {
        session->awaited.sequence = want;
        session->awaited.since_ns = sl_wait_since(session, want, now);
        session->awaited.watched = false;
    }
    SL_STAGE_BEGIN(WAIT_DEVICE);
    if (is_in_flight(reader) && !is_called(reader)) {
        struct sl_poll_step step =
            sl_completion_estimate_next(&session->estimate, now, session->awaited.since_ns, session->awaited.watched);
        int64_t until = step.until < deadline ? step.until : deadline;
        session->awaited.unready_ns = now;
        session->awaited.watched |= step.watch;
        if (step.watch)
            ready = watch_frame(reader, until);
        else
            (void)sl_os_futex_wait_precise(session->link->page.bell, bell_count, until);
    }
    SL_STAGE_END(WAIT_DEVICE);
    return ready;
}

void sl_wait_update_estimate(struct sl_session *session, int64_t found, int64_t commit_ns, uint64_t latency)
{
    if (commit_ns <= 0) /* not a valid time */
        return;
    int64_t ready = found ? found - commit_ns : (int64_t)latency;
    int64_t unready = found ? session->awaited.unready_ns - commit_ns : 0;
    if (unready > 0 || ready < (int64_t)sl_load(&session->estimate.duration_ns, relaxed))
        sl_completion_estimate_update(&session->estimate, unready > 0 ? unready : 0, ready > 0 ? ready : 0);
}

bool sl_wait_for_news(struct sl_reader *reader, int64_t deadline, bool arriving)
{
    struct sl_session *session = reader->session;
    bool live = session && !sl_wait_over(session);
    sl_word32 *bell = live ? session->link->page.bell : &reader->bell;

    if (!arriving) {
        enum spun spun = spin(reader, deadline);
        if (spun != NOTHING || should_return(reader))
            return spun == READY;
        if (is_in_flight(reader))
            return wait_for_device(reader, deadline);
    }
    uint32_t bell_count = sl_load(bell, acquire);
    if (live && !arriving)
        sl_store(session->link->page.want, sl_lease_want(&session->lease), seq_cst);
    if (arriving ? !is_called(reader) : !should_return(reader) && !is_in_flight(reader))
        (void)sl_os_futex_wait(bell, bell_count, deadline);
    if (live)
        sl_store(session->link->page.want, 0, relaxed);
    return false;
}
