/* SPDX-License-Identifier: MIT
 *
 * Ends and restarts: killed, closed, forked, started again; nothing to clean up, no peer left behind.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB  1024
#define SOON (10 * SLUICE_S)

static struct child start_writer(const char *a, const char *b)
{
    test_dir();
    struct child writer = kit_start("writer", "bytes=50000", a, b, NULL);
    child_expect(&writer, "open", 5);
    return writer;
}

static struct child start_reader(const char *a, const char *b)
{
    struct child reader = kit_start("reader", "name=cam", a, b, NULL);
    child_expect(&reader, "open", 5);
    return reader;
}

/* Its writer was killed, which it may notice a little later. */
static void expect_no_writer(struct child *reader, const char *take)
{
    CHECK_SOON(NUMBER(ask(reader, "stats"), "connected") == 0, 2);
    EXPECT_ANSWER(reader, take, "NO_WRITER");
}

/* A frame of a session that is new to the reader, and of a new generation. */
#define ALL_NEW "missed 0 flags 3"

TEST(readers_find_a_killed_writers_successor)
{
    struct child writer = start_writer(NULL, NULL);
    struct child newest = start_reader(NULL, NULL), recorder = start_reader("mode=1", NULL);
    char session[32];

    EXPECT_ANSWER(&writer, "commit 3", "committed 3");
    EXPECT_ANSWER(&newest, "take 20000", "took 3 missed 0 flags 3");
    EXPECT_ANSWER(&recorder, "count 3 20000", "counted 3 first 1 last 3 missed 0");
    snprintf(session, sizeof session, "%s", ask(&newest, "session"));
    child_kill(&writer, SIGKILL);
    expect_no_writer(&newest, "take 100");
    expect_no_writer(&recorder, "take 100");

    writer = start_writer(NULL, NULL);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&newest, "take 20000", "took 1 " ALL_NEW);
    EXPECT_ANSWER(&recorder, "take 20000", "took 1 " ALL_NEW);
    CHECK(strcmp(ask(&newest, "session"), session) != 0);
    EXPECT_ANSWER(&writer, "commit 1", "committed 2");
    EXPECT_ANSWER(&newest, "take 20000", "took 2 missed 0 flags 0");
    CHECK_EQ(NUMBER(ask(&newest, "stats"), "sessions"), 2);
    role_stop(&newest);
    role_stop(&recorder);
    role_stop(&writer);
}

TEST(frames_of_a_dead_session_stay_readable_while_they_are_held)
{
    struct child writer = start_writer(NULL, NULL);
    struct child reader = start_reader("hold=2", NULL);

    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&reader, "hold 20000", "holds 1 ");
    child_kill(&writer, SIGKILL);
    EXPECT_ANSWER(&reader, "check", "whole 1");
    writer = start_writer(NULL, NULL);
    EXPECT_ANSWER(&writer, "commit 7", "committed 7");
    EXPECT_ANSWER(&reader, "hold 20000", "holds 7 missed 6 flags 3");
    EXPECT_ANSWER(&writer, "commit 50", "committed 57");
    EXPECT_ANSWER(&reader, "check", "whole 2");
    EXPECT_ANSWER(&reader, "give", "gave 1");
    EXPECT_ANSWER(&reader, "check", "whole 1");
    EXPECT_ANSWER(&reader, "give", "gave 7");
    /* The old session ends with its last frame: on a GPU channel by a thread of its own. */
    EXPECT_ANSWER(&reader, "take 20000", "took 57 ");
    CHECK_SOON(process_mappings(reader.pid, "memfd:sluice-control") <= 1, 10);
    role_stop(&reader);
    role_stop(&writer);
}

TEST(ready_frames_of_a_killed_writer_are_given)
{
    struct child writer = start_writer(NULL, NULL);
    struct child recorder = start_reader("mode=1", NULL), newest = start_reader(NULL, NULL);

    EXPECT_ANSWER(&writer, "commit 4", "committed 4");
    EXPECT_ANSWER(&writer, "begin", "begun"); /* in flight: nobody will see it */
    child_kill(&writer, SIGKILL);
    CHECK_SOON(NUMBER(ask(&newest, "stats"), "connected") == 0, 2);
    EXPECT_ANSWER(&newest, "take 20000", "took 4 ");
    expect_no_writer(&newest, "take 50");
    EXPECT_ANSWER(&recorder, "count 4 20000", "counted 4 first 1 last 4 missed 0");
    expect_no_writer(&recorder, "take 50");
    role_stop(&recorder);
    role_stop(&newest);
}

/* Memory that had not arrived when the writer died. */
TEST(ready_frames_of_a_killed_writer_are_given_in_a_new_generation_too)
{
    struct child writer = start_writer(NULL, NULL);
    struct child reader = start_reader(NULL, NULL);

    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&reader, "take 20000", "took 1 ");
    /* The writer's service thread has seen the acknowledgement of the first memory before it answers this. */
    struct sluice_channel_info info = { .size = sizeof info };
    CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, NULL, 0));
    child_kill(&reader, SIGSTOP);
    EXPECT_ANSWER(&writer, "reformat 70000", "generation 2");
    EXPECT_ANSWER(&writer, "commit 1", "committed 2");
    child_kill(&writer, SIGKILL);
    child_kill(&reader, SIGCONT);
    EXPECT_ANSWER(&reader, "take 20000", "took 2 missed 0 flags 2 generation 2");
    role_stop(&reader);
}

TEST(a_closed_channel_gives_what_is_unread_then_says_so_again_and_again)
{
    struct child writer = start_writer(NULL, NULL);
    struct child recorder = start_reader("mode=1", NULL), newest = start_reader(NULL, NULL);

    EXPECT_ANSWER(&writer, "commit 3", "committed 3");
    EXPECT_ANSWER(&writer, "begin", "begun"); /* cancelled by close */
    EXPECT_ANSWER(&writer, "close", "closed");
    for (int i = 0; i < 2; i++) {
        EXPECT_ANSWER(&recorder, "count 3 20000", i ? "CLOSED after 0" : "counted 3 first 1 last 3 missed 0");
        EXPECT_ANSWER(&newest, "take 20000", i ? "CLOSED" : "took 3 ");
        int64_t began = test_now();
        EXPECT_ANSWER(&recorder, "take 60000", "CLOSED"); /* at once */
        EXPECT_ANSWER(&newest, "take 60000", "CLOSED");
        CHECK_LE(test_now() - began, SOON);
    }
    role_stop(&writer);
    EXPECT_ANSWER(&newest, "take 0", "CLOSED");

    writer = start_writer(NULL, NULL);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    CHECK_SOON(NUMBER(ask(&newest, "stats"), "lag") == 0 && strncmp(ask(&newest, "take 20"), "took 1", 6) == 0, 5);
    CHECK_SOON(strncmp(ask(&recorder, "take 20"), "took 1", 6) == 0, 5);
    role_stop(&writer);
    role_stop(&recorder);
    role_stop(&newest);
}

TEST(close_right_after_a_frame_of_a_new_format_loses_nothing)
{
    for (int i = 0; i < 20; i++) {
        sluice_writer *writer = kit_writer("cam", 8 * KIB);
        struct child reader = start_reader("mode=1", NULL);
        struct sluice_format format = kit_format(16 * KIB);

        kit_commits(writer, 1);
        CHECK_OK(sluice_writer_reformat(writer, &format));
        kit_commits(writer, 1);
        format = kit_format(24 * KIB);
        CHECK_OK(sluice_writer_reformat(writer, &format));
        kit_commits(writer, 1);
        CHECK_OK(sluice_writer_close(&writer));
        EXPECT_ANSWER(&reader, "count 3 20000", "counted 3 first 1 last 3 missed 0");
        EXPECT_ANSWER(&reader, "take 20000", "CLOSED");
        role_stop(&reader);
    }
}

TEST(a_reader_may_be_opened_before_the_writer)
{
    test_dir();
    struct child patient = kit_start("reader", "open_ms=20000", NULL);
    struct child later = kit_start("reader", "open_ms=-1", NULL);
    child_expect(&later, "open", 2);
    EXPECT_ANSWER(&later, "take 50", "NO_WRITER");
    CHECK_HAS(ask(&later, "last"), "no channel 'cam' in");
    EXPECT_ANSWER(&later, "stats", "connected 0 taken 0");

    struct child now = kit_start("reader", "open_ms=0", NULL), briefly = kit_start("reader", "open_ms=200", NULL);
    CHECK_HAS(child_line(&now, 2), "E_NOT_FOUND no channel 'cam' in");
    int64_t began = test_now();
    CHECK_HAS(child_line(&briefly, 4), "E_NOT_FOUND no channel 'cam' in");
    CHECK_LE(test_now() - began, SOON);
    role_stop(&now);
    role_stop(&briefly);

    struct child writer = start_writer(NULL, NULL);
    child_expect(&patient, "open", 4);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&patient, "take 20000", "took 1 missed 0 flags 3");
    EXPECT_ANSWER(&later, "take 20000", "took 1 missed 0 flags 3");
    role_stop(&writer);
    role_stop(&patient);
    role_stop(&later);
}

TEST(a_second_writer_of_a_live_name_is_refused)
{
    struct child writer = start_writer(NULL, NULL);
    struct child reader = start_reader(NULL, NULL);
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    sluice_writer *second = NULL;
    char text[64];

    snprintf(text, sizeof text, "has a writer already (process %d)", (int)writer.pid);
    for (int i = 0; i < 3; i++) {
        int64_t began = test_now();
        CHECK_SAYS(sluice_writer_open(&second, &params), SLUICE_E_EXISTS, text);
        CHECK_LE(test_now() - began, SOON);
    }
    CHECK(second == NULL);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&reader, "take 20000", "took 1 ");
    struct child third = kit_start("writer", NULL);
    CHECK_HAS(child_line(&third, 5), "E_EXISTS");
    role_stop(&third);

    /* So does a stopped one. */
    child_kill(&writer, SIGSTOP);
    CHECK_SAYS(sluice_writer_open(&second, &params), SLUICE_E_EXISTS, text);
    child_kill(&writer, SIGCONT);
    role_stop(&writer);
    CHECK_OK(sluice_writer_open(&second, &params));
    CHECK_OK(sluice_writer_close(&second));
    role_stop(&reader);
}

TEST(a_name_is_taken_over_while_its_owner_dies)
{
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    sluice_writer *writer;

    for (int i = 0; i < 10; i++) {
        struct child old = start_writer("slots=32", "bytes=1000000");
        kill(old.pid, SIGKILL); /* not waited for */
        CHECK_OK(sluice_writer_open(&writer, &params));
        CHECK_OK(sluice_writer_close(&writer));
        CHECK_EQ(child_wait(&old, 5), -SIGKILL);
    }
}

TEST(a_lock_whose_owner_does_not_answer_is_waited_for_a_second)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB); /* makes folder and lock */
    char path[600];

    CHECK_OK(sluice_writer_close(&writer));
    snprintf(path, sizeof path, "%s/cam.lock", test_dir());
    int lock = open(path, O_RDWR | O_CLOEXEC);
    CHECK(lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0);
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    int64_t began = test_now();
    CHECK_RESULT(sluice_writer_open(&writer, &params), SLUICE_E_EXISTS);
    CHECK_GE(test_now() - began, SLUICE_S);
    CHECK_LE(test_now() - began, SLUICE_S + SOON);
    close(lock);
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_writer_close(&writer));
}

/* Clean-up tools may remove it: it was last changed when the channel was opened. */
TEST(a_writer_whose_lock_was_taken_away_keeps_its_name)
{
    struct child writer = start_writer(NULL, NULL), reader = start_reader(NULL, NULL);
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    sluice_writer *second = NULL;
    char path[600], text[64];

    snprintf(text, sizeof text, "has a writer already (process %d)", (int)writer.pid);
    snprintf(path, sizeof path, "%s/cam.lock", test_dir());
    CHECK_EQ(unlink(path), 0);
    for (int i = 0; i < 2; i++)
        CHECK_SAYS(sluice_writer_open(&second, &params), SLUICE_E_EXISTS, text);
    child_kill(&writer, SIGSTOP);
    CHECK_SAYS(sluice_writer_open(&second, &params), SLUICE_E_EXISTS, "has a writer already");
    child_kill(&writer, SIGCONT);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&reader, "take 20000", "took 1 missed 0 flags 3");
    child_kill(&writer, SIGKILL);
    CHECK_OK(sluice_writer_open(&second, &params));
    CHECK_OK(sluice_writer_close(&second));
    role_stop(&reader);
}

TEST(nothing_is_left_behind_but_the_lock)
{
    for (int i = 0; i < 3; i++) {
        struct child writer = start_writer(NULL, NULL);
        EXPECT_ANSWER(&writer, "commit 1", "committed 1");
        child_kill(&writer, SIGKILL);
    }
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    CHECK_OK(sluice_writer_close(&writer));
    DIR *dir = opendir(test_dir());
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            CHECK_STR(entry->d_name, "cam.lock");
    closedir(dir);
}

/* Starves a 3-slot writer in the test: `a` holds 1, `b` holds 2. */
static sluice_writer *starve(struct child *a, struct child *b)
{
    struct sluice_format format = kit_format(50000);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    struct sluice_frame frame;
    sluice_writer *writer;

    test_dir();
    params.slots = params.max_slots = 3;
    CHECK_OK(sluice_writer_open(&writer, &params));
    *a = start_reader(NULL, NULL);
    *b = start_reader(NULL, NULL);
    kit_commits(writer, 1);
    EXPECT_ANSWER(a, "hold 20000", "holds 1 ");
    kit_commits(writer, 1);
    EXPECT_ANSWER(b, "hold 20000", "holds 2 ");
    kit_commits(writer, 1);
    CHECK_RESULT(sluice_writer_begin(writer, 0, &frame), SLUICE_NO_SLOT);
    return writer;
}

TEST(a_killed_readers_slots_come_back)
{
    struct child a, b;
    sluice_writer *writer = starve(&a, &b);

    child_kill(&a, SIGKILL);
    CHECK_SOON(kit_commit(writer) == 0, 2);
    kit_commits(writer, 20);
    EXPECT_ANSWER(&b, "check", "whole 1");
    CHECK_EQ(kit_writer_stats(writer).readers, 1);
    CHECK_EQ(kit_writer_stats(writer).readers_died, 1);
    role_stop(&b);
    CHECK_SOON(kit_writer_stats(writer).readers == 0, 2);
    CHECK_EQ(kit_writer_stats(writer).readers_died, 1);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_waiting_writer_goes_on_when_the_holder_is_killed)
{
    struct child a, b;
    sluice_writer *writer = starve(&a, &b);
    struct sluice_frame frame;

    kill(a.pid, SIGKILL);
    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
    CHECK_EQ(child_wait(&a, 5), -SIGKILL);
    role_stop(&b);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_killed_readers_forked_child_does_not_keep_its_leases)
{
    struct child a, b;

    KIT_HOST_ONLY("what a GPU reads such a child keeps alive (tests/gpu/reader_death.c)");
    sluice_writer *writer = starve(&a, &b);

    pid_t child = (pid_t)NUMBER(ask(&a, "fork"), "forked");
    child_kill(&a, SIGKILL);
    CHECK_SOON(kit_commit(writer) == 0, 2);
    CHECK_EQ(kill(child, 0), 0); /* it lives */
    kill(child, SIGKILL);
    role_stop(&b);
    CHECK_OK(sluice_writer_close(&writer));
}

/* Nothing closes the sockets in such a child, so there is no hang-up. The death of the process itself is noticed. */
TEST(deaths_are_noticed_though_a_raw_clone_keeps_the_sockets)
{
    struct child a, b;

    KIT_HOST_ONLY("what a GPU works on such a child keeps alive (tests/gpu/reader_death.c)");
    sluice_writer *writer = starve(&a, &b);

    pid_t child = (pid_t)NUMBER(ask(&a, "clone"), "forked");
    child_kill(&a, SIGKILL);
    CHECK_SOON(kit_commit(writer) == 0, 2);
    CHECK_EQ(kill(child, 0), 0);
    kill(child, SIGKILL);
    role_stop(&b);
    CHECK_OK(sluice_writer_close(&writer));

    struct child owner = start_writer(NULL, NULL);
    struct child reader = start_reader(NULL, NULL);
    EXPECT_ANSWER(&owner, "commit 1", "committed 1");
    child = (pid_t)NUMBER(ask(&owner, "clone"), "forked");
    child_kill(&owner, SIGKILL);
    CHECK_SOON(NUMBER(ask(&reader, "stats"), "connected") == 0, 2);
    EXPECT_ANSWER(&reader, "take 100", "took 1 ");
    CHECK_EQ(kill(child, 0), 0);
    kill(child, SIGKILL);
    role_stop(&reader);
}

TEST(a_killed_writers_forked_child_does_not_keep_the_name)
{
    struct child writer = start_writer(NULL, NULL);
    struct child reader = start_reader(NULL, NULL);

    EXPECT_ANSWER(&writer, "commit 2", "committed 2");
    pid_t child = (pid_t)NUMBER(ask(&writer, "fork"), "forked");
    EXPECT_ANSWER(&writer, "commit 1", "committed 3"); /* the parent goes on as before */
    EXPECT_ANSWER(&reader, "take 20000", "took 3 ");
    child_kill(&writer, SIGKILL);
    expect_no_writer(&reader, "take 20");
    sluice_writer *next = kit_writer("cam", 50000);
    kit_commits(next, 1);
    EXPECT_ANSWER(&reader, "take 20000", "took 1 " ALL_NEW);
    CHECK_EQ(kill(child, 0), 0);
    kill(child, SIGKILL);
    role_stop(&reader);
    CHECK_OK(sluice_writer_close(&next));
}

TEST(descriptors_end_at_exec)
{
    bool before[256];
    for (int fd = 0; fd < 256; fd++)
        before[fd] = fcntl(fd, F_GETFD) >= 0;
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    sluice_watch *watch;
    int known = 0;

    CHECK_OK(sluice_registry_watch_open(&watch, NULL));
    CHECK(sluice_reader_fd(reader) >= 0);
    for (int fd = 0; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || before[fd])
            continue;
        known++;
        CHECK(flags & FD_CLOEXEC);
    }
    CHECK(known > 10);
    CHECK_OK(sluice_registry_watch_close(&watch));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(twenty_restarts_under_running_readers)
{
    test_dir();
    struct child newest = kit_start("reader", "open_ms=-1", NULL),
                 recorder = kit_start("reader", "mode=1", "open_ms=-1", NULL);
    child_expect(&newest, "open", 5);
    child_expect(&recorder, "open", 5);
    EXPECT_ANSWER(&newest, "run", "running");
    EXPECT_ANSWER(&recorder, "run", "running");
    int fds = 0;
    for (int i = 0; i < 20; i++) {
        struct child writer = start_writer(NULL, NULL);
        EXPECT_ANSWER(&writer, "run 100", "running");
        test_nap((30 + i * 7 % 40) * SLUICE_MS);
        if (i % 10 == 0) /* they have seen at least two of them */
            CHECK_SOON(kit_taken("cam", newest.pid) > 0 && kit_taken("cam", recorder.pid) > 0, 10);
        fds = i ? fds : process_fds(newest.pid); /* a GPU's driver has many of its own */
        child_kill(&writer, i % 3 ? SIGKILL : SIGTERM);
        CHECK(child_wait(&writer, 5) < 0);
    }
    struct child writer = start_writer(NULL, NULL);
    EXPECT_ANSWER(&writer, "run 500", "running");
    CHECK_SOON(kit_taken("cam", newest.pid) > 0 && kit_taken("cam", recorder.pid) > 0, 10);
    test_nap(SLUICE_S);
    CHECK_HAS(ask(&writer, "stop"), "ran");
    for (int i = 0; i < 2; i++) {
        const char *answer = ask(i ? &recorder : &newest, "stop");
        CHECK(NUMBER(answer, "sessions") >= 2);
        CHECK_EQ(NUMBER(answer, "torn"), 0);
        CHECK_EQ(NUMBER(answer, "back"), 0);
        CHECK_EQ(NUMBER(answer, "lost"), 0);
    }
    /* Nothing of old sessions stays. */
    CHECK_SOON(process_mappings(newest.pid, "memfd:sluice-control") <= 2, 10);
    CHECK_SOON(process_fds(newest.pid) <= fds + 4, 10);
    role_stop(&writer);
    role_stop(&newest);
    role_stop(&recorder);
}
