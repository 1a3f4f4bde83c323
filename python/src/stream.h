/* SPDX-License-Identifier: MIT
 *
 * Devices and streams as frames use them, without Python objects. Devices are opened once a process. Streams are
 * counted: one lives until the last frame that it works on has ended, also if the Python object that named it is gone.
 */
#ifndef SLUICE_PYTHON_STREAM_H
#define SLUICE_PYTHON_STREAM_H

#include "state.h"

#define DEVICE_NAME 64

/* ---- devices (device.c) ---- */

/* Never freed. */
struct opened {
    char name[DEVICE_NAME]; /* "host", "cuda:0": never a UUID */
    int ordinal;            /* -1: host */
    struct sluice_device device;
    _Atomic unsigned resets; /* how many there were: what was made before the last is stale */
};

/* Opens it the first time. NULL with an exception. */
const struct opened *device_open(struct state *state, const char *name);

/* CUDA's ordinal of "cuda:N" or a UUID; -1: host; -2: a UUID that was not opened yet, or no device. */
int device_ordinal(const char *name);

/* "cuda:N"; `buffer` holds it unless the device is open. */
const char *device_numbered(int ordinal, char buffer[DEVICE_NAME]);

/* Counts a reset. */
void device_was_reset(const struct opened *device);

/* ---- streams (stream.c; current ones: stream_current.c) ---- */

#define STREAM_PER_THREAD ((uintptr_t)2) /* CU_STREAM_PER_THREAD */

/* Python objects that streams kept alive, to be released by the interpreter that they belong to. */
struct owner_queue;

struct stream {
    _Atomic uint32_t references;
    enum sluice_stream_kind kind;
    const struct opened *device;
    uintptr_t native;
    _Atomic uint64_t id;             /* its handle, counted once for this struct */
    unsigned resets;                 /* of its device before it was made */
    PyObject *owner;                 /* whose stream it is, kept alive; or NULL */
    struct owner_queue *owners;      /* if there is an owner */
    bool lent;                       /* a branch of a parallel section, whose stream is the library's */
    _Atomic(struct stream *) lender; /* what it branched off; NULL once it was joined */
    struct stream *next;             /* in owners->dropped, or in the list of those that could not end yet */
    _Atomic uint64_t identity;       /* 0 for a borrowed one until it is needed */
    uint64_t thread;                 /* that named CU_STREAM_PER_THREAD; else 0 */
    bool at_once;                    /* its outermost `with` does not wait when it is left */
    _Atomic bool closed;
    /* under streams_lock */
    unsigned current; /* number of places on threads' stacks */
    unsigned entered; /* number of its own `with`s, without use() */
    bool closing;     /* closed once `current` is 0 */
};

/* Any thread, with or without the GIL. The last drop ends the handle, which neither waits nor invalidates a capture.
 * Its owner is released by the next streams_release_owners. */
struct stream *stream_keep(struct stream *stream);
void stream_drop(struct stream *stream);

static inline struct sluice_stream stream_handle(const struct stream *stream)
{
    return (struct sluice_stream){ atomic_load_explicit(&stream->id, memory_order_relaxed) };
}

/* 0: the legacy default one; 2: see stream_is_usable_here. */
static inline uintptr_t stream_native(const struct stream *stream)
{
    return stream->native;
}

/* "cuda:0", never a UUID. */
static inline const char *stream_device(const struct stream *stream)
{
    return stream->device->name;
}

/* Do both stand for the same native stream? A native stream has one handle, until a reset. */
static inline bool stream_same(const struct stream *a, const struct stream *b)
{
    return stream_handle(a).id == stream_handle(b).id && a->thread == b->thread;
}

/* Makes one of a sluice.Stream, or of an object with __cuda_stream__, .cuda_stream or .ptr, which is kept alive. It
 * must be of `device` (NULL: any). A new reference; NULL with an exception, also if the stream was reset. */
struct stream *stream_of(struct state *state, PyObject *object, const char *device);

/* Makes one of a native value: 0 and 1 the legacy default one, 2 the thread's default one. */
struct stream *stream_of_native(struct state *state, uintptr_t native, const char *device);

/* The thread's innermost current stream of this device (NULL: of any), a new reference, or NULL in *out. -1 with an
 * exception. */
int stream_current(struct state *state, const char *device, struct stream **out);

/* The same for work on frames: raises if it was reset. */
int stream_current_usable(struct state *state, const char *device, struct stream **out);

/* A new one of ours (`params` NULL: a non-blocking one). No GIL needed. Returns a result. */
int stream_make(const struct opened *device, const struct sluice_stream_params *params, struct stream **out);

/* CU_STREAM_PER_THREAD (2) is another stream on every thread, and a frame may end on any. On the thread that named it,
 * it is a stream as others. Elsewhere nothing can be queued behind it, except behind the device's legacy default
 * stream, which is ordered behind every thread's: there only stream_join takes it. */
bool stream_is_usable_here(const struct stream *stream);

/* Branches a stream of the library's pool off, and joins it: once, by the last drop at the latest. No GIL needed.
 * Returns a result. */
int stream_fork(struct stream *from, struct stream **out);
int stream_join_back(struct stream *stream);

/* Does it capture a graph? Not known of another thread's default stream. No GIL needed. */
bool stream_captures(const struct stream *stream);

/* Makes `join`, a non-blocking stream of ours, wait for the work queued on `stream` so far. No GIL needed. Returns 0;
 * SLUICE_E_CAPTURING, with nothing queued, while `stream` captures; or a failure. A stream of ours that a reset has
 * ended needs no wait; one of another library lives on after a reset, and is waited for. */
int stream_join(struct sluice_stream join, struct stream *stream);

/* After a reset: gives it a new handle, for another library's stream lives on. False for one of ours. */
bool stream_renew(struct stream *stream);

/* Drops the handles of a device's foreign streams that are kept so that naming one again calls no driver: their owners
 * may have ended them, so calls for all streams of the device must not find them. */
void streams_forget(const struct opened *device);

/* Releases owners of dropped streams of this interpreter. With the GIL. */
void streams_release_owners(struct state *state);

/* For the module. */
int streams_init(struct state *state);
void streams_clear(struct state *state);

/* ---- between the files of streams ---- */

/* Takes the handle's count over; NULL without memory. */
struct stream *stream_new(const struct opened *device, unsigned resets, struct sluice_stream handle, uintptr_t native,
                          enum sluice_stream_kind kind);

/* Frees a stream without references, once its interpreter has released its owner. */
void owner_queue_stream(struct stream *stream);

/* Ends streams that captured when they were dropped. */
void streams_end_again(void);

/* Keeps `owner` alive as long as the stream, unless it has an owner. Only for a stream that nobody else has yet. */
void stream_own(struct state *state, struct stream *stream, PyObject *owner);

/* Names a native stream, and keeps `owner` (or NULL) alive. Without an owner it may be shared with other callers. */
struct stream *stream_view(struct state *state, uintptr_t native, const char *device, PyObject *owner);

/* Its own name for a foreign stream, which nobody shares. Takes `stream` (or NULL) over. */
struct stream *stream_unshared(struct state *state, struct stream *stream);
struct stream *stream_create(struct state *state, const char *device, const struct sluice_stream_params *params);

static inline int stream_ordinal(const struct stream *stream) /* of its device */
{
    return stream->device->ordinal;
}

/* As the library's messages name it. */
#define STREAM_NAME (DEVICE_NAME + 40)
const char *stream_name(const struct stream *stream, char text[STREAM_NAME]);

/* Unique for ever, but the same for all names of a device's default stream. */
uint64_t stream_identity(struct stream *stream);

/* For the garbage collector: visits its owner, if this is the last reference to `stream`. */
int stream_visit(const struct state *state, const struct stream *stream, visitproc visit, void *arg);

/* -1 with StreamClosedError if it was closed. */
int stream_check(const struct state *state, const struct stream *stream);
bool stream_closed(const struct stream *stream);

/* Was its device reset since it was made? */
static inline bool stream_was_reset(const struct stream *stream)
{
    return stream->resets != atomic_load(&stream->device->resets);
}

/* -1 with StaleHandleError if so. */
int stream_check_reset(const struct state *state, const struct stream *stream);

/* Closes it: its name takes no new work. -1 with BusyError while it is current on a thread. */
int stream_close(const struct state *state, struct stream *stream);

/* Closes it as soon as it is current on no thread. Returns true if it still is. */
bool stream_close_later(struct stream *stream);

/* Count its places on threads' stacks. `own`: by its own `with`, not by use(). stream_off_stack returns whether its
 * outermost own `with` was left. */
void stream_on_stack(struct stream *stream, bool own);
bool stream_off_stack(struct stream *stream, bool own);

/* The lock of streams' counts: for a few steps, never over a call. */
void streams_lock(void);
void streams_unlock(void);

/* The thread's stack of current streams (stream_current.c). Pop removes the topmost `stream`, wherever it is, leaves
 * what was entered since, and returns as stream_off_stack. -1 with an exception. */
int stream_push(const struct state *state, struct stream *stream, bool own);
int stream_pop(const struct state *state, struct stream *stream, bool own);

#endif
