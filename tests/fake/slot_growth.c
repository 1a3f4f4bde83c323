/* SPDX-License-Identifier: MIT
 *
 * Writers that add a slot while the GPU does not get to clear its memory: begin goes on without it.
 */
#include <sluice/sluice.h>

#include "fake/fake.h"
#include "gpu/kit.h"
#include "harness/test.h"
#include "os/os.h"
#include "util/atomic.h"

#define SLOTS 3

static sl_word32 held, goes_on; /* the memory is being cleared; it may go on */

static void hold_up(void *nothing)
{
    int64_t began = test_now();

    (void)nothing;
    sl_store(&held, 1, release);
    while (!sl_load(&goes_on, acquire) && test_now() - began < 15 * SLUICE_S)
        test_nap(SLUICE_MS);
    sl_store(&held, 0, release);
}

static struct sluice_format format_of(int64_t bytes)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    CHECK_OK(sluice_format_add_tensor(&format, "data", (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 1, &bytes));
    return format;
}

/* A writer that has begun all of its frames, and may add one slot. */
static sluice_writer *writer_without_slots(struct sluice_frame frames[SLOTS])
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = format_of(64);
    sluice_writer *writer;

    fake_use();
    test_dir();
    params.name = "cam";
    params.device = "cuda:0";
    params.format = &format;
    params.slots = SLOTS;
    params.max_slots = SLOTS + 1;
    CHECK_OK(sluice_writer_open(&writer, &params));
    for (int i = 0; i < SLOTS; i++)
        CHECK_OK(sluice_writer_begin(writer, 0, &frames[i]));
    fake_behind(FAKE_MemsetD8Async, hold_up, NULL);
    return writer;
}

static uint32_t slots_of(sluice_writer *writer)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_writer_stats(writer, &stats));
    return stats.slots;
}

static void end(sluice_writer **writer)
{
    CHECK_OK(sluice_writer_close(writer));
    gpu_settle();
    CHECK_EQ(fake_things().mappings, 0);
    CHECK_EQ(fake_things().reservations, 0);
    CHECK_STR(fake_broken_rule() ? fake_broken_rule() : "", "");
}

TEST(begin_keeps_to_its_time_out_while_a_slot_is_cleared)
{
    struct sluice_frame frames[SLOTS], more;
    sluice_writer *writer = writer_without_slots(frames);

    CHECK_RESULT(sluice_writer_begin(writer, 50 * SLUICE_MS, &more), SLUICE_NO_SLOT);
    CHECK_RESULT(sluice_writer_begin(writer, 0, &more), SLUICE_NO_SLOT);
    CHECK_RESULT(sluice_writer_wait(writer, SLUICE_MS), SLUICE_NO_SLOT);
    CHECK_OK(sluice_writer_cancel(writer, &frames[0], SLUICE_ON_CPU)); /* the other slots are used meanwhile */
    CHECK_OK(sluice_writer_begin(writer, SLUICE_FOREVER, &frames[0]));
    CHECK_OK(sluice_writer_commit(writer, &frames[0], SLUICE_ON_CPU));
    CHECK_SOON(sl_load(&held, acquire) == 1, 10);
    CHECK_EQ(slots_of(writer), SLOTS);

    sl_store(&goes_on, 1, release);
    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &more));
    CHECK_EQ(slots_of(writer), SLOTS + 1);
    CHECK_OK(sluice_writer_commit(writer, &more, SLUICE_ON_CPU));
    end(&writer);
}

/* Later calls find what an earlier one has begun. */
TEST(a_slot_that_comes_late_is_added_by_the_next_begin)
{
    struct sluice_frame frames[SLOTS], more;
    sluice_writer *writer = writer_without_slots(frames);
    int r;

    CHECK_RESULT(sluice_writer_begin(writer, 1, &more), SLUICE_NO_SLOT);
    sl_store(&goes_on, 1, release);
    CHECK_SOON((r = sluice_writer_begin(writer, 0, &more)) == 0 || r != SLUICE_NO_SLOT, 20);
    CHECK_OK(r);
    CHECK_EQ(slots_of(writer), SLOTS + 1);
    end(&writer);
}

TEST(a_slot_that_comes_too_late_for_its_format_is_given_back)
{
    struct sluice_format format = format_of(100000);
    struct sluice_frame frames[SLOTS], more;
    sluice_writer *writer = writer_without_slots(frames);

    CHECK_RESULT(sluice_writer_begin(writer, 1, &more), SLUICE_NO_SLOT);
    for (int i = 0; i < SLOTS; i++)
        CHECK_OK(sluice_writer_cancel(writer, &frames[i], SLUICE_ON_CPU));
    CHECK_SOON(sl_load(&held, acquire) == 1, 10);
    CHECK_OK(sluice_writer_reformat(writer, &format));
    sl_store(&goes_on, 1, release);
    for (int i = 0; i < SLOTS; i++)
        CHECK_OK(sluice_writer_begin(writer, 0, &frames[i]));
    CHECK_EQ(slots_of(writer), SLOTS);
    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &more)); /* one of this format */
    CHECK_EQ(slots_of(writer), SLOTS + 1);
    end(&writer);
}

TEST(a_slot_that_comes_after_its_writer_is_given_back)
{
    struct sluice_frame frames[SLOTS], more;
    sluice_writer *writer = writer_without_slots(frames);

    CHECK_RESULT(sluice_writer_begin(writer, 1, &more), SLUICE_NO_SLOT);
    CHECK_SOON(sl_load(&held, acquire) == 1, 10);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_EQ(sl_load(&held, acquire), 1);
    sl_store(&goes_on, 1, release);
    end(&writer);
}
