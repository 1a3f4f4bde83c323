/* SPDX-License-Identifier: MIT
 *
 * Captures on GPUs that sluice_capture_begin began, and the kernels that their graphs will use.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "kernel/graph.h"
#include "util/result.h"

_Atomic uint32_t sl_captures;

static struct sl_recording *recordings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sl_needs_drop(struct sl_needs *needs)
{
    for (uint32_t i = 0; i < needs->count; i++)
        sl_object_drop(needs->objects[i]);
    free(needs->objects);
    *needs = (struct sl_needs){ .count = 0 };
}

void sl_recording_free(struct sl_recording *recording)
{
    if (!recording)
        return;
    sl_needs_drop(&recording->needs);
    free(recording);
}

/* Call this and the next ones with the lock held. */
static struct sl_recording *by_stream(uint64_t stream)
{
    struct sl_recording *recording = recordings;

    while (recording && recording->stream != stream)
        recording = recording->next;
    return recording;
}

static struct sl_recording *by_capture(uint64_t capture)
{
    struct sl_recording *recording = recordings;

    while (recording && recording->capture != capture)
        recording = recording->next;
    return recording;
}

static struct sl_recording *take(struct sl_recording *recording)
{
    struct sl_recording **at = &recordings;

    if (!recording)
        return NULL;
    while (*at != recording)
        at = &(*at)->next;
    *at = recording->next;
    (void)atomic_fetch_sub_explicit(&sl_captures, 1, memory_order_acq_rel);
    return recording;
}

int sl_captures_add(uint64_t stream, uint64_t capture)
{
    struct sl_recording *recording = calloc(1, sizeof *recording);

    if (!recording)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to capture a graph");
    *recording = (struct sl_recording){ .stream = stream, .thread = sl_os_thread_number(), .capture = capture };
    pthread_mutex_lock(&lock);
    struct sl_recording *old = take(by_stream(stream));
    recording->next = recordings;
    recordings = recording;
    (void)atomic_fetch_add_explicit(&sl_captures, 1, memory_order_acq_rel);
    pthread_mutex_unlock(&lock);
    sl_recording_free(old);
    return 0;
}

int sl_captures_take(uint64_t stream, struct sl_recording **recording)
{
    int r = 0;

    pthread_mutex_lock(&lock);
    *recording = by_stream(stream);
    if (!*recording)
        r = SLUICE_NOT_READY;
    else if ((*recording)->thread != sl_os_thread_number())
        r = sl_fail(SLUICE_E_CAPTURE,
                    "the capture on stream 0x%" PRIx64 " was begun by another thread: end it on that thread", stream);
    else
        take(*recording);
    pthread_mutex_unlock(&lock);
    return r;
}

int sl_captures_refuse(uint64_t stream, uint64_t capture)
{
    uint64_t origin = 0;

    pthread_mutex_lock(&lock);
    const struct sl_recording *other = capture ? by_capture(capture) : NULL;
    if (other)
        origin = other->stream;
    pthread_mutex_unlock(&lock);
    if (origin)
        return sl_fail(SLUICE_E_CAPTURE,
                       "the capture did not begin on stream 0x%" PRIx64 ", but on 0x%" PRIx64 ": end it there", stream,
                       origin);
    if (capture)
        return sl_fail(SLUICE_E_CAPTURE,
                       "stream 0x%" PRIx64 " takes part in a capture that sluice_capture_begin did not begin: "
                       "end it with the library that began it",
                       stream);
    return sl_fail(SLUICE_E_CAPTURE, "stream 0x%" PRIx64 " is not capturing: call sluice_capture_begin first", stream);
}

/* ---- what they need ---- */

static int add(struct sl_needs *needs, struct sl_object *object)
{
    for (uint32_t i = needs->count; i-- > 0;)
        if (needs->objects[i] == object)
            return 0;
    if (needs->count == needs->room) {
        uint32_t room = needs->room ? 2 * needs->room : 16;
        void *grown = realloc(needs->objects, room * sizeof *needs->objects);
        if (!grown)
            return sl_fail(SLUICE_E_NO_MEMORY, "no memory to remember what a graph uses");
        needs->objects = grown;
        needs->room = room;
    }
    sl_object_keep(object);
    needs->objects[needs->count++] = object;
    return 0;
}

int sl_capture_needs_object(uint64_t capture, struct sl_object *object)
{
    int r = 0;

    pthread_mutex_lock(&lock);
    struct sl_recording *recording = by_capture(capture);
    if (recording)
        r = add(&recording->needs, object);
    pthread_mutex_unlock(&lock);
    return r;
}
