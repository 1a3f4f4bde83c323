/* SPDX-License-Identifier: MIT
 *
 * Opens and closes a writer of cuda-link's protocol, and begins its sessions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "format/format.h"
#include "util/result.h"

#define CLOSE_TIMEOUT SLUICE_S          /* how long to wait for work on its slots */
#define FREE_TIMEOUT  (500 * SLUICE_MS) /* how long close waits for memory to be freed */

/* ---- parts of opening ---- */

static int begin_copying(struct sl_cipd_writer *writer)
{
    writer->copier = (struct sl_copier){ .graph = writer->params.graph == SLUICE_CIPD_ON,
                                         .hurried = writer->params.priority != SLUICE_CIPD_OFF };
    return sl_copier_open_with(&writer->copier, writer->device, writer->base.name);
}

static int open_channel(struct sl_cipd_writer *writer, const struct sluice_format *format)
{
    int r = sl_cuda_context_open(writer->device, &writer->context);

    if (r != 0 || (r = sl_cipd_free_queue_create(writer->base.name, &writer->free_queue)) != 0 ||
        (r = sl_cipd_write_open(&writer->producer, writer->base.name)) != 0)
        return r;
    writer->open = true;
    memcpy(writer->producer.gpu, writer->context->uuid, sizeof writer->producer.gpu);
    writer->producer.silent = writer->params.doorbell == SLUICE_CIPD_OFF;
    if ((r = sl_cipd_writer_begin_barriers(writer)) != 0 || (r = begin_copying(writer)) != 0 ||
        (r = sl_cipd_writer_session(writer, format, writer->slots)) != 0)
        return r;
    if (writer->holds)
        sl_cipd_barrier_settle(&writer->holder, sl_os_now());
    sl_cipd_writer_update_checks(writer);
    return sl_cipd_writer_start_ticks(writer);
}

static int check_device(const char *name, const char *device)
{
    const struct sl_device_ops *kind = device ? sl_device_kind(device) : NULL;

    if (kind == &sl_device_cuda)
        return 0;
    return sl_fail(
        SLUICE_E_UNSUPPORTED,
        "channel 'cipd:%s': cuda-link's protocol hands over memory of a GPU alone, not of \"%.60s\": say \"cuda:0\", "
        "or use a channel without \"cipd:\"",
        name, device ? device : "host");
}

/* ---- close ---- */

/* Keeps the error message of a failed open. */
static void finish(struct sl_object *object)
{
    struct sl_cipd_writer *writer = (struct sl_cipd_writer *)object;
    char why[640];

    snprintf(why, sizeof why, "%s", sl_last_error());
    sl_frame_streams_end(&writer->base.streams);
    sl_cipd_writer_stop_ticks(writer);
    if (writer->open)
        sl_cipd_write_shut(&writer->producer);
    bool working = writer->context && sl_cuda_alive(writer->context) == 0 && !sl_cipd_drain(writer, CLOSE_TIMEOUT);
    sl_cipd_writer_end_barriers(writer);
    if (writer->pool) {
        sl_os_sleep(writer->params.close_grace_ns);
        sl_cipd_write_free(&writer->producer);
    }
    sl_cipd_writer_retire(writer, writer->pool, 0);
    (void)sl_copier_close(&writer->copier, working);
    uint32_t left = 0;
    if (writer->free_queue) {
        left = sl_cipd_free_queue_wait(writer->free_queue, FREE_TIMEOUT);
        if (left)
            sl_log(SLUICE_LOG_WARN,
                   "channel 'cipd:%s': the memory of %u sessions could not be given back in time: it goes when "
                   "that is possible, or the process ends",
                   writer->base.name, left);
        sl_cipd_free_queue_release(writer->free_queue);
    }
    if (writer->open)
        sl_cipd_write_close(&writer->producer);
    if (!working) /* otherwise freeing could wait for that work; pools have references of their own */
        sl_cuda_context_close(writer->context);
    sl_mutex_finish(&writer->lock);
    sl_background_await(writer->base.name);
    sl_trace_close();
    sl_fail_text(0, why);
}

/* ---- opening ---- */

int sl_cipd_writer_open(struct sluice_writer *base, const struct sluice_writer_params *params)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);
    struct sluice_format format;
    int r;

    sl_mutex_init(&writer->lock);
    writer->producer = (struct sl_cipd_segment_writer)SL_CIPD_SEGMENT_WRITER_INIT;
    base->object.finish = finish;
    if ((r = sl_cipd_writer_params(base->name, params, &writer->params, &writer->slots)) != 0 ||
        (r = check_device(base->name, params->device)) != 0 || (r = sl_format_load(&format, params->format)) != 0)
        return r;
    writer->wait_ns = params->wait_ns ? params->wait_ns : SLUICE_S;
    writer->resize = params->resize != 0;
    writer->session = sl_os_random();
    snprintf(writer->device, sizeof writer->device, "%s", params->device);
    if (writer->params.barrier_name)
        snprintf(writer->barrier_name, sizeof writer->barrier_name, "%s", writer->params.barrier_name);
    writer->params.barrier_name = NULL;
    return open_channel(writer, &format);
}

/* ---- format, stats ---- */

int sl_cipd_writer_format(struct sluice_writer *base, struct sluice_format *format)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);

    sl_mutex_lock(&writer->lock);
    int r = sl_format_store(format, &writer->format);
    sl_mutex_unlock(&writer->lock);
    return r;
}

void sl_cipd_writer_stats(struct sluice_writer *base, struct sluice_writer_stats *stats)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);

    sl_mutex_lock(&writer->lock);
    *stats = (struct sluice_writer_stats){
        .session = writer->session,
        .committed = writer->published,
        .dropped = writer->dropped,
        .cancelled = writer->cancelled,
        .bytes = writer->bytes,
        .copied_bytes = writer->copied_bytes,
        .waited_ns = writer->waited_ns,
        .slots = writer->slots,
        .generation = writer->generation,
        .graph_sends = writer->graph_frames,
    };
    sl_mutex_unlock(&writer->lock);
}
