/* SPDX-License-Identifier: MIT
 *
 * Inside acquire: acquire.c decides what comes next, acquire_ahead.c takes a frame that is not ready, frame_fill.c
 * makes a frame of a slot, wait.c waits; prefetch.c prefetches the cache lines that they will read.
 */
#ifndef SL_NATIVE_READER_ACQUIRE_H
#define SL_NATIVE_READER_ACQUIRE_H

#include "native/reader/reader.h"

/* ---- acquire_ahead.c ---- */

/* Polls the next frame for a few microseconds, unless that was of no use lately. True if it is ready now. */
bool sl_acquire_poll_briefly(struct sl_reader *reader);

/* Takes a frame that is not ready, and has the stream wait for it. SLUICE_TIMEOUT if the CPU has to wait instead. */
int sl_acquire_ahead(struct sl_reader *reader, struct sluice_stream stream, struct sluice_frame *frame);

/* ---- frame_fill.c ---- */

/* Makes a frame of a leased slot; SLUICE_AGAIN while its memory has not arrived. */
int sl_frame_fill(struct sl_reader *reader, uint32_t slot, uint64_t sequence, struct sluice_stream stream,
                  struct sluice_frame *frame);

/* A time of the writer's by our clock. It may be any number; the result is never negative. */
static inline int64_t sl_link_local_time(const struct sl_link *link, int64_t theirs)
{
    int64_t ours = (int64_t)((uint64_t)theirs - (uint64_t)link->clock_offset_ns);
    return ours > 0 ? ours : 0;
}

/* ---- wait.c ---- */

static inline bool sl_wait_evicted(const struct sl_session *session)
{
    return sl_load(session->link->page.evicted, acquire) != 0;
}

static inline bool sl_wait_over(const struct sl_session *session)
{
    return sl_load(&session->link->gone, acquire) || sl_load(session->link->closed, acquire) ||
           sl_wait_evicted(session);
}

/* Until when a wait that begins now spins before it sleeps; 0: it does not spin at all. */
int64_t sl_wait_spins_until(const struct sl_reader *reader, int64_t deadline);

/* Waits until acquire should check again. `arriving`: there is a frame whose memory has not arrived yet. True: a frame
 * became ready while it was polled; take it at once. */
bool sl_wait_for_news(struct sl_reader *reader, int64_t deadline, bool arriving);

/* Learns how long frames take from commit to ready, from a frame that was waited for and found ready at `found`, or one
 * that was ready when first polled (0). */
void sl_wait_update_estimate(struct sl_session *session, int64_t found, int64_t commit_ns, uint64_t latency);

/* ---- prefetch.c ---- */

/* At the beginning of acquire, before the next slot is known: prefetches for the slot that followed the last time. */
void sl_prefetch_expected(const struct sl_session *session);

/* Prefetches for the newest frame. */
void sl_prefetch_newest(const struct sl_session *session);

/* Polls the newest frame for about as long as a pause instruction takes. True if it is ready. */
bool sl_prefetch_watch_newest(const struct sl_session *session);

#endif
