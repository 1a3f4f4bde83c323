/* SPDX-License-Identifier: MIT
 *
 * A process that is out of descriptors: each call that needs one reports it, others go on, and once there are some
 * again nothing else has to be done.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "multi/kit.h"

/* As many as it has, for this process or another. */
static void set_limit(pid_t pid, rlim_t most)
{
    struct rlimit limit;

    CHECK_EQ(prlimit(pid, RLIMIT_NOFILE, NULL, &limit), 0);
    limit.rlim_cur = most && most < limit.rlim_max ? most : limit.rlim_max;
    CHECK_EQ(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

static void take_descriptors(pid_t pid)
{
    set_limit(pid, 1);
}
static void give_descriptors(pid_t pid)
{
    set_limit(pid, 0);
}

static struct child start(const char *role, const char *a, const char *b)
{
    struct child child = kit_start(role, a, b, NULL);
    child_expect(&child, "open", 5);
    return child;
}

TEST(a_writer_without_descriptors_lets_readers_in_later)
{
    test_dir();
    struct child writer = start("writer", "bytes=8192", NULL);
    struct child reader = start("reader", NULL, NULL);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&reader, "take 20000", "took 1 ");
    take_descriptors(writer.pid);

    /* A new peer gets an error as nobody answers; one that waits goes on waiting. */
    struct sluice_channel_info info = { .size = sizeof info };
    sluice_reader *late = NULL;
    struct sluice_reader_params params = kit_reader_params("cam");
    params.open_timeout_ns = 200 * SLUICE_MS;
    CHECK_SAYS(sluice_reader_open(&late, &params), SLUICE_TIMEOUT, "does not answer");
    CHECK_SAYS(sluice_channel_info("cam", 200 * SLUICE_MS, &info, NULL, 0), SLUICE_TIMEOUT, "does not answer");
    late = kit_newest(SLUICE_LATER);

    /* Peers that are connected notice nothing. */
    EXPECT_ANSWER(&writer, "commit 1", "committed 2");
    EXPECT_ANSWER(&reader, "take 20000", "took 2 missed 0");
    EXPECT_ANSWER(&writer, "reformat 100000", "E_NO_DESCRIPTORS");
    CHECK_HAS(ask(&writer, "last"), "RLIMIT_NOFILE");
    EXPECT_ANSWER(&writer, "commit 1", "committed 3");
    EXPECT_ANSWER(&reader, "take 20000", "took 3 missed 0 flags 0");

    give_descriptors(writer.pid);
    EXPECT_ANSWER(&writer, "reformat 100000", "generation 2");
    EXPECT_ANSWER(&writer, "commit 1", "committed 4");
    EXPECT_ANSWER(&reader, "take 20000", "took 4 missed 0 flags 2");
    struct sluice_frame frame;
    CHECK_SOON(sluice_reader_acquire(late, SLUICE_ON_CPU, SLUICE_S, &frame) == 0, 10);
    CHECK(kit_whole(&frame, 4));
    kit_give(late, &frame);
    CHECK_OK(sluice_reader_close(&late));
    CHECK_SOON(sluice_channel_info("cam", SLUICE_DEFAULT, &info, NULL, 0) == 0 && info.readers == 1, 2);
    role_stop(&writer);
    role_stop(&reader);
}

/* A frame without a slot is dropped, as where there is no memory to grow. */
TEST(a_writer_without_descriptors_cannot_grow)
{
    test_dir();
    struct child writer = start("writer", "slots=3", "max_slots=6");
    struct child readers[2];
    for (int i = 0; i < 2; i++) {
        char line[32];
        readers[i] = start("reader", NULL, NULL);
        snprintf(line, sizeof line, "committed %d", i + 1);
        EXPECT_ANSWER(&writer, "commit 1", line);
        EXPECT_ANSWER(&readers[i], "hold 20000", "holds ");
    }
    EXPECT_ANSWER(&writer, "commit 1", "committed 3");
    take_descriptors(writer.pid);
    EXPECT_ANSWER(&writer, "commit 1", "NO_SLOT");
    CHECK_HAS(ask(&writer, "last"), "none of its 3 slots is free");
    give_descriptors(writer.pid);
    test_nap(SLUICE_S); /* it does not try again at each frame */
    EXPECT_ANSWER(&writer, "commit 3", "committed 6");
    for (int i = 0; i < 2; i++) {
        EXPECT_ANSWER(&readers[i], "check", "whole 1");
        role_stop(&readers[i]);
    }
    role_stop(&writer);
}

static void take_from_anew(struct child *reader, const char *line, const char *answer)
{
    const char *got = ask(reader, line);
    if (strcmp(got, "E_LOST") == 0) /* its entry was given away after a second, which is reported once */
        got = ask(reader, line);
    CHECK_HAS(got, answer);
}

static bool has_hung_up(struct child *reader)
{
    const char *got = ask(reader, "take 300");
    if (strcmp(got, "NO_WRITER") != 0) {
        CHECK(strcmp(got, "E_LOST") == 0 ||
              strcmp(got, "AGAIN") == 0); /* as above; or it has not seen yet what it cannot receive */
        return false;
    }
    return strstr(ask(reader, "last"), "RLIMIT_NOFILE") != NULL;
}

/* It disconnects from what it cannot receive, and joins again: no frame is lost uncounted. */
static void read_without_descriptors(const char *mode)
{
    test_dir();
    struct child writer = start("writer", "bytes=8192", NULL);
    struct child reader = start("reader", mode, NULL), other = start("reader", NULL, NULL);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&reader, "take 20000", "took 1 ");

    /* Frames that need no new memory arrive; a new format does not. */
    take_descriptors(reader.pid);
    EXPECT_ANSWER(&writer, "commit 1", "committed 2");
    EXPECT_ANSWER(&reader, "take 20000", "took 2 ");
    EXPECT_ANSWER(&writer, "reformat 50000", "generation 2");
    EXPECT_ANSWER(&writer, "commit 1", "committed 3");
    CHECK_SOON(has_hung_up(&reader), 5);
    EXPECT_ANSWER(&other, "take 20000", "took 3 ");
    give_descriptors(reader.pid);
    take_from_anew(&reader, "take 20000", "took 3 missed 0 flags 2");
    CHECK_EQ(NUMBER(ask(&reader, "stats"), "lag"), 0);
    take_descriptors(reader.pid);
    EXPECT_ANSWER(&writer, "reformat 20000", "generation 3");
    EXPECT_ANSWER(&writer, "commit 2", "committed 5");
    CHECK_SOON(has_hung_up(&reader), 5);
    CHECK_EQ(NUMBER(ask(&reader, "stats"), "lag"), 2);
    EXPECT_ANSWER(&writer, "commit 1", "committed 6");
    give_descriptors(reader.pid);
    take_from_anew(&reader, "take 20000", "took 6 missed 2 flags 2");

    /* Nor does a writer that replaced the dead one. */
    EXPECT_ANSWER(&other, "take 20000", "took 6 ");
    take_descriptors(reader.pid);
    child_kill(&writer, SIGKILL);
    writer = start("writer", "bytes=8192", NULL);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    CHECK_SOON(has_hung_up(&reader), 5);
    EXPECT_ANSWER(&other, "take 20000", "took 1 ");
    EXPECT_ANSWER(&writer, "commit 1", "committed 2");
    give_descriptors(reader.pid);
    take_from_anew(&reader, "take 20000", "took 2 ");
    role_stop(&reader);
    role_stop(&other);
    role_stop(&writer);
}

TEST(a_reader_without_descriptors_goes_on_when_it_has_some)
{
    read_without_descriptors("mode=0");
}
TEST(a_reader_in_order_without_descriptors_loses_no_frame_uncounted)
{
    read_without_descriptors("mode=1");
}

TEST(an_observer_without_descriptors_gets_an_error)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_registry_entry entry;
    sluice_watch *watch = NULL;
    size_t count;

    test_dir();
    (void)kit_device(); /* it loads the driver */
    struct child writer = start("writer", NULL, NULL);
    int fds = process_fds(getpid());
    take_descriptors(getpid());
    CHECK_SAYS(sluice_channel_info("cam", SLUICE_DEFAULT, &info, NULL, 0), SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
    CHECK_SAYS(sluice_registry_list(NULL, &entry, 1, &count), SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
    CHECK_SAYS(sluice_registry_watch_open(&watch, NULL), SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
    CHECK_SAYS(kit_try_read("cam"), SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
    CHECK_SAYS(kit_try_write("other"), SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
    give_descriptors(getpid());
    CHECK_EQ(process_fds(getpid()), fds);
    CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, NULL, 0));
    CHECK_OK(sluice_registry_list(NULL, &entry, 1, &count));
    CHECK_OK(sluice_registry_watch_open(&watch, NULL));
    CHECK_OK(sluice_registry_watch_close(&watch));
    CHECK_OK(kit_try_read("cam"));
    CHECK_OK(kit_try_write("other"));
    role_stop(&writer);
}
