/* SPDX-License-Identifier: MIT
 *
 * Tries on a GPU what channels need: memory that other processes can map, and words in shared
 * memory.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "device/device.h"
#include "os/os.h"
#include "util/checked.h"
#include "util/result.h"

#define FRAME_BYTES  ((uint64_t)8 << 20)
#define ROUNDS       51
#define WAIT_TIMEOUT (5 * SLUICE_S) /* other work on the GPU may delay the trial */

struct test {
    struct sl_cuda_context *context;
    struct sl_cu_stream *stream; /* our own, so nobody captures on it */
    uint32_t can;
    bool stuck; /* the stream may be blocked: what could not be freed without waiting for it is kept */
    struct sluice_device_trial *trial;
};

/* Polls until the stream has done its work: synchronizing it has no time limit. */
static int wait_stream(struct test *test, const char *what)
{
    int64_t began = sl_os_now();
    int code;

    while ((code = sl_cuda.StreamQuery(test->stream)) == SL_CU_NOT_READY) {
        if (sl_os_now() - began < WAIT_TIMEOUT)
            continue;
        test->stuck = true;
        return sl_fail(SLUICE_E_DRIVER, "%s: %s within %lld s; is the GPU taken up by another program?",
                       test->context->name, what, (long long)(WAIT_TIMEOUT / SLUICE_S));
    }
    return sl_cuda_check(test->context, code, "cuStreamQuery");
}

/* ---- memory ---- */

static int check_frame(struct test *test, const unsigned char *frame, size_t size, unsigned char value)
{
    size_t wrong = 0;

    for (size_t i = 0; i < size; i++)
        wrong += frame[i] != value;
    return wrong == 0 ? 0
                      : sl_fail(SLUICE_E_CORRUPT,
                                "%s: of a frame of %zu bytes that came back through read-only "
                                "memory %zu are wrong",
                                test->context->name, size, wrong);
}

/* Fills the memory through one mapping and copies it back through the other. */
static int copy_frame(struct test *test, uint64_t writable, uint64_t read_only, size_t size)
{
    unsigned char value = (unsigned char)(sl_os_random() % 255 + 1);
    void *frame;
    int r = sl_cu(test->context, MemHostAlloc, &frame, size, 0);
    if (r != 0)
        return r;
    memset(frame, 0, size);
    int64_t began = sl_os_now();
    r = sl_cu(test->context, MemsetD8Async, writable, value, size, test->stream);
    if (r == 0)
        r = sl_cu(test->context, MemcpyDtoHAsync, frame, read_only, size, test->stream);
    if (r == 0)
        r = wait_stream(test, "a frame that was filled and copied did not come back");
    if (r == 0)
        test->trial->copy_ns = sl_os_now() - began;
    if (r == 0)
        r = check_frame(test, frame, size, value);
    if (!test->stuck)
        sl_cuda.MemFreeHost(frame);
    return r;
}

/* Imports memory from a descriptor, and maps it read-only as a reader does. */
static int import_frame(struct test *test, uint64_t writable, int fd, size_t size, int64_t began)
{
    uint64_t taken, read_only;

    int r = sl_cuda_memory_import(test->context, fd, &taken);
    if (r != 0)
        return r;
    r = sl_cuda_memory_map(test->context, taken, size, false, &read_only);
    sl_cuda_memory_release(test->context, taken);
    if (r != 0)
        return r;
    test->trial->memory_ns = sl_os_now() - began;
    r = copy_frame(test, writable, read_only, size);
    if (!test->stuck)
        sl_cuda_memory_unmap(test->context, read_only, size);
    return r;
}

static int test_memory(struct test *test)
{
    uint64_t handle, writable, size = FRAME_BYTES;
    size_t unit;
    int fd;

    int r = sl_cuda_memory_unit(test->context, &unit);
    if (r == 0 && !sl_checked_align(size, unit, &size))
        r = sl_fail(SLUICE_E_DRIVER, "%s: memory comes in units of %zu bytes", test->context->name, unit);
    int64_t began = sl_os_now();
    if (r == 0)
        r = sl_cuda_memory_make(test->context, "a trial", (size_t)size, &handle, &fd);
    if (r != 0)
        return r;
    r = sl_cuda_memory_map(test->context, handle, (size_t)size, true, &writable);
    sl_cuda_memory_release(test->context, handle);
    if (r == 0) {
        r = import_frame(test, writable, fd, (size_t)size, began);
        if (!test->stuck)
            sl_cuda_memory_unmap(test->context, writable, (size_t)size);
    }
    sl_os_close(fd);
    return r;
}

/* ---- words ---- */

static int earlier(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int64_t median(int64_t times[ROUNDS])
{
    qsort(times, ROUNDS, sizeof *times, earlier);
    return times[ROUNDS / 2];
}

/* The GPU writes a word, and the CPU polls it. */
static int write_word(struct test *test, sl_word *word, uint64_t address, uint64_t value, int64_t *time)
{
    int64_t began = sl_os_now();
    int r = sl_cu(test->context, StreamWriteValue64, test->stream, address, value, 0);

    while (r == 0 && sl_load(word, acquire) != value) {
        if (sl_os_now() - began < WAIT_TIMEOUT)
            continue;
        test->stuck = true;
        r = sl_fail(SLUICE_E_DRIVER,
                    "%s: a word that was queued on a stream did not come within %lld s; is the GPU "
                    "taken up by another program?",
                    test->context->name, (long long)(WAIT_TIMEOUT / SLUICE_S));
    }
    *time = sl_os_now() - began;
    return r;
}

/* The CPU writes a word that a stream of the GPU waits for. */
static int wait_word(struct test *test, sl_word *word, uint64_t address, uint64_t value, int64_t *time)
{
    int r = sl_cu(test->context, StreamWaitValue64, test->stream, address, value, SL_CU_WAIT_GEQ);
    if (r != 0)
        return r;
    int64_t began = sl_os_now();
    sl_store(word, value, release);
    r = wait_stream(test, "a stream that waits for a word of the CPU did not go on");
    *time = sl_os_now() - began;
    return r;
}

typedef int one_round(struct test *test, sl_word *word, uint64_t address, uint64_t value, int64_t *time);

/* Repeated rounds on a word that the GPU accesses at `registered` and the CPU at `word`. */
static int measure_rounds(struct test *test, one_round *round, sl_word *word, void *registered, bool writable,
                          int64_t *p50)
{
    int64_t times[ROUNDS];
    uint64_t address;

    int r = sl_cuda_register(test->context, registered, sl_os_page_size(), writable);
    if (r != 0)
        return r;
    r = sl_cuda_address(test->context, registered, &address);
    for (int i = 0; r == 0 && i < ROUNDS; i++)
        r = round(test, word, address, (uint64_t)i + 1, &times[i]);
    if (r == 0)
        *p50 = median(times);
    if (test->stuck)
        return r; /* unregistering would wait for the stream */
    int left = sl_cuda_unregister(test->context, registered);
    return r == 0 ? left : r;
}

/* The same memory, mapped for writing and again read-only, as a reader maps it. */
static int test_words_in(struct test *test, int fd)
{
    size_t page = sl_os_page_size();
    void *writable, *read_only;

    int r = sl_os_map(fd, 2 * page, true, &writable);
    if (r != 0)
        return r;
    r = measure_rounds(test, write_word, writable, writable, true, &test->trial->word_ns);
    /* If calls block until the stream's work is done (CUDA_LAUNCH_BLOCKING), the wait would block
     * on a word that this thread writes only afterwards. */
    if (r == 0 && test->can & SLUICE_CAN_REGISTER_READ_ONLY && !sl_cuda_calls_block()) {
        r = sl_os_map(fd, 2 * page, false, &read_only);
        if (r == 0) {
            /* A page of its own, registered once, as in a reader's process. */
            r = measure_rounds(test, wait_word, (sl_word *)((char *)writable + page), (char *)read_only + page, false,
                               &test->trial->wait_ns);
            if (!test->stuck)
                sl_os_unmap(read_only, 2 * page);
        }
    }
    if (!test->stuck)
        sl_os_unmap(writable, 2 * page);
    return r;
}

static int test_words(struct test *test)
{
    int fd;
    int r = sl_os_memory_create("trial", 2 * sl_os_page_size(), &fd);

    if (r == 0) {
        r = test_words_in(test, fd);
        sl_os_close(fd);
    }
    return r;
}

/* ---- all of it ---- */

static bool has(uint32_t can, uint32_t wanted)
{
    return (can & wanted) == wanted;
}

static int test_all(struct test *test)
{
    static const uint32_t memory = SLUICE_CAN_MAP | SLUICE_CAN_EXPORT;
    static const uint32_t words = SLUICE_CAN_QUEUE_WORDS | SLUICE_CAN_REGISTER;
    size_t unused, total;

    int r = sl_cu(test->context, MemGetInfo, &unused, &total);
    if (r != 0)
        return r;
    test->trial->memory_free = unused;
    if (has(test->can, memory)) {
        r = test_memory(test);
        test->trial->did |= memory;
    }
    if (r == 0 && has(test->can, words)) {
        r = test_words(test);
        test->trial->did |= words;
        if (test->trial->wait_ns)
            test->trial->did |= SLUICE_CAN_REGISTER_READ_ONLY;
    }
    return r;
}

static int test_on_stream(struct test *test)
{
    int r = sl_cu(test->context, StreamCreateWithPriority, &test->stream, SL_CU_STREAM_NON_BLOCKING, 0);
    if (r != 0)
        return r;
    r = test_all(test);
    /* Its result adds nothing: a stream that failed has reported that before. */
    sl_cuda.StreamDestroy(test->stream);
    return r;
}

/* The last context that was not closed, as closing it could block for as long as the stream waits. */
static struct sl_cuda_context *_Atomic left_behind;

int sl_device_selftest(const char *name, uint32_t can, struct sluice_device_trial *trial)
{
    struct test test = { .can = can, .trial = trial };
    struct sl_cuda_scope scope;
    int64_t began = sl_os_now();

    int r = sl_cuda_context_open(name, &test.context);
    if (r != 0)
        return r;
    trial->context_ns = sl_os_now() - began;
    r = sl_cuda_enter(test.context, SL_CUDA_RELAXED, &scope);
    if (r == 0) {
        r = test_on_stream(&test);
        sl_cuda_leave(&scope);
    }
    if (test.stuck)
        left_behind = test.context;
    else
        sl_cuda_context_close(test.context);
    return r;
}
