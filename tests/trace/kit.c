/* SPDX-License-Identifier: MIT */
#include "trace/kit.h"

#include <stdlib.h>
#include <string.h>

#define THREADS 32

static char path[512];

void tool_use(const char *level, const char *act)
{
    snprintf(path, sizeof path, "%s/record.txt", test_dir());
    setenv("TOOL_RECORD", path, 1);
    setenv("TOOL_ACT", act, 1);
    setenv("NVTX_INJECTION64_PATH", TOOL, 1);
    setenv("SLUICE_NVTX", level, 1);
}

const char *tool_record(void)
{
    static char text[1 << 18];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;

    if (file)
        fclose(file);
    text[size] = 0;
    return text;
}

struct thread {
    long id;
    int depth;
    size_t used;
    char open[16][64], text[1 << 14];
};

static struct thread *thread_of(struct thread *threads, long id)
{
    for (int i = 0; i < THREADS; i++) {
        if (threads[i].id == 0)
            threads[i].id = id;
        if (threads[i].id == id)
            return &threads[i];
    }
    FAIL("over %d threads", THREADS);
}

static void add(struct thread *thread, const char *name, const char *mark)
{
    thread->used +=
        (size_t)snprintf(thread->text + thread->used, sizeof thread->text - thread->used, "%s%s", name, mark);
    CHECK_LE(thread->used, sizeof thread->text - 100);
}

static void take_line(struct thread *threads, const char *line, bool *running)
{
    long id;
    char what[16], rest[200] = "";
    unsigned long long range;

    CHECK_GE(sscanf(line, "%ld %15s %199[^\n]", &id, what, rest), 2);
    struct thread *thread = thread_of(threads, id);
    if (strstr(rest, "BAD"))
        FAIL("the tool does not understand: %s", line);
    const char *name = strstr(rest, "sluice/") ? strstr(rest, "sluice/") + 7 : "";
    if (strcmp(what, "push") == 0) {
        CHECK_LE(thread->depth, 15);
        snprintf(thread->open[thread->depth++], sizeof thread->open[0], "%s", name);
        add(thread, name, "(");
    } else if (strcmp(what, "pop") == 0) {
        CHECK_GE(thread->depth, 1);
        thread->depth--;
        add(thread, "", ")");
    } else if (strcmp(what, "start") == 0) {
        CHECK_EQ(sscanf(rest, "%llu", &range), 1);
        CHECK(range < 4096 && !running[range]);
        running[range] = true;
    } else if (strcmp(what, "end") == 0) {
        CHECK_EQ(sscanf(rest, "%llu", &range), 1);
        CHECK(range < 4096 && running[range]);
        running[range] = false;
    } else {
        CHECK_STR(what, "domain");
    }
}

const char *tool_tree(void)
{
    static char tree[1 << 18];
    struct thread *threads = calloc(THREADS, sizeof *threads);
    bool *running = calloc(4096, sizeof *running);
    char *text = strdup(tool_record()), *rest = text, *line;

    while ((line = strsep(&rest, "\n")))
        if (*line)
            take_line(threads, line, running);
    tree[0] = 0;
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(threads[i].depth, 0);
        strcat(tree, threads[i].text);
        strcat(tree, threads[i].used ? "\n" : "");
    }
    for (int i = 0; i < 4096; i++)
        CHECK(!running[i]);
    free(text);
    free(threads);
    free(running);
    return tree;
}

/* ---- the log ---- */

static int count;
static char last[1024];

static void catch (void *user, enum sluice_log_level level, const char *text)
{
    (void)user;
    (void)level;
    count++;
    snprintf(last, sizeof last, "%s", text);
}

void log_catch(int level)
{
    sluice_log_set(catch, NULL, (enum sluice_log_level)level);
}

int log_count(void)
{
    return count;
}

const char *log_last(void)
{
    return last;
}
