/* SPDX-License-Identifier: MIT
 *
 * sluicesrc: the frames of a channel, in place.
 */
#include "meta.h"
#include "picture.h"
#include "source_private.h"

GST_DEBUG_CATEGORY_STATIC(sluicesrc_debug);
#define GST_CAT_DEFAULT sluicesrc_debug

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

/* ---- caps, allocation ---- */

static gboolean negotiate(GstBaseSrc *base)
{
    GstSluiceSrc *self = GST_SLUICE_SRC(base);

    if (!self->known)
        return TRUE; /* the first frame tells */
    GstCaps *caps = gst_sluice_src_caps(self);
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

static GstFlowReturn create(GstPushSrc *base, GstBuffer **buffer)
{
    GstSluiceSrc *self = GST_SLUICE_SRC(base);
    struct gst_sluice_lease *lease;
    struct sluice_array array;
    char *why = NULL;
    GstFlowReturn flow = next_lease(self, &lease);

    if (flow != GST_FLOW_OK)
        return flow;
    if ((flow = gst_sluice_src_look_at(self, &lease->frame, &array)) != GST_FLOW_OK) {
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
        flow = gst_sluice_src_refuse(self, "Channel '%s': %s", why);
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

/* ---- the class ---- */

static void finalize(GObject *object)
{
    GstSluiceSrc *self = GST_SLUICE_SRC(object);

    gst_sluice_gpu_use_end(&self->gpu_use);
    g_free(self->channel);
    g_free(self->array);
    G_OBJECT_CLASS(gst_sluice_src_parent_class)->finalize(object);
}

static void gst_sluice_src_class_init(GstSluiceSrcClass *class)
{
    GObjectClass *object = G_OBJECT_CLASS(class);
    GstElementClass *element = GST_ELEMENT_CLASS(class);
    GstBaseSrcClass *source = GST_BASE_SRC_CLASS(class);

    GST_DEBUG_CATEGORY_INIT(sluicesrc_debug, "sluicesrc", 0, "frames of a Sluice channel");
    object->finalize = finalize;
    gst_sluice_src_install_properties(object);
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
}

static void gst_sluice_src_init(GstSluiceSrc *self)
{
    gst_sluice_gpu_use_init(&self->gpu_use);
    self->mode = SLUICE_NEWEST;
    self->fps_d = self->intake.rate_d = 1;
    gst_base_src_set_live(GST_BASE_SRC(self), TRUE);
    gst_base_src_set_format(GST_BASE_SRC(self), GST_FORMAT_TIME);
}
