/* SPDX-License-Identifier: MIT
 *
 * Decides when a reader makes its copies within its own time slice on the GPU, called a turn (copy.c explains turns), and how
 * much work it queues to keep the turn: counts and times only.
 *
 * A writer that pauses overwrites no frame during a copy, and no turns are needed. After a copy that was overtaken (its slot was
 * overwritten meanwhile) the next few frames are copied in turns; then one is copied without, and if that is overtaken again,
 * twice as many are copied in turns. If a copy in a turn is overtaken, turns are of no use: the writer's work runs
 * concurrently with ours. Then copies are made without turns for longer and longer.
 */
#include "cuda_link/cuda_link.h"

#define PIECES 16 /* at first, until it is known how long one takes */
#define MOST_PIECES 64
#define KEEP (100 * INT64_C(1000)) /* ns that the CPU may take to choose a frame and queue its copy */
#define MOST_KEEP SLUICE_MS
#define FIRST 4    /* frames in turns */
#define MOST 64    /* the limit for both frames in turns and overtaken copies */

void sl_cipd_turns_begin(struct sl_cipd_turns *turns) { *turns = (struct sl_cipd_turns){ .pieces = PIECES, .keep_ns = KEEP }; }

static uint32_t clamp(int64_t pieces) { return pieces < 1 ? 1 : pieces > MOST_PIECES ? MOST_PIECES : (uint32_t)pieces; }

void sl_cipd_turns_late(struct sl_cipd_turns *turns)
{
    turns->way = SL_CIPD_LATE;
    turns->pieces = clamp(2 * (int64_t)turns->pieces);
    turns->keep_ns = turns->keep_ns < MOST_KEEP / 2 ? 2 * turns->keep_ns : MOST_KEEP;
}

void sl_cipd_turns_learn(struct sl_cipd_turns *turns, int64_t took_ns)
{
    if (turns->way != SL_CIPD_KEPT)
        return;
    turns->pieces = clamp(turns->keep_ns * (turns->pieces + 2) / (took_ns > 0 ? took_ns : 1));
    /* So that a single delay of the CPU does not make all turns long. */
    turns->keep_ns -= (turns->keep_ns - KEEP) / 16;
}

/* Twice as many the next time. */
static uint32_t take_more(uint32_t *next, uint32_t first)
{
    uint32_t now = *next ? *next : first;

    *next = now < MOST / 2 ? 2 * now : MOST;
    return now;
}

static void judge_plain(struct sl_cipd_turns *turns, bool whole)
{
    if (whole)
        turns->next = 0;
    else if (turns->plain)
        turns->plain--;
    else
        turns->left = take_more(&turns->next, FIRST);
}

static void judge_turn(struct sl_cipd_turns *turns, bool whole)
{
    turns->left--;
    if (whole) {
        turns->next_plain = 0;
    } else if (turns->way == SL_CIPD_KEPT) {
        turns->left = turns->next = 0;
        turns->plain = take_more(&turns->next_plain, 1);
    }
}

void sl_cipd_turns_judge(struct sl_cipd_turns *turns, bool whole)
{
    if (turns->way == SL_CIPD_PLAIN)
        judge_plain(turns, whole);
    else
        judge_turn(turns, whole);
    turns->way = SL_CIPD_PLAIN;
}
