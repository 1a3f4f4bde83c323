/* SPDX-License-Identifier: MIT
 *
 * The thread that does the work of all streams, each in its order and in its time.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake/inside.h"

pthread_cond_t fake_changed;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_t gpu;
static bool running, stopping, joining;

static void set_up(void)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&fake_changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

int64_t fake_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint32_t *words(uint64_t address)
{
    return (uint32_t *)(uintptr_t)address;
}

static uint64_t load(uint64_t address)
{
    return __atomic_load_n((uint64_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
}

static void check(const struct op *op)
{
    uint32_t bad = 0;

    for (uint64_t i = 0; i < op->size; i++)
        bad += words(op->address)[i] != (uint32_t)op->value;
    __atomic_fetch_add(words(op->target), bad, __ATOMIC_RELAXED);
}

/* Does it write where there is nothing to write any more? Then the context dies, as on a GPU. */
static bool strays(const struct op *op)
{
    switch (op->kind) {
    case OP_FILL:
    case OP_CLEAR: return !fake_writable(op->address, 1);
    case OP_STORE:
    case OP_WRITE: return !fake_writable(op->address, sizeof op->value);
    default: return false;
    }
}

/* True when it is done. */
static bool work(struct op *op, struct sl_cu_context *context)
{
    if (strays(op)) {
        context->error = SL_CU_ILLEGAL_ADDRESS;
        return true;
    }
    switch (op->kind) {
    case OP_NOTHING: break;
    case OP_SPIN:
        if (op->end == 0)
            op->end = fake_now() + (int64_t)op->value;
        return fake_now() >= op->end;
    case OP_FILL:
        for (uint64_t i = 0; i < op->size; i++)
            words(op->address)[i] = (uint32_t)op->value;
        break;
    case OP_CHECK: check(op); break;
    case OP_STORE:
    case OP_WRITE:
        __atomic_store_n((uint64_t *)(uintptr_t)op->address, op->value, __ATOMIC_RELEASE);
        break;
    case OP_CLEAR: memset((void *)(uintptr_t)op->address, (int)op->value, op->size); break;
    case OP_COPY:
        memcpy((void *)(uintptr_t)op->address, (void *)(uintptr_t)op->target, op->size);
        break;
    case OP_HOLD: return (int64_t)(load(op->address) - op->value) >= 0;
    case OP_AFTER: return op->other->done_id >= op->other_id || !op->other->context->alive;
    case OP_MARK:
        if (op->event->turn == op->turn)
            op->event->time = fake_now();
        break;
    }
    return true;
}

/* What this stream can do now. True if that was anything. */
static bool advance(struct sl_cu_stream *stream)
{
    bool any = false;

    while (stream->first && !stream->context->error && work(stream->first, stream->context)) {
        struct op *op = stream->first;
        stream->first = op->next;
        if (!stream->first)
            stream->last = NULL;
        stream->done_id = op->id;
        free(op);
        any = true;
    }
    return any;
}

/* When to look again without being called: a spin's end, or soon, while a stream waits for a word.
 */
static int64_t next_look(void)
{
    int64_t next = INT64_MAX;

    for (struct sl_cu_stream *s = fake_streams; s; s = s->next) {
        if (!s->first || s->context->error)
            continue;
        int64_t at = s->first->kind == OP_SPIN   ? s->first->end
                     : s->first->kind == OP_HOLD ? fake_now() + 100000
                                                 : INT64_MAX;
        next = at < next ? at : next;
    }
    return next;
}

static void *run(void *nothing)
{
    pthread_mutex_lock(&fake_lock);
    while (!stopping) {
        bool any = false;
        for (struct sl_cu_stream *s = fake_streams; s; s = s->next)
            any |= advance(s);
        if (any) {
            pthread_cond_broadcast(&fake_changed);
            continue;
        }
        int64_t next = next_look();
        struct timespec until = { .tv_sec = next / 1000000000, .tv_nsec = next % 1000000000 };
        if (next == INT64_MAX)
            pthread_cond_wait(&fake_changed, &fake_lock);
        else
            pthread_cond_timedwait(&fake_changed, &fake_lock, &until);
    }
    pthread_mutex_unlock(&fake_lock);
    return nothing;
}

void fake_gpu_start(void)
{
    pthread_once(&once, set_up);
    while (joining)
        pthread_cond_wait(&fake_changed, &fake_lock);
    if (running) /* another context lives */
        return;
    stopping = false;
    running = pthread_create(&gpu, NULL, run, NULL) == 0;
    if (!running)
        abort();
}

void fake_gpu_stop(void)
{
    pthread_t ending = gpu;

    stopping = joining = true;
    pthread_cond_broadcast(&fake_changed);
    running = false;
    pthread_mutex_unlock(&fake_lock);
    pthread_join(ending, NULL);
    pthread_mutex_lock(&fake_lock);
    joining = false;
    pthread_cond_broadcast(&fake_changed);
}
