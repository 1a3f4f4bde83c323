/* SPDX-License-Identifier: MIT
 *
 * See frames.h.
 */
#include "gpu/frames.h"

struct sluice_format words_format(int64_t words)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    CHECK_OK(sluice_format_add_tensor(&format, "data", (struct sluice_dtype){ SLUICE_UINT, 32, 1 }, 1, &words));
    CHECK_OK(sluice_format_complete(&format));
    return format;
}

sluice_writer *words_writer(const char *name, int64_t words, uint32_t slots)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = words_format(words);
    sluice_writer *writer;

    test_dir();
    params.name = name;
    params.device = "cuda:0";
    params.format = &format;
    params.slots = params.max_slots = slots;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

sluice_reader *words_reader(const char *name, uint32_t hold)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    test_dir();
    params.name = name;
    params.hold = hold;
    params.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

uint64_t words_of(const struct sluice_frame *frame)
{
    struct sluice_array array;

    CHECK_OK(sluice_frame_array(frame, NULL, &array));
    return (uintptr_t)array.data;
}

uint32_t words_read(struct sl_cu_stream *stream, uint64_t bad)
{
    int mode = CAPTURE_RELAXED;
    uint32_t found = 77;

    CU(ThreadExchangeStreamCaptureMode, &mode);
    CU(MemcpyDtoHAsync, &found, bad, 4, stream);
    CU(StreamSynchronize, stream);
    CU(ThreadExchangeStreamCaptureMode, &mode);
    return found;
}

void words_warm_up(struct sl_cu_stream *stream)
{
    uint64_t memory = gpu_memory(64);

    gpu_spin(stream, 0);
    gpu_fill(stream, memory, 1, 7);
    gpu_store(stream, memory + 8, 0);
    gpu_compare(stream, memory, 1, 7, memory + 8);
    CHECK_EQ(words_read(stream, memory + 8), 0);
}
