/* SPDX-License-Identifier: MIT
 *
 * Processes that live on while others die around them: they keep nothing of the dead.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness/resources.h"
#include "harness/test.h"
#include "storm/content.h"

#define NAME         "survivor"
#define READERS      4
#define ROUND        20          /* kills between two checks */
#define ENOUGH_BYTES (32 * 1024) /* what malloc may have grown by: less than a round's connections need */

static sluice_writer *open_writer(struct sluice_format *format)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer;

    content_format(format, 0, 4);
    params.name = NAME;
    params.format = format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static sluice_reader *open_reader(uint32_t mode, uint32_t hold)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    params.name = NAME;
    params.mode = mode;
    params.hold = hold;
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

static void write_frames(sluice_writer *writer, int count)
{
    struct sluice_frame frame;

    while (count > 0) {
        int r = sluice_writer_begin(writer, SLUICE_DEFAULT, &frame);
        if (r == SLUICE_NO_SLOT)
            continue;
        CHECK_OK(r);
        CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
        count--;
    }
}

/* Until it is killed, or the test that started it ends. */
ROLE(reads)
{
    sluice_reader *reader = open_reader((uint32_t)strtoul(argv[1], NULL, 10), 2);
    struct sluice_frame frames[2];
    int held = 0;

    while (getppid() > 1) {
        int r = sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frames[held]);
        CHECK_GE(r, 0);
        held += r == 0;
        if (held == 2)
            CHECK_OK(sluice_reader_release(reader, &frames[--held], SLUICE_ON_CPU));
    }
    return 0;
}

ROLE(writes)
{
    struct sluice_format format;
    sluice_writer *writer = open_writer(&format);

    while (getppid() > 1) {
        write_frames(writer, 1);
        test_nap(SLUICE_MS / 5);
    }
    return 0;
}

static uint32_t readers_of(sluice_writer *writer)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_writer_stats(writer, &stats));
    return stats.readers;
}

/* With all readers dead and new slots, it has what a new writer has. */
static struct resources settle(sluice_writer *writer, const struct sluice_format *format)
{
    CHECK_SOON(readers_of(writer) == 0, 2);
    CHECK_OK(sluice_writer_reformat(writer, format));
    write_frames(writer, 20);
    return resources_now();
}

static void check_same(const struct resources *before, const struct resources *now)
{
    CHECK_EQ(now->fds, before->fds);
    CHECK_EQ(now->mappings, before->mappings);
    CHECK_EQ(now->threads, before->threads);
    if (test_slowness() <= 1) /* sanitizers have a malloc of their own, and check for leaks themselves */
        CHECK_LE(now->bytes, before->bytes + ENOUGH_BYTES);
}

TEST_TIMEOUT(writer_keeps_nothing_of_dead_readers, 120)
{
    static const char *const modes[] = { "0", "1" };
    struct child readers[READERS];
    struct sluice_format format;
    test_dir();
    sluice_writer *writer = open_writer(&format);
    struct resources before = settle(writer, &format);

    for (long kills = test_scale(300), round = 1; kills > 0; round++) {
        for (int i = 0; i < READERS; i++)
            readers[i] = role_start("reads", modes[i % 2], NULL);
        for (int i = 0; i < ROUND; i++, kills--) {
            struct child *reader = &readers[rand() % READERS];
            write_frames(writer, 20);
            test_nap((rand() % 8) * SLUICE_MS);
            child_kill(reader, SIGKILL);
            *reader = role_start("reads", modes[i % 2], NULL);
        }
        CHECK_SOON(readers_of(writer) > 0, 2);
        for (int i = 0; i < READERS; i++, kills--)
            child_kill(&readers[i], SIGKILL);
        struct resources now = settle(writer, &format);
        /* One that was killed as it connected is not a reader yet, and its death is noticed a moment later. */
        CHECK_SOON((now = resources_now()).fds <= before.fds, 2);
        if (round == 1)
            before.bytes = now.bytes; /* tables have grown to their size */
        check_same(&before, &now);
    }
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_EQ(resources_now().mappings, 0);
    folder_check(true);
}

static void take(sluice_reader *reader, struct sluice_frame *frame)
{
    int r = 0;
    CHECK_SOON((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, frame)) <= 0, 5);
    CHECK_OK(r);
}

TEST_TIMEOUT(reader_keeps_nothing_of_dead_writers, 120)
{
    struct resources before = { .fds = 0 };
    struct sluice_frame frame, kept;
    test_dir();
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 2);
    CHECK_GE(sluice_reader_fd(reader), 0);

    for (long round = 0, rounds = 10 + test_scale(50); round < rounds; round++) {
        struct child writer = role_start("writes", NULL);
        take(reader, &frame);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        if (round > 0) /* held since the session before, and ends with it */
            CHECK_OK(sluice_reader_release(reader, &kept, SLUICE_ON_CPU));
        take(reader, &kept);
        struct resources now = resources_now();
        CHECK_EQ(now.mappings, 3); /* the two pages and the slots of one session */
        if (round < 5)
            before = now;
        else
            check_same(&before, &now);
        child_kill(&writer, SIGKILL);
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_EQ(resources_now().mappings, 0);
}
