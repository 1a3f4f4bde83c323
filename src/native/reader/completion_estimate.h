/* SPDX-License-Identifier: MIT
 *
 * Estimates when a GPU will have finished a frame, from how long it took for the frames before. A GPU cannot wake a
 * thread, so a thread that waits for a frame polls its ready word (protocol 3.8); the estimate decides when.
 */
#ifndef SL_NATIVE_READER_COMPLETION_ESTIMATE_H
#define SL_NATIVE_READER_COMPLETION_ESTIMATE_H

#include <stdbool.h>

#include <sluice/base.h>

#include "util/atomic.h"

/* How long a frame is watched, that is polled without a pause: about as long as a thread takes to wake from the
 * shortest sleep. At 60 frames a second it is 0.2 % of a core. */
#define SL_POLL_WATCH_NS (20 * INT64_C(1000))

/* The shortest pause between two polls. */
#define SL_POLL_INTERVAL_NS (SLUICE_MS / 20)

/* One for each session. The acquiring thread and the service thread may both update it: if they overlap, either value
 * is good enough. */
struct sl_completion_estimate {
    sl_word duration_ns; /* from a frame's commit until it is ready; 0: not known */
    sl_word error_ns;    /* the typical error of that */
};

/* What a thread does until it polls the next time. */
struct sl_poll_step {
    int64_t until;
    bool watch; /* poll without a pause until then; else sleep */
};

/* The next step after a frame that was committed at `since` was found not ready at `now`. `watched`: it has been
 * watched already.
 *
 * Well before the expected completion the frame is polled a few times, in case the estimate is wrong. Around that time
 * it is watched once, unless recent estimates were wrong. After it the frame is polled at SL_POLL_INTERVAL_NS, then
 * less and less often. */
struct sl_poll_step sl_completion_estimate_next(const struct sl_completion_estimate *estimate, int64_t now,
                                                int64_t since, bool watched);

/* A frame has completed. After its commit it was last found not ready at `unready_ns` (0: nobody polled), and ready at
 * `ready_ns`. */
void sl_completion_estimate_update(struct sl_completion_estimate *estimate, int64_t unready_ns, int64_t ready_ns);

#endif
