/* SPDX-License-Identifier: MIT
 *
 * The shape of a pixel and the place of chroma: a channel's format has neither, so they are in the metadata of its
 * frames, a JSON object: {"pixel_aspect":"16:9","chroma":"left"}. `sluice play` writes the first one, too.
 */
#ifndef GST_SLUICE_EXTRA_H
#define GST_SLUICE_EXTRA_H

#include <gst/video/video.h>
#include <sluice/sluice.h>

struct gst_sluice_extra {
    gint par_n, par_d;
    GstVideoChromaSite chroma; /* UNKNOWN: not said */
};

/* Square pixels and no place of chroma, unless the metadata says otherwise. */
void gst_sluice_extra_read(struct gst_sluice_extra *extra, const struct sluice_frame *frame);

/* Says what of `info` is not usual, in a frame that is being written: in an object of its own, or in front in the
 * object that is there already. Other metadata stays as it is. */
void gst_sluice_extra_write(struct sluice_frame *frame, const GstVideoInfo *info);

#endif
