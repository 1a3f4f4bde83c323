/* SPDX-License-Identifier: MIT
 *
 * The demo's programs, which are restarted when they end, and the statistics of its channels.
 */
#include "demo.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "../common/describe.h"
#include "../common/term.h"

#define MAX_FAILURES 3

bool member_start(struct member *member)
{
    int error = child_start(&member->child, member->args.list, CHILD_TERM | CHILD_STDERR);
    member->started_ns = now_ns();
    member->starts++;
    if (error)
        say_error("demo", "cannot start the %s (%s): %s.", member->title, member->args.list[0], strerror(error));
    return error == 0;
}

void member_kill(struct member *member)
{
    if (!member->child.pid)
        return;
    kill(member->child.pid, SIGKILL);
    member->killed_ns = now_ns();
    member->started_ns = INT64_MAX; /* frames still in flight do not mean that it is back */
}

static bool watch_member(struct member *member, uint64_t frame)
{
    char reason[256];
    pid_t pid = member->child.pid;
    if (pid && !child_wait(&member->child, 0))
        return true;
    int status = member->child.status;
    child_last_line(&member->child, reason, sizeof reason);
    child_kill(&member->child); /* closes its pipes */
    progress_end();
    if (WIFSIGNALED(status)) {
        printf("demo: killed %s (pid %d) at frame %" PRIu64 "\n", member->title, (int)pid, frame);
    } else {
        printf("demo: the %s (pid %d) ended at frame %" PRIu64 ": %s\n", member->title, (int)pid, frame,
               reason[0] ? reason : "no message");
        if (WEXITSTATUS(status) != 0 && ++member->failures >= MAX_FAILURES) {
            say_error("demo", "the %s failed %u times.", member->title, member->failures);
            return false;
        }
    }
    fflush(stdout);
    if (!member->killed_ns)
        member->killed_ns = now_ns();
    return member_start(member);
}

bool team_watch(struct member *team, uint64_t frame)
{
    for (int i = 0; i < TEAM; i++)
        if (!watch_member(&team[i], frame))
            return false;
    return true;
}

void team_frame_seen(struct member *team, int64_t capture_ns)
{
    for (int i = 0; i < TEAM; i++) {
        struct member *member = &team[i];
        /* Only a frame captured after the restart passed through the new program. */
        if (!member->killed_ns || capture_ns < member->started_ns)
            continue;
        progress_end();
        printf("demo: restarted the %s (pid %d): frames are back after %.0f ms\n", member->title,
               (int)member->child.pid, (double)(now_ns() - member->killed_ns) / 1e6);
        fflush(stdout);
        member->killed_ns = 0;
    }
}

void team_stop(struct member *team)
{
    for (int i = 0; i < TEAM; i++) {
        struct child *child = &team[i].child;
        if (child->pid) {
            kill(child->pid, SIGTERM);
            child_finish(child, 10 * SLUICE_S);
        }
        child_kill(child);
    }
}

void tally_update(struct tally *tally)
{
    struct sluice_channel_info info = { .size = sizeof info };
    if (sluice_channel_info(tally->name, WRITER_TIMEOUT, &info, NULL, 0) != SLUICE_OK)
        return;
    if (info.session != tally->session) {
        tally->past_committed += tally->committed;
        tally->past_dropped += tally->dropped;
        tally->session = info.session;
    }
    tally->committed = info.committed;
    tally->dropped = info.dropped;
}

void tally_latency(struct tally *tally, int64_t latency_ns)
{
    if (tally->count == tally->capacity) {
        uint32_t capacity = tally->capacity ? 2 * tally->capacity : 1024;
        int64_t *latency = realloc(tally->latency, capacity * sizeof *latency);
        if (!latency)
            return;
        tally->latency = latency;
        tally->capacity = capacity;
    }
    tally->latency[tally->count++] = latency_ns;
}

uint64_t tally_committed(const struct tally *tally)
{
    return tally->past_committed + tally->committed;
}

uint64_t tally_dropped(const struct tally *tally)
{
    return tally->past_dropped + tally->dropped;
}
