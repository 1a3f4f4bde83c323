/* SPDX-License-Identifier: MIT
 *
 * The descriptor that a program polls instead of waiting in acquire.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "multi/kit.h"
#include "util/hooks.h"

#define KIB      1024
#define WAKE_MS  20000 /* a bound, not a measurement */
#define QUIET_MS 700   /* longer than the time between two attempts to connect */

static bool readable(int fd, int timeout_ms)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    return poll(&poll_fd, 1, timeout_ms) > 0 && poll_fd.revents == POLLIN;
}

TEST(the_descriptor_is_readable_while_a_frame_is_there)
{
    test_dir();
    struct child writer = kit_start("writer", "bytes=8192", NULL);
    child_expect(&writer, "open", 5);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_frame frame;
    void *handle;
    CHECK_SAYS(sluice_reader_handle(reader, &handle), SLUICE_E_UNSUPPORTED, "sluice_reader_fd");
    int end, fd = sluice_reader_fd(reader);

    CHECK(fd >= 0);
    CHECK_EQ(kit_take_all(reader, &end), 0);
    CHECK_EQ(end, SLUICE_TIMEOUT);
    for (int i = 1; i <= 40; i++) {
        CHECK(!readable(fd, i < 4 ? 50 : 0));
        EXPECT_ANSWER(&writer, i % 5 ? "commit 1" : "commit 3", "committed");
        int64_t began = test_now();
        CHECK(readable(fd, WAKE_MS));
        CHECK_LE(test_now() - began, WAKE_MS * SLUICE_MS);
        CHECK(readable(fd, 0)); /* polling consumes nothing */
        frame = kit_take(reader);
        kit_give(reader, &frame);
        CHECK_EQ(kit_take_all(reader, &end), 0);
        CHECK_EQ(end, SLUICE_TIMEOUT);
        CHECK_EQ(sluice_reader_fd(reader), fd);
    }
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

TEST(a_frame_that_was_there_before_the_descriptor_shows)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);
    kit_commits(writer, 1);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    int end, fd = sluice_reader_fd(reader);

    CHECK(readable(fd, WAKE_MS));
    CHECK_EQ(kit_take_all(reader, &end), 1);
    CHECK(!readable(fd, 50));
    /* Also one that nobody has polled for. */
    kit_commits(writer, 1);
    struct sluice_frame frame = kit_take(reader);
    kit_give(reader, &frame);
    CHECK_EQ(kit_take_all(reader, &end), 0);
    CHECK(!readable(fd, 50));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(the_descriptor_stays_readable_until_the_last_unread_frame)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_IN_ORDER);
    int end, fd = sluice_reader_fd(reader);

    CHECK_EQ(kit_take_all(reader, &end), 0);
    for (int round = 0; round < 20; round++) {
        kit_commits(writer, 4);
        for (int i = 0; i < 4; i++) {
            CHECK(readable(fd, WAKE_MS));
            struct sluice_frame frame;
            CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame));
            CHECK_EQ(frame.sequence, round * 4 + i + 1);
            kit_give(reader, &frame);
        }
        CHECK_EQ(kit_take_all(reader, &end), 0);
        CHECK(!readable(fd, 5));
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(the_descriptor_of_every_third_frame)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);
    for (uint32_t mode = SLUICE_NEWEST; mode <= SLUICE_IN_ORDER; mode++) {
        kit_commits(writer, 1);
        sluice_reader *reader = kit_open_reader(mode, 0, 0, 3);
        int end, fd = sluice_reader_fd(reader);

        CHECK(readable(fd, WAKE_MS));
        CHECK_EQ(kit_take_all(reader, &end), 1);
        for (int i = 0; i < 10; i++) {
            kit_commits(writer, 1);
            CHECK(!readable(fd, 10));
            kit_commits(writer, 1);
            CHECK(!readable(fd, 10));
            kit_commits(writer, 1);
            CHECK(readable(fd, WAKE_MS));
            CHECK_EQ(kit_take_all(reader, &end), 1);
        }
        CHECK_OK(sluice_reader_close(&reader));
    }
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(the_descriptor_stays_the_same_over_restarts_and_is_quiet_between)
{
    test_dir();
    sluice_reader *reader = kit_newest(SLUICE_LATER);
    int end, fd = sluice_reader_fd(reader); /* before there is a writer */

    CHECK(fd >= 0);
    for (int i = 0; i < 3; i++) {
        (void)kit_take_all(reader, &end);
        CHECK_EQ(end, SLUICE_NO_WRITER);
        CHECK(!readable(fd, QUIET_MS));
        struct child writer = kit_start("writer", "bytes=8192", NULL);
        child_expect(&writer, "open", 5);
        EXPECT_ANSWER(&writer, "commit 1", "committed 1");
        CHECK(readable(fd, WAKE_MS));
        struct sluice_frame frame = kit_take(reader);
        CHECK_EQ(frame.sequence, 1);
        kit_give(reader, &frame);
        CHECK_EQ(kit_take_all(reader, &end), 0);
        EXPECT_ANSWER(&writer, "commit 1", "committed 2");
        CHECK(readable(fd, WAKE_MS));
        CHECK_EQ(kit_take_all(reader, &end), 1);
        child_kill(&writer, SIGKILL);
        CHECK(readable(fd, WAKE_MS)); /* there is something to report */
        CHECK_SOON(kit_take_all(reader, &end) == 0 && end == SLUICE_NO_WRITER, 5);
        CHECK_EQ(sluice_reader_fd(reader), fd);
    }
    CHECK_OK(sluice_reader_close(&reader));
}

TEST(the_descriptor_tells_of_the_end)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    int end, fd = sluice_reader_fd(reader);

    (void)kit_take_all(reader, &end);
    CHECK(!readable(fd, 20));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK(readable(fd, WAKE_MS));
    CHECK_EQ(kit_take_all(reader, &end), 0);
    CHECK_EQ(end, SLUICE_CLOSED);
    /* It is readable whenever acquire has an answer at once; once there is a new writer, for its frames. */
    writer = kit_writer("cam", 8 * KIB);
    CHECK_SOON(kit_reader_stats(reader).sessions == 2 || (kit_take_all(reader, &end), end) == SLUICE_TIMEOUT, 5);
    (void)kit_take_all(reader, &end);
    CHECK(!readable(fd, 20));
    kit_commits(writer, 1);
    CHECK(readable(fd, WAKE_MS));
    CHECK_EQ(kit_take_all(reader, &end), 1);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- a writer that is suspended before it signals its frame ---- */

static atomic_bool about_to_tell, go_on;

static void block(const char *point)
{
    if (strcmp(point, "before_byte") != 0)
        return;
    about_to_tell = true;
    while (!go_on)
        test_nap(SLUICE_MS);
}

static void *commit_one(void *writer)
{
    kit_commits(writer, 1);
    return NULL;
}

/* Its reader already has the frame. So the descriptor is readable without one, until acquire has said so, and then
 * works as ever. */
TEST(the_descriptor_is_readable_for_nothing_once)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    int end, fd = sluice_reader_fd(reader);
    pthread_t thread;

    CHECK_EQ(kit_take_all(reader, &end), 0);
    sl_kill_point_hook = block;
    for (int i = 0; i < 10; i++) {
        about_to_tell = go_on = false;
        CHECK_EQ(pthread_create(&thread, NULL, commit_one, writer), 0);
        CHECK_SOON(about_to_tell, 5);
        CHECK_EQ(kit_take_all(reader, &end), 1);
        CHECK_EQ(end, SLUICE_TIMEOUT);
        CHECK(!readable(fd, 0));
        go_on = true;
        pthread_join(thread, NULL);
        CHECK(kit_device() || readable(fd, WAKE_MS)); /* for frames on a GPU the service thread checks what there is */
        CHECK_EQ(kit_take_all(reader, &end), 0);
        CHECK_EQ(end, SLUICE_TIMEOUT);
        CHECK(!readable(fd, 20));
        kit_commits(writer, 1);
        CHECK(readable(fd, WAKE_MS));
        CHECK_EQ(kit_take_all(reader, &end), 1);
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* Edge-triggered, as in event loops: for each edge, acquire until there is nothing more. */
TEST(epoll_by_edges_misses_no_frame)
{
    test_dir();
    struct child writer = kit_start("writer", "bytes=8192", "wait_ms=20000", NULL);
    child_expect(&writer, "open", 5);
    sluice_reader *reader = kit_reader("cam", SLUICE_IN_ORDER);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    long n = test_scale(3000), taken = 0;
    int end, loop = epoll_create1(EPOLL_CLOEXEC);
    char line[32];

    CHECK_EQ(epoll_ctl(loop, EPOLL_CTL_ADD, sluice_reader_fd(reader), &event), 0);
    snprintf(line, sizeof line, "burst %ld 50", n);
    child_send(&writer, line);
    taken += kit_take_all(reader, &end);
    while (taken < n) {
        int ready;
        while ((ready = epoll_wait(loop, &event, 1, 20000)) < 0 && errno == EINTR)
            ; /* it was stopped, and goes on */
        CHECK_EQ(ready, 1);
        taken += kit_take_all(reader, &end);
        CHECK(end == SLUICE_TIMEOUT || end == SLUICE_AGAIN); /* memory of a new slot has yet to arrive: another edge */
    }
    CHECK_EQ(taken, n);
    CHECK_EQ(kit_reader_stats(reader).missed, 0);
    snprintf(line, sizeof line, "committed %ld", n);
    child_expect(&writer, line, 5);
    close(loop);
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

TEST(a_reader_that_stops_wakes_who_polls)
{
    test_dir();
    sluice_writer *writer = kit_open_writer(0, 0, 0);
    sluice_reader *reader = kit_open_reader(SLUICE_NEWEST, 0, 0, 0);
    struct sluice_frame frame;
    int fd = sluice_reader_fd(reader);

    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
    CHECK(!readable(fd, 20));
    CHECK_OK(sluice_reader_stop(reader));
    CHECK(readable(fd, WAKE_MS));
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_E_CLOSED);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}
