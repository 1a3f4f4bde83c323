/* SPDX-License-Identifier: MIT
 *
 * Who keeps what alive, without Python: a channel (the library's reader or writer) lives until its
 * Python object and its last lease are gone, a lease until its frame and the last array of it are.
 * Counts are atomic, so any thread may drop one at any time. The end of a channel may wait for its
 * GPU: nobody has the GIL meanwhile.
 *
 * On a GPU a lease knows the streams whose work may still use the frame when the CPU has done with
 * it, and ends behind all of them (lease_end.c).
 */
#ifndef SLUICE_PYTHON_LEASE_H
#define SLUICE_PYTHON_LEASE_H

#include <semaphore.h>

#include "state.h"
#include "stream.h"

struct lease;
struct views;

/* Streams of ours for a channel's frames on one device: its next writer may be on another one. */
struct helpers {
    const struct opened *device;
    struct helpers *next;
    _Atomic uint64_t joins[2]; /* that wait for several; [1]: a blocking one */
    struct stream *copies;     /* for copies ordered with nothing else (fetch.c); under native_lock */
};

struct channel {
    _Atomic uint32_t references;
    _Atomic bool closed;     /* by its Python object */
    _Atomic uint32_t queue;  /* threads that wait for `lock` */
    sem_t lock;              /* what the library allows to one thread at a time; Python's own asks a clock each time */
    long process;
    sluice_reader *reader; /* one of the two */
    sluice_writer *writer;
    const struct opened *device;   /* where frames are used; NULL: host, or not known yet */
    uint64_t session;              /* a reader's, as of which that is known; 0: not yet */
    bool writable;                 /* its frames may be written */
    bool foreign;                  /* of cuda-link's protocol */
    bool slow;                     /* acquire or commit waits for the GPU, as the program wants it: see Reader(cipd=...) */
    bool unsettled;                /* and its next acquire may open a session, which takes time */
    _Atomic(struct lease *) spare; /* memory for the next lease; NULL: there is none */
    _Atomic(struct lease *) left;  /* leases that ended without a word while the lock was held */
    _Atomic(struct lease *) held;  /* and those that a capture keeps from ending; under the lock */
    _Atomic(struct helpers *) helpers; /* they stay until its end */
    _Atomic(void *) as_tensor; /* what a reader's frame was taken by PyTorch from last; NULL: none */
    _Atomic int64_t typical_wait;      /* ns that a reader's last wait took, about */
    _Atomic(struct views *) views; /* cached views of its slots (view.c) */
    char name[SLUICE_MAX_NAME + 16];
};

#define LEASE_STREAMS 2 /* in the lease itself */

struct lease {
    _Atomic uint32_t references;
    _Atomic uint32_t memory_references; /* keeps the memory: one for all references, one for who looks on */
    _Atomic bool ended; /* writer: committed or cancelled; its arrays are stale */
    struct channel *channel;
    struct lease *next; /* in channel->left */
    sluice_pin
        *pin; /* writer: keeps the memory of stale arrays mapped; NULL: there is no array yet */
    const struct opened *device; /* NULL: host */
    bool named;                  /* the first of its streams is the one that the program named */
    _Atomic bool busy;           /* a lock for a few steps */
    uint32_t used_count, used_room;
    struct stream **used; /* streams whose work may use the frame; at first `few` */
    struct stream *few[LEASE_STREAMS];
    struct sluice_frame frame;
};

/* A lock for a few steps that need no Python, nor wait. */
void spin_lock(_Atomic bool *busy, const struct channel *channel);

static inline void spin_unlock(_Atomic bool *busy)
{
    atomic_store_explicit(busy, false, memory_order_release);
}

/* Is it the name of a channel of cuda-link's protocol? */
bool channel_is_foreign(const char *name);

struct channel *channel_new(const char *name);

/* With the GIL, which it lets go of if the channel ends. */
void channel_drop(struct channel *channel);

/* Its Python object has ended: what a capture has kept from ending waits no longer. Once. With the GIL, which it may let go of. */
void channel_object_closed(struct channel *channel);

/* Only one thread at a time between the two. -1 with an exception in a forked child. */
int channel_enter(const struct state *state, struct channel *channel);
void channel_leave(struct channel *channel);

/* The same, of one that its Python object has closed: what a capture has kept from ending is waited for. With the GIL, which it
 * lets go of. */
void channel_leave_closed(struct channel *channel);

/* A lease on nothing yet; NULL with an exception. */
struct lease *lease_new(struct channel *channel);

static inline struct lease *lease_keep(struct lease *lease)
{
    atomic_fetch_add_explicit(&lease->references, 1, memory_order_relaxed);
    return lease;
}

/* The last one ends it: a reader's frame is released, a writer's that is still begun cancelled.
 * Returns the result of that, 0 for any but the last. With the GIL, as channel_drop. */
int lease_drop(struct lease *lease);

/* The same for who may have the GIL or not, and does not know. */
void lease_drop_without_gil(struct lease *lease);

/* After its release a frame looks on: what works with its arrays may go to further streams. With a reference; false if
 * that is the only one, so that the lease ends with it. */
bool lease_weak_ref(struct lease *lease);
void lease_weak_drop(struct lease *lease);

/* For who looks on: a reference; NULL once the lease has ended. */
struct lease *lease_from_weak(struct lease *lease);

/* Before the first array of a writer's frame is made. -1 with an exception. */
int lease_pin(const struct state *state, struct lease *lease);

/* Frees one whose acquire or begin failed. */
void lease_discard(struct lease *lease);

static inline const char *device_text(const struct opened *device)
{
    return device ? device->name : "host";
}

/* As DLPack has it. */
static inline PyObject *lease_dlpack_device(const struct opened *device)
{
    return Py_BuildValue("(ii)", device ? 2 : 1, device ? device->ordinal : 0);
}

/* ---- lease_end.c: streams ---- */

/* The lease ends behind the work on `stream`, too. Takes over the reference, also if it fails: -1
 * with an exception. Any thread. */
int lease_use(struct lease *lease, struct stream *stream);

/* The same for what the program named when it took the frame: its stream. */
int lease_use_named(struct lease *lease, struct stream *stream);

/* Has it this native stream already? Not asked of 2, which is another one on each thread. */
bool lease_uses(struct lease *lease, uintptr_t native);

/* On how many of the lease's own streams is a graph captured? */
uint32_t lease_captures(struct lease *lease);

/* Makes `stream` wait for all work so far of the lease's own streams. What the library said; nothing is queued if that is
 * SLUICE_E_CAPTURING. */
int lease_wait_for(struct lease *lease, const struct stream *stream);

/* A native stream behind all work so far of the lease's own streams. What the library said. */
int lease_join(struct lease *lease, uintptr_t *native);

/* Each ends it behind its streams, as the library's call of the name does: 0, SLUICE_E_CAPTURING if
 * that cannot be queued yet and so was not, or what else was wrong. Needs no GIL; commit and cancel
 * need the channel entered. */
int lease_commit(struct lease *lease);
int lease_cancel(struct lease *lease);
int lease_release(struct lease *lease);

/* Release at the end of a channel, or after a failure: where a capture is in the way of a part, waits for the rest, and where it
 * cannot be queued, for all; so not with the GIL. The `patient` wait for captures, too, until there is one at most; if another
 * does not, the release comes behind the work of one stream of those that capture. */
int lease_release_final(struct lease *lease, bool patient);

/* The first of its streams, kept; it has one (stream_choice.c). Others may be added meanwhile. */
struct stream *lease_first(struct lease *lease);

/* Has the frame not ended yet? So it is after an end that could not be queued. */
bool lease_is_open(const struct lease *lease);

void lease_drop_streams(struct lease *lease);

/* Made when first needed; NULL without memory. Any thread. */
struct helpers *channel_helpers(struct channel *channel, const struct opened *device);
void channel_drop_helpers(struct channel *channel);

/* Says that a capture is in the way of commit() or cancel(), in one sentence. */
PyObject *raise_capturing(const struct state *state, const struct lease *lease, const char *what);

#endif
