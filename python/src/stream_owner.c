/* SPDX-License-Identifier: MIT
 *
 * The Python objects that streams keep alive. Only its own interpreter may touch an owner's count, and a stream may be
 * dropped by any thread: its owner is queued for the interpreter.
 */
#include "stream.h"

#include <pthread.h>
#include <stdlib.h>

struct owner_queue {
    _Atomic uint32_t references; /* of the state, and of each stream with an owner */
    _Atomic bool over;           /* the state is gone, and its objects with it */
    _Atomic bool asked;          /* a pending call is scheduled */
    bool main;
    _Atomic(struct stream *) dropped;
};

static void owners_drop(struct owner_queue *owners)
{
    if (atomic_fetch_sub_explicit(&owners->references, 1, memory_order_acq_rel) == 1)
        free(owners);
}

/* `alive`: the interpreter is, and this thread runs in it. */
static void release_owners(struct owner_queue *owners, bool alive)
{
    struct stream *stream = atomic_exchange(&owners->dropped, NULL), *next;

    for (; stream; stream = next) {
        next = stream->next;
        if (alive)
            Py_DECREF(stream->owner);
        free(stream);
        owners_drop(owners); /* never the last: the caller has one */
    }
}

static int release_owners_pending(void *of)
{
    struct owner_queue *owners = of;

    atomic_store(&owners->asked, false);
    if (!atomic_load(&owners->over))
        release_owners(owners, true);
    owners_drop(owners);
    return 0;
}

void owner_queue_stream(struct stream *stream)
{
    struct owner_queue *owners = stream->owners;

    atomic_fetch_add_explicit(&owners->references, 1, memory_order_relaxed);
    stream->next = atomic_load(&owners->dropped);
    while (!atomic_compare_exchange_weak(&owners->dropped, &stream->next, stream))
        ;
    if (atomic_load(&owners->over)) {
        release_owners(owners, false);
    } else if (owners->main && Py_IsInitialized() && !atomic_exchange(&owners->asked, true)) {
        if (Py_AddPendingCall(release_owners_pending, owners) == 0)
            return;                          /* which drops our reference */
        atomic_store(&owners->asked, false); /* no room for it: the next call does it */
    }
    owners_drop(owners);
}

void stream_own(struct state *state, struct stream *stream, PyObject *owner)
{
    if (stream->owner)
        return;
    stream->owner = Py_NewRef(owner);
    stream->owners = state->owners;
    atomic_fetch_add_explicit(&state->owners->references, 1, memory_order_relaxed);
}

int stream_visit(const struct state *state, const struct stream *stream, visitproc visit, void *arg)
{
    /* The collector knows none of the other references, and no other interpreter's owners. */
    if (stream && stream->owners == state->owners && atomic_load(&stream->references) == 1)
        Py_VISIT(stream->owner);
    return 0;
}

void streams_release_owners(struct state *state)
{
    if (atomic_load_explicit(&state->owners->dropped, memory_order_relaxed))
        release_owners(state->owners, true);
    streams_end_again();
}

static void watch_forks(void)
{
    pthread_atfork(streams_lock, streams_unlock, streams_unlock);
}

int streams_init(struct state *state)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, watch_forks);
    if (!(state->owners = calloc(1, sizeof *state->owners))) {
        PyErr_NoMemory();
        return -1;
    }
    state->owners->references = 1;
    state->owners->main = PyInterpreterState_GetID(PyInterpreterState_Get()) == 0;
    return 0;
}

void streams_clear(struct state *state)
{
    struct owner_queue *owners = state->owners;

    state->owners = NULL;
    if (!owners)
        return;
    release_owners(owners, true);
    atomic_store(&owners->over, true);
    release_owners(owners, false); /* those queued by threads that did not see it yet */
    owners_drop(owners);
}
