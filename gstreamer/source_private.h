/* SPDX-License-Identifier: MIT
 *
 * What the files of sluicesrc share.
 */
#ifndef GST_SLUICE_SOURCE_PRIVATE_H
#define GST_SLUICE_SOURCE_PRIVATE_H

#include "extra.h"
#include "gpu.h"
#include "intake.h"
#include "source.h"

enum on_close { ON_CLOSE_EOS, ON_CLOSE_WAIT };

struct _GstSluiceSrc {
    GstPushSrc parent;

    /* properties, under the object lock */
    gchar *channel, *array;
    gint mode, on_close, fps_n, fps_d; /* 0/1: measured */
    guint hold;
    guint64 timeout;
    guint64 in_place, copied, missed; /* stats */

    /* from start to stop, on the streaming thread */
    struct gst_sluice_intake intake;
    struct gst_sluice_format format;
    struct gst_sluice_extra extra;
    struct gst_sluice_gpu *gpu; /* where the last frame was; NULL: in host memory */
    gboolean known, any_layout;
    GstClockTime last_pts;

    struct gst_sluice_gpu_use gpu_use; /* any thread */
};

/* source_format.c */
GstCaps *gst_sluice_src_caps(GstSluiceSrc *self); /* of the last frame */
/* Posts an error: `format` gets the channel's name, then `text`. */
GstFlowReturn gst_sluice_src_refuse(GstSluiceSrc *self, const char *format, const char *text);
/* Finds the picture of a frame, and follows its device and format. */
GstFlowReturn gst_sluice_src_look_at(GstSluiceSrc *self, const struct sluice_frame *frame, struct sluice_array *array);

/* source_properties.c */
void gst_sluice_src_install_properties(GObjectClass *class);

#endif
