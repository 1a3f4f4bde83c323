/* SPDX-License-Identifier: MIT
 *
 * Copies by a GPU: queued on the program's stream, or on one of the library's if it names none.
 *
 * Behind the copies the stream raises a word of the library's. Waiting for the copies means polling
 * that word, without a driver call, so no capture is affected.
 */
#include "copy/cuda.h"

#include <stdlib.h>
#include <string.h>

#include "util/result.h"

#define CLOSE_TIMEOUT    (2 * SLUICE_S) /* for copies in flight at close */
#define HIGHEST_PRIORITY (-100)         /* the driver clamps it to its highest priority */

static struct sl_copy_gpu *gpu_of(const struct sl_copy_job *job)
{
    return job->copier->state;
}

static struct sl_cu_stream *stream_of(const struct sl_copy_job *job)
{
    return (struct sl_cu_stream *)((const struct sl_stream *)job->state)->native;
}

/* ---- open and close ---- */

/* Only a lost device ends a wait: a call that fails says nothing about copies that are queued already. */
static int check_device(void *user)
{
    const struct sl_copy_gpu *gpu = user;

    return sl_sync_cuda.probe(gpu->pages);
}

static int open_stream(struct sl_copy_gpu *gpu)
{
    struct sluice_stream_params params = { .size = sizeof params };
    int r = sl_device_open(&gpu->device, gpu->copier->device);

    if (gpu->copier->hurried)
        params.priority = HIGHEST_PRIORITY;
    if (r == 0)
        r = sl_stream_create(gpu->device, &params, &gpu->stream);
    if (r == 0)
        r = sl_stream_hold(gpu->stream, &gpu->own);
    if (r == 0)
        gpu->context = gpu->own->object.device->state;
    return r;
}

static int open_words(struct sl_copy_gpu *gpu)
{
    uint64_t page = sl_os_page_size();
    int fd;

    gpu->page_bytes = (SL_FENCE_POOL_WORDS * sizeof(sl_word) + page - 1) / page * page;
    int r = sl_os_memory_create("copies", gpu->page_bytes, &fd);
    if (r != 0)
        return r;
    r = sl_os_map(fd, gpu->page_bytes, true, &gpu->page);
    sl_os_close(fd);
    if (r == 0)
        r = sl_sync_cuda.attach(gpu->copier->device, gpu->page, gpu->page_bytes, true, &gpu->pages);
    if (r == 0)
        r = sl_fence_pool_open(gpu->page, check_device, gpu, &gpu->fences);
    return r;
}

/* The copier may have been freed by then. */
static void free_gpu(void *argument)
{
    struct sl_copy_gpu *gpu = argument;

    sl_copy_stages_free(gpu);
    sl_graphs_end(gpu);
    sl_sync_cuda.detach(gpu->pages);
    if (gpu->page)
        sl_os_unmap(gpu->page, gpu->page_bytes);
    sl_copy_forget_pointers(gpu);
    if (gpu->own)
        sl_object_drop(&gpu->own->object);
    sl_device_drop(gpu->device);
    sl_mutex_finish(&gpu->known_lock);
    sl_mutex_finish(&gpu->stage_lock);
    free(gpu);
}

/* On a thread of its own: the driver may wait for all work that the program has on the GPU, but
 * closing a copier must not. */
static void shut_down(struct sl_copy_gpu *gpu)
{
    sl_fence_pool_close(gpu->fences);
    sl_background_run(free_gpu, gpu);
}

static int cuda_open(struct sl_copier *copier)
{
    struct sl_copy_gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel '%s': no memory to copy with (%zu bytes)", copier->channel,
                       sizeof *gpu);
    gpu->copier = copier;
    sl_mutex_init(&gpu->known_lock);
    sl_mutex_init(&gpu->stage_lock);
    int r = open_stream(gpu);
    if (r == 0)
        r = open_words(gpu);
    if (r == 0 && copier->graph)
        r = sl_graphs_begin(gpu);
    if (r != 0) {
        shut_down(gpu);
        return r;
    }
    copier->state = gpu;
    return 0;
}

/* Memory that is still used by a stream that never ends is leaked, since freeing it would wait for
 * the stream. */
static bool cuda_close(struct sl_copier *copier, bool working)
{
    struct sl_copy_gpu *gpu = copier->state;

    if (!working && !sl_load(&gpu->abandoned, relaxed) &&
        sl_fence_pool_drain(gpu->fences, CLOSE_TIMEOUT) != SLUICE_TIMEOUT) {
        shut_down(gpu);
        return true;
    }
    sl_log(SLUICE_LOG_WARN,
           "channel '%s': copies are under way that do not end; their buffers stay until the process ends",
           copier->channel);
    sl_fence_pool_close(gpu->fences);
    return false;
}

/* ---- a job ---- */

/* Queries the stream's capture state, unless begin's answer still holds. Called before the job is
 * marked as having queued work. */
static int check_capture(struct sl_copy_job *job)
{
    struct sl_cu_stream *target;
    int r = sl_copy_target_stream(job, &target);

    job->capture_checked = r == 0 && target == stream_of(job);
    return r;
}

/* The job stays in the context from begin to end. The calls in between are quick, or concern
 * another GPU; and most of them invalidate no capture in any mode (cuda/cuda.h), so a frame needs
 * no relaxed mode: the few that do enter it themselves. */
static int enter_context(struct sl_copy_job *job)
{
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(gpu_of(job)->context, SL_CUDA_PLAIN, &scope);

    job->scope.pushed = scope.pushed;
    job->scope.exchanged = scope.exchanged;
    job->scope.mode = scope.mode;
    return r;
}

static void leave_context(const struct sl_copy_job *job)
{
    struct sl_cuda_scope scope = { job->scope.pushed, job->scope.exchanged, job->scope.mode };

    sl_cuda_leave(&scope);
}

/* May the stream be used, and what kind of memory is the program's? */
static int classify_sides(struct sl_copy_job *job)
{
    struct sl_cu_stream *target;
    int r = sl_copy_target_stream(job, &target);

    job->capture_checked = r == 0 && job->prompt && target == stream_of(job);
    for (uint32_t i = 0; i < job->count && r == 0; i++)
        r = sl_copy_classify(job, &job->sides[i]);
    return r;
}

static int begin_inside(struct sl_copy_job *job, struct sl_stream *stream)
{
    struct sl_copy_gpu *gpu = gpu_of(job);

    job->state = stream;
    job->fence.value = 0;
    int r = classify_sides(job);
    if (r == 0 && job->needs_fence)
        r = sl_fence_pool_issue(gpu->fences, &job->fence);
    if (r == 0)
        sl_graphs_clear(gpu);
    return r;
}

/* Does the stream belong to this GPU? Nearly always it is the same as the last time, and a handle
 * never refers to another stream later. */
static int check_stream(struct sl_copy_gpu *gpu, struct sluice_stream stream)
{
    if (stream.id == sl_load(&gpu->checked, relaxed))
        return 0;
    int r = sl_sync_cuda.check(gpu->pages, stream);
    if (r == 0)
        sl_store(&gpu->checked, stream.id, relaxed);
    return sl_stream_refused(gpu->copier->channel, r);
}

static int cuda_begin(struct sl_copy_job *job, struct sluice_stream handle)
{
    struct sl_copy_gpu *gpu = gpu_of(job);
    struct sl_stream *stream;

    job->stream = handle.id == SLUICE_ON_CPU.id ? gpu->stream : handle;
    int r = check_stream(gpu, job->stream);
    if (r == 0)
        r = sl_stream_hold(job->stream, &stream);
    if (r != 0)
        return r;
    r = enter_context(job);
    if (r == 0 && (r = begin_inside(job, stream)) != 0)
        leave_context(job);
    if (r != 0)
        sl_object_drop(&stream->object);
    return r;
}

static bool cuda_reuse(struct sl_copy_job *job, const struct sl_copy_key *key)
{
    job->held = sl_graphs_reuse(job, key);
    return job->held;
}

/* A short path for the most common array: one piece of memory that the device can access. */
static int queue_run(struct sl_copy_job *job, const struct sl_copy_side *side, const struct sl_copy_part *part)
{
    int r = check_capture(job);

    if (r != 0)
        return r;
    job->bytes += part->run;
    job->uses_slot = job->uses_source = true;
    return sl_copy_queue_run(job, side, part->to, part->from, part->run);
}

static int cuda_queue(struct sl_copy_job *job, uint32_t i, const struct sl_copy *copy)
{
    struct sl_copy_gpu *gpu = gpu_of(job);
    struct sl_copy_side *side = &job->sides[i];
    bool staged = side->memory == SL_MEMORY_PAGEABLE;

    if (copy->count == 1 && copy->parts[0].depth == 0 && copy->parts[0].run > 0 && !staged && !gpu->graphs)
        return queue_run(job, side, &copy->parts[0]);
    for (int p = 0; p < copy->count; p++)
        staged = staged || (side->memory == SL_MEMORY_PINNED && sl_copy_is_scattered(&copy->parts[p]));
    if (staged) {
        job->capture_checked = false; /* the staged copy waits */
        return sl_copy_staged(job, side, copy);
    }
    for (int p = 0; p < copy->count; p++)
        job->bytes += sl_part_bytes(&copy->parts[p]);
    if (job->way == SL_COPY_SEND && sl_graphs_hold(gpu, side, copy)) {
        job->held = true;
        return 0;
    }
    int r = check_capture(job);
    if (r != 0)
        return r;
    job->uses_slot = true;
    for (int p = 0; p < copy->count && r == 0; p++)
        r = sl_copy_queue_part(job, side, &copy->parts[p]);
    job->uses_source = true;
    return r;
}

static int queue_held(struct sl_copy_job *job)
{
    job->uses_slot = job->uses_source = true;
    return sl_graphs_queue(job);
}

static int cuda_wait_for(struct sl_copy_job *job, const struct sl_copy_event *event)
{
    struct sl_copy_gpu *gpu = gpu_of(job);
    struct sl_cu_stream *target;

    if (!event->event || event->stream == 0 || event->stream == sl_stream_queue_id(job->state))
        return 0;
    int r = sl_copy_target_stream(job, &target);
    return r == 0 ? sl_cu(gpu->context, StreamWaitEvent, target, event->event, 0) : r;
}

static int record_event(struct sl_copy_job *job, struct sl_cu_event *event)
{
    struct sl_copy_gpu *gpu = gpu_of(job);
    struct sl_cu_stream *target;
    int r = sl_copy_target_stream(job, &target);

    if (r == 0 && (r = sl_cu(gpu->context, EventRecord, event, target)) == 0)
        sl_cuda_flush(gpu->context, target);
    return r;
}

/* Launches the held copies, if there are any: as a graph, which may raise the words, too, or one by
 * one. */
static int launch_held(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count, bool *signalled)
{
    *signalled = false;
    if (!job->held)
        return 0;
    int r = sl_graphs_launch(job, signals, count, signalled);
    if (r == 0)
        job->uses_slot = job->uses_source = job->by_graph = true;
    return r == SLUICE_NOT_READY ? queue_held(job) : r;
}

static int cuda_record(struct sl_copy_job *job, struct sl_copy_event *event)
{
    bool signalled;
    int r = launch_held(job, NULL, 0, &signalled);

    /* Not as a node of the graph: that would record it only when the graph runs, and until then the
     * event would refer to its previous record. */
    if (r == 0 && event->event)
        r = record_event(job, event->event);
    if (r == 0)
        event->stream = sl_stream_queue_id(job->state);
    return r;
}

static bool cuda_is_local(const struct sl_copy_job *job)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (job->sides[i].memory != SL_MEMORY_GPU)
            return false;
    return true;
}

static int cuda_launch(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count)
{
    bool signalled;
    int r = launch_held(job, signals, count, &signalled);

    return r != 0 || signalled ? r : sl_copy_signal(job, signals, count);
}

static void cuda_prepare(struct sl_copier *copier, const struct sl_signal *signals, uint32_t count)
{
    sl_graphs_prepare(copier->state, signals, count);
}

static void cuda_forget(struct sl_copier *copier, const void *to, uint64_t bytes)
{
    sl_graphs_forget(copier->state, to, bytes);
}

/* Signals the fence behind the queued work. SLUICE_E_BUSY if begin reserved none and all are in flight; else what
 * sl_copy_signal_fence says. */
static int signal_fence(struct sl_copy_job *job)
{
    if (job->signalled)
        return 0;
    if (!job->fence.value && sl_fence_pool_issue(gpu_of(job)->fences, &job->fence) != 0)
        return SLUICE_E_BUSY;
    sl_fence_pool_expect(gpu_of(job)->fences, &job->fence, job->bytes);
    job->signalled = true;
    return sl_copy_signal_fence(job, &job->fence, SL_COPY_TIMEOUT);
}

/* If all tickets are in flight, which takes more copies than there can be frames, it waits, and
 * returns the ticket of a copy that is done; or, if that takes too long, of one whose end is not known. */
static void cuda_ticket(struct sl_copy_job *job, const struct sl_fence *existing, struct sluice_ticket *ticket)
{
    struct sl_fence fence = existing ? *existing : (struct sl_fence){ .word = NULL };

    if (!job->uses_source) {
        ticket->id = SL_TICKET_DONE;
    } else if (existing && sl_fence_pool_adopt(gpu_of(job)->fences, &fence)) {
        sl_fence_pool_expect(gpu_of(job)->fences, &fence, job->bytes);
        ticket->id = fence.id;
    } else if (signal_fence(job) != SLUICE_E_BUSY) {
        ticket->id = job->fence.id;
    } else {
        ticket->id = sl_copy_wait_stream(job) == SLUICE_TIMEOUT ? SL_TICKET_UNKNOWN : SL_TICKET_DONE;
    }
}

static int cuda_finish(struct sl_copy_job *job)
{
    if (!job->uses_source)
        return 0;
    int r = signal_fence(job);
    if (r == SLUICE_TIMEOUT)
        return r;
    return r == SLUICE_E_BUSY ? sl_copy_wait_stream(job) : sl_copy_wait(gpu_of(job), &job->fence, 0);
}

static void cuda_end(struct sl_copy_job *job)
{
    struct sl_stream *stream = job->state;

    if (job->fence.value && !job->signalled)
        sl_fence_pool_complete(gpu_of(job)->fences, &job->fence, 0); /* no ticket for it was returned */
    leave_context(job);
    sl_object_drop(&stream->object);
}

const struct sl_copy_ops sl_copy_cuda = {
    .kind = "cuda",
    .needs_sides = true,
    .open = cuda_open,
    .close = cuda_close,
    .begin = cuda_begin,
    .reuse = cuda_reuse,
    .queue = cuda_queue,
    .launch = cuda_launch,
    .prepare = cuda_prepare,
    .ticket = cuda_ticket,
    .finish = cuda_finish,
    .wait_for = cuda_wait_for,
    .record = cuda_record,
    .is_local = cuda_is_local,
    .end = cuda_end,
    .forget = cuda_forget,
};
