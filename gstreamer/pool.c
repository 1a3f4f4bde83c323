/* SPDX-License-Identifier: MIT
 *
 * A pool whose buffers are free slots of a channel. It never waits: whoever asks may hold all slots itself, so where
 * none is free it gives ordinary memory, which sluicesink copies.
 */
#include "pool.h"

struct _GstSluicePool {
    GstBufferPool parent;
    struct gst_sluice_channel *channel;
    guint pitch_align;
    struct gst_sluice_layout layout; /* of set_config */
    gboolean video_meta;
};

G_DEFINE_TYPE(GstSluicePool, gst_sluice_pool, GST_TYPE_BUFFER_POOL)

static const gchar **get_options(GstBufferPool *pool)
{
    static const gchar *options[] = { GST_BUFFER_POOL_OPTION_VIDEO_META, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT, NULL };

    (void)pool;
    return options;
}

/* Who reads GstVideoMeta takes the channel's own layout, a decoder asks for its own padding, others know only
 * GStreamer's layout. */
static gboolean set_config(GstBufferPool *pool, GstStructure *config)
{
    GstSluicePool *self = GST_SLUICE_POOL(pool);
    GstVideoAlignment align;
    GstCaps *caps;
    guint size, min, max;

    if (!gst_buffer_pool_config_get_params(config, &caps, &size, &min, &max) || !caps ||
        !gst_sluice_format_from_caps(&self->layout.format, caps, NULL) || self->layout.format.bayer)
        return FALSE;
    self->video_meta = gst_buffer_pool_config_has_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    gst_video_alignment_reset(&align);
    if (self->video_meta && gst_buffer_pool_config_has_option(config, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT) &&
        gst_buffer_pool_config_get_video_alignment(config, &align)) {
        gst_sluice_layout_padded(&self->layout, &align);
        gst_buffer_pool_config_set_video_alignment(config, &align);
    } else if (!self->video_meta) {
        gst_sluice_layout_padded(&self->layout, NULL);
    } else if (!gst_sluice_layout_usual(&self->layout, self->pitch_align)) {
        return FALSE;
    }
    if (self->layout.size > G_MAXUINT)
        return FALSE;
    gst_buffer_pool_config_set_params(config, caps, (guint)self->layout.size, min, max);
    return GST_BUFFER_POOL_CLASS(gst_sluice_pool_parent_class)->set_config(pool, config);
}

/* Nothing is allocated ahead. If the channel cannot change its layout now, buffers are ordinary memory. */
static gboolean start(GstBufferPool *pool)
{
    GstSluicePool *self = GST_SLUICE_POOL(pool);

    if (gst_sluice_channel_set_layout(self->channel, &self->layout) != 0)
        GST_WARNING_OBJECT(pool, "nothing is rendered in place: %s", sluice_last_error());
    return TRUE;
}

static GstFlowReturn acquire_buffer(GstBufferPool *pool, GstBuffer **out, GstBufferPoolAcquireParams *params)
{
    GstSluicePool *self = GST_SLUICE_POOL(pool);
    struct gst_sluice_layout *layout = &self->layout;
    GstMemory *memory;
    (void)params;

    if (GST_BUFFER_POOL_IS_FLUSHING(pool))
        return GST_FLOW_FLUSHING;
    memory = gst_sluice_channel_lend(self->channel, layout, NULL);
    if (!memory)
        memory = gst_allocator_alloc(NULL, layout->size, NULL);
    if (!memory)
        return GST_FLOW_ERROR;
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, memory);
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&layout->format.info),
                                   layout->format.image.width, layout->format.image.height,
                                   GST_VIDEO_INFO_N_PLANES(&layout->format.info), layout->offset, layout->stride);
    *out = buffer;
    return GST_FLOW_OK;
}

static void release_buffer(GstBufferPool *pool, GstBuffer *buffer)
{
    (void)pool;
    gst_buffer_unref(buffer); /* with its memory, unless somebody refers to that */
}

static void finalize(GObject *object)
{
    gst_sluice_channel_unref(GST_SLUICE_POOL(object)->channel);
    G_OBJECT_CLASS(gst_sluice_pool_parent_class)->finalize(object);
}

static void gst_sluice_pool_class_init(GstSluicePoolClass *class)
{
    GstBufferPoolClass *pool = GST_BUFFER_POOL_CLASS(class);

    G_OBJECT_CLASS(class)->finalize = finalize;
    pool->get_options = get_options;
    pool->set_config = set_config;
    pool->start = start;
    pool->acquire_buffer = acquire_buffer;
    pool->release_buffer = release_buffer;
}

static void gst_sluice_pool_init(GstSluicePool *self)
{
    (void)self;
}

GstBufferPool *gst_sluice_pool_new(struct gst_sluice_channel *channel, guint pitch_align)
{
    GstSluicePool *self = g_object_new(gst_sluice_pool_get_type(), NULL);

    g_object_ref_sink(self);
    self->channel = gst_sluice_channel_ref(channel);
    self->pitch_align = pitch_align;
    return GST_BUFFER_POOL(self);
}
