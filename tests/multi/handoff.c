/* SPDX-License-Identifier: MIT
 *
 * Frames from one process to others: whole, in order, with their metadata.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB 1024

static void check_ran(struct child *reader, long least)
{
    const char *answer = ask(reader, "stop");
    CHECK_HAS(answer, "ran ");
    CHECK_GE(NUMBER(answer, "ran"), least);
    CHECK_EQ(NUMBER(answer, "torn"), 0);
    CHECK_EQ(NUMBER(answer, "back"), 0);
    CHECK_EQ(NUMBER(answer, "lost"), 0);
}

/* A writer at full speed, with barely enough slots, and readers that check every frame twice. */
TEST(frames_are_whole_from_acquire_to_release)
{
    test_dir();
    struct child writer = kit_start("writer", "bytes=300000", "slots=3", "max_slots=6", NULL);
    child_expect(&writer, "open", 5);
    struct child a = kit_start("reader", "name=cam", NULL);
    struct child b = kit_start("reader", "name=cam", "spin_ns=-1", NULL);
    struct child c = kit_start("reader", "name=cam", "mode=1", NULL);
    child_expect(&a, "open", 5);
    child_expect(&b, "open", 5);
    child_expect(&c, "open", 5);
    EXPECT_ANSWER(&a, "run", "running");
    EXPECT_ANSWER(&b, "run", "running");
    EXPECT_ANSWER(&c, "run", "running");
    EXPECT_ANSWER(&writer, "run 0", "running");
    test_nap(test_scale(1500) * SLUICE_MS);
    CHECK_SOON(kit_taken("cam", a.pid) >= 3 && kit_taken("cam", b.pid) >= 3 && kit_taken("cam", c.pid) >= 3, 10);
    CHECK_HAS(ask(&writer, "stop"), "ran ");
    check_ran(&a, 3);
    check_ran(&b, 3);
    check_ran(&c, 3);
    role_stop(&writer);
    role_stop(&a);
    role_stop(&b);
    role_stop(&c);
}

TEST(sixty_four_readers_on_sixty_four_slots)
{
    struct sluice_format format = kit_format(8 * KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    struct child readers[64];
    sluice_writer *writer;

    test_dir();
    params.slots = params.max_slots = 64;
    CHECK_OK(sluice_writer_open(&writer, &params));
    for (int i = 0; i < 64; i++)
        readers[i] = kit_start("reader", i % 2 ? "mode=1" : "mode=0", NULL);
    for (int i = 0; i < 64; i++)
        child_expect(&readers[i], "open", 10);
    CHECK_EQ(kit_writer_stats(writer).readers, 64);

    struct child more = kit_start("reader", "name=cam", NULL);
    CHECK_HAS(child_line(&more, 5), "E_LIMIT channel 'cam': all 64 places for readers are taken");
    role_stop(&more);

    /* 62 different frames held at once, and still a slot for the next. */
    for (int i = 0; i < 62; i++) {
        kit_commits(writer, 1);
        EXPECT_ANSWER(&readers[i], "hold 20000", "holds");
    }
    kit_commits(writer, 20);
    for (int i = 0; i < 62; i++) {
        EXPECT_ANSWER(&readers[i], "check", "whole 1");
        EXPECT_ANSWER(&readers[i], "give", "gave");
    }
    kit_commits(writer, 1);
    for (int i = 0; i < 64; i++)
        EXPECT_ANSWER(&readers[i], "take 20000", "took");
    CHECK_EQ(kit_writer_stats(writer).dropped, 0);
    for (int i = 0; i < 64; i++)
        child_send(&readers[i], "close");
    for (int i = 0; i < 64; i++)
        child_expect(&readers[i], "closed", 5);
    CHECK_SOON(kit_writer_stats(writer).readers == 0, 2);
    CHECK_EQ(kit_writer_stats(writer).readers_died, 0);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(writer_and_reader_in_one_process)
{
    sluice_writer *writer = kit_writer("cam", 64 * KIB);
    sluice_reader *newest = kit_reader("cam", SLUICE_NEWEST), *recorder = kit_reader("cam", SLUICE_IN_ORDER);

    for (uint64_t i = 1; i <= 1000; i++) {
        kit_commits(writer, 1);
        struct sluice_frame a = kit_take(newest), b = kit_take(recorder);
        CHECK_EQ(a.sequence, i);
        CHECK_EQ(b.sequence, i);
        CHECK_EQ(a.missed + b.missed, 0);
        kit_give(newest, &a);
        kit_give(recorder, &b);
    }
    CHECK_OK(sluice_reader_close(&newest));
    CHECK_OK(sluice_reader_close(&recorder));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(channels_do_not_mix)
{
    sluice_writer *left = kit_writer("left", 8 * KIB), *right = kit_writer("right", 16 * KIB);
    struct child a = kit_start("reader", "name=left", NULL);
    struct child b = kit_start("reader", "name=sluice:right", NULL);
    struct sluice_registry_entry entries[4];
    size_t count;

    child_expect(&a, "open", 5);
    child_expect(&b, "open", 5);
    kit_commits(left, 3);
    EXPECT_ANSWER(&a, "take 20000", "took 3 ");
    EXPECT_ANSWER(&b, "take 50", "TIMEOUT");
    kit_commits(right, 5);
    EXPECT_ANSWER(&b, "take 20000", "took 5 ");
    CHECK_OK(sluice_registry_list(NULL, entries, 4, &count));
    CHECK_EQ(count, 2);
    CHECK_STR(entries[0].name, "left");
    CHECK_STR(entries[1].name, "right");
    CHECK_OK(sluice_writer_close(&left));
    EXPECT_ANSWER(&a, "take 20000", "CLOSED");
    kit_commits(right, 1);
    EXPECT_ANSWER(&b, "take 20000", "took 6 ");
    CHECK_OK(sluice_writer_close(&right));
    role_stop(&a);
    role_stop(&b);
}

TEST(a_late_joiner_gets_the_newest_frame_at_once)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);

    kit_commits(writer, 100);
    for (uint32_t mode = SLUICE_NEWEST; mode <= SLUICE_IN_ORDER; mode++) {
        struct child reader = kit_start("reader", mode ? "mode=1" : "mode=0", NULL);
        child_expect(&reader, "open", 5);
        /* Frames before it joined do not count as missed. */
        EXPECT_ANSWER(&reader, "take 20000", "took 100 missed 0 ");
        EXPECT_ANSWER(&reader, "take 30", "TIMEOUT");
        role_stop(&reader);
    }
    CHECK_OK(sluice_writer_close(&writer));
}

ROLE(fields)
{
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_frame frame = kit_take(reader);
    const char *meta = frame.meta;
    bool good = true;

    for (uint32_t i = 0; i < frame.meta_size; i++)
        good = good && meta[i] == (char)(i * 7);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    role_say("sequence %llu session %llu capture %lld clock %u commit %lld meta %u good %d arrays %u",
             (unsigned long long)frame.sequence, (unsigned long long)frame.session, (long long)frame.capture_ns,
             frame.capture_clock, (long long)frame.commit_ns, frame.meta_size, good, frame.array_count);
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_close(&reader));
    return 0;
}

TEST(times_and_metadata_come_along)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);
    struct sluice_frame frame;

    int64_t began = test_now();
    CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
    CHECK_GE(frame.capture_ns, began); /* now, unless the program sets it */
    CHECK_EQ(frame.capture_clock, SLUICE_CLOCK_MONOTONIC);
    CHECK_EQ(frame.sequence, 0);
    CHECK_EQ(frame.meta_size, 0);
    kit_fill(&frame, 1);
    for (uint32_t i = 0; i < SLUICE_MAX_META; i++)
        ((char *)frame.meta)[i] = (char)(i * 7);
    frame.meta_size = SLUICE_MAX_META;
    frame.capture_ns = 1234567890123;
    frame.capture_clock = SLUICE_CLOCK_TAI;
    uint64_t session = frame.session;
    CHECK_NE(session, 0);
    int64_t before = test_now();
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    int64_t after = test_now();

    struct child reader = role_start("fields", NULL);
    const char *answer = child_line(&reader, 5);
    CHECK_EQ(NUMBER(answer, "sequence"), 1);
    char text[32];
    snprintf(text, sizeof text, "session %llu ", (unsigned long long)session);
    CHECK_HAS(answer, text);
    CHECK_EQ(NUMBER(answer, "capture"), 1234567890123);
    CHECK_EQ(NUMBER(answer, "clock"), SLUICE_CLOCK_TAI);
    CHECK_GE(NUMBER(answer, "commit"), before);
    CHECK_LE(NUMBER(answer, "commit"), after);
    CHECK_EQ(NUMBER(answer, "meta"), SLUICE_MAX_META);
    CHECK_EQ(NUMBER(answer, "good"), 1);
    role_stop(&reader);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(metadata_over_4096_bytes_is_refused)
{
    sluice_writer *writer = kit_writer("cam", 8 * KIB);
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
    kit_fill(&frame, 1);
    frame.meta_size = SLUICE_MAX_META + 1;
    CHECK_SAYS(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU), SLUICE_E_LIMIT, "4097 bytes of metadata");
    frame.meta_size = 2; /* it is still begun */
    memcpy(frame.meta, "ok", 2);
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    /* The next frame starts without metadata. */
    CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
    CHECK_EQ(frame.meta_size, 0);
    CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_writer_close(&writer));
}

/* Reads channel "raw" and writes "done", which inherits times and metadata. */
ROLE(filter)
{
    sluice_reader *reader = kit_reader("raw", SLUICE_IN_ORDER);
    sluice_writer *writer = kit_writer("done", 8 * KIB);
    struct sluice_frame in, out;

    role_say("ready");
    for (;;) {
        int r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &in);
        if (r == SLUICE_CLOSED)
            break;
        CHECK_OK(r);
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &out));
        CHECK_OK(sluice_frame_inherit(&out, &in));
        kit_fill(&out, in.sequence);
        CHECK_OK(sluice_writer_commit(writer, &out, SLUICE_ON_CPU));
        kit_give(reader, &in);
        /* Neither may be used after its end. */
        CHECK_RESULT(sluice_frame_inherit(&out, &in), SLUICE_E_STALE);
    }
    (void)role_line();
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_reader_close(&reader));
    return 0;
}

TEST(a_chain_keeps_the_time_of_capture_and_metadata)
{
    sluice_writer *writer = kit_writer("raw", 8 * KIB);
    struct child filter = role_start("filter", NULL);
    struct sluice_frame frame;

    child_expect(&filter, "ready", 5);
    sluice_reader *reader = kit_reader("done", SLUICE_IN_ORDER);
    for (int i = 1; i <= 20; i++) {
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
        kit_fill(&frame, (uint64_t)i);
        frame.capture_ns = 1000 * i;
        frame.capture_clock = SLUICE_CLOCK_MEDIA;
        frame.meta_size = (uint32_t)sprintf(frame.meta, "number %d", i) + 1;
        CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
        frame = kit_take(reader);
        char text[32];
        sprintf(text, "number %d", i);
        CHECK_EQ(frame.sequence, i);
        CHECK_EQ(frame.capture_ns, 1000 * i);
        CHECK_EQ(frame.capture_clock, SLUICE_CLOCK_MEDIA);
        CHECK_EQ(frame.meta_size, strlen(text) + 1);
        CHECK_STR((const char *)frame.meta, text);
        kit_give(reader, &frame);
    }
    CHECK_OK(sluice_writer_close(&writer));
    child_send(&filter, "end");
    role_stop(&filter);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frame), SLUICE_CLOSED);
    CHECK_OK(sluice_reader_close(&reader));
}

/* Nothing is copied: a slot's memory keeps its address for the whole generation, on both sides. */
TEST(a_slot_stays_where_it_is)
{
    sluice_writer *writer = kit_writer("cam", 64 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    void *written[64] = { NULL }, *read[64] = { NULL };
    struct sluice_array array;
    struct sluice_frame frame;

    for (uint64_t i = 1; i <= 200; i++) {
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
        CHECK_OK(sluice_frame_array(&frame, "data", &array));
        CHECK(!written[frame.slot] || written[frame.slot] == array.data);
        written[frame.slot] = array.data;
        uint32_t slot = frame.slot;
        kit_fill(&frame, i);
        CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
        frame = kit_take(reader);
        CHECK_EQ(frame.slot, slot);
        CHECK_OK(sluice_frame_array(&frame, "data", &array));
        CHECK(!read[slot] || read[slot] == array.data);
        read[slot] = array.data;
        kit_give(reader, &frame);
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_reader_cannot_change_the_writers_pages)
{
    sluice_writer *writer = kit_writer("cam", 64 * KIB);
    struct sluice_reader_params params = kit_reader_params("cam");
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST), *other;
    struct sluice_array array;

    kit_commits(writer, 1);
    struct sluice_frame frame = kit_take(reader);
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_EQ(array.read_only, 1);
    uintptr_t page = (uintptr_t)array.data & ~(uintptr_t)4095;
    if (!kit_device()) /* the driver maps a GPU's memory */
        CHECK(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) != 0 && errno == EACCES);
    page = (uintptr_t)frame.meta & ~(uintptr_t)4095;
    CHECK(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) != 0 && errno == EACCES);
    kit_give(reader, &frame);
    params.writable = 1;
    CHECK_SAYS(sluice_reader_open(&other, &params), SLUICE_E_PERMISSION, "'writable'");
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

ROLE(changer)
{
    struct sluice_reader_params params = kit_reader_params("cam");
    struct sluice_frame frame;
    struct sluice_array array;
    sluice_reader *reader;

    params.writable = 1;
    params.open_timeout_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    frame = kit_take(reader);
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_EQ(array.read_only, 0);
    static char all[64 * KIB];
    CHECK_EQ(array.nbytes, sizeof all);
    kit_put(&array, memset(all, 42, sizeof all));
    role_say("changed");
    (void)role_line();
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&reader));
    return 0;
}

TEST(a_writable_reader_changes_frames_in_place_where_the_writer_allows_it)
{
    struct sluice_format format = kit_format(64 * KIB);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_array array;
    sluice_writer *writer;

    test_dir();
    params.writable = 1;
    CHECK_OK(sluice_writer_open(&writer, &params));
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    kit_commits(writer, 1);
    struct sluice_frame frame = kit_take(reader);
    struct child changer = role_start("changer", NULL);
    child_expect(&changer, "changed", 5);
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_EQ(array.read_only, 1); /* this reader did not ask to write */
    CHECK_EQ(kit_byte(&array, 1000), 42);
    CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, NULL, 0));
    CHECK_EQ(info.writable, 1);
    child_send(&changer, "end");
    role_stop(&changer);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}
