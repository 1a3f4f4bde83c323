/* SPDX-License-Identifier: MIT
 *
 * Takes frames from a channel, one after the other.
 */
#ifndef GST_SLUICE_INTAKE_H
#define GST_SLUICE_INTAKE_H

#include "lease.h"
#include "rate.h"

#define GST_SLUICE_FLUSHING 1000 /* beside the results of Sluice: the pipeline wants the thread back */

struct gst_sluice_intake {
    struct gst_sluice_reader *reader;
    gboolean in_order, waits; /* for the next writer, once one has closed the channel */
    gboolean measured;        /* the rate is known, or was given */
    gint rate_n, rate_d;      /* 0/1: it varies */
    gboolean lost;            /* set when the writer evicted it; whoever tells of it clears it */
    guint most;               /* frames that the channel lets it hold */
    guint64 sessions;         /* of writers */
    guint64 dropped;          /* frames that were taken for the rate alone */
    gint64 clock_offset_ns;   /* the writer's clock less ours */
    GstPoll *poll;            /* flushing: next returns */
    GstPollFD fd;
    GQueue early; /* leases of frames that the rate was measured on */
};

/* Opens the reader. `waits`, `measured` and the rate are the caller's. Returns: as sluice_reader_open. */
int gst_sluice_intake_open(struct gst_sluice_intake *self, const struct sluice_reader_params *params);
void gst_sluice_intake_close(struct gst_sluice_intake *self);

/* May one more frame stay in place beside the next one? */
gboolean gst_sluice_intake_has_room(const struct gst_sluice_intake *self);

/* Waits for the next frame, at most `timeout`. Returns: 0; SLUICE_TIMEOUT, SLUICE_CLOSED, GST_SLUICE_FLUSHING; or a
 * failure of sluice_reader_acquire. */
int gst_sluice_intake_next(struct gst_sluice_intake *self, GstClockTime timeout, struct gst_sluice_lease **lease);

#endif
