/* SPDX-License-Identifier: MIT */
#include "sleeping.h"

#include <sys/resource.h>

#include "driver.h"
#include "rounds.h"

static int64_t used_by(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * KIT_S +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * INT64_C(1000);
}

/* CPU time of the other threads; the writer's own thread spins in the bench. */
static int64_t used_by_others(void)
{
    return used_by(RUSAGE_SELF) - used_by(RUSAGE_THREAD);
}

static void hand_frames(const struct sleeper *sleeper, struct cu_stream *stream)
{
    int64_t until = INT64_MAX, began = 0, used = 0;
    bool last = false;
    for (uint32_t round = 1; !last; round++) {
        last = is_last_round(round, until);
        if (round == WARM_UP) {
            began = clock_ns();
            until = began + job->ns;
            used = used_by_others();
        }
        await_ready(round);
        gpu_spin(stream, WORK);
        sleeper->hand(stream, round);
        CU(StreamWriteValue64, stream, word_address(WORD_OWN), round, 0);
        await_word(word(WORD_OWN), round);
        int64_t ready = clock_ns();
        await_got(round);
        int64_t late = stage->lanes[1].seen - ready;
        if (round > WARM_UP)
            sample("wake", late > 0 ? late : 0);
    }
    int64_t time = clock_ns() - began;
    value("writer_cpu_ppm", (used_by_others() - used) * 1000000 / time);
    meet();
    value("reader_cpu_ppm", stage->lanes[1].values[0]);
}

static void take_frames(const struct sleeper *sleeper, int index)
{
    struct lane *lane = &stage->lanes[index];
    int64_t began = 0, used = 0;
    bool last = false;
    for (uint32_t round = 1; !last; round++) {
        if (round == WARM_UP) {
            began = clock_ns();
            used = used_by(RUSAGE_SELF);
        }
        atomic_store(&lane->ready, round);
        sleeper->take(round);
        lane->seen = clock_ns();
        last = atomic_load(&stage->last) == round;
        atomic_store(&lane->got, round);
    }
    lane->values[0] = (used_by(RUSAGE_SELF) - used) * 1000000 / (clock_ns() - began);
    meet();
}

static void write_all(const struct sleeper *sleeper)
{
    struct cu_stream *stream = gpu_stream();
    sleeper->writer_open();
    meet();
    hand_frames(sleeper, stream);
    CU(StreamSynchronize, stream);
    sleeper->writer_close();
    CU(StreamDestroy, stream);
}

static void read_all(const struct sleeper *sleeper, int index)
{
    sleeper->reader_open(index);
    meet();
    take_frames(sleeper, index);
    sleeper->reader_close();
}

void measure_sleeping(const struct sleeper *sleeper, int index)
{
    if (index == 0)
        write_all(sleeper);
    else
        read_all(sleeper, index);
}
