/* SPDX-License-Identifier: MIT
 *
 * The command and a channel on a GPU, by the fake driver: commands that read it, and commands that only query it.
 */
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "tools/common/describe.h"

static struct program player;

/* A channel "camera" on the second of two GPUs, which its writer calls cuda:0. */
static void begin(void)
{
    use_fake_gpu();
    setenv("SLUICE_NVML", "libno-such-nvml.so.1", 1);
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--device", "cuda:0", "--hash");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(ls_info_and_top_say_where_frames_are)
{
    static struct program p;
    begin();
    CHECK_EQ(sluice_run(&p, "ls"), 0);
    CHECK_HAS(p.out, "DEVICE");
    CHECK_HAS(p.out, "cuda:0");
    CHECK_EQ(sluice_run(&p, "ls", "--json"), 0);
    check_json(p.out, "d['channels'][0]['device'] == 'cuda:0'");
    CHECK_EQ(sluice_run(&p, "info", "camera"), 0);
    CHECK_HAS(p.out, "device cuda:0 (GPU f0f1f2f3)");
    CHECK_EQ(sluice_run(&p, "info", "camera", "--json"), 0);
    check_json(p.out, "d['device'] == 'cuda:0' and d['device_uuid'] == 'f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe01'");
    CHECK_EQ(sluice_run(&p, "top", "--once", "--interval", "0.1"), 0);
    CHECK_HAS(p.out, "DEVICE");
    CHECK_HAS(p.out, "cuda:0");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--device", "host");
    CHECK_EQ(sluice_run(&p, "info", "camera", "--json"), 0);
    check_json(p.out, "d['device'] == 'host' and d['device_uuid'] is None");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(info_says_who_waits_ahead)
{
    static struct program p;
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_reader_info reader_info = { .mode = SLUICE_IN_ORDER, .writable = 1, .ahead = 1, .parked = 3 };
    char text[MODE_TEXT];
    sluice_reader *reader;
    begin();
    params.name = "camera";
    params.ahead = 1;
    params.open_timeout_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    CHECK_EQ(sluice_run(&p, "info", "camera"), 0);
    CHECK_HAS(p.out, "newest, ahead ");
    CHECK_EQ(sluice_run(&p, "info", "camera", "--json"), 0);
    check_json(p.out, "d['readers'][0]['ahead'] and d['readers'][0]['parked'] == 0");
    CHECK_EQ(sluice_run(&p, "top", "--once", "--json", "--interval", "0.1"), 0);
    check_json(p.out, "d['channels'][0]['readers'][0]['ahead'] and d['channels'][0]['readers'][0]['parked'] == 0");
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    CHECK_STR(text_mode(text, &reader_info), "in order, may write, ahead (3 parked)");
}

/* The driver calls of processes started since. */
static const char *driver_log(void)
{
    static char said[256];
    if (access(in_dir("driver.log"), F_OK) != 0)
        return "";
    char *text = read_all(in_dir("driver.log"), NULL);
    snprintf(said, sizeof said, "%s", text);
    free(text);
    unlink(in_dir("driver.log"));
    return said;
}

TEST(observers_load_no_driver)
{
    static struct program p;
    begin();
    setenv("SLUICE_FAKE_LOG", in_dir("driver.log"), 1);
    CHECK_EQ(sluice_run(&p, "ls", "--rate"), 0);
    CHECK_EQ(sluice_run(&p, "info", "camera"), 0);
    CHECK_EQ(sluice_run(&p, "top", "--batch", "2", "--interval", "0.1"), 0);
    CHECK_EQ(sluice_run(&p, "__complete", "snap", ""), 0);
    CHECK_HAS(p.out, "camera");
    CHECK_STR(driver_log(), "");
    CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
    CHECK_STR(driver_log(), "loaded\n");
    CHECK_EQ(sluice_run(&p, "snap", "camera", in_dir("now.png")), 0);
    CHECK_STR(driver_log(), "loaded\ncontext\n");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

/* If it cannot be read, each command prints why, in one line; commands that only query it still work. */
TEST(readers_without_the_gpu)
{
    static struct program p;
    begin();
    setenv("SLUICE_CUDA_DRIVER", "libno-such-driver.so.1", 1);
    CHECK_EQ(sluice_run(&p, "snap", "camera", in_dir("now.png")), 1);
    CHECK_HAS(p.err, "channel 'camera' has its frames on a GPU, 'cuda:GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe01', "
                     "which this process cannot use: no CUDA driver");
    CHECK_HAS(p.err, "in a container: start it with GPUs");
    CHECK(strchr(p.err, '\n') == p.err + strlen(p.err) - 1);
    CHECK(access(in_dir("now.png"), F_OK) != 0);
    CHECK_EQ(sluice_run(&p, "record", "camera", in_dir("a.slr"), "--frames", "1"), 1);
    CHECK_HAS(p.err, "which this process cannot use");
    CHECK_EQ(sluice_run(&p, "view", "camera", "--ascii", "--frames", "1"), 1);
    CHECK_HAS(p.err, "which this process cannot use");
    CHECK_EQ(sluice_run(&p, "play", "test", "other", "--pattern", "--device", "cuda:0"), 1);
    CHECK_HAS(p.err, "no CUDA driver");
    CHECK_EQ(sluice_run(&p, "info", "camera"), 0);
    setenv("SLUICE_CUDA_DRIVER", FAKE_CUDA, 1);
    setenv("CUDA_VISIBLE_DEVICES", "0", 1); /* not the writer's */
    CHECK_EQ(sluice_run(&p, "snap", "camera", in_dir("now.png")), 1);
    CHECK_HAS(p.err, "there is no such GPU");
    CHECK_HAS(p.err, "CUDA_VISIBLE_DEVICES is \"0\"");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(view_of_a_channel_on_a_gpu)
{
    static struct program p;
    begin();
    CHECK_EQ(sluice_run(&p, "view", "camera", "--ascii", "--frames", "2"), 0);
    CHECK_HAS(p.out, "\033[38;2;255;255;255m\033[48;2;255;255;255m\u2580"); /* the white bar */
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

static sluice_reader *holder(uint32_t hold)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;
    params.name = "camera";
    params.mode = SLUICE_IN_ORDER;
    params.hold = hold;
    params.open_timeout_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

TEST(play_drops_what_finds_no_slot)
{
    static struct program p;
    struct sluice_frame frame;
    unsigned played, dropped;
    begin();
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    sluice_start(&p, "play", "test", "camera", "--pattern", "--size", "64x48", "--device", "cuda:0", "--slots", "3",
                 "--readers", "2", "--fps", "200", "--frames", "1000"); /* longer than any process is stopped */
    sluice_reader *four = holder(4), *one = holder(1); /* of 6 slots, one of which has the newest frame */
    for (int i = 0; i < 4; i++)
        CHECK_OK(sluice_reader_acquire(four, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    uint64_t held = frame.sequence;
    CHECK_OK(sluice_reader_acquire(one, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    while (frame.sequence <= held && sluice_reader_release(one, &frame, SLUICE_ON_CPU) == 0)
        CHECK_OK(sluice_reader_acquire(one, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_EQ(program_end(&p, 0), 0);
    CHECK_EQ(sscanf(p.out, "played %u frames, dropped %u", &played, &dropped), 2);
    CHECK_EQ(played + dropped, 1000);
    CHECK_GE(dropped, 10);
    CHECK_OK(sluice_reader_close(&four));
    CHECK_OK(sluice_reader_close(&one));
}
