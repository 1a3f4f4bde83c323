/* SPDX-License-Identifier: MIT
 *
 * Pixel formats and colour: Sluice's images as caps of GStreamer, and back.
 */
#include "format.h"

#include <string.h>

/* GStreamer's caps have no field for it; elements pass on one that they do not know. */
#define PREMULTIPLIED "premultiplied-alpha"

struct pair {
    guint32 pixel_format;
    guint8 alpha; /* of what a pipeline sends to a channel */
    GstVideoFormat video;
};

/* A channel whose alpha has no meaning is the format with "x"; so the rows with OPAQUE come first. */
static const struct pair pairs[] = {
    { SLUICE_PIXEL_RGBA, SLUICE_ALPHA_OPAQUE, GST_VIDEO_FORMAT_RGBx },
    { SLUICE_PIXEL_BGRA, SLUICE_ALPHA_OPAQUE, GST_VIDEO_FORMAT_BGRx },
    { SLUICE_PIXEL_RGBA, SLUICE_ALPHA_STRAIGHT, GST_VIDEO_FORMAT_RGBA },
    { SLUICE_PIXEL_BGRA, SLUICE_ALPHA_STRAIGHT, GST_VIDEO_FORMAT_BGRA },
    { SLUICE_PIXEL_RGB24, 0, GST_VIDEO_FORMAT_RGB },
    { SLUICE_PIXEL_BGR24, 0, GST_VIDEO_FORMAT_BGR },
    { SLUICE_PIXEL_GRAY8, 0, GST_VIDEO_FORMAT_GRAY8 },
    { SLUICE_PIXEL_GRAY16, 0, GST_VIDEO_FORMAT_GRAY16_LE },
    { SLUICE_PIXEL_YUYV, 0, GST_VIDEO_FORMAT_YUY2 },
    { SLUICE_PIXEL_UYVY, 0, GST_VIDEO_FORMAT_UYVY },
    { SLUICE_PIXEL_NV12, 0, GST_VIDEO_FORMAT_NV12 },
    { SLUICE_PIXEL_YUV420P, 0, GST_VIDEO_FORMAT_I420 },
    { SLUICE_PIXEL_P010, 0, GST_VIDEO_FORMAT_P010_10LE },
    { SLUICE_PIXEL_YUV444P, 0, GST_VIDEO_FORMAT_Y444 },
    { SLUICE_PIXEL_YUV422P, 0, GST_VIDEO_FORMAT_Y42B },
    { SLUICE_PIXEL_YUV422P10, 0, GST_VIDEO_FORMAT_I422_10LE },
    { SLUICE_PIXEL_RGBA64, SLUICE_ALPHA_STRAIGHT, GST_VIDEO_FORMAT_RGBA64_LE },
};

struct bayer {
    guint32 pixel_format;
    const char *name;
    GstVideoFormat layout;
};

static const struct bayer bayers[] = {
    { SLUICE_PIXEL_BAYER_RGGB8, "rggb", GST_VIDEO_FORMAT_GRAY8 },
    { SLUICE_PIXEL_BAYER_BGGR8, "bggr", GST_VIDEO_FORMAT_GRAY8 },
    { SLUICE_PIXEL_BAYER_GRBG8, "grbg", GST_VIDEO_FORMAT_GRAY8 },
    { SLUICE_PIXEL_BAYER_GBRG8, "gbrg", GST_VIDEO_FORMAT_GRAY8 },
    { SLUICE_PIXEL_BAYER_RGGB16, "rggb16le", GST_VIDEO_FORMAT_GRAY16_LE },
    { SLUICE_PIXEL_BAYER_BGGR16, "bggr16le", GST_VIDEO_FORMAT_GRAY16_LE },
    { SLUICE_PIXEL_BAYER_GRBG16, "grbg16le", GST_VIDEO_FORMAT_GRAY16_LE },
    { SLUICE_PIXEL_BAYER_GBRG16, "gbrg16le", GST_VIDEO_FORMAT_GRAY16_LE },
};

/* ---- colour: both sides use the numbers of H.273; 2 is "unknown" there, 0 here ---- */

static void colour_to_info(GstVideoInfo *info, const struct sluice_colour *colour)
{
    GstVideoColorimetry *c = &info->colorimetry;

    if (colour->primaries)
        c->primaries = gst_video_color_primaries_from_iso(colour->primaries);
    if (colour->transfer)
        c->transfer = gst_video_transfer_function_from_iso(colour->transfer);
    if (!GST_VIDEO_INFO_IS_YUV(info))
        return; /* the matrix and the range of RGB are fixed */
    if (colour->matrix && colour->matrix != SLUICE_MATRIX_RGB)
        c->matrix = gst_video_color_matrix_from_iso(colour->matrix);
    if (colour->range)
        c->range = colour->range == SLUICE_RANGE_FULL ? GST_VIDEO_COLOR_RANGE_0_255 : GST_VIDEO_COLOR_RANGE_16_235;
}

static guint8 known(guint iso)
{
    return iso == 2 ? 0 : (guint8)iso;
}

static void colour_from_info(struct sluice_colour *colour, const GstVideoInfo *info)
{
    const GstVideoColorimetry *c = &info->colorimetry;

    colour->primaries = known(gst_video_color_primaries_to_iso(c->primaries));
    colour->transfer = known(gst_video_transfer_function_to_iso(c->transfer));
    colour->matrix =
        c->matrix == GST_VIDEO_COLOR_MATRIX_RGB ? SLUICE_MATRIX_RGB : known(gst_video_color_matrix_to_iso(c->matrix));
    colour->range = c->range == GST_VIDEO_COLOR_RANGE_0_255    ? SLUICE_RANGE_FULL
                    : c->range == GST_VIDEO_COLOR_RANGE_16_235 ? SLUICE_RANGE_LIMITED
                                                               : SLUICE_RANGE_UNKNOWN;
}

/* ---- channel to caps ---- */

gboolean gst_sluice_format_from_image(struct gst_sluice_format *format, const struct sluice_image *image)
{
    GstVideoFormat video = GST_VIDEO_FORMAT_UNKNOWN;

    memset(format, 0, sizeof *format);
    for (gsize i = 0; i < G_N_ELEMENTS(pairs) && video == GST_VIDEO_FORMAT_UNKNOWN; i++)
        if (pairs[i].pixel_format == image->pixel_format &&
            (pairs[i].alpha != SLUICE_ALPHA_OPAQUE || image->alpha == SLUICE_ALPHA_OPAQUE))
            video = pairs[i].video;
    for (gsize i = 0; i < G_N_ELEMENTS(bayers); i++)
        if (bayers[i].pixel_format == image->pixel_format) {
            video = bayers[i].layout;
            format->bayer = TRUE;
        }
    if (video == GST_VIDEO_FORMAT_UNKNOWN ||
        !gst_video_info_set_format(&format->info, video, image->width, image->height))
        return FALSE;
    colour_to_info(&format->info, &image->colour);
    format->image = *image;
    return TRUE;
}

GstCaps *gst_sluice_format_caps(const struct gst_sluice_format *format, int fps_n, int fps_d)
{
    GstVideoInfo info = format->info;

    if (format->bayer)
        for (gsize i = 0; i < G_N_ELEMENTS(bayers); i++)
            if (bayers[i].pixel_format == format->image.pixel_format)
                return gst_caps_new_simple("video/x-bayer", "format", G_TYPE_STRING, bayers[i].name, "width",
                                           G_TYPE_INT, GST_VIDEO_INFO_WIDTH(&info), "height", G_TYPE_INT,
                                           GST_VIDEO_INFO_HEIGHT(&info), "framerate", GST_TYPE_FRACTION, fps_n, fps_d,
                                           NULL);
    GST_VIDEO_INFO_FPS_N(&info) = fps_n;
    GST_VIDEO_INFO_FPS_D(&info) = fps_d;
    GstCaps *caps = gst_video_info_to_caps(&info);
    if (GST_VIDEO_INFO_HAS_ALPHA(&info) && format->image.alpha == SLUICE_ALPHA_PREMULTIPLIED)
        gst_caps_set_simple(caps, PREMULTIPLIED, G_TYPE_BOOLEAN, TRUE, NULL);
    return caps;
}

/* ---- caps to channel ---- */

static gboolean bayer_from_caps(struct gst_sluice_format *format, const GstStructure *structure)
{
    const char *name = gst_structure_get_string(structure, "format");
    int width, height;

    if (!gst_structure_get_int(structure, "width", &width) || !gst_structure_get_int(structure, "height", &height))
        return FALSE;
    for (gsize i = 0; i < G_N_ELEMENTS(bayers); i++)
        if (g_strcmp0(name, bayers[i].name) == 0) {
            format->bayer = TRUE;
            format->image.pixel_format = bayers[i].pixel_format;
            return gst_video_info_set_format(&format->info, bayers[i].layout, (guint)width, (guint)height);
        }
    return FALSE;
}

static gboolean video_from_caps(struct gst_sluice_format *format, GstCaps *caps)
{
    const GstStructure *structure = gst_caps_get_structure(caps, 0);
    gboolean premultiplied;

    if (!gst_structure_has_field(structure, "chroma-site"))
        GST_VIDEO_INFO_CHROMA_SITE(&format->info) = GST_VIDEO_CHROMA_SITE_UNKNOWN; /* not GStreamer's guess */
    for (gsize i = 0; i < G_N_ELEMENTS(pairs); i++)
        if (pairs[i].video == GST_VIDEO_INFO_FORMAT(&format->info)) {
            format->image.pixel_format = pairs[i].pixel_format;
            format->image.alpha = pairs[i].alpha;
        }
    if (GST_VIDEO_INFO_HAS_ALPHA(&format->info) &&
        gst_structure_get_boolean(structure, PREMULTIPLIED, &premultiplied) && premultiplied)
        format->image.alpha = SLUICE_ALPHA_PREMULTIPLIED;
    colour_from_info(&format->image.colour, &format->info);
    return format->image.pixel_format != SLUICE_PIXEL_NONE;
}

gboolean gst_sluice_format_from_caps(struct gst_sluice_format *format, GstCaps *caps, char **why)
{
    const GstStructure *structure = gst_caps_get_structure(caps, 0);
    gboolean bayer = gst_structure_has_name(structure, "video/x-bayer");

    memset(format, 0, sizeof *format);
    gboolean known = bayer || gst_video_info_from_caps(&format->info, caps);
    if (known && !bayer && GST_VIDEO_INFO_IS_INTERLACED(&format->info)) {
        if (why)
            *why = g_strdup("a channel has no interlaced pictures: put deinterlace before");
        return FALSE;
    }
    if (!known || !(bayer ? bayer_from_caps(format, structure) : video_from_caps(format, caps))) {
        gchar *text = gst_caps_to_string(caps);
        if (why)
            *why = g_strdup_printf("a channel cannot hold %s: convert before, by videoconvert", text);
        g_free(text);
        return FALSE;
    }
    format->image.width = (guint32)GST_VIDEO_INFO_WIDTH(&format->info);
    format->image.height = (guint32)GST_VIDEO_INFO_HEIGHT(&format->info);
    return TRUE;
}

/* ---- rows ---- */

static gint first_component(const GstVideoFormatInfo *format, guint plane)
{
    gint components[GST_VIDEO_MAX_COMPONENTS];

    gst_video_format_info_component(format, plane, components);
    return components[0];
}

void gst_sluice_copy_rows(const GstVideoInfo *info, guint8 *to, const gsize *to_offset, const gint *to_stride,
                          const guint8 *from, const gsize *from_offset, const gint *from_stride, gboolean flip)
{
    const GstVideoFormatInfo *format = info->finfo;

    for (guint plane = 0; plane < GST_VIDEO_INFO_N_PLANES(info); plane++) {
        gint component = first_component(format, plane);
        gint rows = GST_VIDEO_FORMAT_INFO_SCALE_HEIGHT(format, component, GST_VIDEO_INFO_HEIGHT(info));
        gint bytes = GST_VIDEO_FORMAT_INFO_SCALE_WIDTH(format, component, GST_VIDEO_INFO_WIDTH(info)) *
                     GST_VIDEO_FORMAT_INFO_PSTRIDE(format, component);
        for (gint row = 0; row < rows; row++)
            memcpy(to + to_offset[plane] + (gsize)row * (gsize)to_stride[plane],
                   from + from_offset[plane] + (gsize)(flip ? rows - 1 - row : row) * (gsize)from_stride[plane],
                   (gsize)bytes);
    }
}
