/* SPDX-License-Identifier: MIT
 *
 * The command: its help, and its messages for wrong names, options and files.
 */
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = { "ls",     "info",   "play", "view",  "record", "snap",
                                     "bridge", "doctor", "demo", "bench", "top" };

TEST(help_of_every_command)
{
    static struct program p;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char usage[64];
        snprintf(usage, sizeof usage, "usage: sluice %s", names[i]);
        CHECK_EQ(sluice_run(&p, names[i], "--help"), 0);
        CHECK_HAS(p.out, usage);
        CHECK_HAS(p.out, "\nexamples:\n");
        CHECK_STR(p.err, "");
        CHECK_EQ(sluice_run(&p, "--help"), 0);
        CHECK_HAS(p.out, names[i]);
    }
}

TEST(version_says_all_three)
{
    static struct program p;
    CHECK_EQ(sluice_run(&p, "--version"), 0);
    CHECK_HAS(p.out, "sluice ");
    CHECK_HAS(p.out, "API ");
    CHECK_HAS(p.out, "wire ");
}

TEST(wrong_lines)
{
    static const struct {
        const char *argv[6];
        int status;
        const char *says;
    } cases[] = {
        { { "recrod" }, 2, "did you mean 'record'?" },
        { { "zzz" }, 2, "unknown command 'zzz'" },
        { { "help", "zzz" }, 2, "unknown command 'zzz'" },
        { { "ls", "--jsno" }, 2, "did you mean --json?" },
        { { "ls", "-z" }, 2, "unknown option -z" },
        { { "ls", "x" }, 2, "unexpected argument 'x'" },
        { { "info" }, 2, "missing argument; it takes CHANNEL" },
        { { "play", "test" }, 2, "missing argument; it takes FILE|DEVICE|test CHANNEL" },
        { { "play", "test", "a", "--frames" }, 2, "--frames needs a value" },
        { { "play", "test", "a", "--fps", "-1" }, 2, "--fps takes a number" },
        { { "play", "test", "a", "--fps", "nan" }, 2, "--fps takes a number" },
        { { "play", "test", "a", "--size", "12" }, 2, "--size takes WIDTHxHEIGHT" },
        { { "play", "test", "a", "--size", "0x9" }, 2, "--size takes WIDTHxHEIGHT" },
        { { "play", "test", "a", "--size", "9x9x9" }, 2, "--size takes WIDTHxHEIGHT" },
        { { "play", "test", "a", "--slots", "2" }, 2, "--slots takes a whole number from 3 to 64" },
        { { "play", "test", "a", "--slots", "-4" }, 2, "--slots takes" },
        { { "play", "test", "a", "--format", "rgbx" }, 2, "did you mean 'rgba'?" },
        { { "play", "test", "a/b", "--pattern" }, 1, "a/b" },
        { { "play", "test", "", "--pattern" }, 1, "empty" },
        { { "play", "test", "tcp:a", "--pattern" }, 1, "tcp" },
        { { "play", "/no/file", "a" }, 1, "there is no file /no/file" },
        { { "play", "/dev/video99", "a" }, 1, "/dev/video99" },
        { { "play", "/dev/null", "a", "--pattern" }, 1, "/dev/null" },
        { { "snap", "a", "x.jpg" }, 2, ".png or .npy" },
        { { "snap", "nope", "x.png" }, 3, "nope" },
        { { "record", "nope", "x.slr" }, 3, "nope" },
        { { "info", "nope" }, 3, "nope" },
        { { "bridge", "a" }, 2, "missing argument; it takes FROM TO" },
        { { "bridge", "a", "sluice:a" }, 2, "FROM and TO are both" },
        { { "bridge", "a", "tcp:b" }, 1, "tcp" },
        { { "bridge", "a/b", "c" }, 1, "a/b" },
        { { "bridge", "nope", "c", "-t", "0" }, 3, "nope" },
        { { "bridge", "a", "b", "--slots", "2" }, 2, "--slots takes" },
        { { "view", "nope", "--ascii" }, 3, "nope" },
        { { "record", "nope", "x.slr", "--seconds", "-1" }, 2, "--seconds takes a number" },
        { { "demo", "--filter", "/no/program" }, 1, "filter" },
    };
    static struct program p;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *a = cases[i].argv;
        start_program(&p, a);
        program_end(&p, 0);
        if (p.status != cases[i].status || !strstr(p.err, cases[i].says))
            FAIL("sluice %s %s %s: %d, not %d, and says: %s", a[0], a[1] ? a[1] : "", a[2] ? a[2] : "", p.status,
                 cases[i].status, p.err);
        if (strncmp(p.err, "sluice: ", 8) != 0)
            FAIL("sluice %s says: %s", a[0], p.err);
    }
    CHECK(access("x.png", F_OK) != 0);
    CHECK(access("demo-out", F_OK) != 0);
}

TEST(no_command_is_wrong_usage)
{
    static struct program p;
    start_program(&p, (const char *const[]){ NULL });
    CHECK_EQ(program_end(&p, 0), 2);
    CHECK_HAS(p.err, "usage: sluice COMMAND");
}

TEST(view_without_a_display)
{
    static struct program p;
    unsetenv("DISPLAY");
    unsetenv("WAYLAND_DISPLAY");
    CHECK_EQ(sluice_run(&p, "view", "camera"), 1);
    CHECK_HAS(p.err, "no display");
    CHECK_HAS(p.err, "sluice snap camera");
}

TEST(a_near_channel_is_named)
{
    static struct program p, player;
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    CHECK_EQ(sluice_run(&p, "info", "camrea"), 3);
    CHECK_HAS(p.err, "did you mean the channel 'camera'?");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(without_ffmpeg_it_says_so)
{
    static struct program p;
    FILE *file = fopen(in_dir("clip.mp4"), "wb");
    fclose(file);
    setenv("PATH", "/no/such/folder", 1);
    CHECK_EQ(sluice_run(&p, "play", in_dir("clip.mp4"), "camera"), 1);
    CHECK_HAS(p.err, "apt install ffmpeg");
    /* The test picture needs no ffmpeg. */
    CHECK_EQ(sluice_run(&p, "play", "test", "camera", "--frames", "3", "--fps", "max"), 0);
    CHECK_HAS(p.out, "played 3 frames");
}
