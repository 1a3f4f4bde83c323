/* SPDX-License-Identifier: MIT
 *
 * Lifetimes, without Python objects: a channel (the library's reader or writer) lives until its Python object and its
 * last lease are gone, a lease until its frame and the last array of it are. Counts are atomic: any thread may drop one
 * at any time. The end of a channel may wait for its GPU, without the GIL.
 *
 * On a GPU a lease has a set of streams whose work may still use the frame. It ends after the work of all of them
 * (lease_end.c). While one of them captures a graph, a reader's frame is ended later by the library, a writer's stays
 * begun.
 */
#ifndef SLUICE_PYTHON_LEASE_H
#define SLUICE_PYTHON_LEASE_H

#include <semaphore.h>

#include "state.h"
#include "stream.h"

struct lease;
struct views;

struct channel {
    _Atomic uint32_t references;
    _Atomic bool closed;    /* by its Python object */
    _Atomic uint32_t queue; /* threads that wait for `lock` */
    sem_t
        lock; /* for calls that the library allows to one thread at a time; Python's own lock reads a clock each time */
    long process;
    sluice_reader *reader; /* one of the two */
    sluice_writer *writer;
    const struct opened *device;   /* where frames are used; NULL: host, or not known yet */
    uint64_t session;              /* of a reader, in which `device` was found; 0: not yet */
    bool writable;                 /* its frames may be written */
    bool foreign;                  /* of cuda-link's protocol */
    bool slow;                     /* acquire or commit waits for the GPU: see Reader(cipd=...) */
    bool unsettled;                /* the next acquire may open a session, which takes time */
    _Atomic(struct lease *) spare; /* memory for the next lease, or NULL */
    _Atomic(struct lease *) left;  /* leases that were dropped while another thread had the lock */
    _Atomic(struct lease *) held;  /* a writer's, whose end waits for a capture; under the lock */
    struct stream *copies;         /* for copies that need no order; under streams_lock */
    _Atomic(void *) as_tensor;     /* address of the reader's last frame that became a PyTorch tensor, or NULL */
    _Atomic int64_t typical_wait;  /* ns of a reader's last waits */
    _Atomic(struct views *) views; /* cached views of its slots (view.c) */
    _Atomic(struct frame *) frames[SLUICE_MAX_SLOTS]; /* a reader's that were not released (frame_base.c) */
    char name[SLUICE_MAX_NAME + 16];
};

struct lease {
    _Atomic uint32_t references;
    _Atomic uint32_t memory_references; /* of this struct: one for all `references`, one for each weak one */
    _Atomic bool ended;                 /* writer: committed or cancelled; its arrays are stale */
    struct channel *channel;
    struct lease *next;             /* in channel->left */
    sluice_pin *pin;                /* writer: keeps the memory of stale arrays mapped; NULL until there is an array */
    const struct opened *device;    /* NULL: host */
    _Atomic(struct stream *) first; /* whose work may use the frame; NULL: none's */
    _Atomic uintptr_t last;         /* of the last one that was named to the library */
    _Atomic bool several;           /* they were named to the library */
    bool named;                     /* `first` is the stream that the program passed */
    struct sluice_frame frame;
};

/* A spinlock: for a few steps without Python or waits. */
void spin_lock(_Atomic bool *busy, const struct channel *channel);

static inline void spin_unlock(_Atomic bool *busy)
{
    atomic_store_explicit(busy, false, memory_order_release);
}

/* Does the name select cuda-link's protocol? */
bool channel_is_foreign(const char *name);

struct channel *channel_new(const char *name);

/* With the GIL, which it releases if the channel ends. */
void channel_drop(struct channel *channel);

/* Its Python object was closed: ends the leases that wait for a capture. Once. With the GIL, which it may release. */
void channel_object_closed(struct channel *channel);

/* One thread at a time between the two. -1 with an exception in a forked child. */
int channel_enter(const struct state *state, struct channel *channel);
void channel_leave(struct channel *channel);

/* channel_leave after channel_object_closed: waits for the captures. With the GIL, which it releases. */
void channel_leave_closed(struct channel *channel);

/* A lease without a frame; NULL with an exception. */
struct lease *lease_new(struct channel *channel);

static inline struct lease *lease_keep(struct lease *lease)
{
    atomic_fetch_add_explicit(&lease->references, 1, memory_order_relaxed);
    return lease;
}

/* The last reference ends it: releases a reader's frame, cancels a writer's that is still begun. Returns the result of
 * that, 0 if it is not the last. With the GIL, as channel_drop. */
int lease_drop(struct lease *lease);

/* The same for a caller that may or may not have the GIL. */
void lease_drop_without_gil(struct lease *lease);

/* A weak reference, for a released frame whose arrays may still be used on further streams. Called with a reference;
 * false if that is the last one. */
bool lease_weak_ref(struct lease *lease);
void lease_weak_drop(struct lease *lease);

/* A reference from a weak one; NULL once the lease has ended. */
struct lease *lease_from_weak(struct lease *lease);

/* Before the first array of a writer's frame is made. -1 with an exception. */
int lease_pin(const struct state *state, struct lease *lease);

/* Frees a lease whose acquire or begin failed. */
void lease_discard(struct lease *lease);

static inline const char *device_text(const struct opened *device)
{
    return device ? device->name : "host";
}

/* DLPack's (device type, ordinal). */
static inline PyObject *lease_dlpack_device(const struct opened *device)
{
    return Py_BuildValue("(ii)", device ? 2 : 1, device ? device->ordinal : 0);
}

/* ---- lease_end.c: streams ---- */

/* The lease ends after the work on `stream`, too. Takes the reference over, also if it fails: -1 with an exception. Any
 * thread. */
int lease_use(struct lease *lease, struct stream *stream);

/* The same for the stream that the program passed when it acquired or began the frame. */
int lease_use_named(struct lease *lease, struct stream *stream);

/* To be called once the frame was acquired or begun. */
void lease_begun(struct lease *lease);

/* Is this native stream known to be in its set? Not for CU_STREAM_PER_THREAD. */
bool lease_uses(const struct lease *lease, uintptr_t native);

/* Does a stream of its set capture a graph? */
bool lease_captures(struct lease *lease);

/* Makes `stream` wait for the work so far of all streams of the set. Returns a result; SLUICE_E_CAPTURING: nothing was
 * queued. */
int lease_wait_for(struct lease *lease, const struct stream *stream);

/* Gives a native stream that is ordered behind the work so far of all streams of the set. Returns a result. */
int lease_join(struct lease *lease, uintptr_t *native);

/* The library's calls, behind the work of the set: 0; SLUICE_E_CAPTURING, with nothing queued, while a capture is in
 * the way; or another failure. No GIL needed; commit and cancel need the channel entered. */
int lease_commit(struct lease *lease);
int lease_cancel(struct lease *lease);
int lease_release(struct lease *lease);

/* A reference to the first stream of the set, which is not empty. */
struct stream *lease_first(struct lease *lease);

/* Has the frame not ended yet, as after an end that could not be queued? */
bool lease_is_open(const struct lease *lease);

void lease_drop_streams(struct lease *lease);

/* The channel's stream for copies that need no order, on a device by name: a reference; NULL with an exception. */
struct stream *copy_stream(struct state *state, struct channel *channel, const char *device);

/* Raises that a capture prevents commit() or cancel(). */
PyObject *raise_capturing(const struct state *state, const struct lease *lease, const char *what);

#endif
