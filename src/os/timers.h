/* SPDX-License-Identifier: MIT
 *
 * The deadlines of the service thread's watches: a heap with the earliest on top. A watch stores
 * its index in it, counted from 1; 0 means that it is not in the heap.
 */
#ifndef SL_OS_TIMERS_H
#define SL_OS_TIMERS_H

#include "os/os.h"

struct sl_timers {
    struct sl_watch **heap;
    size_t count, capacity;
};

/* Allocates capacity for `count` watches, so that insert cannot fail. False: out of memory. */
bool sl_timers_reserve(struct sl_timers *timers, size_t count);
void sl_timers_finish(struct sl_timers *timers);

/* Removing a watch that is not in the heap does nothing. */
void sl_timers_insert(struct sl_timers *timers, struct sl_watch *watch);
void sl_timers_remove(struct sl_timers *timers, struct sl_watch *watch);

/* The earliest deadline; SLUICE_FOREVER if there is none. */
int64_t sl_timers_first(const struct sl_timers *timers);

#endif
