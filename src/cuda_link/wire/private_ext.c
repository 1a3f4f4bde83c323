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
#define END    (SL_CIPD_EXT_AT + sizeof(struct sl_cipd_private_ext))

_Static_assert(END <= SL_CIPD_SEGMENT, "it lies in a segment of ours");
_Static_assert(sizeof(struct sl_cipd_private_ext) == 0x40 + 16 * SL_CIPD_MAX_SLOTS, "no padding");

struct sl_cipd_private_ext *sl_cipd_private_ext(unsigned char *at, uint64_t size)
{
    return size >= END ? (struct sl_cipd_private_ext *)(void *)(at + SL_CIPD_EXT_AT) : NULL;
}

bool sl_cipd_ext_is_live(const struct sl_cipd_private_ext *ext, uint64_t version)
{
    return version && sl_load(&ext->magic, acquire) == SL_CIPD_EXT_MAGIC && sl_load(&ext->version, acquire) == version;
}

void sl_cipd_ext_change(struct sl_cipd_private_ext *ext)
{
    sl_store(&ext->version, 0, release); /* readers that see one of the following stores see this one, too */
    sl_store(&ext->magic, SL_CIPD_EXT_MAGIC, release);
}

bool sl_cipd_ext_changes(const struct sl_cipd_private_ext *ext, uint64_t version)
{
    if (sl_load(&ext->magic, acquire) != SL_CIPD_EXT_MAGIC)
        return false;
    uint64_t there = sl_load(&ext->version, acquire);
    return there == 0 || there == version + 1;
}

void sl_cipd_ext_begin(struct sl_cipd_private_ext *ext, uint64_t version, uint32_t pid,
                       const unsigned char gpu[SL_CIPD_GPU])
{
    uint32_t words[SL_CIPD_GPU / 4];

    memcpy(words, gpu, sizeof words);
    sl_store(&ext->asleep, 0, relaxed);
    sl_store(&ext->begun, 0, relaxed);
    sl_store(&ext->finished, 0, relaxed);
    sl_store(&ext->pid, pid, relaxed);
    for (size_t i = 0; i < SL_CIPD_GPU / 4; i++)
        sl_store(&ext->gpu[i], words[i], relaxed);
    for (int i = 0; i < SL_CIPD_MAX_SLOTS; i++)
        sl_store(&ext->times[i].index, 0, relaxed);
    sl_store(&ext->version, version, release);
}

bool sl_cipd_ext_gpu(const struct sl_cipd_private_ext *ext, uint64_t version, unsigned char gpu[SL_CIPD_GPU])
{
    uint32_t words[SL_CIPD_GPU / 4], any = 0;

    if (!sl_cipd_ext_is_live(ext, version))
        return false;
    for (size_t i = 0; i < SL_CIPD_GPU / 4; i++)
        any |= words[i] = sl_load(&ext->gpu[i], acquire);
    memcpy(gpu, words, sizeof words);
    return any && sl_cipd_ext_is_live(ext, version);
}

void sl_cipd_ext_announce(struct sl_cipd_private_ext *ext, uint32_t index)
{
    sl_store(&ext->begun, index, seq_cst);
}

void sl_cipd_ext_end(struct sl_cipd_private_ext *ext)
{
    uint32_t beyond = sl_load(&ext->begun, relaxed) + BEYOND;

    sl_store(&ext->begun, beyond ? beyond : 1, seq_cst);
}

void sl_cipd_ext_finish(struct sl_cipd_private_ext *ext, uint32_t index)
{
    sl_store(&ext->finished, index, relaxed);
}

uint32_t sl_cipd_ext_finished(const struct sl_cipd_private_ext *ext)
{
    return sl_load(&ext->finished, relaxed);
}

bool sl_cipd_ext_before_publish(struct sl_cipd_private_ext *ext, uint32_t slot, uint32_t index, int64_t time_ns)
{
    sl_store(&ext->times[slot].index, 0, relaxed);
    sl_store(&ext->times[slot].time_ns, (uint64_t)time_ns, release);
    sl_store(&ext->times[slot].index, index, release);
    bool slept = sl_load(&ext->asleep, seq_cst) != 0;
    if (slept)
        sl_store(&ext->asleep, 0, seq_cst);
    return slept;
}

bool sl_cipd_ext_after_publish(struct sl_cipd_private_ext *ext, bool slept)
{
    return slept || sl_load(&ext->asleep, seq_cst) != 0;
}

bool sl_cipd_ext_time(const struct sl_cipd_private_ext *ext, uint32_t slot, uint32_t index, int64_t *time_ns)
{
    if (sl_load(&ext->times[slot].index, acquire) != index)
        return false;
    uint64_t time = sl_load(&ext->times[slot].time_ns, acquire);
    if (sl_load(&ext->times[slot].index, acquire) != index || time > INT64_MAX)
        return false;
    *time_ns = (int64_t)time;
    return true;
}
