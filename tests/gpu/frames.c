/* SPDX-License-Identifier: MIT
 *
 * See frames.h.
 */
#include "gpu/frames.h"

sluice_writer *frames_writer(const char *name, int64_t words, uint32_t slots)
{
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_format format = channel_format(words);
    sluice_writer *writer;

    params.name = name;
    params.format = &format;
    params.slots = params.max_slots = slots;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

sluice_reader *frames_reader(const char *name, uint32_t hold)
{
    struct sluice_reader_params params = channel_reader_params(hold);
    sluice_reader *reader;

    params.name = name;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

struct sluice_array frames_array(uintptr_t at, int64_t words)
{
    struct sluice_array array;

    CHECK_OK(
        sluice_array_wrap(&array, "data", (void *)at, (struct sluice_dtype){ SLUICE_UINT, 32, 1 }, 1, &words, NULL));
    return array;
}

uint32_t frames_read(struct sl_cu_stream *stream, uint64_t bad)
{
    int mode = CAPTURE_RELAXED;
    uint32_t found = 77;

    CU(ThreadExchangeStreamCaptureMode, &mode);
    CU(MemcpyDtoHAsync, &found, bad, 4, stream);
    CU(StreamSynchronize, stream);
    CU(ThreadExchangeStreamCaptureMode, &mode);
    return found;
}

void frames_warm_up(struct sl_cu_stream *stream)
{
    uint64_t memory = gpu_memory(64);

    gpu_spin(stream, 0);
    gpu_fill(stream, memory, 1, 7);
    gpu_store(stream, memory + 8, 0);
    gpu_compare(stream, memory, 1, 7, memory + 8);
    CHECK_EQ(frames_read(stream, memory + 8), 0);
}

uint32_t frames_held(sluice_reader *reader, struct sluice_stream stream)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct sluice_frame frame;

    int r = sluice_reader_acquire(reader, stream, 0, &frame);
    CHECK(r == SLUICE_TIMEOUT || r == SLUICE_E_LIMIT);
    CHECK_OK(sluice_reader_stats(reader, &stats));
    return stats.held;
}

void frames_end_capture(struct sl_cu_stream *stream)
{
    struct sl_cu_graph *graph = NULL;
    size_t nodes = 77;

    CU(StreamEndCapture, stream, &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CHECK_EQ(nodes, 0);
    CU(GraphDestroy, graph);
}
