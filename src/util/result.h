/* SPDX-License-Identifier: MIT
 *
 * Error messages, and the log. The function that detects an error sets the message, once; callers only return
 * its result.
 */
#ifndef SL_UTIL_RESULT_H
#define SL_UTIL_RESULT_H

#include <sluice/base.h>

#if defined(__GNUC__)
#define SL_RARE __attribute__((cold)) /* moves code that leads to it off the path of a frame */
#else
#define SL_RARE
#endif
#if defined(__GNUC__) && !defined(SL_PRINTF) /* os/win32/gnu.h defines it */
#define SL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#elif !defined(SL_PRINTF)
#define SL_PRINTF(f, a)
#endif

/* Stores this thread's error message and returns `result`: return sl_fail(SLUICE_E_NAME, "..."). */
#define sl_fail(result, ...) (sl_say(__VA_ARGS__), (result)) /* a macro so that compilers see the result */
SL_RARE void sl_say(const char *format, ...) SL_PRINTF(1, 2);

/* The same for an errno: the message ends in ": " and its text, and the result depends on it (EACCES and
 * EPERM: PERMISSION; ENOMEM, ENOSPC: NO_MEMORY; EMFILE, ENFILE: NO_DESCRIPTORS, and the message names
 * RLIMIT_NOFILE; else SYSTEM). */
SL_RARE int sl_fail_errno(int error, const char *format, ...) SL_PRINTF(2, 3);

/* Sets this thread's error message to one saved earlier (on another thread). */
int sl_fail_text(int result, const char *text);

SL_RARE void sl_log(enum sluice_log_level level, const char *format, ...) SL_PRINTF(2, 3);

/* Are messages of this level logged? For messages that are costly to make. */
int sl_log_on(enum sluice_log_level level);

/* ---- behind the public calls of sluice/base.h, which checks their pointers ---- */

const char *sl_result_name(int result); /* "?" for a number that is no result */
const char *sl_last_error(void);
void sl_log_set(sluice_log_callback callback, void *user, enum sluice_log_level level);

#endif
