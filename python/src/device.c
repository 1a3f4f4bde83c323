/* SPDX-License-Identifier: MIT
 *
 * The process's devices, opened when they are first named and kept for ever, as the driver keeps its contexts. All
 * interpreters share them.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

#define MOST 64

/* A name, which may be a UUID, and its device. Entries are filled in before they are counted and never change, so that
 * a look-up takes no lock. */
struct alias {
    char name[DEVICE_NAME];
    const struct opened *is;
};
static struct alias aliases[MOST];
static struct opened all[MOST];
static _Atomic unsigned alias_count;
static unsigned all_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct opened *find(const char *name)
{
    unsigned n = atomic_load_explicit(&alias_count, memory_order_acquire);

    for (unsigned i = 0; i < n; i++)
        if (strcmp(aliases[i].name, name) == 0)
            return aliases[i].is;
    return NULL;
}

static bool numbered(const char *name, int *ordinal)
{
    char *end;

    if (strncmp(name, "cuda:", 5) != 0 || name[5] < '0' || name[5] > '9')
        return false;
    *ordinal = (int)strtol(name + 5, &end, 10);
    return *end == '\0' && end - name <= 8;
}

static bool has_uuid(uint32_t index, const char *uuid)
{
    struct sluice_device_report report = { .size = sizeof report };

    if (sluice_device_probe(index, &report) != 0)
        return false;
    return strcmp(report.uuid, uuid) == 0 ||
           (strlen(report.uuid) > 4 && strcmp(report.uuid + 4, uuid) == 0); /* without GPU- or MIG- */
}

/* The name and ordinal by which we know it. False if it is no device that we can name: the library has a message for
 * it. */
static bool common_name(const char *name, struct opened *out)
{
    uint32_t count = 0, i = 0;

    out->ordinal = -1;
    if (strcmp(name, "host") != 0 && !numbered(name, &out->ordinal)) {
        if (strncmp(name, "cuda:", 5) != 0 || sluice_device_count(&count) != 0)
            return false;
        while (i < count && !has_uuid(i, name + 5))
            i++;
        if (i == count)
            return false;
        out->ordinal = (int)i;
    }
    if (out->ordinal < 0)
        snprintf(out->name, sizeof out->name, "host");
    else
        snprintf(out->name, sizeof out->name, "cuda:%d", out->ordinal);
    return true;
}

static void add(const char *name, const struct opened *is)
{
    unsigned n = atomic_load_explicit(&alias_count, memory_order_relaxed);

    if (n == MOST || find(name))
        return;
    snprintf(aliases[n].name, sizeof aliases[n].name, "%s", name);
    aliases[n].is = is;
    atomic_store_explicit(&alias_count, n + 1, memory_order_release);
}

/* Under the lock. */
static int open_locked(const char *name, const struct opened **out)
{
    struct opened made = { .name = "" };
    int r = 0;

    if ((*out = find(name)))
        return 0;
    if (!common_name(name, &made)) {
        r = sluice_device_open(&made.device, name); /* fails with a message */
        (void)sluice_device_close(&made.device);
        return r != 0 ? r : SLUICE_E_UNSUPPORTED;
    }
    if (!(*out = find(made.name))) {
        r = sluice_device_open(&made.device, made.name);
        if (r != 0)
            return r;
        if (all_count == MOST) {
            (void)sluice_device_close(&made.device);
            return SLUICE_E_LIMIT;
        }
        all[all_count] = made;
        *out = &all[all_count++];
        add(made.name, *out);
    }
    add(name, *out);
    return 0;
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

const struct opened *device_open(struct state *state, const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct opened *found = find(name);
    int r;

    if (found)
        return found;
    Py_BEGIN_ALLOW_THREADS(void) pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    r = open_locked(name, &found);
    pthread_mutex_unlock(&lock);
    Py_END_ALLOW_THREADS if (r == 0) return found;
    raise_result(state, r);
    return NULL;
}

void device_was_reset(const struct opened *device)
{
    atomic_fetch_add(&all[device - all].resets, 1);
}

const char *device_numbered(int ordinal, char buffer[DEVICE_NAME])
{
    unsigned n = atomic_load_explicit(&alias_count, memory_order_acquire);

    for (unsigned i = 0; i < n; i++)
        if (aliases[i].is->ordinal == ordinal && ordinal >= 0)
            return aliases[i].is->name;
    snprintf(buffer, DEVICE_NAME, "cuda:%d", ordinal);
    return buffer;
}

int device_ordinal(const char *name)
{
    const struct opened *found = find(name);
    int ordinal;

    if (found)
        return found->ordinal;
    if (strcmp(name, "host") == 0)
        return -1;
    return numbered(name, &ordinal) ? ordinal : -2;
}
