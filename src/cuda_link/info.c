/* SPDX-License-Identifier: MIT
 *
 * The state of a cuda-link channel, as seen by its writer, a reader, or an observer of the segment.
 */
#include <stdio.h>
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "util/result.h"

#define LOOK_PATIENCE (20 * SLUICE_MS)

static void fill_format(struct sluice_cipd_info *info, const struct sl_cipd_metadata *metadata,
                        const struct sl_cipd_format *format, const struct sluice_cipd_reader_params *params)
{
    info->width = metadata->width;
    info->height = metadata->height;
    info->components = metadata->components;
    info->flags = metadata->flags;
    info->frame_bytes = metadata->bytes;
    info->dtype = format->dtype;
    info->order = sl_cipd_order_of(format, params);
    info->order_declared = format->order == SL_CIPD_ORDER_BGRA || format->order == SL_CIPD_ORDER_OTHER;
    info->mono_alpha = sl_cipd_is_mono_alpha(format, params);
}

static void fill_slots(struct sluice_cipd_info *info, const struct sl_cipd_pool *pool)
{
    info->slot_count = pool->count;
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct sl_cipd_slot *slot = &pool->slots[i];
        info->slots[i] = (struct sluice_cipd_slot_info){
            .memory_open = 1,
            .event_open = slot->signal != NULL,
            .frames = sl_load(&slot->frames, relaxed),
            .last_wait_ns = (int64_t)sl_load(&slot->wait_ns, relaxed),
            .address = slot->address,
        };
    }
}

static void fill_segment(struct sluice_cipd_info *info, const struct sl_cipd_segment *segment,
                         const struct sl_cipd_private_ext *extra, uint64_t version)
{
    info->segment_bytes = (uint32_t)segment->size;
    info->version = version;
    info->index = sl_cipd_load_index(segment->at);
    info->by_sluice = extra && sl_cipd_ext_is_live(extra, version);
    if (info->by_sluice)
        info->writer_pid = sl_load(&extra->pid, relaxed);
}

/* ---- a writer's ---- */

void sl_cipd_writer_info(struct sl_cipd_writer *writer, struct sluice_cipd_info *info)
{
    struct sl_cipd_format format;

    info->state = SLUICE_CIPD_RUNNING;
    sl_mutex_lock(&writer->lock);
    snprintf(info->name, sizeof info->name, "%s", writer->base.name);
    if (sl_cipd_format_decode(&writer->metadata, &format) == 0)
        fill_format(info, &writer->metadata, &format, NULL);
    fill_segment(info, &writer->producer.segment, writer->producer.ext, writer->producer.version);
    fill_slots(info, writer->pool);
    info->last_frame_ns = writer->last_frame_ns;
    info->published = writer->published;
    info->published_bytes = writer->bytes;
    info->barrier_skips = writer->skips;
    info->failed = writer->failed;
    info->graph_frames = writer->graph_frames;
    info->relinked = writer->relinked;
    info->holds_barrier = writer->holds && writer->holder.held;
    info->left_behind = sl_cipd_free_queue_count(writer->free_queue);
    if (writer->tick_result)
        snprintf(info->why, sizeof info->why, "%s", writer->tick_error);
    sl_mutex_unlock(&writer->lock);
}

/* ---- a reader's ---- */

static uint32_t state_of(enum sl_cipd_reason reason)
{
    switch (reason) {
    case SL_CIPD_REASON_SHUT: return SLUICE_CIPD_SHUT;
    case SL_CIPD_REASON_NOT_TRIED:
    case SL_CIPD_REASON_ABSENT:
    case SL_CIPD_REASON_DEAD: return SLUICE_CIPD_ABSENT;
    default: return SLUICE_CIPD_UNFINISHED;
    }
}

/* A lost name counts at once: a writer of cuda-link's that is killed loses it to Python's resource tracker. */
bool sl_cipd_reader_stalled(const struct sl_cipd_reader *reader, int64_t now, char *why, size_t size)
{
    const struct sl_cipd_segment_reader *consumer = &reader->consumer;
    int64_t quiet = now - consumer->frame_ns;

    if (consumer->orphan)
        snprintf(why, size,
                 "no frame for %lld ms, and its segment has lost its name: most likely its writer has died; the next "
                 "one is waited for",
                 (long long)(quiet / SLUICE_MS));
    else if (reader->cipd.stall_ns > 0 && quiet > reader->cipd.stall_ns)
        snprintf(why, size,
                 "no frame for %lld ms: its writer pauses, hangs, or was killed (the protocol does not tell)",
                 (long long)(quiet / SLUICE_MS));
    else
        return false;
    return true;
}

static void fill_reader(struct sl_cipd_reader *reader, struct sluice_cipd_info *info)
{
    const struct sl_cipd_segment_reader *consumer = &reader->consumer;

    if (!reader->link) {
        info->state = state_of(consumer->reason);
        snprintf(info->why, sizeof info->why, "%.255s",
                 consumer->reason == SL_CIPD_REASON_HANDLES_FAILED ? reader->unopened : sl_cipd_read_why(consumer));
        return;
    }
    info->state = sl_cipd_reader_stalled(reader, sl_os_now(), info->why, sizeof info->why) ? SLUICE_CIPD_STALLED
                                                                                           : SLUICE_CIPD_RUNNING;
    fill_format(info, &consumer->session.metadata, &consumer->session.format, &reader->cipd);
    fill_segment(info, &consumer->segment, consumer->ext, consumer->session.version);
    fill_slots(info, reader->link->pool);
}

void sl_cipd_reader_info(struct sl_cipd_reader *reader, struct sluice_cipd_info *info)
{
    snprintf(info->name, sizeof info->name, "%s", reader->base.name);
    sl_mutex_lock(&reader->lock);
    fill_reader(reader, info);
    sl_mutex_unlock(&reader->lock);
    uint64_t sessions = sl_load(&reader->sessions, relaxed);
    info->last_frame_ns = (int64_t)sl_load(&reader->frame_ns, relaxed);
    info->taken = sl_load(&reader->taken, relaxed);
    info->no_frame = sl_load(&reader->no_frame, relaxed);
    info->timeouts = sl_load(&reader->timeouts, relaxed);
    info->reconnects = sessions ? sessions - 1 : 0;
    info->overruns = sl_load(&reader->overruns, relaxed);
    info->repeated = sl_load(&reader->repeated, relaxed);
    info->dropped = sl_load(&reader->dropped, relaxed);
    info->spin_hits = sl_load(&reader->spin_hits, relaxed);
    info->latency_ns = sl_load(&reader->latency_ns, relaxed);
    info->latency_total_ns = sl_load(&reader->latency_total_ns, relaxed);
}

/* ---- by the segment alone ---- */

int sl_cipd_inspect(const char *name, struct sluice_cipd_info *info)
{
    struct sl_cipd_segment_reader consumer;
    int r;

    if (strncmp(name, "cipd:", 5) == 0)
        name += 5;
    if ((r = sl_cipd_read_init(&consumer, name)) != 0)
        return r;
    int64_t deadline = sl_os_deadline(LOOK_PATIENCE), now;
    while ((r = sl_cipd_read_connect(&consumer, now = sl_os_now())) == SLUICE_NO_WRITER &&
           (consumer.reason == SL_CIPD_REASON_UNSETTLED || consumer.reason == SL_CIPD_REASON_CHANGING) &&
           now < deadline)
        sl_os_sleep(SLUICE_MS);
    snprintf(info->name, sizeof info->name, "%s", name);
    if (r == 0) {
        info->state = SLUICE_CIPD_RUNNING;
        info->slot_count = consumer.session.layout.slots;
        fill_format(info, &consumer.session.metadata, &consumer.session.format, NULL);
        fill_segment(info, &consumer.segment, consumer.ext, consumer.session.version);
        sl_cipd_inspect_frames(&consumer, info);
    } else if (consumer.reason == SL_CIPD_REASON_ABSENT) {
        r = sl_fail(SLUICE_E_NOT_FOUND, "there is no channel 'cipd:%s'", name);
    } else if (consumer.reason != SL_CIPD_REASON_REFUSED && consumer.reason != SL_CIPD_REASON_FAILED) {
        info->state = state_of(consumer.reason);
        snprintf(info->why, sizeof info->why, "%s", sl_cipd_read_why(&consumer));
        r = 0;
    }
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    return r;
}

struct listing {
    int (*each)(void *user, const char *name);
    void *user;
};

static int list_one(void *context, const char *name)
{
    const struct listing *listing = context;

    return listing->each(listing->user, name);
}

int sl_cipd_list(int (*each)(void *user, const char *name), void *user)
{
    struct listing listing = { each, user };

    return sl_cipd_segment_list(list_one, &listing);
}
