/* SPDX-License-Identifier: MIT
 *
 * A frame that is copied from a program's array: the stream waits for the slot's event, so the CPU does not have to.
 */
#include <stdio.h>

#include "channel/arrays.h"
#include "cuda_link/cuda_link.h"
#include "util/result.h"

/* Describes the slot as an array into which the program's can be copied. */
static int describe_slot(struct sl_cipd_writer *writer, const struct sluice_array *from, struct sluice_array *to)
{
    void *address = (void *)(uintptr_t)sl_cipd_next_slot(writer)->address;

    if (from->image.pixel_format) {
        *to = writer->format.arrays[0];
        to->data = address;
        return 0;
    }
    return sl_array_wrap(to, NULL, address, from->dtype, from->ndim, from->shape, NULL);
}

static int plan_copy(struct sl_cipd_writer *writer, const struct sl_copy_job *job, const struct sluice_array *array,
                     struct sl_copy *copy)
{
    struct sluice_array to;
    int r = describe_slot(writer, array, &to);

    if (r == 0 && (r = sl_array_plan(&to, array, copy)) == 0)
        sl_send_cache_remember(&writer->send_cache, writer->generation, 0, array, job, &to, copy);
    return r;
}

static int queue_copy(struct sl_cipd_writer *writer, struct sl_copy_job *job, const struct sluice_array *array,
                      bool known)
{
    struct sl_cipd_slot *slot = sl_cipd_next_slot(writer);
    char *address = (char *)(uintptr_t)slot->address;
    struct sl_copy copy;
    int r;

    if (writer->params.strict_device && !sl_copy_is_local(job))
        return sl_fail(SLUICE_E_WRONG_DEVICE,
                       "channel 'cipd:%s': the array does not lie on \"%s\", and strict_device allows no other",
                       writer->base.name, writer->device);
    bool queued = known && sl_send_cache_repeat(&writer->send_cache, array, address, job);
    bool planned = queued || (known && sl_send_cache_plan(&writer->send_cache, array, address, job, &copy));
    if (!planned && (r = plan_copy(writer, job, array, &copy)) != 0)
        return r;
    if ((r = sl_copy_wait_for(job, &slot->last_work)) != 0)
        return r;
    slot->frame = 0;
    sl_cipd_write_announce(&writer->producer);
    return queued ? 0 : sl_copy_queue(job, 0, &copy);
}

/* Waits for the work that is queued, so that the program may free its memory and the slot can be used again. If the
 * work does not end in time, the pool is replaced before the next frame. */
static int abandon_send(struct sl_cipd_writer *writer, struct sl_copy_job *job, int result)
{
    char why[640];

    snprintf(why, sizeof why, "%s", sl_last_error());
    job->uses_source = job->uses_slot; /* a staged copy uses the slot alone, and is waited for here, too */
    if (sl_copy_finish(job) != 0)
        writer->pool_in_use = true;
    return sl_cipd_count_failure(writer, sl_fail_text(result, why));
}

static int send_array(struct sl_cipd_writer *writer, struct sluice_frame *header, const struct sluice_array *array,
                      bool known, struct sl_copy_job *job, struct sluice_ticket *ticket)
{
    int r;

    SL_STAGE_BEGIN(SEND_COPY);
    r = queue_copy(writer, job, array, known);
    SL_STAGE_END(SEND_COPY);
    if (r == 0)
        r = sl_cipd_record_work(writer, job);
    if (r != 0)
        return abandon_send(writer, job, r);
    sl_cipd_publish(writer, header, job);
    if (ticket && writer->params.block)
        ticket->id = SL_TICKET_DONE;
    else if (ticket)
        sl_copy_ticket(job, NULL, ticket);
    header->capture_ns = header->commit_ns;
    return 0;
}

/* For an array that differs from the last send's. */
static int begin_new_array(struct sl_cipd_writer *writer, const struct sluice_array *arrays, uint32_t count,
                           struct sluice_stream stream, struct sl_copy_job *job)
{
    uint32_t index;
    int r = sl_arrays_match(&writer->format, writer->base.name, arrays, count, true, &index);

    if (r == 0 && (r = sl_cipd_writer_fit_array(writer, &arrays[0])) == 0)
        r = sl_arrays_begin(&writer->copier, SL_COPY_SEND, arrays, count, stream, job);
    return r;
}

int sl_cipd_send(struct sluice_writer *base, struct sluice_frame *header, const struct sluice_array *arrays,
                 uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);
    struct sl_copy_job job;
    int r;

    sl_cipd_write_prefetch(&writer->producer);
    if (writer->token)
        return sl_fail(SLUICE_E_BUSY, "channel 'cipd:%s': a frame is begun: commit or cancel it before a send",
                       writer->base.name);
    if ((r = sl_cipd_check_writer(writer)) != 0)
        return r;
    if (!sl_cipd_finished_is_reported(writer) && (r = sl_cipd_keep_finished(writer, writer->wait_ns, 1)) != 0)
        return sl_cipd_count_failure(writer, r);
    bool known = sl_send_cache_is_known(&writer->send_cache, writer->generation, arrays, count);
    job.needs_fence = ticket && !writer->params.block;
    job.prompt = true;
    r = known ? sl_send_cache_begin(&writer->send_cache, &writer->copier, arrays, stream, &job)
              : begin_new_array(writer, arrays, count, stream, &job);
    if (r != 0)
        return sl_cipd_count_failure(writer, r);
    r = send_array(writer, header, &arrays[0], known, &job, ticket);
    sl_copy_end(&job);
    return r;
}
