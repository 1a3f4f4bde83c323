/* SPDX-License-Identifier: MIT
 *
 * A "cipd:" channel breaks nobody's capture, and adds nothing to a graph.
 */
#include "gpu/capture_thread.h"
#include "gpu/cipd_kit.h"

/* All calls of a writer and a reader, on a stream of the library's and on one of the program's. */
static void live_so(struct cipd_side *side, uint32_t graph)
{
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side->format);
    struct sluice_cipd_reader_params other;
    struct sluice_reader_params reading = cipd_reader_params(&other);
    struct sluice_frame frame;
    struct sluice_ticket ticket;
    sluice_reader *reader;

    cipd.graph = graph;
    CHECK_OK(sluice_writer_open(&side->writer, &params));
    CHECK_OK(sluice_reader_open(&reader, &reading));
    for (uint32_t i = 1; i <= 8; i++) {
        CHECK_OK(sluice_writer_send(side->writer, &side->array, 1, i % 2 ? side->stream : SLUICE_ON_CPU, &ticket));
        CHECK_OK(sluice_ticket_wait(ticket, 10 * SLUICE_S));
        CHECK_OK(sluice_reader_acquire(reader, i % 2 ? side->stream : SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.sequence, i);
        CHECK_OK(sluice_reader_release(reader, &frame, i % 2 ? side->stream : SLUICE_ON_CPU));
    }
    CHECK_OK(sluice_writer_begin(side->writer, SLUICE_DEFAULT, &frame));
    CHECK_OK(sluice_writer_commit(side->writer, &frame, side->stream));
    CHECK_OK(sluice_reader_acquire(reader, side->stream, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, side->stream));
    CHECK_OK(sluice_cipd_set_slots(side->writer, 2));
    CHECK_OK(sluice_writer_send(side->writer, &side->array, 1, side->stream, NULL));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&reader));
    other.copy = 1;
    CHECK_OK(sluice_reader_open(&reader, &reading));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, side->stream));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&side->writer));
}

static void live(struct cipd_side *side)
{
    live_so(side, SLUICE_CIPD_ON);
    live_so(side, SLUICE_CIPD_OFF);
}

static void matrix(unsigned flags)
{
    static const int modes[] = { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };
    struct cipd_side side = cipd_begin();
    struct capture_thread capturer;

    live(&side);
    for (int i = 0; i < 3; i++) {
        capture_thread_begin(&capturer, modes[i], flags);
        live(&side);
        capture_thread_end(&capturer);
        capture_thread_check(&capturer, gpu_native(side.stream));
    }
    cipd_end(&side);
}

TEST_TIMEOUT(cipd_a_life_beside_captures_on_streams_that_do_not_block, 60)
{
    matrix(SL_CU_STREAM_NON_BLOCKING);
}
TEST_TIMEOUT(cipd_a_life_beside_captures_on_blocking_streams, 60)
{
    matrix(0);
}

/* On the default stream, while another stream captures on a blocking one: any call on it would break that capture. */
TEST(cipd_the_default_stream_is_left_alone_while_it_is_shut)
{
    struct cipd_side side = cipd_begin();
    struct sluice_stream stream;
    struct sluice_frame frame;
    struct capture_thread capturer;

    side.writer = cipd_writer(&side.format);
    sluice_reader *reader = cipd_reader();
    CHECK_OK(sluice_stream_default(side.device, &stream));
    capture_thread_begin(&capturer, CAPTURE_GLOBAL, 0);
    for (uint32_t i = 1; i <= 4; i++) {
        CHECK_OK(sluice_writer_send(side.writer, &side.array, 1, stream, NULL));
        CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(reader, &frame, stream));
    }
    capture_thread_end(&capturer);
    capture_thread_check(&capturer, gpu_native(side.stream));
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

static void refuse(int mode)
{
    struct cipd_side side = cipd_begin();
    struct sl_cu_stream *native = gpu_native(side.stream);
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    struct sluice_frame frame, taken, copied;
    struct sl_cu_graph *graph;
    sluice_reader *reader, *copier;
    size_t nodes = 77;

    side.writer = cipd_writer(&side.format);
    reader = cipd_reader();
    cipd.copy = 1;
    CHECK_OK(sluice_reader_open(&copier, &params));
    CHECK_OK(sluice_writer_send(side.writer, &side.array, 1, side.stream, NULL));
    CHECK_OK(sluice_reader_acquire(reader, side.stream, 20 * SLUICE_S, &taken));
    CHECK_OK(sluice_reader_acquire(copier, side.stream, 20 * SLUICE_S, &copied));
    CHECK_OK(sluice_stream_synchronize(side.stream));
    CU(StreamBeginCapture, native, mode);
    CHECK_RESULT(sluice_writer_send(side.writer, &side.array, 1, side.stream, NULL), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_writer_begin(side.writer, SLUICE_DEFAULT, &frame));
    CHECK_RESULT(sluice_writer_commit(side.writer, &frame, side.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_reader_release(copier, &copied, side.stream), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_reader_release(reader, &taken, side.stream)); /* queues nothing */
    CU(StreamEndCapture, native, &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CHECK_EQ(nodes, 0);
    CU(GraphDestroy, graph);
    CHECK_OK(sluice_writer_commit(side.writer, &frame, side.stream)); /* it is still begun */
    CHECK_OK(sluice_reader_release(copier, &copied, side.stream));
    CHECK_EQ(cipd_info_of_writer(side.writer).published, 2);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_reader_close(&copier));
    cipd_end(&side);
}

TEST(cipd_a_stream_that_captures_is_refused)
{
    for (int mode = CAPTURE_GLOBAL; mode <= CAPTURE_RELAXED; mode++)
        refuse(mode);
}
