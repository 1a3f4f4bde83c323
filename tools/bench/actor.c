/* SPDX-License-Identifier: MIT
 *
 * What the processes of a bench do: wait for each other, report failures, and open channels on the bench's device.
 */
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/term.h"
#include "bench.h"

#define SPINS_BEFORE_YIELD 20000
#define JOIN_TIME          (10 * SLUICE_S)

/* Why an actor failed; in memory shared by all processes of the bench. */
static struct {
    char text[512];
} * failure;

/* The GPU of the channels, NULL for host memory; and this actor's own handles on it. */
static const char *device;
static struct sluice_device gpu;
static struct sluice_stream stream;

void actor_set_device(const char *name)
{
    device = name;
}

bool actor_failure_open(void)
{
    if (!failure) {
        failure = mmap(NULL, sizeof *failure, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (failure == MAP_FAILED)
            failure = NULL;
    }
    if (failure)
        failure->text[0] = 0;
    return failure != NULL;
}

const char *actor_failure(void)
{
    return failure->text;
}

_Noreturn void actor_fail(const char *what)
{
    const char *sentence = sluice_last_error();
    snprintf(failure->text, sizeof failure->text, "%s%s%s", what, sentence[0] ? ": " : "", sentence);
    _exit(1);
}

void actor_check(int result, const char *what)
{
    if (result != SLUICE_OK)
        actor_fail(what);
}

void futex_wait(atomic_uint *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

void futex_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void actor_say(atomic_uint *word, uint32_t value)
{
    atomic_store(word, value);
    futex_wake(word);
}

void actor_await(atomic_uint *word, uint32_t value)
{
    uint32_t seen;
    while ((seen = atomic_load(word)) != value)
        futex_wait(word, seen);
}

void actor_await_spinning(atomic_uint *word, uint32_t value)
{
    for (unsigned spins = 1; atomic_load_explicit(word, memory_order_acquire) != value; spins++)
        if (spins % SPINS_BEFORE_YIELD == 0)
            sched_yield();
}

void actor_pause(int64_t ns)
{
    int64_t until = now_ns() + ns;
    while (now_ns() < until)
        continue;
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
    if (device)
        actor_check(sluice_device_host_alloc(gpu, bytes, &at), "allocating pinned memory failed");
    else if (posix_memalign(&at, 4096, bytes) != 0)
        actor_fail("out of memory for an array");
    memset(at, 1, bytes);
    return at;
}

sluice_writer *actor_writer(const char *name, uint64_t bytes, uint32_t slots)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    const int64_t shape[1] = { (int64_t)bytes };
    sluice_writer *writer = NULL;
    actor_check(sluice_format_add_tensor(&format, "bytes",
                                         (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 1, shape),
                "making a format failed");
    params.name = name;
    params.device = device;
    params.format = &format;
    params.slots = params.max_slots = slots;
    actor_check(sluice_writer_open(&writer, &params), "opening a writer failed");
    (void)actor_stream(); /* now, for it takes time */
    return writer;
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
    params.open_timeout_ns = JOIN_TIME;
    /* A place whose reader has just left, on a busy machine, may not be free yet. */
    int64_t until = now_ns() + JOIN_TIME;
    int result;
    while ((result = sluice_reader_open(&reader, &params)) == SLUICE_E_LIMIT && now_ns() < until)
        sleep_until(now_ns() + 10 * SLUICE_MS);
    actor_check(result, "opening a reader failed");
    (void)actor_stream();
    return reader;
}
