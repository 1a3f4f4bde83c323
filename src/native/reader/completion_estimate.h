/* SPDX-License-Identifier: MIT
 *
 * Estimates, from earlier frames, when a frame in flight on a GPU will be ready, and decides how a thread that waits for it polls
 * until then: a GPU cannot wake a thread (protocol 3.8).
 */
#ifndef SL_NATIVE_READER_COMPLETION_ESTIMATE_H
#define SL_NATIVE_READER_COMPLETION_ESTIMATE_H

#include <stdbool.h>

#include <sluice/base.h>

#include "util/atomic.h"

/* How long a frame that is due is watched (polled without a pause), once; up to half as long again if it is due only after that
 * time. Waking from the shortest sleep takes about as long. At 60 frames a second it is 0.2 % of a core. Frames of channels
 * whose estimates are wrong are not watched. */
#define SL_DUE_WATCH (20 * INT64_C(1000))
#define SL_DUE_LOOK (SLUICE_MS / 20) /* whoever looks often looks so often */

/* One for each session. The acquiring thread and the service thread may both update it: if they overlap, either value is good
 * enough. */
struct sl_due {
    sl_word after; /* recent time from a frame's commit until it is ready; ns; 0: not known */
    sl_word off;   /* recent error of that estimate; ns */
};

struct sl_due_step {
    int64_t until;
    bool watch; /* poll without a pause until then; else sleep */
};

/* What to do next after a frame that was committed at `since` was found not ready at `now`. `watched`: it has been watched
 * already. Before the frame is due it is checked a few times, as the estimate may be wrong; then it is watched; then checked
 * often, and less and less often. */
struct sl_due_step sl_due_step(const struct sl_due *due, int64_t now, int64_t since, bool watched);

/* Learns from a frame that was last seen not ready at `unready` after its commit (0: nobody looked), and ready at `ready`. */
void sl_due_learn(struct sl_due *due, int64_t unready, int64_t ready);

#endif
