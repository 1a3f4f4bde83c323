/* SPDX-License-Identifier: MIT
 *
 * Inside acquire: acquire.c decides what comes next, take.c makes a frame of a slot, wait.c waits; lines.c has what they
 * will look at fetched before.
 */
#ifndef SL_CORE_ACQUIRE_H
#define SL_CORE_ACQUIRE_H

#include "core/reader.h"

/* ---- take.c ---- */

/* A place for one frame more; NULL if as many are out as the reader may hold. */
struct sl_held *sl_take_entry(struct sluice_reader *reader);

/* A held slot becomes a frame; SLUICE_AGAIN while its memory has not come. */
int sl_take_frame(struct sluice_reader *reader, uint32_t slot, uint64_t sequence, struct sluice_stream stream,
                  struct sluice_frame *frame);

/* The writer's times may be any numbers. */
static inline int64_t sl_take_time(const struct sl_link *link, int64_t theirs)
{
    return (int64_t)((uint64_t)theirs - (uint64_t)link->clock_offset_ns);
}

/* ---- wait.c ---- */

static inline bool sl_wait_evicted(const struct sl_session *session)
{
    return sl_load(session->link->page.evicted, acquire) != 0;
}

static inline bool sl_wait_over(const struct sl_session *session)
{
    return sl_load(&session->link->gone, acquire) || sl_load(session->link->closed, acquire) || sl_wait_evicted(session);
}

/* When a wait that has begun now sleeps; 0: it does not spin at all. */
int64_t sl_wait_spins_until(const struct sluice_reader *reader, int64_t deadline);

/* Sleeps until there is something to look at. `arriving`: a frame is there whose memory has not come yet. True: a frame got
 * ready while it was looked at, and is to be taken at once. */
bool sl_wait_for_news(struct sluice_reader *reader, int64_t deadline, bool arriving);

/* Learns how long frames take from commit to ready: by one that was waited for, and found ready at `found`, or by one that was
 * there at once (0). */
void sl_wait_taken(struct sl_session *session, int64_t found, int64_t commit_ns, uint64_t latency);

/* ---- lines.c ---- */

/* As soon as acquire begins, before it is known which slot comes: mostly the one that came the last time round. */
void sl_lines_early(const struct sl_session *session);

/* Of the newest frame. */
void sl_lines_newest(const struct sl_session *session);

/* Looks whether the newest frame gets ready, for about as long as a pause of the CPU takes, which would see that late. */
bool sl_lines_watch(const struct sl_session *session);

#endif
