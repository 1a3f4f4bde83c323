/* SPDX-License-Identifier: MIT
 *
 * Writers whose GPU has no memory left for a moment, or is slow to hand it out.
 */
#include <signal.h>

#include <sluice/sluice.h>

#include "fake/fake.h"
#include "harness/test.h"

static int open_on(const char *device, sluice_writer **writer)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;

    test_dir();
    CHECK_OK(sluice_format_add_tensor(&format, "data", (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 1, &(int64_t){ 64 }));
    params.name = "cam";
    params.device = device;
    params.format = &format;
    return sluice_writer_open(writer, &params);
}

ROLE(writes_on_the_host)
{
    sluice_writer *writer;

    CHECK_OK(open_on("host", &writer));
    role_say("open");
    role_line();
    CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

/* Leaves the name as a killed writer does, or as one that closed. */
static void write_before(bool killed)
{
    struct child child = role_start("writes_on_the_host", NULL);

    child_expect(&child, "open", 10);
    if (killed)
        child_kill(&child, SIGKILL);
    else
        role_stop(&child);
}

TEST(an_heir_waits_for_memory)
{
    sluice_writer *writer;

    fake_use();
    write_before(true);
    fake_fail(FAKE_MemCreate, 1, SL_CU_OUT_OF_MEMORY);
    CHECK_OK(open_on("cuda:0", &writer));
    CHECK(fake_failed());
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(nobody_else_waits_for_memory)
{
    sluice_writer *writer;

    fake_use();
    write_before(false);
    fake_fail(FAKE_MemCreate, 1, SL_CU_OUT_OF_MEMORY);
    CHECK_RESULT(open_on("cuda:0", &writer), SLUICE_E_NO_MEMORY); /* a second look would find some */
    CHECK(fake_failed());
}

ROLE(opens_on_a_busy_gpu)
{
    struct sluice_device device;
    sluice_writer *writer;

    fake_use();
    CHECK_OK(sluice_device_open(&device, "cuda:0")); /* the rest of the program, whose work that is */
    fake_machine.delay = 40 * SLUICE_S;
    int64_t began = test_now();
    CHECK_SAYS(open_on("cuda:0", &writer), SLUICE_TIMEOUT, "does not end");
    CHECK_LE(test_now() - began, 35 * SLUICE_S);
    fake_machine.delay = 0;
    CHECK_OK(sluice_device_close(&device));
    return 0;
}

/* Something that does not end holds up the stream that clears the slots. What cannot be unmapped stays, so
 * that is a process of its own. */
TEST(slots_that_are_never_cleared_hold_up_nobody_for_ever)
{
    struct child child = role_start("opens_on_a_busy_gpu", NULL);

    CHECK_EQ(child_wait(&child, 60), 0);
}
