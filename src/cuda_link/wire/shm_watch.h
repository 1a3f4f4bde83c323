/* SPDX-License-Identifier: MIT
 *
 * Notifications from the kernel when a name of shared memory is added or removed, so that nobody has to look for it
 * before each frame. After a pause a look-up costs as much as the rest of a small frame.
 */
#ifndef SL_CUDA_LINK_WIRE_SHM_WATCH_H
#define SL_CUDA_LINK_WIRE_SHM_WATCH_H

#include <stdbool.h>

#include "os/os.h"
#include "util/atomic.h"

/* One subscriber to changes of a name. */
struct sl_cipd_shm_watch {
    struct sl_name_watch watch;
    sl_word changes; /* changes soon after the name was added or removed, perhaps before new memory with this name is
                        filled in */
};

/* All subscribers of the process share one watch. False if there can be none: no descriptors are left, or the limit
 * fs.inotify.max_user_instances is reached. Then do not call leave. `name` stays the caller's and must stay valid.
 * Thread: any, without the service lock. */
bool sl_cipd_shm_watch_join(struct sl_cipd_shm_watch *watched, const char *name);
void sl_cipd_shm_watch_leave(struct sl_cipd_shm_watch *watched);

#endif
