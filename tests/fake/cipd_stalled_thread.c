/* SPDX-License-Identifier: MIT
 *
 * A reader or writer of a cuda-link channel whose thread is suspended at a bad moment: after it queried a frame's
 * event, while its GPU and the other side go on.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake/cipd_kit.h"
#include "fake/fake.h"
#include "gpu/kit.h"
#include "harness/test.h"

#define WAIT  (50 * SLUICE_MS)
#define TRIES 10                /* before it counts as lost: the machine may also be suspended before the query */
#define GRACE (100 * SLUICE_MS) /* how long a closed writer keeps its memory */

int test_cuDevicePrimaryCtxRetain(struct sl_cu_context **context, int device);
int test_cuCtxSetCurrent(struct sl_cu_context *context);
int test_cuMemAlloc_v2(uint64_t *address, size_t size);
int test_cuMemHostAlloc(void **memory, size_t size, unsigned flags);
int test_cuStreamWaitValue64_v2(struct sl_cu_stream *stream, uint64_t address, uint64_t value, unsigned flags);
int test_cuStreamQuery(struct sl_cu_stream *stream);

struct still {
    struct sluice_device device;
    struct sluice_stream sending;
    struct sl_cu_stream *native;
    _Atomic uint64_t *gate; /* `sending` waits for it */
    struct sluice_array array;
    sluice_writer *writer;
    sluice_reader *reader;
    uint64_t sent;
};

static void open_reader(struct still *still, bool copy)
{
    struct sluice_cipd_reader_params cipd = SLUICE_CIPD_READER_PARAMS_INIT;
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;

    cipd.wait_ns = WAIT;
    cipd.copy = copy;
    params.name = cipd_channel();
    params.device = "cuda:0";
    params.open_timeout_ns = 10 * SLUICE_S;
    params.cipd = &cipd;
    CHECK_OK(sluice_reader_open(&still->reader, &params));
}

/* As if its writer were another program's: removes what only Sluice stores (docs/cuda-link-wire.md). */
static void disguise(void)
{
    static const char nothing[64];
    char path[80];

    snprintf(path, sizeof path, "/%s", cipd_channel() + strlen("cipd:"));
    int fd = shm_open(path, O_RDWR, 0);
    CHECK_GE(fd, 0);
    CHECK_EQ(pwrite(fd, nothing, sizeof nothing, 2048), sizeof nothing);
    CHECK_EQ(close(fd), 0);
}

static struct still begin_with(bool copy, bool disguised)
{
    struct still still = { .writer = NULL };
    struct sl_cu_context *context;
    uint64_t address;
    uintptr_t native;
    void *word;

    fake_use();
    struct sluice_format format = cipd_format();
    CHECK_OK(sluice_device_open(&still.device, "cuda:0"));
    CHECK_EQ(test_cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    CHECK_OK(sluice_stream_create(still.device, NULL, &still.sending));
    CHECK_OK(sluice_stream_native(still.sending, &native));
    still.native = (struct sl_cu_stream *)native;
    CHECK_EQ(test_cuMemAlloc_v2(&address, 512), 0);
    CHECK_EQ(test_cuMemHostAlloc(&word, 8, 0), 0);
    still.gate = word;
    CHECK_OK(sluice_array_wrap(&still.array, NULL, (void *)(uintptr_t)address, format.arrays[0].dtype, 3,
                               format.arrays[0].shape, NULL));
    CHECK_OK(cipd_open_writer(&still.writer, &format, false));
    if (disguised)
        disguise();
    open_reader(&still, copy);
    return still;
}

static struct still begin(bool copy)
{
    return begin_with(copy, false);
}

static void end(struct still *still)
{
    CHECK_OK(sluice_reader_close(&still->reader));
    CHECK_OK(sluice_writer_close(&still->writer));
    CHECK_OK(sluice_device_close(&still->device));
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
    fake_end_contexts();
}

static void send_behind_the_gate(struct still *still)
{
    CHECK_EQ(test_cuStreamWaitValue64_v2(still->native, (uintptr_t)still->gate, ++still->sent, SL_CU_WAIT_GEQ), 0);
    CHECK_OK(sluice_writer_send(still->writer, &still->array, 1, still->sending, NULL));
}

static void finish_frame(struct still *still)
{
    atomic_store(still->gate, still->sent);
    CHECK_SOON(test_cuStreamQuery(still->native) == 0, 20);
}

static void finish_and_delay(void *still)
{
    finish_frame(still);
    test_nap(WAIT);
}

/* A frame that was finished when the reader looked is not lost, however long ago it queried the event. */
TEST(cipd_a_frame_that_was_finished_meanwhile_is_not_lost)
{
    struct still still = begin(false);
    struct sluice_frame frame;
    int r = SLUICE_E_LOST;

    for (int i = 0; i < TRIES && r == SLUICE_E_LOST; i++) {
        send_behind_the_gate(&still);
        fake_behind(FAKE_EventQuery, finish_and_delay, &still); /* when the query has said that it is not finished */
        r = sluice_reader_acquire(still.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame);
    }
    CHECK_OK(r);
    CHECK_OK(sluice_reader_release(still.reader, &frame, SLUICE_ON_CPU));
    end(&still);
}

/* Nor does a writer drop a frame because none is finished: it has two slots, and the frame in the other one is finished
 * when it queries again. */
TEST(cipd_a_frame_that_was_finished_meanwhile_is_left_to_readers)
{
    struct still still = begin(false);
    struct sluice_frame frame;

    send_behind_the_gate(&still);
    for (int i = 0; i < 5; i++) {
        send_behind_the_gate(&still);
        fake_behind(FAKE_EventQuery, finish_and_delay, &still);
        CHECK_OK(sluice_writer_begin(still.writer, WAIT, &frame));
        CHECK_OK(sluice_writer_cancel(still.writer, &frame, SLUICE_ON_CPU));
    }
    end(&still);
}

static void close_and_delay(void *data)
{
    struct still *still = data;

    CHECK_OK(sluice_writer_close(&still->writer));
    test_nap(GRACE);
}

/* Its memory is no longer the writer's when acquire returns. */
TEST(cipd_a_frame_whose_writer_has_shut_meanwhile_is_not_whole)
{
    struct still still = begin_with(false, true);
    struct sluice_frame frame;

    send_behind_the_gate(&still);
    finish_frame(&still);
    fake_behind(FAKE_EventQuery, close_and_delay, &still); /* when the query has said that it is finished */
    CHECK_OK(sluice_reader_acquire(still.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_RESULT(sluice_reader_check(still.reader, &frame), SLUICE_E_LOST);
    CHECK_RESULT(sluice_reader_release(still.reader, &frame, SLUICE_ON_CPU), SLUICE_E_LOST);
    end(&still);
}

static void closed_meanwhile(bool copy, bool disguised)
{
    struct still still = begin_with(copy, disguised);
    struct sluice_frame frame;

    send_behind_the_gate(&still);
    finish_frame(&still);
    fake_behind(FAKE_EventQuery, close_and_delay, &still);
    CHECK_RESULT(sluice_reader_acquire(still.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame), SLUICE_CLOSED);
    end(&still);
}

/* Sluice's writers report when they free memory, so the frame is not even returned. */
TEST(cipd_a_frame_whose_writer_has_freed_meanwhile_is_lost)
{
    closed_meanwhile(false, false);
}

/* A copy from memory that may have been another's by then is not a frame. */
TEST(cipd_a_copy_whose_writer_has_shut_meanwhile_is_lost)
{
    closed_meanwhile(true, true);
}
TEST(cipd_a_copy_whose_writer_has_freed_meanwhile_is_lost)
{
    closed_meanwhile(true, false);
}

static void finish_and_delay_close(void *still)
{
    finish_frame(still);
    test_nap(SLUICE_S); /* which it gives the work on its slots */
}

/* From its first query on. */
static void begin_to_wait(void *still)
{
    fake_behind(FAKE_EventQuery, finish_and_delay_close, still);
}

/* Nor does a writer leave behind what its GPU had finished by then. */
TEST(cipd_a_writer_that_closes_sees_what_was_finished_meanwhile)
{
    struct still still = begin(false);

    CHECK_OK(sluice_reader_close(&still.reader));
    send_behind_the_gate(&still);
    fake_behind(FAKE_EventQuery, begin_to_wait, &still);
    CHECK_OK(sluice_writer_close(&still.writer));
    CHECK_OK(sluice_device_close(&still.device));
    gpu_settle();
    CHECK_EQ(fake_things().contexts, 0);
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
    fake_end_contexts();
}

/* ---- a query that does not return ---- */

struct hung {
    _Atomic int reached, go;
};

static void hang(void *data)
{
    struct hung *hung = data;

    atomic_store(&hung->reached, 1);
    while (!atomic_load(&hung->go))
        test_nap(SLUICE_MS);
}

static void open_ahead(struct still *still)
{
    struct sluice_cipd_reader_params cipd = SLUICE_CIPD_READER_PARAMS_INIT;
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;

    CHECK_OK(sluice_reader_close(&still->reader));
    cipd.wait_ns = 20 * SLUICE_S;
    params.name = cipd_channel();
    params.device = "cuda:0";
    params.ahead = 1;
    params.ahead_ns = SLUICE_S / 2;
    params.open_timeout_ns = 10 * SLUICE_S;
    params.cipd = &cipd;
    CHECK_OK(sluice_reader_open(&still->reader, &params));
}

/* A driver may wait for the stream on behalf of another thread of the program: the stream still goes on at its
 * deadline, other channels of the process are unaffected, and the reader closes. */
TEST_TIMEOUT(cipd_a_stream_goes_on_though_the_driver_does_not_answer, 60)
{
    struct still still = begin(false);
    struct hung hung = { 0, 0 };
    struct sluice_stream reading;
    struct sluice_frame frame;
    uintptr_t native;

    open_ahead(&still);
    CHECK_OK(sluice_stream_create(still.device, NULL, &reading));
    CHECK_OK(sluice_stream_native(reading, &native));
    send_behind_the_gate(&still);
    CHECK_OK(sluice_reader_acquire(still.reader, reading, 20 * SLUICE_S, &frame));
    CHECK(frame.flags & SLUICE_FRAME_AHEAD);
    fake_behind(FAKE_EventQuery, hang, &hung);
    CHECK_SOON(atomic_load(&hung.reached), 20);
    CHECK_SOON(test_cuStreamQuery((struct sl_cu_stream *)native) == 0, 20);
    CHECK_RESULT(sluice_reader_release(still.reader, &frame, reading), SLUICE_E_LOST);
    int64_t began = test_now();
    CHECK_OK(sluice_reader_close(&still.reader));
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    finish_frame(&still);
    CHECK_OK(sluice_writer_close(&still.writer));
    atomic_store(&hung.go, 1);
    CHECK_OK(sluice_device_close(&still.device));
    CHECK_SOON(fake_things().contexts == 0 && fake_things().registrations == 0, 20);
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
    fake_end_contexts();
}
