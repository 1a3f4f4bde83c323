/* SPDX-License-Identifier: MIT
 *
 * The bare limit: memory that both have, a counter each way, and a futex to sleep on. Nothing is
 * checked, nothing survives, there is one reader.
 */
#include <stdalign.h>
#include <string.h>

#include "kit/words.h"
#include "peer.h"

static struct {
    alignas(64) atomic_uint written;
    alignas(64) atomic_uint read;
} * counters;
static char *slots;
static size_t size;
static unsigned next; /* this side's frame */

static void prepare(size_t bytes)
{
    counters = kit_shared_memory(sizeof *counters);
    slots = kit_shared_memory(bytes * SLOTS);
    size = bytes;
}

static void open_side(size_t bytes)
{
    (void)bytes;
}

static char *slot(unsigned number)
{
    return slots + number % SLOTS * size;
}

static void raise_counter(atomic_uint *counter, unsigned value)
{
    atomic_store(counter, value);
    futex_wake(counter, 1);
}

static void *lend(void)
{
    for (unsigned read; next - (read = atomic_load(&counters->read)) == SLOTS;)
        futex_wait(&counters->read, read);
    return slot(next);
}

static void hand(const void *own)
{
    if (own)
        memcpy(lend(), own, size);
    raise_counter(&counters->written, ++next);
}

static const void *take(void)
{
    while (atomic_load(&counters->written) == next)
        futex_wait(&counters->written, next);
    return slot(next);
}

static void give(void)
{
    raise_counter(&counters->read, ++next);
}

const struct peer peer = {
    .in_place = true,
    .prepare = prepare,
    .writer_open = open_side,
    .lend = lend,
    .hand = hand,
    .reader_open = open_side,
    .take = take,
    .give = give,
};
