/* SPDX-License-Identifier: MIT */
#include "storm/shared_state.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/test.h"
#include "util/hooks.h"

void state_doing(struct seat *seat, const char *what)
{
    uint64_t word = 0;

    memcpy(&word, what, strnlen(what, sizeof word));
    atomic_store_explicit(&seat->doing, word, memory_order_relaxed);
}

void state_beat(struct seat *seat)
{
    atomic_fetch_add_explicit(&seat->beat, 1, memory_order_relaxed);
}

void state_ready(struct seat *seat)
{
    uint64_t number = atomic_load(&seat->ready);

    atomic_store(&seat->ready_ns[number % RECENT], test_now());
    atomic_store(&seat->ready, number + 1);
}

int64_t state_first_ready(const struct seat *seat, uint64_t before)
{
    uint64_t ready = atomic_load(&seat->ready);
    uint64_t first = ready - before < RECENT ? before : ready - RECENT + 1;

    return ready == before ? INT64_MAX : atomic_load(&seat->ready_ns[first % RECENT]);
}

bool state_still(const struct shared_state *state, enum phase phase, uint32_t change)
{
    return atomic_load(&state->phase) == phase && atomic_load(&state->change) == change;
}

/* ---- kill points ---- */

static const struct shared_state *armed_state;
static struct seat *armed_seat;
static char armed_name[POINT_NAME];
static _Atomic long armed_left;

static void passed(const char *name)
{
    if (strcmp(name, armed_name) != 0 || atomic_load(&armed_state->phase) != STORM ||
        atomic_fetch_sub(&armed_left, 1) != 1)
        return;
    memcpy(armed_seat->died_at, armed_name, sizeof armed_name);
    kill(getpid(), SIGKILL);
}

void state_arm(const struct shared_state *state, struct seat *seat, const char *spec)
{
    const char *colon = strchr(spec, ':');

    if (!colon)
        return;
    snprintf(armed_name, sizeof armed_name, "%.*s", (int)(colon - spec), spec);
    armed_left = strtol(colon + 1, NULL, 10);
    armed_state = state;
    armed_seat = seat;
    sl_kill_point_hook = passed;
}
