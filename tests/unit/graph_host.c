/* SPDX-License-Identifier: MIT
 *
 * Captures and graphs on host: what is recorded, what is refused, and in which order it runs.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "device_kit.h"
#include "gpu/graph_counts.h"

/* ---- commands that note that they ran ---- */

static struct {
    char text[64];
    uint32_t length;
    _Atomic uint32_t dropped;
} ran;

static int note(void *data)
{
    ran.text[ran.length++] = *(char *)data;
    return 0;
}

static int fail(void *data)
{
    (void)data;
    return SLUICE_E_DRIVER;
}

static void drop(void *data)
{
    ran.dropped++;
    free(data);
}

/* As a launch on host does. */
static void run(struct sluice_stream handle, char letter, int (*function)(void *data))
{
    struct sl_stream *stream;
    char *data = malloc(1);

    *data = letter;
    CHECK_OK(sl_stream_hold(handle, &stream));
    int r = sl_host_capture_add(stream, function, drop, data);
    if (r == SLUICE_NOT_READY) {
        r = function(data);
        free(data);
    }
    CHECK_EQ(r, 0);
    sl_object_drop(&stream->object);
}

static void work(struct sluice_stream stream, char letter)
{
    run(stream, letter, note);
}

static void check_ran(const char *expected)
{
    CHECK_STR(ran.text, expected);
    memset(ran.text, 0, sizeof ran.text);
    ran.length = 0;
}

struct stage {
    struct sluice_device device;
    struct sluice_stream stream, other;
    struct sluice_graph graph;
};

static struct stage prepare(void)
{
    struct stage stage = { open_host(), { 0 }, { 0 }, { 0 } };

    CHECK_OK(sluice_stream_create(stage.device, NULL, &stage.stream));
    CHECK_OK(sluice_stream_create(stage.device, NULL, &stage.other));
    return stage;
}

static void finish(struct stage *stage)
{
    CHECK_OK(sluice_graph_destroy(&stage->graph));
    CHECK_OK(sluice_device_close(&stage->device));
    check_nothing_lives();
}

/* Both work as if there had been no capture. */
static void check_usable(const struct stage *stage)
{
    struct sluice_stream_info info = { .size = sizeof info };
    const struct sluice_stream streams[] = { stage->stream, stage->other };

    for (int i = 0; i < 2; i++) {
        CHECK_OK(sluice_stream_info(streams[i], &info));
        CHECK_EQ(info.capturing, 0);
        CHECK_OK(sluice_stream_synchronize(streams[i]));
        work(streams[i], 'u');
    }
    CHECK_OK(sluice_stream_wait_stream(stage->stream, stage->other));
    check_ran("uu");
}

/* ---- record and launch ---- */

TEST(what_is_captured_runs_at_each_launch)
{
    struct stage stage = prepare();

    CHECK_OK(sluice_capture_begin(stage.stream));
    work(stage.stream, 'a');
    work(stage.other, 'x'); /* it does not capture */
    work(stage.stream, 'b');
    check_ran("x");
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    check_ran("");
    check_graph(stage.graph, 2, 1, 0, 0);
    CHECK_OK(sluice_graph_launch(stage.graph, stage.stream));
    CHECK_OK(sluice_graph_launch(stage.graph, stage.other));
    check_ran("abab");
    check_usable(&stage);
    CHECK_EQ(ran.dropped, 0);
    CHECK_OK(sluice_graph_destroy(&stage.graph));
    CHECK_EQ(ran.dropped, 2);
    finish(&stage);
}

TEST(a_thousand_captures_into_one_graph)
{
    struct stage stage = prepare();

    for (int i = 0; i < 1000; i++) {
        char letter = (char)('a' + i % 26), expected[3] = { letter, 'z', 0 };
        CHECK_OK(sluice_capture_begin(stage.stream));
        work(stage.stream, letter);
        work(stage.stream, 'z');
        CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
        CHECK_OK(sluice_graph_launch(stage.graph, stage.stream));
        check_ran(expected);
    }
    check_graph(stage.graph, 2, 1, 999, 0);

    CHECK_OK(sluice_capture_begin(stage.stream)); /* one command more */
    for (char c = '1'; c <= '3'; c++)
        work(stage.stream, c);
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    check_graph(stage.graph, 3, 2, 999, 1);

    CHECK_OK(sluice_capture_begin(stage.stream)); /* commands of another kind */
    for (int i = 0; i < 3; i++)
        run(stage.stream, 'f', fail);
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    check_graph(stage.graph, 3, 2, 999, 2);
    CHECK_RESULT(sluice_graph_launch(stage.graph, stage.stream), SLUICE_E_DRIVER);
    check_ran("");
    finish(&stage);
}

TEST(the_same_commands_in_another_order_are_another_structure)
{
    struct stage stage = prepare();

    for (int together = 1; together >= 0; together--) {
        CHECK_OK(sluice_capture_begin(stage.stream));
        CHECK_OK(sluice_stream_wait_stream(stage.other, stage.stream));
        work(stage.stream, 'a');
        if (!together)
            CHECK_OK(sluice_stream_wait_stream(stage.other, stage.stream));
        work(stage.other, 'b');
        CHECK_OK(sluice_stream_wait_stream(stage.stream, stage.other));
        CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
        check_graph(stage.graph, 2, !together, 0, !together);
    }
    finish(&stage);
}

TEST(fork_and_join_make_the_edges)
{
    struct stage stage = prepare();
    struct sluice_stream streams[3];

    CHECK_OK(sluice_capture_begin(stage.stream));
    work(stage.stream, 'a');
    CHECK_OK(sluice_fork(stage.stream, 3, streams));
    for (int i = 0; i < 3; i++)
        work(streams[i], (char)('1' + i));
    CHECK_OK(sluice_join(stage.stream, 3, streams));
    work(stage.stream, 'b');
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    check_graph(stage.graph, 5, 7, 0, 0); /* b comes after a as well: what CUDA counts */
    CHECK_OK(sluice_graph_launch(stage.graph, stage.stream));
    check_ran("a123b");
    finish(&stage);
}

TEST(sections_of_one_capture_share_streams_at_the_limit)
{
    struct stage stage = prepare();
    struct sluice_stream streams[4], others[4];

    for (int turn = 0; turn < 3; turn++) {
        CHECK_OK(sluice_capture_begin(stage.stream));
        for (int i = 0; i < 100; i++) {
            CHECK_OK(sluice_fork(stage.stream, 4, streams));
            for (int j = 0; j < 4; j++)
                run(streams[j], 'n', fail);
            CHECK_OK(sluice_join(stage.stream, 4, streams));
        }
        CHECK_SAYS(sluice_fork(stage.other, 4, others), SLUICE_E_LIMIT, "take part in a capture");
        CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
        CHECK_OK(sluice_fork(stage.other, 4, others));
        CHECK_OK(sluice_join(stage.other, 4, others));
    }
    CHECK_EQ(sl_device_counts().streams, 2 + SLUICE_MAX_FORK);
    finish(&stage);
}

TEST(events_spread_a_capture_and_mark_places_in_it)
{
    struct stage stage = prepare();
    struct sluice_event event, later;

    CHECK_OK(sluice_event_create(stage.device, SLUICE_EVENT_TIMING, &event));
    CHECK_OK(sluice_event_create(stage.device, SLUICE_EVENT_TIMING, &later));
    CHECK_OK(sluice_capture_begin(stage.stream));
    work(stage.stream, 'a');
    CHECK_OK(sluice_event_record(event, stage.stream));
    work(stage.stream, 'b');
    CHECK_OK(sluice_stream_wait_event(stage.other, event)); /* it comes after a, and not after b */
    work(stage.other, 'c');
    CHECK_OK(sluice_event_record(later, stage.other));
    CHECK_OK(sluice_stream_wait_event(stage.stream, later));
    work(stage.stream, 'd');
    CHECK_RESULT(sluice_event_query(event), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    check_graph(stage.graph, 4, 4, 0, 0);
    CHECK_SAYS(sluice_event_synchronize(event), SLUICE_E_CAPTURING, "record it again");
    CHECK_RESULT(sluice_stream_wait_event(stage.other, event), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_event_record(event, stage.stream));
    CHECK_OK(sluice_event_query(event));
    CHECK_OK(sluice_stream_wait_event(stage.other, event));
    check_usable(&stage);
    finish(&stage);
}

TEST(no_graph_is_launched_in_a_capture)
{
    struct stage stage = prepare();

    CHECK_OK(sluice_capture_begin(stage.stream));
    work(stage.stream, 'a');
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    CHECK_OK(sluice_capture_begin(stage.stream));
    CHECK_SAYS(sluice_graph_launch(stage.graph, stage.stream), SLUICE_E_CAPTURING, "no graph can be launched");
    CHECK_OK(sluice_graph_launch(stage.graph, stage.other));
    check_ran("a");
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    check_graph(stage.graph, 0, 0, 0, 1);
    finish(&stage);
}

/* ---- what is refused ---- */

TEST(a_capture_refuses_what_needs_its_work_to_be_done)
{
    struct stage stage = prepare();
    struct sluice_stream copy = stage.stream;
    struct sluice_stream_info info = { .size = sizeof info };

    CHECK_OK(sluice_capture_begin(stage.stream));
    CHECK_RESULT(sluice_capture_begin(stage.stream), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_stream_info(stage.stream, &info));
    CHECK_EQ(info.capturing, 1);
    CHECK_RESULT(sluice_stream_query(stage.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_synchronize(stage.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_destroy(&copy), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_synchronize(stage.device), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_reset(stage.device), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_close(&stage.device), SLUICE_E_CAPTURING);
    CHECK_SAYS(sluice_stream_wait_stream(stage.stream, stage.other), SLUICE_E_CAPTURING, "outside of it");
    CHECK_OK(sluice_stream_query(stage.other));
    work(stage.stream, 'a');
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph)); /* none of this has ended it */
    check_graph(stage.graph, 1, 0, 0, 0);
    check_usable(&stage);
    finish(&stage);
}

TEST(a_default_stream_does_not_capture)
{
    struct stage stage = prepare();
    struct sluice_stream standard, wrapped;

    CHECK_OK(sluice_stream_default(stage.device, &standard));
    CHECK_OK(sluice_stream_wrap(stage.device, 0, NULL, NULL, &wrapped));
    CHECK_SAYS(sluice_capture_begin(standard), SLUICE_E_INVALID, "default stream");
    CHECK_RESULT(sluice_capture_begin(wrapped), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_capture_begin(SLUICE_ON_CPU), SLUICE_E_INVALID);
    CHECK_OK(sluice_capture_begin(stage.stream));
    CHECK_SAYS(sluice_stream_wait_stream(standard, stage.stream), SLUICE_E_CAPTURING, "default stream cannot");
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    CHECK_OK(sluice_stream_query(standard));
    check_graph(stage.graph, 0, 0, 0, 0);
    CHECK_OK(sluice_graph_launch(stage.graph, standard));
    finish(&stage);
}

static void check_named(struct sluice_stream stream)
{
    char name[32];

    snprintf(name, sizeof name, "0x%llx", (unsigned long long)stream.id);
    CHECK_HAS(sluice_last_error(), name);
}

TEST(a_stream_that_was_not_joined_is_named_and_usable_afterwards)
{
    struct stage stage = prepare();
    struct sluice_stream streams[2], gone[2];

    CHECK_OK(sluice_capture_begin(stage.stream));
    work(stage.stream, 'a');
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));

    CHECK_OK(sluice_capture_begin(stage.stream));
    CHECK_OK(sluice_stream_wait_stream(stage.other, stage.stream));
    CHECK_OK(sluice_fork(stage.stream, 2, streams));
    memcpy(gone, streams, sizeof gone);
    work(streams[0], 'b');
    work(stage.other, 'c');
    CHECK_OK(sluice_join(stage.stream, 2, streams));
    CHECK_RESULT(sluice_capture_end(stage.stream, &stage.graph), SLUICE_E_CAPTURE);
    check_named(stage.other);
    check_usable(&stage);
    CHECK_EQ(ran.dropped, 2);
    check_graph(stage.graph, 1, 0, 0, 0); /* as before */
    CHECK_OK(sluice_graph_launch(stage.graph, stage.stream));
    check_ran("a");

    /* Work behind the join is not joined. */
    CHECK_OK(sluice_capture_begin(stage.stream));
    CHECK_OK(sluice_fork(stage.stream, 2, streams));
    work(streams[1], 'b');
    CHECK_OK(sluice_stream_wait_stream(stage.stream, streams[1]));
    work(streams[1], 'c');
    CHECK_RESULT(sluice_capture_end(stage.stream, &stage.graph), SLUICE_E_CAPTURE);
    check_named(streams[1]);
    CHECK_OK(sluice_join(stage.stream, 2, streams));
    finish(&stage);
}

static void *end_elsewhere(void *data)
{
    struct stage *stage = data;

    CHECK_SAYS(sluice_capture_end(stage->stream, &stage->graph), SLUICE_E_CAPTURE, "another thread");
    return NULL;
}

TEST(a_capture_ends_where_it_began)
{
    struct stage stage = prepare();
    pthread_t thread;

    CHECK_SAYS(sluice_capture_end(stage.stream, &stage.graph), SLUICE_E_CAPTURE, "is not capturing");
    CHECK_OK(sluice_capture_begin(stage.stream));
    CHECK_OK(sluice_stream_wait_stream(stage.other, stage.stream));
    CHECK_SAYS(sluice_capture_end(stage.other, &stage.graph), SLUICE_E_CAPTURE, "did not begin on");
    CHECK_EQ(pthread_create(&thread, NULL, end_elsewhere, &stage), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph)); /* still under way; the other has recorded nothing */
    check_usable(&stage);
    finish(&stage);
}

TEST(two_captures_do_not_mix)
{
    struct stage stage = prepare();
    struct sluice_graph second = { 0 };

    CHECK_OK(sluice_capture_begin(stage.stream));
    CHECK_OK(sluice_capture_begin(stage.other));
    CHECK_SAYS(sluice_stream_wait_stream(stage.stream, stage.other), SLUICE_E_CAPTURING, "two captures");
    work(stage.other, 'b');
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    CHECK_OK(sluice_capture_end(stage.other, &second));
    check_graph(stage.graph, 0, 0, 0, 0);
    check_graph(second, 1, 0, 0, 0);
    CHECK_OK(sluice_graph_destroy(&second));
    finish(&stage);
}

TEST(graphs_belong_to_a_device)
{
    struct stage stage = prepare();
    struct sluice_device second = open_host();
    struct sluice_stream far;
    struct sluice_graph none = { 0 }, gone;
    struct sluice_graph_info info = { .size = 0 };

    CHECK_OK(sluice_stream_create(second, NULL, &far));
    CHECK_RESULT(sluice_graph_launch(none, stage.stream), SLUICE_E_INVALID);
    CHECK_OK(sluice_graph_destroy(&none));
    CHECK_OK(sluice_capture_begin(stage.stream));
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    CHECK_SAYS(sluice_graph_launch(stage.graph, far), SLUICE_E_WRONG_DEVICE, "another open of");
    CHECK_RESULT(sluice_graph_info(stage.graph, &info), SLUICE_E_INVALID);
    CHECK_OK(sluice_capture_begin(far));
    work(far, 'a');
    CHECK_SAYS(sluice_capture_end(far, &stage.graph), SLUICE_E_WRONG_DEVICE, "another open of");
    CHECK_OK(sluice_stream_query(far)); /* it has ended all the same */
    gone = stage.graph;
    CHECK_OK(sluice_graph_destroy(&stage.graph));
    CHECK_RESULT(sluice_graph_destroy(&gone), SLUICE_E_CLOSED);
    CHECK_OK(sluice_capture_begin(far));
    CHECK_RESULT(sluice_capture_end(far, &gone), SLUICE_E_CLOSED);
    CHECK_OK(sluice_stream_query(far));
    CHECK_OK(sluice_capture_begin(stage.stream));
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    CHECK_OK(sluice_device_reset(stage.device));
    CHECK_RESULT(sluice_graph_info(stage.graph, &info), SLUICE_E_STALE);
    stage.graph = none;
    CHECK_OK(sluice_device_close(&second));
    finish(&stage);
}

/* ---- frames ---- */

static sluice_writer *open_writer(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    sluice_writer *writer;
    int64_t bytes = 100;

    test_dir();
    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &bytes));
    params.name = "cam";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static sluice_reader *open_reader(void)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    params.name = "cam";
    params.hold = 2;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

TEST(frames_are_not_published_behind_a_stream_that_captures)
{
    struct stage stage = prepare();
    struct sluice_frame kept, dropped, seen;
    struct sluice_array source = { 0 };
    sluice_writer *writer = open_writer();
    sluice_reader *reader = open_reader();

    CHECK_OK(sluice_writer_begin(writer, 0, &kept));
    CHECK_OK(sluice_writer_commit(writer, &kept, stage.stream));
    CHECK_OK(sluice_reader_acquire(reader, stage.stream, 10 * SLUICE_S, &seen));
    CHECK_OK(sluice_frame_array(&seen, 0, &source));
    CHECK_OK(sluice_writer_begin(writer, 0, &kept));
    CHECK_OK(sluice_writer_begin(writer, 0, &dropped));
    CHECK_OK(sluice_capture_begin(stage.stream));
    CHECK_SAYS(sluice_writer_commit(writer, &kept, stage.stream), SLUICE_E_CAPTURING, "capturing a graph");
    CHECK_RESULT(sluice_writer_cancel(writer, &dropped, stage.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_writer_send(writer, &source, 1, stage.stream, NULL), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_reader_fetch(reader, &seen, &source, 1, stage.stream, NULL), SLUICE_E_CAPTURING);
    CHECK_OK(sluice_reader_release(reader, &seen, stage.stream)); /* at once */
    CHECK_OK(sluice_writer_commit(writer, &kept, stage.other));   /* others are as ever */
    CHECK_OK(sluice_reader_acquire(reader, stage.stream, 10 * SLUICE_S, &seen));
    CHECK_EQ(seen.sequence, 2);
    CHECK_OK(sluice_reader_release(reader, &seen, SLUICE_ON_CPU));
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    CHECK_OK(sluice_writer_cancel(writer, &dropped, stage.stream)); /* still begun */
    check_graph(stage.graph, 0, 0, 0, 0);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    finish(&stage);
}

/* ---- threads ---- */

static _Atomic int inside, most;

static int overlap(void *data)
{
    (void)data;
    int now = ++inside;
    if (now > most)
        most = now;
    test_nap(1000);
    inside--;
    return 0;
}

static void *launch_often(void *data)
{
    struct stage *stage = data;

    for (int i = 0; i < 200; i++)
        CHECK_OK(sluice_graph_launch(stage->graph, stage->other));
    return NULL;
}

TEST(launches_of_one_graph_never_overlap)
{
    struct stage stage = prepare();
    pthread_t threads[4];

    for (int turn = 0; turn < 100; turn++) {
        CHECK_OK(sluice_capture_begin(stage.stream));
        run(stage.stream, 'o', overlap);
        CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
        for (int i = 0; i < 4 && turn == 0; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, launch_often, &stage), 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(most, 1);
    CHECK_EQ(ran.dropped, 99);
    finish(&stage);
}
