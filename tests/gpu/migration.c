/* SPDX-License-Identifier: MIT
 *
 * A writer that restarts on another GPU: a reader's stream is checked against the session of its next frame.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "gpu/pair.h"
#include "gpu/peers.h"

struct moving {
    struct sluice_device devices[2];
    struct sluice_stream streams[2], writing[2];
    struct child first; /* the writer on "cuda:0" */
    sluice_writer *second;
    sluice_reader *reader;
};

/* Its first writer commits `frames` frames; each holds its sequence. */
static struct moving begin(uint32_t mode, uint32_t ahead, int frames)
{
    struct sluice_reader_params params = channel_reader_params(2);
    struct moving all = { .second = NULL };

    gpu_begin_with(2);
    for (int i = 0; i < 2; i++) {
        gpu_use(i);
        CHECK_OK(sluice_device_open(&all.devices[i], i ? "cuda:1" : "cuda:0"));
        CHECK_OK(sluice_stream_create(all.devices[i], NULL, &all.streams[i]));
        CHECK_OK(sluice_stream_create(all.devices[i], NULL, &all.writing[i]));
        gpu_spin(gpu_native(all.writing[i]), 0); /* loads the kernels */
        CHECK_OK(sluice_stream_synchronize(all.writing[i]));
    }
    params.mode = mode;
    params.ahead = ahead;
    all.first = peer_writer("");
    CHECK_OK(sluice_reader_open(&all.reader, &params));
    gpu_settle();
    for (int i = 0; i < frames; i++)
        PEER(&all.first, "commit 0", "committed");
    PEER(&all.first, "finish", "finished");
    return all;
}

static void end(struct moving *all)
{
    CHECK_OK(sluice_reader_close(&all->reader));
    CHECK_OK(sluice_writer_close(&all->second));
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_device_close(&all->devices[i]));
    gpu_end();
}

static struct sluice_frame take(struct moving *all, int gpu, uint32_t value)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_reader_acquire(all->reader, all->streams[gpu], 20 * SLUICE_S, &frame));
    gpu_use(gpu);
    channel_check(&frame, all->streams[gpu], value);
    return frame;
}

static void give_back(struct moving *all, int gpu, struct sluice_frame *frame)
{
    CHECK_OK(sluice_reader_release(all->reader, frame, all->streams[gpu]));
    CHECK_OK(sluice_stream_synchronize(all->streams[gpu])); /* until then it counts as held */
}

static void take_and_give_back(struct moving *all, int gpu, uint32_t value)
{
    struct sluice_frame frame = take(all, gpu, value);

    give_back(all, gpu, &frame);
}

static struct sluice_reader_stats stats_of(const struct moving *all)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_reader_stats(all->reader, &stats));
    return stats;
}

/* The reader knows it when this returns. */
static void kill_first(struct moving *all)
{
    child_kill(&all->first, SIGKILL);
    CHECK_SOON(!stats_of(all).connected, 10);
}

static void come_back(struct moving *all, const char *device, struct sluice_stream stream, uint32_t value)
{
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    int r;

    params.device = device;
    params.format = &format;
    CHECK_SOON((r = sluice_writer_open(&all->second, &params)) != SLUICE_E_EXISTS,
               10); /* the last one may still be ending */
    CHECK_OK(r);
    channel_commit(all->second, stream, 0, value);
}

static void come_back_on_the_second(struct moving *all, uint32_t value)
{
    gpu_use(1);
    come_back(all, "cuda:1", all->writing[1], value);
}

static void *come_back_later(void *shared)
{
    test_nap(SLUICE_S / 10);
    come_back_on_the_second(shared, 7);
    cu.CtxSetCurrent(NULL);
    return NULL;
}

TEST_TIMEOUT(a_stream_of_the_gpu_that_the_writer_came_back_on_is_right, 60)
{
    struct moving all = begin(SLUICE_NEWEST, 0, 1);

    take_and_give_back(&all, 0, 1);
    kill_first(&all);
    come_back_on_the_second(&all, 7);
    take_and_give_back(&all, 1, 7); /* the first call since */
    CHECK_EQ(stats_of(&all).sessions, 2);
    end(&all);
}

TEST_TIMEOUT(a_stream_of_another_gpu_waits_for_a_writer_there, 60)
{
    struct moving all = begin(SLUICE_NEWEST, 0, 1);
    struct sluice_frame frame;
    pthread_t thread;

    CHECK_SAYS(sluice_reader_acquire(all.reader, all.streams[1], 20 * SLUICE_S, &frame), SLUICE_E_WRONG_DEVICE,
               "cuda:1");
    take_and_give_back(&all, 0, 1);
    kill_first(&all);
    CHECK_RESULT(sluice_reader_acquire(all.reader, all.streams[1], 0, &frame), SLUICE_NO_WRITER);
    CHECK_RESULT(sluice_reader_acquire(all.reader, all.streams[1], SLUICE_MS, &frame), SLUICE_NO_WRITER);
    CHECK(pthread_create(&thread, NULL, come_back_later, &all) == 0);
    take_and_give_back(&all, 1, 7);
    CHECK(pthread_join(thread, NULL) == 0);
    end(&all);
}

/* It takes no frame either. */
TEST_TIMEOUT(a_stream_of_the_previous_gpu_is_refused_with_the_reason, 60)
{
    struct moving all = begin(SLUICE_IN_ORDER, 0, 1);
    struct sluice_frame frame;
    pthread_t thread;

    take_and_give_back(&all, 0, 1);
    kill_first(&all);
    CHECK(pthread_create(&thread, NULL, come_back_later, &all) == 0);
    CHECK_SAYS(sluice_reader_acquire(all.reader, all.streams[0], 20 * SLUICE_S, &frame), SLUICE_E_WRONG_DEVICE,
               "came back on another device");
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_SAYS(sluice_reader_acquire(all.reader, all.streams[0], 0, &frame), SLUICE_E_WRONG_DEVICE,
               "came back on another device");
    CHECK_EQ(stats_of(&all).held, 0);
    CHECK_EQ(pair_info().held, 0);
    frame = take(&all, 1, 7);
    CHECK_EQ(frame.sequence, 1);
    CHECK_EQ(frame.missed, 0);
    CHECK(frame.flags & SLUICE_FRAME_NEW_SESSION);
    give_back(&all, 1, &frame);
    end(&all);
}

TEST_TIMEOUT(frames_that_are_left_of_the_last_gpu_come_first, 60)
{
    struct moving all = begin(SLUICE_IN_ORDER, 0, 2);
    struct sluice_frame first = take(&all, 0, 1), second, frame;

    kill_first(&all);
    come_back_on_the_second(&all, 7);
    for (int i = 0; i < 2; i++)
        CHECK_SAYS(sluice_reader_acquire(all.reader, all.streams[1], i * 20 * SLUICE_S, &frame), SLUICE_E_WRONG_DEVICE,
                   "frame 2 is left");
    CHECK_EQ(stats_of(&all).held, 1);
    second = take(&all, 0, 2);
    give_back(&all, 0, &first);

    /* Only streams of the previous GPU can release its frames, also once there are frames of the next GPU. */
    frame = take(&all, 1, 7);
    CHECK_RESULT(sluice_reader_release(all.reader, &second, all.streams[1]), SLUICE_E_WRONG_DEVICE);
    CHECK_RESULT(sluice_reader_release(all.reader, &frame, all.streams[0]), SLUICE_E_WRONG_DEVICE);
    gpu_use(0);
    channel_check(&second, all.streams[0], 2);
    give_back(&all, 0, &second);
    give_back(&all, 1, &frame);
    CHECK_RESULT(sluice_reader_acquire(all.reader, all.streams[1], 0, &frame), SLUICE_TIMEOUT);
    CHECK_EQ(stats_of(&all).held, 0);
    CHECK_EQ(stats_of(&all).missed, 0);
    CHECK_EQ(channel_lost(all.reader), 0);
    end(&all);
}

/* They hold up no stream of the next GPU. */
static void pass_over_what_is_lost(uint32_t mode, uint32_t ahead)
{
    struct moving all = begin(mode, ahead, 1);

    take_and_give_back(&all, 0, 1);
    PEER(&all.first, "commit " PEER_ENDLESS, "committed 2");
    kill_first(&all);
    come_back_on_the_second(&all, 7);
    take_and_give_back(&all, 1, 7);
    CHECK_EQ(channel_lost(all.reader), 1);
    CHECK_SOON(pair_info().parked == 0, 10); /* a stream may have waited for 7, which is counted a moment longer */
    end(&all);
}

TEST_TIMEOUT(frames_that_the_last_gpu_never_finished_are_passed_over, 60)
{
    pass_over_what_is_lost(SLUICE_IN_ORDER, 0);
}

TEST_TIMEOUT(no_stream_waits_for_a_frame_of_the_last_gpu, 60)
{
    pass_over_what_is_lost(SLUICE_NEWEST, 1);
}

TEST_TIMEOUT(a_stream_of_the_next_gpu_waits_for_its_frames, 60)
{
    struct moving all = begin(SLUICE_NEWEST, 1, 1);
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_frame frame;

    take_and_give_back(&all, 0, 1);
    kill_first(&all);
    come_back_on_the_second(&all, 7);
    take_and_give_back(&all, 1, 7); /* from here on the writer knows of it */
    gpu_settle();
    for (uint32_t i = 8; i <= 9; i++) {
        channel_commit_behind(&gate, all.second, all.writing[1], i);
        CHECK_SAYS(sluice_reader_acquire(all.reader, all.streams[0], SLUICE_S, &frame), SLUICE_E_WRONG_DEVICE,
                   "came back");
        CHECK_OK(sluice_reader_acquire(all.reader, all.streams[1], 20 * SLUICE_S, &frame));
        CHECK(frame.flags & SLUICE_FRAME_AHEAD);
        gpu_gate_open_later(&gate);
        channel_check(&frame, all.streams[1], i);
        gpu_gate_join(&gate);
        give_back(&all, 1, &frame);
    }
    gpu_gate_end(&gate);
    end(&all);
}

/* The next frame, also after the end of a writer, which is reported until there is another one. */
static struct sluice_frame follow(sluice_reader *reader, struct sluice_stream stream)
{
    struct sluice_frame frame;
    int r;

    CHECK_SOON((r = sluice_reader_acquire(reader, stream, SLUICE_S, &frame)) != SLUICE_CLOSED, 20);
    CHECK_OK(r);
    return frame;
}

TEST_TIMEOUT(a_writer_goes_from_host_memory_to_a_gpu_and_back, 60)
{
    struct sluice_reader_params params = channel_reader_params(1);
    struct moving all = { .second = NULL };
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    struct sluice_writer_params writing = channel_writer_params();
    struct sluice_frame frame;
    struct sluice_device device;
    struct sluice_stream stream;

    gpu_begin();
    gpu_use(0);
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    writing.device = "host";
    writing.format = &format;
    for (int turn = 0; turn < 2; turn++) {
        int r;
        CHECK_OK(sluice_writer_open(&all.second, &writing));
        CHECK_OK(sluice_writer_begin(all.second, 0, &frame));
        CHECK_OK(sluice_writer_commit(all.second, &frame, SLUICE_ON_CPU));
        if (turn == 0)
            CHECK_OK(sluice_reader_open(&all.reader, &params));
        CHECK_SOON((r = sluice_reader_acquire(all.reader, stream, SLUICE_S, &frame)) != SLUICE_CLOSED, 20);
        CHECK_SAYS(r, SLUICE_E_WRONG_DEVICE, turn == 0 ? "\"cuda:0\"" : "came back on another device");
        frame = follow(all.reader, SLUICE_ON_CPU);
        CHECK_OK(sluice_reader_release(all.reader, &frame, SLUICE_ON_CPU));
        CHECK_OK(sluice_writer_close(&all.second));
        CHECK_RESULT(sluice_reader_acquire(all.reader, stream, 0, &frame), SLUICE_CLOSED);

        come_back(&all, "cuda:0", stream, 7);
        frame = follow(all.reader, stream);
        channel_check(&frame, stream, 7);
        CHECK_OK(sluice_reader_release(all.reader, &frame, stream));
        CHECK_OK(sluice_writer_close(&all.second));
    }
    CHECK_OK(sluice_reader_close(&all.reader));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}

/* It stays on its GPU, wherever its writer is. */
static void stay(uint32_t staged)
{
    struct pair pair = pair_open(1, staged, 0);
    struct moving all = { .reader = pair.reader };
    struct sluice_frame frame;

    pair_commit(&pair, 0, 1);
    pair_take(&pair, &frame);
    pair_give_back(&pair, &frame);
    CHECK_OK(sluice_writer_close(&pair.fixture.writer));
    CHECK_OK(sluice_stream_synchronize(pair.stream));
    gpu_use(1);
    come_back(&all, "cuda:1", pair.stream, 7);
    frame = follow(pair.reader, pair.stream);
    pair_check(&pair, &frame, 7);
    pair_give_back(&pair, &frame);
    CHECK_SAYS(sluice_reader_acquire(pair.reader, pair.fixture.reading, SLUICE_S, &frame), SLUICE_E_WRONG_DEVICE,
               "the stream is one of \"cuda:0\"");
    CHECK(!strstr(sluice_last_error(), "came back"));
    CHECK_OK(sluice_writer_close(&all.second));
    pair_close(&pair);
}

TEST_TIMEOUT(a_reader_that_maps_another_gpus_frames_has_its_own_stream_for_any, 60)
{
    stay(SLUICE_STAGED_NEVER);
}

TEST_TIMEOUT(a_reader_that_copies_has_its_own_stream_for_any, 60)
{
    stay(SLUICE_STAGED_ALWAYS);
}
