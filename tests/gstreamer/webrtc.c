/* SPDX-License-Identifier: MIT
 *
 * The page's pipelines for WebRTC: one process has both sides, and passes on what they have to tell each other.
 */
#include <gst/gst.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "gstreamer/kit.h"

/* ---- the role: webrtc SENDER RECEIVER ---- */

static GstElement *peers[2]; /* who offers, who answers */
static const char *receiver;

static void describe(GstElement *of, GstElement *other, GstPromise *promise, const char *kind)
{
    const GstStructure *reply = gst_promise_get_reply(promise);
    gpointer description = reply ? g_value_get_boxed(gst_structure_get_value(reply, kind)) : NULL;

    g_signal_emit_by_name(of, "set-local-description", description, NULL);
    g_signal_emit_by_name(other, "set-remote-description", description, NULL);
}

static void on_answer(GstPromise *promise, gpointer user)
{
    (void)user;
    describe(peers[1], peers[0], promise, "answer");
    gst_promise_unref(promise);
}

static void on_offer(GstPromise *promise, gpointer user)
{
    (void)user;
    describe(peers[0], peers[1], promise, "offer");
    gst_promise_unref(promise);
    g_signal_emit_by_name(peers[1], "create-answer", NULL, gst_promise_new_with_change_func(on_answer, NULL, NULL));
}

static void on_negotiation_needed(GstElement *peer, gpointer user)
{
    (void)user;
    g_signal_emit_by_name(peer, "create-offer", NULL, gst_promise_new_with_change_func(on_offer, NULL, NULL));
}

static void on_candidate(GstElement *peer, guint line, gchar *candidate, gpointer user)
{
    (void)peer;
    g_signal_emit_by_name(user, "add-ice-candidate", line, candidate);
}

static void on_pad(GstElement *peer, GstPad *pad, gpointer user)
{
    GstElement *bin = GST_ELEMENT(gst_element_get_parent(peer)), *rest;
    (void)user;

    if (GST_PAD_DIRECTION(pad) == GST_PAD_SRC && (rest = gst_parse_bin_from_description(receiver, TRUE, NULL))) {
        GstPad *sink = gst_element_get_static_pad(rest, "sink");
        gst_bin_add(GST_BIN(bin), rest);
        gst_pad_link(pad, sink);
        gst_element_sync_state_with_parent(rest);
        gst_object_unref(sink);
    }
    gst_object_unref(bin);
}

ROLE(webrtc)
{
    gst_init(NULL, NULL);
    receiver = argv[2];
    GstElement *here = gst_parse_launch(argv[1], NULL), *there = gst_pipeline_new(NULL);
    peers[0] = gst_bin_get_by_name(GST_BIN(here), "peer");
    peers[1] = gst_element_factory_make("webrtcbin", NULL);
    gst_bin_add(GST_BIN(there), peers[1]);
    for (int i = 0; i < 2; i++)
        g_signal_connect(peers[i], "on-ice-candidate", G_CALLBACK(on_candidate), peers[!i]);
    g_signal_connect(peers[0], "on-negotiation-needed", G_CALLBACK(on_negotiation_needed), NULL);
    g_signal_connect(peers[1], "pad-added", G_CALLBACK(on_pad), NULL);
    gst_element_set_state(there, GST_STATE_PLAYING);
    gst_element_set_state(here, GST_STATE_PLAYING);
    role_say("runs");
    while (role_line())
        ;
    gst_element_set_state(here, GST_STATE_NULL);
    gst_element_set_state(there, GST_STATE_NULL);
    (void)argc;
    return 0;
}

/* ---- the test ---- */

/* The two sides meet at an address that is not the loopback's, by libnice's rules. */
static void need_network(void)
{
    struct ifaddrs *all, *at;
    bool found = false;

    CHECK_EQ(getifaddrs(&all), 0);
    for (at = all; at && !found; at = at->ifa_next)
        found = at->ifa_addr && at->ifa_addr->sa_family == AF_INET && (at->ifa_flags & IFF_UP) &&
                !(at->ifa_flags & IFF_LOOPBACK);
    freeifaddrs(all);
    if (!found)
        SKIP("there is no network interface but the loopback's");
}

TEST_TIMEOUT(webrtc_carries_a_channel_to_another_one, 120)
{
    static const char *const elements[] = { "webrtcbin", "nicesrc",    "dtlsenc",      "srtpenc",
                                            "x264enc",   "avdec_h264", "rtph264depay", "videoconvert" };
    char sender[2048], rest[2048];
    struct sluice_frame frame;
    int r = SLUICE_NO_WRITER;

    need_network();
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++)
        need_element(elements[i]);
    page_line("! webrtcbin name=peer", sender);
    page_line("sluicesink channel=seen", rest);
    sluice_writer *writer = image_writer("camera", SLUICE_PIXEL_RGBA, 320, 240, 0);
    unsetenv("GST_TRACERS"); /* the role is killed */
    struct child child = role_start("webrtc", sender, rest, NULL);
    child_expect(&child, "runs", 30);
    sluice_reader *reader = image_reader("seen");
    for (uint32_t number = 1; r != 0; number++) {
        image_commit(writer, number);
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame);
    }
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    child_kill(&child, SIGKILL);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}
