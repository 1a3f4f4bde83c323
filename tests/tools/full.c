/* SPDX-License-Identifier: MIT
 *
 * sluice record on a disk that becomes full: the file can be played up to its last whole frame.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tools/kit.h"
#include "tools/media/recording.h"

TEST_TIMEOUT(recording_until_the_disk_is_full, 60)
{
    static struct program player, recorder;
    struct recording_summary summary;
    char text[64];

    CHECK_EQ(mkdir(in_dir("disk"), 0700), 0);
    test_small_disk(in_dir("disk"), "size=300k");
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--fps", "200");
    CHECK_EQ(sluice_run(&recorder, "record", "camera", in_dir("disk/a.slr")), 1);
    CHECK_HAS(recorder.err, ": No space left on device. It has the ");
    CHECK_EQ(program_end(&player, SIGTERM), 0);

    FILE *file = fopen(in_dir("disk/a.slr"), "rb");
    CHECK(file != NULL);
    CHECK_EQ(recording_read(file, &summary), RECORDING_CUT);
    fclose(file);
    CHECK_GE(summary.frames, 10);
    snprintf(text, sizeof text, "It has the %llu frames", (unsigned long long)summary.frames);
    CHECK_HAS(recorder.err, text);
    snprintf(text, sizeof text, "played %llu frames", (unsigned long long)summary.frames);
    CHECK_EQ(sluice_run(&player, "play", in_dir("disk/a.slr"), "camera", "--fps", "max"), 0);
    CHECK_HAS(player.out, text);
}
