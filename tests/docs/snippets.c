/* SPDX-License-Identifier: MIT
 *
 * The promises of docs/ about policies, restarts and other users: their code and their tables.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <sluice/sluice.h>

#include "harness/test.h"

static sluice_writer *open_writer(struct sluice_writer_params params)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    sluice_writer *writer;

    test_dir();
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 64, 64));
    params.name = "camera";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static sluice_reader *open_reader(struct sluice_reader_params params)
{
    sluice_reader *reader;

    params.name = "camera";
    params.open_timeout_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

static int put(sluice_writer *writer)
{
    struct sluice_frame frame;
    int r = sluice_writer_begin(writer, SLUICE_DEFAULT, &frame);

    if (r == 0)
        CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    return r;
}

static struct sluice_frame take(sluice_reader *reader)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    return frame;
}

/* ---- containers.md ---- */

TEST(containers_doc_other_users)
{
    struct sluice_writer_params writer_params = SLUICE_WRITER_PARAMS_INIT;
    static const uint32_t viewers[] = { 1001, 1002 }; /* who may read */
    writer_params.uids = viewers;
    writer_params.uid_count = 2;

    struct sluice_reader_params reader_params = SLUICE_READER_PARAMS_INIT;
    static const uint32_t cameras[] = { 1000 }; /* whose frames to believe */
    reader_params.uids = cameras;
    reader_params.uid_count = 1;

    /* The folder must let the others pass. */
    struct sluice_format format = SLUICE_FORMAT_INIT;
    sluice_writer *writer;
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 64, 64));
    writer_params.name = "camera";
    writer_params.format = &format;
    test_dir();
    CHECK_SAYS(sluice_writer_open(&writer, &writer_params), SLUICE_E_PERMISSION, "chmod 711");
    CHECK_EQ(chmod(test_dir(), 0711), 0);
    CHECK_OK(sluice_writer_open(&writer, &writer_params));
    sluice_reader *reader = open_reader(reader_params);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- policies.md ---- */

/* Each reader holds all it may while the writer goes on committing: nothing is dropped, and the newest `depth` frames
 * are kept for readers in order. Returns false if that does not hold. */
static bool enough(uint32_t slots, uint32_t newest, uint32_t hold, uint32_t in_order, uint32_t depth)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_reader *readers[8], *slow[8];
    struct sluice_frame held[64];
    uint32_t n = 0;

    params.slots = slots;
    params.max_slots = slots;
    sluice_writer *writer = open_writer(params);
    for (uint32_t i = 0; i < newest; i++) {
        struct sluice_reader_params p = SLUICE_READER_PARAMS_INIT;
        p.hold = hold;
        readers[i] = open_reader(p);
    }
    for (uint32_t i = 0; i < in_order; i++) {
        struct sluice_reader_params p = SLUICE_READER_PARAMS_INIT;
        p.mode = SLUICE_IN_ORDER;
        p.depth = depth;
        slow[i] = open_reader(p);
    }
    for (uint32_t i = 0; i < in_order; i++) {
        CHECK_OK(put(writer));
        held[n++] = take(slow[i]);
    }
    for (uint32_t i = 0; i < newest; i++) {
        for (uint32_t k = 0; k < hold; k++) {
            CHECK_OK(put(writer));
            held[n++] = take(readers[i]);
        }
    }
    for (int i = 0; i < 100; i++)
        (void)put(writer);
    struct sluice_writer_stats stats = { .size = sizeof stats };
    struct sluice_frame begun;
    bool good = sluice_writer_begin(writer, SLUICE_DEFAULT, &begun) == 0;
    CHECK_OK(sluice_writer_stats(writer, &stats));
    good = good && stats.dropped == 0;
    for (uint32_t i = 0; i < n; i++) {
        sluice_reader *owner = i < in_order ? slow[i] : readers[(i - in_order) / hold];
        CHECK_OK(sluice_reader_release(owner, &held[i], SLUICE_ON_CPU));
    }
    for (uint32_t i = 0; i < in_order; i++) {
        /* The newest `depth` frames are all there, whatever else is. */
        uint64_t sequence = 0;
        for (uint64_t next = stats.committed - depth + 1; sequence < stats.committed;) {
            struct sluice_frame frame = take(slow[i]);
            sequence = frame.sequence;
            CHECK_OK(sluice_reader_release(slow[i], &frame, SLUICE_ON_CPU));
            if (sequence >= next)
                good = good && sequence == next++;
        }
    }
    for (uint32_t i = 0; i < newest; i++)
        CHECK_OK(sluice_reader_close(&readers[i]));
    for (uint32_t i = 0; i < in_order; i++)
        CHECK_OK(sluice_reader_close(&slow[i]));
    CHECK_OK(sluice_writer_close(&writer));
    return good;
}

/* The table "how many slots are enough"; one less is not, if a channel can have so few. */
TEST(policies_doc_slots)
{
    CHECK(enough(3, 1, 1, 0, 0));
    CHECK(enough(5, 3, 1, 0, 0));
    CHECK(!enough(4, 3, 1, 0, 0));
    CHECK(enough(8, 2, 1, 1, 4));
    CHECK(!enough(7, 2, 1, 1, 4));
    CHECK(enough(6, 1, 4, 0, 0));
}

/* "What begin tries": a new slot comes before an unread frame within `depth`, and before that those beyond it. */
TEST(policies_doc_grows_for_depth)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params p = SLUICE_READER_PARAMS_INIT;
    struct sluice_writer_stats stats = { .size = sizeof stats };

    sluice_writer *writer = open_writer(params);
    p.mode = SLUICE_IN_ORDER;
    p.depth = 4;
    sluice_reader *reader = open_reader(p);
    for (int i = 0; i < 20; i++)
        CHECK_OK(put(writer));
    CHECK_OK(sluice_writer_stats(writer, &stats));
    CHECK_EQ(stats.slots, 5);
    CHECK_EQ(stats.stolen, 15);
    struct sluice_frame frame = take(reader);
    CHECK_EQ(frame.sequence, 16);
    CHECK_EQ(frame.missed, 15);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(policies_doc_no_slot_names_the_holder)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params p = SLUICE_READER_PARAMS_INIT;
    struct sluice_frame frame;

    params.slots = 3;
    params.max_slots = 3;
    sluice_writer *writer = open_writer(params);
    sluice_reader *reader = open_reader(p);
    CHECK_OK(put(writer));
    struct sluice_frame held = take(reader);
    CHECK_OK(put(writer));
    CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
    struct sluice_frame second;
    CHECK_SAYS(sluice_writer_begin(writer, SLUICE_DEFAULT, &second), SLUICE_NO_SLOT,
               "channel 'camera': none of its 3 slots is free (1 being written): reader '");
    CHECK_HAS(sluice_last_error(), " has held 1 for 0.");
    CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_release(reader, &held, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* Every other frame; those in between do not count as missed. */
TEST(policies_doc_every)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params p = SLUICE_READER_PARAMS_INIT;

    params.slots = 8;
    sluice_writer *writer = open_writer(params);
    p.mode = SLUICE_IN_ORDER;
    p.every = 2;
    sluice_reader *reader = open_reader(p);
    for (uint64_t i = 0; i < 3; i++) {
        CHECK_OK(put(writer));
        CHECK_OK(put(writer));
        struct sluice_frame frame = take(reader);
        CHECK_EQ(frame.sequence, 2 * i + 1);
        CHECK_EQ(frame.missed, 0);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- restart-and-death.md ---- */

ROLE(writer)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer = open_writer(params);
    char *line;

    role_say("open");
    while ((line = role_line())) {
        if (strcmp(line, "put") == 0)
            CHECK_OK(put(writer));
        else
            CHECK_OK(sluice_writer_close(&writer));
        role_say("done");
    }
    CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

static void tell(struct child *child, const char *line)
{
    child_send(child, line);
    child_expect(child, "done", 5);
}

/* Until each of its threads has stopped. */
static void stop(struct child *child)
{
    siginfo_t info;

    child_kill(child, SIGSTOP);
    CHECK_EQ(waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOWAIT), 0);
}

static struct child start_writer(void)
{
    struct child child = role_start("writer", NULL);
    child_expect(&child, "open", 5);
    return child;
}

/* The table "a reader sees", row by row. */
TEST(restart_doc_reader_sees)
{
    struct sluice_reader_params p = SLUICE_READER_PARAMS_INIT;
    struct sluice_frame frame, kept;

    test_dir();
    struct child child = start_writer();
    p.hold = 2;
    sluice_reader *reader = open_reader(p);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_MS, &frame), SLUICE_TIMEOUT);

    tell(&child, "put");
    stop(&child);
    frame = take(reader);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
    child_kill(&child, SIGCONT);

    tell(&child, "put");
    child_kill(&child, SIGKILL);
    kept = take(reader);
    CHECK_EQ(kept.sequence, 2);
    CHECK_SOON(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame) == SLUICE_NO_WRITER, 5);

    child = start_writer();
    tell(&child, "put");
    CHECK_SOON(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frame) == 0, 5);
    CHECK_EQ(frame.sequence, 1);
    CHECK_NE(frame.session, kept.session);
    CHECK(frame.flags & SLUICE_FRAME_NEW_SESSION);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    struct sluice_array array; /* of the writer that was killed */
    CHECK_OK(sluice_frame_array(&kept, NULL, &array));
    CHECK_EQ(array.read_only, 1);
    CHECK_OK(sluice_reader_release(reader, &kept, SLUICE_ON_CPU));

    tell(&child, "put");
    tell(&child, "close");
    frame = take(reader);
    CHECK_EQ(frame.sequence, 2);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_S, &frame), SLUICE_CLOSED);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_S, &frame), SLUICE_CLOSED);
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&child);
}

/* The table "opening a reader". */
TEST(restart_doc_opening)
{
    struct sluice_reader_params p = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    test_dir();
    p.name = "camera";
    CHECK_RESULT(sluice_reader_open(&reader, &p), SLUICE_E_NOT_FOUND);
    p.open_timeout_ns = 50 * SLUICE_MS;
    CHECK_RESULT(sluice_reader_open(&reader, &p), SLUICE_E_NOT_FOUND);
    p.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &p));
    CHECK_OK(sluice_reader_close(&reader));

    struct child child = start_writer();
    stop(&child);
    p.open_timeout_ns = 0;
    int64_t began = test_now();
    CHECK_RESULT(sluice_reader_open(&reader, &p), SLUICE_TIMEOUT);
    CHECK_GE(test_now() - began, 900 * SLUICE_MS);
    p.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &p));
    CHECK_OK(sluice_reader_close(&reader));
    child_kill(&child, SIGKILL);
}

/* profiling.md: a program reads its timers. */
TEST(profiling_doc_timers)
{
    struct sluice_timer timers[64];
    size_t count;
    sluice_timers_set(1);

    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer = open_writer(params);
    CHECK_OK(put(writer));
    sluice_timers(timers, 64, &count);
    for (size_t i = 0; i < count && i < 64; i++)
        if (timers[i].count > 0)
            printf("%s: %.0f ns on average, %s\n", timers[i].name, (double)timers[i].total_ns / (double)timers[i].count,
                   timers[i].what);
    CHECK_EQ(timers[0].count, 1); /* write */
    CHECK_OK(sluice_writer_close(&writer));
}
