/* SPDX-License-Identifier: MIT
 *
 * Frames taken ahead that never become ready: streams that wait for them are released, and what is made from them is
 * not published.
 */
#include "gpu/channel.h"

#define DEADLINE ((int64_t)(SLUICE_S * test_slowness())) /* for streams that wait for a lost frame */

TEST(no_stream_waits_beyond_its_deadline)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = channel_reader_ahead(2, DEADLINE);
    struct sluice_frame frame;

    channel_greet(&fixture, reader);
    /* Reported by release, which comes after the loss. */
    channel_commit_behind(&gate, fixture.writer, fixture.writing, 1);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_stream_synchronize(fixture.reading)); /* though the gate is closed */
    uint64_t sequence = frame.sequence;
    CHECK_SAYS(sluice_reader_release(reader, &frame, fixture.reading), SLUICE_E_LOST, "did not finish");
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));

    /* Reported by the next acquire, as the release was queued before the loss. */
    channel_commit_behind(&gate, fixture.writer, fixture.writing, 2);
    int r = sluice_reader_acquire(reader, fixture.reading, 0, &frame);
    if (r == 0 && frame.flags & SLUICE_FRAME_AHEAD) { /* in another slot: the one before is not waited for again */
        r = sluice_reader_release(reader, &frame, fixture.reading);
        CHECK_OK(sluice_stream_synchronize(fixture.reading));
        if (r == 0)
            r = sluice_reader_acquire(reader, fixture.reading, 0, &frame);
        CHECK_SAYS(r, SLUICE_E_LOST, "did not finish"); /* by release, if a suspended machine let the deadline pass */
    } else {
        CHECK_EQ(r, SLUICE_TIMEOUT);
    }
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    channel_commit(fixture.writer, fixture.writing, 0, 3);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
    CHECK_GE(frame.sequence, sequence + 2);
    channel_check(&frame, fixture.reading, 3);
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
    struct sluice_reader_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_reader_stats(reader, &stats));
    CHECK_GE(stats.lost, 1);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

TEST(what_is_made_of_a_lost_frame_is_not_published)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = channel_reader_ahead(2, 20 * SLUICE_S);
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    struct sluice_frame in, out;
    sluice_writer *second;

    params.name = "next";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&second, &params));
    channel_greet(&fixture, reader);

    /* Whole: commit waits for what its stream waits for. */
    CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out));
    channel_commit_behind(&gate, fixture.writer, fixture.writing, 1);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &in));
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_writer_commit(second, &out, fixture.reading));
    gpu_gate_join(&gate);
    CHECK_OK(sluice_reader_release(reader, &in, fixture.reading));
    CHECK_OK(sluice_stream_synchronize(fixture.reading));

    CHECK_OK(sluice_reader_close(&reader));
    struct sluice_writer_stats stats = { .size = sizeof stats };
    CHECK_SOON((sluice_writer_stats(fixture.writer, &stats), stats.readers == 0), 20);
    reader = channel_reader_ahead(2, DEADLINE);
    channel_greet(&fixture, reader);
    gpu_settle(); /* the first reader's resources are freed before the gate is closed: the driver waits for the gate to
                     free them, and begin waits for the driver */
    CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out));
    channel_commit_behind(&gate, fixture.writer, fixture.writing, 2);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &in));
    CHECK(in.flags & SLUICE_FRAME_AHEAD);
    CHECK_SAYS(sluice_writer_commit(second, &out, fixture.reading), SLUICE_E_LOST, "not whole");
    CHECK_OK(sluice_writer_cancel(second, &out, fixture.reading));
    CHECK_RESULT(sluice_reader_release(reader, &in, fixture.reading), SLUICE_E_LOST);
    CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out)); /* reported once; then it goes on */
    CHECK_OK(sluice_writer_commit(second, &out, fixture.reading));
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_writer_close(&second));
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

/* How work on `behind` is ordered after `first`. */
enum way { BY_STREAM, BY_EVENT, BY_THREE, BY_DEFAULT, BY_LAUNCH, BY_NAME, WAYS };

static struct sluice_stream put_behind(struct channel_fixture *fixture, enum way way, struct sluice_stream streams[3],
                                       struct sluice_event event)
{
    struct sluice_stream stream;
    uintptr_t native;

    switch (way) {
    case BY_STREAM: CHECK_OK(sluice_stream_wait_stream(streams[0], fixture->reading)); return streams[0];
    case BY_EVENT:
        CHECK_OK(sluice_event_record(event, fixture->reading));
        CHECK_OK(sluice_stream_wait_event(streams[0], event));
        return streams[0];
    case BY_THREE:
        for (int i = 0; i < 3; i++)
            CHECK_OK(sluice_stream_wait_stream(streams[i], i ? streams[i - 1] : fixture->reading));
        return streams[2];
    case BY_DEFAULT: /* streams[0] is blocking, and so is the default stream */
        CHECK_OK(sluice_stream_default(fixture->device, &stream));
        CHECK_OK(sluice_stream_wait_stream(stream, fixture->reading));
        return streams[0];
    case BY_LAUNCH: /* the program's own work on the default stream is between two blocking streams, which Sluice does
                       not see */
        CU(MemsetD8Async, gpu_memory(8), 0, 8, NULL);
        return streams[0];
    default:
        CHECK_OK(sluice_stream_native(fixture->reading, &native));
        CHECK_OK(sluice_stream_wrap(fixture->device, native, NULL, NULL, &stream));
        return stream;
    }
}

/* A late frame: `stream` publishes once it is whole. Then a frame that is lost: what is made from it on `stream` is not
 * published. */
static void check_way(enum way way)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = channel_reader_ahead(2, DEADLINE);
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    struct sluice_stream_params blocking = { .size = sizeof blocking,
                                             .blocking = way == BY_DEFAULT || way == BY_LAUNCH };
    struct sluice_stream streams[3], behind, apart, reading = fixture.reading;
    struct sluice_event event;
    struct sluice_frame in, out;
    sluice_writer *second;

    params.name = "next";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&second, &params));
    for (int i = 0; i < 3; i++)
        CHECK_OK(sluice_stream_create(fixture.device, &blocking, &streams[i]));
    if (way == BY_LAUNCH)
        reading = streams[1];
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &apart));
    CHECK_OK(sluice_event_create(fixture.device, 0, &event));
    channel_greet(&fixture, reader);

    channel_commit_behind(&gate, fixture.writer, fixture.writing, 1);
    CHECK_OK(sluice_reader_acquire(reader, reading, 20 * SLUICE_S, &in));
    CHECK(in.flags & SLUICE_FRAME_AHEAD);
    behind = put_behind(&fixture, way, streams, event);
    CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out)); /* a stream that waits for nothing is not held up */
    CHECK_OK(sluice_event_record(event, apart));                /* nor is one that waits for the event's newer record */
    CHECK_OK(sluice_stream_wait_event(apart, event));
    CHECK_OK(sluice_writer_commit(second, &out, apart)); /* though the gate stays closed beyond the deadline */
    CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out));
    CHECK_SAYS(sluice_writer_commit(second, &out, behind), SLUICE_E_LOST, "not whole");
    CHECK_OK(sluice_writer_cancel(second, &out, behind));
    CHECK_RESULT(sluice_reader_release(reader, &in, reading), SLUICE_E_LOST);
    CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out)); /* reported once; then it goes on */
    CHECK_OK(sluice_writer_commit(second, &out, behind));
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    CHECK_OK(sluice_stream_synchronize(behind));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_writer_close(&second));
    CHECK_OK(sluice_reader_close(&reader));
    if (way == BY_NAME)
        CHECK_OK(sluice_stream_destroy(&behind));
    CHECK_OK(sluice_event_destroy(&event));
    CHECK_OK(sluice_stream_destroy(&apart));
    for (int i = 0; i < 3; i++)
        CHECK_OK(sluice_stream_destroy(&streams[i]));
    channel_end(&fixture);
}

TEST_TIMEOUT(what_a_dependent_stream_makes_of_a_lost_frame_is_not_published, 60)
{
    for (enum way way = 0; way < WAYS; way++)
        check_way(way);
}

static bool is_told(sluice_writer *writer)
{
    struct sluice_frame frame;
    int r = sluice_writer_begin(writer, 0, &frame);

    if (r == 0)
        CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
    return r == SLUICE_E_DRIVER;
}

/* Commits two frames, the second one when the reader is there. */
static sluice_writer *first_frames(struct sluice_stream *stream)
{
    gpu_begin();
    gpu_use(0);
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, stream));
    sluice_writer *writer = channel_writer();
    channel_commit(writer, *stream, 0, 1);
    role_say("open");
    role_line();
    gpu_settle();
    channel_commit(writer, *stream, 0, 2);
    return writer;
}

/* A writer that commits a frame which never becomes ready, and waits to be killed. */
ROLE(stuck_writer)
{
    struct sluice_stream stream;
    sluice_writer *writer = first_frames(&stream);

    channel_commit(writer, stream, 60 * SLUICE_S, 3);
    role_say("stuck");
    role_line();
    return 0;
}

/* A writer whose kernel crashes once it may run. */
ROLE(crashing_writer)
{
    struct sluice_stream stream;
    struct sluice_frame frame;
    sluice_writer *writer = first_frames(&stream);
    struct gpu_gate gate = gpu_gate_new();

    gpu_store(gpu_native(stream), gpu_memory(8), 1); /* the first launch may wait for others */
    CHECK_OK(sluice_stream_synchronize(stream));
    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
    gpu_gate_close(&gate, gpu_native(stream));
    gpu_store(gpu_native(stream), 0x10, 1);
    CHECK_OK(sluice_writer_commit(writer, &frame, stream));
    role_say("stuck");
    role_line();
    gpu_gate_open(&gate);
    CHECK_SOON(is_told(writer), 20);
    role_say("reported");
    role_line();
    return 0;
}

/* A reader whose stream waits for a frame that is never ready, of a writer in another process. */
struct parked {
    struct sluice_device device;
    struct sluice_stream stream;
    struct child writer;
    sluice_reader *reader;
    struct sluice_frame frame;
};

static struct parked park(const char *writer, int64_t ahead_ns)
{
    struct parked parked;

    gpu_begin();
    gpu_use(0);
    test_dir();
    parked.device = gpu_open();
    CHECK_OK(sluice_stream_create(parked.device, NULL, &parked.stream));
    parked.writer = role_start(writer, NULL);
    child_expect(&parked.writer, "open", 20);
    parked.reader = channel_reader_ahead(2, ahead_ns);
    CHECK_OK(sluice_reader_acquire(parked.reader, parked.stream, 20 * SLUICE_S, &parked.frame));
    CHECK_OK(sluice_reader_release(parked.reader, &parked.frame, parked.stream));
    child_send(&parked.writer, "go");
    child_expect(&parked.writer, "stuck", 20);
    CHECK_OK(sluice_reader_acquire(parked.reader, parked.stream, 20 * SLUICE_S, &parked.frame));
    CHECK_EQ(parked.frame.sequence, 3);
    CHECK(parked.frame.flags & SLUICE_FRAME_AHEAD);
    return parked;
}

TEST_TIMEOUT(a_killed_writer_frees_the_streams_that_wait_for_it, 40)
{
    struct parked parked = park("stuck_writer", 50 * SLUICE_S);

    child_kill(&parked.writer, 9);
    int64_t began = test_now();
    CHECK_OK(sluice_stream_synchronize(parked.stream));
    CHECK_LE(test_now() - began, 20 * SLUICE_S); /* before its deadline */
    CHECK_RESULT(sluice_reader_release(parked.reader, &parked.frame, parked.stream), SLUICE_E_LOST);
    CHECK_OK(sluice_reader_close(&parked.reader));
    CHECK_OK(sluice_device_close(&parked.device));
    gpu_end();
}

/* The writer lives on, and reports its frames as lost itself. */
TEST_TIMEOUT(a_writer_whose_kernel_crashed_frees_the_streams_that_wait_for_it, 60)
{
    struct parked parked = park("crashing_writer", 50 * SLUICE_S);

    int64_t began = test_now();
    child_send(&parked.writer, "crash");
    child_expect(&parked.writer, "reported", 30);
    CHECK_OK(sluice_stream_synchronize(parked.stream));
    CHECK_LE(test_now() - began, 40 * SLUICE_S);
    CHECK_RESULT(sluice_reader_release(parked.reader, &parked.frame, parked.stream), SLUICE_E_LOST);
    CHECK_OK(sluice_reader_close(&parked.reader));
    child_kill(&parked.writer, 9);
    CHECK_OK(sluice_device_close(&parked.device));
    gpu_end();
}

/* close does not hang where the driver waits for such a stream, and the memory is given back. */
static void leave(bool release)
{
    struct parked parked = park("stuck_writer", 1000 * SLUICE_S);

    if (release)
        CHECK_OK(sluice_reader_release(parked.reader, &parked.frame, parked.stream));
    int64_t began = test_now();
    CHECK_OK(sluice_reader_close(&parked.reader));
    CHECK_OK(sluice_stream_synchronize(parked.stream));
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    child_kill(&parked.writer, 9);
    CHECK_OK(sluice_device_close(&parked.device));
    gpu_end();
}

TEST_TIMEOUT(a_reader_that_closes_frees_the_stream_that_waits_for_its_frame, 60)
{
    leave(false);
}

TEST_TIMEOUT(a_reader_that_closes_with_a_queued_release_frees_the_stream, 60)
{
    leave(true);
}
