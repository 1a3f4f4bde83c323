/* SPDX-License-Identifier: MIT
 *
 * The table of readers that begin and commit use. Changed on the service thread, under the channel lock, which begin
 * and commit hold while they use it.
 */
#include "native/wire/native.h"

void sl_reader_table_wake_begin(struct sl_serve *serve)
{
    sl_add(&serve->freed, 1);
    sl_os_futex_wake(&serve->freed, INT32_MAX);
}

void sl_reader_table_add(struct sl_peer *peer)
{
    struct sl_serve *serve = &peer->serve->base;
    struct sl_reader_page *page = peer->page;

    sl_mutex_lock(&serve->lock);
    /* The cursor is set under the lock that begin holds while it chooses a slot, so no frame is lost in between. */
    uint64_t head = sl_head_sequence(sl_load(serve->words.head, acquire));
    sl_store(&page->cursor, head ? head : 1, relaxed);
    sl_store(&page->semaphores_to, peer->hello.ahead ? head + SL_SEMAPHORES_AT_FIRST : 0, relaxed);
    peer->table_index = serve->reader_count++;
    serve->readers[peer->table_index] = (struct sl_reader_slot){
        .page = sl_page_words(page),
        .mode = peer->hello.mode,
        .depth = peer->depth,
        .wake_fd = peer->wake.fd,
        .ahead = peer->hello.ahead != 0,
        .shared = peer->shared,
        .peer = peer,
    };
    serve->readers_total++;
    if (peer->hello.ahead)
        sl_store(&serve->ahead_changed, 1, relaxed);
    sl_mutex_unlock(&serve->lock);
}

void sl_reader_table_remove(struct sl_peer *peer)
{
    struct sl_serve *serve = &peer->serve->base;

    if (!sl_reader_table_has(peer))
        return;
    sl_mutex_lock(&serve->lock);
    uint32_t last = --serve->reader_count;
    serve->readers[peer->table_index] = serve->readers[last];
    serve->readers[peer->table_index].peer->table_index = peer->table_index;
    peer->table_index = SLUICE_MAX_READERS;
    if (peer->hello.ahead)
        sl_store(&serve->ahead_changed, 1, relaxed);
    sl_mutex_unlock(&serve->lock);
    sl_reader_table_wake_begin(serve); /* its slots may be free now */
}

void sl_reader_table_keep_leased_only(struct sl_peer *peer)
{
    struct sl_serve *serve = &peer->serve->base;

    if (!sl_reader_table_has(peer))
        return;
    sl_mutex_lock(&serve->lock);
    serve->readers[peer->table_index].mode = SLUICE_NEWEST;
    sl_mutex_unlock(&serve->lock);
    sl_reader_table_wake_begin(serve);
}
