/* SPDX-License-Identifier: MIT
 *
 * Ten thousand openings and closings: a process is as large after the last one as after the first few hundred.
 * SLUICE_SOAK_PROCESSES is the number of processes (500).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "multi/kit.h"

#define CYCLES     10000
#define LOOKS      20
#define MORE_BYTES 4096 /* the growth of malloc: less than a byte for each cycle */
#define MORE_KIB   512  /* the growth of the process: pages come and go */

struct size {
    struct resources resources;
    struct process_memory memory;
};

static struct size size_now(void)
{
    return (struct size){ resources_now(), process_memory(getpid()) };
}

static void check_same(const struct size *before, const char *what, long cycle)
{
    char when[64];

    snprintf(when, sizeof when, "%s, cycle %ld", what, cycle);
    resources_check(&before->resources, when);
    struct size now = size_now();
    CHECK_EQ(now.resources.fds, before->resources.fds);
    if (test_slowness() > 1) /* sanitizers keep freed memory, and check for leaks themselves */
        return;
    if (now.resources.bytes > before->resources.bytes + MORE_BYTES ||
        now.memory.resident > before->memory.resident + MORE_KIB)
        FAIL("%s: %zu bytes from malloc (%zu before), %ld KiB in all (%ld)", when, now.resources.bytes,
             before->resources.bytes, now.memory.resident, before->memory.resident);
}

/* The first check is the reference. */
static void cycle(void (*once)(long number), const char *what)
{
    long all = test_scale(CYCLES), stride = all / LOOKS > 0 ? all / LOOKS : 1;
    struct size before = { .memory = { 0 } };

    for (long i = 1; i <= all; i++) {
        once(i);
        if (i == stride)
            before = size_now();
        else if (i % stride == 0)
            check_same(&before, what, i);
    }
}

static void open_a_writer(long number)
{
    struct sluice_format format = kit_format(8192);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    sluice_writer *writer;

    CHECK_OK(sluice_writer_open(&writer, &params));
    if (number % 4 == 0)
        kit_commits(writer, 2);
    if (number % 16 == 0) {
        format = kit_format(16384);
        CHECK_OK(sluice_writer_reformat(writer, &format));
        kit_commits(writer, 1);
    }
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(a_writer_opens_ten_thousand_times, 300)
{
    test_dir();
    /* A reader that stays for all of them. */
    struct child reader = kit_start("reader", "open_ms=-1", NULL);
    child_expect(&reader, "open", 5);
    EXPECT_ANSWER(&reader, "run", "running");
    cycle(open_a_writer, "a writer was closed");
    int fds = process_fds(reader.pid);
    CHECK_HAS(ask(&reader, "stats"), "torn 0");
    CHECK_LE(fds, 20);
    role_stop(&reader);
    folder_check(true);
}

static void open_a_reader(long number)
{
    struct sluice_reader_params params = kit_reader_params("cam");
    struct sluice_channel_info info = { .size = sizeof info };
    sluice_reader *reader;

    params.mode = number % 2 ? SLUICE_IN_ORDER : SLUICE_NEWEST;
    params.open_timeout_ns = number % 8 == 7 ? SLUICE_LATER : 20 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    if (number % 4 == 0) {
        struct sluice_frame frame = kit_take(reader);
        kit_give(reader, &frame);
    }
    if (number % 8 == 0)
        CHECK_GE(sluice_reader_fd(reader), 0);
    if (number % 16 == 0)
        CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, NULL, 0));
    CHECK_OK(sluice_reader_close(&reader));
}

TEST_TIMEOUT(a_reader_opens_ten_thousand_times, 300)
{
    test_dir();
    struct child writer = kit_start("writer", NULL);
    child_expect(&writer, "open", 5);
    EXPECT_ANSWER(&writer, "run 1000", "running");
    cycle(open_a_reader, "a reader was closed");
    CHECK_HAS(ask(&writer, "stats"), "dropped 0 ");
    /* The last goodbye may still be in flight. */
    CHECK_SOON(strstr(ask(&writer, "stats"), "readers 0 "), 10);
    role_stop(&writer);
}

/* The life of a reader: a frame, and then it closes, exits, or is killed. */
ROLE(short_lived)
{
    sluice_reader *reader = kit_newest(20 * SLUICE_S);
    struct sluice_frame frame = kit_take(reader);

    switch (atoi(argv[1])) {
    case 0:
        kit_give(reader, &frame);
        CHECK_OK(sluice_reader_close(&reader));
        return 0;
    case 1: _exit(0);
    default: raise(SIGKILL); return 1;
    }
}

TEST_TIMEOUT(processes_come_and_go, 3600)
{
    const char *wanted = getenv("SLUICE_SOAK_PROCESSES");
    long all = wanted && *wanted ? strtol(wanted, NULL, 10) : test_scale(500), died = 0;
    sluice_writer *writer = kit_writer("cam", 8192);
    struct size before = size_now();

    kit_commits(writer, 1);
    for (long i = 1; i <= all; i++) {
        static const char *const ends[] = { "0", "1", "2" };
        struct child child = role_start("short_lived", ends[i % 3], NULL);
        kit_commits(writer, 1);
        CHECK_EQ(child_wait(&child, 10), i % 3 == 2 ? -SIGKILL : 0);
        died += i % 3 != 0;
        if (i % 50 != 0 && i != all)
            continue;
        CHECK_SOON(kit_writer_stats(writer).readers == 0, 5);
        if (i == 50)
            before = size_now();
        else if (i > 50)
            check_same(&before, "a process ended", i);
    }
    CHECK_EQ(kit_writer_stats(writer).readers_total, all);
    CHECK_EQ(kit_writer_stats(writer).readers_died, died);
    CHECK_OK(sluice_writer_close(&writer));
    folder_check(true);
}
