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

void sl_needs_drop(struct sl_need *needs)
{
    while (needs) {
        struct sl_need *next = needs->next;
        sl_object_drop(needs->object);
        free(needs);
        needs = next;
    }
}

void sl_recording_free(struct sl_recording *recording)
{
    if (recording)
        sl_needs_drop(recording->needs);
    free(recording);
}

/* By one of the two; the other is 0. Call this and the next one with the lock held. */
static struct sl_recording *find(uint64_t stream, uint64_t capture)
{
    struct sl_recording *recording = recordings;

    while (recording && recording->stream != stream && recording->capture != capture)
        recording = recording->next;
    return recording;
}

static void unlist(struct sl_recording *recording)
{
    struct sl_recording **at = &recordings;

    while (*at != recording)
        at = &(*at)->next;
    *at = recording->next;
    (void)atomic_fetch_sub_explicit(&sl_captures, 1, memory_order_acq_rel);
}

int sl_captures_add(uint64_t stream, uint64_t capture)
{
    struct sl_recording *recording = calloc(1, sizeof *recording);

    if (!recording)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to capture a graph");
    *recording = (struct sl_recording){ .stream = stream, .thread = sl_os_thread_number(), .capture = capture };
    pthread_mutex_lock(&lock);
    struct sl_recording *old = find(stream, 0);
    if (old)
        unlist(old);
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
    *recording = find(stream, 0);
    if (!*recording)
        r = SLUICE_NOT_READY;
    else if ((*recording)->thread != sl_os_thread_number())
        r = sl_fail(SLUICE_E_CAPTURE,
                    "the capture on stream 0x%" PRIx64 " was begun by another thread: end it on that thread", stream);
    else
        unlist(*recording);
    pthread_mutex_unlock(&lock);
    return r;
}

int sl_captures_refuse(uint64_t stream, uint64_t capture)
{
    pthread_mutex_lock(&lock);
    const struct sl_recording *other = capture ? find(0, capture) : NULL;
    uint64_t origin = other ? other->stream : 0;
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

static int add(struct sl_need **needs, struct sl_object *object)
{
    struct sl_need *need = *needs;

    while (need && need->object != object)
        need = need->next;
    if (need)
        return 0;
    need = malloc(sizeof *need);
    if (!need)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to remember what a graph uses");
    sl_object_keep(object);
    *need = (struct sl_need){ *needs, object };
    *needs = need;
    return 0;
}

int sl_capture_needs(uint64_t capture, struct sl_object *object)
{
    pthread_mutex_lock(&lock);
    struct sl_recording *recording = find(0, capture);
    int r = recording ? add(&recording->needs, object) : 0;
    pthread_mutex_unlock(&lock);
    return r;
}
