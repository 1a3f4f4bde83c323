/* SPDX-License-Identifier: MIT
 *
 * The role "pipeline": see kit.h.
 */
#include <gst/gst.h>
#include <gst/video/video.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gstreamer/hash.h"
#include "harness/test.h"

static GstElement *pipeline;

/* ---- what `look` gets ---- */

static uint64_t hash_rows(const GstVideoFrame *frame)
{
    uint64_t hash = HASH_START;

    for (guint plane = 0; plane < GST_VIDEO_FRAME_N_PLANES(frame); plane++) {
        gint components[GST_VIDEO_MAX_COMPONENTS];
        gst_video_format_info_component(frame->info.finfo, plane, components);
        gint rows = GST_VIDEO_FRAME_COMP_HEIGHT(frame, components[0]);
        gsize bytes = (gsize)(GST_VIDEO_FRAME_COMP_WIDTH(frame, components[0]) *
                              GST_VIDEO_FRAME_COMP_PSTRIDE(frame, components[0]));
        for (gint row = 0; row < rows; row++)
            hash = hash_bytes(hash,
                              (const guint8 *)GST_VIDEO_FRAME_PLANE_DATA(frame, plane) +
                                  row * GST_VIDEO_FRAME_PLANE_STRIDE(frame, plane),
                              bytes);
    }
    return hash;
}

/* A Bayer pattern is a grey picture for this purpose. */
static bool info_of(GstCaps *caps, GstVideoInfo *info)
{
    const GstStructure *structure = gst_caps_get_structure(caps, 0);
    gint width, height;

    if (!gst_structure_has_name(structure, "video/x-bayer"))
        return gst_video_info_from_caps(info, caps);
    return gst_structure_get_int(structure, "width", &width) && gst_structure_get_int(structure, "height", &height) &&
           gst_video_info_set_format(info,
                                     strstr(gst_structure_get_string(structure, "format"), "16")
                                         ? GST_VIDEO_FORMAT_GRAY16_LE
                                         : GST_VIDEO_FORMAT_GRAY8,
                                     (guint)width, (guint)height);
}

static uint64_t hash_buffer(GstBuffer *buffer, GstCaps *caps)
{
    GstVideoInfo info;
    GstVideoFrame frame;
    uint64_t hash = 0;

    if (caps && info_of(caps, &info) && gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ)) {
        hash = hash_rows(&frame);
        gst_video_frame_unmap(&frame);
    }
    return hash;
}

static GMutex kept_lock;
static GQueue kept = G_QUEUE_INIT; /* samples */
static guint keep_more;

static void keep(GstBuffer *buffer, GstCaps *caps)
{
    g_mutex_lock(&kept_lock);
    if (keep_more > 0) {
        keep_more--;
        g_queue_push_tail(&kept, gst_sample_new(buffer, caps, NULL, NULL));
    }
    g_mutex_unlock(&kept_lock);
}

static void say_data(GstBuffer *buffer)
{
    GstCustomMeta *meta = gst_buffer_get_custom_meta(buffer, "sluice");
    GBytes *data = NULL;

    if (!meta || !gst_structure_get(gst_custom_meta_get_structure(meta), "data", G_TYPE_BYTES, &data, NULL))
        return;
    role_say("data %.*s", (int)g_bytes_get_size(data), (const char *)g_bytes_get_data(data, NULL));
    g_bytes_unref(data);
}

static void say_buffer(GstPad *pad, GstBuffer *buffer)
{
    GstCaps *caps = gst_pad_get_current_caps(pad);
    uint64_t hash = hash_buffer(buffer, caps);

    keep(buffer, caps);
    if (caps)
        gst_caps_unref(caps);
    say_data(buffer);
    role_say("buffer %llu %lld %s%s- %016llx", (unsigned long long)GST_BUFFER_OFFSET(buffer),
             (long long)GST_BUFFER_PTS(buffer), GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT) ? "d" : "",
             GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_CORRUPTED) ? "c" : "", (unsigned long long)hash);
}

static GstPadProbeReturn look(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    (void)user;
    if (info->type & GST_PAD_PROBE_TYPE_BUFFER) {
        say_buffer(pad, GST_PAD_PROBE_INFO_BUFFER(info));
    } else if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_CAPS) {
        GstCaps *caps;
        gst_event_parse_caps(GST_PAD_PROBE_INFO_EVENT(info), &caps);
        gchar *text = gst_caps_to_string(caps);
        role_say("caps %s", text);
        g_free(text);
    }
    return GST_PAD_PROBE_OK;
}

/* ---- `gate`, which lets one buffer pass for each "next" ---- */

static GMutex gate_lock;
static GCond gate_changed;
static guint gate_passes;
static gboolean gate_open;

static GstPadProbeReturn wait_at_gate(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    (void)pad;
    (void)info;
    (void)user;
    g_mutex_lock(&gate_lock);
    while (gate_passes == 0 && !gate_open)
        g_cond_wait(&gate_changed, &gate_lock);
    gate_passes -= !gate_open;
    g_mutex_unlock(&gate_lock);
    return GST_PAD_PROBE_OK;
}

static void let_pass(guint count, gboolean open)
{
    g_mutex_lock(&gate_lock);
    gate_passes += count;
    gate_open = open;
    g_cond_broadcast(&gate_changed);
    g_mutex_unlock(&gate_lock);
}

/* ---- messages ---- */

static void say_error(const char *kind, GError *error, gchar *debug)
{
    role_say("%s %s", kind, error->message);
    g_error_free(error);
    g_free(debug);
}

/* On the thread that posts it. */
static GstBusSyncReply on_message(GstBus *bus, GstMessage *message, gpointer user)
{
    GError *error;
    gchar *debug;
    (void)bus;
    (void)user;

    switch (GST_MESSAGE_TYPE(message)) {
    case GST_MESSAGE_ERROR:
        gst_message_parse_error(message, &error, &debug);
        say_error("error", error, debug);
        break;
    case GST_MESSAGE_WARNING:
        gst_message_parse_warning(message, &error, &debug);
        say_error("warning", error, debug);
        break;
    case GST_MESSAGE_QOS: role_say("dropped"); break;
    case GST_MESSAGE_EOS: role_say("eos"); break;
    default: break;
    }
    gst_message_unref(message);
    return GST_BUS_DROP;
}

/* ---- questions ---- */

static void say_stats(const char *name)
{
    GstElement *element = gst_bin_get_by_name(GST_BIN(pipeline), name);
    GstStructure *stats;

    g_object_get(element, "stats", &stats, NULL);
    gchar *text = gst_structure_to_string(stats);
    role_say("stats %s", text);
    g_free(text);
    gst_structure_free(stats);
    gst_object_unref(element);
}

static void say_latency(void)
{
    GstQuery *query = gst_query_new_latency();
    GstElement *element = gst_bin_get_by_name(GST_BIN(pipeline), "look");
    GstPad *pad = gst_element_get_static_pad(element, "sink");
    GstClockTime least = 0;
    gboolean live = FALSE;

    if (gst_pad_peer_query(pad, query))
        gst_query_parse_latency(query, &live, &least, NULL);
    gst_object_unref(pad);
    gst_object_unref(element);
    gst_query_unref(query);
    if (live)
        role_say("latency %llu", (unsigned long long)least);
    else
        role_say("latency none");
}

static void cycle(int times)
{
    for (int i = 0; i < times; i++) {
        gst_element_set_state(pipeline, GST_STATE_NULL);
        gst_element_set_state(pipeline, GST_STATE_PLAYING);
        (void)gst_element_get_state(pipeline, NULL, NULL, GST_CLOCK_TIME_NONE);
    }
    role_say("cycled");
}

static void change_state(GstState state, const char *word)
{
    gst_element_set_state(pipeline, state);
    (void)gst_element_get_state(pipeline, NULL, NULL, GST_CLOCK_TIME_NONE);
    role_say("%s", word);
}

static void say_kept(void)
{
    g_mutex_lock(&kept_lock);
    for (GList *at = kept.head; at; at = at->next)
        role_say("kept %016llx",
                 (unsigned long long)hash_buffer(gst_sample_get_buffer(at->data), gst_sample_get_caps(at->data)));
    g_mutex_unlock(&kept_lock);
}

static void drop_kept(void)
{
    g_mutex_lock(&kept_lock);
    g_queue_clear_full(&kept, (GDestroyNotify)gst_sample_unref);
    g_mutex_unlock(&kept_lock);
}

/* The child drops the buffers that were kept. Then it ends, or stays until somebody kills it. No other thread may be at
 * work, so that none has a lock which the child needs. */
static void fork_child(bool stays)
{
    int ready[2];
    char byte;

    if (pipe(ready) != 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        drop_kept();
        if (!stays)
            _exit(3);
        (void)!write(ready[1], "r", 1);
        for (;;)
            pause();
    }
    if (stays) {
        (void)!read(ready[0], &byte, 1);
        role_say("forked %d", (int)pid);
    } else {
        int status = 0;
        waitpid(pid, &status, 0);
        role_say("forked %d", WEXITSTATUS(status));
    }
    close(ready[0]);
    close(ready[1]);
}

static void answer(const char *line)
{
    if (strncmp(line, "stats ", 6) == 0)
        say_stats(line + 6);
    else if (strcmp(line, "latency") == 0)
        say_latency();
    else if (strncmp(line, "cycle ", 6) == 0)
        cycle(atoi(line + 6));
    else if (strcmp(line, "again") == 0)
        cycle(1);
    else if (strcmp(line, "pause") == 0)
        change_state(GST_STATE_PAUSED, "paused");
    else if (strcmp(line, "play") == 0)
        change_state(GST_STATE_PLAYING, "plays");
    else if (strcmp(line, "next") == 0)
        let_pass(1, FALSE);
    else if (strncmp(line, "keep ", 5) == 0)
        keep_more = (guint)atoi(line + 5);
    else if (strcmp(line, "kept") == 0)
        say_kept();
    else if (strcmp(line, "drop") == 0)
        drop_kept();
    else if (strncmp(line, "fork", 4) == 0)
        fork_child(strcmp(line, "fork stay") == 0);
    else if (strcmp(line, "eos") == 0)
        gst_element_send_event(pipeline, gst_event_new_eos());
}

static void probe(const char *name, GstPadProbeType type, GstPadProbeCallback callback)
{
    GstElement *element = gst_bin_get_by_name(GST_BIN(pipeline), name);

    if (!element)
        return;
    GstPad *pad = gst_element_get_static_pad(element, "sink");
    gst_pad_add_probe(pad, type, callback, NULL, NULL);
    gst_object_unref(pad);
    gst_object_unref(element);
}

ROLE(pipeline)
{
    GError *error = NULL;
    char *line;

    gst_init(NULL, NULL);
    pipeline = gst_parse_launch_full(argv[1], NULL, GST_PARSE_FLAG_FATAL_ERRORS | GST_PARSE_FLAG_PLACE_IN_BIN, &error);
    if (!pipeline) {
        role_say("missing %s", error->message);
        return 0;
    }
    role_say("runs");
    GstElement *toplevel = gst_pipeline_new(NULL);
    gst_bin_add(GST_BIN(toplevel), pipeline);
    pipeline = toplevel;
    GstBus *bus = gst_element_get_bus(pipeline);
    gst_bus_set_sync_handler(bus, on_message, NULL, NULL);
    probe("look", GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, look);
    probe("gate", GST_PAD_PROBE_TYPE_BUFFER, wait_at_gate);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    while ((line = role_line()))
        answer(line);
    let_pass(0, TRUE);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(bus);
    gst_object_unref(pipeline);
    drop_kept();
    gst_deinit();
    return 0;
}

ROLE(element)
{
    gst_init(NULL, NULL);
    GstElementFactory *factory = gst_element_factory_find(argv[1]);
    role_say(factory ? "yes" : "no");
    if (factory)
        gst_object_unref(factory);
    (void)argc;
    return 0;
}
