/* SPDX-License-Identifier: MIT
 *
 * Readers that wait for frames on their GPU: the writer raises a word in each one's own page, beside the
 * channel's. The list is the writer's own, so that commit needs no lock; begin brings it up to date.
 */
#ifndef SL_CORE_FOLLOW_H
#define SL_CORE_FOLLOW_H

#include "core/flight.h"

struct sl_follower {
    struct sl_shared_page *page;
    struct sl_sync_pages *pages; /* of it */
    bool here;                   /* it is in the table still */
};

struct sl_follow {
    struct sl_follower list[SLUICE_MAX_READERS];
    uint32_t count;
};

/* Takes in who came and lets go of who left. May ask a driver, so with no lock held; `next` is the sequence
 * of the next frame. Letting go waits for all that the device works on: not while it is `busy`, for that may never
 * end. */
void sl_follow_update(struct sl_follow *follow, struct sl_serve *serve, const struct sl_flight *flight,
                      const char *device, uint64_t next, bool busy);

/* Lets go of all. */
void sl_follow_end(struct sl_follow *follow, const struct sl_flight *flight);

/* W7 for all of them: adds one signal each to `signals`, which has room. Returns how many. */
uint32_t sl_follow_signals(const struct sl_follow *follow, uint32_t slot, uint64_t sequence,
                           struct sl_signal *signals);

#endif
