/* SPDX-License-Identifier: MIT
 *
 * The public calls of sluice/timers.h. Timers of the stages of a frame.
 */
#include <sluice/timers.h>

#include "trace/trace.h"
#include "util/result.h"

int sluice_timers_set(int on)
{
    return sl_timers_set(on);
}

int sluice_timers_clear(void)
{
    return sl_timers_clear();
}

int sluice_timers(struct sluice_timer *timers, size_t capacity, size_t *count)
{
    return sl_timers_read(timers, capacity, count);
}
