/* SPDX-License-Identifier: MIT
 *
 * What the calls of a frame's path cost the CPU.
 */
#include "channel.h"

#define MOST 32

static struct sluice_frame frames[MOST];
static uint32_t turn;

/* ---- begin and commit; the readers are there and do nothing ---- */

static void commit(uint32_t round)
{
    (void)round;
    check(sluice_writer_commit(writer, &frames[0], stream), "commit");
}

static void begin(uint32_t round)
{
    (void)round;
    pause_for(INT64_C(5000));
    CU(StreamSynchronize, native);
    int64_t start = now_ns();
    check(sluice_writer_begin(writer, SLUICE_DEFAULT, &frames[0]), "begin");
    sample("begin", now_ns() - start);
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
        call_costs("call", commit, begin);
        check(sluice_writer_cancel(writer, &frames[0], stream), "cancel");
    }
    meet();
    channel_close();
}

/* ---- acquire and release; job->group frames are there. The commits are timed, too; of several readers only the first is ---- */

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

/* Every other round all frames are held at once, so that each call can be told from the other. */
static void take_apart(int count, bool timed)
{
    int64_t start = now_ns();
    for (int i = 0; i < count; i++)
        acquire(i);
    int64_t middle = now_ns();
    for (int i = 0; i < count; i++)
        release(i);
    int64_t end = now_ns();
    if (timed && turn > WARM_UP) {
        sample("acquire", (middle - start) / count);
        sample("release", (end - middle) / count);
    }
}

static void take_together(int count, bool timed)
{
    int64_t start = now_ns();
    for (int i = 0; i < count; i++) {
        acquire(i);
        release(i);
    }
    int64_t end = now_ns();
    if (timed && turn > WARM_UP)
        sample("both", (end - start) / count);
}

static void put_frames(int count)
{
    int64_t commits = 0;
    if (job->gated)
        CU(StreamWaitValue64, native, word_address(WORD_GATE), turn, 0);
    for (int i = 0; i < count; i++) {
        check(sluice_writer_begin(writer, SLUICE_DEFAULT, &frames[0]), "begin");
        int64_t start = now_ns();
        check(sluice_writer_commit(writer, &frames[0], stream), "commit");
        commits += now_ns() - start;
    }
    if (turn > WARM_UP)
        sample("commit", commits / count);
    if (!job->gated)
        CU(StreamSynchronize, native);
}

static void write_groups(int count)
{
    int64_t until = now_ns() + job->ns;
    bool last = false;
    for (turn = 1; !last; turn++) {
        last = is_last_round(turn, until);
        await_ready(turn);
        put_frames(count);
        atomic_store(&stage->lanes[0].got, turn);
        await_got(turn);
        atomic_store(word(WORD_GATE), turn);
        CU(StreamSynchronize, native);
    }
}

static void read_groups(int count, int index)
{
    struct lane *lane = &stage->lanes[index];
    bool last = false;
    for (turn = 1; !last; turn++) {
        atomic_store(&lane->ready, turn);
        await(&stage->lanes[0].got, turn);
        if (turn % 2)
            take_apart(count, index == 1);
        else
            take_together(count, index == 1);
        last = atomic_load(&stage->last) == turn;
        atomic_store(&lane->got, turn);
        CU(StreamSynchronize, native);
    }
}

void sluice_acquire(int index)
{
    int count = (int)job->group;
    if (count > MOST)
        die("at most %d frames are taken together", MOST);
    if (index == 0)
        channel_write((uint32_t)count + CHANNEL_SLOTS);
    else
        channel_read((uint32_t)count, job->ahead);
    meet();
    if (index == 0)
        write_groups(count);
    else
        read_groups(count, index);
    meet();
    channel_close();
}
