/* SPDX-License-Identifier: MIT
 *
 * The system as one thread sees it, for fuzzers: os_stub.c takes the place of the service thread, the
 * clock and the futex, so that what a writer or a reader does follows from the input alone, and a
 * second passes when everybody waits for it, at once.
 */
#ifndef FUZZ_OS_STUB_H
#define FUZZ_OS_STUB_H

#include "os/os.h"

/* What the other side does while the library sleeps: one thing, or false when it has no more to do. */
extern bool (*world_peer)(void);

/* Calls back for descriptors that are ready now; true if there were any. */
bool world_run(void);

/* Runs until nothing is ready. */
void world_settle(void);

/* Lets time pass, with all that happens on the way. */
void world_pass(int64_t ns);

/* How many watches there are. */
size_t world_watches(void);

/* A folder for channels, made once and removed at the end of the process. */
const char *world_folder(void);

/* The lowest free descriptor: what it was before tells of leaks. */
int world_next_fd(void);

#endif
