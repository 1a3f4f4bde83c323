/* SPDX-License-Identifier: MIT
 *
 * What a writer checks now and then on the service thread: that its segment is still the channel's; and its activation
 * barriers.
 */
#include <stdio.h>
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "util/result.h"

#define TICK_INTERVAL (500 * SLUICE_MS)

/* ---- the segment ---- */

/* On the service thread, under its lock. */
static void tick(struct sl_watch *watch)
{
    struct sl_cipd_writer *writer = (struct sl_cipd_writer *)((char *)watch - offsetof(struct sl_cipd_writer, tick));

    sl_mutex_lock(&writer->lock);
    int r = sl_cipd_write_refresh(&writer->producer);
    if (r == 1) {
        writer->relinked++;
        sl_log(SLUICE_LOG_INFO, "channel 'cipd:%s': another program took its segment's name away; it was given back",
               writer->base.name);
    } else if (r < 0 && writer->tick_result == 0) {
        snprintf(writer->tick_error, sizeof writer->tick_error, "%s", sl_last_error());
        sl_log(SLUICE_LOG_ERROR, "channel 'cipd:%s': %s", writer->base.name, writer->tick_error);
    }
    writer->tick_result = r < 0 ? r : 0;
    sl_store(&writer->tick_failed, r < 0, release);
    if (writer->holds)
        sl_cipd_barrier_refresh(&writer->holder);
    sl_mutex_unlock(&writer->lock);
    sl_service_set_deadline(watch, sl_os_deadline(TICK_INTERVAL));
}

int sl_cipd_writer_tick_result(struct sl_cipd_writer *writer)
{
    char text[sizeof writer->tick_error];

    sl_mutex_lock(&writer->lock);
    int r = writer->tick_result;
    memcpy(text, writer->tick_error, sizeof text);
    sl_mutex_unlock(&writer->lock);
    return r != 0 ? sl_fail_text(r, text) : 0;
}

int sl_cipd_writer_start_ticks(struct sl_cipd_writer *writer)
{
    writer->tick = (struct sl_watch){ .fd = -1, .timer = tick, .deadline = sl_os_deadline(TICK_INTERVAL) };
    sl_service_lock();
    int r = sl_service_add(&writer->tick);
    sl_service_unlock();
    return r;
}

void sl_cipd_writer_stop_ticks(struct sl_cipd_writer *writer)
{
    sl_service_lock();
    sl_service_remove(&writer->tick);
    sl_service_unlock();
}

/* ---- barriers ---- */

void sl_cipd_writer_update_checks(struct sl_cipd_writer *writer)
{
    writer->checks = writer->params.barrier != SLUICE_CIPD_OFF && !(writer->holds && writer->holder.held);
}

int sl_cipd_writer_begin_barriers(struct sl_cipd_writer *writer)
{
    const char *name = writer->barrier_name[0] ? writer->barrier_name : NULL;
    int r;

    sl_cipd_writer_update_checks(writer);
    if (writer->checks) {
        if ((r = sl_cipd_barrier_init(&writer->checker, name)) != 0)
            return r;
        writer->checker.stale_ns = writer->params.barrier_stale_ns;
        if (sl_cipd_shm_watch_join(&writer->watched, writer->checker.name))
            writer->checker.changes = &writer->watched.changes;
    }
    if (!writer->params.holds_barrier)
        return 0;
    if ((r = sl_cipd_barrier_init(&writer->holder, name)) != 0)
        return r;
    writer->holder.settle = writer->params.settle_frames;
    writer->holds = true;
    if (sl_cipd_barrier_enter(&writer->holder, sl_os_now()) != 0)
        sl_log(SLUICE_LOG_WARN, "channel 'cipd:%s': the barrier stays down: %s", writer->base.name, sl_last_error());
    sl_cipd_writer_update_checks(writer);
    return 0;
}

void sl_cipd_writer_end_barriers(struct sl_cipd_writer *writer)
{
    if (writer->holds)
        sl_cipd_barrier_finish(&writer->holder, sl_os_now());
    if (writer->params.barrier != SLUICE_CIPD_OFF && writer->checker.name[0])
        sl_cipd_barrier_finish(&writer->checker, sl_os_now());
    if (writer->checker.changes)
        sl_cipd_shm_watch_leave(&writer->watched);
}
