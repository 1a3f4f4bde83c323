/* SPDX-License-Identifier: MIT
 *
 * Streams, and queueing work on them.
 */
#include <stdlib.h>
#include <string.h>

#include "fake/internal.h"

#define HIGHEST (-5) /* priority; the lowest is 0 */

struct sl_cu_stream *fake_streams;

struct sl_cu_stream *fake_stream_new(struct sl_cu_context *context, unsigned flags, int priority)
{
    static unsigned long long ids;
    struct sl_cu_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        abort();
    *stream = (struct sl_cu_stream){ .magic = STREAM_MAGIC,
                                     .id = ++ids,
                                     .context = context,
                                     .flags = flags,
                                     .priority = priority,
                                     .next = fake_streams };
    fake_streams = stream;
    return stream;
}

/* Queued work still runs, unless the context is gone. Its address is never reused, so that every later use is found. */
void fake_stream_end(struct sl_cu_stream *stream)
{
    if (!stream->ended && stream->owned)
        fake_living.streams--;
    stream->ended = true;
    while (stream->work.first && !stream->context->alive) {
        struct op *op = stream->work.first;
        stream->work.first = op->next;
        fake_op_end(op);
    }
    if (!stream->context->alive)
        stream->done_id = stream->last_id;
    if (!stream->work.first)
        stream->work.last = NULL;
}

/* Takes those that have ended and done all out of the list, all of which is looked at again and again. `next` stays for
 * whoever is under way in it. */
void fake_streams_retire(void)
{
    static struct sl_cu_stream *retired;
    struct sl_cu_stream **at = &fake_streams;

    while (*at) {
        struct sl_cu_stream *stream = *at;
        if (!stream->ended || stream->work.first || stream->capture) {
            at = &stream->next;
            continue;
        }
        *at = stream->next;
        stream->retired_before = retired;
        retired = stream;
    }
}

static bool is_default(const struct sl_cu_stream *stream)
{
    return stream == stream->context->legacy;
}

/* Breaks the captures of blocking streams that `context` has; true if there are any. */
static bool break_blocking(struct sl_cu_context *context, bool really)
{
    bool any = false;

    for (struct capture *c = fake_captures; c; c = c->next) {
        if (c->origin->context != context || c->origin->flags & SL_CU_STREAM_NON_BLOCKING)
            continue;
        any = true;
        if (really)
            c->broken = true;
    }
    return any;
}

/* Removes the calling thread from those that queried the stream's capture state; false if it had not. */
static bool take_asker(struct sl_cu_stream *stream)
{
    for (unsigned i = 0; i < stream->asked; i++) {
        if (!pthread_equal(stream->askers[i], pthread_self()))
            continue;
        stream->asked--;
        memmove(&stream->askers[i], &stream->askers[i + 1], (stream->asked - i) * sizeof stream->askers[0]);
        return true;
    }
    return false;
}

/* If there are too many, the first one is forgotten. */
static void add_asker(struct sl_cu_stream *stream)
{
    const unsigned most = sizeof stream->askers / sizeof stream->askers[0];

    take_asker(stream);
    if (stream->asked == most)
        memmove(&stream->askers[0], &stream->askers[1], --stream->asked * sizeof stream->askers[0]);
    stream->askers[stream->asked++] = pthread_self();
}

/* The library must have queried the capture state of a stream that is not its own, in the thread that uses it. */
static void check_asked(struct sl_cu_stream *stream)
{
    if (!take_asker(stream) && !stream->owned)
        fake_break_rule("on a stream of somebody else's that was not asked about its capture");
}

/* The calling thread's default stream, which is a blocking one. */
static struct sl_cu_stream *of_thread(struct sl_cu_context *context)
{
    static unsigned long long threads;

    if (fake_thread.number == 0)
        fake_thread.number = ++threads;
    for (struct sl_cu_stream *s = fake_streams; s; s = s->next)
        if (s->context == context && s->thread == fake_thread.number && !s->ended)
            return s;
    struct sl_cu_stream *made = fake_stream_new(context, 0, 0);
    made->thread = fake_thread.number;
    return made;
}

static long default_uses; /* under the lock */

long fake_default_uses(void)
{
    pthread_mutex_lock(&fake_lock);
    long uses = default_uses;
    pthread_mutex_unlock(&fake_lock);
    return uses;
}

struct sl_cu_stream *fake_stream(struct sl_cu_stream *handle, bool looking, int *code)
{
    struct sl_cu_context *current = fake_current(code);
    struct sl_cu_stream *stream = handle;

    if (!current)
        return NULL;
    if (handle == NULL || handle == SL_CU_LEGACY)
        stream = current->legacy;
    else if (handle == SL_CU_PER_THREAD)
        stream = of_thread(current);
    if (stream->magic != STREAM_MAGIC || stream->ended) {
        fake_break_rule("on a stream that is none, or not any more");
        *code = SL_CU_INVALID_HANDLE;
        return NULL;
    }
    *code = stream->context->error;
    if (looking)
        return *code ? NULL : stream;
    if (fake_thread.library && is_default(stream))
        default_uses++;
    check_asked(stream);
    fake_check_context(stream->context, current);
    if (*code == 0 && is_default(stream) && break_blocking(stream->context, true)) {
        fake_break_rule("on the default stream while a blocking stream captures");
        *code = SL_CU_CAPTURE_IMPLICIT;
    }
    return *code ? NULL : stream;
}

/* ---- work ---- */

void fake_append(struct work *work, const struct op *op)
{
    struct op *copy = malloc(sizeof *copy);

    if (!copy)
        abort();
    *copy = *op;
    copy->next = NULL;
    fake_launch_hold(copy->launch);
    if (work->last)
        work->last->next = copy;
    else
        work->first = copy;
    work->last = copy;
    work->count++;
}

void fake_op_end(struct op *op)
{
    fake_launch_drop(op->launch);
    free(op);
}

static void append(struct sl_cu_stream *stream, const struct op *op)
{
    fake_append(&stream->work, op);
    stream->work.last->id = ++stream->last_id;
    stream->work.last->queued = fake_now();
}

static void append_after(struct sl_cu_stream *stream, struct sl_cu_stream *other)
{
    if (other != stream && other->done_id < other->last_id)
        append(stream, &(struct op){ .kind = OP_AFTER, .other = other, .other_id = other->last_id });
}

/* The default stream and the blocking ones wait for each other. */
static void order(struct sl_cu_stream *stream)
{
    if (stream->flags & SL_CU_STREAM_NON_BLOCKING)
        return;
    if (!is_default(stream)) {
        append_after(stream, stream->context->legacy);
        return;
    }
    for (struct sl_cu_stream *s = fake_streams; s; s = s->next)
        if (s->context == stream->context && !(s->flags & SL_CU_STREAM_NON_BLOCKING))
            append_after(stream, s);
}

int fake_queue(struct sl_cu_stream *stream, const struct op *op)
{
    if (stream->capture) {
        if (stream->capture->broken)
            return SL_CU_CAPTURE_INVALIDATED;
        if (!stream->capture->owned && fake_thread.function != FAKE_LaunchKernel)
            fake_break_rule("work of the library's went into somebody's graph");
        fake_graph_add(stream->capture->graph, op, &stream->frontier);
        return SL_CU_OK;
    }
    order(stream);
    append(stream, op);
    pthread_cond_broadcast(&fake_changed);
    return SL_CU_OK;
}

uint64_t fake_tail(struct sl_cu_stream *stream)
{
    order(stream);
    pthread_cond_broadcast(&fake_changed);
    return stream->last_id;
}

int fake_wait(struct sl_cu_stream *stream, uint64_t id)
{
    struct sl_cu_context *context = stream->context;
    unsigned long long life = context->id;

    while (stream->done_id < id && context->alive && context->id == life && !context->error)
        pthread_cond_wait(&fake_changed, &fake_lock);
    if (!context->alive || context->id != life)
        return SL_CU_CONTEXT_IS_DESTROYED;
    return context->error;
}

int fake_wait_all(struct sl_cu_context *context)
{
    int code = context->error;

    for (struct sl_cu_stream *s = fake_streams; s && code == 0; s = s->next)
        if (s->context == context)
            code = fake_wait(s, s->last_id);
    return code;
}

int fake_wait_to_free(struct sl_cu_context *context)
{
    context->freeing++;
    int code = fake_wait_all(context);
    context->freeing--;
    pthread_cond_broadcast(&fake_changed);
    return code;
}

/* ---- the functions ---- */

int fake_cuStreamCreateWithPriority(struct sl_cu_stream **stream, unsigned flags, int priority)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context) {
        *stream = fake_stream_new(context, flags, priority > 0 ? 0 : priority < HIGHEST ? HIGHEST : priority);
        (*stream)->owned = fake_thread.library;
        fake_living.streams += fake_thread.library;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuStreamDestroy(struct sl_cu_stream *handle)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (stream && stream->capture)
        stream->capture->broken = true;
    if (stream && fake_thread.library && !stream->owned)
        fake_break_rule("on a stream that is not the library's");
    if (stream)
        fake_stream_end(stream);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuStreamGetCtx(struct sl_cu_stream *handle, struct sl_cu_context **context)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, true, &code);
    if (stream)
        *context = stream->context;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Querying or waiting for a stream that captures breaks the capture. */
static bool waitable(struct sl_cu_stream *stream, int *code)
{
    if (stream && stream->capture) {
        stream->capture->broken = true;
        *code = SL_CU_CAPTURE_UNSUPPORTED;
        fake_break_rule("asked about work that is being captured");
    }
    return stream && !stream->capture;
}

/* Is it a stream whose work this thread may ask about? */
static bool askable(struct sl_cu_stream *stream, int *code)
{
    if (!waitable(stream, code))
        return false;
    *code = fake_break_captures();
    return *code == 0;
}

int fake_cuStreamGetFlags(struct sl_cu_stream *handle, unsigned *flags)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, true, &code);
    if (waitable(stream, &code))
        *flags = stream->flags;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

long fake_urgent_streams(void)
{
    long count = 0;

    pthread_mutex_lock(&fake_lock);
    for (const struct sl_cu_stream *stream = fake_streams; stream; stream = stream->next)
        count += stream->owned && !stream->ended && stream->priority == HIGHEST;
    pthread_mutex_unlock(&fake_lock);
    return count;
}

int fake_cuStreamGetPriority(struct sl_cu_stream *handle, int *priority)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, true, &code);
    if (stream)
        *priority = stream->priority;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuStreamIsCapturing(struct sl_cu_stream *handle, int *status)
{
    uint64_t id;

    return fake_cuStreamGetCaptureInfo(handle, status, &id, NULL, NULL, NULL);
}

int fake_cuStreamGetCaptureInfo(struct sl_cu_stream *handle, int *status, uint64_t *id, struct sl_cu_graph **graph,
                                struct sl_cu_node *const **nodes, size_t *count)
{
    int code;

    (void)graph;
    (void)nodes;
    (void)count;
    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, true, &code);
    if (stream) {
        add_asker(stream);
        *status = !stream->capture          ? SL_CU_CAPTURE_STATUS_NONE
                  : stream->capture->broken ? SL_CU_CAPTURE_STATUS_INVALIDATED
                                            : SL_CU_CAPTURE_STATUS_ACTIVE;
        *id = stream->capture ? stream->capture->id : 0;
        if (is_default(stream) && break_blocking(stream->context, false))
            code = SL_CU_CAPTURE_IMPLICIT;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuStreamQuery(struct sl_cu_stream *handle)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (askable(stream, &code) && stream->done_id < fake_tail(stream))
        code = SL_CU_NOT_READY;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuStreamSynchronize(struct sl_cu_stream *handle)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (askable(stream, &code))
        code = fake_wait(stream, fake_tail(stream));
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_queue_on(struct sl_cu_stream *handle, const struct op *ops, unsigned count)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    for (unsigned i = 0; i < count && stream && code == 0; i++)
        code = fake_queue(stream, &ops[i]);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuStreamGetId(struct sl_cu_stream *handle, unsigned long long *id)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, true, &code);
    if (stream)
        *id = stream->id;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuLaunchHostFunc(struct sl_cu_stream *stream, void (*function)(void *data), void *data)
{
    return fake_queue_on(stream, &(struct op){ .kind = OP_CALL, .function = function, .data = data }, 1);
}
