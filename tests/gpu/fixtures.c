/* SPDX-License-Identifier: MIT */
#include "gpu/fixtures.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const char *const kind_names[] = { "plain", "pinned", "registered", "ours", "the GPU's", "managed" };

static size_t pages(size_t size)
{
    return (size + 4095) / 4096 * 4096;
}

struct memory memory_make(enum kind kind, size_t size)
{
    struct memory memory = { .kind = kind, .size = size };
    struct sluice_device device;
    uint64_t address = 0;
    void *at = NULL;

    switch (kind) {
    case PLAIN: at = malloc(size); break;
    case PINNED: CU(MemHostAlloc, &at, size, SL_CU_HOST_PORTABLE); break;
    case REGISTERED:
        at = mmap(NULL, pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(at != MAP_FAILED);
        CU(MemHostRegister, at, pages(size), SL_CU_HOST_PORTABLE);
        break;
    case OURS:
        device = gpu_open();
        CHECK_OK(sluice_device_host_alloc(device, size, &at));
        CHECK_OK(sluice_device_close(&device)); /* it stays */
        break;
    case OF_GPU: CU(MemAlloc, &address, size); break;
    default: CU(MemAllocManaged, &address, size, 1); break;
    }
    memory.at = at ? at : (char *)(uintptr_t)address;
    CHECK(memory.at);
    return memory;
}

void memory_drop(struct memory *memory)
{
    switch (memory->kind) {
    case PLAIN: free(memory->at); break;
    case PINNED: CU(MemFreeHost, memory->at); break;
    case REGISTERED:
        CU(MemHostUnregister, memory->at);
        munmap(memory->at, pages(memory->size));
        break;
    case OURS: CHECK_OK(sluice_device_host_free((void **)&memory->at)); break;
    default: CU(MemFree, (uintptr_t)memory->at); break;
    }
    memory->at = NULL;
}

void memory_put(struct memory *memory, const char *bytes)
{
    struct sl_cu_stream *stream;

    if (memory->kind < OF_GPU) {
        memcpy(memory->at, bytes, memory->size);
        return;
    }
    stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    CU(MemcpyHtoDAsync, (uintptr_t)memory->at, bytes, memory->size, stream);
    CU(StreamSynchronize, stream);
    CU(StreamDestroy, stream);
}

void copy_out(char *bytes, const void *at, size_t size)
{
    struct sl_cu_stream *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);

    CU(MemcpyDtoHAsync, bytes, (uintptr_t)at, size, stream);
    CU(StreamSynchronize, stream);
    CU(StreamDestroy, stream);
}

void memory_get(char *bytes, const struct memory *memory)
{
    if (memory->kind < OF_GPU)
        memcpy(bytes, memory->at, memory->size);
    else
        copy_out(bytes, memory->at, memory->size);
}

char *pattern(size_t size, unsigned seed)
{
    char *bytes = malloc(size);

    CHECK(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)((i * 2654435761u + seed * 97u) >> 13);
    return bytes;
}

/* ---- a channel within this process ---- */

static struct fixture begin(const struct sluice_format *format, uint32_t graph)
{
    struct sluice_writer_params writing = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params reading = SLUICE_READER_PARAMS_INIT;
    struct fixture fixture = { .writer = NULL };

    gpu_use(0);
    fixture.device = gpu_open();
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.stream));
    fixture.native = gpu_native(fixture.stream);
    gpu_spin(fixture.native, 0); /* loads the kernels */
    CHECK_OK(sluice_stream_synchronize(fixture.stream));
    test_dir();
    writing.name = reading.name = "cam";
    writing.device = "cuda:0";
    writing.format = format;
    writing.resize = 1;
    writing.no_graphs = !graph;
    reading.hold = 2;
    reading.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_writer_open(&fixture.writer, &writing));
    CHECK_OK(sluice_reader_open(&fixture.reader, &reading));
    return fixture;
}

struct fixture fixture_begin(const struct sluice_format *format)
{
    return begin(format, 0);
}

struct fixture fixture_by_graph(const struct sluice_format *format)
{
    return begin(format, 1);
}

struct fixture fixture_tensor(struct sluice_dtype dtype, int ndim, const int64_t *shape)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    CHECK_OK(sluice_format_add_tensor(&format, "data", dtype, ndim, shape));
    CHECK_OK(sluice_format_complete(&format));
    return fixture_begin(&format);
}

struct fixture fixture_bytes(int64_t bytes)
{
    return fixture_tensor(U8, 1, &bytes);
}

void fixture_end(struct fixture *fixture)
{
    CHECK_OK(sluice_reader_close(&fixture->reader));
    CHECK_OK(sluice_writer_close(&fixture->writer));
    CHECK_OK(sluice_device_close(&fixture->device));
    gpu_end();
}

struct sluice_array bytes_at(const void *at, int64_t bytes)
{
    struct sluice_array array;

    CHECK_OK(sluice_array_wrap(&array, "data", (void *)(uintptr_t)at, U8, 1, &bytes, NULL));
    return array;
}

/* The last committed frame: until it is ready, an older one is the newest that is. */
struct sluice_frame fixture_acquire(struct fixture *fixture)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_stats(fixture->writer, &stats));
    for (;;) {
        CHECK_OK(sluice_reader_acquire(fixture->reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        if (frame.sequence == stats.committed)
            return frame;
        CHECK_OK(sluice_reader_release(fixture->reader, &frame, SLUICE_ON_CPU));
    }
}

void fixture_check(struct fixture *fixture, const char *expected, size_t size)
{
    struct sluice_frame frame = fixture_acquire(fixture);
    struct sluice_array slot;
    char *got = malloc(size);

    CHECK_OK(sluice_frame_array(&frame, NULL, &slot));
    CHECK_EQ(slot.nbytes, size);
    copy_out(got, slot.data, size);
    CHECK_MEM(got, expected, size);
    free(got);
    CHECK_OK(sluice_reader_release(fixture->reader, &frame, SLUICE_ON_CPU));
}
