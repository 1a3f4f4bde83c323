/* SPDX-License-Identifier: MIT
 *
 * What a process has of the system's: descriptors, mappings, threads, memory. Counted by /proc, so
 * that nothing can hide.
 */
#ifndef HARNESS_RESOURCES_H
#define HARNESS_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct belongings {
    int fds;      /* all */
    int mappings; /* of Sluice's memory objects */
    int threads;
    size_t bytes; /* from malloc; 0 where that cannot be asked */
};

/* This process's. */
struct belongings belongings_now(void);

/* Fails the test if descriptors, mappings or threads are more than before, and prints them. */
void belongings_check(const struct belongings *before, const char *when);

/* The test's folder of channels holds nothing but names and their locks; after the end, locks
 * alone. */
void folder_check(bool ended);

/* Nothing of Sluice's ever lies in /dev/shm. (What some other program left there before this one started is not looked at.) */
void shm_check(void);

/* Any process's; -1 if it cannot be looked at. Mappings are those whose line contains `text`. */
int process_fds(pid_t pid);
int process_threads(pid_t pid);
int process_mappings(pid_t pid, const char *text);

/* In KiB. Of what is shared with others, `proportional` has its share; `own` is what came from
 * malloc, stacks and the like. */
struct process_memory {
    long resident, proportional, own;
};
struct process_memory process_memory(pid_t pid);

#endif
