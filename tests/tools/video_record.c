/* SPDX-License-Identifier: MIT
 *
 * What `record` makes of a channel: a video that keeps its times, colours, depth and alpha, or says what it loses.
 */
#include "see.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct program recorder;
static sluice_writer *writer;
static struct sluice_image image;

/* Opens the channel 'source' for images like `image`. */
static void open_source(void)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    if (!getenv("SLUICE_DIR"))
        setenv("SLUICE_DIR", test_dir(), 1);
    CHECK_OK(sluice_format_add_image(&format, "image", (enum sluice_pixel_format)image.pixel_format, image.width,
                                     image.height));
    format.arrays[0].image.colour = image.colour;
    format.arrays[0].image.alpha = image.alpha;
    format.arrays[0].image.row_order = image.row_order;
    params.name = "source";
    params.format = &format;
    params.policy = SLUICE_WAIT;
    CHECK_OK(sluice_writer_open(&writer, &params));
}

static void wait_for_recorder(void)
{
    struct sluice_channel_info info = { .size = sizeof(info) };
    CHECK_SOON(sluice_channel_info("source", SLUICE_S, &info, NULL, 0) == SLUICE_OK && info.readers == 1, 30);
}

static void start(const char *file, const char *option, const char *value)
{
    open_source();
    sluice_start(&recorder, "record", "source", file, "--timeout", "20", option, value);
    wait_for_recorder();
}

/* Publishes a frame whose bytes are those of the pattern, repeated. */
static void send_frame(const void *pattern, size_t size)
{
    struct sluice_frame frame;
    struct sluice_array array;
    while (sluice_writer_begin(writer, 20 * SLUICE_S, &frame) != SLUICE_OK)
        continue;
    CHECK_OK(sluice_frame_array(&frame, "image", &array));
    for (uint64_t i = 0; i < array.nbytes; i++)
        ((uint8_t *)array.data)[i] = ((const uint8_t *)pattern)[i % size];
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
}

static int finish(void)
{
    CHECK_OK(sluice_writer_close(&writer));
    return program_end(&recorder, 0);
}

/* Records a few frames of one colour. */
static void record_colour(const char *file, const void *pixel, size_t size)
{
    start(in_dir(file), "--crf", "4");
    for (int i = 0; i < 4; i++)
        send_frame(pixel, size);
    CHECK_EQ(finish(), 0);
    CHECK_HAS(recorder.out, "recorded 4 frames, missed 0");
}

static void describe(enum sluice_pixel_format format, uint32_t width, uint32_t height)
{
    image = (struct sluice_image){ .pixel_format = format, .width = width, .height = height };
}

/* ---- times ---- */

TEST_TIMEOUT(a_video_keeps_the_times_of_the_frames, 60)
{
    static const unsigned pauses_ms[] = { 400, 300, 20, 20, 700, 20, 100 };
    int64_t sent[8];
    NEEDS_FFMPEG();
    describe(SLUICE_PIXEL_GRAY8, 64, 48);
    start(in_dir("take.mp4"), "--crf", "4");
    for (size_t i = 0; i < 8; i++) {
        const uint8_t gray = (uint8_t)(30 * i);
        if (i)
            test_nap(pauses_ms[i - 1] * SLUICE_MS);
        sent[i] = test_now();
        send_frame(&gray, 1);
    }
    CHECK_EQ(finish(), 0);
    PLAY("take.mp4", "--format", "gray");
    CHECK_EQ(seen.count, 8);
    for (size_t i = 0; i < 8; i++) {
        int64_t at = sent[i] - sent[0], video = seen.pts_ns[i] - seen.pts_ns[0];
        CHECK_LE(llabs(video - at), 150 * SLUICE_MS); /* this program may be delayed between the two */
        CHECK_LE(abs(seen.pixel[i][0] - (int)(30 * i)), 8);
    }
}

TEST_TIMEOUT(a_video_at_a_rate_keeps_time, 60)
{
    NEEDS_FFMPEG();
    describe(SLUICE_PIXEL_GRAY8, 64, 48);
    start(in_dir("take.mkv"), "--fps", "5");
    int64_t begin = test_now();
    for (int i = 0; i < 40; i++) {
        send_frame("x", 1);
        test_nap(20 * SLUICE_MS);
    }
    int64_t length = test_now() - begin;
    CHECK_EQ(finish(), 0);
    CHECK_HAS(recorder.out, " left out to keep to --fps");
    PLAY("take.mkv", "--format", "gray");
    CHECK_LE(llabs(seen.pts_ns[seen.count - 1] - length), 400 * SLUICE_MS);
    for (unsigned i = 0; i < seen.count; i++)
        CHECK_LE(seen.pts_ns[i] % (200 * SLUICE_MS), SLUICE_MS);
}

/* ---- colours ---- */

TEST_TIMEOUT(a_video_has_the_colours_of_the_channel, 60)
{
    static const uint16_t gray = 512 << 6;
    static const uint8_t green[4] = { 0, 255, 0, 255 };
    NEEDS_FFMPEG();
    describe(SLUICE_PIXEL_P010, 64, 48);
    image.colour = (struct sluice_colour){ .primaries = 9, .transfer = 16, .matrix = 9, .range = SLUICE_RANGE_LIMITED };
    record_colour("hdr.mkv", &gray, 2);
    PLAY("hdr.mkv", "--format", "p010le");
    CHECK_MEM(&seen.image.colour, &image.colour, sizeof image.colour);
    CHECK_STR(player_said(), ""); /* 10 bits */
    CHECK_LE(abs(seen.data[1] - 128), 1);

    describe(SLUICE_PIXEL_RGBA, 1280, 720);
    image.colour.primaries = 1;
    record_colour("green.mp4", green, 4);
    PLAY("green.mp4", "--format", "yuv420p");
    CHECK_EQ(seen.image.colour.matrix, 1);
    CHECK_EQ(seen.image.colour.primaries, 1);
    CHECK_LE(abs(seen.data[0] - 173), 2); /* BT.709 */
    CHECK_LE(abs(seen.data[1280 * 720] - 42), 2);

    describe(SLUICE_PIXEL_YUV420P, 64, 48);
    image.colour = (struct sluice_colour){ .matrix = 1, .range = SLUICE_RANGE_FULL };
    record_colour("full.mkv", "\x07", 1);
    PLAY("full.mkv", "--format", "yuv420p");
    CHECK_EQ(seen.image.colour.range, SLUICE_RANGE_FULL);
    CHECK_EQ(seen.image.colour.matrix, 1);
    CHECK_LE(abs(seen.data[0] - 7), 1);
}

TEST_TIMEOUT(alpha_is_kept_or_its_loss_told, 60)
{
    static const uint8_t half[4] = { 64, 0, 0, 128 };
    NEEDS_FFMPEG();
    describe(SLUICE_PIXEL_RGBA, 64, 48);
    image.alpha = SLUICE_ALPHA_PREMULTIPLIED;
    record_colour("half.webm", half, 4);
    CHECK_STR(recorder.err, "");
    PLAY("half.webm", "--format", "rgba");
    CHECK_EQ(seen.image.alpha, SLUICE_ALPHA_STRAIGHT);
    CHECK_LE(abs(seen.data[0] - 127), 8);
    CHECK_LE(abs(seen.data[3] - 128), 4);
    record_colour("half.mp4", half, 4);
    CHECK_HAS(recorder.err, "alpha is left out of ");
    CHECK_HAS(recorder.err, "a .webm or .slr file keeps it");
    PLAY("half.mp4", "--format", "rgba");
    CHECK_LE(abs(seen.data[0] - 64), 4); /* as over black */
    image.alpha = SLUICE_ALPHA_OPAQUE;
    record_colour("opaque.mp4", half, 4);
    CHECK_STR(recorder.err, "");
}

TEST_TIMEOUT(lost_depth_is_told, 60)
{
    static const float pixel[4] = { 0.5f, 0.25f, 0, 1 };
    NEEDS_FFMPEG();
    describe(SLUICE_PIXEL_RGBA_F32, 64, 48);
    record_colour("float.mkv", pixel, sizeof pixel);
    CHECK_HAS(recorder.err, "keeps 10 of 16 bits a sample");
    PLAY("float.mkv", "--format", "rgba");
    CHECK_LE(abs(seen.data[0] - 128), 3);
    CHECK_LE(abs(seen.data[1] - 64), 3);
}

TEST_TIMEOUT(the_top_row_stays_the_top_row, 60)
{
    static uint8_t rows[64 * 48];
    NEEDS_FFMPEG();
    memset(rows + sizeof rows / 2, 255, sizeof rows / 2);
    describe(SLUICE_PIXEL_GRAY8, 64, 48);
    image.row_order = SLUICE_BOTTOM_UP;
    record_colour("up.mkv", rows, sizeof rows);
    PLAY("up.mkv", "--format", "gray");
    CHECK_GE(seen.data[0], 240); /* the last row in memory */
    CHECK_LE(seen.data[47 * 64], 15);
}

/* ---- names and types ---- */

TEST_TIMEOUT(any_name_and_type_of_a_video, 120)
{
    static const char *const names[] = { "100%20done.mkv", "sale%d.mp4", "it's a \"name\".webm",
                                         "two\nlines.mov", "a.avi",      "a.nut",
                                         "a.flv" };
    NEEDS_FFMPEG();
    describe(SLUICE_PIXEL_GRAY8, 64, 48);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        start(in_dir(names[i]), "--quiet", "--quiet");
        for (int n = 0; n < 4; n++) {
            send_frame("\x80", 1);
            test_nap(20 * SLUICE_MS);
        }
        CHECK_EQ(finish(), 0);
        CHECK_STR(recorder.err, "");
        PLAY(names[i], "--format", "gray");
        CHECK_GE(seen.count, 2);
        CHECK_LE(abs(seen.pixel[0][0] - 128), 6);
    }
}

/* ---- a writer that changes ---- */

TEST_TIMEOUT(other_colours_go_on_in_another_file, 60)
{
    NEEDS_FFMPEG();
    describe(SLUICE_PIXEL_YUV420P, 64, 48);
    image.colour = (struct sluice_colour){ .matrix = 1, .range = SLUICE_RANGE_LIMITED };
    start(in_dir("take.mkv"), "--follow", "--quiet");
    send_frame("\x40", 1);
    CHECK_SOON(has_taken("source", 1), 20);
    CHECK_OK(sluice_writer_close(&writer));
    image.colour.matrix = 6;
    open_source();
    wait_for_recorder();
    send_frame("\x40", 1);
    CHECK_SOON(has_taken("source", 1), 20);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_EQ(program_end(&recorder, SIGINT), 0);
    CHECK_HAS(recorder.err, "or in their colours; continuing in ");
    PLAY("take.mkv", "--format", "yuv420p");
    CHECK_EQ(seen.image.colour.matrix, 1);
    PLAY("take.2.mkv", "--format", "yuv420p");
    CHECK_EQ(seen.image.colour.matrix, 6);
}

/* ---- an encoder that does not answer ---- */

TEST_TIMEOUT(an_encoder_that_takes_nothing_is_told, 60)
{
    static struct program source;
    FILE *file = fopen(in_dir("stopped"), "wb");
    fputs("#!/bin/sh\ncase \"$*\" in *encoders*) exit 0;; esac\nexec sleep 40\n", file);
    fclose(file);
    CHECK_EQ(chmod(in_dir("stopped"), 0700), 0);
    player_start(&source, "camera", "--pattern", "--size", "640x480", "--fps", "50");
    setenv("SLUICE_FFMPEG", in_dir("stopped"), 1);
    sluice_start(&recorder, "record", "camera", in_dir("a.avi"), "--fps", "50");
    CHECK_SOON(strstr(program_so_far(&recorder, "err"), "ffmpeg has taken nothing of ") != NULL, 30);
    CHECK_EQ(program_end(&source, SIGTERM), 0);
    CHECK_EQ(kill(recorder.pid, SIGKILL), 0);
    program_end(&recorder, 0);
}

/* ---- standard output ---- */

/* Records the test picture into a pipe that goes into `command`. Returns the exit code of that. */
static int record_into(const char *command, const char *option)
{
    static struct program source;
    char line[2000];
    if (!getenv("SLUICE_COMMAND"))
        SKIP("SLUICE_COMMAND does not say where the command is");
    setenv("SLUICE_DIR", test_dir(), 1);
    sluice_start(&source, "play", "test", "first", "--pattern", "--size", "64x48", "--frames", "20", "--fps", "50",
                 "--wait", "--readers", "1");
    snprintf(line, sizeof line, "cd '%s' && '%s' record first - --timeout 20 %s 2>rec.err | %s", test_dir(),
             getenv("SLUICE_COMMAND"), option, command);
    int status = system(line);
    CHECK_EQ(program_end(&source, 0), 0);
    char *err = read_all(in_dir("rec.err"), NULL);
    CHECK_STR(err, "recorded 20 frames, missed 0\n");
    free(err);
    CHECK(access(in_dir("-"), F_OK) != 0); /* no file of this name */
    return status;
}

TEST_TIMEOUT(standard_output_is_a_stream_with_times, 60)
{
    NEEDS_FFMPEG();
    CHECK_EQ(record_into("cat >stream.nut", ""), 0);
    PLAY("stream.nut", "--format", "rgba");
    CHECK_STR(player_said(), "");
    CHECK_EQ(seen.count, 20);
    CHECK_GE(seen.pts_ns[19], 300 * SLUICE_MS);
    CHECK_EQ(record_into("ffmpeg -v error -f nut -i - -fps_mode passthrough -f framecrc - | grep -c '^0,' >lines", ""),
             0);
    char *lines = read_all(in_dir("lines"), NULL);
    CHECK_STR(lines, "20\n");
    free(lines);
    /* From one channel to another. */
    char command[800];
    snprintf(command, sizeof command, "'%s' play - second >out.txt 2>err.txt", getenv("SLUICE_COMMAND"));
    CHECK_EQ(record_into(command, ""), 0);
    CHECK_EQ(record_into(command, "--raw"), 0);
    char *out = read_all(in_dir("out.txt"), NULL), *err = read_all(in_dir("err.txt"), NULL);
    CHECK_HAS(out, "played 20 frames, dropped 0");
    CHECK_STR(err, "");
    free(out);
    free(err);
}
