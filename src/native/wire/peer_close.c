/* SPDX-License-Identifier: MIT
 *
 * The end of a connection to a writer, whatever its reason. Runs on the service thread, under its lock.
 */
#include <stdlib.h>

#include "native/wire/native.h"
#include "util/result.h"

void sl_peer_log_departure(const struct sl_peer *peer, const char *how)
{
    if (sl_peer_is_reader(peer))
        sl_log(SLUICE_LOG_INFO, "channel '%s': reader '%s' (process %u) %s", peer->serve->name, peer->hello.program,
               peer->identity.pid, how);
}

static void remove_from_list(const struct sl_peer *peer)
{
    struct sl_peer **link = &peer->serve->peers;

    while (*link && *link != peer)
        link = &(*link)->next;
    if (*link)
        *link = peer->next;
}

/* Before its slots are reused: a reader that is alive takes no further frames, and its release can report the eviction.
 */
static void notify_reader(struct sl_peer *peer, uint32_t reason)
{
    if (reason != SL_BYE_CLOSED)
        sl_store(&peer->page->evicted, 1, seq_cst);
    sl_add(&peer->page->bell, 1);
    sl_os_futex_wake(&peer->page->bell, 1);
    (void)sl_os_send(peer->wake.fd, "", 1, NULL, 0);
}

static void send_goodbye(const struct sl_peer *peer, uint32_t reason)
{
    union sl_message message = SL_MESSAGE(SL_MSG_BYE, bye);

    message.bye.reason = reason;
    (void)sl_os_send(peer->socket.fd, &message, message.header.size, NULL, 0);
}

void sl_peer_close(struct sl_peer *peer, uint32_t reason)
{
    remove_from_list(peer);
    if (!sl_peer_is_reader(peer))
        peer->serve->nonreader_count--;
    if (sl_reader_table_has(peer))
        notify_reader(peer, reason);
    sl_reader_table_remove(peer);
    if (reason == SL_BYE_CLOSED)
        sl_peer_send_all_memories(peer); /* frames that the reader has not read may be in them */
    if (reason)
        send_goodbye(peer, reason);
    sl_service_remove(&peer->socket);
    sl_service_remove(&peer->process);
    sl_service_remove(&peer->wake);
    sl_os_hang_up(peer->socket.fd);
    sl_os_close(peer->process.fd);
    sl_os_hang_up(peer->wake.fd);
    sl_os_close(peer->page_fd);
    sl_os_close(peer->wake_end);
    sl_shared_page_drop(peer->shared);
    free(peer);
}
