/* SPDX-License-Identifier: MIT
 *
 * A reader of Sluice's own channels. reader.c opens and closes it, acquire.c takes frames (acquire.h), release.c gives
 * them back (held.h), session.c follows the channel's writers as they come and go (session.h), poll_fd.c keeps the
 * descriptor that programs poll.
 *
 * Three kinds of threads use it: the caller of acquire (one at a time), callers of release and of frame calls (any),
 * and the service thread, which brings links and news under the service lock.
 */
#ifndef SL_NATIVE_READER_READER_H
#define SL_NATIVE_READER_READER_H

#include <sluice/reader.h>

#include "channel/channel.h"
#include "native/reader/held.h"
#include "native/reader/session.h"
#include "native/reader/timing.h"

/* The descriptor that programs poll: poll_fd.c. */
struct sl_poll_fd {
    int epoll, note;       /* the descriptor, and our own eventfd in it; -1 until the program asks for it */
    struct sl_watch watch; /* checks whether frames on a GPU are ready */
    sl_word want;          /* from this sequence on */
    /* The service thread's, as the session's `awaited` is acquire's. */
    uint64_t awaited;
    int64_t since_ns, unready_ns;
    uint32_t quick_checks; /* of it, in quick succession */
    int64_t rest_until_ns; /* the writer is gone: until then its device may finish frames */
    sl_word32 check_room;  /* 1: wake the program, so that acquire checks whether a queued release has made room */
    int64_t full_since_ns; /* acquire's: since when there has been no room; 0: there is */
};

/* A connection that acquire has not switched to yet, and its session once that is open: session_open.c. Under the
 * service lock. */
struct sl_next_session {
    struct sl_link *link;       /* not opened yet */
    struct sl_link *opening;    /* by the thread */
    struct sl_session *session; /* open */
    bool use_thread;            /* the reader is open: from now on a thread opens sessions */
    bool thread_runs;
    bool failed; /* the thread could not open `link`: acquire tries again, and reports why */
};

/* Statistics, relaxed. */
struct sl_reader_counts {
    sl_word taken, missed, lost, retries, sessions, latency_ns;
};

struct sl_reader {
    struct sluice_reader base;
    struct sluice_reader_params params; /* complete */
    bool holds_most;                    /* as many frames as each writer allows: SLUICE_MOST */
    char device[SL_DEVICE_NAME];        /* that was asked for; "": the channel's own */
    struct sl_join *join;               /* NULL once its device is lost */

    /* News: raised by the service thread, and by close. */
    sl_word32 attention; /* 1: something changed under the service lock */
    sl_word32 bell;      /* futex of an acquire that has no link */
    sl_word32 closing;
    struct sl_next_session next;

    /* The acquiring thread's; `session` changes under the service lock. */
    struct sl_session *session;
    struct sl_session *old;
    bool device_changed;   /* sessions were of different devices */
    uint64_t last_session; /* of the last frame */
    uint64_t next_token;
    int64_t now;                  /* in acquire: the time, if it was read since the last wait; else 0 */
    int64_t probed_ns;            /* when the driver was last asked about a release that is late */
    int64_t settled_ns;           /* when releases were settled last, by the coarse clock */
    uint32_t last_entry;          /* of `held`: the one taken last */
    uint8_t entry_of[SL_MAX_IDS]; /* for each slot: the entry that its frame had last */

    struct sl_held held[SLUICE_MAX_SLOTS];
    sl_word32 may_be_deferred; /* 1: a release may be */
    sl_word32 unreported;      /* lost frames that acquire has to report */

    struct sl_copy_buffer *copy_buffers;         /* one for each entry; NULL until frames are copied */
    struct sl_completion_estimate copy_estimate; /* of copies */
    struct sl_poll_fd poll;
    struct sl_reader_counts counts;
    struct sl_timing timing;
};

static inline struct sl_reader *sl_reader_of(struct sluice_reader *base)
{
    return (struct sl_reader *)base;
}

/* ---- the backend's functions: channel/channel.h ---- */

int sl_native_reader_open(struct sluice_reader *base, const struct sluice_reader_params *params);
void sl_native_reader_stop(struct sluice_reader *base);
void sl_native_reader_stopped(struct sluice_reader *base);
int sl_native_acquire(struct sluice_reader *base, struct sluice_stream stream, int64_t timeout_ns,
                      struct sluice_frame *frame);
int sl_native_release(struct sluice_reader *base, struct sluice_frame *frame, struct sluice_stream stream);
int sl_native_check(struct sluice_reader *base, const struct sluice_frame *frame);
int sl_native_reader_format(struct sluice_reader *base, struct sluice_format *format);
void sl_native_reader_device(struct sluice_reader *base, char name[SL_DEVICE_NAME]);
int sl_native_reader_fd(struct sluice_reader *base);
void sl_native_reader_stats(struct sluice_reader *base, struct sluice_reader_stats *stats);
int sl_native_reader_pin(struct sluice_reader *base, const struct sluice_frame *frame, sluice_pin **pin);
int sl_native_reader_view(struct sluice_reader *base, const struct sluice_frame *frame, struct sl_view *view);

/* ---- wake.c: under the service lock ---- */

/* Wakes all threads that sleep in a call. */
void sl_wake_sleepers(struct sl_reader *reader);

/* There is news for acquire: the same, and a program that polls. */
void sl_wake_with_news(struct sl_reader *reader);

/* ---- device_loss.c ---- */

/* Disconnects for good: this reader's device is lost, and with it all its work there. acquire reports it. */
void sl_reader_disconnect(struct sl_reader *reader);

/* ---- wait.c ---- */

/* Would acquire return at once? */
bool sl_wait_has_news(const struct sl_reader *reader);

/* When the next frame from `want` on was committed; `now` if that is not known. */
int64_t sl_wait_since(const struct sl_session *session, uint64_t want, int64_t now);

/* The writer is gone: until when its device may finish frames, which are lost then; 0: it finishes none any more. */
int64_t sl_wait_rests_until(const struct sl_session *session, int64_t now);

/* ---- poll_fd.c ---- */

/* Makes the descriptor readable if acquire would return at once. After each acquire, once the program has asked for it.
 */
void sl_poll_fd_update(struct sl_reader *reader);

/* Under the service lock. */
void sl_poll_fd_add(struct sl_reader *reader, struct sl_session *session);
void sl_poll_fd_remove(struct sl_reader *reader, struct sl_session *session);

#endif
