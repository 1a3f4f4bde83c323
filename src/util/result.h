/* SPDX-License-Identifier: MIT
 *
 * The sentence of a failure, and the log. Whoever detects an error says it, once; callers pass the
 * number on.
 */
#ifndef SL_UTIL_RESULT_H
#define SL_UTIL_RESULT_H

#include <sluice/base.h>

#if defined(__GNUC__)
#define SL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define SL_RARE __attribute__((cold)) /* what leads to it is put out of the way of a frame */
#else
#define SL_PRINTF(f, a)
#define SL_RARE
#endif

/* Stores the sentence for this thread and returns `result`: return sl_fail(SLUICE_E_NAME, "..."). */
#define sl_fail(result, ...) (sl_say(__VA_ARGS__), (result)) /* so that compilers see the result */
SL_RARE void sl_say(const char *format, ...) SL_PRINTF(1, 2);

/* The same for an errno: the sentence ends in ": " and its text, the result follows from it (EACCES and
 * EPERM: PERMISSION; ENOMEM, ENOSPC: NO_MEMORY; EMFILE, ENFILE: NO_DESCRIPTORS with RLIMIT_NOFILE
 * named; else SYSTEM). */
SL_RARE int sl_fail_errno(int error, const char *format, ...) SL_PRINTF(2, 3);

/* Puts a sentence saved earlier (on another thread) in this thread's place. */
int sl_fail_text(int result, const char *text);

SL_RARE void sl_log(enum sluice_log_level level, const char *format, ...) SL_PRINTF(2, 3);

/* Is anybody listening at this level? For messages that cost something to make. */
int sl_log_on(enum sluice_log_level level);

#endif
