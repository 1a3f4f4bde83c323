/* SPDX-License-Identifier: MIT
 *
 * Readers of "cipd:" channels whose streams wait for frames.
 */
#include <stdio.h>

#include "gpu/cipd_kit.h"
#include "gpu/frames.h"

/* A writer, parameters for a reader, and a stream that will wait. */
struct ahead {
    struct cipd_side side;
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params;
    struct sluice_stream reading;
};

static struct ahead begin(void)
{
    struct ahead ahead = { .side = cipd_begin() };

    ahead.params = cipd_reader_params(&ahead.cipd);
    CHECK_OK(sluice_stream_create(ahead.side.device, NULL, &ahead.reading));
    ahead.side.writer = cipd_writer(&ahead.side.format);
    return ahead;
}

TEST(cipd_a_stream_may_wait_for_the_frame)
{
    struct ahead ahead = begin();
    struct cipd_side *side = &ahead.side;
    struct sluice_stream reading = ahead.reading;
    struct sluice_frame frame;
    sluice_reader *reader;

    ahead.params.open_timeout_ns = ahead.cipd.wait_ns = SLUICE_FOREVER; /* the largest values: no sum may overflow */
    ahead.params.ahead = 1;
    ahead.params.ahead_ns = 20 * SLUICE_S;
    ahead.params.cipd = &ahead.cipd;
    CHECK_OK(sluice_reader_open(&reader, &ahead.params));
    uint64_t bad = gpu_memory(8);
    CU(MemsetD8Async, bad, 0, 8, gpu_native(reading));
    struct gpu_gate gate = gpu_gate_new();
    for (uint32_t i = 1; i <= 4; i++) {
        gpu_fill(gpu_native(side->stream), (uintptr_t)side->array.data, cipd_words(&side->format), i);
        gpu_gate_close(&gate, gpu_native(side->stream));
        CHECK_OK(sluice_writer_send(side->writer, &side->array, 1, side->stream, NULL));
        CHECK_OK(sluice_reader_acquire(reader, reading, 0, &frame));
        CHECK(frame.flags & SLUICE_FRAME_AHEAD);
        gpu_compare(gpu_native(reading), channel_words(&frame), cipd_words(&side->format), i, bad);
        CHECK_OK(sluice_reader_release(reader, &frame, reading)); /* its entry is in use until the stream goes on */
        CHECK_RESULT(sluice_stream_query(reading), SLUICE_NOT_READY);
        CHECK_RESULT(sluice_reader_acquire(reader, reading, 0, &frame), SLUICE_E_LIMIT);
        gpu_gate_open(&gate);
        CHECK_OK(sluice_stream_synchronize(reading));
        CHECK_OK(sluice_stream_synchronize(side->stream));
        int r;
        while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame)) == SLUICE_E_LIMIT)
            test_nap(SLUICE_MS);
        CHECK_RESULT(r, SLUICE_TIMEOUT);
    }
    CHECK_EQ(frames_read(gpu_native(reading), bad), 0);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(side);
}

TEST(cipd_a_stream_waits_no_longer_than_asked)
{
    struct ahead ahead = begin();
    struct cipd_side *side = &ahead.side;
    struct sluice_stream reading = ahead.reading;
    struct sluice_frame frame;
    sluice_reader *reader;

    ahead.cipd.ahead = SLUICE_CIPD_ON;
    ahead.params.ahead_ns = 50 * SLUICE_MS;
    ahead.params.hold = 4;
    ahead.params.cipd = &ahead.cipd;
    CHECK_OK(sluice_reader_open(&reader, &ahead.params));
    struct gpu_gate gate = gpu_gate_new();
    gpu_gate_close(&gate, gpu_native(side->stream));
    CHECK_OK(sluice_writer_send(side->writer, &side->array, 1, side->stream, NULL));
    CHECK_OK(sluice_reader_acquire(reader, reading, 0, &frame));
    CHECK(frame.flags & SLUICE_FRAME_AHEAD);
    CHECK_OK(sluice_stream_synchronize(reading));
    CHECK_RESULT(sluice_reader_check(reader, &frame), SLUICE_E_LOST);
    CHECK_RESULT(sluice_reader_release(reader, &frame, reading), SLUICE_E_LOST);
    CHECK_EQ(cipd_info_of_reader(reader).timeouts, 1);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(side->stream));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(side);
}

/* Neither on a channel of Sluice's own, nor on one of cuda-link's protocol. */
TEST(cipd_what_is_made_of_a_lost_frame_is_not_published)
{
    struct ahead ahead = begin();
    struct cipd_side *side = &ahead.side;
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_frame in, out, next;
    struct sluice_stream behind, apart;
    uint64_t sequence;
    char number[64];
    sluice_reader *reader;

    test_dir();
    sluice_writer *second = channel_writer();
    CHECK_OK(sluice_stream_create(side->device, NULL, &behind));
    CHECK_OK(sluice_stream_create(side->device, NULL, &apart));
    ahead.params.ahead = 1;
    ahead.params.ahead_ns = (int64_t)(SLUICE_S / 2 * test_slowness());
    ahead.params.cipd = &ahead.cipd;
    CHECK_OK(sluice_reader_open(&reader, &ahead.params));
    for (int released = 0; released < 2; released++) {
        gpu_gate_close(&gate, gpu_native(side->stream));
        CHECK_OK(sluice_writer_send(side->writer, &side->array, 1, side->stream, NULL));
        CHECK_OK(sluice_reader_acquire(reader, ahead.reading, 0, &in));
        CHECK(in.flags & SLUICE_FRAME_AHEAD);
        sequence = in.sequence;
        CHECK_OK(sluice_stream_wait_stream(behind, ahead.reading));
        int r = released ? sluice_reader_release(reader, &in, ahead.reading) : 0;
        CHECK(r == 0 || r == SLUICE_E_LOST);
        if (r != 0) /* a suspended machine let the deadline pass */
            break;
        CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out));
        CHECK_OK(sluice_writer_commit(second, &out, apart));
        CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out));
        CHECK_SAYS(sluice_writer_commit(second, &out, ahead.reading), SLUICE_E_LOST, "not whole");
        CHECK_SAYS(sluice_writer_commit(second, &out, behind), SLUICE_E_LOST, "not whole");
        CHECK_SAYS(sluice_writer_send(side->writer, &side->array, 1, behind, NULL), SLUICE_E_LOST, "not whole");
        CHECK_OK(sluice_writer_begin(side->writer, 0, &next));
        CHECK_SAYS(sluice_writer_commit(side->writer, &next, behind), SLUICE_E_LOST, "not whole");
        CHECK_OK(sluice_writer_cancel(side->writer, &next, SLUICE_ON_CPU));
        gpu_gate_open(&gate);
        CHECK_OK(sluice_stream_synchronize(side->stream));
        if (released) { /* reported once, by the next acquire */
            snprintf(number, sizeof number, "frame %u never completed", (unsigned)sequence);
            CHECK_SAYS(sluice_reader_acquire(reader, ahead.reading, 0, &in), SLUICE_E_LOST, number);
            CHECK_RESULT(sluice_reader_acquire(reader, ahead.reading, 0, &in), SLUICE_TIMEOUT);
        } else {
            CHECK_RESULT(sluice_reader_release(reader, &in, ahead.reading), SLUICE_E_LOST);
        }
        CHECK_OK(sluice_writer_commit(second, &out, behind));
    }
    gpu_gate_open(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_writer_close(&second));
    cipd_end(side);
}

/* On channels of Sluice's own and of cuda-link's protocol together, at most three streams of a process wait. */
TEST(cipd_streams_that_wait_count_with_those_on_other_channels)
{
    struct ahead ahead = begin();
    struct cipd_side *side = &ahead.side;
    struct sluice_reader_params params = channel_reader_params(1);
    struct gpu_gate gate = gpu_gate_new(), other = gpu_gate_new();
    struct sluice_stream writing, streams[3];
    struct sluice_frame frames[3], frame;
    sluice_reader *readers[3], *reader;

    test_dir();
    sluice_writer *writer = channel_writer();
    CHECK_OK(sluice_stream_create(side->device, NULL, &writing));
    params.ahead = ahead.params.ahead = 1;
    params.ahead_ns = ahead.params.ahead_ns = 20 * SLUICE_S;
    ahead.params.cipd = &ahead.cipd;
    ahead.params.hold = 2;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(sluice_stream_create(side->device, NULL, &streams[i]));
        CHECK_OK(sluice_reader_open(&readers[i], &params));
    }
    gpu_settle();
    for (int i = 0; i < 3; i++) { /* from here on the writer's frames signal to them too */
        channel_commit(writer, writing, 0, 0);
        CHECK_OK(sluice_reader_acquire(readers[i], streams[i], 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(readers[i], &frame, streams[i]));
        CHECK_OK(sluice_stream_synchronize(streams[i]));
    }
    CHECK_OK(sluice_stream_synchronize(writing));
    channel_commit_behind(&gate, writer, writing, 9);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(sluice_reader_acquire(readers[i], streams[i], 20 * SLUICE_S, &frames[i]));
        CHECK(frames[i].flags & SLUICE_FRAME_AHEAD);
    }

    CHECK_OK(sluice_reader_open(&reader, &ahead.params));
    gpu_gate_close(&other, gpu_native(side->stream));
    CHECK_OK(sluice_writer_send(side->writer, &side->array, 1, side->stream, NULL));
    CHECK_RESULT(sluice_reader_acquire(reader, ahead.reading, 0, &frame), SLUICE_TIMEOUT);
    gpu_gate_open(&gate);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(sluice_stream_synchronize(streams[i]));
        CHECK_OK(sluice_reader_release(readers[i], &frames[i], streams[i]));
    }
    CHECK_SOON(sluice_reader_acquire(reader, ahead.reading, 0, &frame) == 0, 5); /* their entries are free */
    CHECK(frame.flags & SLUICE_FRAME_AHEAD);
    gpu_gate_open(&other);
    CHECK_OK(sluice_reader_release(reader, &frame, ahead.reading));
    for (int i = 0; i < 3; i++)
        CHECK_OK(sluice_reader_close(&readers[i]));
    CHECK_OK(sluice_reader_close(&reader));
    gpu_gate_end(&gate);
    gpu_gate_end(&other);
    CHECK_OK(sluice_writer_close(&writer));
    cipd_end(side);
}
