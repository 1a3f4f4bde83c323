/* SPDX-License-Identifier: MIT
 *
 * What send and fetch refuse: memory that does not exist, and streams of others.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/fixtures.h"

TEST(memory_that_was_freed)
{
    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    static const enum kind kinds[] = { PINNED, REGISTERED, OF_GPU, MANAGED };

    for (int i = 0; i < 4; i++) {
        struct memory memory = memory_make(kinds[i], 4096);
        struct sluice_array array = bytes_at(memory.at, 4096);
        NOTE("%s", kind_names[kinds[i]]);
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL)); /* it is known now */
        struct sluice_frame frame = fixture_acquire(&fixture);
        CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &array, 1, SLUICE_ON_CPU, NULL));
        memory_drop(&memory);
        CHECK_SAYS(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_INVALID,
                   "has been freed since");
        CHECK_HAS(sluice_last_error(), "array 'data'");
        CHECK_HAS(sluice_last_error(), "'cam'");
        CHECK_SAYS(sluice_reader_fetch(fixture.reader, &frame, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_INVALID,
                   "has been freed since");
        CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
    }
    struct sluice_array array = bytes_at((void *)(uintptr_t)4096, 4096);
    CHECK_SAYS(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_INVALID, "was freed");
    fixture_end(&fixture);
}

/* Memory at the address of freed memory is checked again. */
TEST(other_memory_at_the_same_place)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;

    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    struct memory memory = memory_make(REGISTERED, 4096);
    char *place = memory.at, expected[4096];
    struct sluice_array array = bytes_at(place, 4096);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
    memory_drop(&memory);
    CHECK(mmap(place, 4096, PROT_READ | PROT_WRITE, flags, -1, 0) == place);
    for (int i = 0; i < 3; i++) {
        memset(place, i, 4096);
        memset(expected, i, 4096);
        if (i == 1)
            CU(MemHostRegister, place, 4096, SL_CU_HOST_PORTABLE);
        if (i == 2)
            CU(MemHostUnregister, place);
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
        fixture_check(&fixture, expected, 4096);
    }
    munmap(place, 4096);
    fixture_end(&fixture);
}

TEST(memory_that_ends_too_soon)
{
    gpu_begin();
    struct fixture fixture = fixture_bytes(16 << 20);
    struct memory memory = memory_make(OF_GPU, 4096);
    struct sluice_array array = bytes_at(memory.at, 16 << 20);
    CHECK_SAYS(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_INVALID,
               "it says 16777216 bytes");
    CHECK_HAS(sluice_last_error(), "array 'data'");

    /* Memory that is pinned in part is not pinned. */
    char *place = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), expected[8192];
    CHECK(place != MAP_FAILED);
    CU(MemHostRegister, place, 4096, SL_CU_HOST_PORTABLE);
    memset(place, 3, 8192);
    memset(expected, 3, 8192);
    array = bytes_at(place, 8192);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
    fixture_check(&fixture, expected, 8192);
    CU(MemHostUnregister, place);
    munmap(place, 8192);
    memory_drop(&memory);
    fixture_end(&fixture);
}

TEST(streams_of_others)
{
    struct sluice_device host;
    struct sluice_stream foreign;

    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    struct memory memory = memory_make(OF_GPU, 4096);
    struct sluice_array array = bytes_at(memory.at, 4096);
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
    struct sluice_frame frame = fixture_acquire(&fixture);
    CHECK_OK(sluice_device_open(&host, "host"));
    CHECK_OK(sluice_stream_create(host, NULL, &foreign));
    CHECK_SAYS(sluice_writer_send(fixture.writer, &array, 1, foreign, NULL), SLUICE_E_WRONG_DEVICE,
               "channel 'cam': stream");
    CHECK_SAYS(sluice_reader_fetch(fixture.reader, &frame, &array, 1, foreign, NULL), SLUICE_E_WRONG_DEVICE,
               "channel 'cam': stream");
    foreign.id = 0;
    CHECK_RESULT(sluice_writer_send(fixture.writer, &array, 1, foreign, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_reader_fetch(fixture.reader, &frame, &array, 1, foreign, NULL), SLUICE_E_INVALID);
    foreign = fixture.stream;
    CHECK_OK(sluice_stream_destroy(&fixture.stream));
    CHECK_RESULT(sluice_writer_send(fixture.writer, &array, 1, foreign, NULL), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_reader_fetch(fixture.reader, &frame, &array, 1, foreign, NULL), SLUICE_E_CLOSED);
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_device_close(&host));
    memory_drop(&memory);
    fixture_end(&fixture);
}

TEST(memory_of_another_gpu)
{
    struct sluice_device other;
    struct sluice_stream foreign;
    uint64_t far;

    gpu_begin_with(2);
    struct fixture fixture = fixture_bytes(LARGE);
    char *bytes = pattern(LARGE, 8), *got = calloc(1, LARGE);
    gpu_use(1);
    CU(MemAlloc, &far, LARGE);
    struct memory memory = { .kind = OF_GPU, .at = (char *)(uintptr_t)far, .size = LARGE };
    memory_put(&memory, bytes);
    gpu_use(0);
    struct sluice_array array = bytes_at(memory.at, LARGE);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, i ? fixture.stream : SLUICE_ON_CPU, NULL));
        fixture_check(&fixture, bytes, LARGE);
    }
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
    struct sluice_frame frame = fixture_acquire(&fixture);
    gpu_use(1);
    memory_put(&memory, got);
    gpu_use(0);
    CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &array, 1, SLUICE_ON_CPU, NULL));
    gpu_use(1);
    memory_get(got, &memory);
    CHECK_MEM(got, bytes, LARGE);
    gpu_use(0);

    CHECK_OK(sluice_device_open(&other, "cuda:1"));
    CHECK_OK(sluice_stream_create(other, NULL, &foreign));
    CHECK_SAYS(sluice_writer_send(fixture.writer, &array, 1, foreign, NULL), SLUICE_E_WRONG_DEVICE,
               "channel 'cam': the stream is one of \"cuda:1\"");
    CHECK_SAYS(sluice_reader_fetch(fixture.reader, &frame, &array, 1, foreign, NULL), SLUICE_E_WRONG_DEVICE,
               "channel 'cam': the stream");
    CHECK_OK(sluice_device_close(&other));
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
    gpu_use(1);
    memory_drop(&memory);
    gpu_use(0);
    free(bytes);
    free(got);
    fixture_end(&fixture);
}

/* Some libraries still make contexts of their own. */
TEST(memory_of_another_context)
{
    struct sl_cu_context *own;

    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    char *bytes = pattern(4096, 4);
    CU(CtxCreate, &own, 0, 0);
    struct memory memory = memory_make(OF_GPU, 4096);
    memory_put(&memory, bytes);
    gpu_use(0);
    struct sluice_array array = bytes_at(memory.at, 4096);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, i ? fixture.stream : SLUICE_ON_CPU, NULL));
        fixture_check(&fixture, bytes, 4096);
    }
    CU(CtxSetCurrent, own);
    memory_drop(&memory);
    CU(CtxDestroy, own);
    gpu_use(0);
    CHECK_SAYS(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_INVALID, "freed since");
    free(bytes);
    fixture_end(&fixture);
}

/* For a late frame the library queries the driver, but not the program's stream, which might begin to capture before
 * that query. Here the stream is gone. */
TEST(a_late_frame_has_no_stream_of_the_programs_asked)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct gpu_gate gate;
    struct sluice_frame frame;
    struct sluice_stream stream;
    sluice_writer *writer;
    int64_t size = 4096;

    gpu_begin();
    struct fixture fixture = fixture_bytes(4096);
    struct sl_cu_stream *native = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    gate = gpu_gate_new();
    CHECK_OK(sluice_stream_wrap(fixture.device, (uintptr_t)native, NULL, NULL, &stream));
    CHECK_OK(sluice_format_add_tensor(&format, "data", U8, 1, &size));
    params.name = "gone";
    params.device = "cuda:0";
    params.format = &format;
    params.slots = params.max_slots = 3;
    CHECK_OK(sluice_writer_open(&writer, &params));
    gpu_gate_close(&gate, native);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(sluice_writer_begin(writer, 0, &frame));
        CHECK_OK(sluice_writer_commit(writer, &frame, stream));
    }
    CU(StreamDestroy, native);                                                        /* ends when its work is done */
    CHECK_RESULT(sluice_writer_begin(writer, SLUICE_S / 10, &frame), SLUICE_NO_SLOT); /* polls 20 times */
    gpu_gate_open(&gate);
    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_stream_destroy(&stream));
    fixture_end(&fixture);
}
