/* SPDX-License-Identifier: MIT
 *
 * Readers that wait for frames on their GPU: the writer raises a word in each one's own page, beside the
 * channel's. The list is the writer's own, so that commit needs no lock; begin brings it up to date.
 *
 * Each word takes the GPU most of a microsecond, in which nothing else of this stream runs, and no other process's work.
 * So they are raised only for readers that ask for them, for as many frames as each of them says (own_to). Which frames a
 * reader may wait for is told before they are published (own_from): it never waits for a word that nobody raises.
 */
#ifndef SL_CORE_FOLLOW_H
#define SL_CORE_FOLLOW_H

#include "core/flight.h"

struct sl_follower {
    struct sl_shared_page *page;
    struct sl_sync_pages *pages; /* of it */
    bool here;                   /* it is in the table still */
    bool asks;                   /* its words are raised: own_from is stored */
};

struct sl_follow {
    struct sl_follower list[SLUICE_MAX_READERS];
    uint32_t count;
};

/* Takes in who came and lets go of who left. May ask a driver, so with no lock held. The driver lets go
 * of a page when all is done that the program has on the device, which a thread of its own waits for. While the device is
 * `busy` with frames of this writer nobody is let go: their words are still to be raised. */
void sl_follow_update(struct sl_follow *follow, struct sl_serve *serve, const struct sl_flight *flight,
                      const char *device, bool busy);

/* Who asks for words, from the next frame on? Tells them what they will get. Before frames from `next` on are
 * committed. */
void sl_follow_ask(struct sl_follow *follow, uint64_t next);

/* Lets go of all. */
void sl_follow_end(struct sl_follow *follow, const struct sl_flight *flight);

/* W7 for all who ask: adds one signal each to `signals`, which has room. Returns how many. */
uint32_t sl_follow_signals(const struct sl_follow *follow, uint32_t slot, uint64_t sequence,
                           struct sl_signal *signals);

#endif
