/* SPDX-License-Identifier: MIT
 *
 * A build without GStreamer's CUDA library: there is no GPU, so nothing else is called.
 */
#include "gpu.h"

void gst_sluice_gpu_ref(struct gst_sluice_gpu *gpu)
{
    (void)gpu;
}

void gst_sluice_gpu_unref(struct gst_sluice_gpu *gpu)
{
    (void)gpu;
}

const char *gst_sluice_gpu_name(const struct gst_sluice_gpu *gpu)
{
    (void)gpu;
    return NULL;
}

struct sluice_stream gst_sluice_gpu_behind_all(const struct gst_sluice_gpu *gpu)
{
    (void)gpu;
    return SLUICE_ON_CPU;
}

gboolean gst_sluice_gpu_is_built(void)
{
    return FALSE;
}

gboolean gst_sluice_gpu_has_caps(GstCaps *caps)
{
    (void)caps;
    return FALSE;
}

void gst_sluice_gpu_mark_caps(GstCaps *caps)
{
    (void)caps;
}

void gst_sluice_gpu_use_init(struct gst_sluice_gpu_use *use)
{
    (void)use;
}

void gst_sluice_gpu_use_nothing(struct gst_sluice_gpu_use *use)
{
    (void)use;
}

void gst_sluice_gpu_use_end(struct gst_sluice_gpu_use *use)
{
    (void)use;
}

struct gst_sluice_gpu *gst_sluice_gpu_use_device(struct gst_sluice_gpu_use *use, const char *device, char **why)
{
    (void)use;
    (void)device;
    *why = g_strdup_printf("frames on a GPU need memory:CUDAMemory, which takes GStreamer 1.24 or later; this plug-in "
                           "was built for GStreamer %d.%d without it: `sluice bridge --device host` copies the channel",
                           GST_VERSION_MAJOR, GST_VERSION_MINOR);
    return NULL;
}

void gst_sluice_gpu_use_context(struct gst_sluice_gpu_use *use, GstElement *element, GstContext *context, gint index)
{
    (void)use;
    (void)element;
    (void)context;
    (void)index;
}

gboolean gst_sluice_gpu_is_query(GstQuery *query)
{
    (void)query;
    return FALSE;
}

gboolean gst_sluice_gpu_answer(const struct gst_sluice_gpu *gpu, GstElement *element, GstQuery *query)
{
    (void)gpu;
    (void)element;
    (void)query;
    return FALSE;
}

void gst_sluice_gpu_announce(const struct gst_sluice_gpu *gpu, GstElement *element)
{
    (void)gpu;
    (void)element;
}

GstBuffer *gst_sluice_gpu_wrap(struct gst_sluice_gpu *gpu, struct gst_sluice_lease *lease,
                               const struct sluice_array *array, const struct gst_sluice_format *format, gboolean room,
                               gboolean *copied, char **why)
{
    (void)gpu;
    (void)lease;
    (void)array;
    (void)format;
    (void)room;
    (void)copied;
    (void)why;
    return NULL;
}

guint gst_sluice_gpu_pitch_align(const struct gst_sluice_format *format, guint wanted)
{
    (void)format;
    return wanted;
}

GstMemory *gst_sluice_gpu_memory(const struct gst_sluice_gpu *gpu, const struct gst_sluice_layout *layout, void *data,
                                 guint64 nbytes, gpointer stream, gpointer user, void (*free)(gpointer user))
{
    (void)gpu;
    (void)layout;
    (void)data;
    (void)nbytes;
    (void)stream;
    (void)user;
    (void)free;
    return NULL;
}

gpointer gst_sluice_gpu_memory_user(GstMemory *memory)
{
    (void)memory;
    return NULL;
}

int gst_sluice_gpu_commit(const struct gst_sluice_gpu *gpu, sluice_writer *writer, struct sluice_frame *frame,
                          GstMemory *memory)
{
    (void)gpu;
    (void)writer;
    (void)frame;
    (void)memory;
    return SLUICE_E_UNSUPPORTED;
}

int gst_sluice_gpu_send(const struct gst_sluice_gpu *gpu, sluice_writer *writer, struct sluice_frame *frame,
                        const struct gst_sluice_format *format, GstBuffer *buffer)
{
    (void)gpu;
    (void)writer;
    (void)frame;
    (void)format;
    (void)buffer;
    return SLUICE_E_UNSUPPORTED;
}

GstBufferPool *gst_sluice_gpu_pool_new(struct gst_sluice_gpu *gpu, struct gst_sluice_channel *channel,
                                       guint pitch_align)
{
    (void)gpu;
    (void)channel;
    (void)pitch_align;
    return NULL;
}
