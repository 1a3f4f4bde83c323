/* SPDX-License-Identifier: MIT
 *
 * The candidates that the command prints for completion; completion.py tests the shells.
 */
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

static struct program asked;

/* Completes a line and checks the candidates, separated by spaces, without descriptions and without channels of cuda-
 * link's protocol, which are shared by the whole machine. */
static void check_offers(const char *expected, const char *const words[])
{
    const char *arguments[16] = { "__complete" };
    for (size_t i = 0; words[i] && i < 14; i++)
        arguments[i + 1] = words[i];
    start_program(&asked, arguments);
    CHECK_EQ(program_end(&asked, 0), 0);
    CHECK_STR(asked.err, "");
    char offered[4096] = "";
    size_t used = 0;
    for (char *line = strtok(asked.out, "\n"); line && used < sizeof offered - 256; line = strtok(NULL, "\n"))
        if (!strstr(line, "cipd:"))
            used += (size_t)snprintf(offered + used, 256, "%s%.*s", used ? " " : "", (int)strcspn(line, "\t"), line);
    CHECK_STR(offered, expected);
}
#define OFFERS(expected, ...) check_offers(expected, (const char *const[]){ __VA_ARGS__, NULL })

TEST(offers_commands)
{
    OFFERS("record", "rec");
    OFFERS("record", "help", "rec");
    OFFERS("--help --version", "--");
    OFFERS("", "nope");
    OFFERS("", "nope", "");
    OFFERS("", "help", "record", "");
}

TEST(offers_options)
{
    OFFERS("--json --all --rate --watch --help", "ls", "-");
    OFFERS("--json", "ls", "--js");
    OFFERS("--json", "info", "camera", "--js");
    OFFERS("", "ls", "--", "--js");
    OFFERS("", "ls", "");
}

TEST(offers_values)
{
    OFFERS("nv12", "play", "--format", "nv");
    OFFERS("--format=nv12", "play", "--format=nv");
    OFFERS("nv12", "play", "-lf", "nv");
    OFFERS("yuv420p yuv444p yuv422p yuv422p10le", "play", "test", "camera", "-f", "yuv4");
    OFFERS("max", "play", "--fps", "");
    OFFERS("", "play", "--slots", "");
    OFFERS("", "play", "--loop=");
    OFFERS("", "play", "--nope=");
    OFFERS(":files", "demo", "--clip", "");
    OFFERS(":files", "demo", "--clip=x");
    OFFERS(":folders", "demo", "--out", "");
}

TEST(offers_arguments)
{
    OFFERS(":files test", "play", "t");
    OFFERS(":files test", "play", "-fnv12", "--loop", "t");
    OFFERS(":files test", "play", "--format", "nv12", "t");
    OFFERS(":files", "snap", "camera", "x");
    OFFERS(":files", "run", "");
    OFFERS("", "snap", "camera", "x.png", "");
    OFFERS("kill_reader kill_writer", "bench", "send", "kill");
    OFFERS("fps", "top", "--sort", "fp");
    OFFERS("fps", "top", "camera", "other", "-s", "fp");
}

TEST(offers_channels_and_their_arrays)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_dtype type = { SLUICE_FLOAT, 32, 1 };
    sluice_writer *writer;
    setenv("SLUICE_DIR", test_dir(), 1);
    params.name = "camera";
    params.format = &format;
    CHECK_OK(sluice_format_add_image(&format, "left", SLUICE_PIXEL_RGBA, 64, 48));
    CHECK_OK(sluice_format_add_tensor(&format, "depth", type, 1, (int64_t[]){ 100 }));
    CHECK_OK(sluice_writer_open(&writer, &params));

    OFFERS("camera", "info", "");
    OFFERS("camera", "play", "test", "c");
    OFFERS("camera", "top", "other", "another", "c");
    OFFERS("", "info", "x");
    OFFERS("left depth", "snap", "camera", "now.npy", "--array", "");
    OFFERS("depth", "snap", "-a", "x", "camera", "--array", "d");
    OFFERS("--array=left", "record", "camera", "--array=l");
    OFFERS("", "snap", "nope", "--array", "");
    OFFERS("", "snap", "--array", "");
    CHECK_EQ(sluice_run(&asked, "__complete", "info", "ca"), 0);
    CHECK_STR(asked.out, "camera\t64x48 rgba +1\n");
    CHECK_EQ(sluice_run(&asked, "__complete", "snap", "camera", "-a", "d"), 0);
    CHECK_STR(asked.out, "depth\tfloat32[100]\n");
    CHECK_OK(sluice_writer_close(&writer));
    OFFERS("", "info", "");
}

TEST(offers_nothing_to_no_words)
{
    CHECK_EQ(sluice_run(&asked, "__complete"), 0);
    CHECK_STR(asked.out, "");
}

TEST(offers_names_of_killed_writers)
{
    static struct program player;
    player_start(&player, "camera", "--pattern", "--quiet", "--size", "64x64");
    CHECK_EQ(program_end(&player, SIGKILL), -SIGKILL);
    CHECK_EQ(sluice_run(&asked, "__complete", "play", "test", "ca"), 0);
    CHECK_STR(asked.out, "camera\tthe writer died\n");
}
