/* SPDX-License-Identifier: MIT */
#include "unrelated.h"

#include "driver.h"
#include "rounds.h"

#define KERNEL  (20 * INT64_C(1000))
#define IN_TIME (20 * INT64_C(1000000))

static struct cu_stream *streams[UNRELATED];
static uint64_t turn;

void unrelated_open(void)
{
    for (int i = 0; i < UNRELATED; i++)
        streams[i] = gpu_stream();
    turn = 0;
}

void unrelated_close(void)
{
    for (int i = 0; i < UNRELATED; i++)
        CU(StreamDestroy, streams[i]);
}

void unrelated_measure(void)
{
    int64_t start[UNRELATED], seen[UNRELATED] = { 0 };
    int left = UNRELATED;
    turn++;
    for (int i = 0; i < UNRELATED; i++) {
        start[i] = clock_ns();
        gpu_spin(streams[i], KERNEL);
        CU(StreamWriteValue64, streams[i], word_address(WORD_MORE + i), turn, 0);
    }
    for (int64_t now = clock_ns(), until = now + IN_TIME; left > 0 && now < until; now = clock_ns()) {
        for (int i = 0; i < UNRELATED; i++) {
            if (seen[i] == 0 && atomic_load(word(WORD_MORE + i)) == turn) {
                seen[i] = now;
                left--;
            }
        }
    }
    for (int i = 0; i < UNRELATED; i++)
        sample("seen", seen[i] ? seen[i] - start[i] : IN_TIME);
    sample("stalled", left);
}

void unrelated_settle(void)
{
    for (int i = 0; i < UNRELATED; i++)
        CU(StreamSynchronize, streams[i]);
}
