/* SPDX-License-Identifier: MIT
 *
 * A driver that blocks while it registers pages of a peer in another process: callers with a frame in flight do not
 * wait for it (protocol 6.2).
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "fake/fake.h"
#include "gpu/kit.h"
#include "harness/test.h"
#include "util/atomic.h"

#include <sluice/sluice.h>

#define BYTES 4096

struct still {
    sl_word32 reached, go;
};

static void block(void *data)
{
    struct still *still = data;

    sl_store(&still->reached, 1, release);
    while (sl_load(&still->go, acquire) == 0)
        test_nap(SLUICE_MS);
}

struct side {
    struct sluice_device device;
    struct sluice_stream stream;
    sluice_writer *writer;
    sluice_reader *reader;
};

static struct side begin(void)
{
    struct side side = { .writer = NULL };

    fake_use();
    test_dir();
    CHECK_OK(sluice_device_open(&side.device, "cuda:0"));
    CHECK_OK(sluice_stream_create(side.device, NULL, &side.stream));
    return side;
}

static void end(struct side *side)
{
    CHECK_OK(sluice_reader_close(&side->reader));
    CHECK_OK(sluice_writer_close(&side->writer));
    CHECK_OK(sluice_device_close(&side->device));
    CHECK_SOON(fake_things().registrations == 0 && fake_things().mappings == 0 && fake_things().contexts == 0, 20);
}

static void open_writer(struct side *side)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int64_t bytes = BYTES;

    CHECK_OK(sluice_format_add_tensor(&format, "data", (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 1, &bytes));
    params.name = "cam";
    params.device = "cuda:0";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&side->writer, &params));
}

static void open_reader(struct side *side, uint32_t ahead, int64_t timeout_ns)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;

    params.name = "cam";
    params.ahead = ahead;
    params.open_timeout_ns = timeout_ns;
    CHECK_OK(sluice_reader_open(&side->reader, &params));
}

static void publish(struct side *side)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(side->writer, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_writer_commit(side->writer, &frame, side->stream));
    CHECK_OK(sluice_stream_synchronize(side->stream));
}

/* Each line is a frame. */
ROLE(registering_writer)
{
    struct side side = begin();

    open_writer(&side);
    publish(&side);
    role_say("open");
    while (role_line()) {
        publish(&side);
        role_say("published");
    }
    end(&side);
    return 0;
}

/* Each line is a frame that is taken. */
ROLE(registering_reader)
{
    struct side side = begin();
    struct sluice_frame frame;

    open_reader(&side, 1, 20 * SLUICE_S);
    role_say("open");
    while (role_line()) {
        CHECK_OK(sluice_reader_acquire(side.reader, side.stream, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(side.reader, &frame, side.stream));
        CHECK_OK(sluice_stream_synchronize(side.stream));
        role_say("taken");
    }
    end(&side);
    return 0;
}

static void pass(struct side *side, struct child *reader)
{
    publish(side);
    child_send(reader, "take");
    child_expect(reader, "taken", 20);
}

/* Until the page is registered, frames signal in the common words, not in the reader's own. */
TEST_TIMEOUT(begin_waits_for_no_page_of_a_reader_that_came, 60)
{
    struct side side = begin();
    struct still still = { 0, 0 };

    open_writer(&side);
    fake_behind(FAKE_MemHostRegister, block, &still);
    struct child reader = role_start("registering_reader", NULL);
    child_expect(&reader, "open", 20);
    CHECK_SOON(sl_load(&still.reached, acquire) == 1, 20);
    fake_forget();
    for (int i = 0; i < 3; i++)
        pass(&side, &reader);
    CHECK_EQ(fake_calls(FAKE_StreamBatchMemOp), 0);
    sl_store(&still.go, 1, release);
    CHECK_SOON((pass(&side, &reader), fake_calls(FAKE_StreamBatchMemOp) > 0), 20);
    role_stop(&reader);
    end(&side);
}

/* Nor does the first begin afterwards, which finds it done. */
TEST(begin_finds_the_page_of_a_reader_known)
{
    struct side side = begin();

    open_writer(&side);
    struct child reader = role_start("registering_reader", NULL);
    child_expect(&reader, "open", 20);
    gpu_settle();
    CHECK_EQ(fake_calls(FAKE_MemHostRegister), 3); /* and the channel's two */
    pass(&side, &reader);
    CHECK_EQ(fake_calls(FAKE_MemHostRegister), 3);
    CHECK_EQ(fake_calls(FAKE_StreamBatchMemOp), 1);
    role_stop(&reader);
    end(&side);
}

/* The reader came and left, and no frame was ever begun. */
TEST(pages_of_readers_that_left_are_forgotten)
{
    struct side side = begin();

    open_writer(&side);
    for (int i = 0; i < 3; i++) {
        struct child reader = role_start("registering_reader", NULL);
        child_expect(&reader, "open", 20);
        CHECK_SOON(fake_things().registrations == 3, 20);
        role_stop(&reader);
        CHECK_SOON(fake_things().registrations == 2, 20);
    }
    end(&side);
}

static struct child start_writer(void)
{
    struct child writer = role_start("registering_writer", NULL);

    child_expect(&writer, "open", 20);
    return writer;
}

static uint64_t take(struct side *side)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_reader_acquire(side->reader, side->stream, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(side->reader, &frame, side->stream));
    CHECK_OK(sluice_stream_synchronize(side->stream));
    return frame.session;
}

/* A reader has a frame of one writer, and another writer starts, while the driver blocks. */
static struct child restart(struct side *side, struct still *still, uint64_t *session)
{
    struct child writer = start_writer();
    int64_t timeout = 20 * SLUICE_S;

    open_reader(side, 0, timeout);
    *session = take(side);
    fake_behind(FAKE_MemHostRegister, block, still);
    child_kill(&writer, SIGKILL);
    return start_writer();
}

TEST_TIMEOUT(acquire_waits_for_no_page_of_a_writer_that_came, 60)
{
    struct side side = begin();
    struct still still = { 0, 0 };
    struct sluice_frame frame;
    uint64_t session;

    struct child writer = restart(&side, &still, &session);
    CHECK_SOON(sluice_reader_acquire(side.reader, side.stream, SLUICE_MS, &frame) != 0 &&
                   sl_load(&still.reached, acquire),
               20);
    for (int i = 0; i < 3; i++)
        CHECK_RESULT(sluice_reader_acquire(side.reader, side.stream, 20 * SLUICE_MS, &frame), SLUICE_NO_WRITER);
    sl_store(&still.go, 1, release);
    CHECK_NE(take(&side), session);
    child_send(&writer, "publish");
    child_expect(&writer, "published", 20);
    (void)take(&side);
    end(&side);
    role_stop(&writer);
}

static void note_thread(void *data)
{
    *(pthread_t *)data = pthread_self();
}

/* A poller is woken when acquire has it. */
TEST_TIMEOUT(a_reader_without_a_writer_finds_one_prepared, 60)
{
    struct side side = begin();
    struct sluice_frame frame;
    pthread_t thread = pthread_self();

    open_reader(&side, 0, SLUICE_LATER);
    struct pollfd readable = { .fd = sluice_reader_fd(side.reader), .events = POLLIN };
    fake_behind(FAKE_MemHostRegister, note_thread, &thread);
    struct child writer = start_writer();
    do
        CHECK_EQ(poll(&readable, 1, 20000), 1);
    while (sluice_reader_acquire(side.reader, side.stream, 0, &frame) != 0);
    CHECK_EQ(fake_calls(FAKE_MemHostRegister), 1);
    CHECK(!pthread_equal(thread, pthread_self()));
    CHECK_OK(sluice_reader_release(side.reader, &frame, side.stream));
    end(&side);
    role_stop(&writer);
}

TEST_TIMEOUT(a_reader_closes_while_its_next_session_is_prepared, 60)
{
    struct side side = begin();
    struct still still = { 0, 0 };
    uint64_t session;

    struct child writer = restart(&side, &still, &session);
    CHECK_SOON(sl_load(&still.reached, acquire), 20);
    int64_t began = test_now();
    CHECK_OK(sluice_reader_close(&side.reader));
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    sl_store(&still.go, 1, release);
    end(&side);
    role_stop(&writer);
}

/* acquire reports why a session cannot be used each time, until it can be. */
TEST_TIMEOUT(acquire_says_why_a_session_could_not_be_prepared, 60)
{
    struct side side = begin();
    struct sluice_frame frame;
    uint64_t session;
    struct still still = { 0, 1 };

    struct child writer = start_writer();
    open_reader(&side, 0, 20 * SLUICE_S);
    session = take(&side);
    fake_behind(FAKE_MemHostRegister, block, &still);
    fake_fail(FAKE_MemHostRegister, 1, SL_CU_OUT_OF_MEMORY);
    child_kill(&writer, SIGKILL);
    writer = start_writer();
    CHECK_SOON(sl_load(&still.reached, acquire), 20);
    fake_fail(FAKE_MemHostRegister, 1, SL_CU_UNKNOWN);
    int r;
    CHECK_SOON((r = sluice_reader_acquire(side.reader, side.stream, SLUICE_MS, &frame)) != SLUICE_NO_WRITER &&
                   r != SLUICE_TIMEOUT,
               20);
    CHECK_RESULT(r, SLUICE_E_DRIVER);
    CHECK_HAS(sluice_last_error(), "cuMemHostRegister");
    CHECK_NE(take(&side), session);
    end(&side);
    role_stop(&writer);
}
