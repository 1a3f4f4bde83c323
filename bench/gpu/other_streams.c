/* SPDX-License-Identifier: MIT */
#include "other_streams.h"

#include "driver.h"
#include "rounds.h"

#define KERNEL  (20 * INT64_C(1000))
#define IN_TIME (20 * INT64_C(1000000))

static struct cu_stream *streams[OTHER_STREAMS];
static uint64_t turn;

void other_streams_open(void)
{
    for (int i = 0; i < OTHER_STREAMS; i++)
        streams[i] = gpu_stream();
    turn = 0;
}

void other_streams_close(void)
{
    for (int i = 0; i < OTHER_STREAMS; i++)
        CU(StreamDestroy, streams[i]);
}

void other_streams_measure(void)
{
    int64_t start[OTHER_STREAMS], seen[OTHER_STREAMS] = { 0 };
    int left = OTHER_STREAMS;
    turn++;
    for (int i = 0; i < OTHER_STREAMS; i++) {
        start[i] = clock_ns();
        gpu_spin(streams[i], KERNEL);
        CU(StreamWriteValue64, streams[i], word_address(WORD_MORE + i), turn, 0);
    }
    for (int64_t now = clock_ns(), until = now + IN_TIME; left > 0 && now < until; now = clock_ns()) {
        for (int i = 0; i < OTHER_STREAMS; i++) {
            if (seen[i] == 0 && atomic_load(word(WORD_MORE + i)) == turn) {
                seen[i] = now;
                left--;
            }
        }
    }
    for (int i = 0; i < OTHER_STREAMS; i++)
        sample("seen", seen[i] ? seen[i] - start[i] : IN_TIME);
    sample("stalled", left);
}

void other_streams_settle(void)
{
    for (int i = 0; i < OTHER_STREAMS; i++)
        CU(StreamSynchronize, streams[i]);
}
