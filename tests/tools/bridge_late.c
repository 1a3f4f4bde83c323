/* SPDX-License-Identifier: MIT
 *
 * The command: bridge while its GPU is stopped for longer than the time-out of copies.
 */
#include "kit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#define STILL "12000000" /* us for each operation of the bridge */

static struct program bridge;

static sluice_writer *open_from(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer;
    use_fake_gpu();
    test_dir();
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_RGBA, 64, 48));
    params.name = "from";
    params.device = "cuda:0";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

/* Sends one frame. */
static void start_still(sluice_writer *writer, const char *device)
{
    struct sluice_frame frame;
    setenv("SLUICE_FAKE_DELAY", STILL, 1);
    sluice_start(&bridge, "bridge", "from", "to", "--device", device);
    unsetenv("SLUICE_FAKE_DELAY");
    CHECK_SOON(has_taken("from", 0), 20);
    CHECK_OK(sluice_writer_begin(writer, SLUICE_S, &frame));
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
}

/* A copy to host memory times out, and the frame is lost. */
TEST_TIMEOUT(bridge_goes_on_behind_a_copy_that_came_to_no_end, 120)
{
    sluice_writer *writer = open_from();
    start_still(writer, "host");
    CHECK_SOON(strstr(program_so_far(&bridge, "err"), " Forwarding continues."), 60);
    CHECK_HAS(program_so_far(&bridge, "err"), "did not reach the copy within 10 s");
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    CHECK_HAS(bridge.out, "bridged 0 frames");
    CHECK_HAS(bridge.out, ", lost 1");
}

/* A copy to a GPU is already TO's frame: the bridge waits for it. */
TEST_TIMEOUT(bridge_waits_for_a_copy_that_readers_wait_for, 120)
{
    sluice_writer *writer = open_from();
    start_still(writer, "cuda:0");
    CHECK_SOON(strstr(program_so_far(&bridge, "err"), "has been copying a frame for 10 s"), 60);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    CHECK_HAS(bridge.out, "bridged 0 frames");
}
