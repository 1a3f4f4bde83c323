/* SPDX-License-Identifier: MIT
 *
 * A sleeping reader learns how long the GPU works on a frame after its commit, in acquire and for its descriptor.
 */

#include "gpu/channel.h"
#include "native/reader/reader.h"

#define ROUNDS 50 /* one is enough, unless this thread is suspended in each */

static int64_t learnt(sluice_reader *handle)
{
    struct sluice_reader *base;

    CHECK_OK(sl_reader_hold(handle, &base));
    int64_t after =
        sl_reader_of(base)->session ? (int64_t)sl_load(&sl_reader_of(base)->session->estimate.duration_ns, relaxed) : 0;
    sl_object_drop(&base->object);
    return after;
}

static int wait_in_acquire(sluice_reader *reader, struct sluice_frame *frame)
{
    return sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, frame);
}

static int wait_in_poll(sluice_reader *reader, struct sluice_frame *frame)
{
    int fd = sluice_reader_fd(reader), r;

    CHECK(fd >= 0);
    while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, frame)) == SLUICE_TIMEOUT)
        CHECK(channel_readable(fd, 20000));
    return r;
}

/* The estimate counts from commit, and is never longer than the longest time that was seen. */
static void learn(int (*wait)(sluice_reader *reader, struct sluice_frame *frame))
{
    struct channel_fixture fixture = channel_fixture();
    struct sluice_reader_params params = channel_reader_params(1);
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_frame frame;
    sluice_reader *reader;
    int64_t longest = 0;

    params.spin_ns = -1;
    CHECK_OK(sluice_reader_open(&reader, &params));
    for (uint32_t i = 1; i <= ROUNDS && learnt(reader) == 0; i++) {
        channel_commit_behind(&gate, fixture.writer, fixture.writing, i);
        gpu_gate_open_later(&gate);
        CHECK_OK(wait(reader, &frame));
        int64_t took = sl_os_now() - frame.commit_ns;
        longest = took > longest ? took : longest;
        channel_check(&frame, fixture.reading, i);
        gpu_gate_join(&gate);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_GE(learnt(reader), 1);
    CHECK_LE(learnt(reader), longest);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

TEST(a_sleeping_acquire_learns_when_frames_are_ready)
{
    learn(wait_in_acquire);
}

TEST(a_sleeping_poll_learns_when_frames_are_ready)
{
    learn(wait_in_poll);
}
