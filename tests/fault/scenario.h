/* SPDX-License-Identifier: MIT
 *
 * A whole life of a channel in one process: writer, two readers, frames, growth, a new format, send, info, list, watch,
 * descriptor, a second session, the end. Any call in it may fail; in any case it ends with everything closed.
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

/* `patience_ns`: how long it waits for what must come. */
void scenario_run(struct outcome *outcome, int64_t patience_ns);

/* What the process holds by now, to be compared. */
struct resources_held {
    struct resources of_system;
    long blocks; /* of memory */
};
struct resources_held resources_held_now(void);
void resources_held_check(const struct resources_held *before, const char *when);

#endif
