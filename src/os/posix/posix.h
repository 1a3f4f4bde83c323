/* SPDX-License-Identifier: MIT
 *
 * What the files of this folder share with each other, and with nobody else.
 */
#ifndef SL_OS_POSIX_H
#define SL_OS_POSIX_H

#include <errno.h>
#include <time.h>

#include "os/os.h"

/* Makes a call again for as long as a signal interrupts it. */
#define SL_RETRY(result, call) \
    do { \
        (result) = (call); \
    } while ((result) < 0 && errno == EINTR)

/* ---- clock.c ---- */

struct timespec sl_timespec(int64_t ns);

/* ---- fork.c ---- */

/* From now on forks are noticed. SLUICE_E_FORKED in a forked child. */

/* Closes a descriptor and its fork entry, as one step for a fork in another thread. */
void sl_fork_close(int fd);

/* ---- room.c ---- */

/* Bytes of memory that can still be had; UINT64_MAX if nobody says. */
uint64_t sl_memory_room(void);

/* ---- service.c: called around a fork ---- */

void sl_service_before_fork(void);
void sl_service_after_fork(bool child);

#endif
