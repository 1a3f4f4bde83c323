/* SPDX-License-Identifier: MIT */
#include "storm/supervisor.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_A_LOOK (20 * SLUICE_MS) /* between two polls; longer: the supervisor itself was delayed */

static const char *const seat_names[SEATS] = {
    "writer", "newest",  "in order", "holding",     "polling",      "observer",
    "opener", "threads", "chain",    "far polling", "far in order", "second thread",
};

/* ---- kill points ---- */

/* The limit of a call is 2 s: a handshake, whose second becomes two on a busy machine. A process on a real GPU takes
 * seconds to start while others start and end. */
double supervisor_limit(void)
{
    return frame_io_is_slow() ? 20 * test_slowness() : 2 * test_patience();
}

enum { W = 1, R = 2, O = 4 }; /* the processes that pass it: writers, readers, openers */

static const struct {
    const char *name;
    int who, often;
} points[] = {
    { "after_begin", W, 400 },     { "after_mark", W, 400 },     { "before_ready", W, 400 },
    { "before_publish", W, 400 },  { "before_head", W, 400 },    { "before_wake", W, 400 },
    { "after_announce", W, 2 },    { "before_numbering", W, 2 }, { "before_growing", W, 2 },
    { "after_retire_mark", W, 8 }, { "before_forget", W, 2 },    { "after_lock", W, 1 },
    { "after_bind", W, 1 },        { "after_listen", W, 1 },     { "before_welcome", W, 8 },
    { "before_memory", W, 8 },     { "before_lease", R, 400 },   { "after_lease", R, 400 },
    { "before_keep", R, 400 },     { "after_keep", R, 400 },     { "after_acquire", R, 400 },
    { "before_release", R, 400 },  { "after_release", R, 400 },  { "before_switch", R, 1 },
    { "after_hello", R, 1 },       { "after_welcome", R, 1 },    { "before_ack", R, 4 },
    { "before_bye", O, 8 },
};
#define POINTS (sizeof points / sizeof points[0])

_Static_assert(POINTS <= 64, "room for their counts");

static int who_is(unsigned seat)
{
    switch (seat) {
    case SEAT_WRITER: return W;
    case SEAT_CHAIN: return W | R;
    case SEAT_OBSERVER: return 0;
    case SEAT_OPENER: return R | O;
    default: return R;
    }
}

/* Of the points that this process can reach, the one that has killed least often. */
static void choose_point(struct supervisor *supervisor, unsigned seat, char *spec, size_t size)
{
    int best = -1;

    for (size_t i = 0, from = worker_random(&supervisor->dice, POINTS); i < POINTS; i++) {
        size_t p = (from + i) % POINTS;
        if ((points[p].who & who_is(seat)) && (best < 0 || supervisor->at_point[p] < supervisor->at_point[best]))
            best = (int)p;
    }
    if (best < 0 || worker_chance(&supervisor->dice, 3))
        snprintf(spec, size, "-");
    else
        snprintf(spec, size, "%s:%u", points[best].name,
                 1 + (unsigned)worker_random(&supervisor->dice, (uint64_t)points[best].often));
}

static void count_point(struct supervisor *supervisor, const char *name)
{
    for (size_t p = 0; p < POINTS; p++)
        if (strcmp(points[p].name, name) == 0) {
            supervisor->at_point[p]++;
            return;
        }
    FAIL("a process ended at the unknown kill point %s", name);
}

/* ---- starting and ending ---- */

static void start(struct supervisor *supervisor, unsigned seat)
{
    struct process *process = &supervisor->processes[seat];
    char number[8], spec[48], random[24];

    snprintf(number, sizeof number, "%u", seat);
    snprintf(random, sizeof random, "%016llx", (unsigned long long)worker_random(&supervisor->dice, UINT64_MAX));
    choose_point(supervisor, seat, spec, sizeof spec);
    memset(supervisor->state->seats[seat].died_at, 0, POINT_NAME);
    const char *const argv[] = { "/proc/self/exe", "--role", "worker.worker", number, spec, random, NULL };
    *process = (struct process){ .child = child_start(argv), .born_ns = test_now() };
    supervisor->starts++;
}

void supervisor_begin(struct supervisor *supervisor, struct shared_state *state, uint64_t seed)
{
    *supervisor =
        (struct supervisor){ .state = state, .seed = seed, .dice = { .random = seed | 1 }, .looked_ns = test_now() };
}

void supervisor_start(struct supervisor *supervisor)
{
    for (unsigned seat = 0; seat < PROCESSES; seat++)
        if (!supervisor->processes[seat].child.pid && !supervisor->resting[seat])
            start(supervisor, seat);
}

static void ended(struct supervisor *supervisor, unsigned seat)
{
    const struct seat *state = &supervisor->state->seats[seat];
    int status = supervisor->processes[seat].child.status;

    if (status != -SIGKILL)
        FAIL("the process '%s' ended with status %d; seed %llu", seat_names[seat], status,
             (unsigned long long)supervisor->seed);
    supervisor->kills++;
    if (state->died_at[0]) {
        supervisor->by_point++;
        count_point(supervisor, state->died_at);
    }
    supervisor->processes[seat].stopped = false;
    if (!supervisor->resting[seat])
        start(supervisor, seat);
}

void supervisor_kill(struct supervisor *supervisor, unsigned seat)
{
    struct process *process = &supervisor->processes[seat];

    if (!process->child.pid)
        return;
    supervisor->while_stopped += process->stopped;
    child_kill(&process->child, SIGKILL);
    ended(supervisor, seat);
}

void supervisor_stop(struct supervisor *supervisor, unsigned seat, int64_t ns)
{
    struct process *process = &supervisor->processes[seat];

    if (!process->child.pid || process->stopped)
        return;
    kill(process->child.pid, SIGSTOP);
    process->stopped = true;
    process->go_on_ns = test_now() + ns;
    supervisor->stops++;
}

static void go_on(struct process *process)
{
    if (process->stopped && process->child.pid)
        kill(process->child.pid, SIGCONT);
    process->stopped = false;
    process->still_ns[0] = process->still_ns[1] = 0;
}

void supervisor_resume(struct supervisor *supervisor)
{
    for (unsigned seat = 0; seat < PROCESSES; seat++)
        go_on(&supervisor->processes[seat]);
}

/* ---- processes without progress ---- */

static void show_file(pid_t pid, const char *task, const char *name)
{
    char path[320], text[2048];
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/task/%s/%s", (int)pid, task, name);
    file = fopen(path, "re");
    size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[got] = 0;
    if (got)
        fprintf(stderr, "  thread %s %s: %s\n", task, name, text);
    if (file)
        fclose(file);
}

void supervisor_show(const struct supervisor *supervisor, unsigned seat)
{
    pid_t pid = supervisor->processes[seat].child.pid;
    char command[160], path[64];

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    snprintf(command, sizeof command, "gdb -batch -p %d -ex 'thread apply all bt' 2>/dev/null 1>&2", (int)pid);
    if (system("command -v gdb >/dev/null") == 0 && system(command) == 0)
        return;
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        if (task->d_name[0] == '.')
            continue;
        show_file(pid, task->d_name, "wchan");
        show_file(pid, task->d_name, "syscall");
        show_file(pid, task->d_name, "stack");
    }
    if (tasks)
        closedir(tasks);
}

static void check_beat(struct supervisor *supervisor, unsigned seat, unsigned thread, unsigned at, int64_t passed)
{
    struct process *process = &supervisor->processes[at];
    struct seat *state = &supervisor->state->seats[seat];
    uint64_t beat = atomic_load(&state->beat), doing = atomic_load(&state->doing);

    if (beat != process->beat[thread] || process->stopped) {
        process->beat[thread] = beat;
        process->still_ns[thread] = 0;
        return;
    }
    process->still_ns[thread] += passed;
    if ((double)process->still_ns[thread] < supervisor_limit() * 1e9)
        return;
    supervisor_show(supervisor, at);
    FAIL("the process '%s' has been in '%.8s' for %.1f s; seed %llu", seat_names[seat], (const char *)&doing,
         (double)process->still_ns[thread] / 1e9, (unsigned long long)supervisor->seed);
}

void supervisor_poll(struct supervisor *supervisor)
{
    int64_t now = test_now(), passed = now - supervisor->looked_ns;

    supervisor->looked_ns = now;
    if (passed > MOST_A_LOOK)
        passed = MOST_A_LOOK;
    for (unsigned seat = 0; seat < PROCESSES; seat++) {
        struct process *process = &supervisor->processes[seat];
        if (process->child.pid && child_ended(&process->child))
            ended(supervisor, seat);
        if (!process->child.pid)
            continue;
        if (process->stopped && now >= process->go_on_ns)
            go_on(process);
        check_beat(supervisor, seat, 0, seat, passed);
        if (seat == SEAT_THREADS)
            check_beat(supervisor, SEAT_SECOND_THREAD, 1, seat, passed);
    }
}

/* ---- in a calm phase ---- */

#define ENOUGH_FRAMES 3

static bool is_forward(const struct supervisor *supervisor, unsigned seat, uint64_t before)
{
    const struct seat *state = supervisor->state->seats;
    bool far = seat == SEAT_FAR_POLLING || seat == SEAT_FAR_IN_ORDER;
    uint64_t session = atomic_load(&state[far ? SEAT_CHAIN : SEAT_WRITER].session);

    if (atomic_load(&state[seat].frames) < before + ENOUGH_FRAMES)
        return false;
    return seat == SEAT_OBSERVER || seat == SEAT_CHAIN || atomic_load(&state[seat].session) == session;
}

void supervisor_wait_progress(struct supervisor *supervisor)
{
    uint64_t before[SEATS];
    int64_t waited = 0, last = test_now();

    for (unsigned seat = 0; seat < SEATS; seat++)
        before[seat] = atomic_load(&supervisor->state->seats[seat].frames);
    for (;;) {
        unsigned late = SEATS;
        supervisor_poll(supervisor);
        for (unsigned seat = 0; seat < SEATS; seat++) {
            unsigned process = seat == SEAT_SECOND_THREAD ? SEAT_THREADS : seat;
            if (!supervisor->resting[process] && !is_forward(supervisor, seat, before[seat]))
                late = seat;
        }
        if (late == SEATS)
            return;
        int64_t now = test_now(), passed = now - last;
        waited += passed < MOST_A_LOOK ? passed : MOST_A_LOOK;
        last = now;
        if ((double)waited > supervisor_limit() * 1e9) {
            supervisor_show(supervisor, late == SEAT_SECOND_THREAD ? SEAT_THREADS : late);
            FAIL("nobody is killed or stopped, and yet '%s' has got %llu frames in %.1f s, session "
                 "%016llx, the writer's "
                 "is %016llx; seed %llu",
                 seat_names[late],
                 (unsigned long long)(atomic_load(&supervisor->state->seats[late].frames) - before[late]),
                 (double)waited / 1e9, (unsigned long long)atomic_load(&supervisor->state->seats[late].session),
                 (unsigned long long)atomic_load(&supervisor->state->seats[SEAT_WRITER].session),
                 (unsigned long long)supervisor->seed);
        }
        test_nap(SLUICE_MS);
    }
}

void supervisor_wait_end(struct supervisor *supervisor)
{
    for (unsigned seat = 0; seat < PROCESSES; seat++) {
        if (!supervisor->processes[seat].child.pid)
            continue;
        int status = child_wait(&supervisor->processes[seat].child, 5);
        if (status)
            FAIL("the process '%s' ended with status %d; seed %llu", seat_names[seat], status,
                 (unsigned long long)supervisor->seed);
    }
}

static void write_points(const struct supervisor *supervisor, FILE *out)
{
    fputs("\"points\":{", out);
    for (size_t p = 0; p < POINTS; p++)
        fprintf(out, "%s\"%s\":%llu", p ? "," : "", points[p].name, (unsigned long long)supervisor->at_point[p]);
    fputs("}\n", out);
}

void supervisor_report(const struct supervisor *supervisor, double seconds, bool all_points)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        { "seed", supervisor->seed },         { "kills", supervisor->kills },
        { "by_point", supervisor->by_point }, { "while_stopped", supervisor->while_stopped },
        { "stops", supervisor->stops },       { "starts", supervisor->starts },
    };
    uint64_t checked = 0;

    for (unsigned seat = 0; seat < SEATS; seat++)
        checked += atomic_load(&supervisor->state->seats[seat].checked);
    FILE *out = test_record("SLUICE_STORM_RECORD");
    fprintf(out, "\"seconds\":%.1f,\n\"frames_checked\":%llu,\n", seconds, (unsigned long long)checked);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        fprintf(out, "\"%s\":%llu,\n", counts[i].name, (unsigned long long)counts[i].value);
    write_points(supervisor, out);
    test_record_end(out);
    for (size_t p = 0; p < POINTS; p++)
        if (all_points && supervisor->at_point[p] == 0)
            FAIL("nobody was killed at %s", points[p].name);
}
