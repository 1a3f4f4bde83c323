/* SPDX-License-Identifier: MIT
 *
 * Threads of a program that uses a GPU in other ways too: their contexts stay as they were, and no thread holds up
 * another.
 */
#include <pthread.h>
#include <stdlib.h>

#include "gpu/channel.h"

/* Makes all calls once. */
static void live(struct sluice_device device)
{
    struct sluice_stream stream, other, standard, wrapped;
    struct sluice_stream_info info = { .size = sizeof info };
    struct sluice_event event, later;
    double ms;

    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_stream_create(device, NULL, &other));
    CHECK_OK(sluice_stream_default(device, &standard));
    CHECK_OK(sluice_stream_wrap(device, (uintptr_t)gpu_native(other), NULL, NULL, &wrapped));
    CHECK_OK(sluice_event_create(device, SLUICE_EVENT_TIMING, &event));
    CHECK_OK(sluice_event_create(device, SLUICE_EVENT_TIMING, &later));
    CHECK_OK(sluice_event_record(event, stream));
    CHECK_OK(sluice_stream_wait_event(wrapped, event));
    CHECK_OK(sluice_stream_wait_stream(standard, wrapped));
    CHECK_OK(sluice_event_record(later, standard));
    CHECK_OK(sluice_event_synchronize(later));
    CHECK_OK(sluice_event_query(event));
    CHECK_OK(sluice_event_elapsed(event, later, &ms));
    CHECK_OK(sluice_stream_synchronize(standard));
    CHECK_OK(sluice_stream_query(stream));
    CHECK_OK(sluice_stream_info(standard, &info));
    CHECK_OK(sluice_device_synchronize(device));
    CHECK_OK(sluice_event_destroy(&event));
    CHECK_OK(sluice_stream_destroy(&wrapped));
    CHECK_OK(sluice_stream_destroy(&other));
    CHECK_OK(sluice_device_reset(device));
}

static struct sl_cu_context *current(void)
{
    struct sl_cu_context *context;

    CU(CtxGetCurrent, &context);
    return context;
}

static void *live_without_context(void *shared)
{
    CHECK(current() == NULL);
    live(*(struct sluice_device *)shared);
    CHECK(current() == NULL);
    return NULL;
}

TEST(a_thread_needs_no_context)
{
    struct sluice_device device;
    pthread_t thread;

    gpu_begin();
    device = gpu_open();
    CHECK(current() == NULL);
    CHECK(pthread_create(&thread, NULL, live_without_context, &device) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    live(device);
    CHECK(current() == NULL);
    CHECK_OK(sluice_device_close(&device));
}

static void move_frames(struct sluice_stream stream)
{
    const int64_t words = CHANNEL_WORDS;
    uint32_t *in = calloc(CHANNEL_WORDS, 4), *out = calloc(CHANNEL_WORDS, 4);
    sluice_writer *writer = channel_writer();
    sluice_reader *reader = channel_reader(1);
    struct sluice_array from, to;
    struct sluice_ticket ticket = { 0 };
    struct sluice_frame frame;

    for (uint32_t i = 0; i < CHANNEL_WORDS; i++)
        in[i] = i * 2654435761u;
    CHECK_OK(sluice_array_wrap(&from, "data", in, (struct sluice_dtype){ SLUICE_UINT, 32, 1 }, 1, &words, NULL));
    CHECK_OK(sluice_array_wrap(&to, "data", out, (struct sluice_dtype){ SLUICE_UINT, 32, 1 }, 1, &words, NULL));
    CHECK_OK(sluice_writer_send(writer, &from, 1, stream, &ticket));
    CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
    CHECK(current() == NULL);
    CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_fetch(reader, &frame, &to, 1, stream, &ticket));
    CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
    CHECK_MEM(out, in, CHANNEL_WORDS * 4);
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_writer_cancel(writer, &frame, stream));
    CHECK(current() == NULL);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK(current() == NULL);
    free(in);
    free(out);
}

static void *frames_without_context(void *shared)
{
    struct sluice_device device = *(struct sluice_device *)shared;
    struct sluice_stream stream;

    CHECK(current() == NULL);
    move_frames(SLUICE_ON_CPU);
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    move_frames(stream);
    CHECK_OK(sluice_stream_destroy(&stream));
    CHECK(current() == NULL);
    return NULL;
}

/* The specification's test 22, with frames. */
TEST(a_thread_needs_no_context_to_write_and_read_frames)
{
    struct sluice_device device;
    pthread_t thread;

    gpu_begin();
    device = gpu_open();
    CHECK(pthread_create(&thread, NULL, frames_without_context, &device) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_OK(sluice_device_close(&device));
}

TEST(a_context_of_the_programs_own_stays_current)
{
    struct sl_cu_context *own, *below = NULL;
    struct sluice_device device;

    gpu_begin();
    CU(CtxCreate, &own, 0, 0);
    device = gpu_open();
    CHECK(current() == own);
    live(device);
    CHECK(current() == own);
    CHECK_OK(sluice_device_close(&device));
    CHECK(current() == own);
    CU(CtxPopCurrent, &below);
    CHECK(below == own);
    CHECK(current() == NULL); /* no context was left current */
    CU(CtxDestroy, own);
}

struct waiter {
    struct sluice_stream stream;
    _Atomic bool done;
};

static void *wait_for(void *shared)
{
    struct waiter *waiter = shared;

    CHECK_OK(sluice_stream_synchronize(waiter->stream));
    waiter->done = true;
    return NULL;
}

/* One thread waits for long work; another works meanwhile, on another stream. */
TEST(a_thread_that_waits_holds_up_nobody)
{
    struct waiter waiter = { .done = false };
    struct gpu_gate gate;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_event event;
    pthread_t thread;

    gpu_begin();
    gpu_use(0);
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &waiter.stream));
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_event_create(device, 0, &event));
    gate = gpu_gate_new();
    gpu_gate_close(&gate, gpu_native(waiter.stream));
    CHECK(pthread_create(&thread, NULL, wait_for, &waiter) == 0);
    test_nap(10 * SLUICE_MS); /* usually it waits by then */
    for (int i = 0; i < 200; i++) {
        CHECK_OK(sluice_event_record(event, stream));
        CHECK_OK(sluice_event_synchronize(event));
    }
    CHECK(!waiter.done);
    gpu_gate_open(&gate);
    CHECK(pthread_join(thread, NULL) == 0);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}

struct crowd {
    struct sluice_device device;
};

static void *use_device_at_once(void *shared)
{
    struct crowd *crowd = shared;

    for (long i = 0; i < test_scale(100); i++) {
        struct sluice_stream stream;
        struct sluice_event event;
        CHECK_OK(sluice_stream_create(crowd->device, NULL, &stream));
        CHECK_OK(sluice_event_create(crowd->device, 0, &event));
        CHECK_OK(sluice_event_record(event, stream));
        CHECK_OK(sluice_event_synchronize(event));
        CHECK_OK(sluice_event_destroy(&event));
        CHECK_OK(sluice_stream_destroy(&stream));
    }
    return NULL;
}

TEST(many_threads_on_one_device)
{
    struct crowd crowd;
    pthread_t threads[8];

    gpu_begin();
    crowd.device = gpu_open();
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, use_device_at_once, &crowd) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_OK(sluice_device_close(&crowd.device));
}
