/* SPDX-License-Identifier: MIT
 *
 * What `play` makes of a video: each frame once, at its own time, in its own colours and size; and what it says of
 * videos that are not as they should be.
 */
#include "see.h"
#include "tools/media/nut.h"
#include "tools/media/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* ---- times ---- */

TEST_TIMEOUT(each_frame_once_at_the_times_of_the_file, 60)
{
    NEEDS_FFMPEG();
    /* Three bursts with pauses: the gray level is the frame's number. */
    ffmpeg("-f lavfi -i color=black:s=32x24:r=60:d=0.5 -vf \"format=gray,geq=lum=20+2*N,"
           "setpts=(N/60+floor(N/10)*1.5)/TB\" -fps_mode passthrough -enc_time_base 1/90000 -c:v ffv1 "
           "-f nut uneven.nut");
    PLAY("uneven.nut", "--format", "gray");
    CHECK_EQ(seen.count, 30);
    for (unsigned i = 0; i < seen.count; i++) {
        int64_t due = (int64_t)(i * 1e9 / 60 + i / 10 * 1.5e9);
        CHECK_EQ(seen.pixel[i][0], 20 + 2 * i);
        CHECK_LE(llabs(seen.pts_ns[i] - due), 12000); /* a 90000th */
    }
    ffmpeg("-f lavfi -i color=black:s=32x24:r=2000:d=0.05 -vf format=gray,geq=lum=20+2*N -enc_time_base 1/90000 "
           "-c:v ffv1 fast.nut");
    PLAY("fast.nut", "--format", "gray");
    CHECK_EQ(seen.count, 100);
    CHECK_EQ(seen.pixel[99][0], 218);
    CHECK_LE(llabs(seen.pts_ns[99] - 49500000), 12000);
}

TEST_TIMEOUT(a_million_frames_a_second, 60)
{
    NEEDS_FFMPEG();
    ffmpeg("-f lavfi -i color=black:s=16x16:r=1000000:d=0.00005 -vf format=gray -c:v rawvideo million.nut");
    PLAY("million.nut", "--format", "gray");
    CHECK_EQ(seen.count, 50);
    CHECK_EQ(seen.pts_ns[49], 49000);
}

/* The pauses of the file are those of the channel. */
TEST_TIMEOUT(uneven_files_keep_their_pauses, 60)
{
    static struct program p;
    NEEDS_FFMPEG();
    ffmpeg("-f lavfi -i color=black:s=32x24:r=50:d=0.1 -vf format=gray,setpts=PTS+floor\\(N/3\\)*0.7/TB "
           "-fps_mode passthrough -enc_time_base 1/1000 -c:v ffv1 pause.nut");
    int64_t start = test_now();
    CHECK_EQ(sluice_run(&p, "play", in_dir("pause.nut"), "camera"), 0);
    CHECK_HAS(p.out, "played 5 frames, dropped 0");
    CHECK_GE(test_now() - start, 780 * SLUICE_MS);
}

TEST_TIMEOUT(times_that_jump_are_told, 60)
{
    NEEDS_FFMPEG();
    ffmpeg("-f lavfi -i testsrc2=s=32x24:r=25:d=0.4 -bf 0 -c:v mpeg2video a.ts");
    ffmpeg("-f lavfi -i testsrc2=s=32x24:r=25:d=0.4 -bf 0 -c:v mpeg2video -output_ts_offset 100 b.ts");
    char command[600];
    snprintf(command, sizeof command, "cd '%s' && cat b.ts a.ts >back.ts", test_dir());
    CHECK_EQ(system(command), 0);
    int64_t start = test_now();
    sluice_start(&player, "play", in_dir("back.ts"), "camera", "--wait", "--readers", "1");
    see_all();
    program_end(&player, 0);
    CHECK_EQ(seen.count, 20);
    CHECK_HAS(player.err, "jump forward at frame 10");
    CHECK_LE(test_now() - start, 50 * SLUICE_S); /* the jump is not waited for */
}

static bool to_file(void *file, const void *bytes, size_t size)
{
    return fwrite(bytes, 1, size, file) == size;
}

TEST_TIMEOUT(times_that_go_back_are_told, 60)
{
    const struct nut_video video = { .tag = raw_of_channel(SLUICE_PIXEL_GRAY8)->tag, .width = 4, .height = 4 };
    static struct program p;
    NEEDS_FFMPEG();
    FILE *file = fopen(in_dir("back.nut"), "wb");
    struct nut_writer nut = { .write = to_file, .to = file };
    CHECK(file && nut_write_head(&nut, &video));
    for (int i = 0; i < 40; i++) {
        CHECK(nut_write_frame(&nut, (i < 20 ? i + 100 : i) * 40 * SLUICE_MS, 16));
        CHECK(nut_write(&nut, "0123456789abcdef", 16));
    }
    nut_free(&nut);
    CHECK_EQ(fclose(file), 0);
    sluice_run(&p, "play", in_dir("back.nut"), "camera", "--format", "gray");
    CHECK_HAS(p.err, "jump back at frame 20");
    CHECK_HAS(p.out, "played 40 frames, dropped 0");
}

/* ---- colours ---- */

/* A file of one colour, made by BT.709 in limited range; `tags` are further filters. ffmpeg 7 tags what `scale` makes,
 * so that is taken away again. */
static void make_green(const char *size, const char *tags, const char *file)
{
    ffmpeg("-f lavfi -i color=lime:s=%s:r=10:d=0.2 -vf "
           "scale=out_color_matrix=bt709:out_range=limited,format=yuv420p,setparams=colorspace=unknown%s -c:v ffv1 %s",
           size, tags, file);
}

static void check_colour(int matrix, int range, int primaries, int transfer)
{
    CHECK_EQ(seen.image.colour.matrix, matrix);
    CHECK_EQ(seen.image.colour.range, range);
    CHECK_EQ(seen.image.colour.primaries, primaries);
    CHECK_EQ(seen.image.colour.transfer, transfer);
}

static void check_green(int tolerance)
{
    CHECK_LE(seen.data[0], tolerance);
    CHECK_GE(seen.data[1], 255 - tolerance);
    CHECK_LE(seen.data[2], tolerance);
    CHECK_EQ(seen.data[3], 255);
}

TEST_TIMEOUT(untagged_colours_are_bt709_from_720_rows_on, 60)
{
    NEEDS_FFMPEG();
    make_green("1280x720", "", "hd.mkv");
    PLAY("hd.mkv", "--format", "rgba");
    check_green(4);
    check_colour(SLUICE_MATRIX_RGB, SLUICE_RANGE_FULL, 0, 0);
    CHECK_EQ(seen.image.alpha, SLUICE_ALPHA_OPAQUE);
    PLAY("hd.mkv", "--format", "yuv420p"); /* as it is in the file */
    check_colour(1, SLUICE_RANGE_LIMITED, 0, 0);
    CHECK_LE(abs(seen.data[0] - 172), 2);
    CHECK_LE(abs(seen.data[1280 * 720] - 42), 2);
    make_green("64x48", "", "sd.mkv");
    PLAY("sd.mkv", "--format", "nv12");
    check_colour(6, SLUICE_RANGE_LIMITED, 0, 0);
}

TEST_TIMEOUT(the_files_colours_are_the_channels, 60)
{
    NEEDS_FFMPEG();
    make_green("64x48", ",setparams=colorspace=bt709:range=tv:color_primaries=bt709:color_trc=bt709", "tagged.mkv");
    PLAY("tagged.mkv", "--format", "rgba");
    check_green(4); /* the tag, not the size, says how it is made */
    check_colour(SLUICE_MATRIX_RGB, SLUICE_RANGE_FULL, 1, 1);
    PLAY("tagged.mkv", "--format", "nv12");
    check_colour(1, SLUICE_RANGE_LIMITED, 1, 1);
    ffmpeg("-f lavfi -i color=gray:s=64x48:r=10:d=0.2 -vf "
           "format=yuv420p10le,setparams=colorspace=bt2020nc:range=pc:color_primaries=bt2020:color_trc=smpte2084 "
           "-c:v ffv1 -color_range pc hdr.mkv");
    PLAY("hdr.mkv", "--format", "p010le");
    check_colour(9, SLUICE_RANGE_FULL, 9, 16);
    CHECK_STR(player_said(), "");
    CHECK_EQ(seen.data[0] & 63, 0);
    PLAY("hdr.mkv", "--format", "nv12");
    CHECK_HAS(player.err, "10 bits a sample, and nv12 keeps 8; --format p010le");
    PLAY("hdr.mkv", "--format", "rgbaf32le");
    check_colour(SLUICE_MATRIX_RGB, SLUICE_RANGE_FULL, 9, 16);
    CHECK_STR(player_said(), "");
}

TEST_TIMEOUT(alpha_of_webm_is_kept, 60)
{
    static struct program p;
    NEEDS_FFMPEG();
    ffmpeg("-f lavfi -i color=red@0.0:s=64x48:r=10:d=0.3,format=yuva420p,drawbox=0:0:32:48:red@1.0:fill:replace=1 "
           "-c:v libvpx-vp9 -pix_fmt yuva420p -auto-alt-ref 0 alpha.webm");
    PLAY("alpha.webm", "--format", "rgba");
    CHECK_EQ(seen.image.alpha, SLUICE_ALPHA_STRAIGHT);
    CHECK_EQ(seen.data[(20 * 64 + 10) * 4 + 3], 255);
    CHECK_EQ(seen.data[(20 * 64 + 60) * 4 + 3], 0);
    CHECK_EQ(sluice_run(&p, "play", in_dir("alpha.webm"), "camera", "--format", "nv12", "--fps", "max"), 0);
    CHECK_HAS(p.err, "has alpha, which nv12 has not");
}

/* ---- sizes ---- */

TEST_TIMEOUT(rotated_video_has_its_size_after_it, 60)
{
    NEEDS_FFMPEG();
    ffmpeg("-f lavfi -i color=black:s=64x48:r=10:d=0.3,drawbox=0:0:16:48:white:fill -pix_fmt yuv420p -c:v libx264 "
           "-bsf:v h264_metadata=display_orientation=insert:rotate=90 turned.h264");
    PLAY("turned.h264", "--format", "gray");
    CHECK_EQ(seen.image.width, 48);
    CHECK_EQ(seen.image.height, 64);
    /* The white side is at the top or at the bottom, from edge to edge. */
    CHECK((seen.data[0] > 200 && seen.data[47] > 200) || (seen.data[63 * 48] > 200 && seen.data[63 * 48 + 47] > 200));
    CHECK_LE(seen.data[32 * 48 + 24], 30);
}

TEST_TIMEOUT(pixels_that_are_not_square_are_told, 60)
{
    NEEDS_FFMPEG();
    ffmpeg("-f lavfi -i testsrc2=s=72x48:r=10:d=0.2,setsar=16/9 -c:v ffv1 wide.mkv");
    PLAY("wide.mkv", "--format", "rgba");
    CHECK_EQ(seen.image.width, 72);
    CHECK_HAS(seen.meta, "\"pixel_aspect\":\"16:9\"");
    CHECK_HAS(player.err, "16:9; --size 128x48 makes them square");
    PLAY("wide.mkv", "--size", "128x48");
    CHECK(strstr(seen.meta, "aspect") == NULL);
    CHECK_STR(player_said(), "");
}

TEST_TIMEOUT(odd_sizes, 60)
{
    NEEDS_FFMPEG();
    ffmpeg("-f lavfi -i testsrc=s=33x25:r=10:d=0.2 -pix_fmt gbrp -c:v ffv1 odd.mkv");
    PLAY("odd.mkv", "--format", "rgb24");
    CHECK_EQ(seen.image.width, 33);
    CHECK_EQ(seen.image.height, 25);
    PLAY("odd.mkv", "--format", "nv12");
    CHECK_EQ(seen.image.width, 32);
    CHECK_EQ(seen.image.height, 24);
    CHECK_HAS(player.err, "nv12 has even sizes");
    ffmpeg("-f lavfi -i testsrc2=s=16384x16:r=10:d=0.2 -c:v ffv1 long.mkv");
    PLAY("long.mkv", "--format", "rgb24");
    CHECK_EQ(seen.image.width, 16384);
    CHECK_EQ(seen.count, 2);
}

TEST_TIMEOUT(a_size_that_changes_is_told, 60)
{
    char command[600];
    NEEDS_FFMPEG();
    ffmpeg("-f lavfi -i testsrc2=s=64x48:r=25:d=0.4 -bf 0 -c:v libx264 a.h264");
    ffmpeg("-f lavfi -i testsrc2=s=32x24:r=25:d=0.4 -bf 0 -c:v libx264 b.h264");
    snprintf(command, sizeof command, "cd '%s' && cat a.h264 b.h264 >both.h264", test_dir());
    CHECK_EQ(system(command), 0);
    PLAY("both.h264", "--format", "rgba");
    CHECK_EQ(seen.count, 20);
    CHECK_EQ(seen.image.width, 64);
    CHECK_HAS(player.err, "changes its size at frame 10; from there it is scaled to 64x48");
    PLAY("a.h264", "--format", "rgba");
    CHECK_STR(player_said(), "");
}

/* ---- names ---- */

TEST_TIMEOUT(any_name_of_a_file, 60)
{
    static const char *const names[] = { "100%20done.png", "sale%d.png", "it's a \"name\".png",
                                         "two\nlines.png", "a:b.png",    "-dash.png" };
    NEEDS_FFMPEG();
    ffmpeg("-f lavfi -i testsrc2=s=32x24 -frames:v 1 plain.png");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CHECK_EQ(rename(in_dir(i ? names[i - 1] : "plain.png"), in_dir(names[i])), 0);
        PLAY(names[i], "--format", "rgba");
        CHECK_EQ(seen.count, 1);
        CHECK_STR(player_said(), "");
    }
    CHECK_EQ(chdir(test_dir()), 0);
    static struct program p;
    CHECK_EQ(sluice_run(&p, "play", "--fps", "max", "--", "-dash.png", "camera"), 0);
    CHECK_HAS(p.out, "played 1 frame");
}

/* ---- what is damaged ---- */

static void cut(const char *from, const char *to, double part, unsigned wrong)
{
    size_t size;
    char *bytes = read_all(in_dir(from), &size);
    for (unsigned i = 0; i < wrong; i++)
        bytes[size / 4 + i * size / 2 / wrong] ^= 0x55;
    FILE *file = fopen(in_dir(to), "wb");
    fwrite(bytes, 1, (size_t)((double)size * part), file);
    fclose(file);
    free(bytes);
}

TEST_TIMEOUT(damaged_video_is_told, 60)
{
    NEEDS_FFMPEG();
    ffmpeg("-f lavfi -i testsrc2=s=320x240:r=25:d=1 -c:v libx264 whole.mkv");
    cut("whole.mkv", "cut.mkv", 0.5, 0);
    cut("whole.mkv", "bad.mkv", 1, 60);
    CHECK_EQ(play(in_dir("whole.mkv"), "--format", "rgba"), 0);
    CHECK_STR(player_said(), "");
    CHECK_EQ(seen.count, 25);
    CHECK_EQ(play(in_dir("cut.mkv"), "--format", "rgba"), 4);
    CHECK_GE(seen.count, 2);
    CHECK_HAS(player.err, "is damaged or cut short; the ");
    CHECK_EQ(play(in_dir("bad.mkv"), "--format", "rgba"), 4);
    CHECK_HAS(player.err, "ffmpeg says: ");
    CHECK_HAS(player.err, "bad.mkv is damaged or cut short");
}

TEST_TIMEOUT(files_without_a_frame, 60)
{
    static struct program p;
    NEEDS_FFMPEG();
    fclose(fopen(in_dir("empty.mp4"), "wb"));
    CHECK_EQ(sluice_run(&p, "play", in_dir("empty.mp4"), "camera"), 1);
    CHECK_HAS(p.err, "empty.mp4 is empty.");
    ffmpeg("-f lavfi -i sine=d=0.2 sound.wav");
    CHECK_EQ(sluice_run(&p, "play", in_dir("sound.wav"), "camera"), 1);
    CHECK_HAS(p.err, "ffmpeg found no video in ");
    ffmpeg("-f lavfi -i testsrc2=s=32x24 -frames:v 0 -c:v mpeg4 none.mp4");
    CHECK_EQ(sluice_run(&p, "play", in_dir("none.mp4"), "camera"), 1);
    CHECK_HAS(p.err, "none.mp4");
    ffmpeg("-f lavfi -i testsrc2=s=32x24:d=0.2 -c:v mpeg4 real.mp4");
    CHECK_EQ(rename(in_dir("real.mp4"), in_dir("wrong.png")), 0); /* the content counts */
    PLAY("wrong.png", "--format", "rgba");
    CHECK_EQ(seen.count, 5);
}

/* ---- sources that do not answer ---- */

TEST_TIMEOUT(a_source_that_never_answers, 90)
{
    static struct program p;
    CHECK_EQ(mkfifo(in_dir("fifo"), 0600), 0);
    int64_t start = test_now();
    CHECK_EQ(sluice_run(&p, "play", in_dir("fifo"), "camera"), 1);
    CHECK_HAS(p.err, "nothing came from ");
    CHECK_HAS(p.err, "within 20 s");
    CHECK_GE(test_now() - start, 19 * SLUICE_S);
}

TEST_TIMEOUT(a_decoder_that_is_stopped_or_killed, 60)
{
    NEEDS_FFMPEG();
    ffmpeg("-f lavfi -i testsrc2=s=64x48:r=50:d=1 -c:v ffv1 clip.mkv");
    player_start(&player, "camera", "--size", "64x48"); /* 'test' */
    pid_t child = first_child(player.pid);
    CHECK(child > 0);
    CHECK_EQ(kill(child, SIGSTOP), 0);
    CHECK_SOON(strstr(program_so_far(&player, "err"), "nothing has come from test for 2 s") != NULL, 30);
    CHECK_EQ(kill(child, SIGKILL), 0);
    CHECK_EQ(program_end(&player, 0), 4);
    CHECK_HAS(player.err, "ffmpeg was killed by signal 9; the ");
}

/* ---- streams ---- */

/* Starts `play - camera` with a file or a shell's command as standard input. Returns the exit code. */
static int pipe_into_play(const char *command, const char *options)
{
    char line[2000];
    snprintf(
        line, sizeof line,
        "cd '%s' && { %s; } | SLUICE_DIR='%s' '%s' play - camera --wait --readers 1 --quiet --fps max %s 2>pipe.err",
        test_dir(), command, getenv("SLUICE_DIR") ? getenv("SLUICE_DIR") : test_dir(), getenv("SLUICE_COMMAND"),
        options);
    FILE *shell = popen(line, "r");
    CHECK(shell != NULL);
    see_all();
    int status = pclose(shell);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_TIMEOUT(standard_input_is_played, 60)
{
    NEEDS_FFMPEG();
    if (!getenv("SLUICE_COMMAND"))
        SKIP("SLUICE_COMMAND does not say where the command is");
    setenv("SLUICE_DIR", test_dir(), 1);
    ffmpeg("-f lavfi -i testsrc2=s=64x48:r=25:d=1 -pix_fmt gray -c:v rawvideo raw.nut");
    CHECK_EQ(pipe_into_play("cat raw.nut", "--format gray"), 0);
    CHECK_EQ(seen.count, 25);
    CHECK_EQ(seen.pts_ns[24], 960 * SLUICE_MS);
    CHECK_EQ(pipe_into_play("head -c 40000 raw.nut", "--format gray"), 4); /* closes early */
    CHECK_GE(seen.count, 10);
    char *err = read_all(in_dir("pipe.err"), NULL);
    CHECK_HAS(err, "standard input is damaged or cut short");
    free(err);
    ffmpeg("-f lavfi -i color=red@0.0:s=64x48:r=10:d=0.3,format=yuva420p -c:v libvpx-vp9 -pix_fmt yuva420p "
           "-auto-alt-ref 0 alpha.webm");
    CHECK_EQ(pipe_into_play("cat alpha.webm", "--format rgba"), 0);
    CHECK_EQ(seen.data[3], 0);
}

TEST(standard_input_that_is_empty)
{
    static struct program p;
    CHECK_EQ(sluice_run(&p, "play", "-", "camera"), 1); /* /dev/null */
    CHECK_HAS(p.err, "standard input is empty");
    CHECK_EQ(sluice_run(&p, "play", "-", "camera", "--loop"), 2);
    CHECK_HAS(p.err, "--loop needs a file");
}

/* ---- cameras ---- */

/* A camera by any path is asked for the size and the rate. ffmpeg is one that writes down what it is asked. */
TEST(cameras_are_asked_for_their_size)
{
    static struct program p;
    char node[64], path[8192], link[512];
    FILE *file = fopen(in_dir("ffmpeg"), "wb");
    CHECK(file != NULL);
    fprintf(file, "#!/bin/sh\necho \"$*\" >>'%s'\nexit 1\n", in_dir("asked"));
    fclose(file);
    CHECK_EQ(chmod(in_dir("ffmpeg"), 0700), 0);
    snprintf(path, sizeof path, "%s:%s", test_dir(), getenv("PATH"));
    setenv("PATH", path, 1);
    unsetenv("SLUICE_FFMPEG");
    snprintf(node, sizeof node, "/dev/sluice-test-%d", (int)getpid());
    if (mknod(node, S_IFCHR | 0600, makedev(81, 250)) < 0)
        SKIP("only root may make a device");
    snprintf(link, sizeof link, "%s", in_dir("usb-camera-index0"));
    CHECK_EQ(symlink(node, link), 0);
    int code = sluice_run(&p, "play", link, "camera", "--size", "1280x720", "--fps", "30");
    unlink(node);
    CHECK_EQ(code, 1);
    char *asked = read_all(in_dir("asked"), NULL);
    CHECK_HAS(asked, "-f v4l2 -video_size 1280x720 -framerate 30.000000 -i ");
    CHECK_HAS(asked, "/usb-camera-index0 ");
    CHECK_STR(strchr(asked, '\n'), "\n"); /* once */
    free(asked);
}

/* ---- another ffmpeg ---- */

TEST(ffmpeg_by_its_path)
{
    static struct program p;
    setenv("SLUICE_FFMPEG", "/no/such/ffmpeg", 1);
    fclose(fopen(in_dir("a.mp4"), "wb"));
    CHECK_EQ(sluice_run(&p, "play", in_dir("a.mp4"), "camera"), 1);
    CHECK_HAS(p.err, "there is no program /no/such/ffmpeg");
    setenv("PATH", "/no/such", 1);
    unsetenv("SLUICE_FFMPEG");
    CHECK_EQ(sluice_run(&p, "play", in_dir("a.mp4"), "camera"), 1);
    CHECK_HAS(p.err, "apt install ffmpeg; with pip: pip install imageio-ffmpeg");
}

/* Messages without end cost no memory, and do not stop the video. */
TEST_TIMEOUT(a_decoder_that_talks_without_end, 60)
{
    NEEDS_FFMPEG();
    ffmpeg("-f lavfi -i testsrc2=s=64x48:r=25:d=0.4 -c:v ffv1 clip.mkv");
    FILE *file = fopen(in_dir("talker"), "wb");
    fputs("#!/bin/sh\nhead -c 100000000 /dev/zero | tr '\\0' x >&2\nexec ffmpeg \"$@\"\n", file);
    fclose(file);
    CHECK_EQ(chmod(in_dir("talker"), 0700), 0);
    setenv("SLUICE_FFMPEG", in_dir("talker"), 1);
    CHECK_EQ(play(in_dir("clip.mkv"), "--format", "rgba"), 4);
    CHECK_EQ(seen.count, 10);
    CHECK_HAS(player.err, "ffmpeg says: xxxx");
    CHECK_HAS(player.err, "the 10 frames that ffmpeg decoded were played");
}
