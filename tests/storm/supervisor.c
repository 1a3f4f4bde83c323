/* SPDX-License-Identifier: MIT */
#include "storm/supervisor.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_A_LOOK (20 * SLUICE_MS) /* longer between two looks: it is we who were kept waiting \
                                      */

static const char *const seat_names[SEATS] = {
    "writer", "newest",  "in order", "holding",     "polling",      "observer",
    "opener", "threads", "chain",    "far polling", "far in order", "second thread",
};

/* ---- kill points ---- */

/* No call takes more than 2 s: a handshake, whose second is two on a busy machine. A process of a real GPU takes seconds
 * to start while others start and end. */
double crew_limit(void)
{
    return desk_is_slow() ? 20 * test_slowness() : 2 * test_patience();
}

enum { W = 1, R = 2, O = 4 }; /* who passes it: writers, readers, openers alone */

static const struct {
    const char *name;
    int who, often;
} points[] = {
    { "after_begin", W, 400 },     { "after_mark", W, 400 },     { "before_ready", W, 400 },
    { "before_publish", W, 400 },  { "before_head", W, 400 },    { "before_wake", W, 400 },
    { "after_announce", W, 2 },    { "before_numbering", W, 2 }, { "before_growing", W, 2 },
    { "after_retire_mark", W, 8 }, { "before_forget", W, 2 },    { "after_lock", W, 1 },
    { "before_rename", W, 1 },     { "after_listen", W, 1 },     { "before_welcome", W, 8 },
    { "before_memory", W, 8 },
    { "before_lease", R, 400 },    { "after_lease", R, 400 },    { "before_keep", R, 400 },
    { "after_keep", R, 400 },      { "after_acquire", R, 400 },  { "before_release", R, 400 },
    { "after_release", R, 400 },   { "before_switch", R, 1 },    { "after_hello", R, 1 },
    { "after_welcome", R, 1 },     { "before_ack", R, 4 },       { "before_bye", O, 8 },
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

/* The point that this one can reach and that has killed least. */
static void choose_point(struct crew *crew, unsigned seat, char *spec, size_t size)
{
    int best = -1;

    for (size_t i = 0, from = part_random(&crew->dice, POINTS); i < POINTS; i++) {
        size_t p = (from + i) % POINTS;
        if ((points[p].who & who_is(seat)) &&
            (best < 0 || crew->at_point[p] < crew->at_point[best]))
            best = (int)p;
    }
    if (best < 0 || part_chance(&crew->dice, 3))
        snprintf(spec, size, "-");
    else
        snprintf(spec, size, "%s:%u", points[best].name,
                 1 + (unsigned)part_random(&crew->dice, (uint64_t)points[best].often));
}

static void count_point(struct crew *crew, const char *name)
{
    for (size_t p = 0; p < POINTS; p++)
        if (strcmp(points[p].name, name) == 0) {
            crew->at_point[p]++;
            return;
        }
    FAIL("a process ended at the unknown kill point %s", name);
}

/* ---- starting and ending ---- */

static void start(struct crew *crew, unsigned seat)
{
    struct member *member = &crew->members[seat];
    char number[8], spec[48], random[24];

    snprintf(number, sizeof number, "%u", seat);
    snprintf(random, sizeof random, "%016llx",
             (unsigned long long)part_random(&crew->dice, UINT64_MAX));
    choose_point(crew, seat, spec, sizeof spec);
    memset(crew->board->seats[seat].died_at, 0, POINT_NAME);
    const char *const argv[] = {
        "/proc/self/exe", "--role", "part.part", number, spec, random, NULL
    };
    *member = (struct member){ .child = child_start(argv), .born_ns = test_now() };
    crew->starts++;
}

void crew_begin(struct crew *crew, struct board *board, uint64_t seed)
{
    *crew = (struct crew){
        .board = board, .seed = seed, .dice = { .random = seed | 1 }, .looked_ns = test_now()
    };
}

void crew_start(struct crew *crew)
{
    for (unsigned seat = 0; seat < PROCESSES; seat++)
        if (!crew->members[seat].child.pid && !crew->resting[seat])
            start(crew, seat);
}

static void ended(struct crew *crew, unsigned seat)
{
    const struct seat *board = &crew->board->seats[seat];
    int status = crew->members[seat].child.status;

    if (status != -SIGKILL)
        FAIL("the process '%s' ended with status %d; seed %llu", seat_names[seat], status,
             (unsigned long long)crew->seed);
    crew->kills++;
    if (board->died_at[0]) {
        crew->by_point++;
        count_point(crew, board->died_at);
    }
    crew->members[seat].stopped = false;
    if (!crew->resting[seat])
        start(crew, seat);
}

void crew_kill(struct crew *crew, unsigned seat)
{
    struct member *member = &crew->members[seat];

    if (!member->child.pid)
        return;
    crew->while_stopped += member->stopped;
    child_kill(&member->child, SIGKILL);
    ended(crew, seat);
}

void crew_stop(struct crew *crew, unsigned seat, int64_t ns)
{
    struct member *member = &crew->members[seat];

    if (!member->child.pid || member->stopped)
        return;
    kill(member->child.pid, SIGSTOP);
    member->stopped = true;
    member->go_on_ns = test_now() + ns;
    crew->stops++;
}

static void go_on(struct member *member)
{
    if (member->stopped && member->child.pid)
        kill(member->child.pid, SIGCONT);
    member->stopped = false;
    member->still_ns[0] = member->still_ns[1] = 0;
}

void crew_go_on(struct crew *crew)
{
    for (unsigned seat = 0; seat < PROCESSES; seat++)
        go_on(&crew->members[seat]);
}

/* ---- who comes no further ---- */

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

void crew_show(const struct crew *crew, unsigned seat)
{
    pid_t pid = crew->members[seat].child.pid;
    char command[160], path[64];

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    snprintf(command, sizeof command, "gdb -batch -p %d -ex 'thread apply all bt' 2>/dev/null 1>&2",
             (int)pid);
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

static void check_beat(struct crew *crew, unsigned seat, unsigned thread, unsigned at,
                       int64_t passed)
{
    struct member *member = &crew->members[at];
    struct seat *board = &crew->board->seats[seat];
    uint64_t beat = atomic_load(&board->beat), doing = atomic_load(&board->doing);

    if (beat != member->beat[thread] || member->stopped) {
        member->beat[thread] = beat;
        member->still_ns[thread] = 0;
        return;
    }
    member->still_ns[thread] += passed;
    if ((double)member->still_ns[thread] < crew_limit() * 1e9)
        return;
    crew_show(crew, at);
    FAIL("the process '%s' has been in '%.8s' for %.1f s; seed %llu", seat_names[seat],
         (const char *)&doing, (double)member->still_ns[thread] / 1e9,
         (unsigned long long)crew->seed);
}

void crew_look(struct crew *crew)
{
    int64_t now = test_now(), passed = now - crew->looked_ns;

    crew->looked_ns = now;
    if (passed > MOST_A_LOOK)
        passed = MOST_A_LOOK;
    for (unsigned seat = 0; seat < PROCESSES; seat++) {
        struct member *member = &crew->members[seat];
        if (member->child.pid && child_ended(&member->child))
            ended(crew, seat);
        if (!member->child.pid)
            continue;
        if (member->stopped && now >= member->go_on_ns)
            go_on(member);
        check_beat(crew, seat, 0, seat, passed);
        if (seat == SEAT_THREADS)
            check_beat(crew, SEAT_SECOND_THREAD, 1, seat, passed);
    }
}

/* ---- in fair weather ---- */

#define ENOUGH_FRAMES 3

static bool is_forward(const struct crew *crew, unsigned seat, uint64_t before)
{
    const struct seat *board = crew->board->seats;
    bool far = seat == SEAT_FAR_POLLING || seat == SEAT_FAR_IN_ORDER;
    uint64_t session = atomic_load(&board[far ? SEAT_CHAIN : SEAT_WRITER].session);

    if (atomic_load(&board[seat].frames) < before + ENOUGH_FRAMES)
        return false;
    return seat == SEAT_OBSERVER || seat == SEAT_CHAIN ||
           atomic_load(&board[seat].session) == session;
}

void crew_all_forward(struct crew *crew)
{
    uint64_t before[SEATS];
    int64_t waited = 0, last = test_now();

    for (unsigned seat = 0; seat < SEATS; seat++)
        before[seat] = atomic_load(&crew->board->seats[seat].frames);
    for (;;) {
        unsigned late = SEATS;
        crew_look(crew);
        for (unsigned seat = 0; seat < SEATS; seat++) {
            unsigned process = seat == SEAT_SECOND_THREAD ? SEAT_THREADS : seat;
            if (!crew->resting[process] && !is_forward(crew, seat, before[seat]))
                late = seat;
        }
        if (late == SEATS)
            return;
        int64_t now = test_now(), passed = now - last;
        waited += passed < MOST_A_LOOK ? passed : MOST_A_LOOK;
        last = now;
        if ((double)waited > crew_limit() * 1e9) {
            crew_show(crew, late == SEAT_SECOND_THREAD ? SEAT_THREADS : late);
            FAIL("nobody is killed or stopped, and yet '%s' has got %llu frames in %.1f s, session "
                 "%016llx, the writer's "
                 "is %016llx; seed %llu",
                 seat_names[late],
                 (unsigned long long)(atomic_load(&crew->board->seats[late].frames) - before[late]),
                 (double)waited / 1e9,
                 (unsigned long long)atomic_load(&crew->board->seats[late].session),
                 (unsigned long long)atomic_load(&crew->board->seats[SEAT_WRITER].session),
                 (unsigned long long)crew->seed);
        }
        test_nap(SLUICE_MS);
    }
}

void crew_wait_end(struct crew *crew)
{
    for (unsigned seat = 0; seat < PROCESSES; seat++) {
        if (!crew->members[seat].child.pid)
            continue;
        int status = child_wait(&crew->members[seat].child, 5);
        if (status)
            FAIL("the process '%s' ended with status %d; seed %llu", seat_names[seat], status,
                 (unsigned long long)crew->seed);
    }
}

static void write_points(const struct crew *crew, FILE *out)
{
    fputs("\"points\":{", out);
    for (size_t p = 0; p < POINTS; p++)
        fprintf(out, "%s\"%s\":%llu", p ? "," : "", points[p].name,
                (unsigned long long)crew->at_point[p]);
    fputs("}\n", out);
}

void crew_report(const struct crew *crew, double seconds, bool all_points)
{
    const struct { const char *name; uint64_t value; } counts[] = {
        { "seed", crew->seed },         { "kills", crew->kills },
        { "by_point", crew->by_point }, { "while_stopped", crew->while_stopped },
        { "stops", crew->stops },       { "starts", crew->starts },
    };
    uint64_t checked = 0;

    for (unsigned seat = 0; seat < SEATS; seat++)
        checked += atomic_load(&crew->board->seats[seat].checked);
    FILE *out = test_record("SLUICE_STORM_RECORD");
    fprintf(out, "\"seconds\":%.1f,\n\"frames_checked\":%llu,\n", seconds,
            (unsigned long long)checked);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        fprintf(out, "\"%s\":%llu,\n", counts[i].name, (unsigned long long)counts[i].value);
    write_points(crew, out);
    test_record_end(out);
    for (size_t p = 0; p < POINTS; p++)
        if (all_points && crew->at_point[p] == 0)
            FAIL("nobody was killed at %s", points[p].name);
}
