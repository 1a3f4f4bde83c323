/* SPDX-License-Identifier: MIT
 *
 * Readers that take frames ahead, lose them, and do not ask.
 */
#include <stdio.h>
#include <string.h>

#include "native/reader/reader.h"
#include "gpu/channel.h"

#define SHARE 3 /* frames that a reader loses: so many wait at once */

/* A reader that is told of nothing: it takes frames ahead, each on a stream of its own, and never
 * asks again. */
struct idle {
    sluice_reader *reader;
    struct sluice_stream streams[SHARE];
    struct sluice_frame frames[SHARE];
    bool lost; /* all of them; else it was told of one before it had the next */
};

static void lose_all(struct scene *scene, struct idle *idle)
{
    idle->lost = true;
    for (int i = 0; i < SHARE && idle->lost; i++) {
        CHECK_OK(sluice_stream_create(scene->device, NULL, &idle->streams[i]));
        int r =
            sluice_reader_acquire(idle->reader, idle->streams[i], 20 * SLUICE_S, &idle->frames[i]);
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

static uint32_t untold(sluice_reader *handle)
{
    struct sluice_reader *base;

    CHECK_OK(sl_reader_hold(handle, &base));
    uint32_t count = sl_load(&sl_reader_of(base)->unreported, acquire);
    sl_object_drop(&base->object);
    return count;
}

/* How many frames a sentence speaks of: by their numbers, and more. */
static uint32_t spoken_of(const char *said)
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

/* Is it told of so many, once? */
static void check_tells(struct idle *idle, uint32_t count)
{
    struct sluice_frame frame;

    CHECK_EQ(untold(idle->reader), count);
    CHECK_SAYS(sluice_reader_acquire(idle->reader, idle->streams[0], 0, &frame), SLUICE_E_LOST,
               "did not finish ");
    CHECK_EQ(spoken_of(strstr(sluice_last_error(), "finish ") + strlen("finish ")), count);
    CHECK_EQ(untold(idle->reader), 0);
    CHECK(sluice_reader_acquire(idle->reader, idle->streams[0], 0, &frame) != SLUICE_E_LOST);
}

/* More lost frames than can be noted one by one, and none of their readers asks: each is told, and
 * what is made of one is not published. */
TEST_TIMEOUT(of_many_lost_frames_all_are_told, 60)
{
    enum { LOSERS = 7, READERS = 14 }; /* some are told too early, where the machine stands still */
    struct scene scene = channel_scene();
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
    channel_commit(scene.writer, scene.writing, 0, 0);
    for (int i = 0; i < READERS; i++) {
        CHECK_OK(sluice_reader_acquire(idle[i].reader, scene.reading, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(idle[i].reader, &frame, scene.reading));
    }
    CHECK_OK(sluice_stream_synchronize(scene.reading));
    channel_commit_behind(&gate, scene.writer, scene.writing, 1);
    for (uint32_t i = 2; i <= SHARE; i++)
        channel_commit(scene.writer, scene.writing, 0, i); /* behind the gate too */
    for (int i = 0; i < READERS && losers < LOSERS; i++) {
        lose_all(&scene, &idle[i]);
        losers += idle[i].lost;
    }
    CHECK_EQ(losers, LOSERS);
    for (int i = 0; i < READERS; i++)
        for (int j = 0; j < SHARE && idle[i].lost; j++) {
            CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &frame));
            CHECK_SAYS(sluice_writer_commit(second, &frame, idle[i].streams[j]), SLUICE_E_LOST,
                       "not whole");
            CHECK_OK(sluice_writer_cancel(second, &frame, idle[i].streams[j]));
        }
    for (int i = 0; i < READERS; i++)
        if (idle[i]
                .lost) { /* by release, where it still knows which one it was, of that one alone */
            int r = sluice_reader_release(idle[i].reader, &idle[i].frames[0], idle[i].streams[0]);
            CHECK(r == 0 || r == SLUICE_E_LOST);
            check_tells(&idle[i], r == 0 ? SHARE : SHARE - 1);
        }
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(scene.writing));
    for (int i = 0; i < READERS; i++)
        if (idle[i].reader)
            CHECK_OK(sluice_reader_close(&idle[i].reader));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_writer_close(&second));
    channel_end(&scene);
}
