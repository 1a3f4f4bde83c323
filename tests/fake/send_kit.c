/* SPDX-License-Identifier: MIT */
#include "fake/send_kit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/kit.h"
#include "harness/test.h"

int test_cuDevicePrimaryCtxRetain(struct sl_cu_context **context, int device);
int test_cuCtxSetCurrent(struct sl_cu_context *context);
int test_cuMemHostAlloc(void **memory, size_t size, unsigned flags);
int test_cuMemAlloc_v2(uint64_t *address, size_t size);
int test_cuMemHostRegister_v2(void *address, size_t size, unsigned flags);
int test_cuStreamWaitValue64_v2(struct sl_cu_stream *stream, uint64_t address, uint64_t value, unsigned flags);
int test_cuCtxSynchronize(void);

static void enter(void)
{
    struct sl_cu_context *context;

    CHECK_EQ(test_cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
}

static void leave(void) { CHECK_EQ(test_cuCtxSetCurrent(NULL), 0); }

struct sending sending_begin_with(uint32_t slots, int arrays, uint32_t graph)
{
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_writer_params writing = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params reading = SLUICE_READER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sending sending;
    uint64_t address;
    int64_t size = SENDING_SIZE;
    void *memory[SENDING_KINDS];

    fake_use();
    test_dir();
    CHECK_OK(sluice_device_open(&sending.device, "cuda:0"));
    CHECK_OK(sluice_stream_create(sending.device, NULL, &sending.stream));
    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &size));
    if (arrays > 1)
        CHECK_OK(sluice_format_add_tensor(&format, "more", u8, 1, &size));
    CHECK_OK(sluice_format_complete(&format));
    writing.slots = writing.max_slots = slots;
    writing.no_graphs = !graph;
    writing.name = reading.name = "cam";
    writing.device = "cuda:0";
    writing.format = &format;
    reading.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_writer_open(&sending.writer, &writing));
    CHECK_OK(sluice_reader_open(&sending.reader, &reading));
    enter();
    memory[0] = malloc(SENDING_SIZE);
    CHECK_EQ(test_cuMemHostAlloc(&memory[1], SENDING_SIZE, 1), 0);
    CHECK_EQ(test_cuMemAlloc_v2(&address, SENDING_SIZE), 0);
    memory[2] = (void *)(uintptr_t)address;
    leave();
    for (int i = 0; i < SENDING_KINDS; i++)
        CHECK_OK(sluice_array_wrap(&sending.arrays[i], "data", memory[i], u8, 1, &size, NULL));
    return sending;
}

struct sending sending_begin(void)
{
    return sending_begin_with(0, 1, 0);
}

void sending_end(struct sending *sending)
{
    CHECK_OK(sluice_reader_close(&sending->reader));
    CHECK_OK(sluice_writer_close(&sending->writer));
    CHECK_OK(sluice_device_close(&sending->device));
    free(sending->arrays[0].data);
    gpu_settle();
    fake_end_contexts();
}

/* The stream waits for this word. */
static _Atomic uint64_t go_on[512] __attribute__((aligned(4096)));

void sending_hold_up(struct sending *sending)
{
    uintptr_t native;

    CHECK_OK(sluice_stream_native(sending->stream, &native));
    enter();
    CHECK_EQ(test_cuMemHostRegister_v2((void *)go_on, sizeof go_on, 3), 0);
    CHECK_EQ(test_cuStreamWaitValue64_v2((struct sl_cu_stream *)native, (uintptr_t)go_on, 1, 0), 0);
    leave();
}

void sending_go_on(void)
{
    go_on[0] = 1;
}

void sending_finish(void)
{
    enter();
    CHECK_EQ(test_cuCtxSynchronize(), 0);
    leave();
}

static void note(int r, char sentence[1024])
{
    if (r != 0 && !sentence[0])
        snprintf(sentence, 1024, "%s", sluice_last_error());
}

void sending_turn(struct sending *sending, int kind, struct sluice_stream stream, char value, char sentence[1024])
{
    struct sluice_array *array = &sending->arrays[kind];
    struct sluice_ticket ticket;
    struct sluice_frame frame;
    uint64_t before = 0;
    struct sluice_writer_stats stats = { .size = sizeof stats };

    sentence[0] = '\0';
    CHECK_OK(sluice_writer_stats(sending->writer, &stats));
    before = stats.committed;
    memset(array->data, value, SENDING_SIZE);
    int r = sluice_writer_send(sending->writer, array, 1, stream, &ticket);
    note(r, sentence);
    if (r == 0)
        note(sluice_ticket_wait(ticket, 20 * SLUICE_S), sentence);
    CHECK_OK(sluice_writer_stats(sending->writer, &stats));
    CHECK_EQ(stats.committed, before + (r == 0));
    if (r != 0)
        return;
    do { /* one that was left by a failure may be ready before this */
        r = sluice_reader_acquire(sending->reader, stream, 20 * SLUICE_S, &frame);
        note(r, sentence);
        if (r != 0)
            return;
    } while (frame.sequence != stats.committed && sluice_reader_release(sending->reader, &frame, stream) == 0);
    memset(array->data, 0, SENDING_SIZE);
    r = sluice_reader_fetch(sending->reader, &frame, array, 1, stream, &ticket);
    note(r, sentence);
    if (r == 0)
        note(sluice_ticket_wait(ticket, 20 * SLUICE_S), sentence);
    if (r == 0 && !sentence[0]) {
        CHECK_EQ(((char *)array->data)[0], value);
        CHECK_EQ(((char *)array->data)[SENDING_SIZE - 1], value);
    }
    r = sluice_reader_release(sending->reader, &frame, stream);
    note(r, sentence);
    if (r != 0)
        CHECK_OK(sluice_reader_release(sending->reader, &frame, stream));
}

/* What cannot be done in another way; of the rest, a frame that is right is enough. */
static bool must_be_said(enum fake_function function)
{
    return function == FAKE_MemcpyAsync || function == FAKE_PointerGetAttributes;
}

bool sending_puts_back(enum fake_function function)
{
    return function == FAKE_CtxPopCurrent || function == FAKE_ThreadExchangeStreamCaptureMode;
}

void sending_fail_each(struct sending *sending, int kind, struct sluice_stream stream, enum fake_function function, long calls)
{
    char sentence[1024], after[1024];

    for (long nth = 1; nth <= calls; nth++) {
        fake_fail(function, nth, SL_CU_INVALID_VALUE);
        sending_turn(sending, kind, stream, (char)(nth + 1), sentence);
        if (!fake_failed())
            continue;
        if (!sentence[0] && must_be_said(function))
            FAIL("%s failed in call %ld of kind %d, and nobody said so", fake_name(function), nth, kind);
        if (sentence[0] && !strstr(sentence, fake_name(function)))
            FAIL("%s failed in call %ld of kind %d; the sentence: %s", fake_name(function), nth, kind, sentence);
        for (int i = 0; i < 6; i++) { /* as often as there are slots: none is lost */
            sending_turn(sending, kind, stream, (char)(nth + 2 + i), after);
            if (after[0])
                FAIL("after call %ld of %s failed (%s): %s", nth, fake_name(function), sentence, after);
        }
        const char *rule = fake_broken_rule();
        if (rule)
            FAIL("%s failed in call %ld, and a rule was broken: %s", fake_name(function), nth, rule);
    }
}
