/* SPDX-License-Identifier: MIT
 *
 * Names of "cipd:" channels, and what an observer sees of one. Needs no GPU.
 */
#include <sluice/registry.h>

#include <stdio.h>
#include <string.h>

#include "cuda_link/wire/segment_read.h"
#include "format/format.h"

int sl_cipd_check_name(const char *name)
{
    return sl_cipd_segment_check_name(name, SL_CIPD_NAME);
}

static int fill_format(const struct sl_cipd_format *wire, struct sluice_format *format)
{
    int64_t shape[3] = { wire->height, wire->width, wire->components };

    *format = (struct sluice_format)SLUICE_FORMAT_INIT;
    int r = sl_format_add_tensor(format, "frame", wire->dtype, 3, shape);
    return r == 0 ? sl_format_complete(format) : r;
}

static void fill_info(const struct sl_cipd_segment_reader *consumer, struct sluice_channel_info *info)
{
    const struct sl_cipd_session *session = &consumer->session;
    int64_t time;

    info->session = session->version;
    info->generation = 1;
    info->slots = info->max_slots = session->layout.slots;
    info->policy = SLUICE_DROP;
    info->writable = 1;
    info->memory = SLUICE_MEMORY_CUDA_IPC;
    info->committed = sl_cipd_load_index(consumer->segment.at);
    info->bytes = info->committed * session->metadata.bytes;
    info->now_ns = sl_os_now();
    if (!consumer->ext)
        return;
    info->pid = sl_load(&consumer->ext->pid, relaxed);
    (void)sl_cipd_ext_gpu(consumer->ext, session->version, info->device_uuid);
    uint32_t index = (uint32_t)info->committed;
    if (index && sl_cipd_ext_time(consumer->ext, sl_cipd_index_slot(index, info->slots), index, &time))
        info->last_commit_ns = time;
}

/* Readers are not registered anywhere, so none are reported. */
int sl_cipd_channel_info(const char *name, int64_t timeout_ns, struct sluice_channel_info *info,
                         struct sluice_reader_info *readers, uint32_t capacity)
{
    struct sl_cipd_segment_reader consumer;
    int64_t deadline = sl_os_deadline(timeout_ns), now, next;
    int r = sl_cipd_read_init(&consumer, name);

    (void)readers;
    (void)capacity;
    if (r != 0)
        return r;
    while ((r = sl_cipd_read_connect(&consumer, now = sl_os_now())) == SLUICE_NO_WRITER &&
           consumer.reason != SL_CIPD_REASON_ABSENT && consumer.reason != SL_CIPD_REASON_SHUT &&
           consumer.reason != SL_CIPD_REASON_DEAD && now < deadline) {
        next = sl_cipd_read_next_try(&consumer);
        sl_os_sleep((next < deadline ? next : deadline) - now);
    }
    if (r == 0 && (r = fill_format(&consumer.session.format, &info->format)) == 0) {
        snprintf(info->name, sizeof info->name, "%.*s", SLUICE_MAX_NAME, name);
        snprintf(info->device, sizeof info->device, "cuda");
        info->uid = sl_os_uid();
        fill_info(&consumer, info);
    } else if (r == SLUICE_NO_WRITER) {
        r = consumer.reason == SL_CIPD_REASON_UNSETTLED || consumer.reason == SL_CIPD_REASON_CHANGING
                ? SLUICE_TIMEOUT
                : SLUICE_E_NOT_FOUND;
    }
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    return r;
}
