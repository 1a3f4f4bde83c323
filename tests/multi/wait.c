/* SPDX-License-Identifier: MIT
 *
 * Waiting for frames, asleep or spinning: how long, what ends it, and on which threads.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "multi/kit.h"

#define KIB  1024
#define SOON (10 * SLUICE_S) /* a bound, far below the timeout that would apply otherwise */

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
        params.open_timeout_ns = 20 * SLUICE_S;
        CHECK_OK(sluice_reader_open(&reader, &params));
        if (i > 0)
            (void)time_acquire(reader, 0, 0);
        CHECK_LE(time_acquire(reader, 0, SLUICE_TIMEOUT), SOON);
        int64_t took = time_acquire(reader, 100 * SLUICE_MS, SLUICE_TIMEOUT);
        CHECK_GE(took, 100 * SLUICE_MS);
        CHECK_LE(took, 100 * SLUICE_MS + SOON);
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, -2, &(struct sluice_frame){ 0 }), SLUICE_E_INVALID);
        kit_commits(writer, 1);
        CHECK_LE(time_acquire(reader, 60 * SLUICE_S, 0), SOON);
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
        EXPECT_ANSWER(&reader, "take 0", i ? "took" : "TIMEOUT");
        for (int k = 0; k < 5; k++) {
            child_send(&reader, "take 60000");
            test_nap(30 * SLUICE_MS);
            int64_t began = test_now();
            EXPECT_ANSWER(&writer, "commit 1", "committed");
            CHECK_HAS(child_line(&reader, 10), "took");
            CHECK_LE(test_now() - began, SOON);
        }
        role_stop(&reader);
    }
    role_stop(&writer);
}

static void on_alarm(int number)
{
    (void)number;
}

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
        (void)time_acquire(reader, 20 * SLUICE_S, 0);
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
    struct waiter waiter = { .reader = kit_newest(SLUICE_LATER) };
    struct child writer = kit_start("writer", "bytes=8192", NULL);
    pthread_t thread;

    child_expect(&writer, "open", 5);
    pthread_create(&thread, NULL, wait_for_ever, &waiter);
    test_nap(50 * SLUICE_MS);
    child_kill(&writer, SIGKILL);
    test_nap(100 * SLUICE_MS);
    writer = kit_start("writer", "bytes=8192", NULL);
    child_expect(&writer, "open", 5);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
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
        struct waiter waiter = { .reader = kit_newest(i % 4 == 3 ? SLUICE_LATER : 20 * SLUICE_S) };
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
        CHECK_EQ(waiter.result, SLUICE_E_CLOSED);
    }
    role_stop(&writer);
}

/* One thread acquires, another releases, while the writer goes on; then it is closed. */
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
    struct child writer = kit_start("writer", "bytes=50000", "slots=8", "max_slots=8", NULL);
    child_expect(&writer, "open", 5);
    struct sluice_reader_params params = kit_reader_params("cam");
    struct hand hand = { .reader = NULL };
    pthread_t thread;
    uint64_t last = 0;

    params.hold = 4;
    params.open_timeout_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&hand.reader, &params));
    pthread_create(&thread, NULL, release_all, &hand);
    EXPECT_ANSWER(&writer, "run 20", "running");
    long most = test_scale(10000);
    for (long taken = 0; taken < most;) {
        int put = atomic_load(&hand.put);
        if (put - atomic_load(&hand.got) >= 4)
            continue;
        struct sluice_frame *frame = &hand.frames[put % 8];
        int r = sluice_reader_acquire(hand.reader, SLUICE_ON_CPU, 20 * SLUICE_S, frame);
        if (r == SLUICE_E_LIMIT) /* released, but not counted yet */
            continue;
        CHECK_OK(r);
        CHECK(frame->sequence > last);
        last = frame->sequence;
        atomic_store(&hand.put, put + 1);
        taken++;
    }
    atomic_store(&hand.stop, 1);
    pthread_join(thread, NULL);
    CHECK_GE(last, most);
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
    EXPECT_ANSWER(&writer, "run 20", "running");
    for (int i = 0; i < 15; i++) {
        struct sluice_reader_params params = kit_reader_params("cam");
        struct sluice_frame frame;
        struct waiter waiter;
        pthread_t thread;
        int r;

        params.hold = 3;
        params.open_timeout_ns = 20 * SLUICE_S;
        params.mode = i % 2 ? SLUICE_IN_ORDER : SLUICE_NEWEST;
        CHECK_OK(sluice_reader_open(&waiter.reader, &params));
        sluice_reader *mine = waiter.reader;
        pthread_create(&thread, NULL, wait_for_ever, &waiter);
        pthread_join(thread, NULL); /* one frame without disturbance */
        CHECK_EQ(waiter.result, 0);
        CHECK_OK(sluice_reader_acquire(mine, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        EXPECT_ANSWER(&writer, "stop", "ran"); /* so that the other thread sleeps */
        int end;
        CHECK_SOON((kit_take_all(mine, &end), end) == SLUICE_TIMEOUT, 5);
        pthread_create(&thread, NULL, wait_for_ever, &waiter);
        if (i % 3)
            test_nap(SLUICE_MS);
        CHECK_OK(sluice_reader_close(&mine));
        r = sluice_reader_release(waiter.reader, &frame, SLUICE_ON_CPU);
        CHECK_EQ(r, SLUICE_E_CLOSED);
        pthread_join(thread, NULL);
        CHECK_EQ(waiter.result, SLUICE_E_CLOSED);
        EXPECT_ANSWER(&writer, "run 20", "running");
    }
    EXPECT_ANSWER(&writer, "stop", "ran");
    role_stop(&writer);
}
