/* SPDX-License-Identifier: MIT
 *
 * Send: copies a program's own arrays into a slot.
 */
#include <stdio.h>
#include <string.h>

#include "channel/arrays.h"
#include "format/format.h"
#include "native/writer/writer.h"
#include "util/result.h"

#define CAPTURE_TIMEOUT (10 * SLUICE_S)

/* Checks the shapes. A new generation if an array outgrows this one. */
static int grow_format(struct sl_writer *writer, const struct sluice_array *arrays, uint32_t count,
                       const uint32_t *indices)
{
    struct sluice_format format;
    bool grows = false;
    int r;

    for (uint32_t i = 0; i < count; i++) {
        if ((r = sl_format_check_sent(&writer->format, &arrays[i], indices[i], writer->params.resize != 0)) != 0)
            return r;
        if (sl_format_fits(&writer->format, &arrays[i], indices[i]))
            continue;
        if ((r = sl_format_grow(grows ? &format : &writer->format, &arrays[i], indices[i], &format)) != 0)
            return r;
        grows = true;
    }
    if (!grows)
        return 0;
    if ((r = sl_commit_check_none_begun(writer, "an array outgrows the format, which cannot change before")) != 0)
        return r;
    return sl_generation_make(writer, &format);
}

/* ---- from begin to commit ---- */

/* Plans where and how the array is copied. The record is only written if it must change, as others read it. */
static int plan_copy(struct sl_writer *writer, const struct sl_view *view, const struct sl_copy_job *job,
                     const struct sluice_array *array, uint32_t index, struct sluice_array *to, struct sl_copy *copy)
{
    const struct sluice_array *capacity = &view->format->arrays[index];
    int r = sl_format_frame(view->format, array, index, to);

    if (r != 0)
        return r;
    bool whole = memcmp(to, capacity, sizeof *to) == 0;
    if (!whole || *view->reshaped)
        sl_geometry_from_array(&view->writable_geometries[index], to);
    *view->reshaped = *view->reshaped || !whole;
    to->data = view->address + to->offset;
    to->read_only = 0;
    r = sl_array_plan(to, array, copy);
    if (r == 0 && whole && view->format->array_count == 1)
        sl_send_cache_remember(&writer->send_cache, writer->generation, index, array, job, to, copy);
    return r;
}

static int copy_arrays(struct sl_writer *writer, const struct sluice_frame *frame, struct sl_copy_job *job,
                       const struct sluice_array *arrays, const uint32_t *indices, bool known, uint64_t *bytes)
{
    char *address = writer->slots[frame->slot].address;
    struct sluice_array to;
    struct sl_view view;
    struct sl_copy copy;
    int r;

    *bytes = known ? writer->send_cache.to.nbytes : 0;
    if (known && sl_send_cache_repeat(&writer->send_cache, arrays, address, job))
        return 0;
    if (known && sl_send_cache_plan(&writer->send_cache, arrays, address, job, &copy))
        return sl_copy_queue(job, 0, &copy);
    *bytes = 0;
    if ((r = sl_native_writer_view(&writer->base, frame, &view)) != 0)
        return r;
    for (uint32_t i = 0; i < job->count; i++) {
        if ((r = plan_copy(writer, &view, job, &arrays[i], indices[i], &to, &copy)) != 0 ||
            (r = sl_copy_queue(job, i, &copy)) != 0)
            return r;
        *bytes += to.nbytes;
    }
    return 0;
}

/* Times and metadata that the caller gave. */
static void copy_header(struct sluice_frame *frame, const struct sluice_frame *header)
{
    if (header->capture_ns != 0 || header->capture_clock != SLUICE_CLOCK_MONOTONIC) /* 0: begin's now stays */
        frame->capture_ns = header->capture_ns;
    frame->capture_clock = header->capture_clock;
    frame->meta_size = header->meta_size;
    if (header->meta_size > 0)
        memcpy(frame->meta, header->meta, header->meta_size);
}

/* Publishes nothing. Waits for the work queued on the slot before the slot is reused, and before the failure is
 * returned, after which the program may free its arrays. A stream that has begun to capture meanwhile cannot be waited
 * for before the capture ends. */
static int cancel_send(struct sl_writer *writer, struct sluice_frame *frame, struct sl_copy_job *job, int result)
{
    char why[640];

    snprintf(why, sizeof why, "%s", sl_last_error());
    int r = sl_native_cancel(&writer->base, frame, job->uses_slot ? job->stream : SLUICE_ON_CPU);
    bool captures = r == SLUICE_E_CAPTURING && (r = sl_deferred_cancel_begin(writer, frame->slot, job->stream)) == 0;
    if (r != 0)
        sl_log(SLUICE_LOG_WARN, "channel '%s': slot %u stays out of use: %s", writer->base.name, frame->slot,
               sl_last_error());
    if (job->uses_source && !captures)
        (void)sl_copy_finish(job);
    else if (job->uses_source && !sl_deferred_cancel_wait(writer, frame->slot, CAPTURE_TIMEOUT))
        sl_log(SLUICE_LOG_WARN,
               "channel '%s': a send failed, and copies that it had queued may still read its arrays: its stream "
               "captures a graph since, and does not tell",
               writer->base.name);
    return sl_fail_text(result, why);
}

/* From begin to commit, with a job that has begun. */
static int send_copies(struct sl_writer *writer, struct sl_copy_job *job, struct sluice_frame *header,
                       const struct sluice_array *arrays, const uint32_t *indices, bool known,
                       struct sluice_frame *frame)
{
    uint64_t bytes = 0;
    int r = sl_native_begin(&writer->base, SLUICE_DEFAULT, frame);

    if (r != 0)
        return r;
    if (!known || writer->took_long)
        sl_copy_recheck_capture(job);
    copy_header(frame, header);
    SL_STAGE_BEGIN(SEND_COPY);
    r = copy_arrays(writer, frame, job, arrays, indices, known, &bytes);
    SL_STAGE_END(SEND_COPY);
    if (r == 0)
        r = sl_commit_frame(writer, frame, job->stream, job);
    if (r != 0)
        return cancel_send(writer, frame, job, r);
    sl_mutex_lock(&writer->serve->lock);
    writer->copied_bytes += bytes;
    writer->graph_sends += job->by_graph;
    sl_mutex_unlock(&writer->serve->lock);
    return 0;
}

/* At the first send, which waits for the driver to make a stream and to register a page. Before that it is not known
 * whether this writer will send; most that write in place never do. Fetch has its own copier for the same reason. */
static int open_copier(struct sl_writer *writer)
{
    return sl_copier_open(&writer->copier, writer->device_name, writer->base.name, !writer->params.no_graphs);
}

/* Begins the job; for a known send the checks are skipped. */
static int begin_job(struct sl_writer *writer, const struct sluice_array *arrays, uint32_t count,
                     struct sluice_stream stream, bool known, uint32_t *indices, struct sl_copy_job *job)
{
    int r;

    if (known) {
        indices[0] = writer->send_cache.index;
        return sl_send_cache_begin(&writer->send_cache, &writer->copier, arrays, stream, job);
    }
    if ((r = sl_arrays_match(&writer->format, writer->base.name, arrays, count, true, indices)) != 0 ||
        (!writer->copier.ops && (r = open_copier(writer)) != 0))
        return r;
    return sl_arrays_begin(&writer->copier, SL_COPY_SEND, arrays, count, stream, job);
}

/* The frame's ready word tells when its copies are done. It lives as long as the control page, as does slot_seq, which
 * tells which frame is in the slot. */
static void give_ticket(struct sl_writer *writer, const struct sluice_frame *frame, struct sl_copy_job *job,
                        struct sluice_ticket *ticket)
{
    const struct sl_words *words = &writer->ring.words;
    struct sl_fence fence = { .word = &words->ready[frame->slot],
                              .value = frame->sequence,
                              .slot_seq = &words->slot_seq[frame->slot] };

    sl_copy_ticket(job, sl_copy_launches(job) ? &fence : NULL, ticket);
}

int sl_native_send(struct sluice_writer *base, struct sluice_frame *header, const struct sluice_array *arrays,
                   uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket)
{
    struct sl_writer *writer = sl_writer_of(base);
    uint32_t indices[SLUICE_MAX_ARRAYS];
    struct sluice_frame frame;
    struct sl_copy_job job;
    bool known = sl_send_cache_is_known(&writer->send_cache, writer->generation, arrays, count);
    int r;

    if (header->meta_size > SLUICE_MAX_META || (header->meta_size > 0 && !header->meta))
        return sl_fail(SLUICE_E_LIMIT, "channel '%s': %u bytes of metadata%s, %d fit", writer->base.name,
                       header->meta_size, header->meta ? "" : " at NULL", SLUICE_MAX_META);
    if (!sl_copy_host_accessible(header->meta, header->meta_size))
        return sl_fail(
            SLUICE_E_INVALID,
            "channel '%s': the CPU cannot access the %u bytes of metadata at %p: they are a GPU's, or were freed; copy "
            "them to host memory first",
            writer->base.name, header->meta_size, header->meta);
    job.needs_fence = false; /* see give_ticket */
    job.prompt = true;
    sl_begin_prefetch(writer);
    if ((!known && stream.id != SLUICE_ON_CPU.id &&
         (r = sl_stream_refused(writer->base.name, writer->in_flight.sync->check(writer->in_flight.pages, stream))) !=
             0) ||
        (r = begin_job(writer, arrays, count, stream, known, indices, &job)) != 0)
        return sl_writer_explain_failure(writer, r);
    if ((known || (r = grow_format(writer, arrays, count, indices)) == 0) &&
        (r = send_copies(writer, &job, header, arrays, indices, known, &frame)) == 0) {
        if (ticket)
            give_ticket(writer, &frame, &job, ticket);
        sl_commit_prepare_next(writer, &job);
        header->sequence = frame.sequence;
        header->session = frame.session;
        header->capture_ns = frame.capture_ns;
        header->commit_ns = frame.commit_ns;
        header->slot = frame.slot;
        header->generation = frame.generation;
    }
    sl_copy_end(&job);
    return r;
}
