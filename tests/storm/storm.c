/* SPDX-License-Identifier: MIT
 *
 * The kill storm: eleven processes on two channels, any of which is killed or stopped at any
 * moment, and at named points inside begin, commit, acquire, release, joining and changes of
 * format.
 *
 * At all times: no frame is torn, sequences grow, what was taken and missed adds up, what is lost
 * was taken back by the rules, and no call takes longer than 2 s. In fair weather between the
 * storms everybody gets frames of the present session, and with all leases gone the writer has all
 * its slots. At the end nobody leaves anything behind.
 *
 * SLUICE_STORM_DEVICE=cuda:0 has it on a GPU. SLUICE_STORM_KILLS says how many (3,000), SLUICE_STORM_SEED repeats the choices of a storm; what
 * the scheduler makes of them is never the same. SLUICE_STORM_RECORD names a file for the counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "harness/resources.h"
#include "storm/supervisor.h"

#define KILL_EVERY     (24 * SLUICE_MS) /* of those that are not at points */
#define STOP_EVERY     (40 * SLUICE_MS)
#define STORM_LASTS    (4 * SLUICE_S)
#define SECONDS_A_KILL 0.5 /* more: it got stuck */
#define SLOWER         12  /* all of that, where processes take their time to start */
#define STOPPED        1.1 /* times as long as any call may take */

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void set_weather(struct board *board, enum weather weather)
{
    atomic_fetch_add(&board->change, 1);
    atomic_store(&board->weather, weather);
}

static int64_t next(struct crew *crew, int64_t every)
{
    if (desk_is_slow())
        every *= SLOWER;
    return test_now() + (int64_t)part_random(&crew->dice, (uint64_t)every * 2);
}

/* The writers are hit more often than their share: all others depend on them. */
static unsigned victim(struct crew *crew)
{
    if (part_chance(&crew->dice, 5))
        return part_chance(&crew->dice, 3) ? SEAT_CHAIN : SEAT_WRITER;
    return (unsigned)part_random(&crew->dice, PROCESSES);
}

static void storm(struct crew *crew, uint64_t kills)
{
    int64_t end = test_now() + STORM_LASTS, kill_ns = 0, stop_ns = 0;

    set_weather(crew->board, STORM);
    while (test_now() < end && crew->kills < kills) {
        crew_look(crew);
        if (test_now() >= kill_ns) {
            crew_kill(crew, victim(crew));
            kill_ns = next(crew, KILL_EVERY);
        }
        if (test_now() >= stop_ns) {
            bool shortly = !part_chance(&crew->dice, 8);
            crew_stop(crew, victim(crew),
                      (int64_t)part_random(&crew->dice, shortly ? 30 : 500) * SLUICE_MS);
            stop_ns = next(crew, STOP_EVERY);
        }
        test_nap(SLUICE_MS);
    }
    set_weather(crew->board, CALM);
    crew_go_on(crew);
}

/* While the writer is stopped for longer than any call may take, all others go on. On a real GPU the limit of calls is too
 * long for that, so there the others only have to go on afterwards. */
static void check_stopped_writer(struct crew *crew)
{
    double seconds = desk_is_slow() ? 2.6 * test_slowness() : STOPPED * crew_limit();

    crew_stop(crew, SEAT_WRITER, (int64_t)(seconds * 1e9));
    while (crew->members[SEAT_WRITER].stopped) {
        crew_look(crew);
        test_nap(SLUICE_MS);
    }
}

/* Kills all readers, brings one that holds nothing, and has the writer count its slots. */
static void check_slots(struct crew *crew)
{
    struct board *board = crew->board;

    for (unsigned seat = 0; seat < PROCESSES; seat++) {
        crew->resting[seat] = seat != SEAT_WRITER && seat != SEAT_NEWEST;
        if (seat != SEAT_WRITER)
            crew_kill(crew, seat);
    }
    crew_all_forward(crew);
    set_weather(board, SLOTS);
    for (int64_t until = test_now() + (int64_t)(5e9 * crew_limit());
         atomic_load(&board->slots_done) != atomic_load(&board->change);) {
        if (test_now() > until)
            FAIL("the writer does not count its slots; seed %llu", (unsigned long long)crew->seed);
        crew_look(crew);
        test_nap(SLUICE_MS);
    }
    set_weather(board, CALM);
    for (unsigned seat = 0; seat < PROCESSES; seat++)
        crew->resting[seat] = false;
    crew_start(crew);
}

/* The time limit is for a hundred thousand kills; fewer have less, see below. */
TEST_TIMEOUT(kill_storm, 86400)
{
    struct timespec clock;
    clock_gettime(CLOCK_REALTIME, &clock);
    uint64_t seed =
        number_from("SLUICE_STORM_SEED", (uint64_t)clock.tv_nsec ^ (uint64_t)getpid() << 32);
    uint64_t kills = number_from("SLUICE_STORM_KILLS", (uint64_t)test_scale(3000));
    int64_t begun = test_now(),
            limit = (int64_t)((60 + SECONDS_A_KILL * (desk_is_slow() ? SLOWER : 1) * (double)kills) * test_slowness() * 1e9);
    struct crew crew;

    desk_look();
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    test_dir();
    crew_begin(&crew, test_board(sizeof(struct board)), seed);
    set_weather(crew.board, CALM);
    crew_start(&crew);
    for (unsigned round = 1; crew.kills < kills; round++) {
        crew_all_forward(&crew);
        if (round % 3 == 0)
            check_slots(&crew);
        if (round % 8 == 1)
            check_stopped_writer(&crew);
        storm(&crew, kills);
        if (test_now() - begun > limit)
            FAIL("only %llu of %llu kills; seed %llu", (unsigned long long)crew.kills,
                 (unsigned long long)kills, (unsigned long long)seed);
    }
    crew_all_forward(&crew);
    folder_check(false);
    check_slots(&crew);
    crew_all_forward(&crew);
    set_weather(crew.board, END);
    crew_wait_end(&crew);
    folder_check(true);
    shm_check();
    crew_report(&crew, (double)(test_now() - begun) / 1e9, kills >= 1000);
}
