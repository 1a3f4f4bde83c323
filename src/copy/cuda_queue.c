/* SPDX-License-Identifier: MIT
 *
 * On which stream a copy is queued, and how a part of it becomes driver calls: one for contiguous memory, one for rows,
 * and one for each step of a further dimension.
 */
#include "copy/cuda.h"
#include "util/result.h"

#define MAX_PITCH  INT32_MAX
#define MAX_COPIES 16384 /* driver calls for one part */
#define MIN_RUN    64    /* bytes of a run below which a copy engine is very slow in host memory */

static struct sl_cu_stream *stream_of(const struct sl_copy_job *job)
{
    return (struct sl_cu_stream *)((const struct sl_stream *)job->state)->native;
}

int sl_copy_target_stream(struct sl_copy_job *job, struct sl_cu_stream **target)
{
    const struct sl_stream *stream = job->state;
    struct sl_copy_gpu *gpu = job->copier->state;
    enum sl_cuda_capture state;
    bool asked = job->capture_checked;

    job->capture_checked = false;
    *target = stream_of(job);
    if (stream == gpu->own || asked)
        return 0;
    if (*target == NULL || *target == SL_CU_LEGACY)
        return sl_cuda_aux_stream(gpu->context, target);
    int r = sl_cuda_capture(gpu->context, *target, &state, NULL);
    if (r == 0 && state != SL_CUDA_CAPTURE_NONE)
        r = sl_fail(SLUICE_E_CAPTURING,
                    "channel '%s': the stream is capturing a graph, and copies of frames do not belong "
                    "into it; use another stream, or call this after the capture",
                    gpu->copier->channel);
    return r;
}

/* ---- one call ---- */

/* The driver call that prepares access to another GPU's memory is made in the relaxed mode. */
static int copy_peer(struct sl_copy_job *job, const struct sl_copy_side *side, char *to, const char *from,
                     uint64_t bytes, struct sl_cu_stream *target)
{
    struct sl_copy_gpu *gpu = job->copier->state;
    struct sl_cu_context *ours = gpu->context->handle, *theirs = side->context;
    bool send = job->way == SL_COPY_SEND;
    struct sl_cuda_scope scope;
    int r = sl_cuda_relax(gpu->context, &scope);

    if (r != 0)
        return r;
    r = sl_cu(gpu->context, MemcpyPeerAsync, (uintptr_t)to, send ? ours : theirs, (uintptr_t)from, send ? theirs : ours,
              (size_t)bytes, target);
    sl_cuda_leave(&scope);
    return r;
}

int sl_copy_queue_run(struct sl_copy_job *job, const struct sl_copy_side *side, char *to, const char *from,
                      uint64_t bytes)
{
    struct sl_copy_gpu *gpu = job->copier->state;
    struct sl_cu_stream *target;
    int r = sl_copy_target_stream(job, &target);

    if (r != 0)
        return r;
    if (side->memory == SL_MEMORY_PEER)
        return copy_peer(job, side, to, from, bytes, target);
    return sl_cu(gpu->context, MemcpyAsync, (uintptr_t)to, (uintptr_t)from, (size_t)bytes, target);
}

static int copy_rows(struct sl_copy_job *job, char *to, const char *from, uint64_t bytes,
                     const struct sl_copy_step *rows)
{
    struct sl_copy_gpu *gpu = job->copier->state;
    struct sl_cu_copy_2d copy = {
        .from_type = SL_CU_MEMORY_UNIFIED,
        .from_device = (uintptr_t)from,
        .from_pitch = (size_t)rows->from,
        .to_type = SL_CU_MEMORY_UNIFIED,
        .to_device = (uintptr_t)to,
        .to_pitch = (size_t)rows->to,
        .width = (size_t)bytes,
        .height = (size_t)rows->count,
    };
    struct sl_cu_stream *target;
    int r = sl_copy_target_stream(job, &target);

    return r == 0 ? sl_cu(gpu->context, Memcpy2DAsync, &copy, target) : r;
}

/* ---- many ---- */

static bool is_pitch(int64_t stride, uint64_t run)
{
    return stride >= 0 && (uint64_t)stride >= run && stride <= MAX_PITCH;
}

/* Do the innermost steps form rows that one 2D copy can handle? */
static bool has_rows(const struct sl_copy_side *side, const struct sl_copy_part *part)
{
    return part->depth > 0 && side->memory != SL_MEMORY_PEER && is_pitch(part->steps[0].to, part->run) &&
           is_pitch(part->steps[0].from, part->run);
}

static int copy_steps(struct sl_copy_job *job, const struct sl_copy_side *side, const struct sl_copy_part *part,
                      int depth, char *to, const char *from)
{
    int r = 0;

    if (depth == 0)
        return sl_copy_queue_run(job, side, to, from, part->run);
    if (depth == 1 && has_rows(side, part))
        return copy_rows(job, to, from, part->run, &part->steps[0]);
    const struct sl_copy_step *step = &part->steps[depth - 1];
    for (int64_t i = 0; i < step->count && r == 0; i++)
        r = copy_steps(job, side, part, depth - 1, to + i * step->to, from + i * step->from);
    return r;
}

static uint64_t count_copies(const struct sl_copy_side *side, const struct sl_copy_part *part)
{
    uint64_t copies = 1;

    for (int d = has_rows(side, part) ? 1 : 0; d < part->depth; d++)
        copies *= (uint64_t)part->steps[d].count;
    return copies;
}

bool sl_copy_is_single(const struct sl_copy_side *side, const struct sl_copy_part *part)
{
    return sl_part_bytes(part) > 0 && count_copies(side, part) == 1;
}

bool sl_copy_is_scattered(const struct sl_copy_part *part)
{
    static const struct sl_copy_side host = { .memory = SL_MEMORY_PINNED };

    return part->depth > 0 && (part->run < MIN_RUN || count_copies(&host, part) > MAX_COPIES);
}

int sl_copy_queue_part(struct sl_copy_job *job, const struct sl_copy_side *side, const struct sl_copy_part *part)
{
    uint64_t copies = count_copies(side, part);

    if (sl_part_bytes(part) == 0)
        return 0;
    if (copies > MAX_COPIES)
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "channel '%s': array '%.31s' lies in so many pieces that the GPU would need %llu "
                       "copies for it, %d are the most; lay it out in rows first",
                       job->copier->channel, side->name, (unsigned long long)copies, MAX_COPIES);
    return copy_steps(job, side, part, part->depth, part->to, part->from);
}
