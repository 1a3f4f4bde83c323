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

/* ---- descriptors.c ---- */

/* A forked child closes this descriptor. SLUICE_E_LIMIT, SLUICE_E_INVALID. */
int sl_descriptors_add(int fd);

/* A new descriptor, with a number above those of the standard streams: where a program has closed these, whatever it
 * prints would go to it. Returns -1, with errno, for -1 and if no other number is left. */
int sl_above_standard(int fd);

/* As sl_fail_errno, for a system call that a container may deny: then the message names it. */
int sl_fail_call(int error, const char *call, const char *what);

/* Around a fork. The child closes the descriptors that were added, and calls nothing but close(): it has no other
 * threads, and locks that they held stay locked for ever. */
void sl_descriptors_before_fork(void);
void sl_descriptors_after_fork(bool child);

/* ---- mem_limits.c ---- */

/* Bytes of memory that can still be allocated; UINT64_MAX if not known. */
uint64_t sl_memory_available(void);

/* ---- temp.c: whole files ---- */

/* Returns 0 or an errno. */
int sl_write_all(int fd, const void *bytes, size_t size);

/* *bytes: with a NUL at the end; to be freed. `path` is for messages. */
int sl_read_all(int fd, const char *path, void **bytes, size_t *size);

/* ---- service_lock.c: around a fork ---- */

void sl_service_before_fork(void);
void sl_service_after_fork(bool child);

#endif
