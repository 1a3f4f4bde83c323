/* SPDX-License-Identifier: MIT
 *
 * Streams: counted names of native streams, and the Python objects that they keep alive.
 */
#include "stream.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "framework.h"

#define PER_THREAD ((uintptr_t)2)
#define SHARED     64

struct owner_queue {
    _Atomic uint32_t references; /* of the state, and of each stream with an owner */
    _Atomic bool over;           /* the state is gone, and its objects with it */
    _Atomic bool asked;          /* a pending call is scheduled */
    bool main;
    _Atomic(struct stream *) dropped;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *shared[SHARED];     /* foreign ones without an owner, each with a reference */
static _Atomic(struct stream *) unending; /* dropped while they captured, which no handle of ours may end in */

void streams_lock(void)
{
    pthread_mutex_lock(&lock);
}

void streams_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

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

/* Without a reference, and with an owner if `stream->owner`. */
static void end_stream(struct stream *stream)
{
    struct sluice_stream handle = stream_handle(stream);

    if (stream->kind != SLUICE_STREAM_DEFAULT && sluice_stream_destroy(&handle) == SLUICE_E_CAPTURING) {
        stream->next = atomic_load(&unending);
        while (!atomic_compare_exchange_weak(&unending, &stream->next, stream))
            ;
    } else if (stream->owner) {
        queue_owner(stream);
    } else {
        free(stream);
    }
}

/* Those that captured when they were dropped. */
static void end_again(void)
{
    struct stream *stream, *next;

    if (!atomic_load_explicit(&unending, memory_order_relaxed))
        return;
    for (stream = atomic_exchange(&unending, NULL); stream; stream = next) {
        next = stream->next;
        end_stream(stream);
    }
}

void streams_release_owners(struct state *state)
{
    if (atomic_load_explicit(&state->owners->dropped, memory_order_relaxed))
        release_owners(state->owners, true);
    end_again();
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

/* Takes the handle's count over; NULL without memory. */
static struct stream *new_stream(const struct opened *device, unsigned resets, struct sluice_stream handle,
                                 uintptr_t native, enum sluice_stream_kind kind)
{
    struct stream *stream = calloc(1, sizeof *stream);

    if (!stream) {
        if (kind != SLUICE_STREAM_DEFAULT)
            (void)sluice_stream_destroy(&handle);
        return NULL;
    }
    stream->references = 1;
    stream->kind = kind;
    stream->device = device;
    stream->native = native;
    stream->id = handle.id;
    stream->resets = resets;
    stream->identity = kind == SLUICE_STREAM_BORROWED ? 0 : handle.id;
    stream->thread = native == PER_THREAD ? this_thread() : 0;
    return stream;
}

struct stream *stream_keep(struct stream *stream)
{
    atomic_fetch_add_explicit(&stream->references, 1, memory_order_relaxed);
    return stream;
}

void stream_drop(struct stream *stream)
{
    if (stream && atomic_fetch_sub_explicit(&stream->references, 1, memory_order_acq_rel) == 1)
        end_stream(stream);
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

/* ---- foreign ones ---- */

static struct stream **place_of(const struct opened *device, uintptr_t native)
{
    return &shared[(native / 64 + native / 4096 + native + (unsigned)device->ordinal) % SHARED];
}

static struct stream *find_shared(const struct opened *device, uintptr_t native)
{
    struct stream *found;

    streams_lock();
    found = *place_of(device, native);
    if (found && found->device == device && found->native == native && !stream_was_reset(found))
        stream_keep(found);
    else
        found = NULL;
    streams_unlock();
    return found;
}

static void share(struct stream *stream)
{
    struct stream **place = place_of(stream->device, stream->native), *old;

    streams_lock();
    old = *place;
    *place = stream_keep(stream);
    streams_unlock();
    stream_drop(old);
}

void streams_forget(const struct opened *device)
{
    struct stream *dropped[SHARED];
    unsigned count = 0;

    streams_lock();
    for (unsigned i = 0; i < SHARED; i++)
        if (shared[i] && shared[i]->device == device) {
            dropped[count++] = shared[i];
            shared[i] = NULL;
        }
    streams_unlock();
    while (count > 0)
        stream_drop(dropped[--count]);
}

/* The library's handle, counted once more, so that this calls the driver only for the first. */
static int wrap(const struct opened *device, uintptr_t native, struct sluice_stream *handle)
{
    return native == 0 ? sluice_stream_default(device->device, handle)
                       : sluice_stream_wrap(device->device, native, NULL, NULL, handle);
}

static struct stream *name_foreign(struct state *state, uintptr_t native, const struct opened *device)
{
    unsigned resets = atomic_load(&device->resets);
    struct sluice_stream handle;
    struct stream *stream;
    int r;

    Py_BEGIN_ALLOW_THREADS r = wrap(device, native, &handle);
    Py_END_ALLOW_THREADS if (r != 0) return (struct stream *)raise_result(state, r);
    stream = new_stream(device, resets, handle, native, native == 0 ? SLUICE_STREAM_DEFAULT : SLUICE_STREAM_BORROWED);
    return stream ? stream : (struct stream *)PyErr_NoMemory();
}

struct stream *stream_view(struct state *state, uintptr_t native, const char *device, PyObject *owner)
{
    const struct opened *opened = device_open(state, device);
    struct stream *stream = NULL;

    if (!opened)
        return NULL;
    if (native == 1)
        native = 0;
    if (!owner && native != PER_THREAD && (stream = find_shared(opened, native)))
        return stream;
    if (!(stream = name_foreign(state, native, opened)))
        return NULL;
    if (owner)
        stream_own(state, stream, owner);
    else if (native != PER_THREAD)
        share(stream);
    return stream;
}

struct stream *stream_unshared(struct state *state, struct stream *stream)
{
    struct stream *own;

    if (!stream || stream->owner)
        return stream;
    own = name_foreign(state, stream->native, stream->device);
    stream_drop(stream);
    return own;
}

bool stream_renew(struct stream *stream)
{
    struct sluice_stream handle;

    if (stream->kind == SLUICE_STREAM_OWNED || wrap(stream->device, stream->native, &handle) != 0)
        return false;
    atomic_store(&stream->id, handle.id);
    return true;
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
    unsigned resets = atomic_load(&device->resets);
    struct sluice_stream handle;
    uintptr_t native;
    int r = sluice_stream_create(device->device, params, &handle);

    if (r == 0 && (r = sluice_stream_native(handle, &native)) != 0)
        (void)sluice_stream_destroy(&handle);
    *out = r == 0 ? new_stream(device, resets, handle, native, SLUICE_STREAM_OWNED) : NULL;
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

static int join(struct sluice_stream stream, struct sluice_stream other)
{
    int r = check_capture(other); /* a wait for one that captures would draw `stream` into the graph */

    return r == 0 ? sluice_stream_wait_stream(stream, other) : r;
}

/* After a reset. */
static int join_foreign(struct sluice_stream stream, const struct stream *other)
{
    struct sluice_stream handle;
    int r = wrap(other->device, other->native, &handle);

    if (r == 0)
        r = join(stream, handle);
    if (r == 0 && other->kind == SLUICE_STREAM_BORROWED)
        (void)sluice_stream_destroy(&handle);
    return r;
}

int stream_join(struct sluice_stream stream, const struct stream *other)
{
    struct sluice_stream handle = stream_handle(other);
    int r = stream_is_usable_here(other) ? 0 : sluice_stream_default(other->device->device, &handle);

    if (r == 0)
        r = join(stream, handle);
    if (r == SLUICE_E_STALE && other->kind != SLUICE_STREAM_OWNED)
        r = join_foreign(stream, other);
    return r == SLUICE_E_STALE || r == SLUICE_E_CLOSED ? 0 : r;
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

int stream_check_reset(const struct state *state, const struct stream *stream)
{
    char text[STREAM_NAME];

    if (!stream_was_reset(stream))
        return 0;
    PyErr_Format(state->stale_handle, "%s has ended: its device was reset; create another", stream_name(stream, text));
    return -1;
}
