/* SPDX-License-Identifier: MIT
 *
 * The bare limit: shared memory, a counter each way, and a futex to sleep on. It checks nothing,
 * survives no death, and has one reader.
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
static unsigned next; /* frame of this side */

static void prepare(size_t bytes)
{
    counters = shared_memory(sizeof *counters);
    slots = shared_memory(bytes * SLOTS);
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

static void *loan(void)
{
    for (unsigned read; next - (read = atomic_load(&counters->read)) == SLOTS;)
        futex_wait(&counters->read, read);
    return slot(next);
}

static void send_frame(const void *own)
{
    if (own)
        memcpy(loan(), own, size);
    raise_counter(&counters->written, ++next);
}

static const void *receive_frame(void)
{
    while (atomic_load(&counters->written) == next)
        futex_wait(&counters->written, next);
    return slot(next);
}

static void release_frame(void)
{
    raise_counter(&counters->read, ++next);
}

const struct peer peer = {
    .in_place = true,
    .prepare = prepare,
    .writer_open = open_side,
    .loan = loan,
    .send = send_frame,
    .reader_open = open_side,
    .receive = receive_frame,
    .release = release_frame,
};
