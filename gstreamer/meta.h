/* SPDX-License-Identifier: MIT
 *
 * What a frame carries beside its picture, on buffers: the GstCustomMeta "sluice", and times.
 */
#ifndef GST_SLUICE_META_H
#define GST_SLUICE_META_H

#include <gst/gst.h>
#include <sluice/sluice.h>

void gst_sluice_meta_register(void);

/* Fields: sequence, session (uint64), capture-ns (int64), capture-clock (uint), and data (GBytes), the frame's
 * metadata, if it has any. */
void gst_sluice_meta_add(GstBuffer *buffer, const struct sluice_frame *frame);

/* Copies `data`, up to SLUICE_MAX_META bytes, into a frame that is being written. */
void gst_sluice_meta_load(GstBuffer *buffer, struct sluice_frame *frame);

/* How long ago the frame was captured, or committed if that is not known, in ns. */
GstClockTime gst_sluice_frame_age(const struct sluice_frame *frame, gint64 clock_offset_ns);

/* The capture time of something that is `age` old, on CLOCK_MONOTONIC; an age that cannot be right counts as 0. */
gint64 gst_sluice_capture_ns(GstClockTimeDiff age);

#endif
