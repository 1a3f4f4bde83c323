/* SPDX-License-Identifier: MIT
 *
 * The command with ffmpeg: decoding, encoding, and no processes left; and the demo.
 */
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/sluice.h>

#define NEEDS_FFMPEG() \
    do { \
        if (!has_program("ffmpeg")) \
            SKIP("ffmpeg is not installed"); \
    } while (0)

static bool is_gone(pid_t pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return true;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state == 'Z'; /* dead, but not yet reaped */
}

/* 20 frames of 64x48 at 10 fps. */
static void make_clip(const char *path)
{
    static struct program player, recorder;
    sluice_start(&player, "play", "test", "clip", "--pattern", "--size", "64x48", "--fps", "10", "--frames", "20",
                 "--readers", "1", "--wait");
    sluice_start(&recorder, "record", "clip", path, "--timeout", "10", "--fps", "10", "--crf", "4");
    CHECK_EQ(program_end(&player, 0), 0);
    CHECK_EQ(program_end(&recorder, 0), 0);
    CHECK_HAS(recorder.out, "recorded 20 frames, missed 0");
}

/* The same number of frames, exactly a tenth of a second apart; a recorder would keep the real times. */
static void make_even_clip(const char *path)
{
    char command[600];
    snprintf(command, sizeof command,
             "ffmpeg -v error -f lavfi -i testsrc=size=64x48:rate=10 -frames:v 20 '%s' </dev/null", path);
    CHECK_EQ(system(command), 0);
}

TEST_TIMEOUT(video_there_and_back, 60)
{
    static struct program p;
    NEEDS_FFMPEG();
    make_clip(in_dir("clip.mkv"));
    CHECK_EQ(sluice_run(&p, "play", in_dir("clip.mkv"), "camera", "--fps", "max"), 0);
    CHECK_HAS(p.out, "dropped 0");
    make_even_clip(in_dir("even.mkv"));
    int64_t start = test_now();
    CHECK_EQ(sluice_run(&p, "play", in_dir("even.mkv"), "camera"), 0);
    CHECK_HAS(p.out, "played 20 frames, dropped 0");
    CHECK_GE(test_now() - start, 1850000000); /* at its own rate */
    CHECK_EQ(sluice_run(&p, "play", in_dir("even.mkv"), "camera", "--fps", "max", "--loop", "--frames", "50",
                        "--format", "yuv420p", "--size", "32x24"),
             0);
    CHECK_HAS(p.out, "played 50 frames");
}

TEST_TIMEOUT(killed_player_leaves_no_ffmpeg, 60)
{
    static struct program p, player;
    NEEDS_FFMPEG();
    player_start(&player, "camera", "--size", "64x48");
    pid_t ffmpeg = first_child(player.pid);
    CHECK(ffmpeg > 0);
    CHECK_EQ(sluice_run(&p, "snap", "camera", in_dir("now.png")), 0);
    CHECK_EQ(program_end(&player, SIGKILL), -SIGKILL);
    CHECK_SOON(is_gone(ffmpeg), 10);
    player_start(&player, "camera", "--size", "64x48");
    ffmpeg = first_child(player.pid);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    CHECK(is_gone(ffmpeg));
}

/* The file of a killed recorder is readable: its ffmpeg finishes it. */
TEST_TIMEOUT(killed_recorder_leaves_a_video, 60)
{
    static struct program p, player, recorder;
    NEEDS_FFMPEG();
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--fps", "50");
    sluice_start(&recorder, "record", "camera", in_dir("take.mp4"), "--fps", "50");
    CHECK_SOON(has_taken("camera", 50), 20);
    pid_t ffmpeg = first_child(recorder.pid);
    CHECK(ffmpeg > 0);
    CHECK_EQ(program_end(&recorder, SIGKILL), -SIGKILL);
    CHECK_SOON(is_gone(ffmpeg), 10);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    CHECK_EQ(sluice_run(&p, "play", in_dir("take.mp4"), "camera", "--fps", "max"), 0);
}

TEST_TIMEOUT(video_of_another_size_goes_on_in_another_file, 60)
{
    static struct program player, recorder;
    NEEDS_FFMPEG();
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--fps", "50");
    sluice_start(&recorder, "record", "camera", in_dir("take.mp4"), "--fps", "50", "--follow");
    CHECK_SOON(has_taken("camera", 30), 20);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    player_start(&player, "camera", "--pattern", "--size", "32x24", "--fps", "50");
    CHECK_SOON(has_taken("camera", 30), 20);
    CHECK_EQ(program_end(&recorder, SIGINT), 0);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    CHECK_HAS(recorder.out, "in 2 files");
    CHECK(access(in_dir("take.2.mp4"), F_OK) == 0);
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(in_dir(name), "wb");
    CHECK(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

/* A program in the test's folder, first in PATH. */
static void fake_program(const char *name, const char *script)
{
    char path[8192];
    FILE *file = fopen(in_dir(name), "wb");
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    CHECK_EQ(chmod(in_dir(name), 0700), 0);
    snprintf(path, sizeof path, "%s:%s", test_dir(), getenv("PATH"));
    setenv("PATH", path, 1);
}

TEST(view_in_a_window)
{
    static struct program p, player;
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    setenv("DISPLAY", ":99", 1);
    fake_program("ffplay", "echo there is no such screen >&2; exit 1");
    CHECK_EQ(sluice_run(&p, "view", "camera"), 1);
    CHECK_HAS(p.err, "ffplay failed: there is no such screen");
    fake_program("ffplay", "exec <&-; sleep 0.5; echo it fell over >&2; exit 1"); /* fails after a while */
    CHECK_EQ(sluice_run(&p, "view", "camera"), 1);
    CHECK_HAS(p.err, "ffplay failed: it fell over");
    fake_program("ffplay", "head -c 30000 >/dev/null"); /* the window is closed */
    CHECK_EQ(sluice_run(&p, "view", "camera"), 0);
    fake_program("ffplay", "cat >/dev/null");
    CHECK_EQ(sluice_run(&p, "view", "camera", "--frames", "5"), 0);
    CHECK_STR(p.err, "");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(play_ended_before_it_knows_its_file)
{
    static struct program p;
    fake_program("ffmpeg", "touch \"$0.asked\"; exec sleep 60");
    write_file("a.mp4", "x", 1);
    sluice_start(&p, "play", in_dir("a.mp4"), "camera");
    CHECK_SOON(access(in_dir("ffmpeg.asked"), F_OK) == 0, 20);
    CHECK_EQ(program_end(&p, SIGINT), 0);
    CHECK_STR(p.err, "");
}

TEST(recording_to_a_name_without_an_ending)
{
    static struct program p, player;
    NEEDS_FFMPEG();
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    CHECK_EQ(sluice_run(&p, "record", "camera", in_dir("take"), "--frames", "1", "--fps", "30"), 1);
    CHECK_HAS(p.err, "use .mp4,");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(files_that_are_no_video)
{
    static struct program p;
    NEEDS_FFMPEG();
    write_file("text.mp4", "no video at all\n", 16);
    CHECK_EQ(sluice_run(&p, "play", in_dir("text.mp4"), "camera"), 1);
    CHECK_HAS(p.err, "ffmpeg found no video in ");
    CHECK_EQ(sluice_run(&p, "play", test_dir(), "camera"), 1);
    CHECK_HAS(p.err, "irectory");
}

TEST(recording_what_is_no_image)
{
    static struct program p;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    const int64_t shape[2] = { 3, 4 };
    struct sluice_frame frame;
    sluice_writer *writer;
    test_dir();
    CHECK_OK(sluice_format_add_tensor(&format, "x", (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 }, 2, shape));
    params.name = "numbers";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    CHECK_EQ(sluice_run(&p, "record", "numbers", in_dir("x.mp4"), "--fps", "5"), 1);
    CHECK_HAS(p.err, "float32[3,4], which is not an image");
    CHECK_EQ(sluice_run(&p, "snap", "numbers", in_dir("x.png")), 1);
    CHECK_HAS(p.err, "is not an image; "); /* and no advice about the byte order */
    CHECK(access(in_dir("x.png"), F_OK) != 0);
    CHECK_EQ(sluice_run(&p, "snap", "numbers", in_dir("x.npy")), 0);
    CHECK_EQ(sluice_run(&p, "view", "numbers", "--ascii"), 1);
    CHECK_HAS(p.err, "is not an image");
    sluice_writer_close(&writer);
}

/* What sluice.Writer(shape=(6, 8, 3)) makes. */
static sluice_writer *write_bytes(const int64_t *shape, int ndim)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_frame frame;
    struct sluice_array array;
    sluice_writer *writer;
    CHECK_OK(sluice_format_add_tensor(&format, "x", (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, ndim, shape));
    params.name = "bytes";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    CHECK_OK(sluice_frame_array(&frame, "x", &array));
    for (uint64_t i = 0; i < array.nbytes; i++)
        ((uint8_t *)array.data)[i] = (uint8_t)(i % 3 * 50);
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    return writer;
}

TEST(arrays_are_taken_as_pictures_if_asked_for)
{
    static struct program p;
    test_dir();
    sluice_writer *writer = write_bytes((const int64_t[]){ 6, 8, 3 }, 3);
    CHECK_EQ(sluice_run(&p, "snap", "bytes", in_dir("x.png")), 1);
    CHECK_HAS(p.err,
              "uint8[6,8,3], which is not an image unless its writer says so (in Python by sluice.Image), or you "
              "do, by --as bgr24 or rgb24; write it to a .npy file");
    CHECK_EQ(sluice_run(&p, "snap", "bytes", in_dir("x.png"), "--as", "bgr24"), 0);
    struct stat status;
    CHECK(stat(in_dir("x.png"), &status) == 0 && status.st_size > 50);
    CHECK_EQ(sluice_run(&p, "record", "bytes", in_dir("x.mkv"), "--frames", "1", "--as", "bgr24"), 0);
    CHECK(stat(in_dir("x.mkv"), &status) == 0 && status.st_size > 50);
    CHECK_EQ(sluice_run(&p, "snap", "bytes", in_dir("y.png"), "--as", "bgr23"), 2);
    CHECK_HAS(p.err, "did you mean 'bgr24'?");
    CHECK_EQ(sluice_run(&p, "snap", "bytes", in_dir("y.png"), "--as", "gray"), 1);
    CHECK_HAS(p.err, "'x' is uint8[6,8,3], which cannot be taken as gray: that is uint8[6,8]");
    CHECK_EQ(sluice_run(&p, "snap", "bytes", in_dir("y.png"), "--as", "nv12"), 1);
    CHECK_HAS(p.err, "cannot be taken as nv12");
    CHECK(access(in_dir("y.png"), F_OK) != 0);
    sluice_writer_close(&writer);
    writer = write_bytes((const int64_t[]){ 6, 8 }, 2);
    CHECK_EQ(sluice_run(&p, "snap", "bytes", in_dir("z.png")), 1);
    CHECK_HAS(p.err, "by --as gray;");
    CHECK_EQ(sluice_run(&p, "snap", "bytes", in_dir("z.png"), "--as", "gray"), 0);
    CHECK_EQ(sluice_run(&p, "view", "bytes", "--ascii", "--frames", "1"), 1);
    CHECK_HAS(p.err, "by --as gray;");
    CHECK_EQ(sluice_run(&p, "view", "bytes", "--ascii", "--frames", "1", "--as", "gray"), 0);
    CHECK_EQ(sluice_run(&p, "record", "bytes", in_dir("x.slr"), "--as", "gray"), 2);
    CHECK_HAS(p.err, "--as is for videos");
    sluice_writer_close(&writer);
}

/* A short demo: three programs, two of which are killed. */
TEST_TIMEOUT(demo_heals, 60)
{
    static struct program p;
    CHECK_EQ(sluice_run(&p, "demo", "--seconds", "5", "--size", "160x90", "--fps", "30", "--out", in_dir("result")), 0);
    CHECK_HAS(p.out, "killed player (pid ");
    CHECK_HAS(p.out, "restarted the player");
    CHECK_HAS(p.out, "killed filter (pid ");
    CHECK_HAS(p.out, "restarted the filter");
    char *last = strstr(p.out, "demo: ok, ");
    CHECK(last != NULL);
    CHECK_HAS(last, " frames, 0 torn\n");
    CHECK_STR(strchr(last, '\n'), "\n");
    CHECK(access(in_dir("result/contact-sheet.png"), F_OK) == 0);
    CHECK(access(in_dir("result/latency.svg"), F_OK) == 0);
}
