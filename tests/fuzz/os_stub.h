/* SPDX-License-Identifier: MIT
 *
 * The system as one thread sees it, for fuzzers: os_stub.c replaces the service thread, the clock and the futex, so
 * that a writer or a reader depends on the input alone, and time passes at once when everybody waits.
 */
#ifndef FUZZ_OS_STUB_H
#define FUZZ_OS_STUB_H

#include "os/os.h"

/* A step of the other side while the library sleeps; false when it has none left. */
extern bool (*os_stub_peer)(void);

/* Calls back for descriptors that are ready now; true if there were any. */
bool os_stub_run(void);

/* Runs until nothing is ready. */
void os_stub_settle(void);

/* Lets time pass, with all that happens meanwhile. */
void os_stub_pass(int64_t ns);

/* The number of watches. */
size_t os_stub_watches(void);

/* A folder for channels, made once and removed at the end of the process. */
const char *os_stub_folder(void);

/* The lowest free descriptor: compared with its earlier value it shows leaks. */
int os_stub_next_fd(void);

#endif
