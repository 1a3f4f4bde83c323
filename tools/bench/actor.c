/* SPDX-License-Identifier: MIT
 *
 * What the processes of a bench do: report failures, and open channels on the bench's device.
 */
#include <string.h>

#include "../common/term.h"
#include "bench.h"
#include "kit/failure.h"
#include "kit/memory.h"

#define OPEN_TIMEOUT (10 * SLUICE_S)

/* The GPU of the channels, NULL for host memory; and this actor's own handles on it. */
static const char *device;
static struct sluice_device gpu;
static struct sluice_stream stream;

void actor_set_device(const char *name)
{
    device = name;
}

_Noreturn void actor_fail(const char *what)
{
    const char *sentence = sluice_last_error();
    die("%s%s%s", what, sentence[0] ? ": " : "", sentence);
}

void actor_check(int result, const char *what)
{
    if (result != SLUICE_OK)
        actor_fail(what);
}

bool actor_on_gpu(void)
{
    return device != NULL;
}

struct sluice_stream actor_stream(void)
{
    if (!device)
        return SLUICE_ON_CPU;
    if (stream.id == 0) {
        actor_check(sluice_device_open(&gpu, device), "opening the GPU failed");
        actor_check(sluice_stream_create(gpu, NULL, &stream), "creating a stream failed");
    }
    return stream;
}

void *actor_memory(uint64_t bytes)
{
    void *at = NULL;
    (void)actor_stream(); /* opens the GPU */
    if (device) {
        actor_check(sluice_device_host_alloc(gpu, bytes, &at), "allocating pinned memory failed");
        memset(at, 1, bytes);
    } else if (!(at = memory_own(bytes))) {
        actor_fail("out of memory for an array");
    }
    return at;
}

sluice_writer *actor_writer(const char *name, uint64_t bytes, uint32_t slots)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    const int64_t flat[1] = { (int64_t)bytes }, rows[3] = { 1, (int64_t)bytes / 4, 4 }; /* as cuda-link has them */
    bool cipd = strncmp(name, "cipd:", 5) == 0;
    sluice_writer *writer = NULL;
    actor_check(sluice_format_add_tensor(&format, "bytes", (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, cipd ? 3 : 1,
                                         cipd ? rows : flat),
                "making a format failed");
    params.name = name;
    params.device = device;
    params.format = &format;
    params.slots = params.max_slots = slots;
    actor_check(sluice_writer_open(&writer, &params), "opening a writer failed");
    (void)actor_stream(); /* opening it takes time */
    return writer;
}

sluice_reader *actor_waiting_reader(const char *name)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader = NULL;
    params.name = name;
    params.device = device;
    params.open_timeout_ns = SLUICE_LATER;
    actor_check(sluice_reader_open(&reader, &params), "opening a reader failed");
    return reader;
}

sluice_reader *actor_reader(const char *name, uint32_t mode, uint32_t depth, int64_t spin_ns)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader = NULL;
    params.name = name;
    params.device = device;
    params.mode = mode;
    params.depth = depth;
    params.spin_ns = spin_ns;
    params.open_timeout_ns = OPEN_TIMEOUT;
    /* On a busy machine the entry of a reader that has just left may not be free yet. */
    int64_t until = clock_ns() + OPEN_TIMEOUT;
    int result;
    while ((result = sluice_reader_open(&reader, &params)) == SLUICE_E_LIMIT && clock_ns() < until)
        sleep_until(clock_ns() + 10 * SLUICE_MS);
    actor_check(result, "opening a reader failed");
    (void)actor_stream();
    return reader;
}
