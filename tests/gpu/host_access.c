/* SPDX-License-Identifier: MIT
 *
 * A GPU's memory sent on a channel in host memory, where the CPU copies: it cannot access that memory, and the program
 * must live on.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake/fake.h"
#include "gpu/fixtures.h"

#define BYTES 4096

/* As on a GPU; the fake driver's memory is otherwise the CPU's as well. */
static void begin(void)
{
    gpu_begin();
    void *library = dlopen(sl_cuda_library(), RTLD_NOW | RTLD_NOLOAD);
    CHECK(library);
    struct fake_machine *machine = dlsym(library, "fake_machine");
    if (machine)
        machine->apart = true;
    dlclose(library);
    gpu_use(0);
}

static struct fixture host_fixture(void)
{
    struct sluice_writer_params writing = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params reading = SLUICE_READER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct fixture fixture = { .writer = NULL };
    int64_t bytes = BYTES;

    CHECK_OK(sluice_format_add_tensor(&format, "data", U8, 1, &bytes));
    writing.name = reading.name = "cam";
    writing.format = &format;
    writing.slots = 4;
    reading.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_writer_open(&fixture.writer, &writing));
    CHECK_OK(sluice_reader_open(&fixture.reader, &reading));
    return fixture;
}

static void end(struct fixture *fixture)
{
    CHECK_OK(sluice_reader_close(&fixture->reader));
    CHECK_OK(sluice_writer_close(&fixture->writer));
    gpu_end();
}

static void refused(struct fixture *fixture, const struct sluice_array *array, const struct sluice_frame *frame)
{
    char bytes[BYTES] = { 0 };
    struct sluice_array own = bytes_at(bytes, BYTES);
    struct sluice_ticket ticket = { 42 };
    struct sluice_frame header = { .meta = array->data, .meta_size = 16 };

    CHECK_SAYS(sluice_writer_send_frame(fixture->writer, &header, &own, 1, SLUICE_ON_CPU, NULL), SLUICE_E_INVALID,
               "channel 'cam': the CPU cannot access the 16 bytes of metadata");
    CHECK_SAYS(sluice_writer_send(fixture->writer, array, 1, SLUICE_ON_CPU, &ticket), SLUICE_E_INVALID,
               "a GPU's, or were freed");
    CHECK_HAS(sluice_last_error(), "channel 'cam': array 'data'");
    CHECK_HAS(sluice_last_error(), "tensor.cpu()");
    CHECK_SAYS(sluice_reader_fetch(fixture->reader, frame, array, 1, SLUICE_ON_CPU, &ticket), SLUICE_E_INVALID,
               "fetch into host memory");
    CHECK_EQ(ticket.id, 42);
    CHECK_SAYS(sluice_array_copy(&own, array), SLUICE_E_INVALID, "to copy from: the CPU cannot access");
    CHECK_SAYS(sluice_array_copy(array, &own), SLUICE_E_INVALID, "to copy into: the CPU cannot access");
}

TEST(a_gpus_memory_on_a_host_channel_is_refused)
{
    begin();
    struct fixture fixture = host_fixture();
    char *expected = pattern(BYTES, 3);
    for (int kind = 0; kind < KINDS; kind++) {
        struct memory memory = memory_make(kind, BYTES), plain = memory_make(PLAIN, BYTES);
        struct sluice_array array = bytes_at(memory.at, BYTES), first = bytes_at(plain.at, BYTES);
        struct sluice_frame frame;
        NOTE("%s", kind_names[kind]);
        memcpy(plain.at, expected, BYTES);
        CHECK_OK(sluice_writer_send(fixture.writer, &first, 1, SLUICE_ON_CPU, NULL));
        CHECK_OK(sluice_reader_acquire(fixture.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        if (kind == OF_GPU) {
            refused(&fixture, &array, &frame);
        } else {
            CHECK_OK(sluice_reader_fetch(fixture.reader, &frame, &array, 1, SLUICE_ON_CPU, NULL));
            CHECK_MEM(memory.at, expected, BYTES);
            CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
        }
        CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
        memory_drop(&memory);
        memory_drop(&plain);
    }
    struct sluice_writer_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_writer_stats(fixture.writer, &stats));
    CHECK_EQ(stats.cancelled, 0); /* no frame was begun for what was refused */
    free(expected);
    end(&fixture);
}

/* No answer is kept: what was the CPU's memory a frame ago may now be a GPU's, or unmapped. */
TEST(an_address_is_checked_for_each_frame)
{
    begin();
    struct fixture fixture = host_fixture();
    char *place = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(place != MAP_FAILED);
    struct sluice_array array = bytes_at(place, BYTES);
    struct sluice_frame frame;
    CHECK_OK(sluice_writer_send(fixture.writer, &array, 1, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_acquire(fixture.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK(mprotect(place, BYTES, PROT_NONE) == 0); /* as a driver reserves the addresses of its GPUs' memory */
    refused(&fixture, &array, &frame);
    CHECK_OK(sluice_reader_release(fixture.reader, &frame, SLUICE_ON_CPU));
    munmap(place, BYTES);
    end(&fixture);
}
