/* SPDX-License-Identifier: MIT
 *
 * The command: ls, info, doctor and view, on live, stopped and dead channels.
 */
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <sluice/sluice.h>

TEST(ls_of_an_empty_folder)
{
    static struct program p;
    CHECK_EQ(sluice_run(&p, "ls"), 0);
    CHECK_HAS(p.out, "no channels in");
    CHECK_EQ(sluice_run(&p, "ls", "--json"), 0);
    check_json(p.out, "d['channels'] == [] and d['folder']");
}

TEST(ls_and_info_of_a_live_channel)
{
    static struct program p, player, other;
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--format", "nv12");
    player_start(&other, "depth", "--pattern", "--size", "32x32", "--format", "grayf32le");
    CHECK_EQ(sluice_run(&p, "ls"), 0);
    CHECK_HAS(p.out, "camera");
    CHECK_HAS(p.out, "live");
    CHECK_HAS(p.out, "64x48 nv12");
    CHECK_HAS(p.out, "32x32 grayf32le");
    CHECK(strchr(p.out, '\033') == NULL); /* no colours into a file */
    CHECK_EQ(sluice_run(&p, "ls", "--rate"), 0);
    CHECK_HAS(p.out, "FPS");
    CHECK_SOON((CHECK_EQ(sluice_run(&p, "ls", "--json", "--rate"), 0),
                json_says(p.out, "[c['name'] for c in d['channels']] == ['camera', 'depth'] and "
                                 "all(c['state'] == 'live' and 5 < c['fps'] < 60 for c in d['channels'])")),
               20);
    CHECK_EQ(sluice_run(&p, "info", "camera", "--json"), 0);
    check_json(p.out, "d['name'] == 'camera' and d['frames'] > 0 and d['readers'] == [] and "
                      "d['format']['arrays'][0]['image']['pixel_format'] == 'nv12' and "
                      "d['format']['arrays'][0]['image']['planes'][1] == {'offset': 3072, 'pitch': 64}");
    CHECK_EQ(sluice_run(&p, "info", "camera"), 0);
    CHECK_HAS(p.out, "64x48 nv12");
    CHECK_EQ(program_end(&other, SIGTERM), 0);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(info_of_readers)
{
    static struct program p, player;
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_frame frame;
    sluice_reader *reader;
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    params.name = "camera";
    params.mode = SLUICE_IN_ORDER;
    params.open_timeout_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_EQ(sluice_run(&p, "info", "camera"), 0);
    CHECK_HAS(p.out, "in order");
    CHECK_HAS(p.out, "1 for ");
    CHECK_HAS(p.out, "nothing is copied");
    CHECK_EQ(sluice_run(&p, "info", "camera", "--json"), 0);
    check_json(p.out, "len(d['readers']) == 1 and d['readers'][0]['mode'] == 'in_order' and "
                      "len(d['readers'][0]['held_slots']) == 1 and d['readers'][0]['held_ns'] > 0 and "
                      "d['readers'][0]['copy_reason'] == ''");
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    sluice_reader_close(&reader);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(stopped_and_dead_writers)
{
    static struct program p, player;
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    int status;
    kill(player.pid, SIGSTOP);
    CHECK_EQ(waitpid(player.pid, &status, WUNTRACED), player.pid);
    CHECK(WIFSTOPPED(status));
    CHECK_EQ(sluice_run(&p, "ls"), 0);
    CHECK_HAS(p.out, "stuck");
    CHECK_EQ(sluice_run(&p, "info", "camera", "--timeout", "0.2"), 4);
    CHECK_EQ(program_end(&player, SIGKILL), -SIGKILL);
    CHECK_EQ(sluice_run(&p, "ls"), 0);
    CHECK(strstr(p.out, "camera") == NULL);
    CHECK_HAS(p.out, "--all");
    CHECK_EQ(sluice_run(&p, "ls", "--all"), 0);
    CHECK_HAS(p.out, "dead");
    CHECK_EQ(sluice_run(&p, "ls", "--all", "--json"), 0);
    check_json(p.out, "d['channels'][0]['state'] == 'dead'");
    CHECK_EQ(sluice_run(&p, "snap", "camera", in_dir("x.png")), 3);
    /* The name may be reused, without any cleaning up. */
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    CHECK_EQ(sluice_run(&p, "snap", "camera", in_dir("x.png")), 0);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

static struct program slow;

/* True if a command prints this about a channel whose writer answers only after more than a second. On a busy machine
 * the command itself may be delayed: then it is run again. */
static bool says_late(const char *words, const char *const command[])
{
    static struct program p;
    for (int tries = 0; tries < 4; tries++) {
        pid_t thread = hold_service_thread(&slow);
        start_program(&p, command);
        test_nap(1300 * SLUICE_MS);
        let_go(thread);
        program_end(&p, 0);
        if (strstr(p.out, words))
            return true;
    }
    return false;
}
#define SAYS_LATE(words, ...) says_late((words), (const char *const[]){ __VA_ARGS__, NULL })

/* A slow writer is not a stopped one: its machine may be busy. */
TEST_TIMEOUT(slow_writers_are_waited_for, 60)
{
    player_start(&slow, "camera", "--pattern", "--size", "64x48");
    CHECK(SAYS_LATE("live", "ls"));
    CHECK(SAYS_LATE("live", "top", "--once", "--interval", "0.1", NATIVE));
    CHECK(SAYS_LATE("64x48 rgba", "__complete", "info", "cam"));
    CHECK(SAYS_LATE("image", "__complete", "snap", "camera", "--array", ""));
    CHECK(SAYS_LATE("64x48 rgba", "info", "camera"));
    CHECK(SAYS_LATE("PNG", "snap", "camera", "-"));
    CHECK_EQ(program_end(&slow, SIGTERM), 0);
}

TEST(ls_watches)
{
    static struct program p, player;
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    sluice_start(&p, "ls", "--watch", "--json");
    CHECK_SOON(strstr(program_so_far(&p, "out"), "\n{"), 20);
    CHECK_EQ(program_end(&p, SIGINT), 0);
    char *second = strchr(p.out, '\n');
    CHECK(second && second[1] == '{'); /* two documents, one per line */
    *second = 0;
    check_json(p.out, "d['channels'][0]['name'] == 'camera'");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(second_writer_of_a_name)
{
    static struct program p, player;
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    CHECK_EQ(sluice_run(&p, "play", "test", "camera", "--pattern"), 1);
    CHECK_HAS(p.err, "camera");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(doctor_finds_this_machine_fit)
{
    static struct program p;
    CHECK_EQ(sluice_run(&p, "doctor"), 0);
    CHECK_HAS(p.out, "none torn");
    CHECK_EQ(sluice_run(&p, "doctor", "--json"), 0);
    check_json(p.out, "d['host_channels_work'] and {f['state'] for f in d['findings']} <= {'ok', 'note'}");
}

TEST(doctor_finds_a_bad_folder)
{
    static struct program p;
    FILE *file = fopen(in_dir("file"), "wb");
    fclose(file);
    setenv("SLUICE_DIR", in_dir("file"), 1);
    CHECK_EQ(sluice_run(&p, "doctor"), 1);
    CHECK_HAS(p.out, "is not a folder");
    CHECK_HAS(p.out, "fix: ");
}

TEST(view_in_the_terminal)
{
    static struct program p, player;
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    CHECK_EQ(sluice_run(&p, "view", "camera", "--ascii", "--frames", "2"), 0);
    CHECK_HAS(p.out, "\033[38;2;255;255;255m\033[48;2;255;255;255m\u2580"); /* the white bar */
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}
