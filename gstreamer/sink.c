/* SPDX-License-Identifier: MIT
 *
 * sluicesink: a pipeline's pictures as frames of a channel, rendered in place where what comes before can.
 */
#include "sink.h"

#include "enum.h"
#include "gpu.h"
#include "meta.h"
#include "pool.h"

GST_DEBUG_CATEGORY_STATIC(sluicesink_debug);
#define GST_CAT_DEFAULT sluicesink_debug

#define USUAL_SLOTS 4
#define MAX_SLOTS   32 /* for a decoder's references and what readers hold */
#define USUAL_WAIT  GST_SECOND
#define WAIT_SLICE  (5 * SLUICE_MS)

enum property {
    PROP_CHANNEL = 1,
    PROP_SLOTS,
    PROP_POLICY,
    PROP_TIMEOUT,
    PROP_PITCH_ALIGN,
    PROP_CUDA_DEVICE_ID,
    PROP_STATS
};

struct _GstSluiceSink {
    GstBaseSink parent;

    /* properties, under the object lock */
    gchar *channel;
    guint slots, pitch_align;
    gint policy, cuda_device_id;
    guint64 timeout;
    guint64 in_place, copied, dropped; /* stats */

    struct gst_sluice_channel *open; /* from the first caps to stop; replaced under the object lock */
    struct gst_sluice_gpu *gpu;      /* where that is; NULL: in host memory */
    gint flushing;

    struct gst_sluice_gpu_use gpu_use; /* any thread */
};

G_DEFINE_TYPE(GstSluiceSink, gst_sluice_sink, GST_TYPE_BASE_SINK)
GST_ELEMENT_REGISTER_DEFINE(sluicesink, "sluicesink", GST_RANK_NONE, gst_sluice_sink_get_type())

static GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE(
    "sink", GST_PAD_SINK, GST_PAD_ALWAYS,
    GST_STATIC_CAPS(GST_SLUICE_GPU_CAPS GST_SLUICE_CAPS ";" /* set_caps refuses fields with a sentence */
                    GST_VIDEO_CAPS_MAKE_WITH_FEATURES("format:Interlaced", GST_VIDEO_FORMATS_ALL)));

/* ---- start, caps, stop ---- */

static gboolean start(GstBaseSink *base)
{
    GstSluiceSink *self = GST_SLUICE_SINK(base);

    GST_OBJECT_LOCK(self);
    self->in_place = self->copied = self->dropped = 0;
    gboolean named = self->channel && *self->channel;
    GST_OBJECT_UNLOCK(self);
    if (!named)
        GST_ELEMENT_ERROR(self, RESOURCE, SETTINGS, ("No channel is named: set the property channel."), (NULL));
    return named;
}

static void close_channel(GstSluiceSink *self)
{
    GST_OBJECT_LOCK(self);
    struct gst_sluice_channel *open = self->open;
    self->open = NULL;
    GST_OBJECT_UNLOCK(self);
    if (open) {
        gst_sluice_channel_close(open);
        gst_sluice_channel_unref(open);
    }
    gst_sluice_gpu_unref(self->gpu);
    self->gpu = NULL;
}

static gboolean stop(GstBaseSink *base)
{
    GstSluiceSink *self = GST_SLUICE_SINK(base);

    GST_INFO_OBJECT(self, "frames: %" G_GUINT64_FORMAT " in place, %" G_GUINT64_FORMAT " copied", self->in_place,
                    self->copied);
    close_channel(self);
    gst_sluice_gpu_use_nothing(&self->gpu_use);
    return TRUE;
}

static gboolean open_channel(GstSluiceSink *self, const struct gst_sluice_layout *layout, struct gst_sluice_gpu *gpu)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;

    GST_OBJECT_LOCK(self);
    gchar *name = g_strdup(self->channel);
    params.slots = self->slots ? self->slots : USUAL_SLOTS;
    params.max_slots = MAX(self->slots, MAX_SLOTS);
    params.policy = (guint32)self->policy;
    GST_OBJECT_UNLOCK(self);
    params.name = name;
    if (gpu) {
        params.device = gst_sluice_gpu_name(gpu);
        params.wait_ns = 1; /* of copies: whoever waits for a slot looks whether the pipeline stops */
    }
    struct gst_sluice_channel *open = gst_sluice_channel_open(&params, layout, gpu);
    g_free(name);
    if (!open)
        return FALSE;
    if ((self->gpu = gpu))
        gst_sluice_gpu_ref(gpu);
    GST_OBJECT_LOCK(self);
    self->open = open;
    GST_OBJECT_UNLOCK(self);
    return TRUE;
}

/* The GPU of the property, or else of the pipeline's context, or the first. */
static struct gst_sluice_gpu *take_gpu(GstSluiceSink *self, char **why)
{
    char name[32];

    GST_OBJECT_LOCK(self);
    gint index = self->cuda_device_id;
    GST_OBJECT_UNLOCK(self);
    g_snprintf(name, sizeof name, "cuda:%d", index);
    return gst_sluice_gpu_use_device(&self->gpu_use, index >= 0 ? name : NULL, why);
}

/* The channel may have to be on another device; then it ends, and begins there. */
static gboolean follow(GstSluiceSink *self, struct gst_sluice_layout *layout, gboolean on_gpu)
{
    struct gst_sluice_gpu *gpu = NULL;
    guint pitch_align = self->pitch_align;
    char *why = NULL;

    if (on_gpu) {
        if (!(gpu = take_gpu(self, &why))) {
            GST_ELEMENT_ERROR(self, RESOURCE, OPEN_WRITE, ("%s", why), (NULL));
            g_free(why);
            return FALSE;
        }
        pitch_align = gst_sluice_gpu_pitch_align(&layout->format, pitch_align);
    }
    if (self->open && self->gpu != gpu)
        close_channel(self);
    gboolean done =
        gst_sluice_layout_usual(layout, pitch_align) &&
        (self->open ? gst_sluice_channel_set_layout(self->open, layout) == 0 : open_channel(self, layout, gpu));
    if (done)
        gst_sluice_channel_describe(self->open, &layout->format.info);
    else
        GST_ELEMENT_ERROR(self, RESOURCE, OPEN_WRITE, ("%s", sluice_last_error()), (NULL));
    gst_sluice_gpu_unref(gpu);
    return done;
}

static gboolean set_caps(GstBaseSink *base, GstCaps *caps)
{
    GstSluiceSink *self = GST_SLUICE_SINK(base);
    struct gst_sluice_layout layout = { 0 };
    char *why = NULL;

    if (!gst_sluice_format_from_caps(&layout.format, caps, &why)) {
        GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("%s", why), (NULL));
        g_free(why);
        return FALSE;
    }
    return follow(self, &layout, gst_sluice_gpu_has_caps(caps));
}

static gboolean propose_allocation(GstBaseSink *base, GstQuery *query)
{
    GstSluiceSink *self = GST_SLUICE_SINK(base);
    struct gst_sluice_format format;
    gboolean need_pool;
    GstCaps *caps;

    gst_query_parse_allocation(query, &caps, &need_pool);
    if (!caps || !gst_sluice_format_from_caps(&format, caps, NULL) || !self->open)
        return FALSE;
    gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
    if (!need_pool || format.bayer)
        return TRUE;
    if (gst_sluice_gpu_has_caps(caps) != (self->gpu != NULL))
        return FALSE; /* caps that are not set yet */
    GstBufferPool *pool = self->gpu ? gst_sluice_gpu_pool_new(self->gpu, self->open, self->pitch_align)
                                    : gst_sluice_pool_new(self->open, self->pitch_align);
    GstStructure *config = gst_buffer_pool_get_config(pool);
    guint size = (guint)GST_VIDEO_INFO_SIZE(&format.info);
    gst_buffer_pool_config_set_params(config, caps, size, 0, 0);
    if (gst_buffer_pool_set_config(pool, config))
        gst_query_add_allocation_pool(query, pool, size, 0, 0);
    gst_object_unref(pool);
    return TRUE;
}

/* ---- frames ---- */

/* When the buffer was captured: as old as its time is behind the pipeline's. */
static gint64 capture_of(GstSluiceSink *self, GstBuffer *buffer)
{
    GstClockTime time =
        gst_segment_to_running_time(&GST_BASE_SINK(self)->segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
    GstClock *clock = GST_CLOCK_TIME_IS_VALID(time) ? gst_element_get_clock(GST_ELEMENT(self)) : NULL;
    GstClockTimeDiff age = 0;

    if (clock) {
        age = GST_CLOCK_DIFF(time + gst_element_get_base_time(GST_ELEMENT(self)), gst_clock_get_time(clock));
        gst_object_unref(clock);
    }
    return gst_sluice_capture_ns(age);
}

/* Copies the buffer into a slot, for which it waits as the policy says; while the pipeline is paused, too. */
static GstFlowReturn copy(GstSluiceSink *self, GstBuffer *buffer, gint64 capture_ns, int *result)
{
    for (GstClockTime waited = 0;; waited += WAIT_SLICE) {
        gboolean last = self->policy != SLUICE_WAIT || (self->timeout > 0 && waited >= self->timeout);
        *result = gst_sluice_channel_copy(self->open, buffer, capture_ns, last);
        if (*result != SLUICE_NO_SLOT || last)
            return GST_FLOW_OK;
        if (g_atomic_int_get(&self->flushing)) {
            GstFlowReturn flow = gst_base_sink_wait_preroll(GST_BASE_SINK(self));
            if (flow != GST_FLOW_OK)
                return flow;
        }
        gst_sluice_channel_wait(self->open, WAIT_SLICE);
        g_thread_yield(); /* to whoever frees a slot, and needs the channel's lock for it */
    }
}

static void drop(GstSluiceSink *self, GstBuffer *buffer, guint64 dropped, guint64 processed)
{
    GstClockTime time =
        gst_segment_to_running_time(&GST_BASE_SINK(self)->segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
    GstMessage *message = gst_message_new_qos(GST_OBJECT(self), FALSE, time, GST_CLOCK_TIME_NONE,
                                              GST_BUFFER_PTS(buffer), GST_BUFFER_DURATION(buffer));

    GST_DEBUG_OBJECT(self, "dropped: %s", sluice_last_error());
    gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, processed, dropped);
    gst_element_post_message(GST_ELEMENT(self), message);
}

static GstFlowReturn render(GstBaseSink *base, GstBuffer *buffer)
{
    GstSluiceSink *self = GST_SLUICE_SINK(base);
    gint64 capture_ns = capture_of(self, buffer);
    gboolean in_place = gst_sluice_channel_commit(self->open, buffer, capture_ns);
    int r = 0;
    GstFlowReturn flow = in_place ? GST_FLOW_OK : copy(self, buffer, capture_ns, &r);
    if (flow != GST_FLOW_OK)
        return flow;

    GST_OBJECT_LOCK(self);
    *(in_place ? &self->in_place : r == 0 ? &self->copied : &self->dropped) += 1;
    guint64 dropped = self->dropped, processed = self->in_place + self->copied;
    GST_OBJECT_UNLOCK(self);
    if (r == SLUICE_NO_SLOT) {
        drop(self, buffer, dropped, processed);
        return GST_FLOW_OK;
    }
    if (r == 0)
        return GST_FLOW_OK;
    GST_ELEMENT_ERROR(self, RESOURCE, WRITE, ("%s", sluice_last_error()), (NULL));
    return GST_FLOW_ERROR;
}

static gboolean query(GstBaseSink *base, GstQuery *query)
{
    GstSluiceSink *self = GST_SLUICE_SINK(base);
    char *why = NULL;

    if (gst_sluice_gpu_is_query(query)) {
        struct gst_sluice_gpu *gpu = take_gpu(self, &why);
        gboolean done = gpu && gst_sluice_gpu_answer(gpu, GST_ELEMENT(self), query);
        gst_sluice_gpu_unref(gpu);
        g_free(why);
        if (done)
            return TRUE;
    }
    return GST_BASE_SINK_CLASS(gst_sluice_sink_parent_class)->query(base, query);
}

static void set_context(GstElement *element, GstContext *context)
{
    GstSluiceSink *self = GST_SLUICE_SINK(element);

    gst_sluice_gpu_use_context(&self->gpu_use, element, context, self->cuda_device_id);
    GST_ELEMENT_CLASS(gst_sluice_sink_parent_class)->set_context(element, context);
}

static gboolean unlock(GstBaseSink *base)
{
    g_atomic_int_set(&GST_SLUICE_SINK(base)->flushing, TRUE);
    return TRUE;
}

static gboolean unlock_stop(GstBaseSink *base)
{
    g_atomic_int_set(&GST_SLUICE_SINK(base)->flushing, FALSE);
    return TRUE;
}

/* ---- properties ---- */

static GType policy_type(void)
{
    static const GEnumValue values[] = {
        { SLUICE_DROP, "The frame is dropped", "drop" },
        { SLUICE_WAIT, "It waits for a reader, as long as the property timeout says", "wait" },
        { 0, NULL, NULL },
    };
    static gsize type;

    return gst_sluice_enum_type(&type, "GstSluicePolicy", values);
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec)
{
    GstSluiceSink *self = GST_SLUICE_SINK(object);

    GST_OBJECT_LOCK(self);
    switch (id) {
    case PROP_CHANNEL:
        g_free(self->channel);
        self->channel = g_value_dup_string(value);
        break;
    case PROP_SLOTS: self->slots = g_value_get_uint(value); break;
    case PROP_POLICY: self->policy = g_value_get_enum(value); break;
    case PROP_TIMEOUT: self->timeout = g_value_get_uint64(value); break;
    case PROP_PITCH_ALIGN: self->pitch_align = g_value_get_uint(value); break;
    case PROP_CUDA_DEVICE_ID: self->cuda_device_id = g_value_get_int(value); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
    GST_OBJECT_UNLOCK(self);
}

/* Under the object lock. */
static GstStructure *make_stats(GstSluiceSink *self)
{
    struct sluice_writer_stats stats = { 0 };

    if (self->open)
        gst_sluice_channel_stats(self->open, &stats);
    return gst_structure_new("sluice-stats", "in-place", G_TYPE_UINT64, self->in_place, "copied", G_TYPE_UINT64,
                             self->copied, "dropped", G_TYPE_UINT64, self->dropped, "missed", G_TYPE_UINT64,
                             stats.stolen, "sessions", G_TYPE_UINT64, (guint64)(self->open != NULL), "readers",
                             G_TYPE_UINT, stats.readers, "slots", G_TYPE_UINT, stats.slots, NULL);
}

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
    GstSluiceSink *self = GST_SLUICE_SINK(object);

    GST_OBJECT_LOCK(self);
    switch (id) {
    case PROP_CHANNEL: g_value_set_string(value, self->channel); break;
    case PROP_SLOTS: g_value_set_uint(value, self->slots); break;
    case PROP_POLICY: g_value_set_enum(value, self->policy); break;
    case PROP_TIMEOUT: g_value_set_uint64(value, self->timeout); break;
    case PROP_PITCH_ALIGN: g_value_set_uint(value, self->pitch_align); break;
    case PROP_CUDA_DEVICE_ID: g_value_set_int(value, self->cuda_device_id); break;
    case PROP_STATS: g_value_take_boxed(value, make_stats(self)); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
    GST_OBJECT_UNLOCK(self);
}

static void finalize(GObject *object)
{
    gst_sluice_gpu_use_end(&GST_SLUICE_SINK(object)->gpu_use);
    g_free(GST_SLUICE_SINK(object)->channel);
    G_OBJECT_CLASS(gst_sluice_sink_parent_class)->finalize(object);
}

static void install_properties(GObjectClass *class)
{
    const GParamFlags usual = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;

    g_object_class_install_property(
        class, PROP_CHANNEL,
        g_param_spec_string("channel", "Channel", "Name of the channel: letters, digits, '_', '.', '-'", NULL, usual));
    g_object_class_install_property(
        class, PROP_SLOTS,
        g_param_spec_uint(
            "slots", "Slots",
            "How many slots there are to start with, 3 to 64; up to 32 are added while decoders and readers hold "
            "them (0: 4)",
            0, SLUICE_MAX_SLOTS, 0, usual));
    g_object_class_install_property(class, PROP_POLICY,
                                    g_param_spec_enum("policy", "Policy",
                                                      "What happens to a frame while readers hold all slots",
                                                      policy_type(), SLUICE_DROP, usual));
    g_object_class_install_property(
        class, PROP_TIMEOUT,
        g_param_spec_uint64("timeout", "Timeout",
                            "With policy=wait: a frame that has waited for so many nanoseconds is dropped (0: it "
                            "waits as long as it takes)",
                            0, G_MAXINT64, USUAL_WAIT, usual));
    g_object_class_install_property(
        class, PROP_PITCH_ALIGN,
        g_param_spec_uint(
            "pitch-align", "Pitch alignment",
            "Rows begin at multiples of so many bytes, a power of two; elements that know only GStreamer's "
            "layout, and decoders, decide this themselves (0: no padding)",
            0, 65536, 0, usual));
    g_object_class_install_property(
        class, PROP_CUDA_DEVICE_ID,
        g_param_spec_int("cuda-device-id", "CUDA device",
                         "The GPU of the channel, if pictures come in memory:CUDAMemory (-1: that of the pipeline's "
                         "context, or the first)",
                         -1, G_MAXINT, -1, usual));
    g_object_class_install_property(
        class, PROP_STATS,
        g_param_spec_boxed(
            "stats", "Statistics",
            "Frames rendered in place, copied and dropped, frames that readers in order missed, readers and "
            "slots now (sluice-stats: in-place, copied, dropped, missed, sessions, readers, slots)",
            GST_TYPE_STRUCTURE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
}

static void gst_sluice_sink_class_init(GstSluiceSinkClass *class)
{
    GObjectClass *object = G_OBJECT_CLASS(class);
    GstElementClass *element = GST_ELEMENT_CLASS(class);
    GstBaseSinkClass *sink = GST_BASE_SINK_CLASS(class);

    GST_DEBUG_CATEGORY_INIT(sluicesink_debug, "sluicesink", 0, "frames for a Sluice channel");
    object->set_property = set_property;
    object->get_property = get_property;
    object->finalize = finalize;
    install_properties(object);
    gst_element_class_set_static_metadata(element, "Sluice sink", "Sink/Video",
                                          "Pictures as frames of a Sluice channel, which other processes read in place",
                                          "The Sluice authors");
    gst_element_class_add_static_pad_template(element, &sink_template);
    element->set_context = set_context;
    sink->start = start;
    sink->query = query;
    sink->stop = stop;
    sink->set_caps = set_caps;
    sink->propose_allocation = propose_allocation;
    sink->render = render;
    sink->unlock = unlock;
    sink->unlock_stop = unlock_stop;
    gst_type_mark_as_plugin_api(policy_type(), 0);
}

static void gst_sluice_sink_init(GstSluiceSink *self)
{
    gst_sluice_gpu_use_init(&self->gpu_use);
    self->policy = SLUICE_DROP;
    self->timeout = USUAL_WAIT;
    self->cuda_device_id = -1;
    gst_base_sink_set_qos_enabled(GST_BASE_SINK(self), TRUE);
}
