/* SPDX-License-Identifier: MIT
 *
 * The contents of the activation barrier's segment, for display.
 */
#include <sluice/cipd.h>

#include <stdio.h>

#include "cuda_link/cuda_link.h"
#include "os/os.h"
#include "util/params.h"
#include "util/result.h"

#define LEAST offsetof(struct sluice_cipd_barrier_info, skips)

int sl_cipd_barrier_info(const char *name, int64_t stale_ns, struct sluice_cipd_barrier_info *caller)
{
    struct sluice_cipd_barrier_info info = { 0 };
    struct sl_cipd_barrier_state state;
    int r;

    if (caller->size < LEAST)
        return sl_fail(SLUICE_E_INVALID, "sluice_cipd_barrier_look: info->size was not set");
    if ((r = sl_cipd_barrier_read(name, &state)) != 0)
        return r;
    info.size = sizeof info;
    snprintf(info.name, sizeof info.name, "%s", name ? name : SL_CIPD_BARRIER_NAME);
    info.known = state.magic == SL_CIPD_BARRIER_MAGIC && state.version == 1;
    if (info.known) {
        int64_t now = sl_os_now(), age = (int64_t)((uint64_t)now - state.change_ns);
        info.count = state.count;
        info.skips = state.skips;
        info.pid = state.pid;
        bool stale = sl_cipd_barrier_stale(state.change_ns, now, stale_ns ? stale_ns : SL_CIPD_BARRIER_STALE);
        info.age_ns = age < 0 && !stale ? 0 : age < -INT64_MAX ? -INT64_MAX : age;
        info.stale = info.count > 0 && stale;
    }
    return sl_params_store(caller, &info, sizeof info, LEAST, "struct sluice_cipd_barrier_info");
}
