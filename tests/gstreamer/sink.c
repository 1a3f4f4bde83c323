/* SPDX-License-Identifier: MIT
 *
 * sluicesink: rendering in place, decoders, copies, policies, and what it refuses.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "gstreamer/kit.h"

/* The next frame of the channel; its hash. */
static uint64_t take(sluice_reader *reader, struct sluice_array *array)
{
    struct sluice_frame frame;
    struct sluice_array own;
    int r;

    do
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 30 * SLUICE_S, &frame);
    while (r == SLUICE_NO_WRITER || r == SLUICE_AGAIN);
    CHECK_EQ(r, 0);
    CHECK_EQ(frame.missed, 0);
    CHECK_OK(sluice_frame_array(&frame, "image", array ? array : &own));
    uint64_t hash = image_hash(array ? array : &own);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    return hash;
}

static uint64_t said_hash(struct child *pipeline)
{
    const char *text = pipeline_says(pipeline, "buffer");

    return strtoull(strrchr(text, ' ') + 1, NULL, 16);
}

/* A pipeline whose sink has opened the channel, and whose `gate` lets one frame pass for each "next": a reader that a
 * busy machine keeps waiting costs no frame, and no place for the next one. */
static struct child gated_pipeline(const char *source, const char *properties)
{
    struct child pipeline = pipeline_start(
        "%s ! identity name=look ! identity name=gate ! sluicesink name=sink channel=out sync=false policy=wait %s",
        source, properties);

    CHECK_SOON(reader_count("out") == 2, 30); /* the test's and the sink's own */
    return pipeline;
}

static uint64_t take_next(struct child *pipeline, sluice_reader *reader)
{
    child_send(pipeline, "next");
    return take(reader, NULL);
}

/* Each buffer at `look` must be a frame of the channel. Returns how many of the frames were rendered in place. */
static uint64_t compare(const char *source, const char *properties, int frames)
{
    sluice_reader *reader = image_reader("out");
    struct child pipeline = gated_pipeline(source, properties);
    for (int i = 0; i < frames; i++) {
        uint64_t hash = said_hash(&pipeline);
        CHECK_EQ(take_next(&pipeline, reader), hash);
    }
    pipeline_says(&pipeline, "eos");
    CHECK_EQ(pipeline_stat(&pipeline, "sink", "dropped"), 0);
    uint64_t in_place = pipeline_stat(&pipeline, "sink", "in-place");
    CHECK_EQ(in_place + pipeline_stat(&pipeline, "sink", "copied"), frames);
    CHECK_OK(sluice_reader_close(&reader));
    pipeline_stop(&pipeline);
    return in_place;
}

TEST_TIMEOUT(pictures_are_rendered_in_place, 60)
{
    CHECK_EQ(compare("videotestsrc num-buffers=20 pattern=ball ! video/x-raw,format=NV12,width=320,height=240", "", 20),
             20);
}

TEST_TIMEOUT(padded_rows_and_converted_pictures, 60)
{
    CHECK_EQ(
        compare("videotestsrc num-buffers=10 ! video/x-raw,format=I420,width=322,height=242", "pitch-align=64", 10),
        10);
    CHECK_GE(compare("videotestsrc num-buffers=10 ! video/x-raw,format=AYUV,width=333,height=5 ! videoconvert ! "
                     "video/x-raw,format=RGB",
                     "", 10),
             9);
}

#define CLIP 90

TEST_TIMEOUT(a_decoder_renders_in_place_and_keeps_its_references, 120)
{
    need_element("avdec_h264");
    need_element("x264enc");
    need_element("h264parse");
    /* The picture comes back every 8 frames, so x264 refers to pictures 8 frames ago: a slot must not be used again
     * before. */
    struct child encoder = pipeline_start("videotestsrc num-buffers=%d pattern=smpte horizontal-speed=52 ! "
                                          "video/x-raw,width=416,height=242,format=I420 ! "
                                          "x264enc bframes=2 ref=12 key-int-max=1000 ! h264parse ! "
                                          "matroskamux ! filesink location=%s",
                                          CLIP, in_dir("clip.mkv"));
    pipeline_says(&encoder, "eos");
    pipeline_stop(&encoder);

    char source[4400];
    uint64_t expected[CLIP];
    snprintf(source, sizeof source, "filesrc location=%s ! matroskademux ! h264parse ! avdec_h264 max-threads=1",
             in_dir("clip.mkv"));
    struct child direct = pipeline_start("%s ! identity name=look ! fakesink sync=false", source);
    for (int i = 0; i < CLIP; i++)
        expected[i] = said_hash(&direct);
    pipeline_says(&direct, "eos");
    pipeline_stop(&direct);

    sluice_reader *reader = image_reader("out");
    struct child pipeline = gated_pipeline(source, "");
    for (int i = 0; i < CLIP; i++)
        CHECK_EQ(take_next(&pipeline, reader), expected[i]);
    pipeline_says(&pipeline, "eos");
    CHECK_EQ(pipeline_stat(&pipeline, "sink", "in-place"), CLIP);
    CHECK_OK(sluice_reader_close(&reader));
    pipeline_stop(&pipeline);
}

TEST_TIMEOUT(pictures_come_back_as_they_were, 60)
{
    sluice_writer *writer = image_writer("in", SLUICE_PIXEL_NV12, 64, 48, 0);
    struct sluice_frame frame;
    struct sluice_array array;
    sluice_reader *reader = image_reader("out");
    struct child pipeline = pipeline_start("sluicesrc channel=in framerate=30/1 mode=in-order ! identity ! "
                                           "sluicesink name=sink channel=out sync=false");
    CHECK_SOON(reader_count("in") == 1, 30);
    uint64_t hash = image_commit(writer, 1);
    CHECK_EQ(take(reader, NULL), hash);
    test_nap(100 * SLUICE_MS); /* so that the time of capture is one of the pipeline */

    CHECK_OK(sluice_writer_begin(writer, SLUICE_S, &frame)); /* time and metadata, too */
    int64_t captured = frame.capture_ns -= 50 * SLUICE_MS;
    strcpy(frame.meta, "gain");
    frame.meta_size = 4;
    CHECK_OK(sluice_frame_array_at(&frame, 0, &array));
    memset(array.data, 9, array.nbytes);
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 30 * SLUICE_S, &frame));
    CHECK_EQ(frame.meta_size, 4);
    CHECK_MEM(frame.meta, "gain", 4);
    CHECK_NEAR((double)frame.capture_ns, (double)captured, 5e6 * test_patience());
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_writer_close(&writer));
    pipeline_says(&pipeline, "eos");
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_reader_close(&reader));
}

TEST_TIMEOUT(caps_may_change, 60)
{
    sluice_writer *writer = image_writer("in", SLUICE_PIXEL_GRAY8, 64, 48, 0);
    sluice_reader *reader = image_reader("out");
    struct sluice_array array;
    struct child pipeline = pipeline_start("sluicesrc channel=in framerate=30/1 mode=in-order on-close=wait ! "
                                           "sluicesink name=sink channel=out sync=false");
    CHECK_SOON(reader_count("in") == 1, 30);
    uint64_t hash = image_commit(writer, 1);
    CHECK_EQ(take(reader, &array), hash);
    CHECK_OK(sluice_writer_close(&writer));
    writer = image_writer("in", SLUICE_PIXEL_UYVY, 80, 20, 0);
    CHECK_SOON(reader_count("in") == 1, 30);
    hash = image_commit(writer, 1);
    CHECK_EQ(take(reader, &array), hash);
    CHECK_EQ(array.image.width, 80);
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(it_starts_and_stops_many_times, 120)
{
    struct child pipeline = pipeline_start(
        "videotestsrc ! video/x-raw,format=GRAY8,width=64,height=48 ! sluicesink channel=out sync=false");
    pipeline_cycle(&pipeline, test_scale(50));
    pipeline_stop(&pipeline);
    CHECK_EQ(reader_count("out"), UINT32_MAX); /* closed */
}

TEST_TIMEOUT(readers_that_hold_all_slots_cost_frames, 60)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_frame frames[2][32];
    sluice_reader *readers[2];
    uint32_t held[2] = { 0 };

    test_dir();
    struct child pipeline =
        pipeline_start("videotestsrc ! video/x-raw,format=GRAY8,width=64,height=48,framerate=200/1 ! "
                       "sluicesink name=sink channel=out sync=false slots=3");
    params.name = "out";
    params.hold = SLUICE_MOST;
    params.open_timeout_ns = 30 * SLUICE_S;
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_reader_open(&readers[i], &params));
    int r, second = 0;
    while (pipeline_stat(&pipeline, "sink", "dropped") == 0) { /* one after the other, until there is no slot */
        if ((r = sluice_reader_acquire(readers[second], SLUICE_ON_CPU, 0, &frames[second][held[second]])) == 0)
            held[second]++;
        else if (r == SLUICE_E_LIMIT)
            second = 1;
    }
    for (int i = 0; i < 2; i++)
        for (uint32_t n = 0; n < held[i]; n++)
            CHECK_OK(sluice_reader_release(readers[i], &frames[i][n], SLUICE_ON_CPU));
    for (int n = 0; n < 3; n++) { /* it goes on */
        CHECK_OK(sluice_reader_acquire(readers[0], SLUICE_ON_CPU, 30 * SLUICE_S, &frames[0][0]));
        CHECK_OK(sluice_reader_release(readers[0], &frames[0][0], SLUICE_ON_CPU));
    }
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_reader_close(&readers[i]));
    pipeline_stop(&pipeline);
}

/* ---- what it refuses ---- */

static void refuses(const char *text, const char *sentence)
{
    struct child pipeline = pipeline_start("%s", text);

    CHECK_HAS(pipeline_says(&pipeline, "error"), sentence);
    pipeline_stop(&pipeline);
}

TEST(names_and_formats_are_checked)
{
    refuses("videotestsrc ! sluicesink", "set the property channel");
    refuses("videotestsrc ! sluicesink channel=a/b", "a/b");
    refuses("videotestsrc ! video/x-raw,format=I420,width=321,height=240 ! sluicesink channel=out",
            "needs an even width");
    refuses("videotestsrc ! video/x-raw,format=GRAY8 ! sluicesink channel=out timeout=3 policy=wait slots=2", "slots");
    refuses("videotestsrc ! video/x-raw,format=GRAY8 ! sluicesink channel=out pitch-align=3", "power of two");
    refuses("videotestsrc ! sluicesink channel=out slots=1", "slots");
}

/* Whatever way the caps say it. */
TEST(interlaced_pictures_are_refused)
{
    static const char *const modes[] = { "interleaved", "mixed", "fields" };
    char text[200];

    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "videotestsrc ! video/x-raw,format=NV12,interlace-mode=%s ! sluicesink channel=out",
                 modes[i]);
        refuses(text, "put deinterlace before");
    }
    need_element("interlace");
    struct child fields = pipeline_start("videotestsrc ! interlace ! "
                                         "video/x-raw(format:Interlaced),interlace-mode=alternate ! "
                                         "sluicesink channel=out");
    CHECK_HAS(pipeline_says(&fields, "error"), "put deinterlace before");
    child_kill(&fields, SIGKILL); /* `interlace` itself leaks fields */
    need_element("deinterlace");
    struct child pipeline = pipeline_start("videotestsrc num-buffers=4 ! interlace ! deinterlace ! "
                                           "sluicesink name=sink channel=out sync=false");
    pipeline_says(&pipeline, "eos");
    CHECK_GE(pipeline_stat(&pipeline, "sink", "in-place") + pipeline_stat(&pipeline, "sink", "copied"), 2);
    pipeline_stop(&pipeline);
}

TEST(a_name_has_one_writer)
{
    sluice_writer *writer = image_writer("out", SLUICE_PIXEL_GRAY8, 64, 48, 0);

    refuses("videotestsrc ! sluicesink channel=out", "has a writer already");
    CHECK_OK(sluice_writer_close(&writer));
    refuses("videotestsrc ! sluicesink channel=out videotestsrc ! sluicesink channel=out", "has a writer already");
}
