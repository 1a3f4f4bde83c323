/* SPDX-License-Identifier: MIT
 *
 * The process that starts the others, gives them jobs and prints their answers. It never uses the
 * driver itself, so that the forked ones can.
 */
#include "stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "actor.h"
#include "kit/memory.h"
#include "kit/processes.h"

#define TIMEOUT (100 * KIT_S) /* beyond the job's own time */

struct stage *stage;
const struct job *job;

static struct processes processes;
static const struct kind *all_kinds;
static size_t kind_count;

/* ---- processes ---- */

static const struct kind *find(const char *name)
{
    for (size_t i = 0; i < kind_count; i++)
        if (strcmp(all_kinds[i].name, name) == 0)
            return &all_kinds[i];
    return NULL;
}

static void act(void *argument, int index)
{
    uint32_t turn = *(uint32_t *)argument;
    cpus_keep_half(index > 0, 4);
    for (;;) {
        while (atomic_load(&stage->turn) == turn)
            futex_wait_for(&stage->turn, turn, KIT_S);
        turn = atomic_load(&stage->turn);
        if (index >= stage->actors)
            continue;
        actor_begin(index);
        find(job->name)->act(index);
        atomic_fetch_add(&stage->finished, 1);
        futex_wake(&stage->finished, INT_MAX);
    }
}

static bool start(int index)
{
    uint32_t turn = atomic_load(&stage->turn);
    if (process_start(&processes, act, &turn, index))
        return true;
    failure_set("no process: %s", strerror(errno));
    return false;
}

static bool has_failed(void)
{
    struct process_end end;
    if (!processes_reap(&processes, &end))
        return failure_text()[0] != 0;
    if (!failure_text()[0])
        failure_set("a process ended with %s %d", WIFSIGNALED(end.status) ? "signal" : "status",
                    WIFSIGNALED(end.status) ? WTERMSIG(end.status) : WEXITSTATUS(end.status));
    return true;
}

/* True when all have done the job. Else failure_text() says why, and no process may be left. */
static bool play(const struct kind *kind)
{
    int64_t until = clock_ns() + job->ns + TIMEOUT;
    stage->actors = kind->alone ? 1 : 1 + (int)job->readers;
    if (processes.count == 0 && !actor_sockets())
        return false;
    while ((int)processes.count < stage->actors)
        if (!start((int)processes.count))
            return false;
    atomic_fetch_add(&stage->turn, 1);
    futex_wake(&stage->turn, INT_MAX);
    for (uint32_t done; (done = atomic_load(&stage->finished)) != (uint32_t)stage->actors;) {
        if (clock_ns() > until)
            failure_set("it did not end in time");
        if (has_failed())
            return false;
        futex_wait_for(&stage->finished, done, 20 * KIT_MS);
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
    failure_clear();
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
    printf("{\"%s\": ", failure_is_missing() ? "missing" : "error");
    print_text(failure_text());
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
        printf("%s\"%s\": %lld", i ? ", " : "", stage->values[i].name, (long long)stage->values[i].number);
    puts("}}");
}

static void do_line(char *line)
{
    struct job next;
    bool good = parse(line, &next);
    const struct kind *kind = good ? find(next.name) : NULL;
    reset(&next);
    if (!kind) {
        failure_set("not a job: %.80s", line);
        print_failure();
    } else if (play(kind)) {
        print_answer();
    } else {
        processes_kill(&processes);
        print_failure();
    }
    fflush(stdout);
}

int stage_main(const struct kind *kinds, size_t count)
{
    char line[512];
    stage = memory_shared(sizeof *stage);
    if (!stage || !failure_open()) {
        perror("no shared memory");
        return 1;
    }
    all_kinds = kinds;
    kind_count = count;
    job = &stage->job;
    while (fgets(line, sizeof line, stdin))
        do_line(line);
    processes_close(&processes);
    return 0;
}
