/* SPDX-License-Identifier: MIT
 *
 * Wakes the threads that sleep in a reader's calls, and the program that polls its descriptor. Under the service lock.
 */
#include "native/reader/reader.h"

static void ring_bell(sl_word32 *bell)
{
    sl_add(bell, 1);
    sl_os_futex_wake(bell, INT32_MAX);
}

void sl_wake_sleepers(struct sl_reader *reader)
{
    ring_bell(&reader->bell);
    if (reader->session)
        ring_bell(reader->session->link->page.bell);
}

void sl_wake_with_news(struct sl_reader *reader)
{
    sl_store(&reader->attention, 1, seq_cst);
    sl_wake_sleepers(reader);
    if (reader->poll.note >= 0)
        sl_os_eventfd_set(reader->poll.note);
}
