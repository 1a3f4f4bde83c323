/* SPDX-License-Identifier: MIT
 *
 * Sends that are graphs of the driver's: the writer has SLOTS slots and sends the GPU's memory.
 */
#include "fake/send_kit.h"
#include "gpu/kit.h"
#include "harness/test.h"

#define SLOTS 3

static struct sending begin_graphs(void)
{
    return sending_begin_with(SLOTS, 1, 1);
}

static void turns(struct sending *sending, int count)
{
    char sentence[1024];

    for (int i = 0; i < count; i++) {
        sending_turn(sending, 2, sending->stream, (char)(i + 1), sentence);
        CHECK_STR(sentence, "");
    }
}

static uint64_t graph_sends(struct sending *sending)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_writer_stats(sending->writer, &stats));
    return stats.graph_sends;
}

/* One for each slot, made when that comes for the second time; from then on two calls send a frame. */
TEST(graphs_are_made_once)
{
    struct sending sending = begin_graphs();
    struct sluice_ticket ticket;

    turns(&sending, SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphInstantiateWithFlags), 0);
    turns(&sending, SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphInstantiateWithFlags), SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphExecBatchMemOpNodeSetParams), 1); /* the next is ready */
    CHECK_EQ(fake_things().graphs, 2 * SLOTS);
    fake_forget();
    for (int i = 0; i < 30; i++) {
        CHECK_OK(sluice_writer_send(sending.writer, &sending.arrays[2], 1, sending.stream, &ticket));
        CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
    }
    CHECK_EQ(graph_sends(&sending), 30 + SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), 30);
    CHECK_EQ(fake_calls(FAKE_GraphExecBatchMemOpNodeSetParams), 30);
    CHECK_EQ(fake_calls(FAKE_GraphInstantiateWithFlags), 0);
    CHECK_EQ(fake_calls(FAKE_MemcpyAsync), 0);
    CHECK_EQ(fake_calls(FAKE_StreamWriteValue64), 0);
    CHECK_EQ(fake_calls(FAKE_StreamBatchMemOp), 0);
    CHECK_OK(sluice_writer_close(&sending.writer));
    gpu_settle();
    CHECK_EQ(fake_things().graphs, 0);
    sending_end(&sending);
}

/* They are for GPU memory: of what else is sent none is made, nor kept beyond the slots that it is for. */
TEST(graphs_end_with_their_slots)
{
    struct sending sending = begin_graphs();
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_format format = SLUICE_FORMAT_INIT;
    char sentence[1024];
    int64_t size = SENDING_SIZE;

    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < 3 * SLOTS; i++)
            sending_turn(&sending, kind, sending.stream, 1, sentence);
        CHECK_EQ(fake_things().graphs, 0);
    }
    turns(&sending, 2 * SLOTS);
    CHECK_EQ(fake_things().graphs, 2 * SLOTS);
    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &size));
    CHECK_OK(sluice_writer_reformat(sending.writer, &format));
    turns(&sending, SLOTS);
    CHECK_EQ(fake_things().graphs, 0);
    turns(&sending, SLOTS);
    CHECK_EQ(fake_things().graphs, 2 * SLOTS);
    sending_end(&sending);
}

/* Whatever the driver refuses of a graph, the frame is sent the plain way, and so are those after it. */
TEST_TIMEOUT(each_call_of_a_graph_fails_in_turn, 120)
{
    static const enum fake_function functions[] = {
        FAKE_GraphCreate,  FAKE_GraphAddMemcpyNode, FAKE_GraphAddBatchMemOpNode, FAKE_GraphInstantiateWithFlags,
        FAKE_GraphLaunch,  FAKE_GraphExecBatchMemOpNodeSetParams,
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        for (long nth = 1; nth <= 2; nth++) {
            struct sending sending = begin_graphs();
            fake_fail(functions[i], nth, SL_CU_NOT_SUPPORTED);
            turns(&sending, 4 * SLOTS);
            CHECK(fake_failed());
            CHECK_LE(graph_sends(&sending), 2 * SLOTS);
            fake_forget();
            turns(&sending, 4 * SLOTS);
            CHECK_EQ(fake_calls(FAKE_GraphLaunch), 0);
            CHECK_EQ(fake_calls(FAKE_MemcpyAsync), 8 * SLOTS); /* there and back */
            CHECK_OK(sluice_writer_close(&sending.writer));
            gpu_settle();
            CHECK_EQ(fake_things().graphs, 0);
            CHECK(!fake_broken_rule());
            sending_end(&sending);
        }
    }
}

/* And each other call of a send by a graph. */
TEST_TIMEOUT(each_call_beside_a_graph_fails_in_turn, 120)
{
    struct sending sending = begin_graphs();
    char sentence[1024];

    turns(&sending, 3 * SLOTS);
    fake_forget();
    sending_turn(&sending, 2, sending.stream, 2, sentence);
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), 1);
    long calls[FAKE_FUNCTION_COUNT];
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        calls[f] = fake_calls((enum fake_function)f);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++) {
        bool of_graphs = f == FAKE_GraphLaunch || f == FAKE_GraphExecBatchMemOpNodeSetParams;
        if (!of_graphs && !sending_puts_back((enum fake_function)f))
            sending_fail_each(&sending, 2, sending.stream, (enum fake_function)f, calls[f]);
    }
    CHECK_GE(graph_sends(&sending), 10 * SLOTS);
    sending_end(&sending);
}
