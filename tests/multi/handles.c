/* SPDX-License-Identifier: MIT
 *
 * Calls that should not be made: too late, twice, with somebody else's things, with nothing, in a forked
 * child. A status and a sentence each time, nothing lost, nothing leaked.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "multi/kit.h"

#define KIB 1024

static struct sluice_array wrap(void *data, int64_t bytes)
{
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_array array;
    CHECK_OK(sluice_array_wrap(&array, NULL, data, u8, 1, &bytes, NULL));
    return array;
}

/* ---- too late ---- */

TEST(a_closed_writer_is_stale_in_every_call)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB), *copy = writer;
    struct sluice_format format = kit_format(8 * KIB);
    struct sluice_writer_stats stats = { .size = sizeof stats };
    struct sluice_frame frame, begun;
    struct sluice_array array;
    static char data[64];

    CHECK_OK(sluice_writer_begin(writer, 0, &begun));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK(writer == NULL);
    CHECK_OK(sluice_writer_close(&writer));
    array = wrap(data, sizeof data);
    CHECK_SAYS(sluice_writer_begin(copy, 0, &frame), SLUICE_E_STALE, "closed");
    CHECK_RESULT(sluice_writer_commit(copy, &begun, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_RESULT(sluice_writer_cancel(copy, &begun, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_RESULT(sluice_writer_send(copy, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_STALE);
    CHECK_RESULT(sluice_writer_reformat(copy, &format), SLUICE_E_STALE);
    CHECK_RESULT(sluice_writer_format(copy, &format), SLUICE_E_STALE);
    CHECK_RESULT(sluice_writer_stats(copy, &stats), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_array(&begun, NULL, &array), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_array_at(&begun, 0, &array), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_reshape(&begun, NULL, 1, &(int64_t){ 1 }), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_resize(&begun, NULL, 1, 1), SLUICE_E_STALE);
    CHECK_RESULT(sluice_writer_close(&copy), SLUICE_E_STALE);
    /* The name is free, and a new writer is not mistaken for the old one. */
    writer = kit_writer("cam", 4 * KIB);
    CHECK_RESULT(sluice_writer_begin(copy, 0, &frame), SLUICE_E_STALE);
    CHECK_RESULT(sluice_writer_commit(writer, &begun, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_closed_reader_is_stale_in_every_call)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST), *copy = reader;
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct sluice_format format = { .size = sizeof format };
    struct sluice_frame frame, other;
    struct sluice_array array;
    static char data[4 * KIB];

    kit_commits(writer, 1);
    frame = kit_take(reader);
    CHECK_OK(sluice_reader_close(&reader)); /* with a frame in its hands */
    CHECK(reader == NULL);
    CHECK_OK(sluice_reader_close(&reader));
    array = wrap(data, sizeof data);
    CHECK_SAYS(sluice_reader_acquire(copy, SLUICE_ON_CPU, 0, &other), SLUICE_E_STALE, "closed");
    CHECK_RESULT(sluice_reader_release(copy, &frame, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_RESULT(sluice_reader_fetch(copy, &frame, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_STALE);
    CHECK_RESULT(sluice_reader_format(copy, &format), SLUICE_E_STALE);
    CHECK_RESULT(sluice_reader_fd(copy), SLUICE_E_STALE);
    CHECK_RESULT(sluice_reader_stats(copy, &stats), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_array(&frame, NULL, &array), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_inherit(&frame, &frame), SLUICE_E_STALE);
    CHECK_RESULT(sluice_reader_close(&copy), SLUICE_E_STALE);
    /* Its lease is gone with it. */
    CHECK_SOON(kit_writer_stats(writer).readers == 0, 2);
    kit_commits(writer, 20);
    CHECK_EQ(kit_writer_stats(writer).slots, 4);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_closed_watch_is_stale)
{
    sluice_watch *watch, *copy;

    test_dir();
    CHECK_OK(sluice_registry_watch_open(&watch, NULL));
    copy = watch;
    CHECK_OK(sluice_registry_watch_close(&watch));
    CHECK_RESULT(sluice_registry_watch_next(copy, 0), SLUICE_E_STALE);
    CHECK_RESULT(sluice_registry_watch_fd(copy), SLUICE_E_STALE);
    CHECK_RESULT(sluice_registry_watch_close(&copy), SLUICE_E_STALE);
}

/* ---- twice ---- */

TEST(a_frame_ends_once)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_frame frame, copy, next;
    struct sluice_array array;

    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    copy = frame;
    kit_fill(&frame, 1);
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    CHECK_SAYS(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU), SLUICE_E_STALE, "committed");
    CHECK_SAYS(sluice_writer_commit(writer, &copy, SLUICE_ON_CPU), SLUICE_E_STALE, "committed");
    CHECK_RESULT(sluice_writer_cancel(writer, &copy, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_array(&frame, NULL, &array), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_array(&copy, NULL, &array), SLUICE_E_STALE);
    CHECK_EQ(kit_writer_stats(writer).committed, 1);
    /* The slot begun again is another frame. */
    for (int i = 0; i < 8; i++) {
        CHECK_OK(sluice_writer_begin(writer, 0, &next));
        CHECK_RESULT(sluice_writer_commit(writer, &copy, SLUICE_ON_CPU), SLUICE_E_STALE);
        kit_fill(&next, (uint64_t)i + 2);
        CHECK_OK(sluice_writer_commit(writer, &next, SLUICE_ON_CPU));
    }

    frame = kit_take(reader);
    copy = frame;
    kit_give(reader, &frame);
    CHECK(frame.meta == NULL);
    CHECK_SAYS(sluice_reader_release(reader, &frame, SLUICE_ON_CPU), SLUICE_E_STALE, "released already");
    CHECK_SAYS(sluice_reader_release(reader, &copy, SLUICE_ON_CPU), SLUICE_E_STALE, "released already");
    CHECK_RESULT(sluice_frame_array(&copy, NULL, &array), SLUICE_E_STALE);
    kit_commits(writer, 1);
    frame = kit_take(reader); /* the same place in the reader, another frame */
    CHECK_RESULT(sluice_reader_release(reader, &copy, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_EQ(kit_reader_stats(reader).held, 1);
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* Two threads with a copy each of every frame; both let go in the same moment. */
struct race {
    sluice_reader *reader;
    struct sluice_frame frame; /* the other thread's */
    int result;
    atomic_long round, done;
    long rounds;
};

static void *race_release(void *context)
{
    struct race *race = context;

    for (long round = 1; round <= race->rounds; round++) {
        while (atomic_load(&race->round) < round)
            ;
        race->result = sluice_reader_release(race->reader, &race->frame, SLUICE_ON_CPU);
        atomic_store(&race->done, round);
    }
    return NULL;
}

TEST(of_two_threads_that_release_at_once_one_succeeds)
{
    sluice_writer *writer = kit_writer("cam", 64);
    struct race race = { .reader = kit_reader("cam", SLUICE_NEWEST), .rounds = test_scale(20000) };
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, race_release, &race), 0);
    for (long round = 1; round <= race.rounds; round++) {
        kit_commits(writer, 1);
        struct sluice_frame frame = kit_take(race.reader);
        race.frame = frame;
        atomic_store(&race.round, round);
        int result = sluice_reader_release(race.reader, &frame, SLUICE_ON_CPU);
        while (atomic_load(&race.done) < round)
            ;
        CHECK_EQ(result + race.result, SLUICE_E_STALE);
        CHECK(result == 0 || race.result == 0);
        CHECK_EQ(kit_reader_stats(race.reader).held, 0);
    }
    pthread_join(thread, NULL);
    CHECK_EQ(kit_writer_stats(writer).slots, 4);
    CHECK_OK(sluice_reader_close(&race.reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- somebody else's ---- */

TEST(frames_of_others_are_refused)
{
    sluice_writer *a = kit_writer("a", 4 * KIB), *b = kit_writer("b", 4 * KIB);
    sluice_reader *ra = kit_reader("a", SLUICE_NEWEST), *rb = kit_reader("a", SLUICE_NEWEST);
    struct sluice_frame fa, fb, read, none = { 0 };
    struct sluice_array array;

    CHECK_OK(sluice_writer_begin(a, 0, &fa));
    CHECK_OK(sluice_writer_begin(b, 0, &fb));
    CHECK_SAYS(sluice_writer_commit(b, &fa, SLUICE_ON_CPU), SLUICE_E_STALE, "not this writer's");
    CHECK_SAYS(sluice_writer_cancel(a, &fb, SLUICE_ON_CPU), SLUICE_E_STALE, "not this writer's");
    CHECK_RESULT(sluice_writer_commit(a, &none, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_RESULT(sluice_reader_release(ra, &fa, SLUICE_ON_CPU), SLUICE_E_STALE);
    kit_fill(&fa, 1);
    CHECK_OK(sluice_writer_commit(a, &fa, SLUICE_ON_CPU)); /* nothing was lost by it */
    CHECK_OK(sluice_writer_cancel(b, &fb, SLUICE_ON_CPU));

    read = kit_take(ra);
    CHECK_SAYS(sluice_reader_release(rb, &read, SLUICE_ON_CPU), SLUICE_E_STALE, "not this reader's");
    CHECK_RESULT(sluice_writer_commit(a, &read, SLUICE_ON_CPU), SLUICE_E_STALE);
    array = (struct sluice_array){ .data = NULL };
    CHECK_SAYS(sluice_reader_fetch(rb, &read, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_STALE, "not this reader's");
    CHECK_RESULT(sluice_frame_reshape(&read, NULL, 1, &(int64_t){ 5 }), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_resize(&read, NULL, 2, 2), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_inherit(&read, &read), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_release(ra, &none, SLUICE_ON_CPU), SLUICE_E_STALE);
    kit_give(ra, &read);

    /* Numbers that a program never got. */
    read.opaque[0] = fa.opaque[0] = 0x1234567;
    CHECK_RESULT(sluice_reader_release(ra, &read, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_RESULT(sluice_writer_commit(a, &fa, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_array(&read, NULL, &array), SLUICE_E_STALE);
    memset(read.opaque, 0xff, sizeof read.opaque);
    CHECK_RESULT(sluice_reader_release(ra, &read, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_array(&read, NULL, &array), SLUICE_E_STALE);
    CHECK_OK(sluice_writer_begin(a, 0, &fa));
    struct sluice_frame forged = fa;
    forged.opaque[1]++;
    CHECK_RESULT(sluice_writer_commit(a, &forged, SLUICE_ON_CPU), SLUICE_E_STALE);
    forged = fa;
    forged.opaque[2] = 1000000;
    CHECK_RESULT(sluice_writer_commit(a, &forged, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_array(&forged, NULL, &array), SLUICE_E_STALE);
    CHECK_OK(sluice_writer_cancel(a, &fa, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&ra));
    CHECK_OK(sluice_reader_close(&rb));
    CHECK_OK(sluice_writer_close(&a));
    CHECK_OK(sluice_writer_close(&b));
}

TEST(handles_of_another_kind_are_refused)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_writer_stats ws = { .size = sizeof ws };
    struct sluice_reader_stats rs = { .size = sizeof rs };
    sluice_writer *odd[] = { (sluice_writer *)(void *)reader, (sluice_writer *)(uintptr_t)1,
                             (sluice_writer *)(uintptr_t)0xdeadbeefdead, (sluice_writer *)(uintptr_t)-1,
                             (sluice_writer *)(void *)&ws };

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        CHECK_RESULT(sluice_writer_stats(odd[i], &ws), SLUICE_E_HANDLE);
        sluice_writer *copy = odd[i];
        CHECK_RESULT(sluice_writer_close(&copy), SLUICE_E_HANDLE);
    }
    CHECK_RESULT(sluice_reader_stats((sluice_reader *)(void *)writer, &rs), SLUICE_E_HANDLE);
    CHECK_RESULT(sluice_reader_fd((sluice_reader *)(void *)writer), SLUICE_E_HANDLE);
    CHECK_RESULT(sluice_registry_watch_next((sluice_watch *)(void *)writer, 0), SLUICE_E_HANDLE);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- streams ---- */

TEST(a_forgotten_stream_publishes_nothing)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_stream none = { 0 }, stream, old;
    struct sluice_device device;
    struct sluice_frame frame;
    static char data[4 * KIB];
    struct sluice_array array = wrap(data, sizeof data);

    CHECK_OK(sluice_device_open(&device, "host"));
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    kit_fill(&frame, 1);
    CHECK_RESULT(sluice_writer_commit(writer, &frame, none), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_cancel(writer, &frame, none), SLUICE_E_INVALID);
    CHECK_EQ(kit_writer_stats(writer).committed, 0);
    CHECK_OK(sluice_writer_commit(writer, &frame, stream)); /* it stayed begun */
    CHECK_RESULT(sluice_reader_acquire(reader, none, SLUICE_S, &frame), SLUICE_E_INVALID);
    CHECK_OK(sluice_reader_acquire(reader, stream, SLUICE_S, &frame));
    CHECK_RESULT(sluice_reader_release(reader, &frame, none), SLUICE_E_INVALID);
    CHECK_EQ(kit_reader_stats(reader).held, 1);
    CHECK_RESULT(sluice_reader_fetch(reader, &frame, &array, 1, none, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    CHECK_RESULT(sluice_writer_send(writer, &array, 1, none, NULL), SLUICE_E_INVALID);

    old = stream;
    CHECK_OK(sluice_stream_destroy(&stream));
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    CHECK_RESULT(sluice_writer_commit(writer, &frame, old), SLUICE_E_STALE);
    kit_fill(&frame, 2);
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    CHECK_RESULT(sluice_reader_acquire(reader, old, SLUICE_S, &frame), SLUICE_E_STALE);
    CHECK_RESULT(sluice_reader_acquire(reader, (struct sluice_stream){ 0xabcdef }, 0, &frame), SLUICE_E_HANDLE);
    CHECK_EQ(kit_writer_stats(writer).committed, 2);
    CHECK_OK(sluice_device_close(&device));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- nothing ---- */

TEST(nothing_where_something_belongs_is_an_answer)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params wp = kit_writer_params("cam2", &format);
    struct sluice_reader_params rp = kit_reader_params("cam");
    struct sluice_stream cpu = SLUICE_ON_CPU;
    struct sluice_frame frame;
    struct sluice_array array;
    sluice_writer *no_writer = NULL;
    sluice_reader *no_reader = NULL;
    sluice_watch *watch = NULL;
    size_t count;

    CHECK_RESULT(sluice_writer_open(NULL, &wp), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_open(&no_writer, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_open(NULL, &rp), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_open(&no_reader, NULL), SLUICE_E_INVALID);
    wp.format = NULL;
    CHECK_SAYS(sluice_writer_open(&no_writer, &wp), SLUICE_E_INVALID, "no format");
    CHECK_RESULT(sluice_writer_begin(NULL, 0, &frame), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_begin(writer, 0, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_commit(NULL, &frame, cpu), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_commit(writer, NULL, cpu), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_cancel(NULL, &frame, cpu), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_cancel(writer, NULL, cpu), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_send(NULL, &array, 1, cpu, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_send(writer, NULL, 1, cpu, NULL), SLUICE_E_FORMAT);
    CHECK_RESULT(sluice_writer_send(writer, &array, 0, cpu, NULL), SLUICE_E_FORMAT);
    CHECK_RESULT(sluice_writer_reformat(NULL, &format), SLUICE_E_INVALID);
    CHECK(sluice_writer_reformat(writer, NULL) < 0);
    CHECK_RESULT(sluice_writer_format(NULL, &format), SLUICE_E_INVALID);
    CHECK(sluice_writer_format(writer, NULL) < 0);
    CHECK_RESULT(sluice_writer_stats(NULL, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_stats(writer, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_writer_close(NULL));
    CHECK_OK(sluice_writer_close(&no_writer));

    kit_commits(writer, 1);
    CHECK_RESULT(sluice_reader_acquire(NULL, cpu, 0, &frame), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_acquire(reader, cpu, 0, NULL), SLUICE_E_INVALID);
    frame = kit_take(reader);
    CHECK_RESULT(sluice_reader_release(NULL, &frame, cpu), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_release(reader, NULL, cpu), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_fetch(reader, NULL, &array, 1, cpu, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_fetch(reader, &frame, NULL, 1, cpu, NULL), SLUICE_E_FORMAT);
    CHECK(sluice_reader_fetch(NULL, &frame, &array, 1, cpu, NULL) < 0);
    CHECK_RESULT(sluice_reader_format(NULL, &format), SLUICE_E_INVALID);
    CHECK(sluice_reader_format(reader, NULL) < 0);
    CHECK_RESULT(sluice_reader_fd(NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_stats(NULL, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_stats(reader, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_reader_close(NULL));
    CHECK_OK(sluice_reader_close(&no_reader));

    CHECK_RESULT(sluice_frame_array(NULL, NULL, &array), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_array(&frame, NULL, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_array_at(NULL, 0, &array), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_array_at(&frame, 0, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_array_at(&frame, 1, &array), SLUICE_E_NOT_FOUND);
    CHECK_RESULT(sluice_frame_reshape(NULL, NULL, 0, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_resize(NULL, NULL, 0, 0), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_inherit(NULL, &frame), SLUICE_E_INVALID);
    CHECK(sluice_frame_inherit(&frame, NULL) < 0);
    kit_give(reader, &frame);
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    CHECK_RESULT(sluice_frame_inherit(&frame, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_frame_reshape(&frame, NULL, 1, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_writer_cancel(writer, &frame, cpu));

    CHECK_RESULT(sluice_registry_list(NULL, NULL, 0, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_registry_list(NULL, NULL, 0, &count));
    CHECK_RESULT(sluice_registry_watch_open(NULL, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_registry_watch_fd(NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_registry_watch_next(NULL, 0), SLUICE_E_INVALID);
    CHECK_OK(sluice_registry_watch_close(NULL));
    CHECK_OK(sluice_registry_watch_close(&watch));
    CHECK_RESULT(sluice_channel_info("cam", SLUICE_DEFAULT, NULL, NULL, 0), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_ticket_wait((struct sluice_ticket){ 0 }, 0), SLUICE_E_HANDLE);
    CHECK_RESULT(sluice_ticket_wait((struct sluice_ticket){ 99 }, 0), SLUICE_E_HANDLE);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- older and newer programs ---- */

struct newer_params {
    struct sluice_writer_params now;
    uint64_t future[4];
};

TEST(parameters_of_other_releases)
{
    struct sluice_format format = kit_format(4 * KIB);
    struct newer_params newer = { .now = kit_writer_params("cam", &format) };
    sluice_writer *writer = NULL;

    test_dir();
    newer.now.size = 0;
    CHECK_SAYS(sluice_writer_open(&writer, &newer.now), SLUICE_E_INVALID, "size of 0 bytes");
    newer.now.size = 12;
    CHECK_SAYS(sluice_writer_open(&writer, &newer.now), SLUICE_E_INVALID, "size of 12 bytes");
    newer.now.size = 1000000;
    CHECK_SAYS(sluice_writer_open(&writer, &newer.now), SLUICE_E_INVALID, "size of 1000000 bytes");
    newer.now.size = sizeof newer;
    newer.future[2] = 1;
    CHECK_SAYS(sluice_writer_open(&writer, &newer.now), SLUICE_E_UNSUPPORTED, "does not have");
    newer.future[2] = 0;
    CHECK_OK(sluice_writer_open(&writer, &newer.now));

    /* An older program knows fewer fields: what lies behind its struct is not looked at. */
    struct sluice_reader_params params = kit_reader_params("cam");
    sluice_reader *reader = NULL;
    params.size = 0;
    CHECK_RESULT(sluice_reader_open(&reader, &params), SLUICE_E_INVALID);
    params.size = offsetof(struct sluice_reader_params, every);
    params.every = 99;
    params.writable = 7;
    CHECK_OK(sluice_reader_open(&reader, &params));
    kit_commits(writer, 1);
    struct sluice_frame frame = kit_take(reader);
    kit_give(reader, &frame);
    kit_commits(writer, 1);
    frame = kit_take(reader); /* each one */
    kit_give(reader, &frame);

    struct { struct sluice_writer_stats now; uint64_t future[2]; } stats = { .future = { 5, 6 } };
    CHECK_RESULT(sluice_writer_stats(writer, &stats.now), SLUICE_E_INVALID);
    stats.now.size = sizeof stats;
    CHECK_OK(sluice_writer_stats(writer, &stats.now));
    CHECK_EQ(stats.now.committed, 2);
    CHECK_EQ(stats.now.size, sizeof stats);
    CHECK_EQ(stats.future[0], 5);
    memset(&stats, 0xee, sizeof stats);
    stats.now.size = offsetof(struct sluice_writer_stats, bytes);
    CHECK_OK(sluice_writer_stats(writer, &stats.now));
    CHECK_EQ(stats.now.stolen, 0);
    CHECK_EQ(stats.now.bytes, 0xeeeeeeeeeeeeeeee);
    struct sluice_reader_stats reader_stats = { .size = 0 };
    CHECK_RESULT(sluice_reader_stats(reader, &reader_stats), SLUICE_E_INVALID);
    struct sluice_channel_info info = { .size = 0 };
    CHECK_RESULT(sluice_channel_info("cam", SLUICE_DEFAULT, &info, NULL, 0), SLUICE_E_INVALID);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(parameters_that_make_no_sense)
{
    struct sluice_format format = kit_format(4 * KIB);
    sluice_writer *writer = NULL;
    sluice_reader *reader = NULL;

    test_dir();
    for (int i = 0; i < 13; i++) {
        struct sluice_writer_params params = kit_writer_params("cam", &format);
        int expected = SLUICE_E_INVALID;
        switch (i) {
        case 0: params.policy = 2; break;
        case 1: params.slots = 2; break;
        case 2: params.slots = 65; break;
        case 3: params.slots = 8; params.max_slots = 7; break;
        case 4: params.max_slots = 65; break;
        case 5: params.max_slots = 2; break;
        case 6: params.readers = 65; break;
        case 7: params.wait_ns = -1; break;
        case 8: params.lease_timeout_ns = -1; break;
        case 9: params.writable = 2; break;
        case 10: params.gid_count = 1; break;
        case 11: params.device = "cuda:0"; expected = SLUICE_E_UNSUPPORTED; break;
        case 12: params.device = "nonsense"; expected = SLUICE_E_UNSUPPORTED; break;
        }
        CHECK_RESULT(sluice_writer_open(&writer, &params), expected);
        CHECK(strlen(sluice_last_error()) > 10);
    }
    writer = kit_writer("cam", 4 * KIB);
    for (int i = 0; i < 8; i++) {
        struct sluice_reader_params params = kit_reader_params("cam");
        int expected = SLUICE_E_INVALID;
        switch (i) {
        case 0: params.mode = 2; break;
        case 1: params.hold = 65; expected = SLUICE_E_LIMIT; break;
        case 2: params.writable = 2; break;
        case 3: params.open_timeout_ns = -2; break;
        case 4: params.spin_ns = -2; break;
        case 5: params.uid_count = 1; break;
        case 6: params.device = "cuda:0"; expected = SLUICE_E_UNSUPPORTED; break;
        case 7: params.device = ""; expected = SLUICE_E_UNSUPPORTED; break;
        }
        CHECK_RESULT(sluice_reader_open(&reader, &params), expected);
        CHECK(strlen(sluice_last_error()) > 10);
    }
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- exhausted ---- */

TEST(out_of_descriptors_is_said_and_leaks_none)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB), *other = NULL;
    struct sluice_format format = kit_format(4 * KIB);
    struct sluice_writer_params wp = kit_writer_params("other", &format);
    struct sluice_reader_params rp = kit_reader_params("cam");
    sluice_reader *reader = NULL;
    struct rlimit before, less;
    int used = kit_descriptors(getpid()), writers = 0, readers = 0;

    getrlimit(RLIMIT_NOFILE, &before);
    for (rlim_t room = 0; room < 24; room++) {
        less = before;
        less.rlim_cur = (rlim_t)used - 1 + room; /* of those that are open, one read the folder */
        setrlimit(RLIMIT_NOFILE, &less);
        int w = sluice_writer_open(&other, &wp);
        if (w == 0)
            CHECK_OK(sluice_writer_close(&other));
        else
            CHECK_SAYS(w, SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
        int r = sluice_reader_open(&reader, &rp);
        if (r == 0)
            CHECK_OK(sluice_reader_close(&reader));
        else /* the writer lives in this process and lacks them too: it hangs up */
            CHECK(r == SLUICE_E_NO_DESCRIPTORS || r == SLUICE_TIMEOUT || r == SLUICE_E_NOT_FOUND);
        writers += w == 0;
        readers += r == 0;
        setrlimit(RLIMIT_NOFILE, &before);
        CHECK_SOON(kit_descriptors(getpid()) == used, 3);
    }
    CHECK(writers > 0 && writers < 24);
    CHECK(readers > 0 && readers < 24);
    kit_commits(writer, 1);
    reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_frame frame = kit_take(reader);
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(out_of_memory_is_said_with_how_much_was_asked)
{
    struct sluice_format format = kit_format(INT64_C(1) << 42);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    sluice_writer *writer = NULL;
    int fds = kit_descriptors(getpid());

    test_dir();
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_NO_MEMORY, "bytes were asked for");
    format = kit_format(INT64_C(1) << 45);
    params.slots = params.max_slots = 64;
    CHECK(sluice_writer_open(&writer, &params) < 0);
    CHECK_EQ(kit_descriptors(getpid()), fds);
    format = kit_format(4 * KIB);
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- two threads ---- */

static void *wait_for_a_frame(void *context)
{
    struct sluice_frame frame;
    CHECK_RESULT(sluice_reader_acquire(context, SLUICE_ON_CPU, 300 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
    return NULL;
}

TEST(two_threads_in_one_reader_are_found_in_debug_builds)
{
#ifdef NDEBUG
    SKIP("this is a release build");
#endif
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    sluice_reader *reader = kit_reader("cam", SLUICE_NEWEST);
    struct sluice_frame frame;
    pthread_t thread;
    int r;

    CHECK_EQ(pthread_create(&thread, NULL, wait_for_a_frame, reader), 0);
    int64_t until = test_now() + 250 * SLUICE_MS;
    while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame)) == SLUICE_TIMEOUT && test_now() < until)
        test_nap(SLUICE_MS);
    CHECK_SAYS(r, SLUICE_E_BUSY, "two threads");
    pthread_join(thread, NULL);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- forked children ---- */

struct all {
    sluice_writer *writer;
    sluice_reader *reader;
    sluice_watch *watch;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_event event;
    struct sluice_frame begun, held;
};

static void check_all_forked(struct all *all)
{
    struct sluice_format format = { .size = sizeof format };
    struct sluice_writer_stats ws = { .size = sizeof ws };
    struct sluice_reader_stats rs = { .size = sizeof rs };
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_writer_params wp = kit_writer_params("cam", &format);
    struct sluice_reader_params rp = kit_reader_params("cam");
    struct sluice_registry_entry entry;
    struct sluice_frame frame;
    struct sluice_array array;
    sluice_writer *writer;
    sluice_reader *reader;
    sluice_watch *watch;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_event event;
    double ms;
    size_t count;

#define FORKED(call) CHECK_RESULT(call, SLUICE_E_FORKED)
    FORKED(sluice_writer_begin(all->writer, 0, &frame));
    FORKED(sluice_writer_commit(all->writer, &all->begun, SLUICE_ON_CPU));
    FORKED(sluice_writer_cancel(all->writer, &all->begun, SLUICE_ON_CPU));
    FORKED(sluice_writer_send(all->writer, &array, 1, SLUICE_ON_CPU, NULL));
    FORKED(sluice_writer_reformat(all->writer, &format));
    FORKED(sluice_writer_format(all->writer, &format));
    FORKED(sluice_writer_stats(all->writer, &ws));
    FORKED(sluice_reader_acquire(all->reader, SLUICE_ON_CPU, 0, &frame));
    FORKED(sluice_reader_release(all->reader, &all->held, SLUICE_ON_CPU));
    FORKED(sluice_reader_fetch(all->reader, &all->held, &array, 1, SLUICE_ON_CPU, NULL));
    FORKED(sluice_reader_format(all->reader, &format));
    FORKED(sluice_reader_fd(all->reader));
    FORKED(sluice_reader_stats(all->reader, &rs));
    FORKED(sluice_frame_array(&all->held, NULL, &array));
    FORKED(sluice_frame_array_at(&all->begun, 0, &array));
    FORKED(sluice_frame_reshape(&all->begun, NULL, 1, &(int64_t){ 1 }));
    FORKED(sluice_frame_resize(&all->begun, NULL, 1, 1));
    FORKED(sluice_frame_inherit(&all->begun, &all->held));
    FORKED(sluice_writer_open(&writer, &wp));
    FORKED(sluice_reader_open(&reader, &rp));
    FORKED(sluice_channel_info("cam", 0, &info, NULL, 0));
    FORKED(sluice_registry_list(NULL, &entry, 1, &count));
    FORKED(sluice_registry_watch_open(&watch, NULL));
    FORKED(sluice_registry_watch_next(all->watch, 0));
    FORKED(sluice_registry_watch_fd(all->watch));
    FORKED(sluice_device_open(&device, "host"));
    FORKED(sluice_device_synchronize(all->device));
    FORKED(sluice_stream_create(all->device, NULL, &stream));
    FORKED(sluice_stream_query(all->stream));
    FORKED(sluice_stream_wait_stream(all->stream, all->stream));
    FORKED(sluice_event_create(all->device, 0, &event));
    FORKED(sluice_event_record(all->event, all->stream));
    FORKED(sluice_event_elapsed(all->event, all->event, &ms));
    /* The ends clear the handle, so that clean-up code of the child is done with it. */
    FORKED(sluice_writer_close(&all->writer));
    FORKED(sluice_reader_close(&all->reader));
    FORKED(sluice_registry_watch_close(&all->watch));
    CHECK(!all->writer && !all->reader && !all->watch);
    CHECK_OK(sluice_writer_close(&all->writer));
    CHECK_HAS(sluice_last_error(), "fork");
}

static struct all open_all(void)
{
    struct all all = { .writer = kit_writer("cam", 4 * KIB) };

    all.reader = kit_reader("cam", SLUICE_IN_ORDER);
    kit_commits(all.writer, 1);
    CHECK_OK(sluice_registry_watch_open(&all.watch, NULL));
    CHECK_OK(sluice_device_open(&all.device, "host"));
    CHECK_OK(sluice_stream_create(all.device, NULL, &all.stream));
    CHECK_OK(sluice_event_create(all.device, SLUICE_EVENT_TIMING, &all.event));
    CHECK_OK(sluice_event_record(all.event, all.stream));
    all.held = kit_take(all.reader);
    CHECK_OK(sluice_writer_begin(all.writer, 0, &all.begun));
    return all;
}

/* The parent goes on as if nothing had been, and other processes too. */
static void check_undisturbed(struct all *all, struct child *other)
{
    struct sluice_frame frame;

    kit_fill(&all->begun, 2);
    CHECK_OK(sluice_writer_commit(all->writer, &all->begun, SLUICE_ON_CPU));
    kit_give(all->reader, &all->held);
    frame = kit_take(all->reader);
    CHECK_EQ(frame.sequence, 2);
    kit_give(all->reader, &frame);
    TELL(other, "take 1000", "took 2 ");
    kit_commits(all->writer, 30);
    CHECK_EQ(kit_writer_stats(all->writer).readers, 2);
    CHECK_OK(sluice_registry_watch_close(&all->watch));
    CHECK_OK(sluice_device_close(&all->device));
    CHECK_OK(sluice_reader_close(&all->reader));
    CHECK_OK(sluice_writer_close(&all->writer));
    TELL(other, "take 1000", "took 32 ");
    TELL(other, "take 1000", "CLOSED");
    role_stop(other);
}

static void check_child(pid_t pid)
{
    int status = -1;
    CHECK(pid > 0);
    while (waitpid(pid, &status, 0) < 0)
        ;
    CHECK_EQ(status, 0);
}

TEST(a_forked_child_is_told_and_its_parent_undisturbed)
{
    struct all all = open_all();
    struct child other = kit_start("reader", NULL);

    child_expect(&other, "open", 5);
    pid_t pid = fork();
    if (pid == 0) {
        check_all_forked(&all);
        _exit(0);
    }
    check_child(pid);
    check_undisturbed(&all, &other);
}

TEST(a_child_by_raw_clone_is_told_too)
{
    struct all all = open_all();
    struct child other = kit_start("reader", NULL);

    child_expect(&other, "open", 5);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        check_all_forked(&all);
        _exit(0);
    }
    check_child(pid);
    check_undisturbed(&all, &other);
}

/* fork and exec, as system() and subprocess do, is no fork without exec. */
TEST(a_child_that_execs_uses_sluice_as_anybody)
{
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    char command[8192];

    kit_commits(writer, 1);
    snprintf(command, sizeof command, "echo 'take 1000' | '%s' --role kit_roles.reader name=cam | grep -q 'took 1 '",
             test_program());
    CHECK_EQ(system(command), 0);
    CHECK_OK(sluice_writer_close(&writer));
}
