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

/* ---- wait.c ---- */

#define SL_WAIT_LOOK (SLUICE_MS / 20) /* whoever looks often looks so often */

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

/* How long frames take from commit to ready, of late: by what was waited for, and by what was there sooner. */
void sl_wait_taken(struct sl_session *session, uint64_t want, uint64_t latency);

/* ---- lines.c ---- */

/* As soon as acquire begins, before it is known which slot comes: mostly the one that came the last time round. */
void sl_lines_early(const struct sl_session *session);

/* Of the newest frame. */
void sl_lines_newest(const struct sl_session *session);

/* Looks whether the newest frame gets ready, for about as long as a pause of the CPU takes, which would see that late. */
bool sl_lines_watch(const struct sl_session *session);

#endif
