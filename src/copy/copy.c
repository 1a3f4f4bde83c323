/* SPDX-License-Identifier: MIT
 *
 * The list of copier kinds.
 */
#include "copy/copy.h"

#include <string.h>

#include "device/device.h"
#include "util/result.h"

static const struct sl_copy_ops *const kinds[] = { &sl_copy_host, &sl_copy_cuda };

int sl_copier_open(struct sl_copier *copier, const char *device, const char *channel, bool graph)
{
    *copier = (struct sl_copier){ .graph = graph };
    return sl_copier_open_with(copier, device, channel);
}

int sl_copier_open_with(struct sl_copier *copier, const char *device, const char *channel)
{
    const struct sl_device_ops *kind = sl_device_kind(device);

    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i]->kind, kind->name) != 0)
            continue;
        copier->ops = kinds[i];
        copier->device = device;
        copier->channel = channel;
        int r = kinds[i]->open(copier);
        if (r != 0)
            copier->ops = NULL;
        return r;
    }
    return sl_fail(SLUICE_E_UNSUPPORTED, "channel '%s': there is no copier for \"%s\"", channel, device);
}

bool sl_copier_close(struct sl_copier *copier, bool working)
{
    bool done = !copier->ops || copier->ops->close(copier, working);

    copier->ops = NULL;
    return done;
}

void sl_copier_forget(struct sl_copier *copier, const void *to, uint64_t bytes)
{
    if (copier->ops && copier->ops->forget)
        copier->ops->forget(copier, to, bytes);
}

int sl_copy_begin(struct sl_copier *copier, struct sl_copy_job *job, struct sluice_stream stream)
{
    job->copier = copier;
    job->state = NULL;
    job->capture_checked = job->held = job->by_graph = false;
    job->uses_slot = job->uses_source = job->signalled = job->abandoned = false;
    job->bytes = 0;
    job->key.plan = 0;
    return copier->ops->begin(job, stream);
}

bool sl_copy_reuse(struct sl_copy_job *job, const struct sl_copy_key *key)
{
    return job->copier->ops->reuse && job->copier->ops->reuse(job, key);
}

int sl_copy_queue(struct sl_copy_job *job, uint32_t side, const struct sl_copy *copy)
{
    return job->copier->ops->queue(job, side, copy);
}

void sl_copy_recheck_capture(struct sl_copy_job *job)
{
    job->capture_checked = false;
}

bool sl_copy_launches(const struct sl_copy_job *job)
{
    return job->copier->ops->launch != NULL;
}

int sl_copy_launch(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count)
{
    return job->copier->ops->launch(job, signals, count);
}

void sl_copy_prepare(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count)
{
    if (job->copier->ops->prepare)
        job->copier->ops->prepare(job->copier, signals, count);
}

void sl_copy_ticket(struct sl_copy_job *job, const struct sl_fence *existing, struct sluice_ticket *ticket)
{
    job->copier->ops->ticket(job, existing, ticket);
}

int sl_copy_finish(struct sl_copy_job *job)
{
    return job->copier->ops->finish(job);
}

int sl_copy_wait_for(struct sl_copy_job *job, const struct sl_copy_event *event)
{
    return job->copier->ops->wait_for(job, event);
}

int sl_copy_record(struct sl_copy_job *job, struct sl_copy_event *event)
{
    return job->copier->ops->record(job, event);
}

bool sl_copy_is_local(const struct sl_copy_job *job)
{
    return job->copier->ops->is_local(job);
}

void sl_copy_end(struct sl_copy_job *job)
{
    job->copier->ops->end(job);
}
