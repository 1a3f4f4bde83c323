/* SPDX-License-Identifier: MIT */
#include "native/reader/completion_estimate.h"

#define SELDOM SLUICE_MS
#define LESS_SELDOM (SLUICE_MS / 4) /* if recent estimates were wrong */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

struct sl_due_step sl_due_step(const struct sl_due *due, int64_t now, int64_t since, bool watched)
{
    int64_t after = (int64_t)sl_load(&due->after, relaxed), off = (int64_t)sl_load(&due->off, relaxed);
    int64_t at = since + after, from = at - SL_DUE_WATCH - least(2 * off, after / 8);
    int64_t late = least((now - at) / 8, SELDOM), apart = off <= SL_DUE_WATCH ? SELDOM : LESS_SELDOM;

    if (now < from) /* it also looks before that: a frame that took long does not mean that the next one does */
        return (struct sl_due_step){ least(from, now + most(now - since, apart)), false };
    if (!watched && off <= SL_DUE_WATCH)
        return (struct sl_due_step){ now + SL_DUE_WATCH + most(0, least(at - now - SL_DUE_WATCH / 2, SL_DUE_WATCH / 2)), true };
    return (struct sl_due_step){ now + most(late, SL_DUE_LOOK), false };
}

/* When the frame became ready, between two looks. If that may have been as expected, it is taken to be slightly earlier: a
 * reader that always finds frames ready when it wakes could not tell by how much it wakes too late. */
static int64_t ready_at(int64_t expected, int64_t unready, int64_t ready)
{
    int64_t part = least((ready - unready) / 2, SL_DUE_WATCH);

    return expected == 0 || unready >= expected ? unready + part : least(expected, ready) - part;
}

void sl_due_learn(struct sl_due *due, int64_t unready, int64_t ready)
{
    int64_t after = (int64_t)sl_load(&due->after, relaxed), off = (int64_t)sl_load(&due->off, relaxed);
    int64_t took = most(ready_at(after, unready, ready), 1);
    int64_t wrong = after == 0 ? 0 : most(most(unready - after, after - ready), 0);

    if (after == 0 || took < after / 2)
        after = took; /* the estimate was not based on measurements, or is far too long */
    else /* limited, as a machine that was suspended says little about the GPU */
        after += (least(took, 2 * after + 2 * SL_DUE_LOOK) - after) / 4;
    wrong = least(wrong, most(after / 2, 4 * SL_DUE_WATCH));
    sl_store(&due->after, (uint64_t)after, relaxed);
    sl_store(&due->off, (uint64_t)(off + (wrong - off) / 4), relaxed);
}
