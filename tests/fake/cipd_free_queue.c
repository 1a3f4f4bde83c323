/* SPDX-License-Identifier: MIT
 *
 * Slots of cuda-link's channels that are given back while the GPU works, and where no thread can be started for that.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "fake/cipd_kit.h"
#include "fake/fake.h"
#include "gpu/kit.h"
#include "harness/test.h"

int test_cuDevicePrimaryCtxRetain(struct sl_cu_context **context, int device);
int test_cuCtxSetCurrent(struct sl_cu_context *context);
int test_cuMemHostAlloc(void **memory, size_t size, unsigned flags);
int test_cuStreamCreateWithPriority(struct sl_cu_stream **stream, unsigned flags, int priority);
int test_cuStreamWaitValue64_v2(struct sl_cu_stream *stream, uint64_t address, uint64_t value, unsigned flags);

static char said[4096]; /* what was logged */

static void note(void *user, enum sluice_log_level level, const char *text)
{
    size_t length = strlen(said);

    (void)user, (void)level;
    snprintf(said + length, sizeof said - length, "%s\n", text);
}

static sluice_writer *begin(void)
{
    struct sluice_format format = cipd_format();
    sluice_writer *writer;

    fake_use();
    sluice_log_set(note, NULL, SLUICE_LOG_WARN);
    CHECK_OK(cipd_open_writer(&writer, &format, false));
    return writer;
}

static void end(sluice_writer *writer)
{
    CHECK_OK(sluice_writer_close(&writer));
    fake_end_contexts();
}

/* Queues work that does not end before the gate is opened: no memory is freed until then. */
static _Atomic uint64_t *hold_gpu(void)
{
    struct sl_cu_context *context;
    struct sl_cu_stream *stream;
    void *word;

    CHECK_EQ(test_cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    CHECK_EQ(test_cuMemHostAlloc(&word, 8, 0), 0);
    CHECK_EQ(test_cuStreamCreateWithPriority(&stream, SL_CU_STREAM_NON_BLOCKING, 0), 0);
    CHECK_EQ(test_cuStreamWaitValue64_v2(stream, (uintptr_t)word, 1, SL_CU_WAIT_GEQ), 0);
    return word;
}

/* Freeing memory waits for all work on the GPU; the failed call does not. */
TEST(cipd_slots_of_a_failed_session_are_freed_by_another_thread)
{
    sluice_writer *writer = begin();
    struct fake_things before = fake_things();

    _Atomic uint64_t *gate = hold_gpu();
    fake_fail(FAKE_MemAlloc, 2, SL_CU_OUT_OF_MEMORY);
    CHECK_RESULT(sluice_cipd_set_slots(writer, 3), SLUICE_E_NO_MEMORY);
    CHECK(fake_failed());
    struct sluice_cipd_info info = { .size = sizeof info };
    CHECK_OK(sluice_cipd_writer_info(writer, &info));
    CHECK_EQ(info.slot_count, 2);
    CHECK_EQ(info.left_behind, 1);
    atomic_store(gate, 1);
    CHECK_SOON((CHECK_OK(sluice_cipd_writer_info(writer, &info)), info.left_behind == 0), 20);
    CHECK_EQ(fake_things().allocations, before.allocations);
    CHECK_STR(said, "");
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
    end(writer);
}

ROLE(cipd_opens_on_a_busy_gpu)
{
    struct sluice_format format = cipd_format();
    struct sluice_device device;
    sluice_writer *writer;

    CHECK_EQ(argc, 2);
    cipd_set_name(argv[1]);
    fake_use();
    sluice_log_set(note, NULL, SLUICE_LOG_WARN);
    CHECK_OK(sluice_device_open(&device, "cuda:0"));
    fake_machine.delay = FAKE_ENDLESS;
    CHECK_SAYS(cipd_open_writer(&writer, &format, false), SLUICE_TIMEOUT, "does not end");
    fake_release();
    CHECK_HAS(said, cipd_channel() + strlen("cipd:"));
    CHECK_HAS(said, "stay until the process ends");
    CHECK_OK(sluice_device_close(&device));
    return 0;
}

/* Memory that cannot be freed at all is named, too; in a process of its own, as it stays. */
TEST(cipd_a_slot_that_cannot_be_freed_is_named)
{
    struct child child = role_start("cipd_opens_on_a_busy_gpu", cipd_channel(), NULL);

    CHECK_EQ(child_wait(&child, 60), 0);
}

/* No stack can be that large, so no thread starts from now on. */
static void forbid_threads(bool forbid)
{
    pthread_attr_t attributes;
    static size_t usual;

    CHECK_EQ(pthread_getattr_default_np(&attributes), 0);
    if (forbid)
        CHECK_EQ(pthread_attr_getstacksize(&attributes, &usual), 0);
    CHECK_EQ(pthread_attr_setstacksize(&attributes, forbid ? (size_t)1 << 47 : usual), 0);
    CHECK_EQ(pthread_setattr_default_np(&attributes), 0);
    CHECK_EQ(pthread_attr_destroy(&attributes), 0);
}

TEST(cipd_slots_that_no_thread_frees_are_freed_and_named)
{
    sluice_writer *writer = begin();
    struct fake_things before = fake_things();
    struct sluice_format format = cipd_format();

    forbid_threads(true);
    CHECK_OK(sluice_writer_reformat(writer, &format));
    forbid_threads(false);
    CHECK_HAS(said, cipd_channel());
    CHECK_HAS(said, "freed by the thread that uses the channel");
    CHECK_EQ(fake_things().allocations, before.allocations);
    end(writer);
}

/* As if a reader that has it mapped were stuck: close reports the memory that it leaves to another thread. */
TEST(cipd_close_does_not_wait_for_memory_that_cannot_be_freed)
{
    fake_use();
    struct fake_things before = fake_things();
    sluice_writer *writer = begin();
    CHECK_GE(fake_things().allocations, before.allocations + 2);
    _Atomic uint64_t *gate = hold_gpu();
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_HAS(said, "the memory of 1 sessions could not be given back in time");
    CHECK_GE(fake_things().allocations, before.allocations + 2);
    atomic_store(gate, 1);
    CHECK_SOON(fake_things().allocations == before.allocations, 20);
    gpu_settle(); /* the thread that freed it also releases the context */
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
    fake_end_contexts();
}

/* Readers have memory of the session before open, until they notice. */
TEST(cipd_slots_of_a_session_stay_for_a_while)
{
    struct sluice_cipd_writer_params cipd = SLUICE_CIPD_WRITER_PARAMS_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = cipd_format();
    sluice_writer *writer;

    fake_use();
    cipd.barrier = SLUICE_CIPD_OFF;
    params.name = cipd_channel();
    params.device = "cuda:0";
    params.format = &format;
    params.cipd = &cipd;
    CHECK_OK(sluice_writer_open(&writer, &params));
    long one = fake_things().allocations;
    int64_t start = test_now();
    CHECK_OK(sluice_cipd_set_slots(writer, 2));
    CHECK_SOON(fake_things().allocations < one, 20);
    CHECK_GE(test_now() - start, 100 * SLUICE_MS);
    start = test_now();
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_GE(test_now() - start, 100 * SLUICE_MS);
    fake_end_contexts();
}
