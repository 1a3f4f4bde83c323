/* SPDX-License-Identifier: MIT
 *
 * When a name of shared memory comes and goes: the kernel tells, so that nobody has to look for it before each frame. After a
 * pause a look costs as much as all else of a small frame.
 */
#ifndef SL_WIRE_CIPD_NAMES_H
#define SL_WIRE_CIPD_NAMES_H

#include <stdbool.h>

#include "util/atomic.h"

/* Who wants to know of a name. */
struct sl_cipd_watched {
    const char *name;
    sl_word changes; /* another one soon after the name has come or gone: so soon that whoever sets up memory under it may not have
                        filled that in yet */
    struct sl_cipd_watched *next;
};

/* One watch for the process, from the first of them to the last. False if the kernel cannot tell: out of descriptors, or of
 * fs.inotify.max_user_instances. Then there is nothing to leave. `name` stays the caller's, and where it is.
 * Thread: any, without the service lock. */
bool sl_cipd_names_join(struct sl_cipd_watched *watched, const char *name);
void sl_cipd_names_leave(struct sl_cipd_watched *watched);

#endif
