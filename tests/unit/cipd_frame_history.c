/* SPDX-License-Identifier: MIT
 *
 * How a reader sees frames before the newest one: which there are in this session, and whose event a slot has.
 */
#include "cipd_kit.h"

static struct sl_cipd_segment_writer producing(const char *name, uint32_t slots)
{
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    CHECK_OK(sl_cipd_write_open(&producer, name));
    CHECK_OK(sl_cipd_write_begin(&producer, slots, golden_all(), &metadata));
    return producer;
}

static struct sl_cipd_segment_reader reading(const char *name)
{
    struct sl_cipd_segment_reader consumer;
    CHECK_OK(sl_cipd_read_init(&consumer, name));
    int r;
    while ((r = sl_cipd_read_connect(&consumer, test_now())) == SLUICE_NO_WRITER)
        test_nap(SLUICE_MS);
    CHECK_OK(r);
    return consumer;
}

static void publish(struct sl_cipd_segment_writer *producer, uint32_t frames)
{
    for (uint32_t i = 0; i < frames; i++) {
        sl_cipd_write_announce(producer);
        sl_cipd_write_publish(producer, 100 + (int64_t)producer->index);
    }
}

TEST(cipd_first_of_a_writer_of_ours)
{
    const char *name = cipd_name("first");
    struct sl_cipd_segment_writer producer = producing(name, 3);
    struct sl_cipd_metadata metadata = metadata_of(32, 64, 4);
    struct sl_cipd_segment_reader consumer = reading(name);
    publish(&producer, 1);
    CHECK_EQ(sl_cipd_read_first(&consumer, 1), 1);
    publish(&producer, 1);
    CHECK_EQ(sl_cipd_read_first(&consumer, 2), 1);
    publish(&producer, 5);
    CHECK_EQ(sl_cipd_read_first(&consumer, 7), 5);
    /* The next session continues the index, and has none of the last one's frames. */
    CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &metadata));
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_CHANGING);
    consumer = reading(name);
    publish(&producer, 1);
    CHECK_EQ(sl_cipd_read_first(&consumer, 8), 8);
    publish(&producer, 1);
    CHECK_EQ(sl_cipd_read_first(&consumer, 9), 8);
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    sl_cipd_write_close(&producer);
}

/* Python's may have new metadata by then. */
TEST(cipd_first_of_pythons_is_the_one_at_which_it_connected)
{
    const char *name = cipd_name("first of python");
    struct foreign foreign = foreign_make(name, 433);
    foreign_begin(&foreign, 3, 5);
    foreign_publish(&foreign, 40, 1.0);
    struct sl_cipd_segment_reader consumer = reading(name);
    CHECK_EQ(sl_cipd_read_first(&consumer, 40), 40);
    foreign_publish(&foreign, 41, 1.0);
    CHECK_EQ(sl_cipd_read_first(&consumer, 41), 40);
    CHECK_EQ(sl_cipd_read_first(&consumer, 3), 3); /* a new session, or the wrap */
    consumer.since = 0;
    CHECK_EQ(sl_cipd_read_first(&consumer, 41), 41);
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    foreign_close(&foreign);
}

TEST(cipd_frames_before_the_newest_have_their_slots_and_times)
{
    const char *name = cipd_name("before");
    struct sl_cipd_segment_writer producer = producing(name, 4);
    struct sl_cipd_segment_reader consumer = reading(name);
    struct sl_cipd_frame frame;
    publish(&producer, 9);
    for (uint32_t index = 6; index <= 9; index++) {
        sl_cipd_read_frame(&consumer, index, &frame);
        CHECK_EQ(frame.index, index);
        CHECK_EQ(frame.slot, (index - 1) % 4);
        CHECK_EQ(frame.time_ns, 100 + index - 1);
    }
    sl_cipd_read_frame(&consumer, 5, &frame);
    CHECK_EQ(frame.time_ns, 0); /* its slot holds another one */
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    sl_cipd_write_close(&producer);
}

TEST(cipd_gone_once_its_slots_event_is_another_frames)
{
    const char *name = cipd_name("gone");
    struct sl_cipd_segment_writer producer = producing(name, 3);
    struct sl_cipd_segment_reader consumer = reading(name);
    struct sl_cipd_frame frame;
    publish(&producer, 4);
    sl_cipd_read_frame(&consumer, 4, &frame);
    CHECK(!sl_cipd_read_is_gone(&consumer, &frame));
    publish(&producer, 2);
    CHECK(!sl_cipd_read_is_gone(&consumer, &frame));
    sl_cipd_write_announce(&producer); /* ours announce what they begin */
    CHECK(sl_cipd_read_is_gone(&consumer, &frame));
    consumer.ext = NULL;
    CHECK(!sl_cipd_read_is_gone(&consumer, &frame)); /* others' is known when it is published */
    publish(&producer, 1);
    CHECK(sl_cipd_read_is_gone(&consumer, &frame));
    CHECK_EQ(sl_cipd_read_is_whole(&consumer, &frame), false);
    sl_cipd_store_version(consumer.segment.at, 77);
    CHECK(!sl_cipd_read_is_gone(&consumer, &frame)); /* nothing is known of another session */
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    CHECK(!sl_cipd_read_is_gone(&consumer, &frame));
    sl_cipd_write_close(&producer);
}

static void whole_until_freed(uint32_t slots, uint32_t before)
{
    const char *name = cipd_name("freed");
    struct sl_cipd_segment_writer producer = producing(name, slots);
    struct sl_cipd_segment_reader consumer = reading(name);
    struct sl_cipd_frame frame;
    producer.index = before;
    publish(&producer, slots);
    uint32_t first = sl_cipd_index_next(before, slots);
    sl_cipd_read_frame(&consumer, first, &frame);
    sl_cipd_write_free(&producer); /* not while it runs */
    CHECK(sl_cipd_read_is_whole(&consumer, &frame));
    sl_cipd_write_shut(&producer);
    CHECK(sl_cipd_read_is_whole(&consumer, &frame));
    CHECK(!sl_cipd_read_is_gone(&consumer, &frame));
    sl_cipd_write_free(&producer);
    for (uint32_t i = 0, index = first; i < slots; i++, index = sl_cipd_index_next(index, slots)) {
        sl_cipd_read_frame(&consumer, index, &frame);
        CHECK(!sl_cipd_read_is_whole(&consumer, &frame));
        CHECK(sl_cipd_read_is_gone(&consumer, &frame));
    }
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    sl_cipd_write_close(&producer);
}

TEST(cipd_whole_until_its_writer_says_that_it_frees)
{
    static const uint32_t counts[] = { 1, 2, 3, 10 };
    for (int i = 0; i < 4; i++) {
        whole_until_freed(counts[i], 0);
        whole_until_freed(counts[i], 77);
        whole_until_freed(counts[i], UINT32_C(0xc0000000) - counts[i]); /* its last one would be 0, out of reach */
        whole_until_freed(counts[i], UINT32_MAX - 1);
    }
}

TEST(cipd_frames_are_not_whole_once_another_number_of_slots_is_used)
{
    const char *name = cipd_name("elsewhere");
    struct sl_cipd_segment_writer producer = producing(name, 3);
    struct sl_cipd_metadata metadata = metadata_of(32, 64, 4);
    struct sl_cipd_segment_reader consumer = reading(name);
    struct sl_cipd_frame frame;
    publish(&producer, 1);
    sl_cipd_read_frame(&consumer, 1, &frame);
    CHECK(sl_cipd_read_is_whole(&consumer, &frame));
    CHECK_OK(sl_cipd_write_begin(&producer, 4, golden_all(), &metadata));
    CHECK(!sl_cipd_read_is_whole(&consumer, &frame));
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    sl_cipd_write_close(&producer);
}

/* A writer of ours learns which frames a reader has seen finished, until the next session; others have no field for it.
 * */
TEST(cipd_a_writer_of_ours_learns_what_is_finished)
{
    const char *name = cipd_name("told");
    struct sl_cipd_segment_writer producer = producing(name, 3);
    struct sl_cipd_metadata metadata = metadata_of(32, 64, 4);
    struct sl_cipd_segment_reader consumer = reading(name);
    publish(&producer, 2);
    CHECK_EQ(sl_cipd_write_finished(&producer), 0);
    sl_cipd_read_finished(&consumer, 2);
    CHECK_EQ(sl_cipd_write_finished(&producer), 2);
    CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &metadata));
    CHECK_EQ(sl_cipd_write_finished(&producer), 0);
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    sl_cipd_write_close(&producer);

    const char *other = cipd_name("not told");
    struct foreign foreign = foreign_make(other, 4096);
    foreign_begin(&foreign, 3, 5);
    consumer = reading(other);
    sl_cipd_read_finished(&consumer, 1);
    CHECK(sl_cipd_zero(foreign.at + SL_CIPD_EXT_AT, 64));
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    foreign_close(&foreign);
}
