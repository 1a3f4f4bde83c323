/* SPDX-License-Identifier: MIT
 *
 * The thread that does the work of all streams, each in its order and in its time.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake/internal.h"

pthread_cond_t fake_changed;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_t gpu;
static bool running, stopping, joining;
static bool busy;               /* it works without the lock */
static int pausing;             /* how many want it paused */
static uint64_t releases;       /* calls of fake_release */
static bool waiting, under_way; /* there is work that needs a time slice; some has begun */

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

void fake_pause(void)
{
    pausing++;
    while (busy)
        pthread_cond_wait(&fake_changed, &fake_lock);
    pausing--;
    pthread_cond_broadcast(&fake_changed);
}

static uint64_t load(const void *word)
{
    return __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE);
}

/* ---- what takes its time, and is done without the lock ---- */

struct job {
    const struct op *op;
    void *to, *from;
    bool crashed;
};

/* By memcmp and memcpy as far as possible: sanitizers check each access of a loop. */
static void check(const struct job *job)
{
    const uint32_t *words = job->from, value = (uint32_t)job->op->value;
    uint64_t size = job->op->size;
    uint32_t bad = 0;

    if (size == 0 || (words[0] == value && memcmp(words, words + 1, (size - 1) * sizeof *words) == 0))
        return;
    for (uint64_t i = 0; i < size; i++)
        bad += words[i] != value;
    __atomic_fetch_add((uint32_t *)job->to, bad ? bad : 1, __ATOMIC_RELAXED); /* none: they were changed meanwhile */
}

static void fill(const struct job *job)
{
    uint64_t size = job->op->size, done = size < 1024 ? size : 1024;
    uint32_t *words = job->to;

    for (uint64_t i = 0; i < done; i++)
        words[i] = (uint32_t)job->op->value;
    for (uint64_t more; done < size; done += more) {
        more = done < size - done ? done : size - done;
        memcpy(words + done, words, more * sizeof *words);
    }
}

static void copy(const struct job *job)
{
    const struct op *op = job->op;

    for (uint64_t y = 0; y < op->rows; y++)
        memmove((char *)job->to + y * op->address_pitch, (const char *)job->from + y * op->target_pitch, op->size);
}

/* Where its memory is. False if the GPU may not touch all of it. */
static bool find(struct job *job, int device)
{
    const struct op *op = job->op;

    switch (op->kind) {
    case OP_FILL: job->to = fake_see(device, op->address, op->size * 4, true); return job->to;
    case OP_CLEAR: job->to = fake_see(device, op->address, op->size, true); return job->to;
    case OP_CHECK:
        job->from = fake_see(device, op->address, op->size * 4, false);
        job->to = fake_see(device, op->target, 4, true);
        return job->from && job->to;
    case OP_EDGES:
        job->to = fake_see(device, op->address, (op->rows - 1) * op->address_pitch + op->size * 4, true);
        job->from = fake_see(device, op->target, (op->rows - 1) * op->target_pitch + op->size * 4, false);
        return job->from && job->to;
    case OP_COPY:
        job->to = fake_copy_end(op, device, true);
        job->from = fake_copy_end(op, device, false);
        return job->from && job->to;
    case OP_RUN: job->to = fake_launch_see(op->launch, device); return true;
    default: return true;
    }
}

static void do_job(struct job *job)
{
    if (fake_machine.idle && job->op->kind != OP_CALL && job->op->kind != OP_RUN)
        return;
    switch (job->op->kind) {
    case OP_FILL: fill(job); break;
    case OP_CLEAR: memset(job->to, (int)job->op->value, job->op->size); break;
    case OP_CHECK: check(job); break;
    case OP_COPY: copy(job); break;
    case OP_EDGES: fake_edges(job->op, job->to, job->from); break;
    case OP_RUN: job->crashed = !fake_launch_run(job->op->launch, job->to); break;
    case OP_CALL:
        fake_thread.gpu = true;
        job->op->function(job->op->data);
        fake_thread.gpu = false;
        break;
    default: break;
    }
}

/* An address where it may not go kills the context, as on a GPU. */
static bool toil(const struct op *op, struct sl_cu_context *context)
{
    struct job job = { .op = op };

    if (pausing)
        return false;
    if (!find(&job, context->device)) {
        context->error = SL_CU_ILLEGAL_ADDRESS;
        return true;
    }
    busy = true;
    pthread_mutex_unlock(&fake_lock);
    do_job(&job);
    pthread_mutex_lock(&fake_lock);
    busy = false;
    if (job.crashed)
        context->error = SL_CU_ILLEGAL_ADDRESS;
    pthread_cond_broadcast(&fake_changed);
    return true;
}

/* ---- what is done at once ---- */

/* A kernel's store, and a write of the stream's. */
static bool store(const struct op *op, struct sl_cu_context *context)
{
    uint64_t *word =
        op->address % sizeof op->value ? NULL : fake_see(context->device, op->address, sizeof op->value, true);

    if (word && !fake_machine.idle)
        __atomic_store_n(word, op->value, __ATOMIC_RELEASE);
    else if (!word)
        context->error = SL_CU_ILLEGAL_ADDRESS;
    return true;
}

static bool hold(const struct op *op, struct sl_cu_context *context)
{
    const void *word = fake_see(context->device, op->address, sizeof op->value, false);

    if (!word) {
        context->error = SL_CU_ILLEGAL_ADDRESS;
        return true;
    }
    return op->exact ? load(word) == op->value : (int64_t)(load(word) - op->value) >= 0;
}

static bool mark(const struct op *op)
{
    if (op->event->turn == op->turn)
        op->event->time = op->end;
    if (op->event->shared)
        atomic_store(&op->event->shared->reached, op->value);
    return true;
}

static uint64_t chance(void)
{
    uint64_t x = fake_machine.seed += 0x9e3779b97f4a7c15;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Mostly none, now and then up to the maximum: that changes the order of two streams' work. */
static int64_t jitter(void)
{
    return fake_machine.jitter && chance() % 4 == 0 ? (int64_t)(chance() % (uint64_t)fake_machine.jitter) : 0;
}

/* Is it work, or does it wait for others? */
static bool takes(const struct op *op)
{
    return op->kind != OP_HOLD && op->kind != OP_AFTER && op->kind != OP_HEAR;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Work begins when it is queued, what comes before it is done, and this process has its time slice; a spin takes its
 * time, and all work the machine's delay. The times are right however late this thread looks. */
static bool too_early(struct op *op, int64_t finished)
{
    if (takes(op) && !fake_turn_lasts()) {
        waiting = true;
        return true;
    }
    if (op->end == 0) {
        op->releases = releases;
        op->end = later(later(op->queued, finished), takes(op) ? fake_turn_since() : 0) +
                  (op->kind == OP_SPIN ? (int64_t)op->value : 0) + (takes(op) ? fake_machine.delay + jitter() : 0);
    }
    if (op->end >= FAKE_ENDLESS && op->releases != releases)
        op->end = fake_now();
    bool early = fake_now() < op->end;
    under_way |= early;
    return early;
}

/* When was it done? Of most the time is known; others were done just now. */
static int64_t done_at(const struct op *op)
{
    switch (op->kind) {
    case OP_NOTHING:
    case OP_SPIN:
    case OP_STORE:
    case OP_WRITE:
    case OP_FREE:
    case OP_MARK: return op->end;
    default: return fake_now();
    }
}

/* True when it is done. */
static bool work(struct op *op, struct sl_cu_stream *stream)
{
    struct sl_cu_context *context = stream->context;

    if (too_early(op, stream->finished))
        return false;
    switch (op->kind) {
    case OP_NOTHING:
    case OP_SPIN: return true;
    case OP_FILL:
    case OP_CLEAR:
    case OP_CHECK:
    case OP_COPY:
    case OP_EDGES:
    case OP_RUN:
    case OP_CALL: return toil(op, context);
    case OP_STORE:
    case OP_WRITE: return store(op, context);
    case OP_HOLD: return hold(op, context);
    case OP_AFTER: return op->other->done_id >= op->other_id || !op->other->context->alive;
    case OP_HEAR: return atomic_load(&op->event->shared->reached) >= op->value;
    case OP_FREE: fake_free_now(op); return true;
    case OP_MARK: return mark(op);
    }
    return true;
}

/* Does what this stream can do now. True if that was anything. */
static bool advance(struct sl_cu_stream *stream)
{
    bool any = false;

    while (stream->work.first && !stream->context->error && work(stream->work.first, stream)) {
        struct op *op = stream->work.first;
        stream->work.first = op->next;
        if (!stream->work.first)
            stream->work.last = NULL;
        stream->done_id = op->id;
        stream->finished = done_at(op);
        fake_op_end(op);
        any = true;
    }
    return any;
}

/* When to look again at what a stream has to do next, without being called. */
static int64_t when(const struct op *op)
{
    switch (op->kind) {
    case OP_AFTER: return INT64_MAX; /* the other stream is looked at, too */
    case OP_HOLD:
    case OP_HEAR: return fake_now() + 100000;
    default: return op->end; /* it may have passed meanwhile */
    }
}

static int64_t next_look(void)
{
    int64_t next = INT64_MAX;

    for (struct sl_cu_stream *s = fake_streams; s; s = s->next) {
        if (!s->work.first || s->context->error)
            continue;
        next = earlier(next, when(s->work.first));
    }
    return next;
}

/* Does what all streams can do now. True if that was anything. */
static bool advance_all(void)
{
    bool any = false;

    waiting = under_way = false;
    fake_streams_retire();
    for (struct sl_cu_stream *s = fake_streams; s; s = s->next)
        any |= advance(s);
    if (any)
        pthread_cond_broadcast(&fake_changed);
    return any;
}

/* Takes this process's time slice: work in progress has been suspended since the last one. */
static void take_turn(void)
{
    int64_t pause = fake_turn_take();

    for (struct sl_cu_stream *s = fake_streams; s; s = s->next)
        if (s->work.first && s->work.first->end && takes(s->work.first))
            s->work.first->end += pause;
}

static void sleep_until(int64_t next)
{
    struct timespec until = { .tv_sec = next / 1000000000, .tv_nsec = (long)(next % 1000000000) };

    if (next == INT64_MAX)
        pthread_cond_wait(&fake_changed, &fake_lock);
    else
        pthread_cond_timedwait(&fake_changed, &fake_lock, &until);
}

static void *run(void *nothing)
{
    pthread_mutex_lock(&fake_lock);
    while (!stopping) {
        bool any = advance_all();
        if (fake_turn_is_held() && (!fake_turn_lasts() || !(any || waiting || under_way)))
            fake_turn_leave();
        if ((waiting || under_way) && !fake_turn_is_held() && !fake_turn_lasts())
            take_turn();
        else if (!any)
            sleep_until(earlier(next_look(), fake_turn_until()));
    }
    fake_turns_end();
    pthread_mutex_unlock(&fake_lock);
    return nothing;
}

void fake_release(void)
{
    pthread_mutex_lock(&fake_lock);
    fake_machine.delay = 0;
    releases++;
    if (running)
        pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
}

void fake_gpu_start(void)
{
    pthread_once(&once, set_up);
    while (joining)
        pthread_cond_wait(&fake_changed, &fake_lock);
    if (running) /* another context lives */
        return;
    stopping = false;
    fake_turns_begin();
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
