/* SPDX-License-Identifier: MIT
 *
 * gpu-sluice: the jobs of gpu-limit by Sluice's public API.
 */
#include "channel.h"

static const struct kind kinds[] = {
    { "handoff", sluice_handoff, false }, { "commit", sluice_commit, false },
    { "acquire", sluice_acquire, false }, { "fetch", sluice_fetch, false },
    { "far", sluice_far, false },         { "pipeline", sluice_pipeline, false },
    { "parked", sluice_parked, false },   { "sleeping", sluice_sleeping, false },
    { "soak", sluice_soak, false },       { "launch", sluice_launches, true },
    { "graph", sluice_graphs, true },     { "recapture", sluice_recapture, true },
    { "staged", sluice_staged, true },    { "fork", sluice_forks, true },
    { "load", sluice_load, true },        { "convert", sluice_conversions, true },
};

int main(void)
{
    return stage_main(kinds, sizeof kinds / sizeof *kinds);
}
