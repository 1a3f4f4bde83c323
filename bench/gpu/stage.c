/* SPDX-License-Identifier: MIT
 *
 * The process that starts the others, tells them what to do and prints what they found. It never
 * uses the driver itself, so that those it forks can.
 */
#include "stage.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor.h"

#define PATIENCE (100 * INT64_C(1000000000)) /* beyond the time that a job has */

struct stage *stage;
const struct job *job;

static pid_t pids[MAX_READERS + 1];
static int started;

/* ---- processes ---- */

/* The writer gets one half of the CPUs that we may use, readers the other. */
static void keep_to_half(bool second)
{
    cpu_set_t all, half;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 4)
        return;
    CPU_ZERO(&half);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && (seen++ >= CPU_COUNT(&all) / 2) == second)
            CPU_SET(cpu, &half);
    sched_setaffinity(0, sizeof half, &half);
}

static const struct kind *find(const struct kind *kinds, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static void act(const struct kind *kinds, size_t count, int index, uint32_t turn)
{
    for (;;) {
        while (atomic_load(&stage->turn) == turn)
            sleep_on(&stage->turn, turn, INT64_C(1000000000));
        turn = atomic_load(&stage->turn);
        if (index >= stage->actors)
            continue;
        actor_begin(index);
        find(kinds, count, job->name)->act(index);
        atomic_fetch_add(&stage->finished, 1);
        wake(&stage->finished);
    }
}

static bool start(const struct kind *kinds, size_t count, int index)
{
    uint32_t turn = atomic_load(&stage->turn);
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        snprintf(stage->why, sizeof stage->why, "no process: %s", strerror(errno));
        return false;
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        keep_to_half(index > 0);
        act(kinds, count, index, turn);
    }
    pids[started++] = pid;
    return true;
}

static void kill_all(void)
{
    for (int i = 0; i < started; i++)
        if (pids[i] > 0)
            kill(pids[i], SIGKILL);
    for (int i = 0; i < started; i++)
        while (pids[i] > 0 && waitpid(pids[i], NULL, 0) < 0 && errno == EINTR)
            continue;
    started = 0;
}

static bool somebody_died(void)
{
    int status;
    pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0)
        return false;
    for (int i = 0; i < started; i++)
        if (pids[i] == pid)
            pids[i] = 0;
    if (!stage->why[0])
        snprintf(stage->why, sizeof stage->why, "a process ended with %s %d",
                 WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return true;
}

/* True when all have done the job. Else nobody is left, and `why` says why. */
static bool play(const struct kind *kinds, size_t count, const struct kind *kind)
{
    int64_t until = now_ns() + job->ns + PATIENCE;
    stage->actors = kind->alone ? 1 : 1 + (int)job->readers;
    if (started == 0 && !actor_sockets())
        return false;
    while (started < stage->actors)
        if (!start(kinds, count, started))
            return false;
    atomic_fetch_add(&stage->turn, 1);
    wake(&stage->turn);
    for (uint32_t done; (done = atomic_load(&stage->finished)) != (uint32_t)stage->actors;) {
        if (now_ns() > until)
            snprintf(stage->why, sizeof stage->why, "it did not end in time");
        if (somebody_died() || stage->why[0])
            return false;
        sleep_on(&stage->finished, done, 20000000);
    }
    return true;
}

/* ---- jobs in, answers out ---- */

static bool set_number(struct job *into, const char *name, int64_t number)
{
#define SET_NUMBER(field) \
    if (strcmp(name, #field) == 0) { \
        into->field = number; \
        return true; \
    }
    JOB_NUMBERS(SET_NUMBER)
#undef SET_NUMBER
    return false;
}

static bool parse(char *line, struct job *into)
{
    char *rest = NULL, *item = strtok_r(line, " \n", &rest);
    *into = (struct job){ .readers = 1, .ops = 1, .group = 1, .most = SAMPLES, .width = 1920, .height = 1080 };
    if (!item || strlen(item) >= sizeof into->name)
        return false;
    memcpy(into->name, item, strlen(item) + 1);
    while ((item = strtok_r(NULL, " \n", &rest))) {
        char *number = strchr(item, '=');
        if (!number)
            return false;
        *number++ = 0;
        if (!set_number(into, item, strtoll(number, NULL, 10)))
            return false;
    }
    return into->readers >= 0 && into->readers <= MAX_READERS && into->ops >= 1 && into->group >= 1 &&
           into->most >= 1 && into->most <= SAMPLES;
}

static void reset(const struct job *next)
{
    stage->job = *next;
    atomic_store(&stage->finished, 0);
    atomic_store(&stage->met, 0);
    atomic_store(&stage->last, 0);
    memset(stage->lanes, 0, sizeof stage->lanes);
    for (int i = 0; i < SETS; i++)
        stage->sets[i].name[0] = 0;
    memset(stage->values, 0, sizeof stage->values);
    for (int i = 0; i < WORDS; i++)
        atomic_store(&stage->words[i * LINE], 0);
    stage->why[0] = 0;
    stage->missing = false;
}

static void print_text(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text >= ' ')
            putchar(*text);
    putchar('"');
}

static void print_failure(void)
{
    printf("{\"%s\": ", stage->missing ? "missing" : "error");
    print_text(stage->why);
    puts("}");
}

static void print_answer(void)
{
    printf("{\"sets\": {");
    for (int i = 0; i < SETS && stage->sets[i].name[0]; i++) {
        const struct set *set = &stage->sets[i];
        printf("%s\"%s\": [", i ? ", " : "", set->name);
        for (uint32_t k = 0; k < set->count; k++)
            printf("%s%lld", k ? "," : "", (long long)set->at[k]);
        putchar(']');
    }
    printf("}, \"values\": {");
    for (int i = 0; i < VALUES && stage->values[i].name[0]; i++)
        printf("%s\"%s\": %lld", i ? ", " : "", stage->values[i].name,
               (long long)stage->values[i].number);
    puts("}}");
}

static void do_line(const struct kind *kinds, size_t count, char *line)
{
    struct job next;
    bool good = parse(line, &next);
    const struct kind *kind = good ? find(kinds, count, next.name) : NULL;
    reset(&next);
    if (!kind) {
        snprintf(stage->why, sizeof stage->why, "not a job: %.80s", line);
        print_failure();
    } else if (play(kinds, count, kind)) {
        print_answer();
    } else {
        kill_all();
        print_failure();
    }
    fflush(stdout);
}

int stage_main(const struct kind *kinds, size_t count)
{
    char line[512];
    stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stage == MAP_FAILED) {
        perror("no shared memory");
        return 1;
    }
    job = &stage->job;
    while (fgets(line, sizeof line, stdin))
        do_line(kinds, count, line);
    kill_all();
    return 0;
}
