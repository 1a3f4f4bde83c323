/* SPDX-License-Identifier: MIT
 *
 * The command: play, record and snap, in host memory and on the fake driver's GPU.
 */
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/media/recording.h"

static const char *device = "host"; /* of the channels */

static void use_gpu(void)
{
    use_fake_gpu();
    device = "cuda:0";
}

/* The samples of a pixel in a PNG that tools/media/png.c wrote, with rows short enough for one block
 * each. */
static const uint8_t *png_pixel(const char *png, unsigned width, unsigned bytes, unsigned x, unsigned y)
{
    size_t row = 12 + 5 + 1 + (size_t)width * bytes;
    return (const uint8_t *)png + 8 + 25 + 14 + y * row + 8 + 5 + 1 + (size_t)x * bytes;
}

static void snap_format(const char *format, unsigned bytes, int tolerance)
{
    static const uint8_t bars[3][3] = { { 255, 255, 0 }, { 0, 255, 0 }, { 0, 0, 255 } };
    static const unsigned places[3] = { 24, 56, 104 }; /* of 128; middles of their bars */
    static struct program p, player;
    player_start(&player, "camera", "--pattern", "--size", "128x96", "--fps", "0.2", "--format", format, "--device",
                 device);
    CHECK_EQ(sluice_run(&p, "snap", "camera", in_dir("now.png")), 0);
    char *png = read_all(in_dir("now.png"), NULL);
    CHECK_MEM(png, "\x89PNG\r\n\x1a\n", 8);
    for (int i = 0; i < 3; i++) {
        const uint8_t *pixel = png_pixel(png, 128, bytes, places[i], 60);
        for (int c = 0; c < 3; c++)
            if (abs(pixel[c] - bars[i][c]) > tolerance)
                FAIL("%s: bar %d, colour %d is %d", format, i, c, pixel[c]);
    }
    free(png);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

static void snap_formats(void)
{
    snap_format("rgba", 4, 0);
    snap_format("bgr24", 3, 0);
    snap_format("nv12", 3, 4);
    snap_format("yuyv422", 3, 4);
    snap_format("p010le", 3, 2);
    snap_format("bayer_grbg8", 3, 0);
    snap_format("rgbaf16le", 4, 1);
}

TEST_TIMEOUT(snap_of_pixel_formats, 60)
{
    snap_formats();
}

TEST_TIMEOUT(snap_of_pixel_formats_on_a_gpu, 60)
{
    use_gpu();
    snap_formats();
}

TEST(snap_of_an_array)
{
    static struct program p, player;
    size_t size;
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--fps", "0.2", "--format", "gray16le");
    CHECK_EQ(sluice_run(&p, "snap", "camera", in_dir("now.npy")), 0);
    char *npy = read_all(in_dir("now.npy"), &size);
    CHECK_HAS(npy + 10, "{'descr': '<u2', 'fortran_order': False, 'shape': (48, 64, ), }");
    CHECK_EQ(size, 128 + 64 * 48 * 2);
    CHECK_EQ((uint8_t)npy[128 + (40 * 64 + 63) * 2], 0xFF); /* white, at the ramp's end */
    free(npy);
    CHECK_EQ(sluice_run(&p, "snap", "camera", "-"), 0);
    CHECK_MEM(p.out, "\x89PNG", 4);
    CHECK_EQ(sluice_run(&p, "snap", "camera", in_dir("x.npy"), "--array", "nope"), 1);
    CHECK_HAS(p.err, "nope");
    CHECK(access(in_dir("x.npy"), F_OK) != 0);
    CHECK_EQ(sluice_run(&p, "snap", "camera", "/no/folder/x.png"), 1);
    CHECK_HAS(p.err, "/no/folder/x.png");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

/* The player writes the hash of each frame into its metadata. */
static void check_hash(const struct recording_frame *frame)
{
    char meta[SLUICE_MAX_META + 1];
    memcpy(meta, frame->meta, frame->meta_size);
    meta[frame->meta_size] = 0;
    const char *said = strstr(meta, "\"hash\":\"");
    if (said)
        CHECK_EQ(strtoull(said + 8, NULL, 16), frame->hashes[0]);
}

/* Checks that two recordings have the same frames. Returns their number. */
static unsigned same_frames(const char *path_a, const char *path_b, bool same_times)
{
    static struct recording a, b;
    unsigned frames = 0;
    FILE *file_a = fopen(path_a, "rb"), *file_b = fopen(path_b, "rb");
    CHECK(file_a && file_b);
    CHECK_EQ(recording_open(&a, file_a), RECORDING_FORMAT);
    CHECK_EQ(recording_open(&b, file_b), RECORDING_FORMAT);
    for (;;) {
        enum recording_block next = recording_next(&a);
        CHECK_EQ(recording_next(&b), next);
        if (next == RECORDING_FORMAT)
            CHECK_MEM(&a.format, &b.format, sizeof a.format);
        if (next != RECORDING_FORMAT && next != RECORDING_FRAME)
            break;
        if (next == RECORDING_FORMAT)
            continue;
        CHECK_EQ(a.frame.capture_ns == b.frame.capture_ns, same_times);
        CHECK_EQ(a.frame.capture_clock, b.frame.capture_clock);
        CHECK_EQ(a.frame.meta_size, b.frame.meta_size);
        CHECK_MEM(a.frame.meta, b.frame.meta, a.frame.meta_size);
        CHECK_EQ(a.frame.array_count, b.frame.array_count);
        CHECK_MEM(a.frame.arrays, b.frame.arrays, a.frame.array_count * sizeof a.frame.arrays[0]);
        CHECK_MEM(a.frame.hashes, b.frame.hashes, a.frame.array_count * sizeof a.frame.hashes[0]);
        check_hash(&b.frame);
        frames++;
    }
    fclose(file_a);
    fclose(file_b);
    return frames;
}

/* Records 40 frames of the pattern at irregular times. */
static void record_pattern(const char *path)
{
    static struct program player, recorder;
    sluice_start(&player, "play", "test", "first", "--pattern", "--size", "100x50", "--format", "bgr24", "--frames",
                 "40", "--fps", "200", "--readers", "1", "--wait", "--hash", "--device", device);
    sluice_start(&recorder, "record", "first", path, "--timeout", "10");
    CHECK_EQ(program_end(&player, 0), 0);
    CHECK_EQ(program_end(&recorder, 0), 0);
    CHECK_HAS(recorder.out, "recorded 40 frames, missed 0");
}

/* Plays and records again; `option` is one of play's. */
static void replay(const char *from, const char *to, const char *option)
{
    static struct program player, recorder;
    sluice_start(&player, "play", from, "second", "--readers", "1", "--wait", option, "--device", device);
    sluice_start(&recorder, "record", "second", to, "--timeout", "10");
    CHECK_EQ(program_end(&player, 0), 0);
    CHECK_HAS(player.out, "played 40 frames, dropped 0");
    CHECK_EQ(program_end(&recorder, 0), 0);
    CHECK_HAS(recorder.out, "recorded 40 frames, missed 0");
}

static void round_trip(void)
{
    record_pattern(in_dir("a.slr"));
    replay(in_dir("a.slr"), in_dir("b.slr"), "--wait");
    CHECK_EQ(same_frames(in_dir("a.slr"), in_dir("b.slr"), true), 40);
    replay(in_dir("a.slr"), in_dir("c.slr"), "--retime");
    CHECK_EQ(same_frames(in_dir("a.slr"), in_dir("c.slr"), false), 40);
}

TEST_TIMEOUT(recording_round_trip, 40)
{
    round_trip();
}

TEST_TIMEOUT(recording_round_trip_on_a_gpu, 40)
{
    use_gpu();
    round_trip();
    device = "host"; /* frames from a GPU are the same in host memory */
    replay(in_dir("a.slr"), in_dir("d.slr"), "--wait");
    CHECK_EQ(same_frames(in_dir("a.slr"), in_dir("d.slr"), true), 40);
}

/* The time from its first frame to its last. */
static int64_t length_of(const char *path)
{
    static struct recording recording;
    int64_t first = 0, last = 0;
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    CHECK_EQ(recording_open(&recording, file), RECORDING_FORMAT);
    for (enum recording_block next;
         (next = recording_next(&recording)) == RECORDING_FORMAT || next == RECORDING_FRAME;) {
        if (next != RECORDING_FRAME)
            continue;
        last = recording.frame.commit_ns;
        first = first ? first : last;
    }
    fclose(file);
    return last - first;
}

TEST_TIMEOUT(recording_keeps_time, 40)
{
    static struct program p;
    record_pattern(in_dir("a.slr"));
    int64_t length = length_of(in_dir("a.slr")); /* 39 steps of 5 ms, unless the player was delayed at the first */
    CHECK_GE(length, 1);
    int64_t start = test_now();
    CHECK_EQ(sluice_run(&p, "play", in_dir("a.slr"), "camera"), 0);
    CHECK_GE(test_now() - start, length - 5000000);
    start = test_now();
    CHECK_EQ(sluice_run(&p, "play", in_dir("a.slr"), "camera", "--fps", "20", "--frames", "11"), 0);
    CHECK_GE(test_now() - start, 500000000);
    CHECK_EQ(sluice_run(&p, "play", in_dir("a.slr"), "camera", "--loop", "--frames", "100", "--fps", "max"), 0);
    CHECK_HAS(p.out, "played 100 frames");
}

/* The sanitizers check the result. */
TEST(recording_whose_times_are_any_numbers)
{
    static const int64_t times[] = { INT64_MAX, INT64_MIN, 0, INT64_MIN, INT64_MAX, -5 };
    static struct program p;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    uint8_t pixels[4 * 2] = { 0 };
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 4, 2));
    FILE *file = fopen(in_dir("odd.slr"), "wb");
    CHECK(file && recording_create(file, "camera") && recording_put_format(file, &format));
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        struct sluice_frame frame = { .sequence = i + 1, .commit_ns = times[i], .generation = 1, .array_count = 1 };
        struct sluice_array array = format.arrays[0];
        array.data = pixels;
        CHECK(recording_put_frame(file, &frame, &array));
    }
    CHECK(recording_put_end(file, sizeof times / sizeof times[0], 0) && fclose(file) == 0);
    CHECK_EQ(sluice_run(&p, "play", in_dir("odd.slr"), "camera"), 0);
    CHECK_HAS(p.out, "played 6 frames");
}

/* A slow in-order reader: a player that waits for it drops nothing, and the reader misses nothing. */
static void wait_for_a_slow_reader(void)
{
    static struct program player;
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_frame frame;
    sluice_reader *reader;
    test_dir();
    sluice_start(&player, "play", "test", "camera", "--pattern", "--size", "64x48", "--fps", "200", "--frames", "30",
                 "--readers", "1", "--wait", "--device", device);
    params.name = "camera";
    params.mode = SLUICE_IN_ORDER;
    params.open_timeout_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    for (unsigned i = 1; i <= 30; i++) {
        if (i <= 2)
            test_nap(1300 * SLUICE_MS); /* longer than the time-out of begin */
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.sequence, i);
        CHECK_EQ(frame.missed, 0);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_EQ(program_end(&player, 0), 0);
    CHECK_HAS(player.out, "played 30 frames, dropped 0");
}

TEST(players_that_wait_drop_nothing)
{
    wait_for_a_slow_reader();
}

TEST(players_that_wait_drop_nothing_on_a_gpu)
{
    use_gpu();
    wait_for_a_slow_reader();
}

static void cut_file(const char *from, const char *to, long less, long damage)
{
    size_t size;
    char *bytes = read_all(from, &size);
    FILE *file = fopen(to, "wb");
    if (damage)
        bytes[damage] ^= 1;
    fwrite(bytes, 1, size - (size_t)less, file);
    fclose(file);
    free(bytes);
}

TEST_TIMEOUT(recording_that_is_cut_or_damaged, 40)
{
    static struct program p;
    record_pattern(in_dir("a.slr"));
    cut_file(in_dir("a.slr"), in_dir("cut.slr"), 20000, 0); /* the end, and two frames */
    CHECK_EQ(sluice_run(&p, "play", in_dir("cut.slr"), "camera", "--fps", "max"), 0);
    CHECK_HAS(p.err, "is cut short; its 38 whole frames");
    CHECK_HAS(p.out, "played 38 frames");
    cut_file(in_dir("a.slr"), in_dir("bad.slr"), 0, 60000);
    CHECK_EQ(sluice_run(&p, "play", in_dir("bad.slr"), "camera", "--fps", "max"), 1);
    CHECK_HAS(p.err, "damaged");
    cut_file(in_dir("a.slr"), in_dir("head.slr"), 0, 20);
    CHECK_EQ(sluice_run(&p, "play", in_dir("head.slr"), "camera"), 1);
    CHECK_HAS(p.err, "its header is damaged");
}

/* Into a.slr: 40 frames, of two sizes. */
static void kill_the_writer(void)
{
    static struct program player, recorder;
    struct recording_summary summary;
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--fps", "5", "--device", device);
    sluice_start(&recorder, "record", "camera", in_dir("a.slr"), "--frames", "40");
    CHECK_SOON(has_taken("camera", 3), 20);
    CHECK_EQ(program_end(&player, SIGKILL), -SIGKILL);
    player_start(&player, "camera", "--pattern", "--size", "32x24", "--fps", "50", "--device", device);
    CHECK_EQ(program_end(&recorder, 0), 0);
    CHECK_HAS(recorder.out, "recorded 40 frames");
    CHECK_HAS(recorder.out, "over 2 sessions");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    FILE *file = fopen(in_dir("a.slr"), "rb");
    CHECK_EQ(recording_read(file, &summary), RECORDING_END);
    CHECK_EQ(summary.frames, 40);
    CHECK_EQ(summary.formats, 2);
    fclose(file);
}

TEST_TIMEOUT(recorder_survives_its_writer, 40)
{
    kill_the_writer();
}

TEST_TIMEOUT(recorder_survives_its_writer_on_a_gpu, 40)
{
    use_gpu();
    kill_the_writer();
    replay(in_dir("a.slr"), in_dir("b.slr"), "--wait");
    CHECK_EQ(same_frames(in_dir("a.slr"), in_dir("b.slr"), true), 40);
}

TEST(recording_onto_a_full_disk)
{
    static struct program p, player;
    if (access("/dev/full", W_OK) != 0)
        SKIP("there is no /dev/full");
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    CHECK_EQ(sluice_run(&p, "record", "camera", "/dev/full", "--raw"), 1);
    CHECK_HAS(p.err, "/dev/full");
    CHECK_EQ(sluice_run(&p, "record", "camera", "/no/folder/a.slr"), 1);
    CHECK_HAS(p.err, "/no/folder/a.slr");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(recording_up_to_the_largest_file)
{
    static struct program p, player;
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--fps", "200");
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 300 << 10, 300 << 10 }),
             0); /* SIGXFSZ would kill it by default */
    CHECK_EQ(sluice_run(&p, "record", "camera", in_dir("a.slr")), 1);
    CHECK_HAS(p.err, ": File too large. It has the ");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(record_ended_before_the_first_frame)
{
    static struct program p;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_channel_info info = { .size = sizeof(info) };
    sluice_writer *writer;
    test_dir();
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 4, 4));
    params.name = "quiet";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    sluice_start(&p, "record", "quiet", in_dir("a.mp4"), "--fps", "5");
    CHECK_SOON(sluice_channel_info("quiet", SLUICE_S, &info, NULL, 0) == SLUICE_OK && info.readers == 1, 20);
    CHECK_EQ(program_end(&p, SIGINT), 0); /* no time-out message after Ctrl-C */
    CHECK_STR(p.err, "");
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(record_ends_with_its_writer_or_its_time)
{
    static struct program p, player;
    sluice_start(&p, "record", "camera", in_dir("a.slr"), "--timeout", "20");
    sluice_start(&player, "play", "test", "camera", "--pattern", "--size", "64x48", "--fps", "50", "--frames", "25",
                 "--readers", "1");
    CHECK_EQ(program_end(&p, 0), 0);
    CHECK_HAS(p.out, "recorded ");
    CHECK_EQ(program_end(&player, 0), 0);
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--fps", "50");
    CHECK_EQ(sluice_run(&p, "record", "camera", in_dir("a.slr"), "--seconds", "0.3"), 0);
    sluice_start(&p, "record", "camera", in_dir("a.slr"));
    CHECK_SOON(has_taken("camera", 3), 20);
    CHECK_EQ(program_end(&p, SIGINT), 0);
    CHECK_HAS(p.out, "recorded ");
    CHECK_EQ(program_end(&player, SIGINT), 0);
    CHECK_HAS(player.out, "played ");
}
