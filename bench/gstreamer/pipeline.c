/* SPDX-License-Identifier: MIT
 *
 * One side of a measurement: a pipeline whose buffers carry the time at which they were handed over, in their first
 * bytes.
 *
 *     gst-pipeline COUNT [stamp] [read] [pace] [hash] [any-layout] [readers] DESCRIPTION
 *
 * `stamp`: each buffer that leaves the element `in` gets the time. `read`: of COUNT buffers that reach the element
 * `out` it prints the nanoseconds since then, a line each, after 30 that are not counted; then "cpu NS" of this process
 * for them. `pace`: of all buffers that reach `out`, at most COUNT, the nanoseconds since the one before. `hash`:
 * "hash HASH" of each picture there. `any-layout`: `out` reads pictures by GstVideoMeta. `readers`: it is paused until
 * the element `sink` has two readers, its own and another. At the end it prints "stats ..." of the elements `src` and
 * `sink`, if they have any.
 *
 * It ends behind COUNT buffers, with the stream, or, where it measures nothing, with its input.
 */
#include <gst/gst.h>
#include <gst/video/video.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define UNCOUNTED 30

static gint64 *times, cpu_began, last;
static gint count, taken, kept;
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

/* ---- probes ---- */

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
    if (taken >= UNCOUNTED && kept < count)
        times[kept++] = arrived - sent;
    if (++taken == UNCOUNTED + count)
        g_main_loop_quit(loop);
    return GST_PAD_PROBE_OK;
}

static GstPadProbeReturn pace(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    gint64 now = now_ns();
    (void)pad;
    (void)info;
    (void)user;

    if (last && kept < count)
        times[kept++] = now - last;
    last = now;
    return GST_PAD_PROBE_OK;
}

/* Eight bytes at a time: the machine shall decode, not add up. */
static guint64 hash_row(guint64 hash, const guint8 *row, gsize bytes)
{
    for (; bytes > 0; row += 8, bytes -= MIN(bytes, 8)) {
        guint64 word = 0;
        memcpy(&word, row, MIN(bytes, 8));
        hash = (hash ^ word) * G_GUINT64_CONSTANT(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static GstPadProbeReturn hash(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    GstCaps *caps = gst_pad_get_current_caps(pad);
    GstVideoInfo video;
    GstVideoFrame frame;
    guint64 hash = 1;
    (void)user;

    if (!gst_video_info_from_caps(&video, caps) ||
        !gst_video_frame_map(&frame, &video, GST_PAD_PROBE_INFO_BUFFER(info), GST_MAP_READ))
        exit(1);
    gst_caps_unref(caps);
    for (guint plane = 0; plane < GST_VIDEO_FRAME_N_PLANES(&frame); plane++) {
        gint components[GST_VIDEO_MAX_COMPONENTS];
        gst_video_format_info_component(video.finfo, plane, components);
        gsize bytes = (gsize)(GST_VIDEO_FRAME_COMP_WIDTH(&frame, components[0]) *
                              GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, components[0]));
        for (gint row = 0; row < GST_VIDEO_FRAME_COMP_HEIGHT(&frame, components[0]); row++)
            hash = hash_row(hash,
                            (const guint8 *)GST_VIDEO_FRAME_PLANE_DATA(&frame, plane) +
                                row * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, plane),
                            bytes);
    }
    gst_video_frame_unmap(&frame);
    printf("hash %016" G_GINT64_MODIFIER "x\n", hash);
    return GST_PAD_PROBE_OK;
}

/* What reads pictures by GstVideoMeta says so, and gets them in any layout. */
static GstPadProbeReturn answer(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    GstQuery *query = GST_PAD_PROBE_INFO_QUERY(info);
    (void)pad;
    (void)user;

    if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION || !(info->type & GST_PAD_PROBE_TYPE_PUSH))
        return GST_PAD_PROBE_OK;
    gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
    return GST_PAD_PROBE_HANDLED;
}

static void probe(GstElement *pipeline, const char *element, const char *pad_name, GstPadProbeType type,
                  GstPadProbeCallback call)
{
    GstElement *found = gst_bin_get_by_name(GST_BIN(pipeline), element);
    GstPad *pad = gst_element_get_static_pad(found, pad_name);

    gst_pad_add_probe(pad, type, call, NULL, NULL);
    gst_object_unref(pad);
    gst_object_unref(found);
}

/* ---- beginning and end ---- */

static gboolean on_message(GstBus *bus, GstMessage *message, gpointer user)
{
    GError *error = NULL;
    (void)bus;
    (void)user;

    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS)
        g_main_loop_quit(loop);
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

static GstStructure *stats_of(GstElement *pipeline, const char *name)
{
    GstElement *element = gst_bin_get_by_name(GST_BIN(pipeline), name);
    GstStructure *stats = NULL;

    if (element && g_object_class_find_property(G_OBJECT_GET_CLASS(element), "stats"))
        g_object_get(element, "stats", &stats, NULL);
    return stats;
}

static void wait_for_readers(GstElement *pipeline)
{
    guint readers = 0;

    gst_element_set_state(pipeline, GST_STATE_PAUSED);
    while (gst_structure_get_uint(stats_of(pipeline, "sink"), "readers", &readers) && readers < 2)
        g_usleep(1000);
}

static void report(GstElement *pipeline)
{
    gint64 cpu = cpu_ns() - cpu_began;
    static const char *const names[] = { "src", "sink" };

    for (gint i = 0; i < kept; i++)
        printf("%" G_GINT64_FORMAT "\n", times[i]);
    if (taken > UNCOUNTED)
        printf("cpu %" G_GINT64_FORMAT "\n", cpu);
    for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
        GstStructure *stats = stats_of(pipeline, names[i]);
        if (stats)
            printf("stats %s\n", gst_structure_to_string(stats));
    }
}

static gboolean has(int argc, char **argv, const char *word)
{
    for (int i = 2; i < argc - 1; i++)
        if (strcmp(argv[i], word) == 0)
            return TRUE;
    return FALSE;
}

int main(int argc, char **argv)
{
    GError *error = NULL;

    gst_init(&argc, &argv);
    if (argc < 3)
        return fprintf(stderr,
                       "usage: gst-pipeline COUNT [stamp] [read] [pace] [hash] [any-layout] [readers] DESCRIPTION\n"),
               2;
    count = atoi(argv[1]);
    times = g_new0(gint64, count + 1);
    GstElement *pipeline = gst_parse_launch_full(argv[argc - 1], NULL, GST_PARSE_FLAG_FATAL_ERRORS, &error);
    if (!pipeline)
        return fprintf(stderr, "%s\n", error->message), 77;
    loop = g_main_loop_new(NULL, FALSE);
    gst_bus_add_watch(gst_element_get_bus(pipeline), on_message, NULL);
    if (has(argc, argv, "stamp"))
        probe(pipeline, "in", "src", GST_PAD_PROBE_TYPE_BUFFER, stamp);
    if (has(argc, argv, "read"))
        probe(pipeline, "out", "sink", GST_PAD_PROBE_TYPE_BUFFER, take);
    if (has(argc, argv, "pace"))
        probe(pipeline, "out", "sink", GST_PAD_PROBE_TYPE_BUFFER, pace);
    if (has(argc, argv, "hash"))
        probe(pipeline, "out", "sink", GST_PAD_PROBE_TYPE_BUFFER, hash);
    if (has(argc, argv, "any-layout"))
        probe(pipeline, "out", "sink", GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM, answer);
    if (!has(argc, argv, "read") && !has(argc, argv, "pace") && !has(argc, argv, "hash"))
        g_io_add_watch(g_io_channel_unix_new(0), G_IO_IN | G_IO_HUP, on_input, NULL);
    if (has(argc, argv, "readers"))
        wait_for_readers(pipeline);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    g_main_loop_run(loop);
    report(pipeline);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    return 0;
}
