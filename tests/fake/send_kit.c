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

static void leave(void)
{
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
}

struct transfer transfer_begin_with(uint32_t slots, int arrays, uint32_t graph)
{
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_writer_params writing = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params reading = SLUICE_READER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct transfer transfer;
    uint64_t address;
    int64_t size = TRANSFER_SIZE;
    void *memory[TRANSFER_KINDS];

    fake_use();
    test_dir();
    CHECK_OK(sluice_device_open(&transfer.device, "cuda:0"));
    CHECK_OK(sluice_stream_create(transfer.device, NULL, &transfer.stream));
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
    CHECK_OK(sluice_writer_open(&transfer.writer, &writing));
    CHECK_OK(sluice_reader_open(&transfer.reader, &reading));
    enter();
    memory[0] = malloc(TRANSFER_SIZE);
    CHECK_EQ(test_cuMemHostAlloc(&memory[1], TRANSFER_SIZE, 1), 0);
    CHECK_EQ(test_cuMemAlloc_v2(&address, TRANSFER_SIZE), 0);
    memory[2] = (void *)(uintptr_t)address;
    leave();
    for (int i = 0; i < TRANSFER_KINDS; i++)
        CHECK_OK(sluice_array_wrap(&transfer.arrays[i], "data", memory[i], u8, 1, &size, NULL));
    return transfer;
}

struct transfer transfer_begin(void)
{
    return transfer_begin_with(0, 1, 0);
}

void transfer_end(struct transfer *transfer)
{
    CHECK_OK(sluice_reader_close(&transfer->reader));
    CHECK_OK(sluice_writer_close(&transfer->writer));
    CHECK_OK(sluice_device_close(&transfer->device));
    free(transfer->arrays[0].data);
    gpu_settle();
    fake_end_contexts();
}

/* A blocked stream waits for this word. */
static _Atomic uint64_t go_on[512] __attribute__((aligned(4096)));

void transfer_block(struct transfer *transfer)
{
    uintptr_t native;

    CHECK_OK(sluice_stream_native(transfer->stream, &native));
    enter();
    CHECK_EQ(test_cuMemHostRegister_v2((void *)go_on, sizeof go_on, 3), 0);
    CHECK_EQ(test_cuStreamWaitValue64_v2((struct sl_cu_stream *)native, (uintptr_t)go_on, 1, 0), 0);
    leave();
}

void transfer_unblock(void)
{
    go_on[0] = 1;
}

void transfer_finish(void)
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

void transfer_frame(struct transfer *transfer, int kind, struct sluice_stream stream, char value, char sentence[1024])
{
    struct sluice_array *array = &transfer->arrays[kind];
    struct sluice_ticket ticket;
    struct sluice_frame frame;
    uint64_t before = 0;
    struct sluice_writer_stats stats = { .size = sizeof stats };

    sentence[0] = '\0';
    CHECK_OK(sluice_writer_stats(transfer->writer, &stats));
    before = stats.committed;
    memset(array->data, value, TRANSFER_SIZE);
    int r = sluice_writer_send(transfer->writer, array, 1, stream, &ticket);
    note(r, sentence);
    if (r == 0)
        note(sluice_ticket_wait(ticket, 20 * SLUICE_S), sentence);
    CHECK_OK(sluice_writer_stats(transfer->writer, &stats));
    CHECK_EQ(stats.committed, before + (r == 0));
    if (r != 0)
        return;
    do { /* one that a failure left behind may be ready before this one */
        r = sluice_reader_acquire(transfer->reader, stream, 20 * SLUICE_S, &frame);
        note(r, sentence);
        if (r != 0)
            return;
    } while (frame.sequence != stats.committed && sluice_reader_release(transfer->reader, &frame, stream) == 0);
    memset(array->data, 0, TRANSFER_SIZE);
    r = sluice_reader_fetch(transfer->reader, &frame, array, 1, stream, &ticket);
    note(r, sentence);
    if (r == 0)
        note(sluice_ticket_wait(ticket, 20 * SLUICE_S), sentence);
    if (r == 0 && !sentence[0]) {
        CHECK_EQ(((char *)array->data)[0], value);
        CHECK_EQ(((char *)array->data)[TRANSFER_SIZE - 1], value);
    }
    r = sluice_reader_release(transfer->reader, &frame, stream);
    note(r, sentence);
    if (r != 0)
        CHECK_OK(sluice_reader_release(transfer->reader, &frame, stream));
}

/* Failures that have no other way and must be reported; of the rest, a correct frame is enough. */
static bool must_be_said(enum fake_function function)
{
    return function == FAKE_MemcpyAsync || function == FAKE_PointerGetAttributes;
}

bool transfer_restores(enum fake_function function)
{
    return function == FAKE_CtxPopCurrent || function == FAKE_ThreadExchangeStreamCaptureMode;
}

void transfer_fail_each(struct transfer *transfer, int kind, struct sluice_stream stream, enum fake_function function,
                        long calls)
{
    char sentence[1024], after[1024];

    for (long nth = 1; nth <= calls; nth++) {
        fake_fail(function, nth, SL_CU_INVALID_VALUE);
        transfer_frame(transfer, kind, stream, (char)(nth + 1), sentence);
        if (!fake_failed())
            continue;
        if (!sentence[0] && must_be_said(function))
            FAIL("%s failed in call %ld of kind %d, and nobody said so", fake_name(function), nth, kind);
        if (sentence[0] && !strstr(sentence, fake_name(function)))
            FAIL("%s failed in call %ld of kind %d; the sentence: %s", fake_name(function), nth, kind, sentence);
        for (int i = 0; i < 6; i++) { /* as often as there are slots: none is lost */
            transfer_frame(transfer, kind, stream, (char)(nth + 2 + i), after);
            if (after[0])
                FAIL("after call %ld of %s failed (%s): %s", nth, fake_name(function), sentence, after);
        }
        const char *rule = fake_broken_rule();
        if (rule)
            FAIL("%s failed in call %ld, and a rule was broken: %s", fake_name(function), nth, rule);
    }
}
