/* SPDX-License-Identifier: MIT
 *
 * The resources of a process: descriptors, mappings, threads, memory. Counted in /proc, so none is missed.
 */
#ifndef HARNESS_RESOURCES_H
#define HARNESS_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct resources {
    int fds;      /* all */
    int mappings; /* of Sluice's memory objects */
    int threads;
    size_t bytes; /* from malloc; 0 where it cannot be counted */
};

/* This process's. */
struct resources resources_now(void);

/* Fails the test if there are more descriptors, mappings or threads than before, and prints them. */
void resources_check(const struct resources *before, const char *when);

/* The test's folder of channels holds only names and their locks; after the end, only locks. */
void folder_check(bool ended);

/* Sluice leaves nothing in /dev/shm. Files that were there before this process started are ignored. */
void shm_check(void);

/* Of any process; -1 if it cannot be inspected. Counts mappings whose line contains `text`. */
int process_fds(pid_t pid);
int process_threads(pid_t pid);
int process_mappings(pid_t pid, const char *text);

/* In KiB. `proportional` counts shared pages by their share; `own` is private memory: malloc, stacks and the like. */
struct process_memory {
    long resident, proportional, own;
};
struct process_memory process_memory(pid_t pid);

#endif
