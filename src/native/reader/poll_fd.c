/* SPDX-License-Identifier: MIT
 *
 * The descriptor that a program polls instead of waiting in acquire: an epoll descriptor over the wake
 * socket of the current session, and an eventfd of our own (the note) for everything else. It stays the same
 * while sessions come and go.
 */
#include "channel/channel.h"
#include "native/reader/acquire.h"
#include "native/reader/reader.h"

#include <stddef.h>

#include "util/result.h"

/* ---- where commit does not say that a frame is ready: the service thread looks (protocol 3.8) ---- */

#define READER_OF(member) ((struct sluice_reader *)((char *)(member) - offsetof(struct sluice_reader, watch)))

#define SHORT (SL_DUE_WATCH / 2) /* for a frame that is due: this thread must not spin, and its timers are exact */
#define SHORT_LOOKS 2
#define REST_LOOK SLUICE_MS /* between looks at what a dead writer's device still works on */
#define FIRST_ROOM (SLUICE_MS / 20) /* between looks whether there is room, the longer the longer there was none */
#define LAST_ROOM SLUICE_MS

static int64_t look_again_at(struct sluice_reader *reader, uint64_t want, int64_t now)
{
    struct sl_session *session = reader->session;

    if (reader->watch_awaited != want) {
        reader->watch_awaited = want;
        reader->watch_since_ns = sl_wait_since(session, want, now);
        reader->watch_short = 0;
    }
    reader->watch_unready_ns = now;
    struct sl_due_step step = sl_due_step(&session->due, now, reader->watch_since_ns, reader->watch_short == SHORT_LOOKS);
    if (!step.watch)
        return step.until;
    reader->watch_short++;
    return now + SHORT;
}

/* On the service thread, under its lock; the session stays alive while its watch is added. */
static void look(struct sl_watch *watch)
{
    struct sluice_reader *reader = READER_OF(watch);
    struct sl_session *session = reader->session;
    uint64_t want = sl_load(&reader->watch_want, acquire);
    int64_t now = sl_os_now();

    if (sl_exchange(&reader->watch_room, 0)) { /* only acquire may look at the words of releases */
        sl_os_note_set(reader->note);
        return;
    }
    int found = sl_lease_look(&session->link->words, reader->params.mode, want);
    if (found == SL_LEASE_NONE) { /* not for us, or taken meanwhile: the next commit will wake us */
        sl_store(session->link->page.want_fd, want, seq_cst);
        found = sl_lease_look(&session->link->words, reader->params.mode, want);
    }
    if (found == SL_LEASE_SOON) {
        sl_service_set_deadline(watch, look_again_at(reader, want, now));
    } else if (found != SL_LEASE_NONE) {
        if (reader->watch_awaited == want)
            sl_due_learn(&session->due, reader->watch_unready_ns - reader->watch_since_ns, now - reader->watch_since_ns);
        sl_os_note_set(reader->note);
    }
}

/* Of a dead writer, whose hang-up was told. */
static void look_at_rest(struct sl_watch *watch)
{
    struct sluice_reader *reader = READER_OF(watch);
    int found = sl_lease_look(&reader->session->link->words, reader->params.mode, sl_load(&reader->watch_want, acquire));
    int64_t now = sl_os_now();

    if (now >= reader->watch_rest_ns || (found != SL_LEASE_NONE && found != SL_LEASE_SOON))
        sl_os_note_set(reader->note);
    else
        sl_service_set_deadline(watch, now + REST_LOOK);
}

static void committed(struct sl_watch *watch, bool readable, bool hung_up)
{
    (void)hung_up;
    if (readable && sl_os_drain(watch->fd))
        look(watch);
}

/* ---- the descriptor ---- */

static void settle_session(struct sluice_reader *reader, struct sl_session *session)
{
    uint64_t want = sl_lease_want(&session->lease);

    if (session->pages) {
        sl_store(&reader->watch_want, want, release);
        sl_store(session->link->page.want_fd, want, seq_cst);
        if (sl_lease_look(&session->link->words, reader->params.mode, want) == SL_LEASE_SOON) {
            sl_service_lock();
            look(&reader->watch);
            sl_service_unlock();
        }
        return;
    }
    sl_store(session->link->page.want_fd, 0, seq_cst);
    (void)sl_os_drain(session->link->wake_fd);
    sl_store(session->link->page.want_fd, want, seq_cst);
}

/* Its socket would stay readable. What is left of a writer that died comes without a commit, or never. Under the service lock. */
static void settle_gone(struct sluice_reader *reader, struct sl_session *session)
{
    int64_t now = sl_os_now();

    sl_gate_leave(reader, session);
    reader->watch_rest_ns = sl_session_rests_until(session, now);
    uint64_t want = sl_lease_want(&session->lease);
    if (reader->watch_rest_ns == 0 || sl_lease_look(&session->link->words, reader->params.mode, want) != SL_LEASE_SOON)
        return;
    sl_store(&reader->watch_want, want, release);
    reader->watch = (struct sl_watch){ .fd = -1, .timer = look_at_rest, .deadline = now + REST_LOOK };
    if (sl_service_add(&reader->watch) != 0)
        sl_log(SLUICE_LOG_ERROR, "channel '%s': its descriptor will not wake: %s", reader->name, sluice_last_error());
}

/* All frames that it may hold have a queued release, so acquire can take none, however many are ready. True if who polls is woken
 * later, to look again. */
static bool waits_for_room(struct sluice_reader *reader, const struct sl_session *session)
{
    if (!session->pages || sl_take_entry(reader) || !sl_release_queued(reader)) {
        reader->full_since_ns = 0;
        return false;
    }
    int64_t now = sl_os_now();
    if (reader->full_since_ns == 0)
        reader->full_since_ns = now;
    int64_t pause = (now - reader->full_since_ns) / 4;
    sl_service_lock();
    sl_store(&reader->watch_room, 1, relaxed);
    sl_service_set_deadline(&reader->watch, now + (pause < FIRST_ROOM ? FIRST_ROOM : pause < LAST_ROOM ? pause : LAST_ROOM));
    sl_service_unlock();
    return true;
}

void sl_gate_settle(struct sluice_reader *reader)
{
    struct sl_session *session = reader->session;

    sl_os_note_clear(reader->note);
    sl_store(&reader->watch_room, 0, relaxed);
    if (session && sl_load(&session->link->gone, acquire)) {
        sl_service_lock();
        settle_gone(reader, session);
        sl_service_unlock();
    } else if (session) {
        settle_session(reader, session);
        if (waits_for_room(reader, session))
            return;
    }
    /* The note reports frames from before the flag was set, the socket those from after it. */
    if (sl_wait_has_news(reader))
        sl_os_note_set(reader->note);
}

void sl_gate_enter(struct sluice_reader *reader, struct sl_session *session)
{
    int r;

    if (reader->gate < 0)
        return;
    if (session->pages) {
        reader->watch = (struct sl_watch){ .fd = session->link->wake_fd, .ready = committed, .timer = look };
        r = sl_service_add(&reader->watch);
    } else {
        r = sl_os_gate_add(reader->gate, session->link->wake_fd);
    }
    if (r != 0)
        sl_log(SLUICE_LOG_ERROR, "channel '%s': its descriptor will not wake: %s", reader->name, sluice_last_error());
}

void sl_gate_leave(struct sluice_reader *reader, struct sl_session *session)
{
    if (reader->gate < 0)
        return;
    if (session->pages)
        sl_service_remove(&reader->watch);
    else
        sl_os_gate_remove(reader->gate, session->link->wake_fd);
}

int sluice_reader_fd(sluice_reader *handle)
{
    struct sluice_reader *reader;
    int gate, note, r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    if (reader->bare) {
        r = reader->bare->reader_fd(reader->state);
        goto out;
    }
    if (reader->gate < 0) {
        if ((r = sl_os_note_open(&note)) != 0)
            goto out;
        if ((r = sl_os_gate_open(&gate)) != 0) {
            sl_os_close(note);
            goto out;
        }
        if ((r = sl_os_gate_add(gate, note)) != 0) {
            sl_os_close(note);
            sl_os_close(gate);
            goto out;
        }
        sl_service_lock();
        reader->note = note;
        reader->gate = gate;
        if (reader->session)
            sl_gate_enter(reader, reader->session);
        sl_service_unlock();
        sl_gate_settle(reader);
    }
    r = reader->gate;
out:
    sl_object_drop(&reader->object);
    return r;
}
