/* SPDX-License-Identifier: MIT
 *
 * How a reader sees a segment: what is a frame, what is a restart, and what only looks like one.
 */
#include <math.h>
#include <pthread.h>

#include "cipd_kit.h"

static struct sl_cipd_layout three;

/* A reader that is connected to a segment of Python's, with version 5 and 40 frames. */
static struct sl_cipd_segment_reader connected(const char *name, struct foreign *foreign)
{
    struct sl_cipd_segment_reader consumer;
    CHECK(sl_cipd_layout(3, &three));
    *foreign = foreign_make(name, 433);
    foreign_begin(foreign, 3, 5);
    foreign_publish(foreign, 40, 1.0);
    CHECK_OK(sl_cipd_read_init(&consumer, name));
    CHECK_OK(sl_cipd_read_connect(&consumer, test_now()));
    return consumer;
}

static struct sl_cipd_segment_writer producing(const char *name, uint32_t slots)
{
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_metadata metadata = metadata_of(64, 32, 4);
    CHECK_OK(sl_cipd_write_open(&producer, name));
    CHECK_OK(sl_cipd_write_begin(&producer, slots, golden_all(), &metadata));
    sl_cipd_write_publish(&producer, 1);
    return producer;
}

static struct sl_cipd_segment_reader reading(const char *name)
{
    struct sl_cipd_segment_reader consumer;
    CHECK_OK(sl_cipd_read_init(&consumer, name));
    CHECK_OK(sl_cipd_read_connect(&consumer, test_now()));
    return consumer;
}

static enum sl_cipd_poll poll_now(struct sl_cipd_segment_reader *consumer, struct sl_cipd_frame *frame)
{
    return sl_cipd_read_poll(consumer, test_now(), frame);
}

static void end(struct sl_cipd_segment_reader *consumer, struct foreign *foreign)
{
    sl_cipd_read_drop(consumer, SL_CIPD_REASON_NOT_TRIED);
    if (foreign)
        foreign_close(foreign);
}

TEST(cipd_poll_takes_the_newest)
{
    struct foreign foreign;
    struct sl_cipd_segment_reader consumer = connected(cipd_name("newest"), &foreign);
    struct sl_cipd_frame frame;
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    CHECK_EQ(frame.index, 40);
    CHECK_EQ(frame.slot, 0);
    CHECK_EQ(frame.missed, 0);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_NO_FRAME);
    foreign_publish(&foreign, 41, 1.0);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    CHECK_EQ(frame.missed, 0);
    foreign_publish(&foreign, 44, 1.0);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    CHECK_EQ(frame.slot, 1);
    CHECK_EQ(frame.missed, 2);
    end(&consumer, &foreign);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_LOST);
}

/* Python clears a field before it stores it. */
TEST(cipd_poll_passes_over_zeros)
{
    struct foreign foreign;
    struct sl_cipd_segment_reader consumer = connected(cipd_name("zeros"), &foreign);
    struct sl_cipd_frame frame;
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    sl_cipd_store_index(foreign.at, 0);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_NO_FRAME);
    sl_cipd_store_index(foreign.at, 41);
    sl_cipd_store_version(foreign.at, 0);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_NO_FRAME);
    CHECK(!sl_cipd_read_has_news(&consumer, consumer.frame_ns)); /* or a waiting reader would not sleep */
    sl_cipd_store_version(foreign.at, 5);
    sl_cipd_store_slots(foreign.at, 0);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_NO_FRAME);
    CHECK(!sl_cipd_read_has_news(&consumer, consumer.frame_ns));
    sl_cipd_store_slots(foreign.at, 3);
    CHECK(sl_cipd_read_has_news(&consumer, consumer.frame_ns));
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    CHECK_EQ(frame.index, 41);
    CHECK_EQ(frame.missed, 0);
    end(&consumer, &foreign);
}

TEST(cipd_poll_flag_comes_first)
{
    struct foreign foreign;
    struct sl_cipd_segment_reader consumer = connected(cipd_name("flag"), &foreign);
    struct sl_cipd_frame frame;
    sl_cipd_store_shut(foreign.at, &three, 1);
    sl_cipd_store_version(foreign.at, 6);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_SHUT);
    CHECK_EQ(consumer.reason, SL_CIPD_REASON_SHUT);
    sl_cipd_store_shut(foreign.at, &three, 0);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_CHANGED);
    sl_cipd_store_version(foreign.at, 5);
    sl_cipd_store_shut(foreign.at, &three, 255); /* where the flag was in another layout */
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_SHUT);
    end(&consumer, &foreign);
}

TEST(cipd_poll_versions_change_both_ways)
{
    static const uint64_t versions[] = { 6, 1, 4, UINT64_MAX, UINT64_C(5) << 32 };
    struct foreign foreign;
    struct sl_cipd_segment_reader consumer = connected(cipd_name("versions"), &foreign);
    struct sl_cipd_frame frame;
    for (int i = 0; i < 5; i++) {
        sl_cipd_store_version(foreign.at, versions[i]);
        CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_CHANGED);
        sl_cipd_read_drop(&consumer, consumer.reason);
        CHECK_OK(sl_cipd_read_connect(&consumer, test_now()));
        CHECK_EQ(consumer.session.version, versions[i]);
        CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME); /* the same index again, of a new session */
        CHECK_EQ(frame.missed, 0);
    }
    /* two at once, the second with the same handles */
    sl_cipd_store_version(foreign.at, 100);
    sl_cipd_store_version(foreign.at, 101);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_CHANGED);
    end(&consumer, &foreign);
}

TEST(cipd_poll_a_smaller_index_is_a_frame)
{
    struct foreign foreign;
    struct sl_cipd_segment_reader consumer = connected(cipd_name("smaller"), &foreign);
    struct sl_cipd_frame frame;
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    foreign_publish(&foreign, 2, 1.0);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    CHECK_EQ(frame.index, 2);
    CHECK_EQ(frame.missed, 0); /* unknown */
    end(&consumer, &foreign);
}

/* Python raises the version first: a reader may have connected to handles that were about to change. */
TEST(cipd_poll_notices_other_handles)
{
    struct foreign foreign;
    struct sl_cipd_segment_reader consumer = connected(cipd_name("handles"), &foreign);
    struct sl_cipd_handles other = golden_handles(7);
    struct sl_cipd_frame frame;
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    sl_cipd_store_handles(foreign.at, 1, &other);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_NO_FRAME);
    foreign_publish(&foreign, 40 + 3, 1.0);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME); /* in slot 0 */
    foreign_publish(&foreign, 44, 1.0);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_CHANGED);
    end(&consumer, &foreign);
}

/* Nor has it set the index to 0 by then: for a moment that is the last one of the session before. */
TEST(cipd_poll_between_a_number_of_slots_and_its_index)
{
    struct foreign foreign;
    struct sl_cipd_segment_reader consumer = connected(cipd_name("between"), &foreign); /* of three slots */
    struct sl_cipd_frame frame;
    foreign_begin(&foreign, 2, 7);
    foreign_publish(&foreign, 3, 1.0);
    sl_cipd_store_version(foreign.at, 8);
    sl_cipd_store_slots(foreign.at, 3);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_CHANGED);
    sl_cipd_read_drop(&consumer, consumer.reason);
    CHECK_OK(sl_cipd_read_connect(&consumer, test_now()));
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    struct sl_cipd_handles never = golden_handles(2); /* the metadata is still there: no driver opens that */
    CHECK_EQ(frame.slot, 2);
    CHECK(memcmp(consumer.session.handles[2].memory, never.memory, SL_CIPD_HANDLE) != 0);
    sl_cipd_store_index(foreign.at, 0);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_NO_FRAME);
    for (uint32_t slot = 0; slot < 3; slot++) {
        struct sl_cipd_handles next = golden_handles(slot + 3);
        sl_cipd_store_handles(foreign.at, slot, &next);
    }
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_NO_FRAME);
    foreign_publish(&foreign, 1, 1.0);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_CHANGED);
    end(&consumer, &foreign);
}

TEST(cipd_poll_notices_other_metadata)
{
    struct foreign foreign;
    struct sl_cipd_segment_reader consumer = connected(cipd_name("metadata"), &foreign);
    struct sl_cipd_metadata other = metadata_of(32, 64, 4);
    struct sl_cipd_frame frame;
    sl_cipd_store_metadata(foreign.at, &three, &other);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_CHANGED);
    sl_cipd_store_metadata(foreign.at, &three, &consumer.session.metadata);
    sl_cipd_store_slots(foreign.at, 2);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_CHANGED);
    end(&consumer, &foreign);
}

TEST(cipd_poll_over_the_wrap)
{
    static const uint32_t counts[] = { 2, 3, 5 };
    for (int i = 0; i < 3; i++) {
        const char *name = cipd_name("wrap");
        struct sl_cipd_segment_writer producer = producing(name, counts[i]);
        struct sl_cipd_frame frame;
        producer.index = UINT32_MAX - 2;
        producer.slot = sl_cipd_index_next_slot(producer.index, counts[i]);
        sl_cipd_write_publish(&producer, 1);
        struct sl_cipd_segment_reader consumer = reading(name);
        CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
        CHECK_EQ(frame.index, UINT32_MAX - 1);
        for (int n = 0; n < 20; n++) {
            uint32_t slot = sl_cipd_write_slot(&producer), missed = (uint32_t)n % 3;
            for (uint32_t k = 0; k < missed; k++)
                sl_cipd_write_publish(&producer, 1);
            slot = (slot + missed) % counts[i];
            sl_cipd_write_publish(&producer, 1);
            CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
            CHECK_EQ(frame.slot, slot);
            CHECK_EQ(frame.missed, missed);
            CHECK_EQ(sl_cipd_read_is_whole(&consumer, &frame), true);
        }
        end(&consumer, NULL);
        sl_cipd_write_close(&producer);
    }
}

TEST(cipd_whole_until_its_slot_may_be_rewritten)
{
    for (uint32_t slots = 1; slots <= SL_CIPD_MAX_SLOTS; slots++) {
        const char *name = cipd_name("whole");
        struct sl_cipd_segment_writer producer = producing(name, slots);
        struct sl_cipd_segment_reader consumer = reading(name);
        struct sl_cipd_frame frame;
        CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
        for (uint32_t later = 0; later < 2 * slots; later++) {
            CHECK_EQ(sl_cipd_read_is_whole(&consumer, &frame), later < (slots > 1 ? slots - 1 : 1));
            sl_cipd_write_publish(&producer, 1);
        }
        end(&consumer, NULL);
        CHECK(!sl_cipd_read_is_whole(&consumer, &frame));
        sl_cipd_write_close(&producer);
    }
}

TEST(cipd_whole_of_another_session_is_not)
{
    struct foreign foreign;
    struct sl_cipd_segment_reader consumer = connected(cipd_name("other session"), &foreign);
    struct sl_cipd_frame frame;
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    CHECK(sl_cipd_read_is_whole(&consumer, &frame));
    sl_cipd_store_version(foreign.at, 6);
    CHECK(!sl_cipd_read_is_whole(&consumer, &frame));
    sl_cipd_store_version(foreign.at, 5);
    sl_cipd_store_index(foreign.at, 0); /* for longer than Python takes */
    CHECK(!sl_cipd_read_is_whole(&consumer, &frame));
    end(&consumer, &foreign);
}

TEST(cipd_time_of_python_is_checked)
{
    struct foreign foreign;
    struct sl_cipd_segment_reader consumer = connected(cipd_name("time"), &foreign);
    struct sl_cipd_frame frame;
    double now = (double)test_now() / 1e9;
    const double bad[] = { 0.0, -1.0, NAN, INFINITY, -INFINITY, now + 100, now - 100, 1e300, 1.7e9 };
    uint32_t index = 41;
    foreign_publish(&foreign, index, now);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    CHECK_NEAR((double)frame.time_ns, now * 1e9, 1000.0);
    for (int i = 0; i < 9; i++) {
        foreign_publish(&foreign, ++index, bad[i]);
        CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
        CHECK_EQ(frame.time_ns, 0);
    }
    end(&consumer, &foreign);
}

/* The next frame's time is already in the segment, and its index is not. */
TEST(cipd_time_of_ours_is_the_frames_own)
{
    const char *name = cipd_name("own time");
    struct sl_cipd_segment_writer producer = producing(name, 3);
    struct sl_cipd_segment_reader consumer = reading(name);
    struct sl_cipd_frame frame;
    int64_t time = test_now() - 60 * SLUICE_S; /* old, and accepted */
    sl_cipd_write_publish(&producer, time);
    sl_cipd_store_time(producer.segment.at, &producer.layout, (double)test_now() / 1e9);
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    CHECK_EQ(frame.time_ns, time);
    sl_cipd_write_publish(&producer, time + 1);
    sl_cipd_ext_before_publish(producer.ext, 2, 77, 1); /* its slot is being used for another one */
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    CHECK_EQ(frame.time_ns, 0);
    end(&consumer, NULL);
    sl_cipd_write_close(&producer);
}

/* ---- the end of a segment ---- */

TEST(cipd_poll_asks_after_silence)
{
    const char *name = cipd_name("silence");
    struct foreign foreign;
    struct sl_cipd_segment_reader consumer = connected(name, &foreign);
    struct sl_cipd_frame frame;
    int64_t start = test_now(), now = start;
    CHECK_EQ(sl_cipd_read_poll(&consumer, now, &frame), SL_CIPD_FRAME);
    CHECK_EQ(unlink(cipd_path(name)), 0);
    now += 249 * SLUICE_MS;
    CHECK_EQ(sl_cipd_read_poll(&consumer, now, &frame), SL_CIPD_NO_FRAME);
    CHECK(!consumer.orphan);
    now += SLUICE_MS;
    CHECK_EQ(sl_cipd_read_poll(&consumer, now, &frame), SL_CIPD_NO_FRAME);
    CHECK(consumer.orphan);
    CHECK_EQ(consumer.frame_ns, start);
    foreign_publish(&foreign, 41, 1.0); /* its name was removed, but it goes on */
    CHECK_EQ(sl_cipd_read_poll(&consumer, now, &frame), SL_CIPD_FRAME);
    CHECK(!consumer.orphan);
    now += 260 * SLUICE_MS;
    CHECK_EQ(sl_cipd_read_poll(&consumer, now, &frame), SL_CIPD_NO_FRAME);
    CHECK(consumer.orphan);
    struct foreign again = foreign_make(name, 433);
    CHECK_EQ(sl_cipd_read_poll(&consumer, now + 249 * SLUICE_MS, &frame), SL_CIPD_NO_FRAME);
    CHECK_EQ(sl_cipd_read_poll(&consumer, now + 251 * SLUICE_MS, &frame), SL_CIPD_LOST);
    foreign_close(&again);
    end(&consumer, &foreign);
}

TEST(cipd_poll_knows_that_ours_died)
{
    const char *name = cipd_name("died");
    struct sl_cipd_segment_writer producer = producing(name, 3);
    struct sl_cipd_segment_reader consumer = reading(name);
    struct sl_cipd_frame frame;
    int64_t now = test_now();
    CHECK_EQ(sl_cipd_read_poll(&consumer, now, &frame), SL_CIPD_FRAME);
    CHECK_EQ(sl_cipd_read_poll(&consumer, now += SLUICE_S, &frame), SL_CIPD_NO_FRAME);
    sl_cipd_segment_leave(&producer.segment); /* as if killed */
    CHECK_EQ(sl_cipd_read_poll(&consumer, now += SLUICE_S, &frame), SL_CIPD_LOST);
    CHECK_EQ(consumer.reason, SL_CIPD_REASON_DEAD);
    end(&consumer, NULL);
}

/* ---- sleeping ---- */

TEST(cipd_wait_for_python_polls)
{
    struct foreign foreign;
    struct sl_cipd_segment_reader consumer = connected(cipd_name("glance"), &foreign);
    struct sl_cipd_frame frame;
    CHECK_EQ(sl_cipd_read_wait(&consumer, test_now() - 1), SLUICE_TIMEOUT);
    CHECK_OK(sl_cipd_read_wait(&consumer, SLUICE_FOREVER)); /* there is one */
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    CHECK_OK(sl_cipd_read_wait(&consumer, SLUICE_FOREVER)); /* not for ever, though nobody wakes it */
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_NO_FRAME);
    sl_cipd_store_index(foreign.at, 0);
    CHECK_OK(sl_cipd_read_wait(&consumer, SLUICE_FOREVER));
    end(&consumer, &foreign);
    sl_cipd_read_retry_now(&consumer);
    CHECK_OK(sl_cipd_read_wait(&consumer, test_now() + 20 * SLUICE_S));
}

TEST(cipd_wait_says_that_it_sleeps)
{
    const char *name = cipd_name("asleep");
    struct sl_cipd_segment_writer producer = producing(name, 3);
    struct sl_cipd_segment_reader consumer = reading(name);
    struct sl_cipd_frame frame;
    CHECK_EQ(poll_now(&consumer, &frame), SL_CIPD_FRAME);
    CHECK(!somebody_sleeps(&producer));
    CHECK_OK(sl_cipd_read_wait(&consumer, test_now() + 20 * SLUICE_S));
    CHECK(somebody_sleeps(&producer));
    sl_cipd_write_publish(&producer, 1);
    CHECK(!somebody_sleeps(&producer)); /* and is woken only once */
    producer.silent = true;
    CHECK_OK(sl_cipd_read_wait(&consumer, test_now() + 20 * SLUICE_S));
    sl_cipd_write_publish(&producer, 1);
    end(&consumer, NULL);
    sl_cipd_write_close(&producer);
}

/* A reader that falls asleep between the check before an index and the one after it, or whose flag the first one
 * cleared, is woken. */
TEST(cipd_extra_tells_who_sleeps)
{
    const char *name = cipd_name("between");
    struct sl_cipd_segment_writer producer = producing(name, 3);
    struct sl_cipd_private_ext *extra = producer.ext;
    CHECK(!sl_cipd_ext_after_publish(extra, sl_cipd_ext_before_publish(extra, 0, 7, 1)));
    sl_store(&extra->asleep, 1, seq_cst);
    bool slept = sl_cipd_ext_before_publish(extra, 0, 7, 1);
    CHECK(slept);
    CHECK_EQ(sl_load(&extra->asleep, seq_cst), 0);
    CHECK(sl_cipd_ext_after_publish(extra, slept));
    slept = sl_cipd_ext_before_publish(extra, 0, 7, 1);
    CHECK(!slept);
    sl_store(&extra->asleep, 1, seq_cst);
    CHECK(sl_cipd_ext_after_publish(extra, slept));
    CHECK_EQ(sl_load(&extra->asleep, seq_cst), 1); /* for the next frame */
    sl_cipd_write_close(&producer);
}

struct pair {
    struct sl_cipd_segment_writer producer;
    const char *name;
    uint32_t frames;
    sl_word32 seen, ready;
};

static void *read_all(void *given)
{
    struct pair *pair = given;
    struct sl_cipd_segment_reader consumer = reading(pair->name);
    struct sl_cipd_frame frame;
    enum sl_cipd_poll result;
    sl_add(&pair->ready, 1);
    while ((result = poll_now(&consumer, &frame)) != SL_CIPD_SHUT) {
        CHECK(result == SL_CIPD_FRAME || result == SL_CIPD_NO_FRAME);
        if (result == SL_CIPD_FRAME)
            sl_store(&pair->seen, frame.index, seq_cst);
        else
            CHECK_OK(sl_cipd_read_wait(&consumer, SLUICE_FOREVER));
    }
    end(&consumer, NULL);
    return NULL;
}

/* Each frame is published when the reader has seen the one before, and usually sleeps again: a lost wake-up costs 50
 * ms, and a hundred of them the test. */
TEST_TIMEOUT(cipd_wait_is_woken, 60)
{
    static struct pair pair;
    pthread_t thread;
    pair.name = cipd_name("woken");
    pair.frames = (uint32_t)test_scale(20000);
    pair.producer = producing(pair.name, 3);
    CHECK_EQ(pthread_create(&thread, NULL, read_all, &pair), 0);
    CHECK_SOON(sl_load(&pair.ready, seq_cst) == 1, 10);
    int64_t start = test_now();
    for (uint32_t frame = 2; frame < pair.frames + 2; frame++) {
        CHECK_EQ(sl_cipd_write_publish(&pair.producer, test_now()), frame);
        while (sl_load(&pair.seen, seq_cst) != frame)
            sched_yield();
        if (frame % 4 == 0)
            while (!somebody_sleeps(&pair.producer) && test_now() - start < 50 * SLUICE_S)
                sched_yield();
    }
    sl_cipd_write_shut(&pair.producer);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    sl_cipd_write_close(&pair.producer);
}

/* A writer that keeps starting sessions, in place and elsewhere, and readers that follow: each frame is of the session
 * that they believe to be in. */
struct churn {
    const char *name;
    sl_word32 stop, frames;
};

/* Handles and format that identify their session. */
static struct sl_cipd_metadata churned(uint32_t session, struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS])
{
    struct sl_cipd_metadata metadata = metadata_of(session % 1000 + 1, 1, 1);
    for (uint32_t slot = 0; slot < SL_CIPD_MAX_SLOTS; slot++) {
        memset(&handles[slot], (int)(session % 255) + 1, sizeof(handles[slot]));
        memcpy(handles[slot].memory, &session, sizeof(session));
    }
    return metadata;
}

static void *follow(void *given)
{
    struct churn *churn = given;
    struct sl_cipd_segment_reader consumer;
    struct sl_cipd_frame frame;
    CHECK_OK(sl_cipd_read_init(&consumer, churn->name));
    while (!sl_load(&churn->stop, seq_cst)) {
        sl_cipd_read_retry_now(&consumer);
        if (sl_cipd_read_connect(&consumer, test_now())) {
            sched_yield();
            continue;
        }
        uint32_t session;
        struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS];
        memcpy(&session, consumer.session.handles[0].memory, sizeof(session));
        struct sl_cipd_metadata metadata = churned(session, handles);
        CHECK(sl_cipd_same_metadata(&metadata, &consumer.session.metadata));
        CHECK_MEM(handles, consumer.session.handles, consumer.session.layout.slots * sizeof(*handles));
        enum sl_cipd_poll result;
        while ((result = poll_now(&consumer, &frame)) == SL_CIPD_FRAME || result == SL_CIPD_NO_FRAME)
            if (result == SL_CIPD_FRAME)
                sl_add(&churn->frames, 1);
        sl_cipd_read_drop(&consumer, consumer.reason);
    }
    end(&consumer, NULL);
    return NULL;
}

TEST_TIMEOUT(cipd_sessions_follow_one_another, 60)
{
    static struct churn churn;
    struct sl_cipd_segment_writer producer = SL_CIPD_SEGMENT_WRITER_INIT;
    struct sl_cipd_handles handles[SL_CIPD_MAX_SLOTS];
    pthread_t threads[2];
    churn.name = cipd_name("churn");
    CHECK_OK(sl_cipd_write_open(&producer, churn.name));
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, follow, &churn), 0);
    uint32_t sessions = (uint32_t)test_scale(3000);
    for (uint32_t session = 1; session <= sessions || !sl_load(&churn.frames, seq_cst); session++) {
        struct sl_cipd_metadata metadata = churned(session, handles);
        CHECK_OK(sl_cipd_write_begin(&producer,
                                     session % 16 == 0       ? 1 + session / 16 % 5
                                     : producer.layout.slots ? producer.layout.slots
                                                             : 3,
                                     handles, &metadata));
        for (uint32_t frame = 0; frame < session % 20; frame++)
            sl_cipd_write_publish(&producer, test_now());
        sched_yield();
    }
    sl_store(&churn.stop, 1, seq_cst);
    sl_cipd_write_shut(&producer);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    sl_cipd_write_close(&producer);
}
