/* SPDX-License-Identifier: MIT
 *
 * The caps of sluicesrc follow the device and the format of the channel's frames.
 */
#include <string.h>

#include "picture.h"
#include "source_private.h"

static gboolean same_format(const struct sluice_image *a, const struct sluice_image *b)
{
    return a->pixel_format == b->pixel_format && a->width == b->width && a->height == b->height &&
           a->alpha == b->alpha && memcmp(&a->colour, &b->colour, sizeof a->colour) == 0;
}

static gboolean same_extra(const struct gst_sluice_extra *a, const struct gst_sluice_extra *b)
{
    return a->par_n == b->par_n && a->par_d == b->par_d && a->chroma == b->chroma;
}

GstFlowReturn gst_sluice_src_refuse(GstSluiceSrc *self, const char *format, const char *text)
{
    gchar *sentence = g_strdup_printf(format, self->channel, text);

    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("%s", sentence), (NULL));
    g_free(sentence);
    return GST_FLOW_NOT_NEGOTIATED;
}

GstCaps *gst_sluice_src_caps(GstSluiceSrc *self)
{
    GstCaps *caps = gst_sluice_format_caps(&self->format, self->intake.rate_n, self->intake.rate_d);

    if (self->gpu)
        gst_sluice_gpu_mark_caps(caps);
    return caps;
}

/* Frames may be on another device since the writer was restarted. */
static GstFlowReturn follow_device(GstSluiceSrc *self, const struct sluice_frame *frame)
{
    char device[64] = "host", *why = NULL;

    sluice_frame_device(frame, device, sizeof device);
    if (strcmp(device, self->gpu ? gst_sluice_gpu_name(self->gpu) : "host") == 0)
        return GST_FLOW_OK;
    gst_sluice_gpu_unref(self->gpu);
    self->gpu = NULL;
    self->known = FALSE;
    if (strcmp(device, "host") == 0)
        return GST_FLOW_OK;
    if ((self->gpu = gst_sluice_gpu_use_device(&self->gpu_use, device, &why))) {
        gst_sluice_gpu_announce(self->gpu, GST_ELEMENT(self));
        return GST_FLOW_OK;
    }
    GstFlowReturn flow = gst_sluice_src_refuse(self, "Channel '%s': %s", why);
    g_free(why);
    return flow;
}

static gboolean has_memory_of_format(GstSluiceSrc *self)
{
    GstCaps *caps = gst_sluice_src_caps(self), *all = gst_pad_get_pad_template_caps(GST_BASE_SRC_PAD(self));
    gboolean has = gst_caps_can_intersect(caps, all);

    gst_caps_unref(all);
    gst_caps_unref(caps);
    return has;
}

static GstFlowReturn follow_format(GstSluiceSrc *self, const struct sluice_frame *frame,
                                   const struct sluice_image *image)
{
    struct gst_sluice_extra extra;

    gst_sluice_extra_read(&extra, frame);
    if (self->known && same_format(&self->format.image, image) && same_extra(&self->extra, &extra))
        return GST_FLOW_OK;
    if (!gst_sluice_format_from_image(&self->format, image))
        return gst_sluice_src_refuse(self, "Channel '%s' has %s, which GStreamer does not: convert it before.",
                                     sluice_pixel_format_name(image->pixel_format));
    if (self->gpu && !has_memory_of_format(self))
        return gst_sluice_src_refuse(
            self, "Channel '%s' has %s on a GPU, and GStreamer no such CUDA memory: convert it before.",
            sluice_pixel_format_name(image->pixel_format));
    self->known = TRUE;
    self->extra = extra;
    GST_VIDEO_INFO_PAR_N(&self->format.info) = extra.par_n;
    GST_VIDEO_INFO_PAR_D(&self->format.info) = extra.par_d;
    if (GST_VIDEO_INFO_IS_YUV(&self->format.info))
        GST_VIDEO_INFO_CHROMA_SITE(&self->format.info) = extra.chroma;
    if (gst_base_src_negotiate(GST_BASE_SRC(self)))
        return GST_FLOW_OK;
    if (GST_PAD_IS_FLUSHING(GST_BASE_SRC_PAD(self)))
        return GST_FLOW_FLUSHING;
    GstCaps *caps = gst_sluice_src_caps(self);
    gchar *text = gst_caps_to_string(caps);
    GstFlowReturn flow = gst_sluice_src_refuse(
        self,
        self->gpu ? "What follows does not take the frames of channel '%s', %s: put cudadownload behind sluicesrc."
                  : "What follows does not take the frames of channel '%s', %s: put videoconvert behind sluicesrc.",
        text);
    g_free(text);
    gst_caps_unref(caps);
    return flow;
}

GstFlowReturn gst_sluice_src_look_at(GstSluiceSrc *self, const struct sluice_frame *frame, struct sluice_array *array)
{
    char *why = NULL;
    int r = gst_sluice_picture_find(frame, self->array, array, &why);
    GstFlowReturn flow = r == 0 ? follow_device(self, frame)
                                : gst_sluice_src_refuse(self, "Channel '%s': %s", why ? why : sluice_last_error());

    g_free(why);
    return flow == GST_FLOW_OK ? follow_format(self, frame, &array->image) : flow;
}
