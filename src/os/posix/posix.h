/* SPDX-License-Identifier: MIT
 *
 * Internals shared by the files of this folder only.
 */
#ifndef SL_OS_POSIX_H
#define SL_OS_POSIX_H

#include <errno.h>
#include <time.h>

#include "os/os.h"

/* Repeats a call for as long as a signal interrupts it. */
#define SL_RETRY(result, call) \
    do { \
        (result) = (call); \
    } while ((result) < 0 && errno == EINTR)

/* ---- clock.c ---- */

struct timespec sl_timespec(int64_t ns);

/* ---- fork.c ---- */

/* From now on forks are detected. SLUICE_E_FORKED in a forked child. */

/* Closes a descriptor and its fork entry, atomically with respect to a fork in another thread. */
void sl_fork_close(int fd);

/* ---- room.c ---- */

/* Bytes of memory that can still be allocated; UINT64_MAX if not known. */
uint64_t sl_memory_room(void);

/* ---- service.c: called around a fork ---- */

void sl_service_before_fork(void);
void sl_service_after_fork(bool child);

#endif
