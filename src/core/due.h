/* SPDX-License-Identifier: MIT
 *
 * When a frame that a GPU works on will be ready, by experience, and what whoever sleeps for it does until then: a GPU wakes
 * nobody (protocol 3.8).
 */
#ifndef SL_CORE_DUE_H
#define SL_CORE_DUE_H

#include <stdbool.h>

#include <sluice/base.h>

#include "util/atomic.h"

/* A frame that is due is watched so long, once, or half as long again if it is due later than that: waking from the shortest
 * nap takes about the same. Of a core that is 0.2 % at 60 frames a second. Where frames are not ready when they are due it
 * takes nothing: they are not watched. */
#define SL_DUE_WATCH (20 * INT64_C(1000))
#define SL_DUE_LOOK (SLUICE_MS / 20) /* whoever looks often looks so often */

/* Of a session. The acquiring thread and the service thread may both learn, as both are near enough. */
struct sl_due {
    sl_word after; /* a frame is ready so long after its commit, of late; ns; 0: not known */
    sl_word off;   /* and by so much that was wrong */
};

struct sl_due_step {
    int64_t until;
    bool watch; /* until then; else it sleeps */
};

/* For who has just seen, `now`, that a frame committed at `since` is not ready. `watched`: it has been watched already. Before
 * it is due it is looked for a few times, as experience may be wrong; then it is watched; then looked for often, then ever
 * less so. */
struct sl_due_step sl_due_step(const struct sl_due *due, int64_t now, int64_t since, bool watched);

/* Frames were seen not to be ready `unready` after their commit (0: nobody looked), and were found to be at `ready`. */
void sl_due_learn(struct sl_due *due, int64_t unready, int64_t ready);

#endif
