/* SPDX-License-Identifier: MIT
 *
 * What a writer makes for each reader: the page of words that the two share, and the socket on which they wake each
 * other. The writer makes the page, so that the reader cannot shrink it (protocol 1.7, 5.12).
 */
#include <stdlib.h>

#include "native/wire/native.h"
#include "util/result.h"

/* The reader has released a frame while begin waits for a slot (protocol 3.9). */
static void wake_ready(struct sl_watch *watch, bool readable, bool hung_up)
{
    struct sl_peer *peer = SL_PEER_OF(watch, wake);

    if (hung_up)
        peer->wake_closed_ns = sl_os_now();
    if (readable && sl_os_drain(watch->fd))
        sl_reader_table_wake_begin(&peer->serve->base);
}

static int make_page(struct sl_peer *peer)
{
    uint64_t bytes = sl_native_page_size(sl_os_page_size());
    void *address;
    int r;

    if ((r = sl_os_memory_create("sluice-reader", bytes, &peer->page_fd)) != 0)
        return r;
    if ((r = sl_os_memory_seal(peer->page_fd, false)) != 0)
        return r;
    if ((r = sl_os_map(peer->page_fd, bytes, true, &address)) != 0)
        return r;
    peer->shared = malloc(sizeof *peer->shared);
    if (!peer->shared) {
        sl_os_unmap(address, bytes);
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for a reader's page");
    }
    *peer->shared =
        (struct sl_shared_page){ .words = sl_page_words(address), .address = address, .bytes = bytes, .users = 1 };
    peer->page = address;
    peer->serve->nonreader_count--; /* a reader from here on */
    peer->page->magic = SL_NATIVE_MAGIC;
    peer->page->session = peer->serve->params.session;
    return 0;
}

static int make_wake_socket(struct sl_peer *peer)
{
    int ends[2], r = sl_os_socket_pair(ends);

    if (r != 0)
        return r;
    sl_os_take_no_descriptors(ends[0]);
    peer->wake.fd = ends[0];
    peer->wake_end = ends[1];
    if ((r = sl_os_close_in_child(ends[0])) != 0 || (r = sl_os_close_in_child(ends[1])) != 0)
        return r;
    peer->wake.ready = wake_ready;
    return sl_service_add(&peer->wake);
}

int sl_reader_page_make(struct sl_peer *peer)
{
    int r = make_page(peer);

    return r == 0 ? make_wake_socket(peer) : r;
}
