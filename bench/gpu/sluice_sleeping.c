/* SPDX-License-Identifier: MIT
 *
 * A reader sleeps in acquire, or in poll on its descriptor, while the writer's GPU still works on the
 * frame.
 */
#include <poll.h>

#include "channel.h"
#include "sleeping.h"

static struct sluice_frame frame;
static struct sluice_stream wrapped;

static void writer_open(void)
{
    channel_write(CHANNEL_SLOTS);
    wrapped = (struct sluice_stream){ 0 };
}

static void hand(struct cu_stream *of, uint32_t round)
{
    (void)round;
    if (!wrapped.id)
        wrapped = channel_wrap(of);
    check(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame), "begin");
    check(sluice_writer_commit(writer, &frame, wrapped), "commit");
}

static void reader_open(int index)
{
    (void)index;
    channel_read(1, false);
}

static void take(uint32_t round)
{
    int result = SLUICE_TIMEOUT;
    (void)round;
    while (job->sleeping == 2 && result == SLUICE_TIMEOUT) {
        struct pollfd descriptor = { .fd = sluice_reader_fd(reader), .events = POLLIN };
        poll(&descriptor, 1, 1000);
        result = sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame);
    }
    if (job->sleeping != 2)
        result = sluice_reader_acquire(reader, SLUICE_ON_CPU, CHANNEL_WAIT, &frame);
    check(result, "acquire");
    check(sluice_reader_release(reader, &frame, SLUICE_ON_CPU), "release");
}

void sluice_sleeping(int index)
{
    static const struct sleeper sluice = { writer_open, hand, channel_close, reader_open, take, channel_close };
    measure_sleeping(&sluice, index);
}
