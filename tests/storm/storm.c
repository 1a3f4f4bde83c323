/* SPDX-License-Identifier: MIT
 *
 * The kill storm: eleven processes on two channels, any of which is killed or stopped at any moment, and at named
 * points inside begin, commit, acquire, release, joining and changes of format.
 *
 * At all times: no frame is torn, sequences grow, frames taken and missed add up, lost frames were taken back by the
 * rules, and no call takes longer than 2 s. In calm phases between storms every process gets frames of the present
 * session, and once all leases have ended the writer has all its slots. At the end nothing is left behind.
 *
 * SLUICE_STORM_DEVICE=cuda:0 runs it on a GPU. SLUICE_STORM_KILLS is the number of kills (3,000). SLUICE_STORM_SEED
 * repeats the choices of a storm, though not the scheduler's. SLUICE_STORM_RECORD names a file for the counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "harness/resources.h"
#include "storm/supervisor.h"

#define KILL_EVERY     (24 * SLUICE_MS) /* of kills that are not at kill points */
#define STOP_EVERY     (40 * SLUICE_MS)
#define STORM_LASTS    (4 * SLUICE_S)
#define SECONDS_A_KILL 0.5 /* more: the storm is stuck */
#define SLOWER         12  /* times all of that, where processes start slowly */
#define STOPPED        1.1 /* times the limit of a call */

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void set_phase(struct shared_state *state, enum phase phase)
{
    atomic_fetch_add(&state->change, 1);
    atomic_store(&state->phase, phase);
}

static int64_t next(struct supervisor *supervisor, int64_t every)
{
    if (frame_io_is_slow())
        every *= SLOWER;
    return test_now() + (int64_t)worker_random(&supervisor->dice, (uint64_t)every * 2);
}

/* Writers are hit more often than others, as all others depend on them. */
static unsigned victim(struct supervisor *supervisor)
{
    if (worker_chance(&supervisor->dice, 5))
        return worker_chance(&supervisor->dice, 3) ? SEAT_CHAIN : SEAT_WRITER;
    return (unsigned)worker_random(&supervisor->dice, PROCESSES);
}

static void storm(struct supervisor *supervisor, uint64_t kills)
{
    int64_t end = test_now() + STORM_LASTS, kill_ns = 0, stop_ns = 0;

    set_phase(supervisor->state, STORM);
    while (test_now() < end && supervisor->kills < kills) {
        supervisor_poll(supervisor);
        if (test_now() >= kill_ns) {
            supervisor_kill(supervisor, victim(supervisor));
            kill_ns = next(supervisor, KILL_EVERY);
        }
        if (test_now() >= stop_ns) {
            bool shortly = !worker_chance(&supervisor->dice, 8);
            supervisor_stop(supervisor, victim(supervisor),
                            (int64_t)worker_random(&supervisor->dice, shortly ? 30 : 500) * SLUICE_MS);
            stop_ns = next(supervisor, STOP_EVERY);
        }
        test_nap(SLUICE_MS);
    }
    set_phase(supervisor->state, CALM);
    supervisor_resume(supervisor);
}

/* While the writer is stopped for longer than the limit of a call, all others go on. On a real GPU that limit is too
 * long for this, so the others only have to go on afterwards. */
static void check_stopped_writer(struct supervisor *supervisor)
{
    double seconds = frame_io_is_slow() ? 2.6 * test_slowness() : STOPPED * supervisor_limit();

    supervisor_stop(supervisor, SEAT_WRITER, (int64_t)(seconds * 1e9));
    while (supervisor->processes[SEAT_WRITER].stopped) {
        supervisor_poll(supervisor);
        test_nap(SLUICE_MS);
    }
}

/* Kills all readers, starts one that holds nothing, and lets the writer count its slots. */
static void check_slots(struct supervisor *supervisor)
{
    struct shared_state *state = supervisor->state;

    for (unsigned seat = 0; seat < PROCESSES; seat++) {
        supervisor->resting[seat] = seat != SEAT_WRITER && seat != SEAT_NEWEST;
        if (seat != SEAT_WRITER)
            supervisor_kill(supervisor, seat);
    }
    supervisor_wait_progress(supervisor);
    set_phase(state, SLOTS);
    for (int64_t until = test_now() + (int64_t)(5e9 * supervisor_limit());
         atomic_load(&state->slots_done) != atomic_load(&state->change);) {
        if (test_now() > until)
            FAIL("the writer does not count its slots; seed %llu", (unsigned long long)supervisor->seed);
        supervisor_poll(supervisor);
        test_nap(SLUICE_MS);
    }
    set_phase(state, CALM);
    for (unsigned seat = 0; seat < PROCESSES; seat++)
        supervisor->resting[seat] = false;
    supervisor_start(supervisor);
}

/* The time limit is for a hundred thousand kills; fewer have less, see below. */
TEST_TIMEOUT(kill_storm, 86400)
{
    struct timespec clock;
    clock_gettime(CLOCK_REALTIME, &clock);
    uint64_t seed = number_from("SLUICE_STORM_SEED", (uint64_t)clock.tv_nsec ^ (uint64_t)getpid() << 32);
    uint64_t kills = number_from("SLUICE_STORM_KILLS", (uint64_t)test_scale(3000));
    int64_t begun = test_now(),
            limit = (int64_t)((60 + SECONDS_A_KILL * (frame_io_is_slow() ? SLOWER : 1) * (double)kills) *
                              test_slowness() * 1e9);
    struct supervisor supervisor;

    frame_io_require();
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    test_dir();
    supervisor_begin(&supervisor, test_shared_memory(sizeof(struct shared_state)), seed);
    set_phase(supervisor.state, CALM);
    supervisor_start(&supervisor);
    for (unsigned round = 1; supervisor.kills < kills; round++) {
        supervisor_wait_progress(&supervisor);
        if (round % 3 == 0)
            check_slots(&supervisor);
        if (round % 8 == 1)
            check_stopped_writer(&supervisor);
        storm(&supervisor, kills);
        if (test_now() - begun > limit)
            FAIL("only %llu of %llu kills; seed %llu", (unsigned long long)supervisor.kills, (unsigned long long)kills,
                 (unsigned long long)seed);
    }
    supervisor_wait_progress(&supervisor);
    folder_check(false);
    check_slots(&supervisor);
    supervisor_wait_progress(&supervisor);
    set_phase(supervisor.state, END);
    supervisor_wait_end(&supervisor);
    folder_check(true);
    shm_check();
    supervisor_report(&supervisor, (double)(test_now() - begun) / 1e9, kills >= 1000);
}
