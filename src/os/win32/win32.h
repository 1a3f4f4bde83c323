/* SPDX-License-Identifier: MIT
 *
 * Internals shared by the files of this folder only.
 *
 * A descriptor of os.h is a number of our own here, for a handle and what belongs to it.
 */
#ifndef SL_OS_WIN32_H
#define SL_OS_WIN32_H

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "os/os.h"
#include "util/result.h"

/* ---- descriptors.c ---- */

struct sl_object_fd {
    HANDLE handle;
    HANDLE lock; /* of named memory: exists while we hold its lock */
    bool writable;
    char name[SL_OS_NAMED + 1];
};

/* Takes over a handle, with a name or NULL. SLUICE_E_NO_DESCRIPTORS, and the handle is closed. */
int sl_fd_new(HANDLE handle, const char *name, int *fd);

/* NULL if it is none. Valid until it is closed. */
struct sl_object_fd *sl_fd_find(int fd);

/* ---- process.c ---- */

/* As sl_fail_errno, for a code of GetLastError. */
int sl_fail_windows(DWORD code, const char *format, ...) SL_PRINTF(2, 3);

/* ---- clock.c ---- */

/* Waits until one of the handles is signalled, and returns its index; -1 at the deadline, or if waiting failed. More
 * exact than a time-out of Windows, which is rounded up to its tick of up to 15.6 ms. */
int sl_wait_until(const HANDLE *handles, DWORD count, int64_t deadline);

/* ---- thread.c: what each thread keeps for its waits ---- */

/* Handles of the calling thread; NULL if they could not be made. */
HANDLE sl_thread_timer(void);
HANDLE sl_thread_event(void);

/* ---- named_shm.c ---- */

enum { SL_OBJECT_NAME = 260 }; /* Windows' limit of characters */

/* The name of another object that goes with a named memory: `kind`, its name, and `suffix`. A long name is cut and gets
 * a hash. In the memory's namespace. */
void sl_beside_name(const char *kind, const char *name, const char *suffix, wchar_t out[SL_OBJECT_NAME]);

#define SL_NATIVE_NEEDS_LINUX \
    "only channels of cuda-link's protocol, \"cipd:NAME\", work on Windows so far: Sluice's own need Linux"

/* ---- shared_wait.c: waits on words of named memory, across processes ---- */

void sl_shared_add(const void *address, uint64_t size, const char *name);
void sl_shared_remove(const void *address);

/* NULL if the word is not in named memory. Drop it after use. */
struct sl_shared *sl_shared_find(const void *word);
void sl_shared_drop(struct sl_shared *shared);

/* Also until the process `pid` ends, unless that is 0. */
int sl_shared_wait(struct sl_shared *shared, const sl_word32 *word, uint32_t value, int64_t deadline, uint32_t pid);
void sl_shared_wake(struct sl_shared *shared);

/* ---- dl.c ---- */

/* UTF-8 to UTF-16, with a NUL. False if it does not fit, or is no UTF-8. */
bool sl_wide(const char *text, wchar_t *out, size_t room);

/* Back; cut to what fits. */
void sl_narrow(const wchar_t *text, char *out, size_t room);

/* Keeps this library loaded until the process ends: a thread runs its code. */
void sl_stay_loaded(void);

#endif
