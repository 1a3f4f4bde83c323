/* SPDX-License-Identifier: MIT
 *
 * GStreamer: appsrc ! shmsink to shmsrc ! appsink. Buffers come from shmsink's own allocator, as an
 * element before it would request them, which avoids a copy. The reader reads in place.
 */
#include <gst/app/gstappsink.h>
#include <gst/app/gstappsrc.h>
#include <gst/gst.h>
#include <stdio.h>
#include <string.h>

#include "peer.h"

static GstElement *pipeline, *end;
static GstAllocator *allocator;
static GstAllocationParams params;
static GstBuffer *buffer; /* the writer's loan, or the reader's frame */
static GstSample *sample;
static GstMapInfo map;
static size_t size;

static void open_side(const char *description, const char *end_name)
{
    GError *error = NULL;
    gst_init(NULL, NULL);
    pipeline = gst_parse_launch(description, &error);
    if (!pipeline || error)
        die_missing("%s", error ? error->message : "no pipeline");
    end = gst_bin_get_by_name(GST_BIN(pipeline), end_name);
    if (gst_element_set_state(pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
        die("the pipeline does not start");
}

static void writer_open(size_t bytes)
{
    char description[512];
    size = bytes;
    snprintf(description, sizeof description,
             "appsrc name=end format=time block=true max-buffers=1 max-bytes=0 ! "
             "shmsink socket-path=gstreamer sync=false async=false wait-for-connection=true "
             "shm-size=%zu",
             SLOTS * (bytes + 4096));
    open_side(description, "end");
}

static void reader_open(size_t bytes)
{
    (void)bytes;
    open_side("shmsrc socket-path=gstreamer ! appsink name=end sync=false", "end");
}

/* What the element after appsrc would have its buffers made of. */
static void ask_for_allocator(void)
{
    GstPad *pad = gst_element_get_static_pad(end, "src");
    GstQuery *query = gst_query_new_allocation(NULL, FALSE);
    errno = 0;
    if (!gst_pad_peer_query(pad, query) || gst_query_get_n_allocation_params(query) == 0)
        die("shmsink offers no allocator");
    gst_query_parse_nth_allocation_param(query, 0, &allocator, &params);
    gst_query_unref(query);
    gst_object_unref(pad);
}

static void *loan(void)
{
    if (!allocator)
        ask_for_allocator();
    while (!(buffer = gst_buffer_new_allocate(allocator, size, &params)))
        g_usleep(20); /* there is no call that waits for the reader here */
    gst_buffer_map(buffer, &map, GST_MAP_WRITE);
    return map.data;
}

static void send_frame(const void *own)
{
    if (own)
        memcpy(loan(), own, size);
    gst_buffer_unmap(buffer, &map);
    errno = 0;
    if (gst_app_src_push_buffer(GST_APP_SRC(end), buffer) != GST_FLOW_OK)
        die("appsrc takes no buffer");
}

static const void *receive_frame(void)
{
    errno = 0;
    if (!(sample = gst_app_sink_pull_sample(GST_APP_SINK(end))))
        die("appsink has no buffer");
    buffer = gst_sample_get_buffer(sample);
    if (!gst_buffer_map(buffer, &map, GST_MAP_READ))
        die("the buffer cannot be read");
    return map.data;
}

static void release_frame(void)
{
    gst_buffer_unmap(buffer, &map);
    gst_sample_unref(sample);
}

static void close_side(void)
{
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
}

const struct peer peer = {
    .in_place = true,
    .writer_open = writer_open,
    .loan = loan,
    .send = send_frame,
    .writer_close = close_side,
    .reader_open = reader_open,
    .receive = receive_frame,
    .release = release_frame,
    .reader_close = close_side,
};
