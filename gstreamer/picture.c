/* SPDX-License-Identifier: MIT
 *
 * A frame of a channel as a buffer: in place if what follows can read it there, else a copy.
 */
#include "picture.h"

#include "meta.h"

int gst_sluice_picture_find(const struct sluice_frame *frame, const char *name, struct sluice_array *array, char **why)
{
    int r = sluice_frame_array(frame, name, array);

    for (guint32 i = 1; r == 0 && !name && !array->image.pixel_format && i < frame->array_count; i++)
        r = sluice_frame_array_at(frame, i, array);
    if (r == 0 && !array->image.pixel_format) {
        *why = name ? g_strdup_printf(
                          "its array '%s' is a tensor, not an image: choose another one by the property array", name)
                    : g_strdup("it has tensors only, no image: sluicesrc shows images");
        return SLUICE_E_FORMAT;
    }
    return r;
}

struct layout {
    gsize offset[GST_VIDEO_MAX_PLANES];
    gint stride[GST_VIDEO_MAX_PLANES];
};

static gboolean layout_of(const struct sluice_array *array, const GstVideoInfo *info, struct layout *layout)
{
    gboolean same = array->nbytes >= GST_VIDEO_INFO_SIZE(info);

    for (guint i = 0; i < array->image.plane_count; i++) {
        layout->offset[i] = array->image.planes[i].offset;
        layout->stride[i] = (gint)array->image.planes[i].pitch;
        same = same && layout->offset[i] == GST_VIDEO_INFO_PLANE_OFFSET(info, i) &&
               layout->stride[i] == GST_VIDEO_INFO_PLANE_STRIDE(info, i);
    }
    return same;
}

static GstBuffer *in_place(struct gst_sluice_lease *lease, const struct sluice_array *array,
                           const struct gst_sluice_format *format, struct layout *layout)
{
    const GstVideoInfo *info = &format->info;
    GstBuffer *buffer = gst_buffer_new();

    gst_sluice_meta_add(buffer, &lease->frame);
    gst_buffer_append_memory(buffer, gst_memory_new_wrapped(GST_MEMORY_FLAG_READONLY, array->data, array->nbytes, 0,
                                                            array->nbytes, lease, gst_sluice_lease_end));
    if (!format->bayer)
        gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(info),
                                       (guint)GST_VIDEO_INFO_WIDTH(info), (guint)GST_VIDEO_INFO_HEIGHT(info),
                                       array->image.plane_count, layout->offset, layout->stride);
    return buffer;
}

static GstBuffer *copy(struct gst_sluice_lease *lease, const struct sluice_array *array, const GstVideoInfo *info,
                       const struct layout *layout)
{
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, GST_VIDEO_INFO_SIZE(info), NULL);
    GstMapInfo map;

    gst_sluice_meta_add(buffer, &lease->frame);
    gst_buffer_map(buffer, &map, GST_MAP_WRITE);
    gst_sluice_copy_rows(info, map.data, info->offset, info->stride, array->data, layout->offset, layout->stride,
                         array->image.row_order == SLUICE_BOTTOM_UP);
    gst_buffer_unmap(buffer, &map);
    gst_sluice_lease_end(lease);
    return buffer;
}

GstBuffer *gst_sluice_picture_wrap(struct gst_sluice_lease *lease, const struct sluice_array *array,
                                   const struct gst_sluice_format *format, gboolean room, gboolean any_layout,
                                   gboolean *copied)
{
    struct layout layout = { 0 };
    gboolean same = layout_of(array, &format->info, &layout);

    *copied = !room || array->image.row_order == SLUICE_BOTTOM_UP || !(same || (any_layout && !format->bayer));
    return *copied ? copy(lease, array, &format->info, &layout) : in_place(lease, array, format, &layout);
}
