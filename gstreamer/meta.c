/* SPDX-License-Identifier: MIT
 *
 * What a frame carries beside its picture, on buffers: the GstCustomMeta "sluice", and times.
 */
#include "meta.h"

#include <string.h>
#include <time.h>

#define MAX_AGE (10 * GST_SECOND) /* what is older was captured by another clock */

/* ---- metadata ---- */

void gst_sluice_meta_register(void)
{
    static const gchar *no_tags[] = { NULL };

    gst_meta_register_custom("sluice", no_tags, NULL, NULL, NULL);
}

void gst_sluice_meta_add(GstBuffer *buffer, const struct sluice_frame *frame)
{
    GstStructure *fields = gst_custom_meta_get_structure(gst_buffer_add_custom_meta(buffer, "sluice"));

    gst_structure_set(fields, "sequence", G_TYPE_UINT64, frame->sequence, "session", G_TYPE_UINT64, frame->session,
                      "capture-ns", G_TYPE_INT64, frame->capture_ns, "capture-clock", G_TYPE_UINT, frame->capture_clock,
                      NULL);
    if (frame->meta_size) {
        GBytes *data = g_bytes_new(frame->meta, frame->meta_size);
        gst_structure_set(fields, "data", G_TYPE_BYTES, data, NULL);
        g_bytes_unref(data);
    }
}

void gst_sluice_meta_load(GstBuffer *buffer, struct sluice_frame *frame)
{
    GstCustomMeta *meta = gst_buffer_get_custom_meta(buffer, "sluice");
    GBytes *data = NULL;

    if (!meta || !gst_structure_get(gst_custom_meta_get_structure(meta), "data", G_TYPE_BYTES, &data, NULL) || !data)
        return;
    gsize size = g_bytes_get_size(data);
    if (size > 0 && size <= SLUICE_MAX_META) {
        memcpy(frame->meta, g_bytes_get_data(data, NULL), size);
        frame->meta_size = (guint32)size;
    }
    g_bytes_unref(data);
}

/* ---- times ---- */

static gint64 now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SLUICE_S + now.tv_nsec;
}

GstClockTime gst_sluice_frame_age(const struct sluice_frame *frame, gint64 clock_offset_ns)
{
    gint64 now = now_ns(), age = now - (frame->capture_ns - clock_offset_ns);

    if (frame->capture_clock != SLUICE_CLOCK_MONOTONIC || age < 0 || age >= (gint64)MAX_AGE)
        age = now - frame->commit_ns;
    return age < 0 ? 0 : (GstClockTime)age;
}

gint64 gst_sluice_capture_ns(GstClockTimeDiff age)
{
    return now_ns() - (age >= 0 && age < (GstClockTimeDiff)MAX_AGE ? age : 0);
}
