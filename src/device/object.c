/* SPDX-License-Identifier: MIT
 *
 * Handles, references and the end of objects.
 */
#include "device/object.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "os/os.h"
#include "util/result.h"

/* Dropped objects, by kind. */
static struct sl_object *pool[SL_HANDLE_KINDS];
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;

/* How the most recent handles ended: the handle, with `how` in place of its kind. For a handle
 * whose entry was overwritten, only the table of handles remains, which knows less. */
#define ENDS 1024
static _Atomic uint64_t ends[ENDS];
#define END_SHIFT 56
#define END_NAME  (UINT64_MAX >> (64 - END_SHIFT))

static const char *const kind_names[SL_HANDLE_KINDS] = {
    [SL_HANDLE_WRITER] = "writer",          [SL_HANDLE_READER] = "reader", [SL_HANDLE_WATCH] = "watch",
    [SL_HANDLE_DEVICE] = "device",          [SL_HANDLE_STREAM] = "stream", [SL_HANDLE_EVENT] = "event",
    [SL_HANDLE_MODULE] = "module",          [SL_HANDLE_KERNEL] = "kernel", [SL_HANDLE_GRAPH] = "graph",
    [SL_HANDLE_MEMORY] = "block of memory",
};

static _Atomic uint64_t *end_of(uint64_t id)
{
    return &ends[(id * UINT64_C(0x9E3779B97F4A7C15)) >> 54];
}

/* Objects of one kind may have several sizes: each backend's writer has its own. */
static struct sl_object *take_from_pool(enum sl_handle_kind kind, size_t size)
{
    struct sl_object **at = &pool[kind], *found;

    pthread_mutex_lock(&pool_lock);
    while (*at && (*at)->size != size)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&pool_lock);
    return found;
}

struct sl_object *sl_object_new(enum sl_handle_kind kind, size_t size)
{
    struct sl_object *object = take_from_pool(kind, size);

    if (!object) {
        object = calloc(1, size);
        if (!object) {
            sl_say("no memory for a %s (%zu bytes)", kind_names[kind], size);
            return NULL;
        }
    } else {
        /* All but the two words that another thread with an old handle may be reading. */
        size_t start = offsetof(struct sl_object, kind);
        memset((char *)object + start, 0, size - start);
        atomic_store_explicit(&object->id, 0, memory_order_relaxed);
    }
    object->kind = kind;
    object->size = size;
    atomic_store_explicit(&object->uses, 1, memory_order_release);
    return object;
}

int sl_object_name(struct sl_object *object, uint64_t *id)
{
    uint64_t name = sl_handle_new(object->kind, object);
    if (name == 0)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for the handle of a %s", kind_names[object->kind]);
    /* Release: a thread that reads the id sees the fields filled in. */
    atomic_store_explicit(&object->id, name, memory_order_release);
    *id = name;
    return 0;
}

bool sl_object_unname(struct sl_object *object, enum sl_end how)
{
    uint64_t id = atomic_load_explicit(&object->id, memory_order_relaxed);
    uint64_t end = (id & END_NAME) | ((uint64_t)how << END_SHIFT);

    /* Stored first: a thread that finds the handle ended can look up how. */
    atomic_store_explicit(end_of(id), end, memory_order_relaxed);
    if (object->device && how != SL_END_DESTROYED)
        sl_handle_note(id, object->kind);
    return sl_handle_end(id, object->kind) != NULL;
}

int sl_object_ended(uint64_t id, enum sl_handle_kind kind)
{
    const char *name = kind_names[kind];
    uint64_t end = atomic_load_explicit(end_of(id), memory_order_relaxed);
    enum sl_end how = SL_END_UNKNOWN;
    if ((end & END_NAME) == (id & END_NAME))
        how = (enum sl_end)(end >> END_SHIFT);
    else if (sl_handle_noted(id, kind) == 0)
        how = SL_END_DESTROYED;

    if (kind < SL_HANDLE_STREAM)
        return sl_fail(SLUICE_E_CLOSED, "%s 0x%" PRIx64 " was closed; open it again", name, id);
    if (how == SL_END_DESTROYED)
        return sl_fail(SLUICE_E_CLOSED, "%s 0x%" PRIx64 " was destroyed; create another", name, id);
    if (how == SL_END_RESET || how == SL_END_CLOSED)
        return sl_fail(SLUICE_E_STALE, "%s 0x%" PRIx64 " has ended: its device was %s; create another", name, id,
                       how == SL_END_RESET ? "reset" : "closed");
    return sl_fail(SLUICE_E_STALE, "%s 0x%" PRIx64 " has ended: its device was reset or closed, by now at least", name,
                   id);
}

int sl_object_forked(void)
{
    if (!sl_os_forked())
        return 0;
    return sl_fail(SLUICE_E_FORKED, "a child made by fork() cannot use what its parent opened or open more; use Sluice "
                                    "in the parent, or start the child by exec()");
}

static int not_found(uint64_t id, enum sl_handle_kind kind, int why)
{
    const char *name = kind_names[kind];

    if (id == 0)
        return sl_fail(SLUICE_E_INVALID, "zero handle: no %s was given", name);
    if (id == 1 && kind == SL_HANDLE_STREAM)
        return sl_fail(SLUICE_E_INVALID, "SLUICE_ON_CPU is no %s of a device; this call needs one", name);
    if (why == SLUICE_E_STALE)
        return sl_object_ended(id, kind);
    return sl_fail(SLUICE_E_HANDLE, "0x%" PRIx64 " is not the handle of a %s", id, name);
}

/* The object with one more reference, or NULL and *why. */
static struct sl_object *find(uint64_t id, enum sl_handle_kind kind, int *why)
{
    struct sl_object *object = sl_handle_get(id, kind, why);
    if (!object)
        return NULL;

    *why = SLUICE_E_STALE;
    uint32_t uses = atomic_load_explicit(&object->uses, memory_order_relaxed);
    do {
        if (uses == 0)
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&object->uses, &uses, uses + 1, memory_order_acquire,
                                                    memory_order_relaxed));
    if (atomic_load_explicit(&object->id, memory_order_acquire) != id) {
        /* Between the two steps above the object has ended, and its memory was reused for another. */
        sl_object_drop(object);
        return NULL;
    }
    return object;
}

struct sl_object *sl_object_find(uint64_t id, enum sl_handle_kind kind)
{
    int why;

    return find(id, kind, &why);
}

int sl_object_hold(uint64_t id, enum sl_handle_kind kind, struct sl_object **object)
{
    int why;

    if (sl_os_forked())
        return sl_object_forked();
    *object = find(id, kind, &why);
    return *object ? 0 : not_found(id, kind, why);
}

void sl_object_defer_finish(struct sl_object *object)
{
    /* With an id of 0 no thread that has an old handle can take a reference. Of the two references one
     * is for the later sl_object_drop, and one for the drop in progress. */
    atomic_store_explicit(&object->id, 0, memory_order_relaxed);
    atomic_store_explicit(&object->uses, 2, memory_order_release);
}

void sl_object_keep(struct sl_object *object)
{
    (void)atomic_fetch_add_explicit(&object->uses, 1, memory_order_relaxed);
}

void sl_object_drop(struct sl_object *object)
{
    if (atomic_fetch_sub_explicit(&object->uses, 1, memory_order_acq_rel) != 1)
        return;

    struct sl_device *device = object->device;
    if (object->finish)
        object->finish(object);
    if (atomic_load_explicit(&object->uses, memory_order_relaxed) > 0) {
        sl_object_drop(object);
        return;
    }
    pthread_mutex_lock(&pool_lock);
    object->next = pool[object->kind];
    pool[object->kind] = object;
    pthread_mutex_unlock(&pool_lock);
    if (device)
        sl_object_drop(&device->object);
}
