/* SPDX-License-Identifier: MIT
 *
 * Readers that take frames ahead, lose them, and do not ask.
 */
#include <stdio.h>
#include <string.h>

#include "gpu/channel.h"
#include "native/reader/reader.h"

#define SHARE 3 /* frames that a reader loses: as many as may wait at once */

/* A reader that gets no report: it takes frames ahead, each on a stream of its own, and makes no call afterwards. */
struct idle {
    sluice_reader *reader;
    struct sluice_stream streams[SHARE];
    struct sluice_frame frames[SHARE];
    bool lost; /* all of them; else one was reported before it had the next */
};

static void lose_all(struct channel_fixture *fixture, struct idle *idle)
{
    idle->lost = true;
    for (int i = 0; i < SHARE && idle->lost; i++) {
        CHECK_OK(sluice_stream_create(fixture->device, NULL, &idle->streams[i]));
        int r = sluice_reader_acquire(idle->reader, idle->streams[i], 20 * SLUICE_S, &idle->frames[i]);
        CHECK(r == 0 || (r == SLUICE_E_LOST && i > 0));
        if (r == 0)
            CHECK(idle->frames[i].flags & SLUICE_FRAME_AHEAD);
        idle->lost = r == 0;
    }
    for (int i = 0; i < SHARE && idle->lost; i++)
        CHECK_OK(sluice_stream_synchronize(idle->streams[i])); /* beyond its deadline */
    if (!idle->lost)
        CHECK_OK(sluice_reader_close(&idle->reader));
}

static uint32_t unreported_count(sluice_reader *handle)
{
    struct sluice_reader *base;

    CHECK_OK(sl_reader_hold(handle, &base));
    uint32_t count = sl_load(&sl_reader_of(base)->unreported, acquire);
    sl_object_drop(&base->object);
    return count;
}

/* The number of frames that a message names: by their sequences, plus "more". */
static uint32_t lost_count_in(const char *said)
{
    uint32_t more = 0, count = 1;

    if (sscanf(said, "%u frames:", &more) == 1)
        return more;
    CHECK(strncmp(said, "frame ", 6) == 0);
    for (said += 6; said[strspn(said, "0123456789")] == ','; count++)
        said += strspn(said, "0123456789") + 2;
    said += strspn(said, "0123456789");
    if (*said != ':')
        CHECK_EQ(sscanf(said, " and %u more:", &more), 1);
    return count + more;
}

/* Checks that it reports this number, once. */
static void check_reports(struct idle *idle, uint32_t count)
{
    struct sluice_frame frame;

    CHECK_EQ(unreported_count(idle->reader), count);
    CHECK_SAYS(sluice_reader_acquire(idle->reader, idle->streams[0], 0, &frame), SLUICE_E_LOST, "did not finish ");
    CHECK_EQ(lost_count_in(strstr(sluice_last_error(), "finish ") + strlen("finish ")), count);
    CHECK_EQ(unreported_count(idle->reader), 0);
    CHECK(sluice_reader_acquire(idle->reader, idle->streams[0], 0, &frame) != SLUICE_E_LOST);
}

/* More lost frames than can be recorded one by one, of readers that do not ask: each is reported, and what is made from
 * one is not published. */
TEST_TIMEOUT(all_of_many_lost_frames_are_reported, 60)
{
    enum { LOSERS = 7, READERS = 14 }; /* some losses are reported early, where the machine is suspended */
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_reader_params params = channel_reader_params(SHARE + 1);
    struct sluice_writer_params next = channel_writer_params();
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    static struct idle idle[READERS];
    struct sluice_frame frame;
    sluice_writer *second;
    int losers = 0;

    next.name = "next";
    next.format = &format;
    CHECK_OK(sluice_writer_open(&second, &next));
    params.ahead = 1;
    params.ahead_ns = (int64_t)(SLUICE_S / 4 * test_slowness());
    params.mode = SLUICE_IN_ORDER;
    params.depth = SHARE + 1;
    for (int i = 0; i < READERS; i++)
        CHECK_OK(sluice_reader_open(&idle[i].reader, &params));
    gpu_settle();
    channel_commit(fixture.writer, fixture.writing, 0, 0);
    for (int i = 0; i < READERS; i++) {
        CHECK_OK(sluice_reader_acquire(idle[i].reader, fixture.reading, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(idle[i].reader, &frame, fixture.reading));
    }
    CHECK_OK(sluice_stream_synchronize(fixture.reading));
    channel_commit_behind(&gate, fixture.writer, fixture.writing, 1);
    for (uint32_t i = 2; i <= SHARE; i++)
        channel_commit(fixture.writer, fixture.writing, 0, i); /* also behind the gate */
    for (int i = 0; i < READERS && losers < LOSERS; i++) {
        lose_all(&fixture, &idle[i]);
        losers += idle[i].lost;
    }
    CHECK_EQ(losers, LOSERS);
    for (int i = 0; i < READERS; i++)
        for (int j = 0; j < SHARE && idle[i].lost; j++) {
            CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &frame));
            CHECK_SAYS(sluice_writer_commit(second, &frame, idle[i].streams[j]), SLUICE_E_LOST, "not whole");
            CHECK_OK(sluice_writer_cancel(second, &frame, idle[i].streams[j]));
        }
    for (int i = 0; i < READERS; i++)
        if (idle[i].lost) { /* by release, which still knows the frame, for that one alone */
            int r = sluice_reader_release(idle[i].reader, &idle[i].frames[0], idle[i].streams[0]);
            CHECK(r == 0 || r == SLUICE_E_LOST);
            check_reports(&idle[i], r == 0 ? SHARE : SHARE - 1);
        }
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    for (int i = 0; i < READERS; i++)
        if (idle[i].reader)
            CHECK_OK(sluice_reader_close(&idle[i].reader));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_writer_close(&second));
    channel_end(&fixture);
}
