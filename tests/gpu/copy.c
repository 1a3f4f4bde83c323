/* SPDX-License-Identifier: MIT
 *
 * The driver calls that Sluice is built on: copies of all kinds, pointer attributes, and host functions in a stream.
 */
#include <string.h>

#include "gpu/kit.h"

#define COUNT 1024
#define BYTES (COUNT * 4)

static uint32_t *pinned(void)
{
    void *memory;

    CU(MemHostAlloc, &memory, BYTES, SL_CU_HOST_PORTABLE | SL_CU_HOST_DEVICEMAP);
    memset(memory, 0, BYTES);
    return memory;
}

static void number(uint32_t *words, uint32_t first)
{
    for (uint32_t i = 0; i < COUNT; i++)
        words[i] = first + i;
}

static void check_numbers(const uint32_t *words, uint32_t first)
{
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK_EQ(words[i], first + i);
}

TEST(copies_in_their_order)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    uint64_t first = gpu_memory(BYTES), second = gpu_memory(BYTES);
    uint32_t *in = pinned(), *out = pinned();

    struct gpu_gate gate = gpu_gate_new();

    number(in, 100);
    gpu_gate_close(&gate, stream);
    CU(MemcpyHtoDAsync, first, in, BYTES, stream);
    CU(MemcpyDtoDAsync, second, first, BYTES, stream);
    CU(MemsetD8Async, first, 0, BYTES, stream);
    CU(MemcpyDtoHAsync, out, second, BYTES, stream);
    CHECK_EQ(cu.StreamQuery(stream), SL_CU_NOT_READY);
    gpu_gate_open(&gate);
    CU(StreamSynchronize, stream);
    gpu_gate_end(&gate);
    check_numbers(out, 100);
    CU(MemcpyAsync, second, first, BYTES, stream);
    CU(MemcpyAsync, (uintptr_t)out, second, BYTES, stream);
    CU(StreamSynchronize, stream);
    CHECK_EQ(out[0] + out[COUNT - 1], 0);
    CU(MemFreeHost, in);
    CU(MemFreeHost, out);
    gpu_end_on_stream(stream);
}

/* The middle 8 by 4 of 32 by 16 words, into rows of another pitch. */
TEST(copies_of_a_window)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    uint64_t memory = gpu_memory(BYTES);
    uint32_t *in = pinned(), *out = pinned();
    struct sl_cu_copy_2d copy = { .from_x = 12 * 4,
                                  .from_y = 6,
                                  .from_type = SL_CU_MEMORY_DEVICE,
                                  .from_device = memory,
                                  .from_pitch = 32 * 4,
                                  .to_x = 4,
                                  .to_y = 1,
                                  .to_type = SL_CU_MEMORY_HOST,
                                  .to_host = out,
                                  .to_pitch = 16 * 4,
                                  .width = 8 * 4,
                                  .height = 4 };

    number(in, 0);
    CU(MemcpyHtoDAsync, memory, in, BYTES, stream);
    CU(Memcpy2DAsync, &copy, stream);
    CU(StreamSynchronize, stream);
    for (uint32_t y = 0; y < 16; y++) {
        for (uint32_t x = 0; x < 16; x++) {
            bool inside = y >= 1 && y < 5 && x >= 1 && x < 9;
            CHECK_EQ(out[y * 16 + x], inside ? (y + 5) * 32 + x + 11 : 0);
        }
    }
    CU(MemFreeHost, in);
    CU(MemFreeHost, out);
    gpu_end_on_stream(stream);
}

TEST(copies_that_leave_the_memory_are_refused)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    uint64_t memory = gpu_memory(BYTES);
    uint32_t *out = pinned();

    CHECK_NE(cu.MemcpyDtoHAsync(out, 0x10, 4, stream), 0);
    CHECK_NE(cu.MemcpyDtoDAsync(memory, 0x10, 4, stream), 0);
    CU(MemcpyDtoHAsync, out, memory, BYTES, stream); /* and nothing is broken */
    CU(StreamSynchronize, stream);
    CU(MemFreeHost, out);
    gpu_end_on_stream(stream);
}

/* ---- pointers ---- */

struct about {
    unsigned type;
    int ordinal;
    unsigned char managed;
    uint64_t start;
    size_t size;
    unsigned long long id;
};

static struct about ask(uint64_t pointer)
{
    struct about about;
    int attributes[] = { SL_CU_POINTER_MEMORY_TYPE, SL_CU_POINTER_ORDINAL,    SL_CU_POINTER_IS_MANAGED,
                         SL_CU_POINTER_RANGE_START, SL_CU_POINTER_RANGE_SIZE, SL_CU_POINTER_BUFFER_ID };
    void *values[] = { &about.type, &about.ordinal, &about.managed, &about.start, &about.size, &about.id };

    memset(&about, 0x55, sizeof about);
    CU(PointerGetAttributes, 6, attributes, values, pointer);
    return about;
}

TEST(pointer_attributes)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    uint32_t *host = pinned();
    uint64_t memory, again;
    int loose;

    CU(MemAlloc, &memory, 3 * BYTES);
    struct about about = ask(memory + BYTES);
    CHECK_EQ(about.type, SL_CU_MEMORY_DEVICE);
    CHECK_EQ(about.ordinal, 0);
    CHECK_EQ(about.managed, 0);
    CHECK_EQ(about.start, memory);
    CHECK_EQ(about.size, 3 * BYTES);
    CHECK_EQ(ask((uintptr_t)host).type, SL_CU_MEMORY_HOST);

    /* An unknown pointer is no error, and freed memory is unknown. */
    CHECK_EQ(ask((uintptr_t)&loose).type, 0);
    CHECK_EQ(ask((uintptr_t)&loose).ordinal, -2);
    CU(MemFree, memory);
    CHECK_EQ(ask(memory).type, 0);
    CHECK_NE(cu.PointerGetAttribute(&about.type, SL_CU_POINTER_MEMORY_TYPE, (uintptr_t)&loose), 0);

    /* An address may be reused; its buffer id is not. */
    for (int i = 0; i < 20; i++) {
        CU(MemAlloc, &again, 3 * BYTES);
        CHECK_NE(ask(again).id, about.id);
        CU(MemFree, again);
    }
    CU(MemFreeHost, host);
    gpu_end_on_stream(stream);
}

TEST(copies_between_gpus)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(2);
    struct sl_cu_context *here = gpu_use(0), *there = gpu_use(1);
    uint64_t far;
    uint32_t *in = pinned(), *out = pinned();

    CU(MemAlloc, &far, BYTES);
    CHECK_EQ(ask(far).ordinal, 1);
    gpu_use(0);
    uint64_t near = gpu_memory(BYTES);
    number(in, 7);
    CU(MemcpyHtoDAsync, near, in, BYTES, stream);
    CU(MemcpyPeerAsync, far, there, near, here, BYTES, stream);
    CU(MemsetD8Async, near, 0, BYTES, stream);
    CU(MemcpyDtoDAsync, near, far, BYTES, stream);
    CU(MemcpyDtoHAsync, out, near, BYTES, stream);
    CU(StreamSynchronize, stream);
    check_numbers(out, 7);
    gpu_use(1);
    CU(MemFreeHost, in);
    CU(MemFreeHost, out);
    CU(MemFree, far);
    gpu_use(0);
    gpu_end_on_stream(stream);
}

/* ---- host functions ---- */

static struct gpu_gate gate;

static void note(void *open)
{
    *(int *)open = gate.open ? 1 : -1;
}

TEST(a_host_function_runs_after_the_work)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    int open = 0;

    gate = gpu_gate_new();
    gpu_gate_close(&gate, stream);
    CU(LaunchHostFunc, stream, note, &open); /* does not wait for it */
    CHECK_EQ(open, 0);
    gpu_gate_open(&gate);
    CU(StreamSynchronize, stream);
    CHECK_EQ(open, 1);
    gpu_gate_end(&gate);
    gpu_end_on_stream(stream);
}
