/* SPDX-License-Identifier: MIT
 *
 * The pool of pinned memory, and its Python objects.
 */
#include "pinned.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stream.h"

#define MOST_BUFFERS 16
#define MOST_BYTES   (UINT64_C(1) << 29) /* but one may be larger */
#define PAGE         UINT64_C(4096)

/* Free buffers, the last used first. A forked child has none: they are the parent's. */
static struct pool {
    pthread_mutex_t lock;
    struct pinned *first;
    uint64_t count, bytes;
    _Atomic long process; /* whose buffers these are; 0: there were none yet */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool is_ours(void)
{
    return atomic_load(&pool.process) == (long)getpid();
}

/* So that frames of similar sizes share buffers; wastes an eighth at most. */
static uint64_t rounded(uint64_t size)
{
    uint64_t step = PAGE;

    while (step * 16 < size)
        step *= 2;
    return size < step ? step : (size + step - 1) / step * step;
}

/* ---- the list; with the lock ---- */

static struct pinned *unlink_at(struct pinned **at)
{
    struct pinned *pinned = *at;

    *at = pinned->next;
    pool.count--;
    pool.bytes -= pinned->size;
    pinned->next = NULL;
    return pinned;
}

static struct pinned *find(const char *device, uint64_t size)
{
    for (struct pinned **at = &pool.first; *at; at = &(*at)->next)
        if ((*at)->size == size && strcmp((*at)->device, device) == 0)
            return unlink_at(at);
    return NULL;
}

/* Removes the least recently used ones until the rest is within these bounds; returns them as a list. */
static struct pinned *cut(uint64_t most_buffers, uint64_t most_bytes)
{
    struct pinned *cut = NULL;

    while (pool.count > most_buffers || (pool.bytes > most_bytes && pool.count > 1)) {
        struct pinned **at = &pool.first;
        while ((*at)->next)
            at = &(*at)->next;
        struct pinned *oldest = unlink_at(at);
        oldest->next = cut;
        cut = oldest;
    }
    return cut;
}

/* ---- without the lock: the driver waits for the GPU ---- */

/* Returns their number. */
static int free_all(struct pinned *list)
{
    int count = 0;

    for (; list; count++) {
        struct pinned *next = list->next;
        (void)sluice_device_host_free(&list->memory); /* fails if its device is lost */
        free(list);
        list = next;
    }
    return count;
}

void pinned_give(struct pinned *pinned)
{
    if (!pinned || !is_ours())
        return;
    pthread_mutex_lock(&pool.lock);
    pinned->next = pool.first;
    pool.first = pinned;
    pool.count++;
    pool.bytes += pinned->size;
    struct pinned *over = cut(MOST_BUFFERS, MOST_BYTES);
    pthread_mutex_unlock(&pool.lock);
    (void)free_all(over);
}

void pinned_kept(uint64_t *count, uint64_t *bytes)
{
    *count = *bytes = 0;
    if (!is_ours())
        return;
    pthread_mutex_lock(&pool.lock);
    *count = pool.count;
    *bytes = pool.bytes;
    pthread_mutex_unlock(&pool.lock);
}

/* ---- taking ---- */

static int make(struct sluice_device device, struct pinned *pinned)
{
    int r = sluice_device_host_alloc(device, (size_t)pinned->size, &pinned->memory);

    if (r != SLUICE_E_NO_MEMORY || !is_ours())
        return r;
    pthread_mutex_lock(&pool.lock);
    struct pinned *unused = cut(0, 0); /* may be what is missing */
    pthread_mutex_unlock(&pool.lock);
    return free_all(unused) > 0 ? sluice_device_host_alloc(device, (size_t)pinned->size, &pinned->memory) : r;
}

static struct pinned *make_new(struct state *state, const char *device, uint64_t size)
{
    const struct opened *opened = device_open(state, device);
    struct pinned *pinned = opened ? calloc(1, sizeof *pinned) : NULL;
    int r;

    if (!pinned)
        return opened ? (struct pinned *)PyErr_NoMemory() : NULL;
    pinned->size = size;
    snprintf(pinned->device, sizeof pinned->device, "%s", device);
    Py_BEGIN_ALLOW_THREADS r = make(opened->device, pinned);
    Py_END_ALLOW_THREADS if (r == 0)
    {
        long nobody = 0;
        (void)atomic_compare_exchange_strong(&pool.process, &nobody, (long)getpid());
        return pinned;
    }
    raise_result(state, r);
    free(pinned);
    return NULL;
}

struct pinned *pinned_take(struct state *state, const char *device, uint64_t size, bool make)
{
    struct pinned *found = NULL;

    size = rounded(size);
    if (is_ours()) {
        pthread_mutex_lock(&pool.lock);
        found = find(device, size);
        pthread_mutex_unlock(&pool.lock);
    }
    return found || !make ? found : make_new(state, device, size);
}

/* ---- in Python ---- */

struct object {
    PyObject_HEAD struct pinned *pinned;
    Py_ssize_t size;
};

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct pinned *pinned = ((struct object *)self)->pinned;

    Py_BEGIN_ALLOW_THREADS pinned_give(pinned);
    Py_END_ALLOW_THREADS PyObject_Free(self);
    Py_DECREF(type);
}

static int getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    struct object *object = (struct object *)self;

    return PyBuffer_FillInfo(view, self, object->pinned->memory, object->size, 0, flags);
}

PyObject *pinned_object(struct state *state, struct pinned *pinned, uint64_t size)
{
    struct object *object = PyObject_New(struct object, state->pinned);

    if (!object) {
        pinned_give(pinned);
        return NULL;
    }
    object->pinned = pinned;
    object->size = (Py_ssize_t)size;
    return (PyObject *)object;
}

static PyType_Slot slots[] = {
    SLOT(Py_tp_dealloc, dealloc),
    SLOT(Py_bf_getbuffer, getbuffer),
    SLOT(Py_tp_doc, DOC_Pinned),
    { 0, NULL },
};

TYPE_SPEC(pinned, "sluice._Pinned", struct object, Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
