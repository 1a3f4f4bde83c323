/* SPDX-License-Identifier: MIT
 *
 * Sluice's own captures, graphs and parallel sections on a GPU; tests/unit has the same on host.
 */
#include <stdio.h>
#include <string.h>

#include <sluice/graph.h>

#include "gpu/capture_thread.h"
#include "gpu/graph_counts.h"

#define WORDS    64
#define CAPTURES 1000

struct stage {
    struct sluice_device device;
    struct sluice_stream stream, other;
    struct sl_cu_stream *native, *theirs; /* of the first; of the test */
    struct sluice_graph graph;
    uint64_t memory; /* CAPTURES times WORDS words */
};

static struct stage prepare(void)
{
    struct stage stage = { .graph = { 0 } };

    gpu_begin();
    gpu_use(0);
    stage.theirs = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    stage.memory = gpu_memory((size_t)CAPTURES * WORDS * 4);
    gpu_fill(stage.theirs, stage.memory, CAPTURES * WORDS, 0); /* loads the kernels, too */
    CU(StreamSynchronize, stage.theirs);
    stage.device = gpu_open();
    CHECK_OK(sluice_stream_create(stage.device, NULL, &stage.stream));
    CHECK_OK(sluice_stream_create(stage.device, NULL, &stage.other));
    stage.native = gpu_native(stage.stream);
    return stage;
}

static void finish(struct stage *stage)
{
    CHECK_OK(sluice_graph_destroy(&stage->graph));
    CHECK_OK(sluice_device_close(&stage->device));
    CU(StreamDestroy, stage->theirs);
    gpu_end();
}

static void fill(const struct stage *stage, struct sluice_stream stream, uint32_t block, uint32_t value)
{
    gpu_fill(gpu_native(stream), stage->memory + (uint64_t)block * WORDS * 4, WORDS, value);
}

static void check_block(const struct stage *stage, uint32_t block, uint32_t value)
{
    CHECK_EQ(gpu_differ(stage->theirs, stage->memory + (uint64_t)block * WORDS * 4, WORDS, value), 0);
}

static void check_named(struct sluice_stream stream)
{
    char name[32];

    snprintf(name, sizeof name, "0x%llx", (unsigned long long)stream.id);
    CHECK_HAS(sluice_last_error(), name);
}

/* As if there had been no capture. */
static void check_usable(const struct stage *stage)
{
    const struct sluice_stream streams[] = { stage->stream, stage->other };
    struct sluice_stream_info info = { .size = sizeof info };

    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(sluice_stream_info(streams[i], &info));
        CHECK_EQ(info.capturing, 0);
        fill(stage, streams[i], 900 + i, 77);
        CHECK_OK(sluice_stream_synchronize(streams[i]));
        check_block(stage, 900 + i, 77);
    }
    CHECK_OK(sluice_stream_wait_stream(stage->stream, stage->other));
}

/* ---- capture and launch ---- */

TEST(graphs_that_are_captured_again_are_updated)
{
    struct stage stage = prepare();

    for (uint32_t i = 0; i < CAPTURES; i++) {
        CHECK_OK(sluice_capture_begin(stage.stream));
        fill(&stage, stage.stream, i, 5);
        fill(&stage, stage.stream, i, i + 1);
        CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
        CHECK_OK(sluice_graph_launch(stage.graph, stage.stream));
    }
    check_graph(stage.graph, 2, 1, CAPTURES - 1, 0);
    CHECK_OK(sluice_stream_synchronize(stage.stream));
    for (uint32_t i = 0; i < CAPTURES; i++)
        check_block(&stage, i, i + 1);

    CHECK_OK(sluice_capture_begin(stage.stream));
    for (uint32_t i = 0; i < 3; i++)
        fill(&stage, stage.stream, i, 9);
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    check_graph(stage.graph, 3, 2, CAPTURES - 1, 1);
    CHECK_OK(sluice_graph_launch(stage.graph, stage.other));
    CHECK_OK(sluice_stream_synchronize(stage.other));
    for (uint32_t i = 0; i < 3; i++)
        check_block(&stage, i, 9);
    finish(&stage);
}

static void capture_fills(struct stage *stage, uint32_t count, uint32_t value)
{
    CHECK_OK(sluice_capture_begin(stage->stream));
    for (uint32_t i = 0; i < count; i++)
        fill(stage, stage->stream, i, value);
    CHECK_OK(sluice_capture_end(stage->stream, &stage->graph));
}

TEST(queued_launches_keep_what_they_were_launched_with)
{
    struct stage stage = prepare();
    struct gpu_gate gate = gpu_gate_new();

    capture_fills(&stage, 2, 3);
    gpu_gate_close(&gate, stage.native);
    CHECK_OK(sluice_graph_launch(stage.graph, stage.stream));
    capture_fills(&stage, 2, 4); /* on a stream that has work: updated */
    capture_fills(&stage, 1, 5); /* rebuilt */
    check_graph(stage.graph, 1, 0, 1, 1);
    CHECK_OK(sluice_graph_launch(stage.graph, stage.stream));
    CHECK_OK(sluice_graph_destroy(&stage.graph));
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(stage.stream));
    check_block(&stage, 0, 5);
    check_block(&stage, 1, 3);
    gpu_gate_end(&gate);
    finish(&stage);
}

TEST(fork_and_join_make_the_edges)
{
    struct stage stage = prepare();
    struct sluice_stream streams[3];

    CHECK_OK(sluice_capture_begin(stage.stream));
    fill(&stage, stage.stream, 0, 1);
    CHECK_OK(sluice_fork(stage.stream, 3, streams));
    for (uint32_t i = 0; i < 3; i++)
        fill(&stage, streams[i], 1 + i, 2);
    CHECK_OK(sluice_join(stage.stream, 3, streams));
    fill(&stage, stage.stream, 4, 3);
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    check_graph(stage.graph, 5, 7, 0, 0);
    CHECK_OK(sluice_graph_launch(stage.graph, stage.stream));
    CHECK_OK(sluice_stream_synchronize(stage.stream));
    for (uint32_t i = 0; i < 5; i++)
        check_block(&stage, i, i == 0 ? 1 : i < 4 ? 2 : 3);
    finish(&stage);
}

TEST(sections_of_one_capture_share_streams_at_the_limit)
{
    struct stage stage = prepare();
    struct sluice_stream streams[4], others[4];

    for (uint32_t turn = 0; turn < 3; turn++) {
        CHECK_OK(sluice_capture_begin(stage.stream));
        for (uint32_t i = 0; i < 100; i++) {
            CHECK_OK(sluice_fork(stage.stream, 4, streams));
            for (uint32_t j = 0; j < 4; j++)
                fill(&stage, streams[j], 4 * i + j, turn);
            CHECK_OK(sluice_join(stage.stream, 4, streams));
            fill(&stage, stage.stream, 400, i); /* so that the next section depends on one node */
        }
        CHECK_SAYS(sluice_fork(stage.other, 4, others), SLUICE_E_LIMIT, "take part in a capture");
        CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
        CHECK_OK(sluice_fork(stage.other, 4, others));
        CHECK_OK(sluice_join(stage.other, 4, others));
        CHECK_OK(sluice_graph_launch(stage.graph, stage.stream));
        CHECK_OK(sluice_stream_synchronize(stage.stream));
        for (uint32_t i = 0; i < 400; i++)
            check_block(&stage, i, turn);
    }
    finish(&stage);
}

TEST(no_graph_is_launched_in_a_capture)
{
    struct stage stage = prepare();

    capture_fills(&stage, 2, 6);
    CHECK_OK(sluice_capture_begin(stage.stream));
    fill(&stage, stage.stream, 2, 1);
    CHECK_SAYS(sluice_graph_launch(stage.graph, stage.stream), SLUICE_E_CAPTURING, "no graph can be launched");
    CHECK_OK(sluice_graph_launch(stage.graph, stage.other));
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph)); /* it is still valid */
    check_graph(stage.graph, 1, 0, 0, 1);
    CHECK_OK(sluice_stream_synchronize(stage.other));
    check_block(&stage, 1, 6);
    finish(&stage);
}

/* ---- parallel sections ---- */

TEST(a_section_runs_between_its_fork_and_its_join)
{
    struct stage stage = prepare();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_stream streams[2];

    gpu_gate_close(&gate, stage.native);
    fill(&stage, stage.stream, 0, 1);
    CHECK_OK(sluice_fork(stage.stream, 2, streams));
    fill(&stage, streams[0], 0, 2);
    fill(&stage, streams[1], 1, 2);
    CHECK_RESULT(sluice_stream_query(streams[0]), SLUICE_NOT_READY);
    CHECK_OK(sluice_join(stage.stream, 2, streams));
    fill(&stage, stage.stream, 1, 3);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(stage.stream));
    check_block(&stage, 0, 2);
    check_block(&stage, 1, 3);
    gpu_gate_end(&gate);
    finish(&stage);
}

TEST(busy_streams_are_lent_only_at_the_limit)
{
    struct stage stage = prepare();
    struct gpu_gate gate = gpu_gate_new();
    struct sl_cu_stream *natives[SLUICE_MAX_FORK];
    struct sluice_stream streams[1];
    uint32_t count = 0;

    gpu_gate_close(&gate, stage.native);
    for (int i = 0; i < 100; i++) { /* each stream waits behind the gate from now on */
        CHECK_OK(sluice_fork(stage.stream, 1, streams));
        uint32_t at = 0;
        while (at < count && natives[at] != gpu_native(streams[0]))
            at++;
        CHECK(i >= SLUICE_MAX_FORK || at == count);
        CHECK(at < SLUICE_MAX_FORK);
        natives[at] = gpu_native(streams[0]);
        count += at == count;
        CHECK_OK(sluice_join(stage.stream, 1, streams));
    }
    CHECK_EQ(count, SLUICE_MAX_FORK);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(stage.stream));
    gpu_gate_end(&gate);
    finish(&stage);
}

TEST(the_limit_of_streams_at_once)
{
    struct stage stage = prepare();
    struct sluice_stream streams[SLUICE_MAX_FORK], more;

    CHECK_OK(sluice_fork(stage.stream, SLUICE_MAX_FORK, streams));
    CHECK_RESULT(sluice_fork(stage.other, 1, &more), SLUICE_E_LIMIT);
    CHECK_OK(sluice_join(stage.stream, SLUICE_MAX_FORK, streams));
    finish(&stage);
}

/* ---- what is refused ---- */

TEST(a_default_stream_does_not_capture)
{
    struct stage stage = prepare();
    struct sluice_stream standard, wrapped;

    CHECK_OK(sluice_stream_default(stage.device, &standard));
    CHECK_OK(sluice_stream_wrap(stage.device, 0, NULL, NULL, &wrapped));
    CHECK_SAYS(sluice_capture_begin(standard), SLUICE_E_INVALID, "default stream");
    CHECK_RESULT(sluice_capture_begin(wrapped), SLUICE_E_INVALID);
    capture_fills(&stage, 1, 1);
    CHECK_OK(sluice_graph_launch(stage.graph, standard)); /* but graphs run on it */
    CHECK_OK(sluice_stream_synchronize(standard));
    check_block(&stage, 0, 1);
    finish(&stage);
}

TEST(a_capture_refuses_what_would_end_it)
{
    struct stage stage = prepare();
    struct sluice_stream copy = stage.stream;

    CHECK_OK(sluice_capture_begin(stage.stream));
    CHECK_RESULT(sluice_capture_begin(stage.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_synchronize(stage.stream), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_destroy(&copy), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_synchronize(stage.device), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_reset(stage.device), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_device_close(&stage.device), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_stream_wait_stream(stage.stream, stage.other), SLUICE_E_CAPTURING);
    CHECK_RESULT(sluice_capture_end(stage.other, &stage.graph), SLUICE_E_CAPTURE);
    fill(&stage, stage.stream, 0, 1);
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    check_graph(stage.graph, 1, 0, 0, 0);
    check_usable(&stage);
    finish(&stage);
}

TEST(a_stream_that_was_not_joined_is_named_and_usable_afterwards)
{
    struct stage stage = prepare();
    struct sluice_stream streams[2];
    struct sluice_event event;

    CHECK_OK(sluice_event_create(stage.device, 0, &event));
    capture_fills(&stage, 1, 1);
    for (int by_event = 0; by_event < 2; by_event++) {
        CHECK_OK(sluice_capture_begin(stage.stream));
        fill(&stage, stage.stream, 0, 2);
        CHECK_OK(sluice_event_record(event, stage.stream));
        if (by_event)
            CHECK_OK(sluice_stream_wait_event(stage.other, event));
        else
            CHECK_OK(sluice_stream_wait_stream(stage.other, stage.stream));
        CHECK_OK(sluice_fork(stage.stream, 2, streams));
        uint64_t joined = streams[0].id;
        fill(&stage, streams[0], 1, 2);
        fill(&stage, stage.other, 2, 2);
        CHECK_OK(sluice_join(stage.stream, 2, streams));
        CHECK_RESULT(sluice_capture_end(stage.stream, &stage.graph), SLUICE_E_CAPTURE);
        check_named(stage.other);
        char name[32];
        snprintf(name, sizeof name, "0x%llx", (unsigned long long)joined);
        CHECK(!strstr(sluice_last_error(), name));
        check_usable(&stage);
        CHECK_OK(sluice_fork(stage.stream, 2, streams));
        CHECK_OK(sluice_join(stage.stream, 2, streams));
    }
    CHECK_SAYS(sluice_stream_wait_event(stage.other, event), SLUICE_E_CAPTURING, "record it again");
    check_graph(stage.graph, 1, 0, 0, 0); /* as before */
    CHECK_OK(sluice_graph_launch(stage.graph, stage.stream));
    CHECK_OK(sluice_stream_synchronize(stage.stream));
    check_block(&stage, 0, 1);
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
    struct sl_cu_graph *theirs;
    pthread_t thread;

    CHECK_SAYS(sluice_capture_end(stage.stream, &stage.graph), SLUICE_E_CAPTURE, "is not capturing");
    CHECK_OK(sluice_capture_begin(stage.stream));
    fill(&stage, stage.stream, 0, 4);
    CHECK_OK(sluice_stream_wait_stream(stage.other, stage.stream));
    CHECK_SAYS(sluice_capture_end(stage.other, &stage.graph), SLUICE_E_CAPTURE, "did not begin on");
    CHECK_EQ(pthread_create(&thread, NULL, end_elsewhere, &stage), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_OK(sluice_capture_end(stage.stream, &stage.graph));
    check_graph(stage.graph, 1, 0, 0, 0);
    check_usable(&stage);

    CU(StreamBeginCapture, stage.native, CAPTURE_THREAD_LOCAL); /* by another library */
    fill(&stage, stage.stream, 0, 4);
    CHECK_SAYS(sluice_capture_end(stage.stream, &stage.graph), SLUICE_E_CAPTURE, "did not begin");
    CU(StreamEndCapture, stage.native, &theirs);
    CU(GraphDestroy, theirs);
    finish(&stage);
}

TEST(a_capture_that_something_has_broken)
{
    struct stage stage = prepare();

    capture_fills(&stage, 1, 1);
    CHECK_OK(sluice_capture_begin(stage.stream));
    fill(&stage, stage.stream, 0, 4);
    CHECK_NE(cu.StreamSynchronize(stage.native), 0); /* by code that is not Sluice's */
    CHECK_SAYS(sluice_capture_end(stage.stream, &stage.graph), SLUICE_E_CAPTURE, "ended without a graph");
    check_graph(stage.graph, 1, 0, 0, 0);
    check_usable(&stage);
    finish(&stage);
}

/* ---- beside others ---- */

TEST(captures_beside_captures_of_other_threads)
{
    for (int mode = CAPTURE_GLOBAL; mode <= CAPTURE_RELAXED; mode++) {
        struct stage stage = prepare();
        struct capture_thread capturer;
        struct sluice_stream streams[4];

        capture_thread_begin(&capturer, mode, SL_CU_STREAM_NON_BLOCKING);
        for (uint32_t i = 0; i < 20; i++) {
            CHECK_OK(sluice_fork(stage.other, 4, streams)); /* makes streams */
            CHECK_OK(sluice_join(stage.other, 4, streams));
            capture_fills(&stage, 1 + i % 3, i); /* builds, and rebuilds */
            CHECK_OK(sluice_graph_launch(stage.graph, stage.stream));
            CHECK_OK(sluice_stream_synchronize(stage.stream));
        }
        CHECK_OK(sluice_graph_destroy(&stage.graph));
        capture_thread_end(&capturer);
        check_block(&stage, 0, 19);
        capture_thread_check(&capturer, stage.theirs);
        finish(&stage);
    }
}
