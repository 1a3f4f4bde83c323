/* SPDX-License-Identifier: MIT
 *
 * Writers that are killed: before they begin, during that, before their first frame, at a frame. A reader goes on with
 * the next writer, for which it needs only the name.
 */
#include "kit.h"
#include "util/hooks.h"

static const char *deadly;

static void die_here(const char *point)
{
    if (deadly && !strcmp(point, deadly))
        raise(SIGKILL);
}

/* NAME SESSION SLOTS: begins and waits for commands: "die at POINT", "begin", "publish". */
ROLE(interop_writer)
{
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    uint32_t session = (uint32_t)atoi(argv[2]), slots = (uint32_t)atoi(argv[3]);
    static char point[64];
    (void)argc;
    sl_kill_point_hook = die_here;
    CHECK_OK(sl_cipd_write_open(&producer, argv[1]));
    role_say("open");
    for (char *line; (line = role_line());) {
        if (sscanf(line, "die at %63s", point) == 1)
            deadly = point;
        else if (!strcmp(line, "begin"))
            begin_as(&producer, slots, session);
        else
            sl_cipd_write_publish(&producer, test_now());
        role_say("done");
    }
    sl_cipd_write_close(&producer);
    return 0;
}

static struct child writer(const char *name, uint32_t session, uint32_t slots)
{
    char number[20], count[20];
    snprintf(number, sizeof(number), "%u", session);
    snprintf(count, sizeof(count), "%u", slots);
    struct child child = role_start("interop_writer", name, number, count, NULL);
    child_expect(&child, "open", 20);
    return child;
}

static void say(struct child *child, const char *line)
{
    child_send(child, line);
    child_expect(child, "done", 20);
}

TEST_TIMEOUT(writers_of_ours_are_killed, 120)
{
    static const char *const ends[] = { "open",         "cipd_begin", "cipd_version", "begin",
                                        "cipd_publish", "publish",    "again" };
    const char *name = cipd_name("killed");
    struct follower follower;
    char line[40];
    follower_init(&follower, name);
    for (uint32_t round = 0; round < 14; round++) {
        const char *end = ends[round % 7];
        uint32_t session = 100 + 2 * round, slots = round % 4 == 3 ? 2 : 3;
        struct child child = writer(name, session, slots);
        bool half = !strcmp(end, "cipd_begin") || !strcmp(end, "cipd_version");
        if (half) {
            snprintf(line, sizeof line, "die at %s", end);
            say(&child, line);
        }
        if (strcmp(end, "open"))
            child_send(&child, "begin");
        if (half) {
            CHECK_EQ(child_wait(&child, 20), -SIGKILL);
        } else if (strcmp(end, "open")) {
            child_expect(&child, "done", 20);
            if (!strcmp(end, "cipd_publish")) {
                say(&child, "die at cipd_publish");
                child_send(&child, "publish");
                CHECK_EQ(child_wait(&child, 20), -SIGKILL);
            } else if (strcmp(end, "begin")) {
                say(&child, "publish");
                follower_reach(&follower, session, 20);
            }
        }
        if (!child_ended(&child))
            child_kill(&child, SIGKILL);
        for (int i = 0; i < 5; i++) /* whatever is left there is not a frame of a living writer */
            follower_poll(&follower);
        child = writer(name, session + 1, slots);
        say(&child, "begin");
        say(&child, "publish");
        follower_reach(&follower, session + 1, 20);
        child_kill(&child, SIGKILL);
    }
    /* the last one is dead, which shows by the lock, not by a name */
    CHECK_SOON(!follower_poll(&follower) && follower.consumer.reason == SL_CIPD_REASON_DEAD, 10);
    follower_end(&follower);
    struct child child = writer(name, 1000, 3);
    CHECK_EQ(cipd_seconds(name), 1); /* the many dead ones have left none */
    role_stop(&child);
    CHECK_EQ(cipd_seconds(name), 0);
    CHECK(!cipd_there(name));
}

/* Nothing has to be cleaned up after a writer that had no session. */
TEST(writers_that_are_killed_before_their_first_session_leave_nothing)
{
    static const char *const ends[] = { "open", "cipd_begin", "cipd_show" };
    const char *name = cipd_name("unborn");
    for (size_t i = 0; i < 3; i++) {
        struct child child = writer(name, 1, 3);
        CHECK(!cipd_there(name));
        if (i == 0) {
            child_kill(&child, SIGKILL);
        } else {
            char line[40];
            snprintf(line, sizeof(line), "die at %s", ends[i]);
            say(&child, line);
            child_send(&child, "begin");
            CHECK_EQ(child_wait(&child, 20), -SIGKILL);
        }
        CHECK_EQ(cipd_there(name), i == 2); /* it has just begun one */
        CHECK_EQ(cipd_seconds(name), 0);
    }
    struct child child = writer(name, 1, 3);
    role_stop(&child);
    CHECK(!cipd_there(name));
}

static const char *changing;
static int names;

static void count_names(const char *point)
{
    if (strcmp(point, "named_move") == 0)
        names = cipd_seconds(changing);
}

/* A segment that replaces another has one more name for a moment, of the form that is removed if its writer dies then.
 * */
TEST(writers_that_are_killed_while_slots_change_leave_nothing_that_stays)
{
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    changing = cipd_name("changing");
    CHECK_OK(sl_cipd_write_open(&producer, changing));
    CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &metadata));
    sl_kill_point_hook = count_names;
    CHECK_OK(sl_cipd_write_begin(&producer, 2, golden_all(), &metadata));
    CHECK_EQ(names, 3); /* the old one's, and two of the new one's */
    CHECK_EQ(cipd_seconds(changing), 1);
    sl_cipd_write_close(&producer);
    struct child child = writer(changing, 1, 3);
    say(&child, "begin");
    child_kill(&child, SIGKILL);
    child = writer(changing, 2, 2);
    say(&child, "die at named_move");
    child_send(&child, "begin");
    CHECK_EQ(child_wait(&child, 20), -SIGKILL);
    child = writer(changing, 3, 2);
    CHECK_EQ(cipd_seconds(changing), 1);
    say(&child, "begin");
    role_stop(&child);
    CHECK_EQ(cipd_seconds(changing), 0);
    CHECK(!cipd_there(changing));
}

/* Of two that begin at once one gets an error. */
TEST(writers_that_begin_together)
{
    const char *name = cipd_name("together");
    struct sl_cipd_segment_writer one = SL_CIPD_SEGMENT_WRITER_INIT, other = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    CHECK_OK(sl_cipd_write_open(&one, name));
    CHECK_OK(sl_cipd_write_open(&other, name));
    CHECK_OK(sl_cipd_write_begin(&one, 3, golden_all(), &metadata));
    ino_t inode = cipd_inode(name);
    for (int i = 0; i < 2; i++)
        CHECK_SAYS(sl_cipd_write_begin(&other, 2 + (uint32_t)i, golden_all(), &metadata), SLUICE_E_EXISTS, "quicker");
    sl_cipd_write_close(&other);
    CHECK_EQ(cipd_inode(name), inode);
    CHECK_EQ(cipd_seconds(name), 1);
    sl_cipd_write_close(&one);
    CHECK(!cipd_there(name));
    /* By then it may have ended. */
    CHECK_OK(sl_cipd_write_open(&other, name));
    CHECK_OK(sl_cipd_write_begin(&other, 3, golden_all(), &metadata));
    sl_cipd_write_close(&other);
    CHECK(!cipd_there(name));
    CHECK_EQ(cipd_seconds(name), 0);
}

TEST_TIMEOUT(writers_in_python_are_killed, 120)
{
    const char *name = cipd_name("python killed");
    struct follower follower;
    follower_init(&follower, name);
    for (uint32_t round = 0; round < 4; round++) {
        struct child peer = peer_start();
        peer_do(&peer, "done", "writer\t%s\t433", name);
        if (round % 4 != 0) {
            peer_tell(&peer, "begin\t3\t%u", round + 1);
            CHECK(child_line(&peer, 30));
        }
        if (round % 4 > 1) {
            peer_do(&peer, "index 9", "publish\t9");
            follower_reach(&follower, round + 1, 30);
        }
        child_kill(&peer, SIGKILL);
        CHECK_SOON(!cipd_there(name), 10); /* its tracker has removed it */
        follower_poll(&follower);
    }
    CHECK_SOON(follower_poll(&follower) || follower.consumer.orphan, 10);
    struct child child = writer(name, 50, 3);
    say(&child, "begin");
    say(&child, "publish");
    follower_reach(&follower, 50, 20);
    follower_end(&follower);
    role_stop(&child);
}

/* A reader that is killed in its sleep costs the writer one wake-up. */
ROLE(interop_sleeper)
{
    struct follower follower;
    (void)argc;
    follower_init(&follower, argv[1]);
    follower_reach(&follower, 7, 20);
    role_say("asleep");
    for (;;)
        sl_cipd_read_wait(&follower.consumer, SLUICE_FOREVER);
}

TEST(a_killed_sleeper_is_forgotten)
{
    const char *name = cipd_name("sleeper");
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    CHECK_OK(sl_cipd_write_open(&producer, name));
    begin_as(&producer, 3, 7);
    sl_cipd_write_publish(&producer, test_now());
    struct child sleeper = role_start("interop_sleeper", name, NULL);
    child_expect(&sleeper, "asleep", 20);
    CHECK_SOON(somebody_sleeps(&producer), 10);
    child_kill(&sleeper, SIGKILL);
    sl_cipd_write_publish(&producer, test_now());
    CHECK(!somebody_sleeps(&producer));
    sl_cipd_write_close(&producer);
}
