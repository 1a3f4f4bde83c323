/* SPDX-License-Identifier: MIT
 *
 * Segments of either side, read by the other: bytes, sizes, slots that change, names that are removed.
 */
#include "kit.h"
#include "util/hooks.h"

#define GOLDEN_SHA "5a1ac7cbfd7e352a4be23b935088b92acbcfc32f38774fb3fd5f35bccf18aa03"

TEST(golden_of_python_is_ours)
{
    const char *name = cipd_name("golden");
    struct child peer = peer_start();
    struct sl_cipd_segment_reader consumer;
    struct sl_cipd_frame frame;
    peer_do(&peer, "done", "golden\t%s", name);
    peer_do(&peer, GOLDEN_SHA, "sha256\t433");
    CHECK_OK(sl_cipd_read_init(&consumer, name));
    CHECK_OK(sl_cipd_read_connect(&consumer, test_now()));
    CHECK_EQ(consumer.session.version, 7);
    CHECK_EQ(consumer.session.format.width, 1920);
    CHECK_EQ(consumer.session.format.height, 1080);
    CHECK_EQ(consumer.session.format.bytes, 33177600);
    CHECK_STR(sl_cipd_format_dtype_name(consumer.session.format.dtype), "float32");
    CHECK_MEM(consumer.session.handles, golden_all(), 3 * sizeof(struct sl_cipd_handles));
    CHECK_EQ(sl_cipd_read_poll(&consumer, test_now(), &frame), SL_CIPD_FRAME);
    CHECK_EQ(frame.index, 42);
    CHECK_EQ(frame.slot, 2);
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    peer_end(&peer);
}

TEST(golden_of_ours_is_pythons)
{
    const char *name = cipd_name("golden");
    struct child peer = peer_start();
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_metadata metadata = { 1920, 1080, 4, 2, 32, 0, 33177600 };
    CHECK_OK(sl_cipd_write_open(&producer, name));
    for (int session = 0; session < 7; session++)
        CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &metadata));
    for (int frame = 0; frame < 42; frame++)
        sl_cipd_write_publish(&producer, INT64_C(1234500000000));
    peer_do(&peer, "size 4096", "reader\t%s", name);
    peer_do(&peer, GOLDEN_SHA, "sha256\t433");
    peer_do(&peer, "frame 42 2 48 1920", "next");
    sl_cipd_write_close(&producer);
    peer_end(&peer);
}

TEST_TIMEOUT(python_reads_ours_whose_slots_change, 60)
{
    static const uint32_t slots[] = { 2, 3, 2, 10, 3, 3 };
    const char *name = cipd_name("TD>>Python slots");
    struct child peer = peer_start();
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    CHECK_OK(sl_cipd_write_open(&producer, name));
    for (uint32_t session = 1; session <= 6; session++) {
        begin_as(&producer, slots[session - 1], session);
        if (session == 1)
            peer_do(&peer, "size 4096", "reader\t%s", name);
        for (uint32_t frame = 1; frame <= 7; frame++) {
            char expected[100];
            uint32_t slot = sl_cipd_write_slot(&producer), index = sl_cipd_write_publish(&producer, test_now());
            CHECK_EQ(index,
                     7 * (session - 1) + frame); /* goes on: Python keeps the index when the version changes in place */
            snprintf(expected, sizeof(expected), "frame %u %u %u %u", index, slot, session, session);
            peer_do(&peer, expected, "next");
        }
    }
    sl_cipd_write_close(&producer);
    peer_end(&peer);
}

TEST_TIMEOUT(ours_reads_python_whose_slots_change, 60)
{
    static const int slots[] = { 3, 2, 3, 1, 3 };
    const char *name = cipd_name("Python slots");
    struct child peer = peer_start();
    struct follower follower;
    follower_init(&follower, name);
    CHECK(!follower_poll(&follower));
    CHECK_EQ(follower.consumer.reason, SL_CIPD_REASON_ABSENT);
    peer_do(&peer, "done", "writer\t%s\t433", name);
    for (int session = 1; session <= 5; session++) { /* all in one segment */
        char answer[40];
        snprintf(answer, sizeof(answer), "version %d", session);
        peer_do(&peer, answer, "begin\t%d\t%d", slots[session - 1], session);
        peer_do(&peer, "index 7", "publish\t7");
        follower_reach(&follower, session, 10);
        CHECK_EQ(follower.frame.index, 7);
        CHECK_EQ(follower.frame.slot, 6 % slots[session - 1]);
        CHECK_EQ(follower.consumer.segment.size, 433);
    }
    CHECK_EQ(follower.losses, 0);
    peer_do(&peer, "done", "shut");
    CHECK(!cipd_there(name));
    for (int session = 6; session <= 9; session++) { /* one each, of the size that it needs */
        int count = session % 2 ? 3 : 2;
        peer_do(&peer, "done", "writer\t%s\t%d", name, 49 + 128 * count);
        peer_do(&peer, "version 1", "begin\t%d\t%d", count, session);
        peer_do(&peer, "index 7", "publish\t7");
        follower_reach(&follower, session, 10);
        peer_do(&peer, "done", "shut");
    }
    CHECK_GE(follower.shuts + follower.losses, 4);
    follower_end(&follower);
    peer_end(&peer);
}

static bool goes_away(const char *name)
{
    int64_t until = test_now() + 10 * SLUICE_S;
    while (cipd_there(name) && test_now() < until)
        test_nap(1000000);
    return !cipd_there(name);
}

/* Python's tracker removes the name when a program that attached it ends. */
TEST_TIMEOUT(a_name_that_python_takes_away_comes_back, 60)
{
    const char *name = cipd_name("taken away");
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct follower early, late;
    follower_init(&early, name);
    follower_init(&late, name);
    CHECK_OK(sl_cipd_write_open(&producer, name));
    begin_as(&producer, 3, 1);
    sl_cipd_write_publish(&producer, test_now());
    follower_reach(&early, 1, 10);
    for (int round = 0; round < 3; round++) {
        struct child peer = peer_start();
        peer_do(&peer, "size 4096", "reader\t%s", name);
        if (round)
            peer_do(&peer, "done", "close");
        peer_end(&peer);
        if (!goes_away(name)) {
            follower_end(&early);
            sl_cipd_write_close(&producer);
            SKIP("this Python takes no name away");
        }
        CHECK_OK(sl_cipd_read_connect(&late.consumer, SLUICE_FOREVER)); /* by the link name */
        follower_end(&late);
        CHECK_EQ(sl_cipd_write_refresh(&producer), 1);
        CHECK_EQ(cipd_inode(name), producer.segment.memory.inode);
        peer = peer_start();
        peer_do(&peer, "size 4096", "reader\t%s", name);
        peer_do(&peer, round ? "frame 2 1 1 1" : "frame 1 0 1 1", "next");
        child_kill(&peer, SIGKILL);
        if (!round)
            sl_cipd_write_publish(&producer, test_now());
        CHECK(goes_away(name));
        CHECK_EQ(sl_cipd_write_refresh(&producer), 1);
    }
    CHECK_SOON(follower_has(&early, 1) && early.frame.index == 2, 10);
    CHECK_EQ(early.losses + early.shuts + early.changes, 0);
    follower_end(&early);
    sl_cipd_write_close(&producer);
}

/* ---- changes during a copy ---- */

static struct foreign changing;
static int what;

static void change(const char *point)
{
    if (strcmp(point, "cipd_copied"))
        return;
    if (what == 0)
        sl_cipd_store_version(changing.at, sl_cipd_load_version(changing.at) + 1);
    else if (what == 1)
        sl_cipd_store_slots(changing.at, 2);
    else
        sl_cipd_store_index(changing.at, 0);
}

TEST(a_copy_that_changed_meanwhile_is_rejected)
{
    const char *name = cipd_name("changing");
    struct sl_cipd_segment_reader consumer;
    int64_t now = SLUICE_S;
    changing = foreign_make(name, 433);
    foreign_begin(&changing, 3, 5);
    foreign_publish(&changing, 9, 1.0);
    CHECK_OK(sl_cipd_read_init(&consumer, name));
    sl_kill_point_hook = change;
    for (what = 0; what < 3; what++) {
        sl_cipd_store_slots(changing.at, 3);
        CHECK_EQ(sl_cipd_read_connect(&consumer, now += SLUICE_S), SLUICE_NO_WRITER);
        CHECK_EQ(consumer.reason, what < 2 ? SL_CIPD_REASON_CHANGING : SL_CIPD_REASON_UNSETTLED);
        CHECK(!consumer.segment.at);
    }
    sl_kill_point_hook = NULL;
    sl_cipd_store_index(changing.at, 10);
    CHECK_OK(sl_cipd_read_connect(&consumer, now + SLUICE_S));
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    foreign_close(&changing);
}

static struct sl_cipd_segment_reader *looking;
static int looks;

/* A writer of ours is suspended there for longer than a copy must be the same. */
static void look_meanwhile(const char *point)
{
    if (strcmp(point, "cipd_begin") != 0 && strcmp(point, "cipd_version") != 0)
        return;
    for (int i = 0; i < 3; i++) {
        sl_cipd_read_retry_now(looking);
        CHECK_EQ(sl_cipd_read_connect(looking, test_now()), SLUICE_NO_WRITER);
        CHECK_EQ(looking->reason, SL_CIPD_REASON_CHANGING);
        test_nap(3 * SLUICE_MS);
    }
    looks++;
}

TEST(a_session_that_is_being_stored_is_not_joined)
{
    const char *name = cipd_name("being stored");
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_metadata wide = metadata_of(64, 32, 4), high = metadata_of(32, 64, 4);
    struct sl_cipd_segment_reader consumer;

    CHECK_OK(sl_cipd_read_init(&consumer, name));
    looking = &consumer;
    CHECK_OK(sl_cipd_write_open(&producer, name));
    CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &wide));
    sl_cipd_write_publish(&producer, test_now());
    sl_kill_point_hook = look_meanwhile;
    CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &high));
    CHECK_EQ(looks, 2);
    sl_kill_point_hook = NULL;
    sl_cipd_write_publish(&producer, test_now());
    sl_cipd_read_retry_now(&consumer);
    CHECK_OK(sl_cipd_read_connect(&consumer, test_now()));
    CHECK_EQ(consumer.session.version, producer.version);
    CHECK(sl_cipd_same_metadata(&high, &consumer.session.metadata));
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    sl_cipd_write_close(&producer);
}

static struct foreign left;
static unsigned char bytes[SL_CIPD_SEGMENT];

static void keep_bytes(const char *point)
{
    if (strcmp(point, "cipd_version") == 0)
        memcpy(bytes, left.at, sizeof bytes);
}

/* A writer of ours dies while it stores a session's versions, and the next program's session in that segment has the
 * same one. */
TEST(the_version_of_a_session_that_was_not_begun_is_free)
{
    const char *name = cipd_name("half begun");
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    struct sl_cipd_segment_reader consumer;

    CHECK_OK(sl_cipd_write_open(&producer, name));
    CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &metadata));
    left = foreign_attach(name);
    sl_kill_point_hook = keep_bytes;
    CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &metadata));
    sl_kill_point_hook = NULL;
    memcpy(left.at, bytes, sizeof bytes); /* what it leaves if it dies there */
    sl_cipd_segment_leave(&producer.segment);
    CHECK_OK(sl_cipd_read_init(&consumer, name));
    for (uint64_t version = sl_cipd_load_version(left.at); version < 5; version++) {
        foreign_begin(&left, 3, version + 1);
        foreign_publish(&left, 1, 1.0);
        sl_cipd_read_retry_now(&consumer);
        CHECK_OK(sl_cipd_read_connect(&consumer, test_now()));
        CHECK(!consumer.ext);
        sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    }
    foreign_close(&left);
    CHECK_EQ(unlink(cipd_path(name)), 0);
}

/* A writer of ours continues where Python's has left off, and the other way round. */
TEST_TIMEOUT(writers_take_turns, 60)
{
    const char *name = cipd_name("turns");
    struct follower follower;
    follower_init(&follower, name);
    for (uint32_t session = 1; session <= 6; session++) {
        if (session % 2) {
            struct child peer = peer_start();
            peer_do(&peer, "done", "writer\t%s\t433", name);
            peer_tell(&peer, "begin\t3\t%u", session);
            child_line(&peer, 30);
            peer_do(&peer, "index 5", "publish\t5");
            follower_reach(&follower, session, 20);
            if (session == 3)
                child_kill(&peer, SIGKILL);
            else
                peer_end(&peer);
        } else {
            struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
            CHECK_OK(sl_cipd_write_open(&producer, name));
            begin_as(&producer, 3, session);
            sl_cipd_write_publish(&producer, test_now());
            follower_reach(&follower, session, 20);
            sl_cipd_write_close(&producer);
        }
    }
    follower_end(&follower);
}

static int leased;

static void give_lease_back(const char *point)
{
    if (strcmp(point, "named_leased") == 0)
        CHECK_EQ(fcntl(leased, F_SETLEASE, F_UNLCK), 0);
}

/* While another process checks who has it open. */
TEST(a_segment_that_is_just_asked_about_opens)
{
    const char *name = cipd_name("asked");
    struct sl_cipd_segment segment = SL_CIPD_SEGMENT_INIT;
    struct foreign foreign = foreign_make(name, 433);
    foreign_close(&foreign);
    leased = open(cipd_path(name), O_RDWR | O_CLOEXEC);
    CHECK_EQ(fcntl(leased, F_SETSIG, SIGURG), 0); /* as sl_os_named_alone does, which therefore kills nobody */
    CHECK_EQ(fcntl(leased, F_SETLEASE, F_WRLCK), 0);
    sl_kill_point_hook = give_lease_back;
    CHECK_OK(sl_cipd_segment_attach(&segment, name));
    sl_kill_point_hook = NULL;
    close(leased);
    sl_cipd_segment_close(&segment);
}
