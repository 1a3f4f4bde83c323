/* SPDX-License-Identifier: MIT
 *
 * Words that are raised behind copies, and waits for them. Each ends after SL_COPY_PATIENCE: what is queued before a copy may never
 * end.
 */
#include "copy/cuda.h"
#include "util/result.h"

#define CAPTURE_LOOK (SLUICE_MS / 2)
#define FIRST_LOOK (SLUICE_MS / 50)
#define LAST_LOOK SLUICE_MS

static struct sl_copy_gpu *gpu_of(const struct sl_copy_job *job)
{
    return job->copier->state;
}

static int too_late(const struct sl_copy_gpu *gpu)
{
    return sl_fail(SLUICE_TIMEOUT,
                   "channel '%s': the stream did not get to the copy within %d s, for the work that "
                   "is queued before it",
                   gpu->copier->channel, (int)(SL_COPY_PATIENCE / SLUICE_S));
}

int sl_copy_wait(struct sl_copy_gpu *gpu, const struct sl_mark *mark, int64_t spin_ns)
{
    int r = sl_desk_wait(gpu->desk, mark, spin_ns, SL_COPY_PATIENCE);

    return r == SLUICE_TIMEOUT ? too_late(gpu) : r;
}

int sl_copy_wait_stream(const struct sl_copy_job *job)
{
    int64_t now = sl_os_now(), deadline = sl_os_deadline(SL_COPY_PATIENCE), look = FIRST_LOOK;
    int r;

    while ((r = sl_stream_query(job->stream)) == SLUICE_NOT_READY) {
        if (now >= deadline) /* `now` is from before the query: this thread may have been suspended since */
            return too_late(gpu_of(job));
        sl_os_sleep(look);
        look = look * 2 < LAST_LOOK ? look * 2 : LAST_LOOK;
        now = sl_os_now();
    }
    return r;
}

int sl_copy_raise_words(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count)
{
    return sl_sync_cuda.signal_inside(gpu_of(job)->pages, job->state, signals, count);
}

/* The stream captures: waits for the end of that. */
static int raise_later(struct sl_copy_job *job, const struct sl_signal *signal, int64_t patience_ns)
{
    int64_t deadline = sl_os_deadline(patience_ns);
    int r = SLUICE_E_CAPTURING;

    while (r == SLUICE_E_CAPTURING && sl_os_now() < deadline) {
        sl_os_sleep(CAPTURE_LOOK);
        r = sl_copy_raise_words(job, signal, 1);
    }
    return r;
}

/* Without its word a copy that the stream has not got to in time counts as failed, for nobody will ever tell more of it. */
int sl_copy_raise(struct sl_copy_job *job, const struct sl_mark *mark, int64_t patience_ns)
{
    struct sl_copy_gpu *gpu = gpu_of(job);
    struct sl_signal signal = { mark->word, mark->value };
    int r = sl_copy_raise_words(job, &signal, 1);

    if (r == SLUICE_E_CAPTURING)
        r = raise_later(job, &signal, patience_ns);
    if (r == 0)
        return 0;
    int ended = sl_copy_wait_stream(job);
    if (ended == SLUICE_TIMEOUT) {
        job->left = true;
        sl_store(&gpu->left, 1, relaxed);
    }
    sl_desk_settle(gpu->desk, mark, ended == SLUICE_TIMEOUT ? r : ended);
    return ended;
}
