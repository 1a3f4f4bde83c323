/* SPDX-License-Identifier: MIT
 *
 * Devices and streams as frames use them, without Python: devices are opened once a process,
 * streams counted, so that one lives until the last frame that it worked on has ended, whatever
 * became of the object that named it.
 */
#ifndef SLUICE_PYTHON_STREAM_H
#define SLUICE_PYTHON_STREAM_H

#include "state.h"

#define DEVICE_NAME 64

/* ---- devices (device.c) ---- */

/* Opened once a process, and kept for ever. -1 with an exception. */
int device_of(struct state *state, const char *name, struct sluice_device *out);

/* CUDA's ordinal of "cuda:N" or a UUID; -1: host. A UUID is known once device_of has seen it; -2
 * else. */
int device_ordinal(const char *name);

/* "cuda:N"; `made` is room for it. */
const char *device_numbered(int ordinal, char made[DEVICE_NAME]);

/* One that is open. Never freed. */
struct opened {
    char name[DEVICE_NAME]; /* "host", "cuda:0": never a UUID */
    int ordinal;            /* -1: host */
    struct sluice_device device;
    _Atomic unsigned resets; /* how many there were: what was made before the last is stale */
};
const struct opened *device_open(struct state *state, const char *name);

/* It was reset: counts that. */
void device_was_reset(const struct opened *device);

/* ---- streams (stream.c; current ones: stream_current.c) ---- */

/* What dropped streams have kept alive, for the interpreter that it belongs to. */
struct owner_queue;

struct stream {
    _Atomic uint32_t references;
    enum sluice_stream_kind kind;
    struct native *native;
    PyObject *owner;           /* whose stream it is, kept alive; or NULL */
    struct owner_queue *owners;     /* if there is an owner */
    struct stream *next;       /* in owners->dropped */
    _Atomic uint64_t identity; /* of a borrowed one 0 until it is asked for: frames name streams often */
    uint64_t thread;           /* that named the native stream 2 */
    bool at_once;              /* its outermost `with` does not wait when it is left */
    _Atomic bool closed;
    /* under native_lock */
    unsigned current; /* on how many places of threads' stacks */
    unsigned entered; /* in how many of its own `with`s, not of use() */
    bool closing;     /* once `current` is 0 */
};

/* Any thread, with or without the GIL. The last drop ends the handle, which neither waits nor
 * breaks anybody's capture; what it kept alive in Python goes with the next call of streams_release_owners.
 */
struct stream *stream_keep(struct stream *stream);
void stream_drop(struct stream *stream);

struct sluice_stream stream_handle(const struct stream *stream);
uintptr_t stream_native(const struct stream *stream); /* 0: the legacy default one; 2: see below */
const char *stream_device(const struct stream *stream); /* "cuda:0", never a UUID */

/* Do they stand for the same native stream? Two names of one may. */
bool stream_same(const struct stream *a, const struct stream *b);

/* Of ours, or with __cuda_stream__, .cuda_stream or .ptr, which is kept alive. `device`: that of
 * the frame (NULL: any). A new reference; NULL with an exception, if it is stale too. */
struct stream *stream_of(struct state *state, PyObject *object, const char *device);

/* By its native value: 0 and 1 the legacy default one, 2 the thread's default one. */
struct stream *stream_of_native(struct state *state, uintptr_t native, const char *device);

/* The thread's innermost Sluice stream of this device (NULL: of any) in *out, a new reference, or
 * NULL. -1 with an exception. */
int stream_current(struct state *state, const char *device, struct stream **out);

/* The same for work on frames: one that is stale is an exception. */
int stream_current_usable(struct state *state, const char *device, struct stream **out);

/* A new one of ours, non-blocking. */
struct stream *stream_make(struct state *state, const char *device);

/* The native stream 2 is another one on every thread, and a frame may end on any. On the thread
 * that named it, work is queued on it as on any other (stream_is_usable_here says true). Elsewhere nobody
 * can queue behind it, but behind the device's legacy default stream, which comes behind every
 * thread's: so such a stream takes part by stream_join only. */
bool stream_is_usable_here(const struct stream *stream);

/* Is a graph captured on it? Not known of another thread's default stream. No GIL needed. */
bool stream_captures(const struct stream *stream);

/* Makes `join`, a non-blocking stream of ours, wait for what `stream` was given so far. No GIL
 * needed. 0; SLUICE_E_CAPTURING, with nothing queued, if a graph is captured there: try again
 * later; else a failure. One of ours that a reset has ended is waited for already; others live on
 * then, and may have been given more. */
int stream_join(struct sluice_stream join, const struct stream *stream);

/* The CPU waits for it; so not with the GIL. 0, SLUICE_E_CAPTURING, or another failure. */
int stream_finish(const struct stream *stream);

/* Lets go of what dropped streams have kept alive in this interpreter. With the GIL. */
void streams_release_owners(struct state *state);

/* For the module. */
int streams_init(struct state *state);
void streams_clear(struct state *state);

/* ---- between the files of streams ---- */

/* Keeps `owner` alive as long as the stream, which nobody else has yet; not if it has an owner. */
void stream_own(struct state *state, struct stream *stream, PyObject *owner);

/* A view of a native stream, which keeps `owner` (or NULL) alive. */
struct stream *stream_view(struct state *state, uintptr_t native, const char *device,
                           PyObject *owner);
struct stream *stream_create(struct state *state, const char *device,
                             const struct sluice_stream_params *params);
int stream_ordinal(const struct stream *stream); /* of its device */

/* As the library's sentences have it. */
#define STREAM_NAME (DEVICE_NAME + 40)
const char *stream_name(const struct stream *stream, char text[STREAM_NAME]);

/* What it is known by for ever: no two have the same, but all names of a device's default one. */
uint64_t stream_identity(struct stream *stream);

/* For the collector of cycles: visits what it keeps alive, if `stream` is the last that counts it. */
int stream_visit(const struct state *state, const struct stream *stream, visitproc visit, void *arg);

/* -1 with StreamClosedError if it was closed. */
int stream_check(const struct state *state, const struct stream *stream);

/* Was its device reset since? Its native stream is over then if it was ours. */
bool stream_was_reset(const struct stream *stream);
/* -1 with StaleHandleError if so. */
int stream_check_reset(const struct state *state, const struct stream *stream);

/* Closes it: no new work by its name. Not while it is current on a thread: BusyError. Later: then
 * as soon as it is current nowhere any more; returns true if that is yet to come. */
int stream_close(const struct state *state, struct stream *stream);
bool stream_close_later(struct stream *stream);
bool stream_closed(const struct stream *stream);

/* It is current on one more place, by its own `with` or by use(). */
void stream_on_stack(struct stream *stream, bool own);

/* On one less, and closed if it was to be as soon as there is none. Was that the outermost of its own `with`s? */
bool stream_off_stack(struct stream *stream, bool own);

/* The thread's stack of current streams (stream_current.c). Pop takes the topmost `stream` off, wherever it is, which leaves
 * what was entered since; it returns as stream_off_stack. -1 with an exception. */
int stream_push(const struct state *state, struct stream *stream, bool own);
int stream_pop(const struct state *state, struct stream *stream, bool own);

#endif
