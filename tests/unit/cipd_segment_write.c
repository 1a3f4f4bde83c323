/* SPDX-License-Identifier: MIT
 *
 * What a writer of cuda-link's protocol stores: sessions, frames, the end.
 */
#include "cipd_kit.h"

static struct sl_cipd_segment_writer opened(const char *name)
{
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    CHECK_OK(sl_cipd_write_open(&producer, name));
    return producer;
}

static struct sl_cipd_segment_writer begun(const char *name, uint32_t slots)
{
    struct sl_cipd_segment_writer producer = opened(name);
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    CHECK_OK(sl_cipd_write_begin(&producer, slots, golden_all(), &metadata));
    return producer;
}

TEST(cipd_produce_open_stores_nothing)
{
    const char *name = cipd_name("open");
    struct sl_cipd_segment_writer producer = opened(name);
    CHECK(sl_cipd_zero(producer.segment.at, SL_CIPD_SEGMENT));
    CHECK(!somebody_sleeps(&producer));
    sl_cipd_write_skip(&producer);
    sl_cipd_write_shut(&producer);
    CHECK_EQ(sl_cipd_write_refresh(&producer), 0);
    CHECK(sl_cipd_zero(producer.segment.at, SL_CIPD_SEGMENT));
    sl_cipd_write_close(&producer);
    CHECK(!cipd_there(name));
    sl_cipd_write_close(&producer);
}

/* The whole segment against the protocol's golden example, but for version and time. */
TEST(cipd_produce_a_session_in_bytes)
{
    struct sl_cipd_segment_writer producer = opened(cipd_name("bytes"));
    struct sl_cipd_metadata metadata = { 1920, 1080, 4, 2, 32, 0, 33177600 };
    static const unsigned char head[20] = { 0x44, 0x50, 0x49, 0x43, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 42, 0, 0, 0 };
    static const unsigned char foot[29] = { 0, 0x80, 0x07, 0,    0,    0x38, 0x04, 0, 0, 4, 0, 0,    0,    2,   0x20,
                                            0, 0,    0,    0x40, 0xfa, 0x01, 0,    0, 0, 0, 0, 0x4a, 0x93, 0x40 };
    CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &metadata));
    const unsigned char *at = producer.segment.at;
    CHECK_EQ(sl_cipd_load_version(at), 1);
    CHECK_EQ(sl_cipd_load_index(at), 0);
    for (uint32_t frame = 1; frame <= 42; frame++) {
        CHECK_EQ(sl_cipd_write_slot(&producer), (frame - 1) % 3);
        CHECK_EQ(sl_cipd_write_publish(&producer, frame == 42 ? INT64_C(1234500000000) : 5), frame);
    }
    CHECK_MEM(at, head, sizeof(head));
    CHECK_MEM(at + 20, golden_all(), 3 * sizeof(struct sl_cipd_handles));
    CHECK_MEM(at + 404, foot, sizeof(foot));
    CHECK(sl_cipd_zero(at + 433, SL_CIPD_EXT_AT - 433));
    sl_cipd_write_close(&producer);
}

TEST(cipd_produce_again_in_place)
{
    const char *name = cipd_name("again");
    struct sl_cipd_segment_writer producer = begun(name, 3);
    struct sl_cipd_metadata metadata = metadata_of(128, 8, 1), there;
    struct sl_cipd_handles handles[3] = { golden_handles(5), golden_handles(6), golden_handles(7) }, now;
    ino_t inode = cipd_inode(name);
    for (int i = 0; i < 5; i++)
        sl_cipd_write_publish(&producer, 1);
    CHECK_OK(sl_cipd_write_begin(&producer, 3, handles, &metadata));
    CHECK_EQ(cipd_inode(name), inode);
    CHECK_EQ(producer.version, 2);
    CHECK_EQ(sl_cipd_load_version(producer.segment.at), 2);
    CHECK_EQ(sl_cipd_load_index(producer.segment.at), 0);
    CHECK_EQ(sl_cipd_write_slot(&producer), 2);
    CHECK_EQ(sl_cipd_write_publish(&producer, 1), 6);
    sl_cipd_load_metadata(producer.segment.at, &producer.layout, &there);
    CHECK(sl_cipd_same_metadata(&there, &metadata));
    sl_cipd_load_handles(producer.segment.at, 2, &now);
    CHECK_MEM(&now, &handles[2], sizeof(now));
    sl_cipd_write_close(&producer);
}

/* Another number of slots: readers of the old segment see that it is closed where they look for the flag, and at the
 * same moment the name is that of a complete new session. */
TEST(cipd_produce_other_slots)
{
    cipd_needs_files();
    static const uint32_t counts[] = { 2, 3, 2, 10, 1, 5 };
    const char *name = cipd_name("slots");
    struct sl_cipd_segment_writer producer = begun(name, counts[0]);
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    for (int i = 1; i < 6; i++) {
        struct foreign old = foreign_attach(name);
        struct sl_cipd_layout layout;
        ino_t inode = cipd_inode(name);
        CHECK(sl_cipd_layout(counts[i - 1], &layout));
        sl_cipd_write_publish(&producer, 1);
        CHECK_OK(sl_cipd_write_begin(&producer, counts[i], golden_all(), &metadata));
        CHECK_NE(cipd_inode(name), inode);
        CHECK_EQ(sl_cipd_load_shut(old.at, &layout), 1);
        CHECK(sl_cipd_zero(old.at + 20, 128 * counts[i - 1]));
        CHECK_EQ(sl_cipd_load_version(old.at), i);
        struct foreign new = foreign_attach(name);
        CHECK_EQ(sl_cipd_load_version(new.at), i + 1);
        CHECK_EQ(sl_cipd_load_slots(new.at), counts[i]);
        CHECK_EQ(cipd_seconds(name), 1);
        foreign_close(&old);
        foreign_close(&new);
    }
    sl_cipd_write_close(&producer);
    CHECK(!cipd_there(name));
    CHECK_EQ(cipd_seconds(name), 0);
}

TEST(cipd_produce_takes_over_what_python_left)
{
    cipd_needs_files();
    const char *name = cipd_name("left");
    struct foreign foreign = foreign_make(name, 433);
    struct sl_cipd_layout layout;
    CHECK(sl_cipd_layout(3, &layout));
    foreign_begin(&foreign, 3, 40);
    sl_cipd_store_shut(foreign.at, &layout, 1);
    ino_t inode = cipd_inode(name);
    struct sl_cipd_segment_writer producer = begun(name, 3);
    CHECK_EQ(cipd_inode(name), inode);
    CHECK_EQ(sl_cipd_load_version(foreign.at), 41);
    CHECK_EQ(sl_cipd_load_shut(foreign.at, &layout), 0);
    CHECK_EQ(sl_cipd_write_publish(&producer, 7), 1);
    CHECK_EQ(sl_cipd_load_index(foreign.at), 1);
    CHECK(!producer.ext);
    foreign_close(&foreign);
    sl_cipd_write_close(&producer);
}

/* It has room for two: closed where two slots have the flag, and replaced under the name. */
TEST(cipd_produce_replaces_what_is_too_small)
{
    cipd_needs_files();
    const char *name = cipd_name("small");
    struct foreign foreign = foreign_make(name, 305);
    struct sl_cipd_layout two;
    CHECK(sl_cipd_layout(2, &two));
    foreign_begin(&foreign, 2, 9);
    ino_t inode = cipd_inode(name);
    struct sl_cipd_segment_writer producer = begun(name, 3);
    CHECK_NE(cipd_inode(name), inode);
    CHECK_EQ(sl_cipd_load_shut(foreign.at, &two), 1);
    CHECK(sl_cipd_zero(foreign.at + 20, 256));
    CHECK_EQ(sl_cipd_load_version(producer.segment.at), 10);
    CHECK_EQ(producer.segment.size, SL_CIPD_SEGMENT);
    foreign_close(&foreign);
    sl_cipd_write_close(&producer);
}

TEST(cipd_produce_replaces_what_makes_no_sense)
{
    const char *name = cipd_name("nonsense");
    static const uint32_t slots[] = { 0, 11, UINT32_MAX };
    for (int i = 0; i < 3; i++) {
        struct foreign foreign = foreign_make(name, SL_CIPD_SEGMENT);
        sl_cipd_store_magic(foreign.at, SL_CIPD_MAGIC);
        sl_cipd_store_version(foreign.at, 3);
        sl_cipd_store_slots(foreign.at, slots[i]);
        ino_t inode = cipd_inode(name);
        struct sl_cipd_segment_writer producer = begun(name, 3);
        CHECK(!sl_os_named_has_names() || cipd_inode(name) != inode);
        CHECK_EQ(producer.version, 4);
        sl_cipd_write_close(&producer);
        foreign_close(&foreign);
    }
}

static _Noreturn void publish_for_ever(const struct foreign *foreign, int64_t pause)
{
    for (uint32_t index = 10;; index++) {
        foreign_publish(foreign, index, (double)test_now() / 1e9);
        test_nap(pause);
    }
}

/* A writer opens where another program has just published. False if it could: that program may have been suspended
 * meanwhile. */
static bool refused_beside_another(const char *name, int64_t pause)
{
    struct foreign foreign = foreign_make(name, 433);
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    foreign_begin(&foreign, 3, 1);
    foreign_publish(&foreign, 9, (double)test_now() / 1e9);
    pid_t child = fork();
    if (child == 0)
        publish_for_ever(&foreign, pause);
    CHECK_SOON(sl_cipd_load_index(foreign.at) > 9, 10);
    bool refused = sl_cipd_write_open(&producer, name) == SLUICE_E_EXISTS;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (refused) {
        CHECK_HAS(sluice_last_error(), "writing frames");
        CHECK(cipd_there(name));
        CHECK_EQ(cipd_seconds(name), 0);
        CHECK_EQ(sl_cipd_load_version(foreign.at), 1);
        CHECK_OK(sl_cipd_write_open(&producer, name)); /* it has stopped */
    }
    sl_cipd_write_close(&producer);
    foreign_close(&foreign);
    return refused;
}

TEST(cipd_produce_not_beside_another_program)
{
    int tries = 0;
    while (!refused_beside_another(cipd_name("busy"), 2 * SLUICE_MS))
        CHECK_LE(++tries, 10);
}

TEST(cipd_produce_not_beside_one_that_publishes_once_a_second)
{
    int tries = 0;
    while (!refused_beside_another(cipd_name("slow"), SLUICE_S))
        CHECK_LE(++tries, 10);
}

/* A slower program's frame arrives after its segment was taken over. */
TEST(cipd_produce_notices_another_programs_frame)
{
    struct sl_cipd_segment_writer producer = begun(cipd_name("rival"), 3);
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    for (int i = 0; i < 7; i++) {
        sl_cipd_write_publish(&producer, 1);
        CHECK_EQ(sl_cipd_write_refresh(&producer), 0);
    }
    sl_cipd_store_index(producer.segment.at, 0); /* Python is just storing it */
    CHECK_EQ(sl_cipd_write_refresh(&producer), 0);
    sl_cipd_write_publish(&producer, 1);
    CHECK_EQ(sl_cipd_write_refresh(&producer), 0);
    sl_cipd_store_index(producer.segment.at, 40);
    sl_cipd_write_publish(&producer, 1); /* nothing of it is left */
    CHECK_EQ(sl_cipd_load_index(producer.segment.at), 9);
    CHECK_SAYS(sl_cipd_write_refresh(&producer), SLUICE_E_EXISTS, "same segment");
    CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &metadata));
    CHECK_EQ(sl_cipd_write_refresh(&producer), 0);
    sl_cipd_write_publish(&producer, 1);
    CHECK_EQ(sl_cipd_write_refresh(&producer), 0);
    sl_cipd_store_index(producer.segment.at, 40); /* and none of ours came after it */
    CHECK_SAYS(sl_cipd_write_refresh(&producer), SLUICE_E_EXISTS, "same segment");
    sl_cipd_write_close(&producer);
}

/* A closed writer has left another program's segment under its name, with the same bytes, and nothing of its own. */
static void check_left(const char *name, struct foreign *foreign, const unsigned char *before)
{
    CHECK(cipd_there(name));
    CHECK_MEM(foreign->at, before, foreign->size);
    CHECK_EQ(cipd_seconds(name), 0);
    foreign_close(foreign);
    CHECK_EQ(unlink(cipd_path(name)), 0);
}

/* Its last frame may be recent, old, or in the future. */
TEST(cipd_produce_takes_over_what_a_killed_program_left)
{
    static const double ages[] = { 1.4, 2.0, -0.5, -5.0, 1e9 };
    for (int i = 0; i < 5; i++) {
        const char *name = cipd_name("killed");
        struct foreign foreign = foreign_make(name, 433);
        foreign_begin(&foreign, 3, 1);
        foreign_publish(&foreign, 9, (double)test_now() / 1e9 - ages[i]);
        unsigned char before[433];
        memcpy(before, foreign.at, sizeof before);
        struct sl_cipd_segment_writer producer = opened(name);
        sl_cipd_write_close(&producer); /* without a session of ours: that program may live after all */
        check_left(name, &foreign, before);
    }
}

/* It takes no lock. A writer that learns of it closes, or changes the slots: neither may end that session. */
TEST(cipd_produce_leaves_a_session_that_another_program_has_begun)
{
    for (int again = 0; again < 2; again++) {
        const char *name = cipd_name("taken");
        struct sl_cipd_segment_writer producer = begun(name, 3);
        unsigned char before[SL_CIPD_SEGMENT];

        sl_cipd_write_publish(&producer, 1);
        struct foreign foreign = foreign_attach(name);
        foreign_begin(&foreign, 2, 2);
        foreign_publish(&foreign, 1, (double)test_now() / 1e9);
        memcpy(before, foreign.at, sizeof before);
        CHECK_SAYS(sl_cipd_write_refresh(&producer), SLUICE_E_EXISTS, "same segment");
        if (again)
            sl_cipd_write_shut(&producer);
        sl_cipd_write_close(&producer);
        check_left(name, &foreign, before);
    }
}

TEST(cipd_produce_refuses)
{
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    struct sl_cipd_handles handles[3] = { golden_handles(0), { { 0 }, { 1 } }, golden_handles(2) };
    CHECK_SAYS(sl_cipd_write_open(&producer, "a/b"), SLUICE_E_NAME, "slash");
    producer = begun(cipd_name("refuse"), 3);
    CHECK_SAYS(sl_cipd_write_begin(&producer, 0, handles, &metadata), SLUICE_E_INVALID, "1 to 10");
    CHECK_SAYS(sl_cipd_write_begin(&producer, 11, handles, &metadata), SLUICE_E_INVALID, "1 to 10");
    CHECK_SAYS(sl_cipd_write_begin(&producer, 3, handles, &metadata), SLUICE_E_INVALID, "slot 1");
    CHECK_EQ(sl_cipd_load_version(producer.segment.at), 1); /* the old session goes on */
    CHECK_EQ(sl_cipd_write_publish(&producer, 1), 1);
    sl_cipd_write_close(&producer);
}

TEST(cipd_produce_skip_clears_the_flag_alone)
{
    struct sl_cipd_segment_writer producer = begun(cipd_name("skip"), 3);
    unsigned char before[SL_CIPD_SEGMENT];
    sl_cipd_write_publish(&producer, 1);
    memcpy(before, producer.segment.at, sizeof(before));
    sl_cipd_store_shut(producer.segment.at, &producer.layout, 1); /* a stray one */
    sl_cipd_write_skip(&producer);
    CHECK_MEM(producer.segment.at, before, sizeof(before));
    CHECK_EQ(sl_cipd_write_slot(&producer), 1);
    sl_cipd_write_close(&producer);
}

TEST(cipd_produce_publish_clears_a_stray_flag)
{
    struct sl_cipd_segment_writer producer = begun(cipd_name("stray"), 2);
    sl_cipd_store_shut(producer.segment.at, &producer.layout, 1);
    sl_cipd_write_publish(&producer, 1);
    CHECK_EQ(sl_cipd_load_shut(producer.segment.at, &producer.layout), 0);
    sl_cipd_write_close(&producer);
}

TEST(cipd_produce_shut)
{
    const char *name = cipd_name("shut");
    struct sl_cipd_segment_writer producer = begun(name, 3);
    const unsigned char *at = producer.segment.at;
    struct sl_cipd_metadata there;
    for (int i = 0; i < 4; i++)
        sl_cipd_write_publish(&producer, 1);
    sl_cipd_write_shut(&producer);
    CHECK_EQ(sl_cipd_load_shut(at, &producer.layout), 1);
    CHECK(sl_cipd_zero(at + 20, 3 * 128));
    CHECK_EQ(sl_cipd_load_magic(at), SL_CIPD_MAGIC);
    CHECK_EQ(sl_cipd_load_version(at), 1);
    CHECK_EQ(sl_cipd_load_slots(at), 3);
    CHECK_EQ(sl_cipd_load_index(at), 4);
    sl_cipd_load_metadata(at, &producer.layout, &there);
    CHECK_EQ(there.width, 64);
    CHECK(cipd_there(name));
    sl_cipd_write_skip(&producer); /* it stays closed */
    CHECK_EQ(sl_cipd_load_shut(at, &producer.layout), 1);
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &metadata));
    CHECK_EQ(sl_cipd_load_shut(at, &producer.layout), 0);
    CHECK_EQ(producer.version, 2);
    sl_cipd_write_close(&producer);
    CHECK(!cipd_there(name));
}

TEST(cipd_produce_wraps)
{
    static const uint32_t counts[] = { 1, 2, 3, 5, 10 };
    for (int i = 0; i < 5; i++) {
        struct sl_cipd_segment_writer producer = begun(cipd_name("wrap"), counts[i]);
        producer.index = UINT32_MAX - 2;
        uint32_t slot = producer.slot = sl_cipd_index_next_slot(producer.index, counts[i]);
        for (int frame = 0; frame < 30; frame++) {
            uint32_t index = sl_cipd_write_publish(&producer, 1);
            CHECK_NE(index, 0);
            CHECK_EQ(sl_cipd_load_index(producer.segment.at), index);
            CHECK_EQ(sl_cipd_index_slot(index, counts[i]), slot);
            slot = (slot + 1) % counts[i];
        }
        sl_cipd_write_close(&producer);
    }
}

TEST(cipd_produce_tend)
{
    const char *name = cipd_name("tend");
    struct sl_cipd_segment_writer producer = begun(name, 3);
    CHECK_EQ(sl_cipd_write_refresh(&producer), 0);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    CHECK_EQ(sl_cipd_write_refresh(&producer), 1);
    sl_cipd_store_version(producer.segment.at, 0); /* Python is just storing it */
    CHECK_EQ(sl_cipd_write_refresh(&producer), 0);
    sl_cipd_store_version(producer.segment.at, 99);
    CHECK_SAYS(sl_cipd_write_refresh(&producer), SLUICE_E_EXISTS, "same segment");
    sl_cipd_write_close(&producer);
}

/* The name is another program's by now: no new session takes it away. */
TEST(cipd_produce_leaves_a_name_that_was_lost)
{
    const char *name = cipd_name("lost");
    struct sl_cipd_segment_writer producer = begun(name, 3);
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    struct foreign foreign = foreign_make(name, 433);
    ino_t theirs = cipd_inode(name);
    CHECK_SAYS(sl_cipd_write_begin(&producer, 2, golden_all(), &metadata), SLUICE_E_EXISTS, "another program");
    CHECK_EQ(cipd_inode(name), theirs);
    CHECK_EQ(sl_cipd_write_publish(&producer, 1), 1); /* the old session goes on */
    CHECK_EQ(sl_cipd_load_shut(producer.segment.at, &producer.layout), 0);
    sl_cipd_write_close(&producer);
    CHECK_EQ(cipd_inode(name), theirs);
    foreign_close(&foreign);
}
