/* SPDX-License-Identifier: MIT */
#include "core/follow.h"

#include <stdlib.h>

#include "core/apart.h"
#include "util/result.h"

static struct sl_follower *find(struct sl_follow *follow, const struct sl_shared_page *page)
{
    for (uint32_t i = 0; i < follow->count; i++)
        if (follow->list[i].page == page)
            return &follow->list[i];
    return NULL;
}

/* Those in the table, their pages held. Under the channel lock. Readers that left keep their places in the list
 * until they are let go: when it is full, newcomers wait for the next time. */
static void look_up(struct sl_follow *follow, struct sl_serve *serve)
{
    for (uint32_t i = 0; i < follow->count; i++)
        follow->list[i].here = false;
    for (uint32_t i = 0; i < serve->reader_count; i++) {
        struct sl_shared_page *page = serve->readers[i].shared;
        struct sl_follower *known = find(follow, page);
        if (!serve->readers[i].ahead)
            continue;
        if (known) {
            known->here = true;
        } else if (follow->count < SLUICE_MAX_READERS) {
            sl_add(&page->users, 1);
            follow->list[follow->count++] = (struct sl_follower){ .page = page, .here = true };
        } else {
            sl_store(&serve->ahead_changed, 1, relaxed);
        }
    }
}

static void let_go(struct sl_follower *follower, const struct sl_sync_ops *sync)
{
    sync->detach(follower->pages);
    sl_shared_page_drop(follower->page);
}

struct leaver {
    struct sl_follower follower;
    const struct sl_sync_ops *sync;
};

static void leave(void *argument)
{
    struct leaver *leaver = argument;

    let_go(&leaver->follower, leaver->sync);
    free(leaver);
}

/* The driver may wait for all that the program has on the GPU, and begin shall not: on a thread of its own. */
static void let_go_apart(struct sl_follower *follower, const struct sl_sync_ops *sync)
{
    struct leaver *leaver = follower->pages ? malloc(sizeof *leaver) : NULL;

    if (!leaver) {
        let_go(follower, sync);
        return;
    }
    *leaver = (struct leaver){ *follower, sync };
    sl_apart(leave, leaver);
}

void sl_follow_update(struct sl_follow *follow, struct sl_serve *serve, const struct sl_flight *flight,
                      const char *device, bool busy)
{
    uint32_t kept = 0;

    sl_store(&serve->ahead_changed, 0, relaxed);
    if (serve->lingers_ns > 0)
        return; /* under MPS, where no stream waits ahead: words for that would only take time */
    sl_mutex_lock(&serve->lock);
    look_up(follow, serve);
    sl_mutex_unlock(&serve->lock);
    for (uint32_t i = 0; i < follow->count; i++) {
        struct sl_follower *follower = &follow->list[i];
        int r = 0;
        if (follower->here && !follower->pages)
            r = flight->sync->attach(device, follower->page->address, follower->page->bytes, true, &follower->pages);
        if (r != 0)
            sl_log(SLUICE_LOG_WARN, "a reader cannot take frames ahead: %s", sluice_last_error());
        if (!follower->here && follower->pages && busy) {
            sl_store(&serve->ahead_changed, 1, relaxed); /* another time */
        } else if (!follower->here || r != 0) {
            let_go_apart(follower, flight->sync);
            continue;
        }
        follow->list[kept++] = *follower;
    }
    follow->count = kept;
}

void sl_follow_ask(struct sl_follow *follow, uint64_t next)
{
    for (uint32_t i = 0; i < follow->count; i++) {
        struct sl_follower *follower = &follow->list[i];
        bool asks = next <= sl_load(follower->page->words.own_to, relaxed);
        if (asks != follower->asks)
            sl_store(follower->page->words.own_from, asks ? next : 0, release);
        follower->asks = asks;
    }
}

void sl_follow_end(struct sl_follow *follow, const struct sl_flight *flight)
{
    for (uint32_t i = 0; i < follow->count; i++)
        let_go(&follow->list[i], flight->sync);
    follow->count = 0;
}

uint32_t sl_follow_signals(const struct sl_follow *follow, uint32_t slot, uint64_t sequence,
                           struct sl_signal *signals)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < follow->count; i++)
        if (follow->list[i].asks)
            signals[count++] = (struct sl_signal){ &follow->list[i].page->words.own_ready[slot], sequence };
    return count;
}
