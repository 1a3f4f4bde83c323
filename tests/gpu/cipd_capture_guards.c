/* SPDX-License-Identifier: MIT
 *
 * One act of a writer or a reader of a "cipd:" channel while somebody captures a graph. capture_guards.c bypasses the
 * library's guards, and this must fail then.
 */
#include <string.h>

#include "gpu/capture_thread.h"
#include "gpu/cipd_kit.h"

#define LONG (10 * SLUICE_S)

struct setting {
    struct cipd_side side;
    sluice_reader *reader;
    struct sluice_stream stream; /* of the act */
    struct sluice_frame frame;   /* the frame that was begun or taken */
    struct gpu_gate gate;        /* side.stream waits for it if `shut` */
    sluice_writer *answering; /* channel "answering": the service thread answers for it, and checks what waits, too */
    bool shut;
    int expected; /* the result of calls that are given the stream */
};

static void open_writer(struct setting *on, bool block)
{
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &on->side.format);

    cipd.block = block;
    CHECK_OK(sluice_writer_open(&on->side.writer, &params));
}

static void open_reader(struct setting *on, bool copy, bool ahead)
{
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);

    cipd.copy = copy;
    params.ahead = ahead;
    params.hold = 2;
    CHECK_OK(sluice_reader_open(&on->reader, &params));
}

static void send(struct setting *on)
{
    CHECK_OK(sluice_writer_send(on->side.writer, &on->side.array, 1, on->side.stream, NULL));
    CHECK_OK(sluice_stream_synchronize(on->side.stream));
}

static void take(struct setting *on)
{
    CHECK_OK(sluice_reader_acquire(on->reader, SLUICE_ON_CPU, LONG, &on->frame));
}

/* ---- what there is before the capture, and what is done in it ---- */

static void frames_were_sent(struct setting *on)
{
    open_writer(on, false);
    for (int i = 0; i < 5; i++) /* so that the next one has to check whether a frame is finished */
        send(on);
}

static void send_it(struct setting *on)
{
    CHECK_RESULT(sluice_writer_send(on->side.writer, &on->side.array, 1, on->stream, NULL), on->expected);
}

static void frame_was_begun(struct setting *on)
{
    frames_were_sent(on);
    CHECK_OK(sluice_writer_begin(on->side.writer, SLUICE_DEFAULT, &on->frame));
}

static void commit_it(struct setting *on)
{
    CHECK_RESULT(sluice_writer_commit(on->side.writer, &on->frame, on->stream), on->expected);
}

static void cancel_it(struct setting *on)
{
    CHECK_RESULT(sluice_writer_cancel(on->side.writer, &on->frame, on->stream), on->expected);
}

static void frame_was_cancelled(struct setting *on)
{
    frame_was_begun(on);
    CHECK_OK(sluice_writer_cancel(on->side.writer, &on->frame, on->side.stream));
}

static void begin_it(struct setting *on)
{
    CHECK_OK(sluice_writer_begin(on->side.writer, LONG, &on->frame));
}

static void writer_blocks(struct setting *on)
{
    open_writer(on, true);
}

static void reader_is_there(struct setting *on)
{
    frames_were_sent(on);
    open_reader(on, false, false);
}

static void copier_is_there(struct setting *on)
{
    frames_were_sent(on);
    open_reader(on, true, false);
}

static void copy_was_taken(struct setting *on)
{
    copier_is_there(on);
    take(on);
}

static void frame_was_taken(struct setting *on)
{
    reader_is_there(on);
    take(on);
}

static void release_it(struct setting *on)
{
    CHECK_RESULT(sluice_reader_release(on->reader, &on->frame, on->stream), on->expected);
}

static void fetch_it(struct setting *on)
{
    struct sluice_ticket ticket;

    CHECK_RESULT(sluice_reader_fetch(on->reader, &on->frame, &on->side.array, 1, on->stream, &ticket), on->expected);
}

static void mark_it(struct setting *on)
{
    CHECK_RESULT(sluice_cipd_mark(on->reader, &on->frame, on->stream), on->expected);
}

static void frame_is_late(struct setting *on)
{
    frames_were_sent(on);
    open_reader(on, false, true);
    take(on);
    CHECK_OK(sluice_reader_release(on->reader, &on->frame, SLUICE_ON_CPU));
    gpu_gate_close(&on->gate, gpu_native(on->side.stream));
    on->shut = true;
    CHECK_OK(sluice_writer_send(on->side.writer, &on->side.array, 1, on->side.stream, NULL));
}

static void take_it_ahead(struct setting *on)
{
    CHECK_RESULT(sluice_reader_acquire(on->reader, on->stream, 0, &on->frame), on->expected);
}

static void stream_waits_for_it(struct setting *on)
{
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_format format = channel_format(1);

    frame_is_late(on);
    CHECK_OK(sluice_reader_acquire(on->reader, on->stream, 0, &on->frame));
    CHECK(on->frame.flags & SLUICE_FRAME_AHEAD);
    params.name = "answering";
    params.device = "host";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&on->answering, &params));
}

/* Wakes the service thread, which checks what waits each time that it runs. */
static void wait_a_moment(struct setting *on)
{
    struct sluice_channel_info info = { .size = sizeof info };

    (void)on;
    for (int i = 0; i < 5; i++) {
        test_nap(SLUICE_MS);
        CHECK_OK(sluice_channel_info("answering", 20 * SLUICE_S, &info, NULL, 0));
    }
}

static void nothing(struct setting *on)
{
    (void)on;
}

static void live(struct setting *on)
{
    reader_is_there(on);
    take(on);
    CHECK_OK(sluice_reader_close(&on->reader));
    open_reader(on, true, false);
    take(on);
    CHECK_OK(sluice_reader_close(&on->reader));
    CHECK_OK(sluice_writer_close(&on->side.writer));
}

static const struct act {
    const char *name;
    void (*prepare)(struct setting *on);
    void (*act)(struct setting *on);
} acts[] = {
    { "send", frames_were_sent, send_it },
    { "blocking send", writer_blocks, send_it },
    { "begin", frames_were_sent, begin_it },
    { "begin again", frame_was_cancelled, begin_it },
    { "commit", frame_was_begun, commit_it },
    { "cancel", frame_was_begun, cancel_it },
    { "acquire", reader_is_there, take },
    { "acquire a copy", copier_is_there, take },
    { "release a copy", copy_was_taken, release_it },
    { "fetch", frame_was_taken, fetch_it },
    { "mark", frame_was_taken, mark_it },
    { "acquire ahead", frame_is_late, take_it_ahead },
    { "wait", stream_waits_for_it, wait_a_moment },
    { "open and close", nothing, live },
};

/* ---- who captures ---- */

/* The stream itself. */
static void inside(struct setting *on, const struct act *act)
{
    struct sl_cu_stream *native = gpu_native(on->stream);
    struct sl_cu_graph *graph;
    size_t nodes = 77;

    act->prepare(on);
    on->expected = SLUICE_E_CAPTURING;
    CU(StreamBeginCapture, native, CAPTURE_GLOBAL);
    act->act(on);
    CU(StreamEndCapture, native, &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CHECK_EQ(nodes, 0);
    CU(GraphDestroy, graph);
}

/* Another stream, in another thread. */
static void beside(struct setting *on, const struct act *act, unsigned flags)
{
    struct capture_thread capturer;

    act->prepare(on);
    capture_thread_begin(&capturer, CAPTURE_GLOBAL, flags);
    act->act(on);
    capture_thread_end(&capturer);
    if (on->shut)
        gpu_gate_open(&on->gate);
    on->shut = false;
    capture_thread_check(&capturer, gpu_native(on->side.stream));
}

/* Arguments: "inside", "beside" or "default" (the default stream, beside a capture that makes it unusable); the act;
 * "quiet". */
ROLE(cipd_guarded)
{
    struct setting on = { .side = cipd_begin() };

    CHECK_EQ(argc, 4);
    if (strcmp(argv[3], "quiet") == 0)
        CHECK(freopen("/dev/null", "w", stderr));
    on.gate = gpu_gate_new();
    if (strcmp(argv[1], "default") == 0)
        CHECK_OK(sluice_stream_default(on.side.device, &on.stream));
    else
        CHECK_OK(sluice_stream_create(on.side.device, NULL, &on.stream));
    const struct act *act = acts;
    while (strcmp(act->name, argv[2]) != 0)
        CHECK(++act < acts + sizeof acts / sizeof *acts);
    if (strcmp(argv[1], "inside") == 0)
        inside(&on, act);
    else
        beside(&on, act, strcmp(argv[1], "default") == 0 ? 0 : SL_CU_STREAM_NON_BLOCKING);
    if (on.shut)
        gpu_gate_open(&on.gate);
    if (on.reader)
        CHECK_OK(sluice_reader_close(&on.reader));
    if (on.answering)
        CHECK_OK(sluice_writer_close(&on.answering));
    gpu_gate_end(&on.gate);
    cipd_end(&on.side);
    return 0;
}
