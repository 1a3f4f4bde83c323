/* SPDX-License-Identifier: MIT
 *
 * One side of a measurement: a pipeline whose buffers carry the time at which they were handed over, in their first
 * bytes.
 *
 *     gst-pipeline COUNT [stamp] [read] DESCRIPTION
 *
 * `stamp`: each buffer that leaves the element `in` gets the time. `read`: of COUNT buffers that reach the element
 * `out` it prints the nanoseconds since then, a line each, after 30 that are not counted; then "cpu NS" of this process
 * for them, and "stats ..." of the element `src`, if it has any. It ends behind them, or with its input.
 */
#include <gst/gst.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define UNCOUNTED 30

static gint64 *times, cpu_began;
static gint count, taken;
static GMainLoop *loop;

static gint64 now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * G_GINT64_CONSTANT(1000000000) + now.tv_nsec;
}

static gint64 cpu_ns(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * G_GINT64_CONSTANT(1000000000) +
           (use.ru_utime.tv_usec + use.ru_stime.tv_usec) * G_GINT64_CONSTANT(1000);
}

static GstPadProbeReturn stamp(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    GstMapInfo map;
    (void)pad;
    (void)user;

    if (gst_buffer_map(GST_PAD_PROBE_INFO_BUFFER(info), &map, GST_MAP_WRITE)) {
        gint64 now = now_ns();
        memcpy(map.data, &now, sizeof now);
        gst_buffer_unmap(GST_PAD_PROBE_INFO_BUFFER(info), &map);
    }
    return GST_PAD_PROBE_OK;
}

static GstPadProbeReturn take(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    gint64 arrived = now_ns(), sent = 0;
    (void)pad;
    (void)user;

    gst_buffer_extract(GST_PAD_PROBE_INFO_BUFFER(info), 0, &sent, sizeof sent);
    if (taken == UNCOUNTED)
        cpu_began = cpu_ns();
    if (taken >= UNCOUNTED && taken < UNCOUNTED + count)
        times[taken - UNCOUNTED] = arrived - sent;
    if (++taken == UNCOUNTED + count)
        g_main_loop_quit(loop);
    return GST_PAD_PROBE_OK;
}

static void probe(GstElement *pipeline, const char *element, const char *pad_name, GstPadProbeCallback call)
{
    GstElement *found = gst_bin_get_by_name(GST_BIN(pipeline), element);
    GstPad *pad = gst_element_get_static_pad(found, pad_name);

    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, call, NULL, NULL);
    gst_object_unref(pad);
    gst_object_unref(found);
}

static gboolean on_message(GstBus *bus, GstMessage *message, gpointer user)
{
    GError *error = NULL;
    (void)bus;
    (void)user;

    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        gst_message_parse_error(message, &error, NULL);
        fprintf(stderr, "%s\n", error->message);
        exit(1);
    }
    return TRUE;
}

static gboolean on_input(GIOChannel *input, GIOCondition condition, gpointer user)
{
    (void)input;
    (void)condition;
    (void)user;
    g_main_loop_quit(loop);
    return FALSE;
}

static void report(GstElement *pipeline)
{
    gint64 cpu = cpu_ns() - cpu_began;
    GstElement *source = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    GstStructure *stats = NULL;

    for (gint i = 0; i < count; i++)
        printf("%" G_GINT64_FORMAT "\n", times[i]);
    printf("cpu %" G_GINT64_FORMAT "\n", cpu);
    if (source && g_object_class_find_property(G_OBJECT_GET_CLASS(source), "stats"))
        g_object_get(source, "stats", &stats, NULL);
    if (stats)
        printf("stats %s\n", gst_structure_to_string(stats));
}

int main(int argc, char **argv)
{
    GError *error = NULL;
    gboolean reads = FALSE, stamps = FALSE;

    gst_init(&argc, &argv);
    if (argc < 3)
        return fprintf(stderr, "usage: gst-pipeline COUNT [stamp] [read] DESCRIPTION\n"), 2;
    count = atoi(argv[1]);
    times = g_new0(gint64, count);
    for (int i = 2; i < argc - 1; i++) {
        stamps |= strcmp(argv[i], "stamp") == 0;
        reads |= strcmp(argv[i], "read") == 0;
    }
    GstElement *pipeline = gst_parse_launch_full(argv[argc - 1], NULL, GST_PARSE_FLAG_FATAL_ERRORS, &error);
    if (!pipeline)
        return fprintf(stderr, "%s\n", error->message), 77;
    loop = g_main_loop_new(NULL, FALSE);
    gst_bus_add_watch(gst_element_get_bus(pipeline), on_message, NULL);
    if (stamps)
        probe(pipeline, "in", "src", stamp);
    if (reads)
        probe(pipeline, "out", "sink", take);
    else
        g_io_add_watch(g_io_channel_unix_new(0), G_IO_IN | G_IO_HUP, on_input, NULL);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    g_main_loop_run(loop);
    if (reads)
        report(pipeline);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    return 0;
}
