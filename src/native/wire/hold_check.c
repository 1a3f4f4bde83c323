/* SPDX-License-Identifier: MIT
 *
 * Detects readers that hold more frames than they requested in their HELLO. The library never lets
 * a reader do that: one that does violates the protocol.
 */
#include "native/wire/native.h"

/* Two passes over the lease words. Words that have the same non-zero value in both were all set at
 * one moment between the passes, so `hold` bounds their number: a frame that was released is not
 * taken again, so no word has the same value twice; and a pass that sees a new lease also sees that
 * the old one was released to make room for it. A reader that fails to take a frame may set its
 * word again, but only while slots are being marked, which only the writer does, and that is this
 * thread. */
bool sl_peer_overdraws(const struct sl_peer *peer)
{
    const struct sl_reader_page *page = peer->page;
    uint32_t ids = peer->serve->control->ids, held = 0;
    uint64_t first[SL_MAX_IDS];

    if (peer->serve->control->memory_kind != SL_MEM_HOST) /* a GPU ends leases later */
        return false;
    for (uint32_t s = 0; s < ids; s++) {
        first[s] = sl_load(&page->lease[s], seq_cst);
        held += first[s] != 0;
    }
    if (held <= peer->hello.hold)
        return false;
    held = 0;
    for (uint32_t s = 0; s < ids; s++)
        held += first[s] != 0 && sl_load(&page->lease[s], seq_cst) == first[s];
    return held > peer->hello.hold;
}
