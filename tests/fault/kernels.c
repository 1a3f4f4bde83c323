/* SPDX-License-Identifier: MIT
 *
 * The same for kernels on host: a source is compiled, kept in the cache, loaded again, launched on threads, with host
 * arrays, in a graph, in parallel sections. Each call fails in turn: the step reports it or does without, nothing is
 * left behind, and the next life is not affected.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "fault/scenario.h"
#include "fault/wrap.h"
#include "harness/test.h"
#include "os/os.h"

#define COUNT 10000

static const char source[] = "__global__ void twice(int *out, const int *in, int n)\n"
                             "{\n"
                             "    __shared__ int s;\n"
                             "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    if (threadIdx.x == 0)\n"
                             "        s = 2;\n"
                             "    __syncthreads();\n"
                             "    if (i < n)\n"
                             "        out[i] = in[i] * s;\n"
                             "}\n";

static char cache[300], temp[300];
static int in[COUNT], out[COUNT];

struct life {
    struct outcome outcome;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_module modules[2];
    struct sluice_kernel kernel;
    struct sluice_graph graph;
    void *memory;
};

static bool went(struct life *life, const char *step, int result)
{
    if (result == 0)
        return true;
    if (!life->outcome.step) {
        life->outcome.step = step;
        life->outcome.result = result;
        snprintf(life->outcome.sentence, sizeof life->outcome.sentence, "%s", sluice_last_error());
    }
    return false;
}

static int launch(struct life *life, struct sluice_stream stream, void *to)
{
    struct sluice_launch shape = { .size = sizeof shape, .over = { COUNT }, .block = { 64 } };
    struct sluice_argument arguments[] = { SLUICE_MEMORY(to), SLUICE_HOST(in, sizeof in), SLUICE_INTEGER(COUNT) };

    if (to == out)
        arguments[0] = SLUICE_HOST(out, sizeof out);
    else
        arguments[1] = SLUICE_MEMORY(in);
    return sluice_launch(life->kernel, stream, &shape, arguments, 3);
}

static bool right(const int *found)
{
    for (int i = 0; i < COUNT; i++)
        if (found[i] != 2 * i)
            return false;
    return true;
}

static bool load(struct life *life)
{
    struct sluice_module_params params = { .size = sizeof params, .name = "fx.cu" };

    for (int i = 0; i < 2; i++) /* compiled, from the cache */
        if (!went(life, "load", sluice_module_load(life->device, source, strlen(source), &params, &life->modules[i])))
            return false;
    return went(life, "get", sluice_kernel_get(life->modules[1], "twice", &life->kernel));
}

static bool run(struct life *life)
{
    memset(out, 0, sizeof out);
    if (!went(life, "launch", launch(life, life->stream, out)))
        return false;
    CHECK(right(out));
    if (!went(life, "alloc", sluice_memory_alloc(life->device, life->stream, sizeof out, &life->memory)) ||
        !went(life, "launch on scratch memory", launch(life, life->stream, life->memory)))
        return false;
    CHECK(right(life->memory));
    return true;
}

/* A capture that has begun is ended, whatever failed in it. */
static bool capture(struct life *life)
{
    struct sluice_stream streams[2];

    if (!went(life, "begin", sluice_capture_begin(life->stream)))
        return false;
    if (went(life, "fork", sluice_fork(life->stream, 2, streams))) {
        went(life, "launch in a capture", launch(life, streams[1], life->memory));
        went(life, "join", sluice_join(life->stream, 2, streams));
    }
    return went(life, "end", sluice_capture_end(life->stream, &life->graph)) && !life->outcome.step;
}

static bool replay(struct life *life)
{
    for (int i = 0; i < 2; i++) { /* made, updated */
        if (!capture(life))
            return false;
        memset(life->memory, 0, sizeof out);
        if (!went(life, "graph_launch", sluice_graph_launch(life->graph, life->stream)))
            return false;
        CHECK(right(life->memory));
    }
    return went(life, "free", sluice_memory_free(life->stream, &life->memory));
}

static void live(struct life *life)
{
    *life = (struct life){ .memory = NULL };
    if (went(life, "device_open", sluice_device_open(&life->device, "host"))) {
        (void)(went(life, "stream_create", sluice_stream_create(life->device, NULL, &life->stream)) && load(life) &&
               run(life) && replay(life));
        CHECK_OK(sluice_graph_destroy(&life->graph));
        CHECK_OK(sluice_device_close(&life->device)); /* and all that is left of it */
    }
}

/* ---- what is there ---- */

/* So that the next life compiles again. Returns how many files there were. */
static long empty(const char *folder)
{
    char path[600];
    struct dirent *entry;
    long count = 0;
    DIR *dir = opendir(folder);

    while (dir && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' && (!entry->d_name[1] || entry->d_name[1] == '.'))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        count++;
        unlink(path);
    }
    if (dir)
        closedir(dir);
    return count;
}

/* The compiler is asked once; then the same comes at once. */
static void prepare(void)
{
    char path[400], script[6000];
    struct sl_os_program program;

    if (!sl_os_find_program("g++", &program))
        SKIP("no g++");
    snprintf(path, sizeof path, "%s/c++", test_dir());
    snprintf(cache, sizeof cache, "%s/cache", test_dir());
    snprintf(temp, sizeof temp, "%s/temp", test_dir());
    CHECK(mkdir(cache, 0700) == 0 && mkdir(temp, 0700) == 0);
    snprintf(script, sizeof script,
             "#!/bin/sh\n"
             "for word; do\n"
             "    [ \"$word\" != --version ] || exit 0\n"
             "    [ \"$before\" != -o ] || output=$word\n"
             "    before=$word\n"
             "done\n"
             "[ -f '%s/kept' ] || %s \"$@\" -o '%s/kept' || exit 1\n"
             "exec cp '%s/kept' \"$output\"\n",
             test_dir(), program.path, test_dir(), test_dir());
    CHECK_OK(sl_os_file_write(path, script, strlen(script)));
    CHECK(setenv("SLUICE_CXX", path, 1) == 0 && setenv("SLUICE_CACHE", cache, 1) == 0 &&
          setenv("TMPDIR", temp, 1) == 0 && setenv("SLUICE_HOST_THREADS", "2", 1) == 0);
    for (int i = 0; i < COUNT; i++)
        in[i] = i;
}

static void check_clean(const struct resources_held *before, const char *when)
{
    long files = empty(cache);

    resources_held_check(before, when);
    if (empty(temp) != 0)
        FAIL("%s: a file of the compilation is left", when);
    if (files > 1)
        FAIL("%s: the cache has %ld files", when, files);
}

static void check_report(const struct outcome *outcome, bool fired, const char *when)
{
    if (!fired)
        FAIL("%s: nothing failed, and %s gave %s: %s", when, outcome->step, sluice_result_name(outcome->result),
             outcome->sentence);
    fprintf(stderr, "%s: %s: %s: %s\n", when, outcome->step, sluice_result_name(outcome->result), outcome->sentence);
    if (outcome->result >= 0 || strcmp(sluice_result_name(outcome->result), "?") == 0 || strlen(outcome->sentence) < 12)
        FAIL("%s: %s gave %d and the sentence \"%s\"", when, outcome->step, outcome->result, outcome->sentence);
}

static void fail_each(enum fault_call call, const char *name, const int *errors, size_t error_count)
{
    struct life life;
    char when[100];
    long reported = 0, survived = 0;

    prepare();
    for (int i = 0; i < 2; i++) { /* tables get their size */
        live(&life);
        if (life.outcome.step)
            FAIL("nothing was made to fail, and %s gave %s", life.outcome.step, life.outcome.sentence);
        empty(cache);
    }
    struct resources_held before = resources_held_now();
    for (size_t e = 0; e < error_count; e++) {
        bool fired = true;
        for (long nth = 1; fired; nth++) {
            snprintf(when, sizeof when, "%s, call %ld with %s", name, nth, strerrorname_np(errors[e]));
            fault_arm(call, nth, errors[e]);
            live(&life);
            fired = fault_disarm();
            if (life.outcome.step)
                check_report(&life.outcome, fired, when);
            reported += life.outcome.step != NULL;
            survived += fired && !life.outcome.step;
            check_clean(&before, when);
            live(&life);
            if (life.outcome.step)
                FAIL("%s failed, and in the next life %s gave %s", when, life.outcome.step, life.outcome.sentence);
            check_clean(&before, when);
        }
    }
    fprintf(stderr, "%s: %ld failures were reported, %ld survived\n", name, reported, survived);
    if (reported + survived == 0)
        FAIL("%s is never called", name);
}

#define KERNEL_TEST(name, ...) \
    TEST_TIMEOUT(kernels_##name, 120) \
    { \
        static const int errors[] = { __VA_ARGS__ }; \
        fail_each(FAULT_##name, #name, errors, sizeof errors / sizeof errors[0]); \
    }
FAULT_KERNEL_CALLS(KERNEL_TEST)
KERNEL_TEST(malloc, ENOMEM)
KERNEL_TEST(calloc, ENOMEM)
KERNEL_TEST(realloc, ENOMEM)
KERNEL_TEST(memfd_create, EMFILE, ENOMEM)
KERNEL_TEST(open, EMFILE, EACCES)
KERNEL_TEST(openat, EMFILE, EACCES)

/* Then the thread of the launch does all the work. */
TEST(kernels_run_where_no_thread_can_be_made)
{
    struct life life;

    prepare();
    fault_arm(FAULT_pthread_create, 1, EAGAIN);
    live(&life);
    CHECK(fault_disarm());
    if (life.outcome.step)
        FAIL("%s gave %s", life.outcome.step, life.outcome.sentence);
}
