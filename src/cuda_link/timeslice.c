/* SPDX-License-Identifier: MIT
 *
 * Decides when a reader makes its copies within its own time slice on the GPU (copy.c explains why), and how
 * much work it queues to keep it: counts and times only.
 *
 * A writer that pauses overwrites no frame during a copy, which then needs no time slice. After a copy that was
 * overtaken (its slot was overwritten meanwhile) the next few frames are copied in time slices; then one is copied
 * without, and if that is overtaken again, twice as many are copied in time slices. If a copy in a time slice is
 * overtaken, they are of no use: the writer's work runs concurrently with ours. Then copies are made without them for
 * longer and longer.
 */
#include "cuda_link/cuda_link.h"

#define INITIAL_PIECES  16 /* at first, until it is known how long one takes */
#define MAX_PIECES      64
#define INITIAL_KEEP_NS (100 * INT64_C(1000)) /* ns that the CPU may take to choose a frame and queue its copy */
#define MAX_KEEP_NS     SLUICE_MS
#define INITIAL_FRAMES  4  /* frames in time slices */
#define MAX_FRAMES      64 /* the limit for both frames in time slices and overtaken copies */

void sl_cipd_timeslice_init(struct sl_cipd_timeslice *timeslice)
{
    *timeslice = (struct sl_cipd_timeslice){ .pieces = INITIAL_PIECES, .keep_ns = INITIAL_KEEP_NS };
}

static uint32_t clamp(int64_t pieces)
{
    return pieces < 1 ? 1 : pieces > MAX_PIECES ? MAX_PIECES : (uint32_t)pieces;
}

void sl_cipd_timeslice_missed(struct sl_cipd_timeslice *timeslice)
{
    timeslice->mode = SL_CIPD_COPY_SLICE_MISSED;
    timeslice->pieces = clamp(2 * (int64_t)timeslice->pieces);
    timeslice->keep_ns = timeslice->keep_ns < MAX_KEEP_NS / 2 ? 2 * timeslice->keep_ns : MAX_KEEP_NS;
}

void sl_cipd_timeslice_measured(struct sl_cipd_timeslice *timeslice, int64_t took_ns)
{
    if (timeslice->mode != SL_CIPD_COPY_IN_SLICE)
        return;
    timeslice->pieces = clamp(timeslice->keep_ns * (timeslice->pieces + 2) / (took_ns > 0 ? took_ns : 1));
    /* So that a single delay of the CPU does not make all time slices long. */
    timeslice->keep_ns -= (timeslice->keep_ns - INITIAL_KEEP_NS) / 16;
}

/* Twice as many the next time. */
static uint32_t take_and_double(uint32_t *next, uint32_t first)
{
    uint32_t now = *next ? *next : first;

    *next = now < MAX_FRAMES / 2 ? 2 * now : MAX_FRAMES;
    return now;
}

static void judge_plain(struct sl_cipd_timeslice *timeslice, bool whole)
{
    if (whole)
        timeslice->next = 0;
    else if (timeslice->plain)
        timeslice->plain--;
    else
        timeslice->left = take_and_double(&timeslice->next, INITIAL_FRAMES);
}

static void judge_turn(struct sl_cipd_timeslice *timeslice, bool whole)
{
    timeslice->left--;
    if (whole) {
        timeslice->next_plain = 0;
    } else if (timeslice->mode == SL_CIPD_COPY_IN_SLICE) {
        timeslice->left = timeslice->next = 0;
        timeslice->plain = take_and_double(&timeslice->next_plain, 1);
    }
}

void sl_cipd_timeslice_judge(struct sl_cipd_timeslice *timeslice, bool whole)
{
    if (timeslice->mode == SL_CIPD_COPY_ANYTIME)
        judge_plain(timeslice, whole);
    else
        judge_turn(timeslice, whole);
    timeslice->mode = SL_CIPD_COPY_ANYTIME;
}
