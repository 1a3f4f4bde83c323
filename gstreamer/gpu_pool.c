/* SPDX-License-Identifier: MIT
 *
 * A pool whose buffers are free slots of a channel on a GPU. Elements take only pools of this class, and of their own
 * context. Like the pool in host memory it never waits: where no slot is free it gives other memory, which sluicesink
 * copies.
 */
#include "gpu_private.h"

struct gst_sluice_gpu_pool {
    GstCudaBufferPool parent;
    struct gst_sluice_gpu *gpu;
    struct gst_sluice_channel *channel;
    guint pitch_align;
    struct gst_sluice_layout layout; /* of set_config */
    GstCudaStream *stream;           /* on which slots are filled; NULL: the default one */
    GstCudaPoolAllocator *spare;     /* from start to stop */
};
typedef struct gst_sluice_gpu_pool GstSluiceGpuPool;
typedef GstCudaBufferPoolClass GstSluiceGpuPoolClass;

GType gst_sluice_gpu_pool_get_type(void);
G_DEFINE_TYPE(GstSluiceGpuPool, gst_sluice_gpu_pool, GST_TYPE_CUDA_BUFFER_POOL)

static GstBufferPoolClass *base_class;

/* Any layout that GStreamer can describe will do: elements read GstVideoMeta. */
static gboolean set_config(GstBufferPool *base, GstStructure *config)
{
    GstSluiceGpuPool *self = (GstSluiceGpuPool *)base;
    struct gst_sluice_layout *layout = &self->layout;
    GstCaps *caps;
    guint size, min, max;

    if (!gst_buffer_pool_config_get_params(config, &caps, &size, &min, &max) || !caps ||
        !gst_sluice_format_from_caps(&layout->format, caps, NULL) ||
        !gst_sluice_layout_usual(layout, gst_sluice_gpu_pitch_align(&layout->format, self->pitch_align)) ||
        layout->size > G_MAXUINT)
        return FALSE;
    gst_clear_cuda_stream(&self->stream);
    self->stream = gst_buffer_pool_config_get_cuda_stream(config);
    gst_buffer_pool_config_set_params(config, caps, (guint)layout->size, min, max);
    return base_class->set_config(base, config);
}

static gboolean start(GstBufferPool *base)
{
    GstSluiceGpuPool *self = (GstSluiceGpuPool *)base;

    if (gst_sluice_channel_set_layout(self->channel, &self->layout) != 0)
        GST_WARNING_OBJECT(base, "nothing is rendered in place: %s", sluice_last_error());
    self->spare = gst_cuda_pool_allocator_new(self->parent.context, self->stream, &self->layout.format.info);
    return self->spare && gst_cuda_allocator_set_active(GST_CUDA_ALLOCATOR(self->spare), TRUE);
}

static gboolean stop(GstBufferPool *base)
{
    GstSluiceGpuPool *self = (GstSluiceGpuPool *)base;

    if (self->spare)
        gst_cuda_allocator_set_active(GST_CUDA_ALLOCATOR(self->spare), FALSE);
    gst_clear_object(&self->spare);
    return base_class->stop(base);
}

static GstFlowReturn acquire_buffer(GstBufferPool *base, GstBuffer **out, GstBufferPoolAcquireParams *params)
{
    GstSluiceGpuPool *self = (GstSluiceGpuPool *)base;
    GstMemory *memory;
    (void)params;

    if (GST_BUFFER_POOL_IS_FLUSHING(base))
        return GST_FLOW_FLUSHING;
    memory = gst_sluice_channel_lend(self->channel, &self->layout, self->stream);
    if (!memory && gst_cuda_pool_allocator_acquire_memory(self->spare, &memory) != GST_FLOW_OK)
        return GST_FLOW_ERROR;
    const GstVideoInfo *info = &GST_CUDA_MEMORY_CAST(memory)->info;
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, memory);
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(info),
                                   (guint)GST_VIDEO_INFO_WIDTH(info), (guint)GST_VIDEO_INFO_HEIGHT(info),
                                   GST_VIDEO_INFO_N_PLANES(info), info->offset, info->stride);
    *out = buffer;
    return GST_FLOW_OK;
}

static void release_buffer(GstBufferPool *base, GstBuffer *buffer)
{
    (void)base;
    gst_buffer_unref(buffer);
}

static void finalize(GObject *object)
{
    GstSluiceGpuPool *self = (GstSluiceGpuPool *)object;

    gst_clear_cuda_stream(&self->stream);
    gst_sluice_channel_unref(self->channel);
    gst_sluice_gpu_unref(self->gpu);
    G_OBJECT_CLASS(gst_sluice_gpu_pool_parent_class)->finalize(object);
}

static void gst_sluice_gpu_pool_class_init(GstSluiceGpuPoolClass *class)
{
    GstBufferPoolClass *pool = GST_BUFFER_POOL_CLASS(class);

    /* What the class between allocates is not wanted. */
    base_class = g_type_class_peek(GST_TYPE_BUFFER_POOL);
    G_OBJECT_CLASS(class)->finalize = finalize;
    pool->set_config = set_config;
    pool->start = start;
    pool->stop = stop;
    pool->acquire_buffer = acquire_buffer;
    pool->release_buffer = release_buffer;
}

static void gst_sluice_gpu_pool_init(GstSluiceGpuPool *self)
{
    (void)self;
}

GstBufferPool *gst_sluice_gpu_pool_new(struct gst_sluice_gpu *gpu, struct gst_sluice_channel *channel,
                                       guint pitch_align)
{
    GstSluiceGpuPool *self = g_object_new(gst_sluice_gpu_pool_get_type(), NULL);

    g_object_ref_sink(self);
    gst_sluice_gpu_ref(gpu);
    self->gpu = gpu;
    self->parent.context = gst_object_ref(gpu->context);
    self->channel = gst_sluice_channel_ref(channel);
    self->pitch_align = pitch_align;
    return GST_BUFFER_POOL(self);
}
