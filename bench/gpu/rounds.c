/* SPDX-License-Identifier: MIT */
#include "rounds.h"

#include "driver.h"

#define GAP (20 * INT64_C(1000)) /* until the reader waits */

bool is_last_round(uint32_t round, int64_t until)
{
    if (round <= WARM_UP || clock_ns() < until)
        return false;
    atomic_store(&stage->last, round);
    return true;
}

static int64_t last_seen(void)
{
    int64_t seen = 0;
    for (int i = 1; i < stage->actors; i++)
        if (stage->lanes[i].seen > seen)
            seen = stage->lanes[i].seen;
    return seen;
}

static void write_frames(const struct way *way)
{
    int64_t until = INT64_MAX;
    bool last = false;
    for (uint32_t round = 1; !last; round++) {
        if (round == WARM_UP)
            until = clock_ns() + job->ns;
        last = is_last_round(round, until);
        if (way->prepare)
            way->prepare(round);
        if (job->gated)
            way->hand(round);
        await_ready(round);
        spin_for(GAP);
        int64_t start = clock_ns();
        if (job->gated)
            atomic_store(word(WORD_GATE), round);
        else
            way->hand(round);
        int64_t end = clock_ns();
        await_got(round);
        if (round <= WARM_UP)
            continue;
        if (!job->gated)
            sample("call", (end - start) / job->group);
        if (!sample("seen", last_seen() - start))
            until = 0;
    }
}

static void read_frames(const struct way *way, int index)
{
    struct lane *lane = &stage->lanes[index];
    for (uint32_t round = 1;; round++) {
        if (way->expect)
            way->expect(round);
        atomic_store(&lane->ready, round);
        way->take(round);
        lane->seen = clock_ns();
        if (way->give)
            way->give(round);
        bool last = atomic_load(&stage->last) == round;
        atomic_store(&lane->got, round);
        if (last)
            break;
    }
}

void measure_rounds(const struct way *way, int index)
{
    if (index == 0)
        way->writer_open();
    else
        way->reader_open(index);
    meet();
    busy_begin(index);
    if (index == 0)
        write_frames(way);
    else
        read_frames(way, index);
    busy_end();
    meet();
    if (index == 0)
        way->writer_close();
    else
        way->reader_close();
}

static void write_turns(const struct turns *how)
{
    int64_t until = clock_ns() + job->ns;
    bool last = false;
    for (uint32_t turn = 1; !last; turn++) {
        last = is_last_round(turn, until);
        await_ready(turn);
        how->put(turn);
        atomic_store(&stage->lanes[0].got, turn);
        await_got(turn);
        atomic_store(word(WORD_GATE), turn);
        CU(StreamSynchronize, how->stream);
    }
}

static void read_turns(const struct turns *how, int index)
{
    struct lane *lane = &stage->lanes[index];
    bool last = false;
    for (uint32_t turn = 1; !last; turn++) {
        atomic_store(&lane->ready, turn);
        word_await_spinning(&stage->lanes[0].got, turn);
        how->take(turn, index);
        last = atomic_load(&stage->last) == turn;
        atomic_store(&lane->got, turn);
        CU(StreamSynchronize, how->stream);
    }
}

void measure_turns(const struct turns *how, int index)
{
    meet();
    if (index == 0)
        write_turns(how);
    else
        read_turns(how, index);
    meet();
}

void measure_calls(const char *set, void (*call)(uint32_t round), void (*settle)(uint32_t round))
{
    int64_t until = INT64_MAX;
    uint32_t round = 0;
    for (int warm = WARM_UP;; warm--) {
        int64_t start = clock_ns();
        if (warm == 0)
            until = start + job->ns;
        for (int i = 0; i < job->group; i++)
            call(++round);
        int64_t end = clock_ns();
        settle(round);
        if (warm <= 0 && (!sample(set, (end - start) / job->group) || end > until))
            break;
    }
}

void measure_copies(void (*copy)(uint32_t round))
{
    int64_t until = INT64_MAX, end = 0;
    for (uint32_t round = 0; end < until; round++) {
        int64_t start = clock_ns();
        if (round == COPY_WARM_UP)
            until = start + job->ns;
        copy(round);
        end = clock_ns();
        if (round >= COPY_WARM_UP)
            sample("call", end - start);
    }
}
