/* SPDX-License-Identifier: MIT
 *
 * Pixel formats and colour: Sluice's images as caps of GStreamer, and back.
 */
#ifndef GST_SLUICE_FORMAT_H
#define GST_SLUICE_FORMAT_H

#include <gst/video/video.h>
#include <sluice/sluice.h>

/* What both elements take and give. Interlaced pictures are refused by set_caps, with a sentence. */
#define GST_SLUICE_CAPS \
    GST_VIDEO_CAPS_MAKE("{ RGBA, BGRA, RGBx, BGRx, RGB, BGR, GRAY8, GRAY16_LE, YUY2, UYVY, NV12, I420, P010_10LE, " \
                        "Y444, Y42B, I422_10LE, RGBA64_LE }") \
    "; video/x-bayer, format = (string) { rggb, bggr, grbg, gbrg, rggb16le, bggr16le, grbg16le, gbrg16le }, " \
    "width = (int) [ 1, max ], height = (int) [ 1, max ], framerate = (fraction) [ 0/1, max ]"

struct gst_sluice_format {
    GstVideoInfo info; /* GStreamer's own layout. For Bayer patterns that of a grey picture, which is the same */
    gboolean bayer;
    struct sluice_image image; /* pixel format, size, colour, alpha; no planes */
};

/* Describes a channel's image; FALSE if GStreamer has no such format. */
gboolean gst_sluice_format_from_image(struct gst_sluice_format *format, const struct sluice_image *image);

/* FALSE for caps that no channel can have; *why, unless NULL, is then a sentence (free it). */
gboolean gst_sluice_format_from_caps(struct gst_sluice_format *format, GstCaps *caps, char **why);

/* The caps, with a frame rate; 0/1: it varies. */
GstCaps *gst_sluice_format_caps(const struct gst_sluice_format *format, int fps_n, int fps_d);

/* Copies rows from one layout to another; `flip`: the last row becomes the first. */
void gst_sluice_copy_rows(const GstVideoInfo *info, guint8 *to, const gsize *to_offset, const gint *to_stride,
                          const guint8 *from, const gsize *from_offset, const gint *from_stride, gboolean flip);

#endif
