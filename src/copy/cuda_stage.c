/* SPDX-License-Identifier: MIT
 *
 * Memory that the GPU cannot access is copied through two pinned buffers: while the GPU copies one,
 * the CPU copies the other.
 */
#include <string.h>

#include "copy/cuda.h"
#include "util/result.h"

#define STAGE_SPIN_NS (140 * INT64_C(1000)) /* filling or emptying a stage takes less */

struct staging {
    struct sl_copy_job *job;
    struct sl_copy_gpu *gpu;
};

/* The stage as the program's side of a copy between stage and slot. */
static const struct sl_copy_side stage_side = { .name = "", .memory = SL_MEMORY_PINNED };

static int make_stages(struct sl_copy_gpu *gpu)
{
    struct sl_cuda_scope scope;
    void *memory;
    int r = 0;

    for (int i = 0; i < SL_STAGES && r == 0; i++) {
        if (gpu->stages[i].memory)
            continue;
        r = sl_cuda_enter(gpu->context, SL_CUDA_RELAXED, &scope);
        if (r != 0)
            return r;
        r = sl_cu(gpu->context, MemHostAlloc, &memory, SL_STAGE_BYTES, SL_CU_HOST_PORTABLE);
        if (r == 0)
            gpu->stages[i].memory = memory;
        sl_cuda_leave(&scope);
    }
    return r;
}

void sl_copy_stages_free(struct sl_copy_gpu *gpu)
{
    struct sl_cuda_scope scope;

    for (int i = 0; i < SL_STAGES; i++) {
        if (!gpu->stages[i].memory || sl_cuda_enter(gpu->context, SL_CUDA_RELAXED, &scope) != 0)
            continue; /* none, or freed with the context */
        if (sl_cu(gpu->context, MemFreeHost, gpu->stages[i].memory) != 0)
            sl_log(SLUICE_LOG_WARN, "a buffer for copies was left behind: %s", sl_last_error());
        sl_cuda_leave(&scope);
    }
}

/* ---- one stage ---- */

/* Queues the copy between stage and slot, and the fence that tells when the stage is free again. */
static int queue_stage(struct staging *staging, struct sl_stage *stage, const struct sl_copy_part *part)
{
    struct sl_copy_gpu *gpu = staging->gpu;
    struct sl_cuda_scope scope;
    struct sl_cu_stream *target;
    struct sl_fence fence;

    int r = sl_copy_target_stream(staging->job,
                                  &target); /* which captures? then nothing is queued that the stage must be kept for */
    if (r != 0 || (r = sl_fence_pool_issue(gpu->fences, &fence)) != 0)
        return r;
    staging->job->uses_slot = true;
    r = sl_cuda_enter(gpu->context, SL_CUDA_RELAXED, &scope);
    if (r == 0) {
        r = sl_copy_queue_part(staging->job, &stage_side, part);
        sl_cuda_leave(&scope);
    }
    /* Also if queueing failed, as a part of the copy may be queued. */
    int signalled = sl_copy_signal_fence(staging->job, &fence, SL_COPY_TIMEOUT);
    stage->fence = fence;
    if (signalled != 0) { /* it can never be known to be free, so it is leaked; the next one is nobody's yet */
        stage->memory = NULL;
        stage->fence.value = 0;
    }
    return r == 0 || signalled == SLUICE_TIMEOUT ? signalled : r;
}

/* Waits until the GPU is done with the stage, and copies received data out. */
static int empty_stage(struct sl_copy_gpu *gpu, struct sl_stage *stage)
{
    int r = stage->fence.value ? sl_copy_wait(gpu, &stage->fence, STAGE_SPIN_NS) : 0;

    if (r == SLUICE_TIMEOUT)
        return r; /* still in use */
    stage->fence.value = 0;
    if (r == 0 && stage->full)
        sl_part_run(&stage->out);
    stage->full = false;
    return r;
}

static int copy_piece(void *user, const struct sl_copy_part *part)
{
    struct staging *staging = user;
    struct sl_copy_gpu *gpu = staging->gpu;
    struct sl_stage *stage = &gpu->stages[gpu->next_stage++ % SL_STAGES];
    struct sl_copy_part in;

    int r = empty_stage(gpu, stage);
    if (r != 0)
        return r;
    sl_part_halve(part, stage->memory, &in, &stage->out);
    if (staging->job->way == SL_COPY_SEND) {
        sl_part_run(&in);
        return queue_stage(staging, stage, &stage->out);
    }
    r = queue_stage(staging, stage, &in);
    stage->full = r == 0;
    return r;
}

/* ---- all of it ---- */

/* Work on the program's stream may still be writing the memory that the CPU reads here. */
static int wait_for_source(struct sl_copy_job *job, struct sl_copy_gpu *gpu)
{
    struct sl_fence fence;

    if (job->way != SL_COPY_SEND || job->stream.id == gpu->stream.id)
        return 0;
    int r = sl_fence_pool_issue(gpu->fences, &fence);
    if (r == 0)
        r = sl_copy_signal_fence(job, &fence, 0);
    return r == 0 ? sl_copy_wait(gpu, &fence, 0) : r;
}

/* In order of age. After a failure nothing more is written to the program's memory, and what the GPU still reads is
 * waited for. */
static int drain_stages(struct sl_copy_gpu *gpu, int r)
{
    for (int i = 0; i < SL_STAGES; i++) {
        struct sl_stage *stage = &gpu->stages[gpu->next_stage++ % SL_STAGES];
        bool full = stage->full;
        stage->full = full && r == 0;
        int drained = full && r != SLUICE_TIMEOUT ? empty_stage(gpu, stage) : 0;
        if (r == 0 || drained == SLUICE_TIMEOUT)
            r = drained;
        stage->full = false;
    }
    return r;
}

int sl_copy_staged(struct sl_copy_job *job, const struct sl_copy_side *side, const struct sl_copy *copy)
{
    struct staging staging = { job, job->copier->state };

    (void)side;
    int r = wait_for_source(job, staging.gpu);
    if (r != 0)
        return r;
    sl_mutex_lock(&staging.gpu->stage_lock);
    r = make_stages(staging.gpu);
    for (int i = 0; i < copy->count && r == 0; i++)
        r = sl_part_each(&copy->parts[i], SL_STAGE_BYTES, copy_piece, &staging);
    r = drain_stages(staging.gpu, r);
    sl_mutex_unlock(&staging.gpu->stage_lock);
    return r;
}
