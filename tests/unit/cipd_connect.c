/* SPDX-License-Identifier: MIT
 *
 * How a reader of cuda-link's protocol joins a session, and each reason why it cannot.
 */
#include "cipd_kit.h"

#define MS SLUICE_MS

static struct sl_cipd_segment_reader reader_of(const char *name)
{
    struct sl_cipd_segment_reader consumer;
    CHECK_OK(sl_cipd_read_init(&consumer, name));
    CHECK_EQ(consumer.reason, SL_CIPD_REASON_NOT_TRIED);
    return consumer;
}

/* One attempt, at any time. */
static int try(struct sl_cipd_segment_reader *consumer)
{
    sl_cipd_read_retry_now(consumer);
    return sl_cipd_read_connect(consumer, test_now());
}

static void check_reason(struct sl_cipd_segment_reader *consumer, enum sl_cipd_reason reason, int result,
                         const char *word)
{
    CHECK_SAYS(try(consumer), result, word);
    CHECK_EQ(consumer->reason, reason);
    CHECK(!consumer->segment.at);
    CHECK_EQ(consumer->session.layout.slots, 0);
}

/* A segment of Python's with a frame. */
static struct foreign running(const char *name)
{
    struct foreign foreign = foreign_make(name, 433);
    foreign_begin(&foreign, 3, 5);
    foreign_publish(&foreign, 4, 1.0);
    return foreign;
}

TEST(cipd_connect_to_python)
{
    const char *name = cipd_name("python");
    struct foreign foreign = running(name);
    struct sl_cipd_segment_reader consumer = reader_of(name);
    CHECK_OK(try(&consumer));
    CHECK_OK(try(&consumer)); /* now it is */
    CHECK_EQ(consumer.session.version, 5);
    CHECK_EQ(consumer.session.layout.slots, 3);
    CHECK_EQ(consumer.session.format.width, 64);
    CHECK_EQ(consumer.session.format.order, SL_CIPD_ORDER_UNDECLARED);
    CHECK_MEM(consumer.session.handles, golden_all(), 3 * sizeof(struct sl_cipd_handles));
    CHECK(!consumer.ext);
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    CHECK(!consumer.segment.at);
    foreign_close(&foreign);
}

TEST(cipd_connect_says_why_not)
{
    const char *name = cipd_name("why");
    struct sl_cipd_layout layout;
    struct sl_cipd_segment_reader consumer = reader_of(name);
    CHECK(sl_cipd_layout(3, &layout));
    check_reason(&consumer, SL_CIPD_REASON_ABSENT, SLUICE_NO_WRITER, name);
    for (int size = 0; sl_os_named_has_names() && size <= 19; size += 19) {
        foreign_make(name, (size_t)size);
        check_reason(&consumer, SL_CIPD_REASON_SHORT, SLUICE_NO_WRITER,
                     size ? "has 19 bytes" : "has 0 bytes, its writer has not filled it yet");
        CHECK_EQ(unlink(cipd_path(name)), 0);
    }

    struct foreign foreign = running(name);
    unsigned char *at = foreign.at;
    sl_cipd_store_magic(at, 0);
    check_reason(&consumer, SL_CIPD_REASON_EMPTY, SLUICE_NO_WRITER, "filled in");
    sl_cipd_store_magic(at, SL_CIPD_MAGIC_09);
    check_reason(&consumer, SL_CIPD_REASON_OLD_MAGIC, SLUICE_E_VERSION, "0.9: update it");
    sl_cipd_store_magic(at, 0x12345678);
    check_reason(&consumer, SL_CIPD_REASON_ALIEN, SLUICE_E_PROTOCOL, "take another name");
    sl_cipd_store_magic(at, SL_CIPD_MAGIC);
    sl_cipd_store_version(at, 0);
    check_reason(&consumer, SL_CIPD_REASON_EMPTY, SLUICE_NO_WRITER, "filled in");
    sl_cipd_store_version(at, 5);
    sl_cipd_store_slots(at, 0);
    check_reason(&consumer, SL_CIPD_REASON_NO_SLOTS, SLUICE_NO_WRITER, "no slots");
    sl_cipd_store_slots(at, 11);
    check_reason(&consumer, SL_CIPD_REASON_TOO_MANY_SLOTS, SLUICE_E_PROTOCOL, "11 slots, more slots");
    sl_cipd_store_slots(at, UINT32_MAX);
    check_reason(&consumer, SL_CIPD_REASON_TOO_MANY_SLOTS, SLUICE_E_PROTOCOL, "more slots");
    if (sl_os_named_has_names()) {
        sl_cipd_store_slots(at, 10);
        check_reason(&consumer, SL_CIPD_REASON_SHORT, SLUICE_NO_WRITER, "has 433 bytes, and 10 slots take 1329");
        sl_cipd_store_slots(at, 4); /* within the page, but not within the file */
        check_reason(&consumer, SL_CIPD_REASON_SHORT, SLUICE_NO_WRITER, "too small");
    }
    sl_cipd_store_slots(at, 3);
    sl_cipd_store_shut(at, &layout, 1);
    check_reason(&consumer, SL_CIPD_REASON_SHUT, SLUICE_NO_WRITER, "closed");
    sl_cipd_store_shut(at, &layout, 0);
    CHECK_OK(try(&consumer));
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    foreign_close(&foreign);
}

TEST(cipd_connect_checks_what_is_there)
{
    const char *name = cipd_name("checks");
    struct foreign foreign = running(name);
    struct sl_cipd_segment_reader consumer = reader_of(name);
    struct sl_cipd_layout layout;
    struct sl_cipd_handles none = { { 0 }, { 1 } }, eventless = golden_handles(1);
    struct sl_cipd_metadata good = metadata_of(64, 32, 4), bad;
    CHECK(sl_cipd_layout(3, &layout));
    sl_cipd_store_handles(foreign.at, 1, &none);
    check_reason(&consumer, SL_CIPD_REASON_NO_HANDLES, SLUICE_NO_WRITER, "no memory handle");
    memset(eventless.event, 0, sizeof(eventless.event));
    sl_cipd_store_handles(foreign.at, 1, &eventless);
    for (int i = 0; i < 3; i++) {
        bad = good;
        *(i == 0 ? &bad.width : i == 1 ? &bad.height : &bad.components) = 0;
        sl_cipd_store_metadata(foreign.at, &layout, &bad);
        check_reason(&consumer, SL_CIPD_REASON_NO_METADATA, SLUICE_NO_WRITER, "what a frame is");
    }
    bad = good;
    bad.bytes--;
    sl_cipd_store_metadata(foreign.at, &layout, &bad);
    check_reason(&consumer, SL_CIPD_REASON_BAD_BYTES, SLUICE_NO_WRITER, "8191 bytes");
    bad = good;
    bad.kind = 3;
    sl_cipd_store_metadata(foreign.at, &layout, &bad);
    check_reason(&consumer, SL_CIPD_REASON_BAD_FORMAT, SLUICE_E_FORMAT, "kind 3");
    sl_cipd_store_metadata(foreign.at, &layout, &good);
    CHECK_OK(try(&consumer));
    CHECK(sl_cipd_zero(consumer.session.handles[1].event, SL_CIPD_HANDLE));
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    foreign_close(&foreign);
}

/* Such a writer writes the next frame over the last one, and does not say when. */
TEST(cipd_connect_for_copies_takes_two_slots)
{
    const char *name = cipd_name("copies"), *ours = cipd_name("copies of ours");
    struct foreign foreign = foreign_make(name, 433);
    struct sl_cipd_segment_reader consumer = reader_of(name), plain = reader_of(name);
    foreign_begin(&foreign, 1, 5);
    foreign_publish(&foreign, 4, 1.0);
    consumer.copies = true;
    check_reason(&consumer, SL_CIPD_REASON_ONE_SLOT, SLUICE_E_UNSUPPORTED, "two slots");
    CHECK_OK(try(&plain));
    sl_cipd_read_drop(&plain, SL_CIPD_REASON_NOT_TRIED);
    foreign_begin(&foreign, 2, 6);
    check_reason(&consumer, SL_CIPD_REASON_UNSETTLED, SLUICE_NO_WRITER, "no frame yet");
    foreign_publish(&foreign, 5, 1.0);
    CHECK_OK(try(&consumer));
    CHECK_EQ(consumer.session.layout.slots, 2);
    foreign_begin(&foreign, 1, 7);
    foreign_publish(&foreign, 6, 1.0);
    struct sl_cipd_frame frame;
    CHECK_EQ(sl_cipd_read_poll(&consumer, test_now(), &frame), SL_CIPD_CHANGED);
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_CHANGING);
    check_reason(&consumer, SL_CIPD_REASON_ONE_SLOT, SLUICE_E_UNSUPPORTED, "two slots");
    foreign_close(&foreign);

    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    consumer = reader_of(ours);
    consumer.copies = true;
    CHECK_OK(sl_cipd_write_open(&producer, ours));
    CHECK_OK(sl_cipd_write_begin(&producer, 1, golden_all(), &metadata));
    sl_cipd_write_publish(&producer, 1);
    CHECK_OK(try(&consumer));
    CHECK(consumer.ext);
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    sl_cipd_write_close(&producer);
}

/* Also between two attempts, and to an observer. */
TEST(cipd_connect_says_the_same_until_the_next_attempt)
{
    const char *name = cipd_name("same words");
    struct foreign foreign = running(name);
    struct sl_cipd_segment_reader consumer = reader_of(name);
    struct sl_cipd_metadata bad = metadata_of(64, 32, 4);
    struct sl_cipd_layout layout;
    CHECK(sl_cipd_layout(3, &layout));
    bad.kind = 3;
    sl_cipd_store_metadata(foreign.at, &layout, &bad);
    int64_t now = test_now();
    for (int i = 0; i < 2; i++) {
        CHECK_SAYS(sl_cipd_read_connect(&consumer, now), SLUICE_E_FORMAT, "kind 3, 8 bits, flags 0x0000");
        CHECK_HAS(sluice_last_error(), name);
    }
    CHECK_HAS(sl_cipd_read_why(&consumer), "kind 3, 8 bits, flags 0x0000");
    CHECK(!strstr(sl_cipd_read_why(&consumer), name));
    bad.kind = 1;
    sl_cipd_store_metadata(foreign.at, &layout, &bad);
    CHECK_OK(try(&consumer));
    CHECK_STR(sl_cipd_read_why(&consumer), "connected");
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_SHUT);
    CHECK_STR(sl_cipd_read_why(&consumer), "the writer has closed");
    foreign_close(&foreign);
}

TEST(cipd_connect_reasons_have_a_text)
{
    CHECK_STR(sl_cipd_reason_text(SL_CIPD_REASON_DEAD), "the writer has died");
    struct sl_cipd_segment_reader consumer;
    CHECK_SAYS(sl_cipd_read_init(&consumer, "a/b"), SLUICE_E_NAME, "slash");
}

/* Without a frame, a copy counts when it is the same some time later. */
TEST(cipd_connect_settles)
{
    const char *name = cipd_name("settle");
    struct foreign foreign = foreign_make(name, 433);
    struct sl_cipd_handles other = golden_handles(9);
    struct sl_cipd_segment_reader consumer = reader_of(name);
    int64_t now = INT64_C(1000) * SLUICE_S;
    foreign_begin(&foreign, 3, 1);
    CHECK_SAYS(sl_cipd_read_connect(&consumer, now), SLUICE_NO_WRITER, "once more");
    CHECK_EQ(consumer.reason, SL_CIPD_REASON_UNSETTLED);
    CHECK_EQ(sl_cipd_read_next_try(&consumer), now + 2 * MS);
    CHECK_EQ(sl_cipd_read_connect(&consumer, now + MS), SLUICE_NO_WRITER);
    sl_cipd_store_handles(foreign.at, 2, &other); /* it was not ready yet */
    CHECK_EQ(sl_cipd_read_connect(&consumer, now + 2 * MS), SLUICE_NO_WRITER);
    CHECK_EQ(sl_cipd_read_connect(&consumer, now + 3 * MS), SLUICE_NO_WRITER);
    CHECK_OK(sl_cipd_read_connect(&consumer, now + 4 * MS));
    CHECK_MEM(&consumer.session.handles[2], &other, sizeof(other));
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_SHUT);
    /* another memory with the same bytes is looked at separately */
    CHECK_EQ(sl_cipd_read_connect(&consumer, now + 10 * MS), SLUICE_NO_WRITER);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    struct foreign again = foreign_make(name, 433);
    memcpy(again.at, foreign.at, 433);
    CHECK_EQ(sl_cipd_read_connect(&consumer, now + 20 * MS), SLUICE_NO_WRITER);
    CHECK_EQ(consumer.reason, SL_CIPD_REASON_UNSETTLED);
    CHECK_OK(sl_cipd_read_connect(&consumer, now + 22 * MS));
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_SHUT);
    foreign_close(&foreign);
    foreign_close(&again);
}

TEST(cipd_connect_backs_off)
{
    const char *name = cipd_name("back off");
    static const int64_t pauses[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500 };
    struct sl_cipd_segment_reader consumer = reader_of(name);
    int64_t now = SLUICE_S;
    for (int i = 0; i < 11; i++) {
        CHECK_EQ(sl_cipd_read_connect(&consumer, now), SLUICE_NO_WRITER);
        CHECK_EQ(sl_cipd_read_next_try(&consumer), now + pauses[i] * MS);
        now += pauses[i] * MS;
    }
    struct foreign foreign = running(name);
    CHECK_SAYS(sl_cipd_read_connect(&consumer, now - 1), SLUICE_NO_WRITER, "no cuda-link channel");
    CHECK_OK(sl_cipd_read_connect(&consumer, now));
    /* the handles cannot be opened: the wait grows until a frame comes */
    int64_t before = test_now();
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_HANDLES_FAILED);
    CHECK_GE(sl_cipd_read_next_try(&consumer), before + 400 * MS);
    CHECK_SAYS(sl_cipd_read_connect(&consumer, before), SLUICE_NO_WRITER, "could not be opened");
    sl_cipd_read_retry_now(&consumer);
    CHECK_OK(sl_cipd_read_connect(&consumer, test_now()));
    /* the writer has changed something: at once */
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_CHANGING);
    CHECK_OK(sl_cipd_read_connect(&consumer, test_now()));
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_SHUT);
    foreign_close(&foreign);
}

TEST(cipd_connect_to_ours)
{
    cipd_needs_files();
    const char *name = cipd_name("ours");
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    struct sl_cipd_segment_reader consumer = reader_of(name);
    CHECK_OK(sl_cipd_write_open(&producer, name));
    check_reason(&consumer, SL_CIPD_REASON_ABSENT, SLUICE_NO_WRITER,
                 "no cuda-link channel"); /* it has no session yet */
    CHECK_OK(sl_cipd_write_begin(&producer, 2, golden_all(), &metadata));
    sl_cipd_write_publish(&producer, 1);
    CHECK_OK(try(&consumer));
    CHECK(consumer.ext);
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    /* its name was removed, which it has not noticed yet */
    CHECK_EQ(unlink(cipd_path(name)), 0);
    CHECK_OK(try(&consumer));
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    CHECK_EQ(sl_cipd_write_refresh(&producer), 1);
    sl_cipd_segment_leave(&producer.segment); /* as if killed: the segment stays, with a session in it */
    check_reason(&consumer, SL_CIPD_REASON_DEAD, SLUICE_NO_WRITER, "died");
    CHECK_OK(sl_cipd_write_open(&producer, name));
    CHECK_OK(sl_cipd_write_begin(&producer, 2, golden_all(), &metadata));
    sl_cipd_write_publish(&producer, 1);
    CHECK_OK(try(&consumer));
    CHECK_EQ(consumer.session.version, 2);
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    sl_cipd_write_close(&producer);
}

/* Python takes over a segment that a killed writer of ours left: our private part does not count any more. */
TEST(cipd_connect_to_python_in_our_segment)
{
    cipd_needs_files();
    const char *name = cipd_name("inherited");
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    struct sl_cipd_segment_reader consumer = reader_of(name);
    CHECK_OK(sl_cipd_write_open(&producer, name));
    CHECK_OK(sl_cipd_write_begin(&producer, 3, golden_all(), &metadata));
    sl_cipd_segment_leave(&producer.segment);
    struct foreign foreign = foreign_attach(name);
    foreign_begin(&foreign, 3, 2);
    foreign_publish(&foreign, 1, 1.0);
    CHECK_OK(try(&consumer));
    CHECK(!consumer.ext);
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    foreign_close(&foreign);
}

TEST(cipd_connect_read_only)
{
    cipd_needs_files();
    const char *name = cipd_name("read only");
    struct sl_cipd_segment_reader consumer = reader_of(name);
    struct foreign foreign = running(name);
    if (geteuid() == 0)
        SKIP("root may write any file");
    CHECK_EQ(chmod(cipd_path(name), 0400), 0);
    CHECK_OK(try(&consumer));
    CHECK(!consumer.segment.writable);
    sl_cipd_read_drop(&consumer, SL_CIPD_REASON_NOT_TRIED);
    CHECK_EQ(chmod(cipd_path(name), 0), 0);
    check_reason(&consumer, SL_CIPD_REASON_REFUSED, SLUICE_E_PERMISSION, name);
    foreign_close(&foreign);
}
