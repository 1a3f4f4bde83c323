/* SPDX-License-Identifier: MIT
 *
 * What an observer can tell from a segment besides its format: when its last frame came, whether the writer has
 * stalled, which handles its slots have.
 */
#include <math.h>
#include <stdio.h>

#include "cuda_link/cuda_link.h"

#define STALL_TIMEOUT (2 * SLUICE_S)

/* From the times that Sluice's writers store, or from the wire's own time if that is plausible; 0: not known. */
static int64_t last_frame(const struct sl_cipd_segment_reader *consumer, uint32_t index, bool by_sluice)
{
    const struct sl_cipd_layout *layout = &consumer->session.layout;
    int64_t time = 0;

    if (index == 0)
        return 0;
    if (by_sluice && sl_cipd_ext_time(consumer->ext, sl_cipd_index_slot(index, layout->slots), index, &time))
        return time;
    double seconds = sl_cipd_load_time(consumer->segment.at, layout);
    return isfinite(seconds) && seconds > 0 && seconds * 1e9 <= (double)sl_os_now() ? (int64_t)(seconds * 1e9) : 0;
}

void sl_cipd_inspect_frames(const struct sl_cipd_segment_reader *consumer, struct sluice_cipd_info *info)
{
    int64_t now = sl_os_now();

    info->last_frame_ns = last_frame(consumer, info->index, info->by_sluice);
    if (info->last_frame_ns && now - info->last_frame_ns > STALL_TIMEOUT) {
        info->state = SLUICE_CIPD_STALLED;
        snprintf(info->why, sizeof info->why, "no frame for %lld ms",
                 (long long)((now - info->last_frame_ns) / SLUICE_MS));
    }
    for (uint32_t i = 0; i < info->slot_count; i++) {
        const struct sl_cipd_handles *handles = &consumer->session.handles[i];
        info->slots[i].memory_open = !sl_cipd_zero(handles->memory, sizeof handles->memory);
        info->slots[i].event_open = !sl_cipd_zero(handles->event, sizeof handles->event);
    }
}
