/* SPDX-License-Identifier: MIT
 *
 * The time that the calls of a frame's path take with the installed driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "gpu/kit.h"
#include "sync/sync.h"

extern const struct sl_sync_ops sl_sync_cuda;

#define ROUNDS 4000

static struct {
    struct sluice_stream stream, standard;
    struct sluice_event event;
    struct sl_cu_stream *native;
    struct sl_cu_context *context;
    sl_word *word;
    struct sl_sync_pages *pages, *functions; /* the same word, signalled in two ways */
} costs;

static void cost_current(void)
{
    struct sl_cu_context *now;
    CU(CtxGetCurrent, &now);
}

static void cost_id(void)
{
    unsigned long long id;
    CU(CtxGetId, costs.context, &id);
}

static void cost_no_id(void)
{
    unsigned long long id;
    CHECK_EQ(cu.CtxGetId(NULL, &id), SL_CU_INVALID_CONTEXT);
}

static void cost_push_pop(void)
{
    struct sl_cu_context *now;
    CU(CtxPushCurrent, costs.context);
    CU(CtxPopCurrent, &now);
}

static void cost_exchange(void)
{
    int mode = CAPTURE_RELAXED;
    CU(ThreadExchangeStreamCaptureMode, &mode);
    CU(ThreadExchangeStreamCaptureMode, &mode);
}

static void cost_is_capturing(void)
{
    int status;
    CU(StreamIsCapturing, costs.native, &status);
}

static void cost_write(void)
{
    CU(StreamWriteValue64, costs.native, (uintptr_t)costs.word, 1, 0);
}

static void cost_signal(void)
{
    struct sl_signal signal = { costs.word, 2 };
    CHECK_OK(sl_sync_cuda.signal(costs.pages, costs.stream, &signal, 1));
}

/* From the call until the CPU sees the signal. */
static void seen(struct sl_sync_pages *pages)
{
    static uint64_t value = 100;
    struct sl_signal signal = { costs.word + 16, ++value };

    CHECK_OK(sl_sync_cuda.signal(pages, costs.stream, &signal, 1));
    while (sl_load(costs.word + 16, acquire) != value)
        sl_pause();
}

static void cost_seen(void)
{
    seen(costs.pages);
}

static void cost_function(void)
{
    struct sl_signal signal = { costs.word, 2 };
    CHECK_OK(sl_sync_cuda.signal(costs.functions, costs.stream, &signal, 1));
}

static void cost_function_seen(void)
{
    seen(costs.functions);
}

static void cost_write_default(void)
{
    CU(StreamWriteValue64, NULL, (uintptr_t)costs.word, 1, 0);
}

static void cost_signal_default(void)
{
    struct sl_signal signal = { costs.word, 2 };
    CHECK_OK(sl_sync_cuda.signal(costs.pages, costs.standard, &signal, 1));
}

static void cost_signal_four(void)
{
    struct sl_signal signals[4];
    for (int i = 0; i < 4; i++)
        signals[i] = (struct sl_signal){ costs.word + i * 8, 3 };
    CHECK_OK(sl_sync_cuda.signal(costs.pages, costs.stream, signals, 4));
}

static void cost_record(void)
{
    CHECK_OK(sluice_event_record(costs.event, costs.stream));
}

static void cost_event_query(void)
{
    CHECK(sluice_event_query(costs.event) >= 0);
}

static void cost_stream_query(void)
{
    CHECK(sluice_stream_query(costs.stream) >= 0);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void measure(const char *name, void (*call)(void), FILE *file)
{
    static int64_t times[ROUNDS / 16];
    struct sl_cu_context *now;

    for (size_t i = 0; i < ROUNDS / 16; i++) {
        int64_t began = test_now();
        for (int k = 0; k < 16; k++)
            call();
        times[i] = (test_now() - began) / 16;
        CU(CtxPushCurrent, costs.context);
        CU(StreamSynchronize, costs.native); /* so that the queue never fills */
        CU(CtxPopCurrent, &now);
    }
    qsort(times, ROUNDS / 16, sizeof *times, by_size);
    fprintf(file, "{\"fact\": \"cost\", \"call\": \"%s\", \"p50_ns\": %lld, \"p99_ns\": %lld}\n", name,
            (long long)times[ROUNDS / 32], (long long)times[ROUNDS / 16 * 99 / 100]);
}

TEST_TIMEOUT(what_the_calls_cost, 60)
{
    struct sluice_device device;
    FILE *file = gpu_facts();

    gpu_begin();
    costs.context = gpu_use(0);
    costs.word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK_OK(sl_sync_cuda.attach("cuda:0", (void *)costs.word, 4096, true, &costs.pages));
    CHECK(setenv("SLUICE_WITHOUT", "memops", 1) == 0);
    CHECK_OK(sl_sync_cuda.attach("cuda:0", (void *)costs.word, 4096, true, &costs.functions));
    CHECK(unsetenv("SLUICE_WITHOUT") == 0);
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &costs.stream));
    CHECK_OK(sluice_stream_default(device, &costs.standard));
    CHECK_OK(sluice_event_create(device, 0, &costs.event));
    costs.native = gpu_native(costs.stream);
    measure("cuCtxGetCurrent", cost_current, file);
    measure("cuCtxGetId", cost_id, file);
    measure("cuCtxPushCurrent + PopCurrent", cost_push_pop, file);
    measure("cuThreadExchangeStreamCaptureMode, twice", cost_exchange, file);
    measure("cuStreamIsCapturing", cost_is_capturing, file);
    measure("cuStreamWriteValue64", cost_write, file);
    measure("signal, context current", cost_signal, file);
    measure("signal of 4 words, context current", cost_signal_four, file);
    measure("signal seen by the CPU", cost_seen, file);
    measure("signal by a function", cost_function, file);
    measure("signal by a function seen by the CPU", cost_function_seen, file);
    measure("cuStreamWriteValue64, default stream", cost_write_default, file);
    measure("signal, default stream", cost_signal_default, file);
    measure("event record, context current", cost_record, file);
    measure("event query, context current", cost_event_query, file);
    measure("stream query, context current", cost_stream_query, file);
    cu.CtxSetCurrent(NULL);
    measure("cuCtxGetCurrent, none current", cost_current, file);
    measure("cuCtxGetId, none current: it fails", cost_no_id, file);
    measure("signal, context not current", cost_signal, file);
    measure("event record, context not current", cost_record, file);
    gpu_use(0);
    CHECK_OK(sluice_device_close(&device));
    sl_sync_cuda.detach(costs.functions);
    sl_sync_cuda.detach(costs.pages);
    munmap((void *)costs.word, 4096);
    fclose(file);
    gpu_end();
}
