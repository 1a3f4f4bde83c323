/* SPDX-License-Identifier: MIT
 *
 * Peers that live but do not run: nobody waits for them for ever.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "multi/kit.h"

#define SOON (10 * SLUICE_S)

static struct child start_writer(const char *options[4])
{
    test_dir();
    struct child writer = kit_start("writer", options[0], options[1], options[2], options[3], NULL);
    child_expect(&writer, "open", 5);
    return writer;
}

#define LOOKS 40

/* Of writers that evict: readers that must not be evicted need less time. */
#define LEASE    "lease_ms=3000"
#define LEASE_NS (3 * SLUICE_S)

/* The newest reader beside the writer for a while, at 1,000 frames a second. */
struct outcome {
    long long frames, missed, p99, dropped;
};

static struct outcome measure(struct child *writer, struct child *reader)
{
    struct outcome outcome;

    EXPECT_ANSWER(reader, "run", "running");
    EXPECT_ANSWER(writer, "run 1000", "running");
    test_nap(800 * SLUICE_MS);
    outcome.dropped = NUMBER(ask(writer, "stop"), "dropped");
    const char *answer = ask(reader, "stop");
    outcome.frames = NUMBER(answer, "ran");
    outcome.missed = NUMBER(answer, "missed");
    outcome.p99 = NUMBER(answer, "p99");
    CHECK_EQ(NUMBER(answer, "torn"), 0);
    CHECK_EQ(NUMBER(answer, "back"), 0);
    return outcome;
}

static bool same(const struct outcome *with, const struct outcome *without)
{
    CHECK_EQ(without->dropped, 0);
    CHECK_EQ(with->dropped, 0);
    return without->frames > 50 && with->frames >= without->frames / 2 &&
           with->missed <= without->missed + with->frames / 10 && with->p99 <= without->p99 * 4 + 20 * SLUICE_MS;
}

/* A recorder that is stopped after the command `line`, and must disturb nobody. A busy machine may spoil a measurement,
 * so there are several; a recorder that disturbs does so in all of them. *at: the frame that it took. */
static struct child stopped_recorder(struct child *writer, struct child *newest, const char *line, long long *at)
{
    for (int look = 0; look < LOOKS; look++) {
        struct outcome without = measure(writer, newest);
        struct child recorder = kit_start("reader", "mode=1", NULL);
        child_expect(&recorder, "open", 10);
        CHECK_EQ(sscanf(ask(&recorder, line), "%*s %lld", at), 1);
        child_kill(&recorder, SIGSTOP);
        struct outcome with = measure(writer, newest);
        if (same(&with, &without))
            return recorder;
        fprintf(stderr, "alone %lld frames, %lld missed, p99 %lld ns; beside it %lld, %lld, %lld\n", without.frames,
                without.missed, without.p99, with.frames, with.missed, with.p99);
        child_kill(&recorder, SIGKILL);
    }
    FAIL("it disturbed the newest reader each of %d times", LOOKS);
}

TEST_TIMEOUT(a_stopped_recorder_disturbs_nobody, 120)
{
    struct child writer = start_writer((const char *[4]){ "bytes=65536", NULL });
    struct child newest = kit_start("reader", NULL);
    long long joined_at;
    child_expect(&newest, "open", 10);
    struct child recorder = stopped_recorder(&writer, &newest, "take 20000", &joined_at);

    EXPECT_ANSWER(&writer, "commit 100", "committed"); /* replaces each frame that the newest reader has kept */
    /* It lost the oldest ones, counted, and goes on. */
    child_kill(&recorder, SIGCONT);
    const char *answer = ask(&recorder, "take 20000");
    CHECK_HAS(answer, "took ");
    CHECK(NUMBER(answer, "missed") > 0);
    EXPECT_ANSWER(&writer, "commit 1", "committed");
    CHECK_HAS(ask(&recorder, "count 4 20000"), "missed 0");
    /* All of the writer's frames are accounted for: it joined at the head. */
    const char *stats = ask(&recorder, "stats");
    long long seen = NUMBER(stats, "taken") + NUMBER(stats, "missed");
    while (NUMBER(ask(&recorder, "stats"), "lag") > 0) { /* may be in a slot whose memory it has not received yet */
        answer = ask(&recorder, "take 20000");
        CHECK_HAS(answer, "took ");
        seen += 1 + NUMBER(answer, "missed");
    }
    CHECK_EQ(joined_at + seen - 1, NUMBER(ask(&writer, "stats"), "committed"));
    role_stop(&recorder);
    role_stop(&newest);
    role_stop(&writer);
}

TEST_TIMEOUT(a_recorder_stopped_with_a_frame_in_its_hands_disturbs_nobody, 120)
{
    struct child writer = start_writer((const char *[4]){ "bytes=65536", NULL });
    struct child newest = kit_start("reader", NULL);
    long long held;
    child_expect(&newest, "open", 10);
    struct child recorder = stopped_recorder(&writer, &newest, "hold 20000", &held);
    child_kill(&recorder, SIGCONT);
    EXPECT_ANSWER(&recorder, "check", "whole 1");
    EXPECT_ANSWER(&recorder, "give", "gave");
    CHECK(NUMBER(ask(&recorder, "take 20000"), "missed") > 0);
    role_stop(&recorder);
    role_stop(&newest);
    role_stop(&writer);
}

TEST(a_stopped_newest_reader_costs_at_most_what_it_holds)
{
    struct child writer = start_writer((const char *[4]){ "slots=3", "max_slots=3", NULL });
    struct child stopped = kit_start("reader", NULL), other = kit_start("reader", NULL);
    child_expect(&stopped, "open", 5);
    child_expect(&other, "open", 5);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&stopped, "hold 20000", "holds 1 ");
    child_kill(&stopped, SIGSTOP);
    EXPECT_ANSWER(&writer, "commit 500", "committed 501");
    EXPECT_ANSWER(&other, "take 20000", "took 501 ");
    child_kill(&stopped, SIGCONT);
    EXPECT_ANSWER(&stopped, "check", "whole 1");
    EXPECT_ANSWER(&stopped, "give", "gave 1");
    EXPECT_ANSWER(&stopped, "take 20000", "took 501 ");
    role_stop(&stopped);
    role_stop(&other);
    role_stop(&writer);
}

TEST(nobody_hangs_on_a_stopped_writer)
{
    struct child writer = start_writer((const char *[4]){ NULL });
    struct child gone = kit_start("reader", NULL);
    child_expect(&gone, "open", 5);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST), *other;
    struct sluice_reader_params params = kit_reader_params("cam");
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_registry_entry entry;
    struct sluice_frame frame;
    size_t count;

    EXPECT_ANSWER(&writer, "commit 2", "committed 2");
    child_kill(&writer, SIGSTOP);
    frame = kit_take(reader); /* what is ready can be read */
    CHECK_EQ(frame.sequence, 2);
    kit_give(reader, &frame);
    int64_t began = test_now();
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 100 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
    CHECK_GE(test_now() - began, 100 * SLUICE_MS);
    CHECK_LE(test_now() - began, 100 * SLUICE_MS + SOON);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);

    began = test_now();
    CHECK_SAYS(sluice_channel_info("cam", 200 * SLUICE_MS, &info, NULL, 0), SLUICE_TIMEOUT, "stopped");
    CHECK_GE(test_now() - began, 200 * SLUICE_MS);
    CHECK_LE(test_now() - began, 200 * SLUICE_MS + SOON);
    CHECK_OK(sluice_registry_list(NULL, &entry, 1, &count));
    CHECK_EQ(count, 1);
    CHECK_EQ(entry.live, 1);

    began = test_now();
    CHECK_SAYS(sluice_reader_open(&other, &params), SLUICE_TIMEOUT, "stopped");
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&other, &params)); /* it will come */
    CHECK_RESULT(sluice_reader_acquire(other, SLUICE_ON_CPU, 50 * SLUICE_MS, &frame), SLUICE_NO_WRITER);
    CHECK_LE(test_now() - began, 3 * SOON);
    began = test_now();
    role_stop(&gone); /* it can leave, too */
    CHECK_LE(test_now() - began, SOON);

    child_kill(&writer, SIGCONT);
    EXPECT_ANSWER(&writer, "commit 1", "committed 3");
    frame = kit_take(reader);
    CHECK_EQ(frame.sequence, 3);
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_acquire(other, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_EQ(frame.sequence, 3);
    kit_give(other, &frame);
    CHECK_OK(sluice_reader_close(&other));
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

TEST(a_hundred_and_fifty_questions_to_a_stopped_writer)
{
    struct child writer = start_writer((const char *[4]){ NULL });
    struct sluice_channel_info info = { .size = sizeof info };

    child_kill(&writer, SIGSTOP);
    for (int i = 0; i < 150; i++) /* more than its queue holds */
        CHECK_RESULT(sluice_channel_info("cam", 1, &info, NULL, 0), SLUICE_TIMEOUT);
    child_kill(&writer, SIGCONT);
    CHECK_SOON(sluice_channel_info("cam", SLUICE_S, &info, NULL, 0) == 0, 10);
    role_stop(&writer);
}

/* A writer of 3 slots; `holder` holds the first frame and `other` the second. */
static void starve(struct child *writer, struct child *holder, struct child *other)
{
    *writer = start_writer((const char *[4]){ "slots=3", "max_slots=3", LEASE, "bytes=100000" });
    *holder = kit_start("reader", NULL);
    *other = kit_start("reader", NULL);
    child_expect(holder, "open", 5);
    child_expect(other, "open", 5);
    EXPECT_ANSWER(writer, "commit 1", "committed 1");
    EXPECT_ANSWER(holder, "hold 20000", "holds 1 ");
    EXPECT_ANSWER(writer, "commit 1", "committed 2");
    EXPECT_ANSWER(writer, "commit 1", "committed 3");
}

static void check_evicted_reads_on(struct child *writer, struct child *evicted)
{
    EXPECT_ANSWER(evicted, "give", "E_LOST");
    EXPECT_ANSWER(evicted, "take 1000", "E_LOST");
    CHECK_HAS(ask(evicted, "last"), "evicted");
    /* Once; then it reads on: whole frames, later than the one it had. */
    EXPECT_ANSWER(evicted, "run", "running");
    EXPECT_ANSWER(writer, "run 0", "running");
    CHECK_SOON(kit_taken("cam", evicted->pid) > 10, 10);
    test_nap(500 * SLUICE_MS);
    CHECK_HAS(ask(writer, "stop"), "ran ");
    const char *answer = ask(evicted, "stop");
    CHECK(NUMBER(answer, "ran") > 2);
    CHECK(NUMBER(answer, "first") > 1);
    CHECK_EQ(NUMBER(answer, "torn"), 0);
    CHECK_EQ(NUMBER(answer, "back"), 0);
    CHECK_EQ(NUMBER(answer, "lost"), 0);
    CHECK_EQ(NUMBER(ask(writer, "stats"), "evicted"), 1);
    CHECK_EQ(NUMBER(ask(writer, "stats"), "readers"), 2);
}

TEST(a_stopped_holder_is_evicted_after_lease_timeout)
{
    struct child writer, stopped, other;

    starve(&writer, &stopped, &other);
    child_kill(&stopped, SIGSTOP);
    EXPECT_ANSWER(&other, "hold 20000", "holds 3 ");
    EXPECT_ANSWER(&writer, "commit 1", "committed 4"); /* into the slot of 2 */
    EXPECT_ANSWER(&writer, "commit 1", "NO_SLOT");     /* 1 and 3 are held, 4 is the newest: too early */
    CHECK_EQ(NUMBER(ask(&writer, "stats"), "evicted"), 0);
    test_nap(LEASE_NS + 50 * SLUICE_MS);
    EXPECT_ANSWER(&other, "give", "gave 3"); /* in time: now it holds nothing, and the other one is due */
    EXPECT_ANSWER(&other, "hold 20000", "holds 4 ");
    EXPECT_ANSWER(&writer, "commit 1", "committed 5");
    EXPECT_ANSWER(&writer, "commit 1", "committed 6"); /* starved again, and now it evicts */
    CHECK_EQ(NUMBER(ask(&writer, "stats"), "evicted"), 1);
    EXPECT_ANSWER(&other, "check", "whole 1");
    EXPECT_ANSWER(&other, "give", "gave 4");
    child_kill(&stopped, SIGCONT);
    check_evicted_reads_on(&writer, &stopped);
    role_stop(&stopped);
    role_stop(&other);
    role_stop(&writer);
}

TEST(a_reader_that_forgets_a_frame_is_evicted_and_gets_an_error)
{
    struct child writer, holder, other;

    starve(&writer, &holder, &other);
    test_nap(LEASE_NS + 50 * SLUICE_MS);
    EXPECT_ANSWER(&other, "hold 20000", "holds 3 ");
    EXPECT_ANSWER(&writer, "commit 1", "committed 4");
    EXPECT_ANSWER(&writer, "commit 1", "committed 5"); /* evicts */
    EXPECT_ANSWER(&other, "check", "whole 1");
    EXPECT_ANSWER(&other, "give", "gave 3");
    check_evicted_reads_on(&writer, &holder);
    role_stop(&holder);
    role_stop(&other);
    role_stop(&writer);
}

TEST(a_waiting_writer_evicts_when_the_time_is_up)
{
    test_dir();
    struct child writer =
        kit_start("writer", "slots=3", "max_slots=3", "lease_ms=200", "wait_ms=20000", "bytes=8192", NULL);
    child_expect(&writer, "open", 5);
    struct child a = kit_start("reader", NULL), b = kit_start("reader", NULL);
    child_expect(&a, "open", 5);
    child_expect(&b, "open", 5);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&a, "hold 20000", "holds 1 ");
    EXPECT_ANSWER(&writer, "commit 1", "committed 2");
    EXPECT_ANSWER(&b, "hold 20000", "holds 2 ");
    int64_t began = test_now();
    EXPECT_ANSWER(&writer, "commit 10", "committed 12");
    CHECK_LE(test_now() - began, 200 * SLUICE_MS + SOON);
    CHECK_GE(NUMBER(ask(&writer, "stats"), "evicted"), 1);
    EXPECT_ANSWER(&a, "give", "E_LOST");
    role_stop(&writer);
    role_stop(&a);
    role_stop(&b);
}

/* It connects again and begins at the newest frame of that moment, so it never gets a frame twice. */
TEST(an_evicted_recorder_goes_on_behind_what_it_had)
{
    test_dir();
    struct child writer = kit_start("writer", "slots=4", "max_slots=4", LEASE, "bytes=8192", NULL);
    child_expect(&writer, "open", 5);
    struct child recorder = kit_start("reader", "mode=1", "hold=2", NULL), newest = kit_start("reader", "hold=2", NULL);
    child_expect(&recorder, "open", 5);
    child_expect(&newest, "open", 5);
    EXPECT_ANSWER(&writer, "commit 2", "committed 2");
    EXPECT_ANSWER(&recorder, "hold 20000", "holds 1 ");
    EXPECT_ANSWER(&recorder, "hold 20000", "holds 2 ");
    EXPECT_ANSWER(&writer, "commit 2", "committed 4");
    test_nap(LEASE_NS + 50 * SLUICE_MS);
    EXPECT_ANSWER(&newest, "hold 20000", "holds 4 ");
    EXPECT_ANSWER(&writer, "commit 1", "committed 5"); /* evicts */
    CHECK_EQ(NUMBER(ask(&writer, "stats"), "evicted"), 1);
    EXPECT_ANSWER(&writer, "commit 1", "committed 6");
    EXPECT_ANSWER(&recorder, "give", "E_LOST");
    EXPECT_ANSWER(&recorder, "give", "E_LOST");
    EXPECT_ANSWER(&recorder, "take 1000", "E_LOST");
    const char *answer = ask(&recorder, "take 20000");
    long long first = NUMBER(answer, "took");
    CHECK_GE(first, 4);
    CHECK_EQ(NUMBER(answer, "missed"), first - 3);
    for (long long next = first + 1; next <= 6; next++) {
        answer = ask(&recorder, "take 20000");
        CHECK_EQ(NUMBER(answer, "took"), next);
        CHECK_EQ(NUMBER(answer, "missed"), 0);
    }
    EXPECT_ANSWER(&recorder, "take 50", "TIMEOUT");
    const char *stats = ask(&recorder, "stats");
    CHECK_EQ(NUMBER(stats, "taken") + NUMBER(stats, "missed"), 6);
    role_stop(&newest);
    role_stop(&recorder);
    role_stop(&writer);
}

TEST(a_stopped_reader_with_nothing_in_its_hands_is_not_evicted)
{
    struct child writer = start_writer((const char *[4]){ "slots=3", "max_slots=3", "lease_ms=50", NULL });
    struct child reader = kit_start("reader", NULL), recorder = kit_start("reader", "mode=1", "depth=1", NULL);
    child_expect(&reader, "open", 5);
    child_expect(&recorder, "open", 5);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&reader, "take 20000", "took 1 ");
    child_kill(&reader, SIGSTOP);
    child_kill(&recorder, SIGSTOP);
    test_nap(100 * SLUICE_MS);
    EXPECT_ANSWER(&writer, "commit 200", "committed 201");
    CHECK_EQ(NUMBER(ask(&writer, "stats"), "evicted"), 0);
    CHECK_EQ(NUMBER(ask(&writer, "stats"), "dropped"), 0);
    child_kill(&reader, SIGCONT);
    child_kill(&recorder, SIGCONT);
    EXPECT_ANSWER(&reader, "take 20000", "took 201 ");
    const char *answer = ask(&recorder, "take 20000");
    CHECK_EQ(NUMBER(answer, "took"), NUMBER(answer, "missed") + 1);
    role_stop(&recorder);
    role_stop(&reader);
    role_stop(&writer);
}

/* New memories are held back for it, with at most one in flight: nobody else runs out of anything. */
TEST(descriptors_do_not_pile_up_at_a_stopped_reader)
{
    struct child writer = start_writer((const char *[4]){ NULL });
    struct child stopped = kit_start("reader", NULL), healthy = kit_start("reader", "mode=1", NULL);
    child_expect(&stopped, "open", 5);
    child_expect(&healthy, "open", 5);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&stopped, "take 20000", "took 1 ");
    EXPECT_ANSWER(&healthy, "take 20000", "took 1 ");
    long long fds = NUMBER(ask(&writer, "descriptors"), "descriptors");
    long long maps = NUMBER(ask(&writer, "mappings memfd"), "mappings");
    child_kill(&stopped, SIGSTOP);
    for (int i = 0; i < 200; i++) {
        char line[64];
        snprintf(line, sizeof line, "reformat %d", 4096 * (1 + i % 5));
        EXPECT_ANSWER(&writer, line, "generation");
        EXPECT_ANSWER(&writer, "commit 1", "committed");
        snprintf(line, sizeof line, "took %d missed 0 flags 2", i + 2);
        EXPECT_ANSWER(&healthy, "take 20000", line);
    }
    CHECK_SOON(NUMBER(ask(&writer, "descriptors"), "descriptors") <= fds + 4, kit_frees_in());
    CHECK_SOON(NUMBER(ask(&writer, "mappings memfd"), "mappings") <= maps + 4, kit_frees_in());
    CHECK_SOON(process_mappings(healthy.pid, "memfd") <= 12, kit_frees_in());
    child_kill(&stopped, SIGCONT);
    EXPECT_ANSWER(&stopped, "take 20000", "took 201 missed 199 flags 2");
    CHECK_SOON(process_mappings(stopped.pid, "memfd") <= 12, kit_frees_in());
    CHECK_SOON(process_fds(stopped.pid) <= process_fds(healthy.pid) + 2, kit_frees_in());
    role_stop(&stopped);
    role_stop(&healthy);
    role_stop(&writer);
}
