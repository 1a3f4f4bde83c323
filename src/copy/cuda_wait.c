/* SPDX-License-Identifier: MIT
 *
 * Fences that are signalled behind copies, and waits for them. Each ends after SL_COPY_TIMEOUT: what is queued before a
 * copy may never end.
 */
#include "copy/cuda.h"
#include "util/result.h"

#define CAPTURE_POLL_INTERVAL (SLUICE_MS / 2)
#define MIN_POLL_INTERVAL     (SLUICE_MS / 50)
#define MAX_POLL_INTERVAL     SLUICE_MS

static struct sl_copy_gpu *gpu_of(const struct sl_copy_job *job)
{
    return job->copier->state;
}

static int fail_timeout(const struct sl_copy_gpu *gpu)
{
    return sl_fail(SLUICE_TIMEOUT,
                   "channel '%s': the stream did not reach the copy within %d s, because of work that "
                   "is queued before it",
                   gpu->copier->channel, (int)(SL_COPY_TIMEOUT / SLUICE_S));
}

int sl_copy_wait(struct sl_copy_gpu *gpu, const struct sl_fence *fence, int64_t spin_ns)
{
    int r = sl_fence_pool_wait(gpu->fences, fence, spin_ns, SL_COPY_TIMEOUT);

    return r == SLUICE_TIMEOUT ? fail_timeout(gpu) : r;
}

int sl_copy_wait_stream(const struct sl_copy_job *job)
{
    int64_t now = sl_os_now(), deadline = sl_os_deadline(SL_COPY_TIMEOUT), interval = MIN_POLL_INTERVAL;
    int r;

    while ((r = sl_stream_query(job->stream)) == SLUICE_NOT_READY) {
        if (now >= deadline) /* `now` is from before the query: this thread may have been suspended since */
            return fail_timeout(gpu_of(job));
        sl_os_sleep(interval);
        interval = interval * 2 < MAX_POLL_INTERVAL ? interval * 2 : MAX_POLL_INTERVAL;
        now = sl_os_now();
    }
    return r;
}

int sl_copy_signal(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count)
{
    return sl_sync_cuda.signal_inside(gpu_of(job)->pages, job->state, signals, count);
}

/* The stream captures: waits for the end of that. */
static int signal_after_capture(struct sl_copy_job *job, const struct sl_signal *signal, int64_t patience_ns)
{
    int64_t deadline = sl_os_deadline(patience_ns);
    int r = SLUICE_E_CAPTURING;

    while (r == SLUICE_E_CAPTURING && sl_os_now() < deadline) {
        sl_os_sleep(CAPTURE_POLL_INTERVAL);
        r = sl_copy_signal(job, signal, 1);
    }
    return r;
}

/* If the fence cannot be signalled and the stream does not reach the copy in time, the copy counts as failed. */
int sl_copy_signal_fence(struct sl_copy_job *job, const struct sl_fence *fence, int64_t patience_ns)
{
    struct sl_copy_gpu *gpu = gpu_of(job);
    struct sl_signal signal = { fence->word, fence->value };
    int r = sl_copy_signal(job, &signal, 1);

    if (r == SLUICE_E_CAPTURING)
        r = signal_after_capture(job, &signal, patience_ns);
    if (r == 0)
        return 0;
    int ended = sl_copy_wait_stream(job);
    if (ended == SLUICE_TIMEOUT) {
        job->abandoned = true;
        sl_store(&gpu->abandoned, 1, relaxed);
    }
    sl_fence_pool_complete(gpu->fences, fence, ended == SLUICE_TIMEOUT ? r : ended);
    return ended;
}
