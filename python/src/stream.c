/* SPDX-License-Identifier: MIT
 *
 * Streams: counted names of native streams, and the Python objects that they keep alive.
 */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "framework.h"
#include "stream_cache.h"

#define PER_THREAD ((uintptr_t)2)

struct owner_queue {
    _Atomic uint32_t references; /* of the state, and of each stream with an owner */
    _Atomic bool over;           /* the state is gone, and its objects with it */
    _Atomic bool asked;          /* a pending call is scheduled */
    bool main;
    _Atomic(struct stream *) dropped;
};

/* ---- owners ---- */

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

/* Only its own interpreter may touch the owner's count: it is queued for that. */
static void queue_owner(struct stream *stream)
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

void streams_release_owners(struct state *state)
{
    if (atomic_load_explicit(&state->owners->dropped, memory_order_relaxed))
        release_owners(state->owners, true);
    native_end_deferred();
}

int streams_init(struct state *state)
{
    native_init();
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

/* ---- streams ---- */

/* Unique for ever. */
static uint64_t this_thread(void)
{
    static _Atomic uint64_t last;
    static _Thread_local uint64_t mine;

    if (mine == 0)
        mine = atomic_fetch_add(&last, 1) + 1;
    return mine;
}

void stream_own(struct state *state, struct stream *stream, PyObject *owner)
{
    if (stream->owner)
        return;
    stream->owner = Py_NewRef(owner);
    stream->owners = state->owners;
    atomic_fetch_add_explicit(&state->owners->references, 1, memory_order_relaxed);
}

/* Takes `native` over; NULL without memory. */
static struct stream *new_stream(struct native *native, enum sluice_stream_kind kind)
{
    struct stream *stream = calloc(1, sizeof *stream);

    if (!stream) {
        native_drop(native);
        return NULL;
    }
    stream->references = 1;
    stream->kind = kind;
    stream->native = native;
    stream->identity = kind == SLUICE_STREAM_BORROWED ? 0 : native->handle.id;
    stream->thread = native->value == PER_THREAD ? this_thread() : 0;
    return stream;
}

struct stream *stream_keep(struct stream *stream)
{
    atomic_fetch_add_explicit(&stream->references, 1, memory_order_relaxed);
    return stream;
}

void stream_drop(struct stream *stream)
{
    if (!stream || atomic_fetch_sub_explicit(&stream->references, 1, memory_order_acq_rel) != 1)
        return;
    native_drop(stream->native);
    if (stream->owner)
        queue_owner(stream);
    else
        free(stream);
}

struct sluice_stream stream_handle(const struct stream *stream)
{
    return stream->native->handle;
}

uintptr_t stream_native(const struct stream *stream)
{
    return stream->native->value;
}

const char *stream_device(const struct stream *stream)
{
    return stream->native->device->name;
}

int stream_ordinal(const struct stream *stream)
{
    return stream->native->device->ordinal;
}

uint64_t stream_identity(struct stream *stream)
{
    static _Atomic uint64_t last; /* below all handles */
    uint64_t known = atomic_load(&stream->identity), made;

    if (known)
        return known;
    made = atomic_fetch_add(&last, 1) + 1;
    return atomic_compare_exchange_strong(&stream->identity, &known, made) ? made : known;
}

int stream_visit(const struct state *state, const struct stream *stream, visitproc visit, void *arg)
{
    /* The collector knows none of the other references, and no other interpreter's owners. */
    if (stream && stream->owners == state->owners && atomic_load(&stream->references) == 1)
        Py_VISIT(stream->owner);
    return 0;
}

bool stream_same(const struct stream *a, const struct stream *b)
{
    return native_same(a->native, b->native) && a->thread == b->thread;
}

struct stream *stream_view(struct state *state, uintptr_t native, const char *device, PyObject *owner)
{
    const struct opened *opened = device_open(state, device);
    struct native *found;
    int r = 0;

    if (!opened)
        return NULL;
    if (native == 1)
        native = 0;
    if (!(found = native_find(native, opened))) {
        Py_BEGIN_ALLOW_THREADS r = native_wrap(opened, native, &found);
        Py_END_ALLOW_THREADS
    }
    if (r != 0)
        return (struct stream *)raise_result(state, r);
    struct stream *stream = new_stream(found, native == 0 ? SLUICE_STREAM_DEFAULT : SLUICE_STREAM_BORROWED);
    if (!stream)
        return (struct stream *)PyErr_NoMemory();
    if (owner)
        stream_own(state, stream, owner);
    return stream;
}

struct stream *stream_of_native(struct state *state, uintptr_t native, const char *device)
{
    PyObject *owner = native > PER_THREAD ? framework_owner(state, device_ordinal(device), native) : NULL;
    struct stream *stream = stream_view(state, native, device, owner);

    Py_XDECREF(owner);
    streams_release_owners(state);
    return stream;
}

int stream_make(const struct opened *device, const struct sluice_stream_params *params, struct stream **out)
{
    struct native *native;
    int r = native_create(device, params, &native);

    *out = r == 0 ? new_stream(native, SLUICE_STREAM_OWNED) : NULL;
    return r == 0 && !*out ? SLUICE_E_NO_MEMORY : r;
}

struct stream *stream_create(struct state *state, const char *device, const struct sluice_stream_params *params)
{
    const struct opened *opened = device_open(state, device);
    struct stream *stream;
    int r;

    if (!opened)
        return NULL;
    streams_release_owners(state);
    Py_BEGIN_ALLOW_THREADS r = stream_make(opened, params, &stream);
    Py_END_ALLOW_THREADS return r == 0 ? stream : (struct stream *)raise_result(state, r);
}

/* ---- waiting for a stream ---- */

bool stream_is_usable_here(const struct stream *stream)
{
    return stream->thread == 0 || stream->thread == this_thread();
}

/* 0, SLUICE_E_CAPTURING, or a failure. */
static int check_capture(struct sluice_stream stream)
{
    struct sluice_stream_info info = { .size = sizeof info };
    int r = sluice_stream_info(stream, &info);

    return r == 0 && info.capturing ? SLUICE_E_CAPTURING : r;
}

bool stream_captures(const struct stream *stream)
{
    return stream_is_usable_here(stream) && check_capture(stream_handle(stream)) == SLUICE_E_CAPTURING;
}

static int join(struct sluice_stream join, struct sluice_stream other)
{
    int r = check_capture(other); /* a wait for one that captures would draw `join` into the graph */

    return r == 0 ? sluice_stream_wait_stream(join, other) : r;
}

static int finish(struct sluice_stream Py_UNUSED(join), struct sluice_stream stream)
{
    return sluice_stream_synchronize(stream);
}

static int wait_by(int (*wait)(struct sluice_stream, struct sluice_stream), struct sluice_stream join,
                   const struct stream *stream)
{
    const struct native *native = stream->native;
    struct sluice_stream other = native->handle;
    struct native *now;
    int r = stream_is_usable_here(stream) ? 0 : sluice_stream_default(native->device->device, &other);

    if (r == 0)
        r = wait(join, other);
    if (r == SLUICE_E_STALE && !native->ours && native_wrap(native->device, native->value, &now) == 0) {
        r = wait(join, now->handle); /* a reset ended the handle, not another library's stream */
        native_drop(now);
    }
    return r == SLUICE_E_STALE || r == SLUICE_E_CLOSED ? 0 : r;
}

int stream_join(struct sluice_stream stream, const struct stream *other)
{
    return wait_by(join, stream, other);
}

int stream_finish(const struct stream *stream)
{
    return wait_by(finish, SLUICE_ON_CPU, stream);
}

/* ---- closing ---- */

const char *stream_name(const struct stream *stream, char text[STREAM_NAME])
{
    snprintf(text, STREAM_NAME, "stream 0x%llx of \"%s\"", (unsigned long long)stream_handle(stream).id,
             stream_device(stream));
    return text;
}

bool stream_closed(const struct stream *stream)
{
    return atomic_load(&stream->closed);
}

int stream_check(const struct state *state, const struct stream *stream)
{
    char text[STREAM_NAME];

    if (!stream_closed(stream))
        return 0;
    PyErr_Format(state->stream_closed, "%s was closed: make another one", stream_name(stream, text));
    return -1;
}

int stream_close(const struct state *state, struct stream *stream)
{
    char text[STREAM_NAME];
    unsigned current;

    streams_lock();
    current = stream->current;
    if (current == 0)
        atomic_store(&stream->closed, true);
    streams_unlock();
    if (current == 0)
        return 0;
    raise_as(state, ERROR_E_BUSY,
             "%s is a current stream (%u times, on this thread or another): leave its `with` first, which closes it",
             stream_name(stream, text), current);
    return -1;
}

bool stream_close_later(struct stream *stream)
{
    bool later;

    streams_lock();
    later = stream->current > 0;
    stream->closing = later;
    if (!later)
        atomic_store(&stream->closed, true);
    streams_unlock();
    return later;
}

void stream_on_stack(struct stream *stream, bool own)
{
    streams_lock();
    stream->current++;
    stream->entered += own;
    streams_unlock();
}

bool stream_off_stack(struct stream *stream, bool own)
{
    bool outermost;

    streams_lock();
    if (--stream->current == 0 && stream->closing)
        atomic_store(&stream->closed, true);
    stream->entered -= own;
    outermost = own && stream->entered == 0;
    streams_unlock();
    return outermost;
}

bool stream_was_reset(const struct stream *stream)
{
    return native_was_reset(stream->native);
}

int stream_check_reset(const struct state *state, const struct stream *stream)
{
    char text[STREAM_NAME];

    if (!stream_was_reset(stream))
        return 0;
    PyErr_Format(state->stale_handle, "%s has ended: its device was reset; create another", stream_name(stream, text));
    return -1;
}
