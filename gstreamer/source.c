/* SPDX-License-Identifier: MIT
 *
 * sluicesrc: the frames of a channel, in place.
 */
#include "source.h"

#include <string.h>

#include "enum.h"
#include "extra.h"
#include "gpu.h"
#include "intake.h"
#include "meta.h"
#include "picture.h"

GST_DEBUG_CATEGORY_STATIC(sluicesrc_debug);
#define GST_CAT_DEFAULT sluicesrc_debug

enum on_close { ON_CLOSE_EOS, ON_CLOSE_WAIT };

enum property {
    PROP_CHANNEL = 1,
    PROP_MODE,
    PROP_HOLD,
    PROP_ARRAY,
    PROP_TIMEOUT,
    PROP_ON_CLOSE,
    PROP_FRAMERATE,
    PROP_STATS
};

struct _GstSluiceSrc {
    GstPushSrc parent;

    /* properties, under the object lock */
    gchar *channel, *array;
    gint mode, on_close, fps_n, fps_d; /* 0/1: measured */
    guint hold;
    guint64 timeout;
    guint64 in_place, copied, missed; /* stats */

    /* from start to stop, on the streaming thread */
    struct gst_sluice_intake intake;
    struct gst_sluice_format format;
    struct gst_sluice_extra extra;
    struct gst_sluice_gpu *gpu; /* where the last frame was; NULL: in host memory */
    gboolean known, any_layout;
    GstClockTime last_pts;

    struct gst_sluice_gpu_use gpu_use; /* any thread */
};

G_DEFINE_TYPE(GstSluiceSrc, gst_sluice_src, GST_TYPE_PUSH_SRC)
GST_ELEMENT_REGISTER_DEFINE(sluicesrc, "sluicesrc", GST_RANK_NONE, gst_sluice_src_get_type())

static GstStaticPadTemplate src_template =
    GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS(GST_SLUICE_GPU_CAPS GST_SLUICE_CAPS));

/* ---- start, stop ---- */

static gboolean start(GstBaseSrc *base)
{
    GstSluiceSrc *self = GST_SLUICE_SRC(base);
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;

    GST_OBJECT_LOCK(self);
    gchar *channel = g_strdup(self->channel);
    params.mode = (guint32)self->mode;
    params.hold = self->hold ? self->hold : SLUICE_MOST;
    self->intake.rate_n = self->fps_n;
    self->intake.rate_d = self->fps_d;
    self->intake.measured = self->fps_n > 0;
    self->intake.waits = self->on_close == ON_CLOSE_WAIT;
    self->in_place = self->copied = self->missed = 0;
    GST_OBJECT_UNLOCK(self);
    if (!channel || !*channel) {
        GST_ELEMENT_ERROR(self, RESOURCE, SETTINGS, ("No channel is named: set the property channel."), (NULL));
        g_free(channel);
        return FALSE;
    }
    params.name = channel;
    params.open_timeout_ns = SLUICE_LATER;
    int r = gst_sluice_intake_open(&self->intake, &params);
    if (r != 0)
        GST_ELEMENT_ERROR(self, RESOURCE, OPEN_READ, ("%s", sluice_last_error()), (NULL));
    g_free(channel);
    self->known = FALSE;
    self->last_pts = GST_CLOCK_TIME_NONE;
    return r == 0;
}

static gboolean stop(GstBaseSrc *base)
{
    GstSluiceSrc *self = GST_SLUICE_SRC(base);

    GST_INFO_OBJECT(self, "frames: %" G_GUINT64_FORMAT " in place, %" G_GUINT64_FORMAT " copied", self->in_place,
                    self->copied);
    gst_sluice_intake_close(&self->intake);
    gst_sluice_gpu_unref(self->gpu);
    self->gpu = NULL;
    gst_sluice_gpu_use_nothing(&self->gpu_use);
    return TRUE;
}

static gboolean unlock(GstBaseSrc *base)
{
    gst_poll_set_flushing(GST_SLUICE_SRC(base)->intake.poll, TRUE);
    return TRUE;
}

static gboolean unlock_stop(GstBaseSrc *base)
{
    gst_poll_set_flushing(GST_SLUICE_SRC(base)->intake.poll, FALSE);
    return TRUE;
}

/* ---- taking frames ---- */

static GstFlowReturn next_lease(GstSluiceSrc *self, struct gst_sluice_lease **lease)
{
    gboolean measured = self->intake.measured;

    GST_OBJECT_LOCK(self);
    GstClockTime timeout = self->timeout ? self->timeout : GST_CLOCK_TIME_NONE;
    GST_OBJECT_UNLOCK(self);
    int r = gst_sluice_intake_next(&self->intake, timeout, lease);
    if (measured != self->intake.measured)
        gst_element_post_message(GST_ELEMENT(self), gst_message_new_latency(GST_OBJECT(self)));
    if (self->intake.lost)
        GST_ELEMENT_WARNING(
            self, RESOURCE, READ,
            ("The writer of channel '%s' took frames back that the pipeline kept too long.", self->channel), (NULL));
    switch (r) {
    case SLUICE_OK: return GST_FLOW_OK;
    case SLUICE_CLOSED: return GST_FLOW_EOS;
    case GST_SLUICE_FLUSHING: return GST_FLOW_FLUSHING;
    case SLUICE_TIMEOUT:
        GST_ELEMENT_ERROR(
            self, RESOURCE, READ,
            ("Channel '%s' had no frame for %" GST_TIME_FORMAT ".", self->channel, GST_TIME_ARGS(timeout)), (NULL));
        return GST_FLOW_ERROR;
    default:
        GST_ELEMENT_ERROR(self, RESOURCE, READ, ("%s", sluice_last_error()),
                          ("a channel on a GPU needs memory:CUDAMemory; `sluice bridge --device host` copies it"));
        return GST_FLOW_ERROR;
    }
}

/* ---- caps ---- */

static gboolean same_format(const struct sluice_image *a, const struct sluice_image *b)
{
    return a->pixel_format == b->pixel_format && a->width == b->width && a->height == b->height &&
           a->alpha == b->alpha && memcmp(&a->colour, &b->colour, sizeof a->colour) == 0;
}

static gboolean same_extra(const struct gst_sluice_extra *a, const struct gst_sluice_extra *b)
{
    return a->par_n == b->par_n && a->par_d == b->par_d && a->chroma == b->chroma;
}

static GstFlowReturn refuse(GstSluiceSrc *self, const char *format, const char *text)
{
    gchar *sentence = g_strdup_printf(format, self->channel, text);

    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("%s", sentence), (NULL));
    g_free(sentence);
    return GST_FLOW_NOT_NEGOTIATED;
}

static GstCaps *make_caps(GstSluiceSrc *self)
{
    GstCaps *caps = gst_sluice_format_caps(&self->format, self->intake.rate_n, self->intake.rate_d);

    if (self->gpu)
        gst_sluice_gpu_mark_caps(caps);
    return caps;
}

static gboolean negotiate(GstBaseSrc *base)
{
    GstSluiceSrc *self = GST_SLUICE_SRC(base);

    if (!self->known)
        return TRUE; /* the first frame tells */
    GstCaps *caps = make_caps(self);
    gboolean ok = gst_pad_peer_query_accept_caps(GST_BASE_SRC_PAD(base), caps) && gst_base_src_set_caps(base, caps);
    gst_caps_unref(caps);
    return ok;
}

static gboolean decide_allocation(GstBaseSrc *base, GstQuery *query)
{
    GstSluiceSrc *self = GST_SLUICE_SRC(base);

    self->any_layout = gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
    while (gst_query_get_n_allocation_pools(query) > 0) /* buffers are slots */
        gst_query_remove_nth_allocation_pool(query, 0);
    return TRUE;
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
    GstFlowReturn flow = refuse(self, "Channel '%s': %s", why);
    g_free(why);
    return flow;
}

static gboolean has_memory_of_format(GstSluiceSrc *self)
{
    GstCaps *caps = make_caps(self), *all = gst_pad_get_pad_template_caps(GST_BASE_SRC_PAD(self));
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
        return refuse(self, "Channel '%s' has %s, which GStreamer does not: convert it before.",
                      sluice_pixel_format_name(image->pixel_format));
    if (self->gpu && !has_memory_of_format(self))
        return refuse(self, "Channel '%s' has %s on a GPU, and GStreamer no such CUDA memory: convert it before.",
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
    GstCaps *caps = make_caps(self);
    gchar *text = gst_caps_to_string(caps);
    GstFlowReturn flow = refuse(
        self,
        self->gpu ? "What follows does not take the frames of channel '%s', %s: put cudadownload behind sluicesrc."
                  : "What follows does not take the frames of channel '%s', %s: put videoconvert behind sluicesrc.",
        text);
    g_free(text);
    gst_caps_unref(caps);
    return flow;
}

/* ---- buffers ---- */

/* The running time at which the frame was captured. */
static GstClockTime time_of(GstSluiceSrc *self, const struct sluice_frame *frame)
{
    GstClockTime age = gst_sluice_frame_age(frame, self->intake.clock_offset_ns), pts;
    GstClock *clock = gst_element_get_clock(GST_ELEMENT(self));

    if (!clock)
        return GST_CLOCK_TIME_NONE;
    pts = gst_clock_get_time(clock) - gst_element_get_base_time(GST_ELEMENT(self));
    gst_object_unref(clock);
    pts = pts > age ? pts - age : 0;
    if (self->last_pts != GST_CLOCK_TIME_NONE && pts <= self->last_pts)
        pts = self->last_pts + 1;
    self->last_pts = pts;
    return pts;
}

static void stamp(GstSluiceSrc *self, GstBuffer *buffer, const struct sluice_frame *frame)
{
    GST_BUFFER_PTS(buffer) = time_of(self, frame);
    GST_BUFFER_OFFSET(buffer) = frame->sequence;
    if (self->intake.rate_n > 0)
        GST_BUFFER_DURATION(buffer) = gst_util_uint64_scale_int(GST_SECOND, self->intake.rate_d, self->intake.rate_n);
    if (frame->missed || self->intake.lost || (frame->flags & SLUICE_FRAME_NEW_SESSION))
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
    if (self->intake.lost)
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_CORRUPTED);
    self->intake.lost = FALSE;
}

/* Finds the picture of a frame, and follows its device and format. */
static GstFlowReturn look_at(GstSluiceSrc *self, const struct sluice_frame *frame, struct sluice_array *array)
{
    char *why = NULL;
    int r = gst_sluice_picture_find(frame, self->array, array, &why);
    GstFlowReturn flow =
        r == 0 ? follow_device(self, frame) : refuse(self, "Channel '%s': %s", why ? why : sluice_last_error());

    g_free(why);
    return flow == GST_FLOW_OK ? follow_format(self, frame, &array->image) : flow;
}

static GstFlowReturn create(GstPushSrc *base, GstBuffer **buffer)
{
    GstSluiceSrc *self = GST_SLUICE_SRC(base);
    struct gst_sluice_lease *lease;
    struct sluice_array array;
    char *why = NULL;
    GstFlowReturn flow = next_lease(self, &lease);

    if (flow != GST_FLOW_OK)
        return flow;
    if ((flow = look_at(self, &lease->frame, &array)) != GST_FLOW_OK) {
        gst_sluice_lease_end(lease);
        return flow;
    }
    struct sluice_frame frame = lease->frame;
    gboolean room = gst_sluice_intake_has_room(&self->intake), copied;
    if (self->gpu)
        *buffer = gst_sluice_gpu_wrap(self->gpu, lease, &array, &self->format, room, &copied, &why);
    else
        *buffer = gst_sluice_picture_wrap(lease, &array, &self->format, room, self->any_layout, &copied);
    if (!*buffer) {
        flow = refuse(self, "Channel '%s': %s", why);
        g_free(why);
        return flow;
    }
    stamp(self, *buffer, &frame);
    GST_OBJECT_LOCK(self);
    self->missed += frame.missed;
    *(copied ? &self->copied : &self->in_place) += 1;
    GST_OBJECT_UNLOCK(self);
    return GST_FLOW_OK;
}

/* Elements that start before this one ask for the context in which they will get frames. */
static gboolean answer_context(GstSluiceSrc *self, GstQuery *query)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct gst_sluice_gpu *gpu = NULL;
    char *why = NULL;

    GST_OBJECT_LOCK(self);
    gchar *channel = g_strdup(self->channel);
    GST_OBJECT_UNLOCK(self);
    if (channel && sluice_channel_info(channel, SLUICE_DEFAULT, &info, NULL, 0) == 0 &&
        info.memory != SLUICE_MEMORY_HOST)
        gpu = gst_sluice_gpu_use_device(&self->gpu_use, info.device, &why);
    gboolean done = gpu && gst_sluice_gpu_answer(gpu, GST_ELEMENT(self), query);
    gst_sluice_gpu_unref(gpu);
    g_free(why);
    g_free(channel);
    return done;
}

static void set_context(GstElement *element, GstContext *context)
{
    gst_sluice_gpu_use_context(&GST_SLUICE_SRC(element)->gpu_use, element, context, -1);
    GST_ELEMENT_CLASS(gst_sluice_src_parent_class)->set_context(element, context);
}

static gboolean query(GstBaseSrc *base, GstQuery *query)
{
    GstSluiceSrc *self = GST_SLUICE_SRC(base);

    if (gst_sluice_gpu_is_query(query) && answer_context(self, query))
        return TRUE;
    if (GST_QUERY_TYPE(query) != GST_QUERY_LATENCY)
        return GST_BASE_SRC_CLASS(gst_sluice_src_parent_class)->query(base, query);
    /* A frame that cannot stay in place is copied, so nothing limits how many are kept. */
    GstClockTime frame =
        self->intake.rate_n > 0 ? gst_util_uint64_scale_int(GST_SECOND, self->intake.rate_d, self->intake.rate_n) : 0;
    gst_query_set_latency(query, TRUE, frame, GST_CLOCK_TIME_NONE);
    return TRUE;
}

/* ---- properties ---- */

static GType mode_type(void)
{
    static const GEnumValue values[] = {
        { SLUICE_NEWEST, "The newest frame; older ones are skipped", "newest" },
        { SLUICE_IN_ORDER, "Every frame, as far as the writer keeps them", "in-order" },
        { 0, NULL, NULL },
    };
    static gsize type;

    return gst_sluice_enum_type(&type, "GstSluiceMode", values);
}

static GType on_close_type(void)
{
    static const GEnumValue values[] = {
        { ON_CLOSE_EOS, "The stream ends", "eos" },
        { ON_CLOSE_WAIT, "It waits for the next writer", "wait" },
        { 0, NULL, NULL },
    };
    static gsize type;

    return gst_sluice_enum_type(&type, "GstSluiceOnClose", values);
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec)
{
    GstSluiceSrc *self = GST_SLUICE_SRC(object);

    GST_OBJECT_LOCK(self);
    switch (id) {
    case PROP_CHANNEL:
        g_free(self->channel);
        self->channel = g_value_dup_string(value);
        break;
    case PROP_MODE: self->mode = g_value_get_enum(value); break;
    case PROP_HOLD: self->hold = g_value_get_uint(value); break;
    case PROP_ARRAY:
        g_free(self->array);
        self->array = g_value_dup_string(value);
        break;
    case PROP_TIMEOUT: self->timeout = g_value_get_uint64(value); break;
    case PROP_ON_CLOSE: self->on_close = g_value_get_enum(value); break;
    case PROP_FRAMERATE:
        self->fps_n = gst_value_get_fraction_numerator(value);
        self->fps_d = gst_value_get_fraction_denominator(value);
        break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
    GST_OBJECT_UNLOCK(self);
}

static GstStructure *make_stats(GstSluiceSrc *self)
{
    return gst_structure_new("sluice-stats", "in-place", G_TYPE_UINT64, self->in_place, "copied", G_TYPE_UINT64,
                             self->copied, "dropped", G_TYPE_UINT64, self->intake.dropped, "missed", G_TYPE_UINT64,
                             self->missed, "sessions", G_TYPE_UINT64, self->intake.sessions, NULL);
}

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
    GstSluiceSrc *self = GST_SLUICE_SRC(object);

    GST_OBJECT_LOCK(self);
    switch (id) {
    case PROP_CHANNEL: g_value_set_string(value, self->channel); break;
    case PROP_MODE: g_value_set_enum(value, self->mode); break;
    case PROP_HOLD: g_value_set_uint(value, self->hold); break;
    case PROP_ARRAY: g_value_set_string(value, self->array); break;
    case PROP_TIMEOUT: g_value_set_uint64(value, self->timeout); break;
    case PROP_ON_CLOSE: g_value_set_enum(value, self->on_close); break;
    case PROP_FRAMERATE: gst_value_set_fraction(value, self->fps_n, self->fps_d); break;
    case PROP_STATS: g_value_take_boxed(value, make_stats(self)); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
    GST_OBJECT_UNLOCK(self);
}

static void finalize(GObject *object)
{
    GstSluiceSrc *self = GST_SLUICE_SRC(object);

    gst_sluice_gpu_use_end(&self->gpu_use);
    g_free(self->channel);
    g_free(self->array);
    G_OBJECT_CLASS(gst_sluice_src_parent_class)->finalize(object);
}

static void install_properties(GObjectClass *class)
{
    const GParamFlags usual = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;

    g_object_class_install_property(
        class, PROP_CHANNEL,
        g_param_spec_string("channel", "Channel", "Name of the channel, as `sluice ls` shows it", NULL, usual));
    g_object_class_install_property(
        class, PROP_MODE,
        g_param_spec_enum("mode", "Mode", "Which frames are taken", mode_type(), SLUICE_NEWEST, usual));
    g_object_class_install_property(
        class, PROP_HOLD,
        g_param_spec_uint(
            "hold", "Hold",
            "How many frames the pipeline may keep in the channel; one is left for the next frame, and what "
            "is over is copied (0: as many as the channel allows)",
            0, SLUICE_MAX_SLOTS - 2, 0, usual));
    g_object_class_install_property(
        class, PROP_ARRAY,
        g_param_spec_string("array", "Array", "Which of the frame's images is shown (unset: the first)", NULL, usual));
    g_object_class_install_property(
        class, PROP_TIMEOUT,
        g_param_spec_uint64("timeout", "Timeout",
                            "An error after so many nanoseconds without a frame (0: it waits, also for a writer)", 0,
                            G_MAXINT64, 0, usual));
    g_object_class_install_property(class, PROP_ON_CLOSE,
                                    g_param_spec_enum("on-close", "On close",
                                                      "What happens when the writer closes the channel",
                                                      on_close_type(), ON_CLOSE_EOS, usual));
    g_object_class_install_property(
        class, PROP_FRAMERATE,
        gst_param_spec_fraction("framerate", "Frame rate",
                                "The rate in the caps (0/1: measured over the first frames, 10 or half a second)", 0, 1,
                                G_MAXINT, 1, 0, 1, usual));
    g_object_class_install_property(
        class, PROP_STATS,
        g_param_spec_boxed(
            "stats", "Statistics",
            "Buffers in place and copied; frames that were taken only to measure the rate, and missed; sessions of "
            "writers (sluice-stats: in-place, copied, dropped, missed, sessions)",
            GST_TYPE_STRUCTURE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
}

static void gst_sluice_src_class_init(GstSluiceSrcClass *class)
{
    GObjectClass *object = G_OBJECT_CLASS(class);
    GstElementClass *element = GST_ELEMENT_CLASS(class);
    GstBaseSrcClass *source = GST_BASE_SRC_CLASS(class);

    GST_DEBUG_CATEGORY_INIT(sluicesrc_debug, "sluicesrc", 0, "frames of a Sluice channel");
    object->set_property = set_property;
    object->get_property = get_property;
    object->finalize = finalize;
    install_properties(object);
    gst_element_class_set_static_metadata(element, "Sluice source", "Source/Video",
                                          "The frames of a Sluice channel, which another process writes, in place",
                                          "The Sluice authors");
    gst_element_class_add_static_pad_template(element, &src_template);
    element->set_context = set_context;
    source->start = start;
    source->stop = stop;
    source->unlock = unlock;
    source->unlock_stop = unlock_stop;
    source->negotiate = negotiate;
    source->decide_allocation = decide_allocation;
    source->query = query;
    GST_PUSH_SRC_CLASS(class)->create = create;
    gst_type_mark_as_plugin_api(mode_type(), 0);
    gst_type_mark_as_plugin_api(on_close_type(), 0);
}

static void gst_sluice_src_init(GstSluiceSrc *self)
{
    gst_sluice_gpu_use_init(&self->gpu_use);
    self->mode = SLUICE_NEWEST;
    self->fps_d = self->intake.rate_d = 1;
    gst_base_src_set_live(GST_BASE_SRC(self), TRUE);
    gst_base_src_set_format(GST_BASE_SRC(self), GST_FORMAT_TIME);
}
