/* SPDX-License-Identifier: MIT
 *
 * Streams: counted names of native streams, and the Python objects that they keep alive.
 */
#include "stream.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct stream *) unending; /* dropped while they captured a graph: their handles cannot end yet */

void streams_lock(void)
{
    pthread_mutex_lock(&lock);
}

void streams_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* Without a reference. */
static void end_stream(struct stream *stream)
{
    struct sluice_stream handle = stream_handle(stream);

    if (stream->lent) {
        (void)stream_join_back(stream);
        free(stream);
    } else if (stream->kind != SLUICE_STREAM_DEFAULT && sluice_stream_destroy(&handle) == SLUICE_E_CAPTURING) {
        stream->next = atomic_load(&unending);
        while (!atomic_compare_exchange_weak(&unending, &stream->next, stream))
            ;
    } else if (stream->owner) {
        owner_queue_stream(stream);
    } else {
        free(stream);
    }
}

/* Those that captured when they were dropped. */
void streams_end_again(void)
{
    struct stream *stream, *next;

    if (!atomic_load_explicit(&unending, memory_order_relaxed))
        return;
    for (stream = atomic_exchange(&unending, NULL); stream; stream = next) {
        next = stream->next;
        end_stream(stream);
    }
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

static void fill_in(struct stream *stream, const struct opened *device, unsigned resets, struct sluice_stream handle,
                    uintptr_t native, enum sluice_stream_kind kind)
{
    stream->references = 1;
    stream->kind = kind;
    stream->device = device;
    stream->native = native;
    stream->id = handle.id;
    stream->resets = resets;
    stream->identity = kind == SLUICE_STREAM_BORROWED ? 0 : handle.id;
    stream->thread = native == STREAM_PER_THREAD ? this_thread() : 0;
}

struct stream *stream_new(const struct opened *device, unsigned resets, struct sluice_stream handle, uintptr_t native,
                          enum sluice_stream_kind kind)
{
    struct stream *stream = calloc(1, sizeof *stream);

    if (stream)
        fill_in(stream, device, resets, handle, native, kind);
    else if (kind != SLUICE_STREAM_DEFAULT)
        (void)sluice_stream_destroy(&handle);
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

int stream_make(const struct opened *device, const struct sluice_stream_params *params, struct stream **out)
{
    unsigned resets = atomic_load(&device->resets);
    struct sluice_stream handle;
    uintptr_t native;
    int r = sluice_stream_create(device->device, params, &handle);

    if (r == 0 && (r = sluice_stream_native(handle, &native)) != 0)
        (void)sluice_stream_destroy(&handle);
    *out = r == 0 ? stream_new(device, resets, handle, native, SLUICE_STREAM_OWNED) : NULL;
    return r == 0 && !*out ? SLUICE_E_NO_MEMORY : r;
}

int stream_fork(struct stream *from, struct stream **out)
{
    unsigned resets = atomic_load(&from->device->resets);
    struct sluice_stream handle, parent = stream_handle(from);
    uintptr_t native;
    int r = sluice_fork(parent, 1, &handle);

    if (r != 0)
        return r;
    if ((r = sluice_stream_native(handle, &native)) == 0 && !(*out = calloc(1, sizeof **out)))
        r = SLUICE_E_NO_MEMORY;
    if (r != 0) {
        (void)sluice_join(parent, 1, &handle);
        return r;
    }
    fill_in(*out, from->device, resets, handle, native, SLUICE_STREAM_OWNED);
    (*out)->lent = true;
    (*out)->lender = stream_keep(from);
    return 0;
}

int stream_join_back(struct stream *stream)
{
    struct stream *lender = atomic_exchange(&stream->lender, NULL);
    struct sluice_stream handle = stream_handle(stream);
    int r = lender ? sluice_join(stream_handle(lender), 1, &handle) : 0;

    stream_drop(lender);
    return r;
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

int stream_join(struct sluice_stream stream, struct stream *other)
{
    struct sluice_stream handle = stream_handle(other);
    int r = stream_is_usable_here(other) ? 0 : sluice_stream_default(other->device->device, &handle);

    if (r == 0)
        r = join(stream, handle);
    if (r == SLUICE_E_STALE && stream_renew(other))
        r = join(stream, stream_handle(other));
    return r == SLUICE_E_STALE || r == SLUICE_E_CLOSED ? 0 : r;
}

/* ---- its name, and checks ---- */

const char *stream_name(const struct stream *stream, char text[STREAM_NAME])
{
    snprintf(text, STREAM_NAME, "stream 0x%llx of \"%s\"", (unsigned long long)stream_handle(stream).id,
             stream_device(stream));
    return text;
}

int stream_check_reset(const struct state *state, const struct stream *stream)
{
    char text[STREAM_NAME];

    if (!stream_was_reset(stream))
        return 0;
    PyErr_Format(state->stale_handle, "%s has ended: its device was reset; create another", stream_name(stream, text));
    return -1;
}
