/* SPDX-License-Identifier: MIT
 *
 * What a process has of the system's: descriptors, mappings, memory, threads. Counted by /proc, so
 * that nothing can hide.
 */
#ifndef STORM_LEAKS_H
#define STORM_LEAKS_H

#include <stdbool.h>
#include <stddef.h>

struct belongings {
    int fds;      /* all */
    int mappings; /* of Sluice's memory objects */
    int threads;
    size_t bytes; /* from malloc; 0 where that cannot be asked */
};

struct belongings belongings_now(void);

/* Fails the role if descriptors, mappings or threads are more than before. Prints them. */
void belongings_check(const struct belongings *before, const char *when);

/* The folder of channels holds nothing but names and their locks; after the end, locks alone. */
void folder_check(bool ended);

/* Nothing of Sluice's ever lies in /dev/shm. */
void shm_check(void);

#endif
