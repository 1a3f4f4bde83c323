/* SPDX-License-Identifier: MIT
 *
 * Results, texts, versions and the log: what every other header needs.
 *
 * Every call that can fail returns an int:
 *     0         done
 *     positive  not now: nothing is wrong, try again or do something else
 *     negative  a failure
 * so `if (r < 0)` always means a failure. Outputs are written only when a call returns 0. The message
 * for a person is in sluice_last_error(), one for each thread.
 *
 * Besides the results listed at each call, one that takes a handle returns SLUICE_E_HANDLE for a value that is no
 * handle, SLUICE_E_CLOSED for one that the program has closed or destroyed, SLUICE_E_STALE for one that ended with its
 * device, and SLUICE_E_FORKED in a child made by fork(); each returns SLUICE_E_INVALID for NULL where a pointer is
 * required. Calls that close or destroy accept NULL, or a zero handle, and return 0.
 *
 * Comments in these headers end with the lines Owns:, Thread:, Blocks: and Returns:, as far as they apply.
 * "Thread: any" means that the call may be made from any thread at any time;
 * "Thread: one at a time" that calls on one object must not overlap.
 */
#ifndef SLUICE_BASE_H
#define SLUICE_BASE_H

#include <stddef.h>
#include <stdint.h>

#include <sluice/version.h>

#if defined(_WIN32)
#if defined(SLUICE_BUILD)
#define SLUICE_API __declspec(dllexport)
#elif defined(SLUICE_STATIC) /* the program has the library in it */
#define SLUICE_API
#else
#define SLUICE_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define SLUICE_API __attribute__((visibility("default")))
#else
#define SLUICE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The one table of results: name, number, text. It also feeds sluice_result_text(), the documentation
 * and the exceptions of other languages. Numbers never change their meaning. */
#define SLUICE_RESULTS(X) \
    X(OK, 0, "done") \
    X(TIMEOUT, 1, "nothing came in the time given") \
    X(NO_SLOT, 2, "no slot is free, the frame is dropped") \
    X(NO_WRITER, 3, "the channel has no writer at the moment") \
    X(NOT_READY, 4, "the work has not finished yet") \
    X(CLOSED, 5, "the writer has closed the channel") \
    X(AGAIN, 6, "the frame could not be taken just now") \
    X(E_INVALID, -1, "invalid argument") \
    X(E_HANDLE, -2, "not a handle of this kind") \
    X(E_STALE, -3, "used after its end") \
    X(E_NAME, -4, "not a channel name") \
    X(E_FORMAT, -5, "invalid format") \
    X(E_CAPACITY, -6, "larger than the slot") \
    X(E_LIMIT, -7, "over a limit") \
    X(E_NOT_FOUND, -8, "no such channel") \
    X(E_EXISTS, -9, "the channel has a writer already") \
    X(E_PERMISSION, -10, "permission refused") \
    X(E_VERSION, -11, "protocol versions do not meet") \
    X(E_PROTOCOL, -12, "the peer broke the protocol") \
    X(E_NO_MEMORY, -13, "out of memory") \
    X(E_NO_DESCRIPTORS, -14, "out of file descriptors") \
    X(E_SYSTEM, -15, "a system call failed") \
    X(E_UNSUPPORTED, -16, "not supported here") \
    X(E_LOST, -17, "the frame was lost") \
    X(E_FORKED, -18, "used in a forked child") \
    X(E_BUSY, -19, "still in use") \
    X(E_CAPTURING, -20, "the stream is capturing a graph") \
    X(E_WRONG_DEVICE, -21, "belongs to another device") \
    X(E_NOT_RECORDED, -22, "the event was never recorded") \
    X(E_NO_TIMING, -23, "the event was made without timing") \
    X(E_DRIVER, -24, "the device's driver failed") \
    X(E_CORRUPT, -25, "the data is damaged") \
    X(E_CLOSED, -26, "used after it was closed") \
    X(E_COMPILE, -27, "the source does not compile") \
    X(E_CAPTURE, -28, "the capture cannot be ended") \
    X(E_ORDER, -29, "nothing orders this after earlier work")

/* SLUICE_OK, SLUICE_TIMEOUT and so on. */
enum sluice_result {
#define SLUICE_RESULT_ENTRY(name, number, text) SLUICE_##name = number,
    SLUICE_RESULTS(SLUICE_RESULT_ENTRY)
#undef SLUICE_RESULT_ENTRY
};

/* Times are nanoseconds in int64_t. As a time-out, 0 means do not wait. */
#define SLUICE_MS INT64_C(1000000)
#define SLUICE_S  INT64_C(1000000000)
/* As a time-out: the default of the call, or what the writer's policy says (see each call). */
#define SLUICE_DEFAULT INT64_C(-1)
/* As a time-out: wait for ever. No default is this long. */
#define SLUICE_FOREVER INT64_MAX

/* The short text of a result, e.g. "no such channel". Never NULL.
 * Thread: any. */
SLUICE_API const char *sluice_result_text(int result);

/* The name of a result without its prefix, e.g. "E_NOT_FOUND"; "?" if there is none. Never NULL.
 * Thread: any. */
SLUICE_API const char *sluice_result_name(int result);

/* The message of the last call on this thread that did not return 0: what failed, on what, and what to do about it.
 * Empty if there was none. Valid until the next call on this thread.
 * Thread: any; each has its own. */
SLUICE_API const char *sluice_last_error(void);

/* The release of the library that is loaded, e.g. "0.1.0", and its API version (SLUICE_API_VERSION of the headers it
 * was built with). Compare the latter with your own to find out whether a call exists.
 * Thread: any. */
SLUICE_API const char *sluice_version(void);
SLUICE_API int sluice_api_version(void);

/* The severity of a message. */
enum sluice_log_level {
    SLUICE_LOG_ERROR = 0, /* something was lost or refused */
    SLUICE_LOG_WARN = 1,  /* something unexpected, which Sluice can handle */
    SLUICE_LOG_INFO = 2,  /* connections come and go */
    SLUICE_LOG_DEBUG = 3,
};

/* `text` has no newline and is valid during the call only. May be called on any thread, also on the
 * library's own; it must not call Sluice. */
typedef void (*sluice_log_callback)(void *user, enum sluice_log_level level, const char *text);

/* Sends messages up to `level` to `callback`; NULL restores the default, which writes errors and
 * warnings to stderr if SLUICE_DEBUG is set in the environment and nothing otherwise.
 * Thread: any. */
SLUICE_API void sluice_log_set(sluice_log_callback callback, void *user, enum sluice_log_level level);

#ifdef __cplusplus
}
#endif
#endif
