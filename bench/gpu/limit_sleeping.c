/* SPDX-License-Identifier: MIT
 *
 * The simplest reader that sleeps: it polls the word every 50 us.
 */
#include <sys/prctl.h>
#include <time.h>

#include "driver.h"
#include "limit.h"
#include "rounds.h"
#include "sleeping.h"

#define POLL_NS 50000

static void nothing(void)
{
}

static void reader_open(int index)
{
    (void)index;
    prctl(PR_SET_TIMERSLACK, 1);
}

static void hand(struct cu_stream *stream, uint32_t round)
{
    CU(StreamWriteValue64, stream, word_address(WORD_READY), round, 0);
}

static void take(uint32_t round)
{
    while (atomic_load(word(WORD_READY)) < round)
        nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
}

void limit_sleeping(int index)
{
    static const struct sleeper bare = { nothing, hand, nothing, reader_open, take, nothing };
    measure_sleeping(&bare, index);
}
