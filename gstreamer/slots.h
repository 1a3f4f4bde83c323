/* SPDX-License-Identifier: MIT
 *
 * A channel that is written by a pipeline: its slots as memory of GStreamer.
 *
 * A slot is lent before its frame is committed, and may be read long after: a decoder refers to pictures that it gave
 * away. So a reader of the same channel takes each frame that was rendered in place, and releases it when the memory is
 * freed.
 */
#ifndef GST_SLUICE_SLOTS_H
#define GST_SLUICE_SLOTS_H

#include "format.h"

struct gst_sluice_layout {
    struct gst_sluice_format format;
    gsize size; /* bytes of a buffer, padding included */
    gsize offset[GST_VIDEO_MAX_PLANES];
    gint stride[GST_VIDEO_MAX_PLANES];
};

struct gst_sluice_channel;
struct gst_sluice_gpu;

/* `layout` as pitch_align has it: fills in size, offsets and strides. FALSE: sluice_last_error says why. */
gboolean gst_sluice_layout_usual(struct gst_sluice_layout *layout, guint pitch_align);

/* The same by GStreamer's own rules, with a decoder's padding (NULL: none). */
void gst_sluice_layout_padded(struct gst_sluice_layout *layout, const GstVideoAlignment *align);

/* Places the planes of a format's only image, and completes it. Returns: as sluice_format_complete. */
int gst_sluice_layout_place(struct sluice_format *format, const gsize *offset, const gint *stride);

/* Opens the channel; `gpu`: on params->device, NULL: on the host. NULL: sluice_last_error says why. */
struct gst_sluice_channel *gst_sluice_channel_open(const struct sluice_writer_params *params,
                                                   const struct gst_sluice_layout *layout, struct gst_sluice_gpu *gpu);
struct gst_sluice_channel *gst_sluice_channel_ref(struct gst_sluice_channel *channel);
void gst_sluice_channel_unref(struct gst_sluice_channel *channel);

/* Ends the channel: readers see it close. Memory that was lent stays valid until it is freed. */
void gst_sluice_channel_close(struct gst_sluice_channel *channel);

/* Frames have this layout from now on. Slots that are lent stay valid, and are copied. Returns: as
 * sluice_writer_reformat. */
int gst_sluice_channel_set_layout(struct gst_sluice_channel *channel, const struct gst_sluice_layout *layout);

/* What the frames' metadata says from now on; see extra.h. */
void gst_sluice_channel_describe(struct gst_sluice_channel *channel, const GstVideoInfo *info);

/* Memory in a free slot, without waiting; NULL if there is none, or the layout is another one by now. `stream`: the
 * GstCudaStream that will fill it on a GPU; NULL: the default one. */
GstMemory *gst_sluice_channel_lend(struct gst_sluice_channel *channel, const struct gst_sluice_layout *layout,
                                   gpointer stream);

/* Publishes a buffer whose memory is a slot, in place. FALSE: copy it. */
gboolean gst_sluice_channel_commit(struct gst_sluice_channel *channel, GstBuffer *buffer, gint64 capture_ns);

/* Copies a buffer into a slot and publishes it, without waiting. `last`: if there is no slot, the frame counts as
 * dropped. Returns: as sluice_writer_begin and commit; SLUICE_E_FORMAT for a buffer that cannot be read. */
int gst_sluice_channel_copy(struct gst_sluice_channel *channel, GstBuffer *buffer, gint64 capture_ns, gboolean last);

/* Waits for a free slot. Returns: as sluice_writer_wait. */
int gst_sluice_channel_wait(struct gst_sluice_channel *channel, gint64 timeout_ns);

gboolean gst_sluice_channel_stats(struct gst_sluice_channel *channel, struct sluice_writer_stats *stats);

#endif
