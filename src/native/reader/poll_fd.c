/* SPDX-License-Identifier: MIT
 *
 * The descriptor that a program polls instead of waiting in acquire: an epoll descriptor over the wake
 * socket of the current session, and an eventfd of our own (the note) for everything else. It stays the same
 * while sessions come and go.
 */
#include "native/reader/acquire.h"
#include "native/reader/reader.h"

#include <stddef.h>

#include "util/result.h"

/* ---- frames in flight on a GPU: the service thread polls them (protocol 3.8) ---- */

#define READER_OF(member) ((struct sl_reader *)((char *)(member)-offsetof(struct sl_reader, poll.watch)))

#define QUICK_CHECK_NS \
    (SL_POLL_WATCH_NS / 2) /* around the expected completion: this thread must not spin, and its timers are exact */
#define MAX_QUICK_CHECKS   2
#define REST_POLL_INTERVAL SLUICE_MS /* while a dead writer's device still works */
#define MIN_ROOM_INTERVAL \
    (SLUICE_MS / 20) /* between checks whether there is room; it grows with the time that there was none */
#define MAX_ROOM_INTERVAL SLUICE_MS

static int64_t next_check(struct sl_reader *reader, uint64_t want, int64_t now)
{
    struct sl_session *session = reader->session;

    if (reader->poll.awaited != want) {
        reader->poll.awaited = want;
        reader->poll.since_ns = sl_wait_since(session, want, now);
        reader->poll.quick_checks = 0;
    }
    reader->poll.unready_ns = now;
    struct sl_poll_step step = sl_completion_estimate_next(&session->estimate, now, reader->poll.since_ns,
                                                           reader->poll.quick_checks == MAX_QUICK_CHECKS);
    if (!step.watch)
        return step.until;
    reader->poll.quick_checks++;
    return now + QUICK_CHECK_NS;
}

/* On the service thread, under its lock; the session stays alive while its watch is added. */
static void check_frame(struct sl_watch *watch)
{
    struct sl_reader *reader = READER_OF(watch);
    struct sl_session *session = reader->session;
    uint64_t want = sl_load(&reader->poll.want, acquire);
    int64_t now = sl_os_now();

    if (sl_exchange(&reader->poll.check_room, 0)) { /* only acquire may check releases */
        sl_os_eventfd_set(reader->poll.note);
        return;
    }
    int found = sl_lease_look(&session->link->words, reader->params.mode, want);
    if (found == SL_LEASE_NONE) { /* not for us, or taken meanwhile: the next commit will wake us */
        sl_store(session->link->page.want_fd, want, seq_cst);
        found = sl_lease_look(&session->link->words, reader->params.mode, want);
    }
    if (found == SL_LEASE_SOON) {
        sl_service_set_deadline(watch, next_check(reader, want, now));
    } else if (found != SL_LEASE_NONE) {
        if (reader->poll.awaited == want)
            sl_completion_estimate_update(&session->estimate, reader->poll.unready_ns - reader->poll.since_ns,
                                          now - reader->poll.since_ns);
        sl_os_eventfd_set(reader->poll.note);
    }
}

/* The frames that a dead writer left in flight. */
static void check_rest(struct sl_watch *watch)
{
    struct sl_reader *reader = READER_OF(watch);
    int found = sl_lease_look(&reader->session->link->words, reader->params.mode, sl_load(&reader->poll.want, acquire));
    int64_t now = sl_os_now();

    if (now >= reader->poll.rest_until_ns || (found != SL_LEASE_NONE && found != SL_LEASE_SOON))
        sl_os_eventfd_set(reader->poll.note);
    else
        sl_service_set_deadline(watch, now + REST_POLL_INTERVAL);
}

static void commit_ready(struct sl_watch *watch, bool readable, bool hung_up)
{
    (void)hung_up;
    if (readable && sl_os_drain(watch->fd))
        check_frame(watch);
}

/* ---- the descriptor ---- */

static void arm_session(struct sl_reader *reader, struct sl_session *session)
{
    uint64_t want = sl_lease_want(&session->lease);

    if (session->pages) {
        sl_store(&reader->poll.want, want, release);
        sl_store(session->link->page.want_fd, want, seq_cst);
        if (sl_lease_look(&session->link->words, reader->params.mode, want) == SL_LEASE_SOON) {
            sl_service_lock();
            check_frame(&reader->poll.watch);
            sl_service_unlock();
        }
        return;
    }
    sl_store(session->link->page.want_fd, 0, seq_cst);
    (void)sl_os_drain(session->link->wake_fd);
    sl_store(session->link->page.want_fd, want, seq_cst);
}

/* The socket of a writer that ended would stay readable. Its last frames complete without a commit, or never. Under the
 * service lock. */
static void arm_ended_session(struct sl_reader *reader, struct sl_session *session)
{
    int64_t now = sl_os_now();

    sl_poll_fd_remove(reader, session);
    reader->poll.rest_until_ns = sl_wait_rests_until(session, now);
    uint64_t want = sl_lease_want(&session->lease);
    if (reader->poll.rest_until_ns == 0 ||
        sl_lease_look(&session->link->words, reader->params.mode, want) != SL_LEASE_SOON)
        return;
    sl_store(&reader->poll.want, want, release);
    reader->poll.watch = (struct sl_watch){ .fd = -1, .timer = check_rest, .deadline = now + REST_POLL_INTERVAL };
    if (sl_service_add(&reader->poll.watch) != 0)
        sl_log(SLUICE_LOG_ERROR, "channel '%s': its descriptor will not wake: %s", reader->base.name, sl_last_error());
}

/* All frames that it may hold have a queued release, so acquire can take none, however many are ready. True if the
 * program is woken later, to check again. */
static bool waits_for_room(struct sl_reader *reader, const struct sl_session *session)
{
    if (!session->pages || sl_held_find_free(reader) || !sl_release_queued(reader)) {
        reader->poll.full_since_ns = 0;
        return false;
    }
    int64_t now = sl_os_now();
    if (reader->poll.full_since_ns == 0)
        reader->poll.full_since_ns = now;
    int64_t pause = (now - reader->poll.full_since_ns) / 4;
    sl_service_lock();
    sl_store(&reader->poll.check_room, 1, relaxed);
    sl_service_set_deadline(&reader->poll.watch, now + (pause < MIN_ROOM_INTERVAL   ? MIN_ROOM_INTERVAL
                                                        : pause < MAX_ROOM_INTERVAL ? pause
                                                                                    : MAX_ROOM_INTERVAL));
    sl_service_unlock();
    return true;
}

void sl_poll_fd_update(struct sl_reader *reader)
{
    struct sl_session *session = reader->session;

    sl_os_eventfd_clear(reader->poll.note);
    sl_store(&reader->poll.check_room, 0, relaxed);
    if (session && sl_load(&session->link->gone, acquire)) {
        sl_service_lock();
        arm_ended_session(reader, session);
        sl_service_unlock();
    } else if (session) {
        arm_session(reader, session);
        if (waits_for_room(reader, session))
            return;
    }
    /* The note reports frames from before the flag was set, the socket those from after it. */
    if (sl_wait_has_news(reader))
        sl_os_eventfd_set(reader->poll.note);
}

void sl_poll_fd_add(struct sl_reader *reader, struct sl_session *session)
{
    int r;

    if (reader->poll.epoll < 0)
        return;
    if (session->pages) {
        reader->poll.watch =
            (struct sl_watch){ .fd = session->link->wake_fd, .ready = commit_ready, .timer = check_frame };
        r = sl_service_add(&reader->poll.watch);
    } else {
        r = sl_os_epoll_add(reader->poll.epoll, session->link->wake_fd);
    }
    if (r != 0)
        sl_log(SLUICE_LOG_ERROR, "channel '%s': its descriptor will not wake: %s", reader->base.name, sl_last_error());
}

void sl_poll_fd_remove(struct sl_reader *reader, struct sl_session *session)
{
    if (reader->poll.epoll < 0)
        return;
    if (session->pages)
        sl_service_remove(&reader->poll.watch);
    else
        sl_os_epoll_remove(reader->poll.epoll, session->link->wake_fd);
}

/* The epoll descriptor with the note in it. */
static int make_descriptors(int *epoll, int *note)
{
    int r = sl_os_eventfd_open(note);

    if (r != 0)
        return r;
    if ((r = sl_os_epoll_open(epoll)) != 0) {
        sl_os_close(*note);
        return r;
    }
    if ((r = sl_os_epoll_add(*epoll, *note)) != 0) {
        sl_os_close(*note);
        sl_os_close(*epoll);
    }
    return r;
}

int sl_native_reader_fd(struct sluice_reader *base)
{
    struct sl_reader *reader = sl_reader_of(base);
    int epoll, note, r;

    if (reader->poll.epoll >= 0)
        return reader->poll.epoll;
    if ((r = make_descriptors(&epoll, &note)) != 0)
        return r;
    sl_service_lock();
    reader->poll.note = note;
    reader->poll.epoll = epoll;
    if (reader->session)
        sl_poll_fd_add(reader, reader->session);
    sl_service_unlock();
    sl_poll_fd_update(reader);
    return epoll;
}
