/* SPDX-License-Identifier: MIT
 *
 * Calls that a program should not make: too late, twice, with others' objects, in two threads at once. Each returns an
 * error with a message, and nothing is lost.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

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

TEST(a_closed_writer_says_so_in_every_call)
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
    CHECK_SAYS(sluice_writer_begin(copy, 0, &frame), SLUICE_E_CLOSED, "closed");
    CHECK_RESULT(sluice_writer_commit(copy, &begun, SLUICE_ON_CPU), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_writer_cancel(copy, &begun, SLUICE_ON_CPU), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_writer_send(copy, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_writer_reformat(copy, &format), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_writer_format(copy, &format), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_writer_stats(copy, &stats), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_frame_array(&begun, NULL, &array), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_array_at(&begun, 0, &array), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_reshape(&begun, NULL, 1, &(int64_t){ 1 }), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_resize(&begun, NULL, 1, 1), SLUICE_E_STALE);
    CHECK_RESULT(sluice_writer_close(&copy), SLUICE_E_CLOSED);
    /* The name is free, and a new writer is not taken for the old one. */
    writer = kit_writer("cam", 4 * KIB);
    CHECK_RESULT(sluice_writer_begin(copy, 0, &frame), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_writer_commit(writer, &begun, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_closed_reader_says_so_in_every_call)
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
    CHECK_OK(sluice_reader_close(&reader)); /* with a frame that it holds */
    CHECK(reader == NULL);
    CHECK_OK(sluice_reader_close(&reader));
    array = wrap(data, sizeof data);
    CHECK_SAYS(sluice_reader_acquire(copy, SLUICE_ON_CPU, 0, &other), SLUICE_E_CLOSED, "closed");
    CHECK_RESULT(sluice_reader_release(copy, &frame, SLUICE_ON_CPU), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_reader_fetch(copy, &frame, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_reader_format(copy, &format), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_reader_fd(copy), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_reader_stats(copy, &stats), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_frame_array(&frame, NULL, &array), SLUICE_E_STALE);
    CHECK_RESULT(sluice_frame_inherit(&frame, &frame), SLUICE_E_STALE);
    CHECK_RESULT(sluice_reader_close(&copy), SLUICE_E_CLOSED);
    /* Its lease ends with it. */
    CHECK_SOON(kit_writer_stats(writer).readers == 0, 2);
    kit_commits(writer, 20);
    CHECK_EQ(kit_writer_stats(writer).slots, 4);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_closed_watch_says_so)
{
    sluice_watch *watch, *copy;

    test_dir();
    CHECK_OK(sluice_registry_watch_open(&watch, NULL));
    copy = watch;
    CHECK_OK(sluice_registry_watch_close(&watch));
    CHECK_RESULT(sluice_registry_watch_next(copy, 0), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_registry_watch_fd(copy), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_registry_watch_close(&copy), SLUICE_E_CLOSED);
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
    frame = kit_take(reader); /* the same entry in the reader, another frame */
    CHECK_RESULT(sluice_reader_release(reader, &copy, SLUICE_ON_CPU), SLUICE_E_STALE);
    CHECK_EQ(kit_reader_stats(reader).held, 1);
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* Two threads with a copy each of every frame; both release it at the same moment. */
struct race {
    sluice_reader *reader;
    struct sluice_frame frame; /* the other thread's */
    int result;
    atomic_long round, done;
    bool over; /* there is none in this round */
};

/* With a limit: the other thread may need this core. */
static void spin_until(const atomic_long *word, long value)
{
    for (long i = 1; atomic_load(word) < value; i++)
        if (i % 10000 == 0)
            sched_yield();
}

static void *race_release(void *context)
{
    struct race *race = context;

    for (long round = 1;; round++) {
        spin_until(&race->round, round);
        if (race->over)
            return NULL;
        race->result = sluice_reader_release(race->reader, &race->frame, SLUICE_ON_CPU);
        atomic_store(&race->done, round);
    }
}

TEST(of_two_threads_that_release_at_once_one_succeeds)
{
    sluice_writer *writer = kit_writer("cam", 64);
    struct race race = { .reader = kit_reader("cam", SLUICE_NEWEST), .round = 0 };
    int64_t until = test_now() + 8 * SLUICE_S; /* where each must wait for a CPU there are fewer rounds */
    long round, most = test_scale(20000);
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, race_release, &race), 0);
    for (round = 1; round <= most && (round <= 100 || test_now() < until); round++) {
        kit_commits(writer, 1);
        struct sluice_frame frame = kit_take(race.reader);
        race.frame = frame;
        atomic_store(&race.round, round);
        int result = sluice_reader_release(race.reader, &frame, SLUICE_ON_CPU);
        spin_until(&race.done, round);
        CHECK_EQ(result + race.result, SLUICE_E_STALE);
        CHECK(result == 0 || race.result == 0);
        CHECK_EQ(kit_reader_stats(race.reader).held, 0);
    }
    race.over = true;
    atomic_store(&race.round, round);
    pthread_join(thread, NULL);
    CHECK_EQ(kit_writer_stats(writer).slots, 4);
    CHECK_OK(sluice_reader_close(&race.reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- others' objects ---- */

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
    CHECK_OK(sluice_writer_commit(a, &fa, SLUICE_ON_CPU)); /* nothing was lost */
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

    CHECK_OK(sluice_device_open(&device, kit_device() ? kit_device() : "host"));
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    kit_fill(&frame, 1);
    CHECK_RESULT(sluice_writer_commit(writer, &frame, none), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_writer_cancel(writer, &frame, none), SLUICE_E_INVALID);
    CHECK_EQ(kit_writer_stats(writer).committed, 0);
    CHECK_OK(sluice_writer_commit(writer, &frame, stream)); /* it stayed begun */
    CHECK_RESULT(sluice_reader_acquire(reader, none, SLUICE_S, &frame), SLUICE_E_INVALID);
    CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
    CHECK_RESULT(sluice_reader_release(reader, &frame, none), SLUICE_E_INVALID);
    CHECK_EQ(kit_reader_stats(reader).held, 1);
    CHECK_RESULT(sluice_reader_fetch(reader, &frame, &array, 1, none, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    CHECK_RESULT(sluice_writer_send(writer, &array, 1, none, NULL), SLUICE_E_INVALID);

    old = stream;
    CHECK_OK(sluice_stream_destroy(&stream));
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    CHECK_RESULT(sluice_writer_commit(writer, &frame, old), SLUICE_E_CLOSED);
    kit_fill(&frame, 2);
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    CHECK_RESULT(sluice_reader_acquire(reader, old, SLUICE_S, &frame), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_reader_acquire(reader, (struct sluice_stream){ 0xabcdef }, 0, &frame), SLUICE_E_HANDLE);
    CHECK_EQ(kit_writer_stats(writer).committed, 2);
    CHECK_OK(sluice_device_close(&device));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- two threads ---- */

static void *wait_for_a_frame(void *context)
{
    struct race *race = context;
    race->result = sluice_reader_acquire(race->reader, SLUICE_ON_CPU, 20 * SLUICE_S, &race->frame);
    atomic_store(&race->done, 1);
    return NULL;
}

TEST(two_threads_in_one_reader_are_found_in_debug_builds)
{
#ifdef NDEBUG
    SKIP("this is a release build");
#endif
    sluice_writer *writer = kit_writer("cam", 4 * KIB);
    struct race race = { .reader = kit_reader("cam", SLUICE_NEWEST) };
    struct sluice_frame frame;
    pthread_t thread;
    int r;

    CHECK_EQ(pthread_create(&thread, NULL, wait_for_a_frame, &race), 0);
    while ((r = sluice_reader_acquire(race.reader, SLUICE_ON_CPU, 0, &frame)) == SLUICE_TIMEOUT &&
           !atomic_load(&race.done))
        test_nap(SLUICE_MS);
    if (r == SLUICE_E_BUSY)
        CHECK_HAS(sluice_last_error(), "two threads");
    kit_commits(writer, 1); /* ends a wait */
    pthread_join(thread, NULL);
    if (race.result == 0)
        kit_give(race.reader, &race.frame);
    /* One of the two gets E_BUSY: mostly this thread, but the other one if it called while this one was inside. */
    CHECK(r == SLUICE_E_BUSY || race.result == SLUICE_E_BUSY);
    CHECK_OK(sluice_reader_close(&race.reader));
    CHECK_OK(sluice_writer_close(&writer));
}
