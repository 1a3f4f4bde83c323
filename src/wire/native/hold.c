/* SPDX-License-Identifier: MIT
 *
 * Readers that hold more frames than they asked for in their hello. The library never lets a reader do that: one that
 * does has broken the protocol.
 */
#include "wire/native/native.h"

/* The words that are set in both looks were set at one moment between them, so `hold` bounds them: a frame
 * that was let go is not taken again, so no word takes the same value twice; and whoever sees a new lease
 * also sees the old one gone that had to make room for it. A reader that tries a frame in vain may set its
 * word again, but only while somebody marks slots, which nobody does but the writer, and that is us. */
bool sl_peer_overdraws(const struct sl_peer *peer)
{
    const struct sl_reader_page *page = peer->page;
    uint32_t ids = peer->serve->control->ids, held = 0;
    uint64_t first[SL_MAX_IDS];

    if (peer->serve->control->memory_kind != SL_MEM_HOST) /* a GPU ends leases later, in its own time */
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
