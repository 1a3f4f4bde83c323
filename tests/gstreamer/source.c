/* SPDX-License-Identifier: MIT
 *
 * sluicesrc: frames in place, copies at the limit, sessions, ends, and what it refuses.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "gstreamer/kit.h"

/* Commits as many frames of the size as each line says. */
ROLE(player)
{
    uint32_t number = 0;
    char *line;

    sluice_writer *writer =
        image_writer(argv[1], SLUICE_PIXEL_RGBA, (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]), 0);
    role_say("open");
    (void)argc;
    while ((line = role_line())) {
        for (int i = 0; i < atoi(line); i++) {
            image_commit(writer, ++number);
            test_nap(5 * SLUICE_MS);
        }
        struct sluice_writer_stats stats = { .size = sizeof stats };
        CHECK_OK(sluice_writer_stats(writer, &stats));
        role_say("dropped %llu", (unsigned long long)stats.dropped);
    }
    CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

TEST_TIMEOUT(frames_are_shown_in_place, 60)
{
    sluice_writer *writer = image_writer("cam", SLUICE_PIXEL_RGBA, 1920, 1080, 0);
    struct child pipeline = pipeline_start("sluicesrc name=src channel=cam framerate=60/1 mode=in-order ! "
                                           "identity name=look ! fakesink sync=false");
    CHECK_SOON(reader_count("cam") == 1, 30);
    for (uint32_t i = 1; i <= 30; i++) {
        char hash[32];
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)image_commit(writer, i));
        CHECK_HAS(pipeline_says(&pipeline, "buffer"), hash);
    }
    CHECK_EQ(pipeline_stat(&pipeline, "src", "in-place"), 30);
    CHECK_EQ(pipeline_stat(&pipeline, "src", "copied"), 0);
    CHECK_OK(sluice_writer_close(&writer)); /* the stream ends */
    pipeline_says(&pipeline, "eos");
    pipeline_stop(&pipeline);
}

TEST_TIMEOUT(what_is_over_the_limit_is_copied, 60)
{
    struct child player = role_start("player", "cam", "64", "48", NULL);
    child_expect(&player, "open", 20);
    struct child pipeline =
        pipeline_start("sluicesrc name=src channel=cam framerate=30/1 ! "
                       "queue min-threshold-buffers=20 max-size-time=0 ! identity name=look ! fakesink sync=false");
    CHECK_SOON(reader_count("cam") == 1, 30);
    child_send(&player, "200");
    child_expect(&player, "dropped 0", 60);
    CHECK_GE(pipeline_stat(&pipeline, "src", "copied"), 10);
    CHECK_GE(pipeline_stat(&pipeline, "src", "in-place"), 5);
    pipeline_stop(&pipeline);
    CHECK_SOON(reader_count("cam") == 0, 20);
    role_stop(&player);
}

TEST_TIMEOUT(a_killed_writer_comes_back_at_another_size, 60)
{
    struct child player = role_start("player", "cam", "64", "48", NULL);
    child_expect(&player, "open", 20);
    struct child pipeline =
        pipeline_start("sluicesrc name=src channel=cam framerate=30/1 ! identity name=look ! fakesink sync=false");
    CHECK_SOON(reader_count("cam") == 1, 30);
    child_send(&player, "3");
    child_line(&player, 20);
    CHECK_HAS(pipeline_says(&pipeline, "caps"), "width=(int)64");
    pipeline_says(&pipeline, "buffer");
    child_kill(&player, SIGKILL);

    struct child next = role_start("player", "cam", "320", "242", NULL);
    child_expect(&next, "open", 20);
    CHECK_SOON(reader_count("cam") == 1, 30);
    child_send(&next, "3");
    child_line(&next, 20);
    CHECK_HAS(pipeline_says(&pipeline, "caps"), "width=(int)320, height=(int)242");
    const char *line = child_line(&pipeline, 60); /* they changed once: a buffer comes next */
    CHECK_HAS(line, "buffer ");
    CHECK_HAS(line, " d- ");
    CHECK_EQ(pipeline_stat(&pipeline, "src", "sessions"), 2);
    pipeline_stop(&pipeline);
    role_stop(&next);
}

TEST(a_closed_channel_ends_the_stream_or_is_waited_for)
{
    sluice_writer *writer = image_writer("cam", SLUICE_PIXEL_GRAY8, 64, 48, 0);
    struct child pipeline =
        pipeline_start("sluicesrc channel=cam framerate=30/1 on-close=wait ! identity name=look ! fakesink sync=false");
    CHECK_SOON(reader_count("cam") == 1, 30);
    image_commit(writer, 1);
    pipeline_says(&pipeline, "buffer");
    CHECK_OK(sluice_writer_close(&writer));
    writer = image_writer("cam", SLUICE_PIXEL_GRAY8, 64, 48, 0);
    CHECK_SOON(reader_count("cam") == 1, 30);
    image_commit(writer, 2);
    pipeline_says(&pipeline, "buffer");
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(times_are_the_times_of_capture)
{
    sluice_writer *writer = image_writer("cam", SLUICE_PIXEL_GRAY8, 64, 48, 0);
    struct child pipeline =
        pipeline_start("sluicesrc channel=cam framerate=25/1 mode=in-order ! identity name=look ! fakesink sync=false");
    struct sluice_frame frame;
    long long first = 0, pts = 0;
    int64_t at = 0;

    CHECK_SOON(reader_count("cam") == 1, 30);
    test_nap(300 * SLUICE_MS); /* so that times before now are times of the pipeline */
    for (int i = 0; i < 4; i++) {
        CHECK_OK(sluice_writer_begin(writer, SLUICE_S, &frame));
        if (i == 0)
            at = frame.capture_ns - 200 * SLUICE_MS;
        frame.capture_ns = at + i * 17 * SLUICE_MS;
        strcpy(frame.meta, "exposure=3");
        frame.meta_size = 10;
        CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
        CHECK_STR(pipeline_says(&pipeline, "data"), "exposure=3");
        CHECK_EQ(sscanf(pipeline_says(&pipeline, "buffer"), "%*u %lld", &pts), 1);
        if (i == 0)
            first = pts;
        CHECK_NEAR((double)(pts - first), (double)(i * 17 * SLUICE_MS), 1e6 * test_patience());
    }
    child_send(&pipeline, "latency");
    CHECK_STR(pipeline_says(&pipeline, "latency"), "40000000");
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(the_rate_is_measured, 60)
{
    sluice_writer *writer = image_writer("cam", SLUICE_PIXEL_GRAY8, 64, 48, 0);
    struct child pipeline =
        pipeline_start("sluicesrc channel=cam mode=in-order ! identity name=look ! fakesink sync=false");
    struct sluice_frame frame;

    CHECK_SOON(reader_count("cam") == 1, 30);
    int64_t start = test_now();
    for (int i = 0; i < 10; i++) { /* the times of capture tell, whatever the machine does */
        CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
        frame.capture_ns = start + i * 40 * SLUICE_MS;
        CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    }
    CHECK_HAS(pipeline_says(&pipeline, "caps"), "framerate=(fraction)25/1");
    CHECK_EQ(strtol(pipeline_says(&pipeline, "buffer"), NULL, 10), 1); /* none is lost in order */
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(it_starts_and_stops_many_times, 120)
{
    struct child player = role_start("player", "cam", "64", "48", NULL);
    child_expect(&player, "open", 20);
    struct child pipeline = pipeline_start("sluicesrc channel=cam framerate=30/1 ! identity name=look ! "
                                           "appsink max-buffers=3 drop=true sync=false");
    char line[32];

    CHECK_SOON(reader_count("cam") == 1, 30);
    child_send(&pipeline, "keep 2"); /* the program's own: they outlive what they came from */
    child_send(&player, "100");
    pipeline_says(&pipeline, "buffer");
    snprintf(line, sizeof line, "cycle %ld", test_scale(50));
    child_send(&pipeline, line);
    child_line(&player, 60);
    pipeline_says(&pipeline, "cycled");
    child_send(&pipeline, "kept");
    pipeline_says(&pipeline, "kept");
    pipeline_stop(&pipeline);
    CHECK_SOON(reader_count("cam") == 0, 20);
    role_stop(&player);
}

/* ---- what it refuses ---- */

static void refuses(const char *pipeline_text, const char *sentence)
{
    struct child pipeline = pipeline_start("%s", pipeline_text);

    CHECK_HAS(pipeline_says(&pipeline, "error"), sentence);
    pipeline_stop(&pipeline);
}

TEST(a_channel_must_be_named)
{
    refuses("sluicesrc ! fakesink", "set the property channel");
    refuses("sluicesrc channel=a/b ! fakesink", "a/b");
}

TEST(tensors_and_formats_that_gstreamer_lacks_are_refused)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer;
    struct sluice_frame frame;
    int64_t shape[] = { 4 };

    test_dir();
    CHECK_GE(sluice_format_add_tensor(&format, "boxes", (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 }, 1, shape), 0);
    params.name = "cam";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    refuses("sluicesrc channel=cam framerate=1/1 ! fakesink", "Channel 'cam': it has tensors only");
    refuses("sluicesrc channel=cam framerate=1/1 array=boxes ! fakesink", "'boxes' is a tensor");
    refuses("sluicesrc channel=cam framerate=1/1 array=nose ! fakesink", "boxes");
    CHECK_OK(sluice_writer_close(&writer));

    writer = image_writer("float", SLUICE_PIXEL_RGBA_F32, 8, 8, 0);
    image_commit(writer, 1);
    refuses("sluicesrc channel=float framerate=1/1 ! fakesink", "rgbaf32le, which GStreamer does not");
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_format_that_gstreamer_lacks_may_come_later)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    sluice_writer *writer = image_writer("cam", SLUICE_PIXEL_GRAY8, 8, 8, 0);

    struct child pipeline = pipeline_start("sluicesrc channel=cam framerate=1/1 mode=in-order ! identity name=look ! "
                                           "fakesink sync=false");
    CHECK_SOON(reader_count("cam") == 1, 30);
    image_commit(writer, 1);
    pipeline_says(&pipeline, "buffer");
    CHECK_GE(sluice_format_add_image(&format, "image", SLUICE_PIXEL_RGBA_F32, 8, 8), 0);
    CHECK_OK(sluice_writer_reformat(writer, &format));
    image_commit(writer, 2);
    CHECK_HAS(pipeline_says(&pipeline, "error"), "rgbaf32le, which GStreamer does not");
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(more_frames_than_there_are_slots_cannot_be_held)
{
    sluice_writer *writer = image_writer("cam", SLUICE_PIXEL_GRAY8, 8, 8, 0);

    refuses("sluicesrc channel=cam hold=20 ! fakesink", "hold 20 is too much, 8 slots allow 6");
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(caps_that_what_follows_refuses_are_named)
{
    sluice_writer *writer = image_writer("cam", SLUICE_PIXEL_GRAY8, 64, 48, 0);

    image_commit(writer, 1);
    refuses("sluicesrc channel=cam framerate=1/1 ! video/x-raw,format=NV12 ! fakesink",
            "put videoconvert behind sluicesrc");
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_timeout_is_an_error)
{
    refuses("sluicesrc channel=nobody timeout=1000000 ! fakesink", "'nobody' had no frame for 0:00:00.001");
}

TEST(an_evicted_reader_flags_one_buffer_and_goes_on)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer;

    test_dir();
    CHECK_GE(sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 64, 48), 0);
    params.name = "cam";
    params.format = &format;
    params.slots = params.max_slots = 4;
    params.lease_timeout_ns = 1;
    CHECK_OK(sluice_writer_open(&writer, &params));
    struct child pipeline = pipeline_start("sluicesrc name=src channel=cam framerate=30/1 ! identity name=look ! "
                                           "queue min-threshold-buffers=100 ! fakesink sync=false");
    struct sluice_frame frames[3];

    CHECK_SOON(reader_count("cam") == 1, 30);
    for (uint32_t i = 1; i <= 2; i++) { /* the first stays in place; one more would leave none for the next: a copy */
        image_commit(writer, i);
        pipeline_says(&pipeline, "buffer");
    }
    for (int i = 0; i < 3; i++) /* all but the newest one */
        CHECK_OK(sluice_writer_begin(writer, 10 * SLUICE_S, &frames[i]));
    for (int i = 0; i < 3; i++)
        CHECK_OK(sluice_writer_cancel(writer, &frames[i], SLUICE_ON_CPU));
    struct sluice_writer_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_writer_stats(writer, &stats));
    CHECK_EQ(stats.evicted, 1);
    CHECK_SOON(reader_count("cam") == 1, 30); /* it joins again */
    image_commit(writer, 3);
    CHECK_HAS(pipeline_says(&pipeline, "warning"), "took frames back");
    CHECK_HAS(pipeline_says(&pipeline, "buffer"), " dc- ");
    image_commit(writer, 4);
    CHECK_HAS(pipeline_says(&pipeline, "buffer"), " - ");
    CHECK_OK(sluice_writer_close(&writer));
    pipeline_says(&pipeline, "eos");
    pipeline_stop(&pipeline);
}
