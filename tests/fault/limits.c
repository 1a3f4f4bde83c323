/* SPDX-License-Identifier: MIT
 *
 * The real limits of a process, lowered step by step.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "fault/scenario.h"
#include "harness/test.h"

#define PATIENCE (200 * SLUICE_MS) /* what fails here keeps failing */
#define FOR_SURE (20 * SLUICE_S)   /* for what must succeed: only a hang takes longer */

static void limit(int resource, rlim_t value, struct rlimit *before)
{
    CHECK_EQ(getrlimit((__rlimit_resource_t)resource, before), 0);
    struct rlimit now = { .rlim_cur = value, .rlim_max = before->rlim_max };
    CHECK_EQ(setrlimit((__rlimit_resource_t)resource, &now), 0);
}

/* One life under a limit; true if it succeeded. */
static bool live_under(int resource, rlim_t value, int64_t patience, const struct resources_held *before,
                       const char *what)
{
    struct outcome outcome;
    struct rlimit free_limit;
    char when[256];

    limit(resource, value, &free_limit);
    scenario_run(&outcome, patience);
    CHECK_EQ(setrlimit((__rlimit_resource_t)resource, &free_limit), 0);
    if (outcome.step) {
        fprintf(stderr, "%s %llu: %s: %s: %s\n", what, (unsigned long long)value, outcome.step,
                sluice_result_name(outcome.result), outcome.sentence);
        CHECK(strcmp(sluice_result_name(outcome.result), "?") != 0);
        CHECK_GE(strlen(outcome.sentence), 12);
    }
    snprintf(when, sizeof when, "%s at %llu, %s", what, (unsigned long long)value, outcome.step ? outcome.step : "-");
    resources_held_check(before, when);
    return !outcome.step;
}

static struct resources_held warm_up(void)
{
    struct outcome outcome;

    test_dir();
    scenario_run(&outcome, FOR_SURE);
    if (outcome.step)
        FAIL("without a limit %s gave %s: %s", outcome.step, sluice_result_name(outcome.result), outcome.sentence);
    return resources_held_now();
}

TEST_TIMEOUT(few_descriptors, 120)
{
    struct resources_held before = warm_up();
    rlim_t used = (rlim_t)before.of_system.fds, most = used + 60, value = used;

    while (value < most && !live_under(RLIMIT_NOFILE, value, PATIENCE, &before, "RLIMIT_NOFILE"))
        value++;
    CHECK_LE(value, most - 1);
    CHECK(live_under(RLIMIT_NOFILE, most, FOR_SURE, &before, "RLIMIT_NOFILE"));
}

TEST_TIMEOUT(small_files, 120)
{
    struct resources_held before = warm_up();
    struct outcome outcome;
    struct rlimit free_limit;

    /* Memory objects count as files. */
    for (rlim_t value = 0; value < 200000; value += 20000)
        live_under(RLIMIT_FSIZE, value, PATIENCE, &before, "RLIMIT_FSIZE");
    limit(RLIMIT_FSIZE, 4096, &free_limit);
    scenario_run(&outcome, PATIENCE);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &free_limit), 0);
    CHECK_STR(outcome.step, "writer_open");
    CHECK_EQ(outcome.result, SLUICE_E_NO_MEMORY);
    CHECK_HAS(outcome.sentence, "RLIMIT_FSIZE");
    CHECK(live_under(RLIMIT_FSIZE, 64 << 20, FOR_SURE, &before, "RLIMIT_FSIZE"));
}

static rlim_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return (rlim_t)pages * 4096;
}

TEST_TIMEOUT(little_address_space, 120)
{
    if (test_slowness() > 1)
        SKIP("sanitizers take all of the address space");
    struct resources_held before = warm_up();
    rlim_t used = address_space();

    for (rlim_t more = 0; more < 4 << 20; more += 48 << 10)
        live_under(RLIMIT_AS, used + more, PATIENCE, &before, "RLIMIT_AS");
    CHECK(live_under(RLIMIT_AS, used + (256 << 20), FOR_SURE, &before, "RLIMIT_AS"));
}

/* ---- a full memory cgroup ---- */

static bool write_text(const char *folder, const char *name, const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    bool good = fputs(text, file) >= 0;
    return fclose(file) == 0 && good;
}

/* A group for this test below the present one; false if that is not possible. */
static bool make_group(char *folder, size_t size, const char *bytes)
{
    static const char *const roots[][2] = { { "/sys/fs/cgroup/memory", "memory.limit_in_bytes" },
                                            { "/sys/fs/cgroup", "memory.max" } };

    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        snprintf(folder, size, "%s/sluice-test-%d", roots[i][0], (int)getpid());
        if (mkdir(folder, 0700) < 0)
            continue;
        if (write_text(folder, roots[i][1], bytes))
            return true;
        rmdir(folder);
    }
    return false;
}

/* Asks for more than its group has, in slots of a megabyte, and prints the error. */
ROLE(greedy)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_dtype byte = { SLUICE_UINT, 8, 1 };
    int64_t bytes = 1 << 20;
    sluice_writer *writer;

    CHECK(write_text(argv[1], "cgroup.procs", "0"));
    CHECK_OK(sluice_format_add_tensor(&format, "data", byte, 1, &bytes));
    params.name = CHANNEL;
    params.format = &format;
    params.slots = params.max_slots = 64;
    int r = sluice_writer_open(&writer, &params);
    role_say("%s", sluice_result_name(r));
    fprintf(stderr, "%s\n", sluice_last_error());
    return 0;
}

TEST_TIMEOUT(full_memory_cgroup, 60)
{
    char folder[128];

    if (test_slowness() > 1)
        SKIP("sanitizers need more than the group has");
    if (!make_group(folder, sizeof folder, "33554432"))
        SKIP("no memory cgroup can be made here");
    test_dir();
    struct child greedy = role_start("greedy", folder, NULL);
    const char *said = child_line(&greedy, 30);
    char answer[64];
    snprintf(answer, sizeof answer, "%s", said ? said : "killed");
    int status = child_wait(&greedy, 10);
    CHECK_SOON(rmdir(folder) == 0, 5);
    CHECK_STR(answer, "E_NO_MEMORY");
    CHECK_EQ(status, 0);
}
