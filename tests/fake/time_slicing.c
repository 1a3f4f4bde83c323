/* SPDX-License-Identifier: MIT
 *
 * Processes that share the fake driver's GPUs by time slices: SLUICE_FAKE_SLICES.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake/fake.h"
#include "gpu/kit.h"
#include "harness/test.h"

static struct sl_cu_stream *begin(void)
{
    struct sl_cu_stream *stream;

    fake_use();
    gpu_begin();
    gpu_use(0);
    CU(StreamCreateWithPriority, &stream, SL_CU_STREAM_NON_BLOCKING, 0);
    return stream;
}

static void work(struct sl_cu_stream *stream)
{
    CU(MemsetD8Async, gpu_memory(64), 1, 64, stream);
}

/* Its GPU works for longer than any test takes, and it has the time slice. */
ROLE(fake_spinner)
{
    (void)argc;
    (void)argv;
    struct sl_cu_stream *spinning = begin(), *other;
    CU(StreamCreateWithPriority, &other, SL_CU_STREAM_NON_BLOCKING, 0);
    gpu_spin(spinning, 1000 * SLUICE_S);
    work(other);
    CU(StreamSynchronize, other);
    role_say("spins");
    (void)role_line();
    return 0;
}

static struct child start_spinner(const char *us)
{
    char slices[4096 + 32];

    snprintf(slices, sizeof slices, "%s:%s/turns", us, test_dir());
    CHECK(setenv("SLUICE_FAKE_SLICES", slices, 1) == 0);
    fake_use();
    struct child spinner = role_start("fake_spinner", NULL);
    child_expect(&spinner, "spins", 20);
    return spinner;
}

TEST(an_endless_process_yields_time_slices)
{
    struct child spinner = start_spinner("2000");
    struct sl_cu_stream *stream = begin();

    for (int i = 0; i < 5; i++) {
        work(stream);
        CU(StreamSynchronize, stream);
    }
    child_kill(&spinner, SIGKILL);
    gpu_end();
}

TEST(a_time_slice_ends_with_its_process)
{
    struct child spinner = start_spinner("1000000000");
    struct sl_cu_stream *stream = begin();

    work(stream);
    test_nap(20 * SLUICE_MS);
    CHECK_EQ(cu.StreamQuery(stream), SL_CU_NOT_READY);
    child_kill(&spinner, SIGKILL);
    CU(StreamSynchronize, stream);
    gpu_end();
}

TEST(an_idle_process_yields_at_once)
{
    struct child spinner = start_spinner("1000000000");
    struct sl_cu_stream *stream = begin();

    child_kill(&spinner, SIGKILL);
    work(stream);
    CU(StreamSynchronize, stream);
    spinner = start_spinner("1000000000"); /* it has got the time slice, which was ours */
    child_kill(&spinner, SIGKILL);
    gpu_end();
}
