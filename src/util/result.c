/* SPDX-License-Identifier: MIT
 *
 * Each thread's last error message, and the log.
 */
#include "util/result.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/atomic.h"

enum { SENTENCE = 1024 };

static _Thread_local char sentence[SENTENCE];

const char *sl_last_error(void)
{
    return sentence;
}

const char *sl_result_name(int result)
{
    switch (result) {
#define NAME(name, number, text) \
    case number: return #name;
        SLUICE_RESULTS(NAME)
#undef NAME
    default: return "?";
    }
}

void sl_say(const char *format, ...)
{
    char text[SENTENCE]; /* the old message may be among the arguments */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)sl_fail_text(0, text);
}

int sl_fail_text(int result, const char *text)
{
    size_t length = strnlen(text, SENTENCE - 1);
    memmove(sentence, text, length);
    sentence[length] = '\0';
    return result;
}

static int errno_result(int error)
{
    switch (error) {
    case EACCES:
    case EPERM: return SLUICE_E_PERMISSION;
    case ENOMEM:
    case ENOSPC: return SLUICE_E_NO_MEMORY;
    case EMFILE:
    case ENFILE: return SLUICE_E_NO_DESCRIPTORS;
    default: return SLUICE_E_SYSTEM;
    }
}

int sl_fail_errno(int error, const char *format, ...)
{
    char end[200];
    snprintf(end, sizeof(end), ": %s%s", strerror(error),
             error == EMFILE   ? " (raise RLIMIT_NOFILE: ulimit -n)"
             : error == ENFILE ? " (of the whole system: fs.file-max, not RLIMIT_NOFILE)"
                               : "");

    /* If it is too long, the first part is cut, never the reason. */
    char text[SENTENCE];
    size_t room = sizeof(text) - strlen(end);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, room, format, arguments);
    va_end(arguments);
    strcat(text, end);
    return sl_fail_text(errno_result(error), text);
}

/* ---- the log ---- */

enum { NOBODY = -1, UNKNOWN = -2 };

/* A seqlock: `turn` is odd while the other three change, and readers retry. No mutex, as a child
 * that is forked at a bad moment could hang in a log call. */
static sl_word32 turn;
static _Atomic int listening = UNKNOWN; /* the highest level that has a listener */
static _Atomic(sluice_log_callback) sink;
static _Atomic(void *) sink_user;

/* SLUICE_DEBUG: unset or empty disables the log, 0 to 3 is a level, anything else means warnings. */
static int default_level(void)
{
    const char *value = getenv("SLUICE_DEBUG");
    if (!value || !*value)
        return NOBODY;
    if (*value >= '0' && *value <= '3' && !value[1])
        return *value - '0';
    return SLUICE_LOG_WARN;
}

void sl_log_set(sluice_log_callback callback, void *user, enum sluice_log_level level)
{
    uint32_t now = sl_load(&turn, relaxed) & ~1u;
    while (!atomic_compare_exchange_weak_explicit(&turn, &now, now + 1, memory_order_acquire, memory_order_relaxed)) {
        now &= ~1u;
        sl_pause();
    }
    sl_store(&sink, callback, release);
    sl_store(&sink_user, user, release);
    sl_store(&listening, callback ? (int)level : default_level(), release);
    sl_store(&turn, now + 2, release);
}

int sl_log_on(enum sluice_log_level level)
{
    int upto = sl_load(&listening, relaxed);
    if (upto == UNKNOWN) {
        int found = default_level();
        if (atomic_compare_exchange_strong(&listening, &upto, found))
            upto = found;
    }
    return (int)level <= upto;
}

/* A consistent pair of callback and user. False if they keep changing for so long that the thread
 * that changes them must be gone (a forked child). */
static bool read_sink(sluice_log_callback *callback, void **user)
{
    for (int i = 0; i < 100000; i++) {
        uint32_t before = sl_load(&turn, acquire);
        *callback = sl_load(&sink, acquire);
        *user = sl_load(&sink_user, acquire);
        if (!(before & 1) && sl_load(&turn, relaxed) == before)
            return true;
        sl_pause();
    }
    return false;
}

static void log_to_stderr(enum sluice_log_level level, const char *text)
{
    static const char *const words[] = { "error", "warning", "info", "debug" };
    fprintf(stderr, "sluice: %s: %s\n", words[level & 3], text);
}

void sl_log(enum sluice_log_level level, const char *format, ...)
{
    if (!sl_log_on(level))
        return;
    int error = errno;
    char text[SENTENCE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';

    sluice_log_callback callback;
    void *user;
    if (read_sink(&callback, &user)) {
        if (callback)
            callback(user, level, text);
        else
            log_to_stderr(level, text);
    }
    errno = error;
}
