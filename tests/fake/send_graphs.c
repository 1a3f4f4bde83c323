/* SPDX-License-Identifier: MIT
 *
 * Sends by graph: the writer has SLOTS slots and sends the GPU's memory.
 */
#include "fake/send_kit.h"
#include "gpu/kit.h"
#include "harness/test.h"

#define SLOTS 3

static struct transfer begin_graphs(void)
{
    return transfer_begin_with(SLOTS, 1, 1);
}

static void turns(struct transfer *transfer, int count)
{
    char sentence[1024];

    for (int i = 0; i < count; i++) {
        transfer_frame(transfer, 2, transfer->stream, (char)(i + 1), sentence);
        CHECK_STR(sentence, "");
    }
}

static uint64_t graph_sends(struct transfer *transfer)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_writer_stats(transfer->writer, &stats));
    return stats.graph_sends;
}

/* One for each slot, made when that comes for the second time; from then on two calls send a frame. */
TEST(graphs_are_made_once)
{
    struct transfer transfer = begin_graphs();
    struct sluice_ticket ticket;

    turns(&transfer, SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphInstantiateWithFlags), 0);
    turns(&transfer, SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphInstantiateWithFlags), SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphExecBatchMemOpNodeSetParams), 1); /* the next one is ready */
    CHECK_EQ(fake_things().graphs, 2 * SLOTS);
    fake_forget();
    for (int i = 0; i < 30; i++) {
        CHECK_OK(sluice_writer_send(transfer.writer, &transfer.arrays[2], 1, transfer.stream, &ticket));
        CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
    }
    CHECK_EQ(graph_sends(&transfer), 30 + SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), 30);
    CHECK_EQ(fake_calls(FAKE_GraphExecBatchMemOpNodeSetParams), 30);
    CHECK_EQ(fake_calls(FAKE_GraphInstantiateWithFlags), 0);
    CHECK_EQ(fake_calls(FAKE_MemcpyAsync), 0);
    CHECK_EQ(fake_calls(FAKE_StreamWriteValue64), 0);
    CHECK_EQ(fake_calls(FAKE_StreamBatchMemOp), 0);
    CHECK_OK(sluice_writer_close(&transfer.writer));
    gpu_settle();
    CHECK_EQ(fake_things().graphs, 0);
    transfer_end(&transfer);
}

/* They are for GPU memory: sends of other memory make none, and none is kept longer than its slot. */
TEST(graphs_end_with_their_slots)
{
    struct transfer transfer = begin_graphs();
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_format format = SLUICE_FORMAT_INIT;
    char sentence[1024];
    int64_t size = TRANSFER_SIZE;

    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < 3 * SLOTS; i++)
            transfer_frame(&transfer, kind, transfer.stream, 1, sentence);
        CHECK_EQ(fake_things().graphs, 0);
    }
    turns(&transfer, 2 * SLOTS);
    CHECK_EQ(fake_things().graphs, 2 * SLOTS);
    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &size));
    CHECK_OK(sluice_writer_reformat(transfer.writer, &format));
    turns(&transfer, SLOTS);
    CHECK_EQ(fake_things().graphs, 0);
    turns(&transfer, SLOTS);
    CHECK_EQ(fake_things().graphs, 2 * SLOTS);
    transfer_end(&transfer);
}

/* Whatever the driver refuses for a graph, the frame is sent without one, and so are the next frames. */
TEST_TIMEOUT(each_call_of_a_graph_fails_in_turn, 120)
{
    static const enum fake_function functions[] = {
        FAKE_GraphCreate,
        FAKE_GraphAddMemcpyNode,
        FAKE_GraphAddBatchMemOpNode,
        FAKE_GraphInstantiateWithFlags,
        FAKE_GraphLaunch,
        FAKE_GraphExecBatchMemOpNodeSetParams,
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        for (long nth = 1; nth <= 2; nth++) {
            struct transfer transfer = begin_graphs();
            fake_fail(functions[i], nth, SL_CU_NOT_SUPPORTED);
            turns(&transfer, 4 * SLOTS);
            CHECK(fake_failed());
            CHECK_LE(graph_sends(&transfer), 2 * SLOTS);
            fake_forget();
            turns(&transfer, 4 * SLOTS);
            CHECK_EQ(fake_calls(FAKE_GraphLaunch), 0);
            CHECK_EQ(fake_calls(FAKE_MemcpyAsync), 8 * SLOTS); /* there and back */
            CHECK_OK(sluice_writer_close(&transfer.writer));
            gpu_settle();
            CHECK_EQ(fake_things().graphs, 0);
            CHECK(!fake_broken_rule());
            transfer_end(&transfer);
        }
    }
}

/* And each other call of a send by graph. */
TEST_TIMEOUT(each_call_beside_a_graph_fails_in_turn, 120)
{
    struct transfer transfer = begin_graphs();
    char sentence[1024];

    turns(&transfer, 3 * SLOTS);
    fake_forget();
    transfer_frame(&transfer, 2, transfer.stream, 2, sentence);
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), 1);
    long calls[FAKE_FUNCTION_COUNT];
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        calls[f] = fake_calls((enum fake_function)f);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++) {
        bool of_graphs = f == FAKE_GraphLaunch || f == FAKE_GraphExecBatchMemOpNodeSetParams;
        if (!of_graphs && !transfer_restores((enum fake_function)f))
            transfer_fail_each(&transfer, 2, transfer.stream, (enum fake_function)f, calls[f]);
    }
    CHECK_GE(graph_sends(&transfer), 10 * SLOTS);
    transfer_end(&transfer);
}
