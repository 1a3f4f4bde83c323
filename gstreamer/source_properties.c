/* SPDX-License-Identifier: MIT
 *
 * The properties of sluicesrc.
 */
#include "enum.h"
#include "source_private.h"

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

void gst_sluice_src_install_properties(GObjectClass *class)
{
    const GParamFlags usual = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;

    class->set_property = set_property;
    class->get_property = get_property;
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
    gst_type_mark_as_plugin_api(mode_type(), 0);
    gst_type_mark_as_plugin_api(on_close_type(), 0);
}
