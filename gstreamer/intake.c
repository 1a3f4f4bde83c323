/* SPDX-License-Identifier: MIT
 *
 * Takes frames from a channel, one after the other: waits so that the pipeline can stop it, follows sessions, and
 * measures the rate over the first frames.
 */
#include "intake.h"

#include <errno.h>

#define RATE_FRAMES 10
#define RATE_TIME   (500 * GST_MSECOND) /* for that many frames, at most */

int gst_sluice_intake_open(struct gst_sluice_intake *self, const struct sluice_reader_params *params)
{
    sluice_reader *handle;
    int r = sluice_reader_open(&handle, params);

    if (r != 0)
        return r;
    self->reader = gst_sluice_reader_new(handle);
    self->in_order = params->mode == SLUICE_IN_ORDER;
    self->poll = gst_poll_new(TRUE);
    gst_poll_fd_init(&self->fd);
    self->fd.fd = sluice_reader_fd(handle);
    gst_poll_add_fd(self->poll, &self->fd);
    gst_poll_fd_ctl_read(self->poll, &self->fd, TRUE);
    g_queue_init(&self->early);
    self->most = 1;
    self->lost = FALSE;
    self->sessions = self->dropped = 0;
    return 0;
}

void gst_sluice_intake_close(struct gst_sluice_intake *self)
{
    g_queue_clear_full(&self->early, gst_sluice_lease_end);
    gst_sluice_reader_stop(&self->reader);
    g_clear_pointer(&self->poll, gst_poll_free);
}

gboolean gst_sluice_intake_has_room(const struct gst_sluice_intake *self)
{
    return (guint)g_atomic_int_get(&self->reader->held) < self->most;
}

static void new_session(struct gst_sluice_intake *self)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };

    if (sluice_reader_stats(self->reader->handle, &stats) != 0)
        return;
    self->most = stats.hold;
    self->clock_offset_ns = stats.clock_offset_ns;
    self->sessions = stats.sessions;
}

/* Waits for a frame, at most `limit`: SLUICE_TIMEOUT. */
static int take(struct gst_sluice_intake *self, GstClockTime limit, struct gst_sluice_lease **lease)
{
    GstClockTime end = limit == GST_CLOCK_TIME_NONE ? limit : gst_util_get_timestamp() + limit;

    for (;;) {
        int r = gst_sluice_lease_take(self->reader, lease);
        if (r == 0 && ((*lease)->frame.flags & SLUICE_FRAME_NEW_SESSION))
            new_session(self);
        if (r == SLUICE_E_LOST) /* it joins again; what buffers still show may be torn */
            self->lost = TRUE;
        else if (r <= 0 || (r == SLUICE_CLOSED && !self->waits))
            return r;
        if (r == SLUICE_AGAIN || r < 0)
            continue;
        GstClockTime now = gst_util_get_timestamp();
        if (end != GST_CLOCK_TIME_NONE && now >= end)
            return SLUICE_TIMEOUT;
        if (gst_poll_wait(self->poll, end == GST_CLOCK_TIME_NONE ? end : end - now) < 0 && errno == EBUSY)
            return GST_SLUICE_FLUSHING;
    }
}

/* Takes up to RATE_FRAMES frames. A reader in order gives them to the pipeline, another one the last. */
static int measure_rate(struct gst_sluice_intake *self)
{
    struct gst_sluice_lease *lease = g_queue_peek_head(&self->early);
    struct sluice_frame first = lease->frame;
    GstClockTime end = gst_util_get_timestamp() + RATE_TIME;
    int r = 0;

    for (guint frames = 1; frames < RATE_FRAMES && g_queue_get_length(&self->early) + 1 < self->most; frames++) {
        GstClockTime now = gst_util_get_timestamp();
        if ((r = take(self, now < end ? end - now : 0, &lease)) != 0)
            break;
        if (!self->in_order) {
            gst_sluice_lease_end(g_queue_pop_head(&self->early));
            self->dropped++;
        }
        g_queue_push_tail(&self->early, lease);
    }
    lease = g_queue_peek_tail(&self->early);
    gst_sluice_rate(&first, &lease->frame, &self->rate_n, &self->rate_d);
    self->measured = TRUE;
    return r == GST_SLUICE_FLUSHING ? r : 0; /* what was taken is shown first */
}

int gst_sluice_intake_next(struct gst_sluice_intake *self, GstClockTime timeout, struct gst_sluice_lease **lease)
{
    int r;

    if (g_queue_is_empty(&self->early)) {
        if ((r = take(self, timeout, lease)) != 0)
            return r;
        g_queue_push_tail(&self->early, *lease);
    }
    if (!self->measured && (r = measure_rate(self)) != 0)
        return r;
    *lease = g_queue_pop_head(&self->early);
    return 0;
}
