/* SPDX-License-Identifier: MIT
 *
 * Streams that wait for a word, and what this does to the other streams of the process.
 */
#include "driver.h"
#include "limit.h"
#include "other_streams.h"
#include "rounds.h"

#define MAX_PARKED 16

static void park_and_look(int count)
{
    struct cu_stream *parked[MAX_PARKED];
    for (int i = 0; i < count; i++)
        parked[i] = gpu_stream();
    other_streams_open();
    meet();
    busy_begin(1);
    int64_t until = clock_ns() + job->ns;
    for (uint32_t turn = 1; turn == 1 || clock_ns() < until; turn++) {
        for (int i = 0; i < count; i++)
            CU(StreamWaitValue64, parked[i], word_address(WORD_GATE), turn, 0);
        other_streams_measure();
        atomic_store(word(WORD_GATE), turn);
        other_streams_settle();
    }
    busy_end();
    other_streams_close();
    for (int i = 0; i < count; i++) {
        CU(StreamSynchronize, parked[i]);
        CU(StreamDestroy, parked[i]);
    }
    value("parked", count);
}

/* The other process does nothing, or keeps the GPU busy. */
void limit_parked(int index)
{
    if (index > 0) {
        park_and_look((int)(job->parked < MAX_PARKED ? job->parked : MAX_PARKED));
        return;
    }
    meet();
    busy_begin(0);
    busy_end();
}
