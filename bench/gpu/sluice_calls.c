/* SPDX-License-Identifier: MIT
 *
 * The CPU time of the calls that each frame needs.
 */
#include "channel.h"

#define MAX_GROUP 32

static struct sluice_frame frames[MAX_GROUP];

/* ---- begin and commit; the readers are there and do nothing ---- */

static void commit(uint32_t round)
{
    (void)round;
    check(sluice_writer_commit(writer, &frames[0], stream), "commit");
}

static void begin(uint32_t round)
{
    (void)round;
    spin_for(INT64_C(5000));
    CU(StreamSynchronize, native);
    int64_t start = clock_ns();
    check(sluice_writer_begin(writer, SLUICE_DEFAULT, &frames[0]), "begin");
    sample("begin", clock_ns() - start);
}

void sluice_commit(int index)
{
    if (index == 0)
        channel_write(CHANNEL_SLOTS);
    else
        channel_read(1, job->ahead);
    meet();
    if (index == 0) {
        check(sluice_writer_begin(writer, SLUICE_DEFAULT, &frames[0]), "begin");
        measure_calls("call", commit, begin);
        check(sluice_writer_cancel(writer, &frames[0], stream), "cancel");
    }
    meet();
    channel_close();
}

/* ---- acquire and release of job->group frames. The commits are timed, too, and of several readers only the first ----
 */

static struct sluice_stream where(void)
{
    return job->until == UNTIL_GPU ? stream : SLUICE_ON_CPU;
}

static void acquire(int i)
{
    check(sluice_reader_acquire(reader, where(), CHANNEL_WAIT, &frames[i]), "acquire");
}

static void release(int i)
{
    check(sluice_reader_release(reader, &frames[i], where()), "release");
}

/* Every other turn acquires all frames before it releases them, to time the two calls separately. */
static void take_separately(int count, bool timed)
{
    int64_t start = clock_ns();
    for (int i = 0; i < count; i++)
        acquire(i);
    int64_t middle = clock_ns();
    for (int i = 0; i < count; i++)
        release(i);
    int64_t end = clock_ns();
    if (timed) {
        sample("acquire", (middle - start) / count);
        sample("release", (end - middle) / count);
    }
}

static void take_together(int count, bool timed)
{
    int64_t start = clock_ns();
    for (int i = 0; i < count; i++) {
        acquire(i);
        release(i);
    }
    int64_t end = clock_ns();
    if (timed)
        sample("both", (end - start) / count);
}

static void take_group(uint32_t turn, int index)
{
    (turn % 2 ? take_separately : take_together)((int)job->group, index == 1 && turn > WARM_UP);
}

static void put_group(uint32_t turn)
{
    int64_t commits = 0;
    if (job->gated)
        CU(StreamWaitValue64, native, word_address(WORD_GATE), turn, 0);
    for (int64_t i = 0; i < job->group; i++) {
        check(sluice_writer_begin(writer, SLUICE_DEFAULT, &frames[0]), "begin");
        int64_t start = clock_ns();
        check(sluice_writer_commit(writer, &frames[0], stream), "commit");
        commits += clock_ns() - start;
    }
    if (turn > WARM_UP)
        sample("commit", commits / job->group);
    if (!job->gated)
        CU(StreamSynchronize, native);
}

void sluice_acquire(int index)
{
    int count = (int)job->group;
    if (count > MAX_GROUP)
        die("at most %d frames are taken together", MAX_GROUP);
    if (index == 0)
        channel_write((uint32_t)count + CHANNEL_SLOTS);
    else
        channel_read((uint32_t)count, job->ahead);
    measure_turns(&(struct turns){ .put = put_group, .take = take_group, .stream = native }, index);
    channel_close();
}
