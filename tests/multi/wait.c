/* SPDX-License-Identifier: MIT
 *
 * Waiting for frames: asleep, spinning, by a descriptor; how long, and what ends it.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB 1024
#define SOON (2 * SLUICE_S)
#define WAKE_MS 2000 /* a bound, not a measurement */
#define QUIET_MS 700 /* longer than between two attempts to connect */

static bool readable(int fd, int timeout_ms)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    return poll(&poll_fd, 1, timeout_ms) > 0 && poll_fd.revents == POLLIN;
}

/* Takes what is there, with time-outs of 0. Returns how many, and how it ended. */
static int take_all(sluice_reader *reader, int *end)
{
    struct sluice_frame frame;
    int n = 0;

    while ((*end = sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame)) == 0) {
        kit_give(reader, &frame);
        n++;
    }
    return n;
}

static sluice_reader *open_reader(uint32_t mode, uint32_t every, int64_t open_timeout_ns)
{
    struct sluice_reader_params params = kit_reader_params("cam");
    sluice_reader *reader;

    params.mode = mode;
    params.every = every;
    params.open_timeout_ns = open_timeout_ns;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

/* ---- the descriptor ---- */

TEST(the_descriptor_is_readable_while_a_frame_is_there)
{
    test_dir();
    struct child writer = kit_start("writer", "bytes=8192", NULL);
    child_expect(&writer, "open", 5);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_frame frame;
    int end, fd = sluice_reader_fd(reader);

    CHECK(fd >= 0);
    CHECK_EQ(take_all(reader, &end), 0);
    CHECK_EQ(end, SLUICE_TIMEOUT);
    for (int i = 1; i <= 40; i++) {
        CHECK(!readable(fd, i < 4 ? 50 : 0));
        TELL(&writer, i % 5 ? "commit 1" : "commit 3", "committed");
        int64_t began = test_now();
        CHECK(readable(fd, WAKE_MS));
        CHECK_LE(test_now() - began, WAKE_MS * SLUICE_MS);
        CHECK(readable(fd, 0)); /* looking takes nothing away */
        frame = kit_take(reader);
        kit_give(reader, &frame);
        CHECK_EQ(take_all(reader, &end), 0);
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
    CHECK_EQ(take_all(reader, &end), 1);
    CHECK(!readable(fd, 50));
    /* Also one that nobody has polled for. */
    kit_commits(writer, 1);
    struct sluice_frame frame = kit_take(reader);
    kit_give(reader, &frame);
    CHECK_EQ(take_all(reader, &end), 0);
    CHECK(!readable(fd, 50));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(the_descriptor_stays_readable_until_the_last_unread_frame)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_IN_ORDER);
    int end, fd = sluice_reader_fd(reader);

    CHECK_EQ(take_all(reader, &end), 0);
    for (int round = 0; round < 20; round++) {
        kit_commits(writer, 4);
        for (int i = 0; i < 4; i++) {
            CHECK(readable(fd, WAKE_MS));
            struct sluice_frame frame;
            CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame));
            CHECK_EQ(frame.sequence, round * 4 + i + 1);
            kit_give(reader, &frame);
        }
        CHECK_EQ(take_all(reader, &end), 0);
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
        sluice_reader *reader = open_reader(mode, 3, 0);
        int end, fd = sluice_reader_fd(reader);

        CHECK(readable(fd, WAKE_MS));
        CHECK_EQ(take_all(reader, &end), 1);
        for (int i = 0; i < 10; i++) {
            kit_commits(writer, 1);
            CHECK(!readable(fd, 10));
            kit_commits(writer, 1);
            CHECK(!readable(fd, 10));
            kit_commits(writer, 1);
            CHECK(readable(fd, WAKE_MS));
            CHECK_EQ(take_all(reader, &end), 1);
        }
        CHECK_OK(sluice_reader_close(&reader));
    }
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(the_descriptor_stays_the_same_over_restarts_and_is_quiet_between)
{
    test_dir();
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 0, SLUICE_LATER);
    int end, fd = sluice_reader_fd(reader); /* before there is any writer */

    CHECK(fd >= 0);
    for (int i = 0; i < 3; i++) {
        (void)take_all(reader, &end);
        CHECK_EQ(end, SLUICE_NO_WRITER);
        CHECK(!readable(fd, QUIET_MS));
        struct child writer = kit_start("writer", "bytes=8192", NULL);
        child_expect(&writer, "open", 5);
        TELL(&writer, "commit 1", "committed 1");
        CHECK(readable(fd, WAKE_MS));
        struct sluice_frame frame = kit_take(reader);
        CHECK_EQ(frame.sequence, 1);
        kit_give(reader, &frame);
        CHECK_EQ(take_all(reader, &end), 0);
        TELL(&writer, "commit 1", "committed 2");
        CHECK(readable(fd, WAKE_MS));
        CHECK_EQ(take_all(reader, &end), 1);
        child_kill(&writer, SIGKILL);
        CHECK(readable(fd, WAKE_MS)); /* there is something to say */
        CHECK_SOON(take_all(reader, &end) == 0 && end == SLUICE_NO_WRITER, 2);
        CHECK_EQ(sluice_reader_fd(reader), fd);
    }
    CHECK_OK(sluice_reader_close(&reader));
}

TEST(the_descriptor_tells_of_the_end)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    int end, fd = sluice_reader_fd(reader);

    (void)take_all(reader, &end);
    CHECK(!readable(fd, 20));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK(readable(fd, WAKE_MS));
    CHECK_EQ(take_all(reader, &end), 0);
    CHECK_EQ(end, SLUICE_CLOSED);
    /* Where acquire has an answer at once it is readable; after the successor came, by its frames. */
    writer = kit_writer("cam", 8 * KIB);
    CHECK_SOON(kit_reader_stats(reader).sessions == 2 || (take_all(reader, &end), end) == SLUICE_TIMEOUT, 5);
    (void)take_all(reader, &end);
    CHECK(!readable(fd, 20));
    kit_commits(writer, 1);
    CHECK(readable(fd, WAKE_MS));
    CHECK_EQ(take_all(reader, &end), 1);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* Edge-triggered, as event loops use it: each edge, acquire until there is nothing more. */
TEST(epoll_by_edges_misses_no_frame)
{
    test_dir();
    struct child writer = kit_start("writer", "bytes=8192", "wait_ms=8000", NULL);
    child_expect(&writer, "open", 5);
    sluice_reader *reader = kit_reader("cam", SLUICE_IN_ORDER);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    long n = test_scale(3000), taken = 0;
    int end, loop = epoll_create1(EPOLL_CLOEXEC);
    char line[32];

    CHECK_EQ(epoll_ctl(loop, EPOLL_CTL_ADD, sluice_reader_fd(reader), &event), 0);
    snprintf(line, sizeof line, "burst %ld 50", n);
    child_send(&writer, line);
    taken += take_all(reader, &end);
    while (taken < n) {
        CHECK_EQ(epoll_wait(loop, &event, 1, 5000), 1);
        taken += take_all(reader, &end);
        CHECK_EQ(end, SLUICE_TIMEOUT);
    }
    CHECK_EQ(taken, n);
    CHECK_EQ(kit_reader_stats(reader).missed, 0);
    snprintf(line, sizeof line, "committed %ld", n);
    child_expect(&writer, line, 5);
    close(loop);
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

/* ---- how long ---- */

static int64_t time_acquire(sluice_reader *reader, int64_t timeout_ns, int expected)
{
    struct sluice_frame frame;
    int64_t began = test_now();
    int r = sluice_reader_acquire(reader, SLUICE_ON_CPU, timeout_ns, &frame);
    int64_t took = test_now() - began;
    CHECK_RESULT(r, expected);
    if (r == 0)
        kit_give(reader, &frame);
    return took;
}

TEST(time_outs_hold_asleep_and_spinning)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);
    static const int64_t spins[] = { 0, -1, SLUICE_MS, SLUICE_FOREVER };

    for (size_t i = 0; i < sizeof spins / sizeof spins[0]; i++) {
        struct sluice_reader_params params = kit_reader_params("cam");
        sluice_reader *reader;
        params.spin_ns = spins[i];
        CHECK_OK(sluice_reader_open(&reader, &params));
        if (i > 0)
            (void)time_acquire(reader, 0, 0);
        CHECK_LE(time_acquire(reader, 0, SLUICE_TIMEOUT), SOON);
        int64_t took = time_acquire(reader, 100 * SLUICE_MS, SLUICE_TIMEOUT);
        CHECK_GE(took, 100 * SLUICE_MS);
        CHECK_LE(took, 100 * SLUICE_MS + SOON);
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, -2, &(struct sluice_frame){ 0 }), SLUICE_E_INVALID);
        kit_commits(writer, 1);
        CHECK_LE(time_acquire(reader, 5 * SLUICE_S, 0), SOON);
        CHECK_OK(sluice_reader_close(&reader));
    }
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    (void)time_acquire(reader, 0, 0);
    int64_t took = time_acquire(reader, SLUICE_DEFAULT, SLUICE_TIMEOUT);
    CHECK_GE(took, SLUICE_S);
    CHECK_LE(took, SLUICE_S + SOON);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_sleeper_is_woken_by_a_commit)
{
    test_dir();
    struct child writer = kit_start("writer", "bytes=8192", NULL);
    child_expect(&writer, "open", 5);
    static const char *const spins[] = { "spin_ns=-1", "spin_ns=0", "spin_ns=9223372036854775807" };

    for (int i = 0; i < 3; i++) {
        struct child reader = kit_start("reader", spins[i], NULL);
        child_expect(&reader, "open", 5);
        TELL(&reader, "take 0", i ? "took" : "TIMEOUT");
        for (int k = 0; k < 5; k++) {
            child_send(&reader, "take 8000");
            test_nap(30 * SLUICE_MS);
            int64_t began = test_now();
            TELL(&writer, "commit 1", "committed");
            CHECK_HAS(child_line(&reader, 4), "took");
            CHECK_LE(test_now() - began, SOON);
        }
        role_stop(&reader);
    }
    role_stop(&writer);
}

static void on_alarm(int number) { (void)number; }

TEST(signals_neither_shorten_nor_end_a_wait)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct itimerval often = { { 0, 3000 }, { 0, 3000 } }, never = { { 0, 0 }, { 0, 0 } };
    struct sigaction action = { .sa_handler = on_alarm };

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    int64_t took = time_acquire(reader, 200 * SLUICE_MS, SLUICE_TIMEOUT);
    CHECK_GE(took, 200 * SLUICE_MS);
    CHECK_LE(took, 200 * SLUICE_MS + SOON);
    for (int i = 0; i < 20; i++) {
        struct sluice_format format = kit_format(4096 * (1 + i % 2));
        CHECK_OK(sluice_writer_reformat(writer, &format));
        kit_commits(writer, 1);
        (void)time_acquire(reader, 5 * SLUICE_S, 0);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- threads ---- */

struct waiter {
    sluice_reader *reader;
    int result;
};

static void *wait_for_ever(void *context)
{
    struct waiter *waiter = context;
    struct sluice_frame frame;
    waiter->result = sluice_reader_acquire(waiter->reader, SLUICE_ON_CPU, SLUICE_FOREVER, &frame);
    if (waiter->result == 0)
        kit_give(waiter->reader, &frame);
    return NULL;
}

TEST(for_ever_ends_with_a_frame_and_with_the_writers_close)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);
    struct waiter waiter = { .reader = kit_reader("cam", SLUICE_NEWEST) };
    pthread_t thread;

    pthread_create(&thread, NULL, wait_for_ever, &waiter);
    test_nap(30 * SLUICE_MS);
    kit_commits(writer, 1);
    pthread_join(thread, NULL);
    CHECK_EQ(waiter.result, 0);
    pthread_create(&thread, NULL, wait_for_ever, &waiter);
    test_nap(30 * SLUICE_MS);
    CHECK_OK(sluice_writer_close(&writer));
    pthread_join(thread, NULL);
    CHECK_EQ(waiter.result, SLUICE_CLOSED);
    CHECK_OK(sluice_reader_close(&waiter.reader));
}

TEST(for_ever_lasts_over_a_restart)
{
    test_dir();
    struct waiter waiter = { .reader = open_reader(SLUICE_NEWEST, 0, SLUICE_LATER) };
    struct child writer = kit_start("writer", "bytes=8192", NULL);
    pthread_t thread;

    child_expect(&writer, "open", 5);
    pthread_create(&thread, NULL, wait_for_ever, &waiter);
    test_nap(50 * SLUICE_MS);
    child_kill(&writer, SIGKILL);
    test_nap(100 * SLUICE_MS);
    writer = kit_start("writer", "bytes=8192", NULL);
    child_expect(&writer, "open", 5);
    TELL(&writer, "commit 1", "committed 1");
    pthread_join(thread, NULL);
    CHECK_EQ(waiter.result, 0);
    CHECK_OK(sluice_reader_close(&waiter.reader));
    role_stop(&writer);
}

TEST(close_ends_an_acquire_on_another_thread)
{
    test_dir();
    struct child writer = kit_start("writer", "bytes=8192", NULL);
    child_expect(&writer, "open", 5);
    for (int i = 0; i < 40; i++) {
        struct waiter waiter = { .reader = open_reader(SLUICE_NEWEST, 0, i % 4 == 3 ? SLUICE_LATER : 0) };
        sluice_reader *mine = waiter.reader;
        pthread_t thread;
        if (i % 4 == 3) {
            CHECK_OK(sluice_reader_close(&mine));
            struct sluice_reader_params params = kit_reader_params("nobody");
            params.open_timeout_ns = SLUICE_LATER;
            CHECK_OK(sluice_reader_open(&waiter.reader, &params));
            mine = waiter.reader;
        }
        pthread_create(&thread, NULL, wait_for_ever, &waiter);
        if (i % 2)
            test_nap((i % 7) * SLUICE_MS);
        CHECK_OK(sluice_reader_close(&mine));
        CHECK(mine == NULL);
        pthread_join(thread, NULL);
        CHECK_EQ(waiter.result, SLUICE_E_STALE);
    }
    role_stop(&writer);
}

/* One thread acquires, another releases, and all the while the writer goes on; then it is closed. */
struct hand {
    sluice_reader *reader;
    struct sluice_frame frames[8];
    atomic_int put, got, stop;
    long torn;
};

static void *release_all(void *context)
{
    struct hand *hand = context;
    while (!atomic_load(&hand->stop) || atomic_load(&hand->got) < atomic_load(&hand->put)) {
        int got = atomic_load(&hand->got);
        if (got == atomic_load(&hand->put)) {
            test_nap(20000);
            continue;
        }
        struct sluice_frame *frame = &hand->frames[got % 8];
        hand->torn += !kit_whole(frame, frame->sequence);
        CHECK_OK(sluice_reader_release(hand->reader, frame, SLUICE_ON_CPU));
        atomic_store(&hand->got, got + 1);
    }
    return NULL;
}

TEST(one_thread_acquires_and_another_releases)
{
    test_dir();
    struct child writer = kit_start("writer", "bytes=50000", NULL);
    child_expect(&writer, "open", 5);
    struct sluice_reader_params params = kit_reader_params("cam");
    struct hand hand = { .reader = NULL };
    pthread_t thread;
    uint64_t last = 0;

    params.hold = 4;
    CHECK_OK(sluice_reader_open(&hand.reader, &params));
    pthread_create(&thread, NULL, release_all, &hand);
    TELL(&writer, "run 20", "running");
    int64_t until = test_now() + test_scale(700) * SLUICE_MS;
    while (test_now() < until) {
        int put = atomic_load(&hand.put);
        if (put - atomic_load(&hand.got) >= 4)
            continue;
        struct sluice_frame *frame = &hand.frames[put % 8];
        int r = sluice_reader_acquire(hand.reader, SLUICE_ON_CPU, SLUICE_S, frame);
        if (r == SLUICE_E_LIMIT) /* released, but not counted yet */
            continue;
        CHECK_OK(r);
        CHECK(frame->sequence > last);
        last = frame->sequence;
        atomic_store(&hand.put, put + 1);
    }
    atomic_store(&hand.stop, 1);
    pthread_join(thread, NULL);
    CHECK(last > 10);
    CHECK_EQ(hand.torn, 0);
    CHECK_EQ(NUMBER(ask(&writer, "stop"), "dropped"), 0);
    CHECK_OK(sluice_reader_close(&hand.reader));
    role_stop(&writer);
}

TEST(close_while_one_thread_acquires_and_another_releases)
{
    test_dir();
    struct child writer = kit_start("writer", "bytes=8192", NULL);
    child_expect(&writer, "open", 5);
    TELL(&writer, "run 20", "running");
    for (int i = 0; i < 15; i++) {
        struct sluice_reader_params params = kit_reader_params("cam");
        struct sluice_frame frame;
        struct waiter waiter;
        pthread_t thread;
        int r;

        params.hold = 3;
        params.mode = i % 2 ? SLUICE_IN_ORDER : SLUICE_NEWEST;
        CHECK_OK(sluice_reader_open(&waiter.reader, &params));
        sluice_reader *mine = waiter.reader;
        pthread_create(&thread, NULL, wait_for_ever, &waiter);
        pthread_join(thread, NULL); /* one frame in peace */
        CHECK_EQ(waiter.result, 0);
        CHECK_OK(sluice_reader_acquire(mine, SLUICE_ON_CPU, SLUICE_S, &frame));
        TELL(&writer, "stop", "ran"); /* so that the other thread sleeps */
        int end;
        (void)take_all(mine, &end);
        pthread_create(&thread, NULL, wait_for_ever, &waiter);
        if (i % 3)
            test_nap(SLUICE_MS);
        CHECK_OK(sluice_reader_close(&mine));
        r = sluice_reader_release(waiter.reader, &frame, SLUICE_ON_CPU);
        CHECK_EQ(r, SLUICE_E_STALE);
        pthread_join(thread, NULL);
        CHECK_EQ(waiter.result, SLUICE_E_STALE);
        TELL(&writer, "run 20", "running");
    }
    TELL(&writer, "stop", "ran");
    role_stop(&writer);
}
