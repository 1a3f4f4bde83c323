/* SPDX-License-Identifier: MIT
 *
 * A whole life of a channel in one process: writer, two readers, frames, growth, a new format,
 * send, info, list, watch, descriptor, a second session, the end. Any call of it may fail; whatever
 * comes of that, it ends with everything closed.
 */
#ifndef FAULT_SCENARIO_H
#define FAULT_SCENARIO_H

#include <stdint.h>

#include "harness/resources.h"

#define CHANNEL "faulty"

struct outcome {
    const char *step; /* the one that failed; NULL: none did */
    int result;
    char sentence[512];
};

/* `patience_ns`: how long something that must come is waited for. */
void scenario_run(struct outcome *outcome, int64_t patience_ns);

/* What the process has by now, to be compared. */
struct possessions {
    struct belongings of_system;
    long blocks; /* of memory */
};
struct possessions possessions_now(void);
void possessions_check(const struct possessions *before, const char *when);

#endif
