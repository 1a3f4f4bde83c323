/* SPDX-License-Identifier: MIT
 *
 * Channels as devices: those there are, and those that come and go.
 */
#include <gst/gst.h>
#include <signal.h>
#include <string.h>

#include "gstreamer/kit.h"

static GstBusSyncReply on_message(GstBus *bus, GstMessage *message, gpointer user)
{
    GstDevice *device = NULL;
    const char *what = NULL;
    (void)bus;
    (void)user;

    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_DEVICE_ADDED) {
        gst_message_parse_device_added(message, &device);
        what = "added";
    } else if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_DEVICE_REMOVED) {
        gst_message_parse_device_removed(message, &device);
        what = "removed";
    }
    if (device) {
        gchar *name = gst_device_get_display_name(device);
        GstCaps *caps = gst_device_get_caps(device);
        gchar *text = gst_caps_to_string(caps);
        role_say("%s %s %s", what, name, text);
        g_free(text);
        gst_caps_unref(caps);
        g_free(name);
        gst_object_unref(device);
    }
    gst_message_unref(message);
    return GST_BUS_DROP;
}

/* Says "added NAME CAPS" and "removed NAME CAPS"; a line is answered by "element CHANNEL" of a source made of that
 * device. */
ROLE(monitor)
{
    char *line;
    (void)argc;
    (void)argv;

    gst_init(NULL, NULL);
    GstDeviceMonitor *monitor = gst_device_monitor_new();
    gst_device_monitor_add_filter(monitor, "Video/Source", NULL);
    GstBus *bus = gst_device_monitor_get_bus(monitor);
    gst_bus_set_sync_handler(bus, on_message, NULL, NULL);
    gst_device_monitor_start(monitor);
    role_say("started");
    while ((line = role_line())) {
        GList *devices = gst_device_monitor_get_devices(monitor);
        for (GList *at = devices; at; at = at->next) {
            gchar *channel = NULL;
            GstElement *element = gst_device_create_element(at->data, NULL);
            if (!element)
                continue;
            if (strcmp(GST_OBJECT_NAME(gst_element_get_factory(element)), "sluicesrc") == 0) {
                g_object_get(element, "channel", &channel, NULL);
                role_say("element %s", channel);
                g_free(channel);
            }
            gst_object_unref(gst_object_ref_sink(element));
        }
        g_list_free_full(devices, gst_object_unref);
    }
    gst_device_monitor_stop(monitor);
    gst_object_unref(bus);
    gst_object_unref(monitor);
    gst_deinit();
    return 0;
}

TEST_TIMEOUT(channels_come_and_go, 60)
{
    sluice_writer *first = image_writer("first", SLUICE_PIXEL_NV12, 320, 240, 0), *second;
    gstreamer_environment();
    struct child monitor = role_start("monitor", NULL);

    CHECK_HAS(pipeline_says(&monitor, "added"),
              "first video/x-raw, format=(string)NV12, width=(int)320, height=(int)240");
    pipeline_says(&monitor, "started");
    second = image_writer("second", SLUICE_PIXEL_RGBA, 64, 48, 0);
    CHECK_HAS(pipeline_says(&monitor, "added"), "second ");
    CHECK_OK(sluice_writer_close(&first));
    CHECK_HAS(pipeline_says(&monitor, "removed"), "first ");
    child_send(&monitor, "elements");
    CHECK_STR(pipeline_says(&monitor, "element"), "second");
    pipeline_stop(&monitor);
    CHECK_OK(sluice_writer_close(&second));
}
