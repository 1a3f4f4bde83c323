/* SPDX-License-Identifier: MIT
 *
 * The private half of segments that Sluice made.
 *
 * Falling asleep and publishing are ordered as in docs/memory-order.md: the reader stores `asleep`,
 * then loads the index; the writer stores the index, then loads `asleep`. The writer clears the
 * flag before it stores the index, so a reader that sets it for the next frame does not lose it.
 */
#include "cuda_link/wire/private_ext.h"

#include <string.h>

/* Frames: more than can be between two frames that are held, but less than half of the index range. */
#define BEYOND (UINT32_C(1) << 30)
#define END (SL_CIPD_EXTRA_AT + sizeof(struct sl_cipd_extra))

_Static_assert(END <= SL_CIPD_SEGMENT, "it lies in a segment of ours");
_Static_assert(sizeof(struct sl_cipd_extra) == 0x40 + 16 * SL_CIPD_MAX_SLOTS, "no padding");

struct sl_cipd_extra *sl_cipd_extra(unsigned char *at, uint64_t size)
{
    return size >= END ? (struct sl_cipd_extra *)(void *)(at + SL_CIPD_EXTRA_AT) : NULL;
}

bool sl_cipd_extra_live(const struct sl_cipd_extra *extra, uint64_t version)
{
    return version && sl_load(&extra->magic, acquire) == SL_CIPD_EXTRA_MAGIC &&
           sl_load(&extra->version, acquire) == version;
}

void sl_cipd_extra_change(struct sl_cipd_extra *extra)
{
    sl_store(&extra->version, 0, release); /* readers that see one of the following stores see this one, too */
    sl_store(&extra->magic, SL_CIPD_EXTRA_MAGIC, release);
}

bool sl_cipd_extra_changes(const struct sl_cipd_extra *extra, uint64_t version)
{
    if (sl_load(&extra->magic, acquire) != SL_CIPD_EXTRA_MAGIC)
        return false;
    uint64_t there = sl_load(&extra->version, acquire);
    return there == 0 || there == version + 1;
}

void sl_cipd_extra_begin(struct sl_cipd_extra *extra, uint64_t version, uint32_t pid, const unsigned char gpu[SL_CIPD_GPU])
{
    uint32_t words[SL_CIPD_GPU / 4];

    memcpy(words, gpu, sizeof words);
    sl_store(&extra->asleep, 0, relaxed);
    sl_store(&extra->begun, 0, relaxed);
    sl_store(&extra->finished, 0, relaxed);
    sl_store(&extra->pid, pid, relaxed);
    for (size_t i = 0; i < SL_CIPD_GPU / 4; i++)
        sl_store(&extra->gpu[i], words[i], relaxed);
    for (int i = 0; i < SL_CIPD_MAX_SLOTS; i++)
        sl_store(&extra->times[i].index, 0, relaxed);
    sl_store(&extra->version, version, release);
}

bool sl_cipd_extra_gpu(const struct sl_cipd_extra *extra, uint64_t version, unsigned char gpu[SL_CIPD_GPU])
{
    uint32_t words[SL_CIPD_GPU / 4], any = 0;

    if (!sl_cipd_extra_live(extra, version))
        return false;
    for (size_t i = 0; i < SL_CIPD_GPU / 4; i++)
        any |= words[i] = sl_load(&extra->gpu[i], acquire);
    memcpy(gpu, words, sizeof words);
    return any && sl_cipd_extra_live(extra, version);
}

void sl_cipd_extra_begun(struct sl_cipd_extra *extra, uint32_t index) { sl_store(&extra->begun, index, seq_cst); }

void sl_cipd_extra_end(struct sl_cipd_extra *extra)
{
    uint32_t beyond = sl_load(&extra->begun, relaxed) + BEYOND;

    sl_store(&extra->begun, beyond ? beyond : 1, seq_cst);
}

void sl_cipd_extra_finish(struct sl_cipd_extra *extra, uint32_t index) { sl_store(&extra->finished, index, relaxed); }

uint32_t sl_cipd_extra_finished(const struct sl_cipd_extra *extra) { return sl_load(&extra->finished, relaxed); }

bool sl_cipd_extra_before(struct sl_cipd_extra *extra, uint32_t slot, uint32_t index, int64_t time_ns)
{
    sl_store(&extra->times[slot].index, 0, relaxed);
    sl_store(&extra->times[slot].time_ns, (uint64_t)time_ns, release);
    sl_store(&extra->times[slot].index, index, release);
    bool slept = sl_load(&extra->asleep, seq_cst) != 0;
    if (slept)
        sl_store(&extra->asleep, 0, seq_cst);
    return slept;
}

bool sl_cipd_extra_after(struct sl_cipd_extra *extra, bool slept)
{
    return slept || sl_load(&extra->asleep, seq_cst) != 0;
}

bool sl_cipd_extra_time(const struct sl_cipd_extra *extra, uint32_t slot, uint32_t index, int64_t *time_ns)
{
    if (sl_load(&extra->times[slot].index, acquire) != index)
        return false;
    uint64_t time = sl_load(&extra->times[slot].time_ns, acquire);
    if (sl_load(&extra->times[slot].index, acquire) != index || time > INT64_MAX)
        return false;
    *time_ns = (int64_t)time;
    return true;
}
