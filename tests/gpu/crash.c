/* SPDX-License-Identifier: MIT
 *
 * Channels whose GPU fails for one side while its process lives: kernels that crash or never end, contexts and devices
 * that are reset or closed. The next call on that side reports the cause; the others go on.
 */
#include <signal.h>
#include <string.h>

#include "gpu/channel.h"
#include "gpu/peers.h"

/* The GPU has reached the crash; a writer that does not know yet reuses its frames' slots. */
static void let_crash(struct child *writer)
{
    PEER(writer, "settle", "settled");
    test_nap(SLUICE_S / 5); /* and the frame is late, which makes the library query the driver */
}

/* Asks until the answer contains `word`: a GPU reports a crash in its own time. Returns how many frames were committed
 * until then. */
static uint64_t ask_until(struct child *peer, const char *line, const char *word)
{
    uint64_t committed = 0;
    const char *said = "";

    CHECK_SOON((said = peer_ask(peer, line), committed += strstr(said, "committed") != NULL, strstr(said, word)), 5);
    return committed;
}

/* ---- the writer's side ---- */

/* A writer whose first frame is there, and a reader of all its frames. */
struct watched {
    struct sluice_device device;
    struct sluice_stream stream;
    struct child writer;
    sluice_reader *reader;
};

static struct watched watch(const char *first)
{
    struct sluice_reader_params params = channel_reader_params(1);
    struct watched watched;

    gpu_begin();
    gpu_use(0);
    watched.device = gpu_open();
    CHECK_OK(sluice_stream_create(watched.device, NULL, &watched.stream));
    watched.writer = peer_writer("");
    PEER(&watched.writer, first, "committed 1");
    params.mode = SLUICE_IN_ORDER;
    CHECK_OK(sluice_reader_open(&watched.reader, &params));
    return watched;
}

static void end(struct watched *watched)
{
    role_stop(&watched->writer);
    CHECK_OK(sluice_reader_close(&watched->reader));
    CHECK_OK(sluice_device_close(&watched->device));
    gpu_end();
}

static void check_crash_is_reported(const char *begin)
{
    struct watched watched = watch("commit 0");
    struct sluice_stream stream = watched.stream;
    sluice_reader *reader = watched.reader;
    struct sluice_frame frame;

    const char *said = peer_ask(&watched.writer, "crash");
    uint64_t committed = strstr(said, "committed 2") != NULL;
    if (!committed)
        CHECK_HAS(said, "E_DRIVER");
    let_crash(&watched.writer);
    committed += ask_until(&watched.writer, begin, "E_DRIVER");
    ask_until(&watched.writer, begin, "may only read");
    CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
    channel_check(&frame, stream, 1);
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    int64_t began = test_now();
    CHECK_RESULT(sluice_reader_acquire(reader, stream, SLUICE_S / 5, &frame), SLUICE_TIMEOUT);
    CHECK_LE(test_now() - began, 5 * SLUICE_S);
    PEER(&watched.writer, "close", "closed");
    CHECK_RESULT(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame), SLUICE_CLOSED);
    CHECK_EQ(channel_lost(watched.reader), committed);
    role_stop(&watched.writer);

    watched.writer = peer_writer("");
    PEER(&watched.writer, "commit 0", "committed 1");
    CHECK_SOON(sluice_reader_acquire(reader, stream, SLUICE_S, &frame) == 0, 5);
    channel_check(&frame, stream, 1);
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    end(&watched);
}

TEST_TIMEOUT(a_writer_whose_kernel_crashed_gets_the_error_from_commit, 60)
{
    check_crash_is_reported("commit -1");
}

TEST_TIMEOUT(a_writer_whose_kernel_crashed_gets_the_error_from_begin, 60)
{
    check_crash_is_reported("begin 0");
}

/* A writer that only sends never calls begin, and begin is what handles frames of a lost device. */
TEST_TIMEOUT(a_writer_whose_kernel_crashed_gets_the_error_from_send, 60)
{
    struct watched watched = watch("send");
    struct sluice_stream stream = watched.stream;
    sluice_reader *reader = watched.reader;
    struct sluice_frame frame;

    CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    uint64_t committed = strstr(peer_ask(&watched.writer, "crash"), "committed") != NULL;
    let_crash(&watched.writer);
    committed += ask_until(&watched.writer, "send", "E_DRIVER");
    CHECK_RESULT(sluice_reader_acquire(reader, stream, SLUICE_S / 5, &frame), SLUICE_TIMEOUT);
    CHECK_EQ(channel_lost(watched.reader), committed); /* it has not closed yet */
    end(&watched);
}

/* It waits for a slot that never comes free, and gets an answer before its timeout. */
TEST_TIMEOUT(a_writer_that_waits_for_a_slot_learns_of_a_crash, 60)
{
    gpu_begin();
    struct child writer = peer_writer("few");
    struct child reader = peer_reader("");
    PEER(&writer, "commit 0", "committed 1");
    PEER(&reader, "take 20000", "took 1");
    if (strstr(peer_ask(&writer, "crash"), "committed"))
        peer_ask(&writer, "commit -1");
    let_crash(&writer);
    ask_until(&writer, "begin 100", "may only read");
    PEER(&writer, "begin 0", "E_DRIVER");
    role_stop(&reader);
    role_stop(&writer);
}

TEST_TIMEOUT(a_writer_whose_kernel_never_ends_gets_an_error_and_can_close, 60)
{
    struct sluice_frame frame;
    struct sluice_stream stream;

    gpu_begin();
    gpu_use(0);
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    struct child writer = peer_writer("few");
    PEER(&writer, "commit 0", "committed 1");
    sluice_reader *reader = channel_reader(1);
    PEER(&writer, "commit " PEER_ENDLESS, "committed 2");
    PEER(&writer, "commit 0", "committed 3");
    CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
    CHECK_EQ(frame.sequence, 1);
    PEER(&writer, "begin 50", "2 not finished by the device");
    int64_t began = test_now();
    struct sluice_frame other;
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    CHECK_RESULT(sluice_reader_acquire(reader, stream, SLUICE_S / 5, &other), SLUICE_TIMEOUT);
    CHECK_LE(test_now() - began, 5 * SLUICE_S);
    began = test_now();
    PEER(&writer, "close", "closed");
    CHECK_GE(test_now() - began, SLUICE_S);
    CHECK_LE(test_now() - began, 10 * SLUICE_S);
    CHECK_RESULT(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &other), SLUICE_CLOSED);
    struct sluice_reader_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_reader_stats(reader, &stats));
    CHECK_EQ(stats.lost, 2);
    child_kill(&writer, SIGKILL);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}

/* The writer undoes what it did for a reader that waited ahead, which does not wait for the kernel. */
TEST_TIMEOUT(a_writer_whose_kernel_never_ends_goes_on_when_readers_leave, 60)
{
    gpu_begin();
    struct child writer = peer_writer("");
    PEER(&writer, "commit 0", "committed 1");
    struct child reader = peer_reader("ahead");
    PEER(&writer, "commit 0", "committed 2");
    PEER(&reader, "take 20000", "took");
    PEER(&reader, "release 0", "released");
    PEER(&writer, "commit " PEER_ENDLESS, "committed 3");
    PEER(&reader, "close", "closed");
    test_nap(SLUICE_S / 10);
    int64_t began = test_now();
    PEER(&writer, "begin 0", "begun");
    PEER(&writer, "begin 0", "begun");
    CHECK_LE(test_now() - began, 5 * SLUICE_S);
    child_kill(&writer, SIGKILL);
    role_stop(&reader);
}

/* To undo that, the driver waits for all of the program's work on the GPU; begin does not. */
TEST_TIMEOUT(a_writer_goes_on_beside_the_programs_own_work_when_readers_leave, 60)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_stream busy;
    struct sluice_frame frame;

    CHECK_OK(sluice_stream_create(fixture.device, NULL, &busy));
    channel_commit(fixture.writer, fixture.writing, 0, 1);
    struct child reader = peer_reader("ahead");
    channel_commit(fixture.writer, fixture.writing, 0, 2);
    PEER(&reader, "take 20000", "took");
    PEER(&reader, "release 0", "released");
    channel_commit(fixture.writer, fixture.writing, 0, 3);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    gpu_gate_close(&gate, gpu_native(busy));
    PEER(&reader, "close", "closed");
    int64_t began = test_now();
    for (int i = 0; i < 50; i++) {
        CHECK_OK(sluice_writer_begin(fixture.writer, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_writer_cancel(fixture.writer, &frame, SLUICE_ON_CPU));
        test_nap(10 * SLUICE_MS);
    }
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(busy));
    gpu_gate_end(&gate);
    role_stop(&reader);
    channel_end(&fixture);
}

/* Nor does close, after a moment; the writer's resources are freed later. Until then NVIDIA's driver may also block
 * other calls of this program, so the test makes none before the work is over. */
TEST_TIMEOUT(a_writer_closes_beside_the_programs_own_work, 60)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_stream busy;

    CHECK_OK(sluice_stream_create(fixture.device, NULL, &busy));
    channel_commit(fixture.writer, fixture.writing, 0, 1);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    gpu_gate_close(&gate, gpu_native(busy));
    int64_t began = test_now();
    CHECK_OK(sluice_writer_close(&fixture.writer));
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(busy));
    fixture.writer = channel_writer(); /* the name is free */
    channel_commit(fixture.writer, fixture.writing, 0, 1);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    gpu_gate_end(&gate);
    channel_end(&fixture);
}

/* ---- the reader's side ---- */

/* It holds nothing, and the writer and another reader go on. */
static void check_others(struct channel_fixture *fixture, sluice_reader *other, uint32_t from)
{
    struct sluice_frame frames[2];
    struct sluice_frame frame;

    for (uint32_t i = from; i < from + 5; i++) {
        channel_commit(fixture->writer, fixture->writing, 0, i);
        CHECK_OK(sluice_reader_acquire(other, fixture->reading, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.sequence, i);
        channel_check(&frame, fixture->reading, i);
        CHECK_OK(sluice_reader_release(other, &frame, fixture->reading));
    }
    CHECK_OK(sluice_stream_synchronize(fixture->reading));
    CHECK_OK(sluice_writer_begin(fixture->writer, 20 * SLUICE_S, &frames[0]));
    CHECK_OK(sluice_writer_begin(fixture->writer, 20 * SLUICE_S, &frames[1]));
    CHECK_OK(sluice_writer_cancel(fixture->writer, &frames[0], SLUICE_ON_CPU));
    CHECK_OK(sluice_writer_cancel(fixture->writer, &frames[1], SLUICE_ON_CPU));
}

static struct channel_fixture few_slots(void)
{
    struct channel_fixture fixture = channel_fixture();

    CHECK_OK(sluice_writer_close(&fixture.writer));
    fixture.writer = channel_writer_of(3);
    return fixture;
}

static void be_hit(const char *blow, const char *next, const char *word)
{
    struct channel_fixture fixture = few_slots();
    sluice_reader *other = channel_reader(1);
    struct sluice_writer_stats stats = { .size = sizeof stats };
    struct sluice_frame frame;

    channel_commit(fixture.writer, fixture.writing, 0, 1);
    struct child reader = peer_reader("");
    PEER(&reader, "take 20000", "took 1");
    CHECK_OK(sluice_reader_acquire(other, fixture.reading, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(other, &frame, fixture.reading));
    peer_ask(&reader, blow);
    if (strcmp(next, "release 0") == 0)
        peer_ask(&reader, next);
    else
        ask_until(&reader, next, word);
    ask_until(&reader, "take 0", word);
    ask_until(&reader, "take 0", "E_DRIVER");
    CHECK_SOON((sluice_writer_stats(fixture.writer, &stats), stats.readers == 1), 5);
    CHECK_EQ(stats.readers_died, 0); /* it said goodbye */
    check_others(&fixture, other, 2);
    PEER(&reader, "close", "closed");
    role_stop(&reader);
    CHECK_OK(sluice_reader_close(&other));
    channel_end(&fixture);
}

TEST_TIMEOUT(a_reader_whose_kernel_stored_into_a_frame_learns_the_cause, 60)
{
    be_hit("store", "release 0", "may only read");
}

TEST_TIMEOUT(a_reader_that_only_acquires_learns_the_cause, 60)
{
    be_hit("store", "take 0", "may only read");
}

TEST_TIMEOUT(a_reader_whose_gpu_was_reset_gets_an_error, 60)
{
    be_hit("reset", "release 0", "has reset the GPU");
}

TEST_TIMEOUT(a_writer_whose_gpu_was_reset_gets_an_error, 60)
{
    struct child writer;

    gpu_begin();
    writer = peer_writer("");
    PEER(&writer, "commit 0", "committed 1");
    PEER(&writer, "reset", "reset");
    test_nap(20 * SLUICE_MS);
    const char *said = peer_ask(&writer, "begin 0");
    if (!strstr(said, "E_DRIVER")) /* nothing was in flight: the error comes with the next driver call */
        CHECK_HAS(said, "begun");
    PEER(&writer, "close", "closed");
    role_stop(&writer);
    writer = peer_writer("");
    PEER(&writer, "commit 0", "committed 1");
    role_stop(&writer);
}

/* ---- streams that end while a frame is held ---- */

static void end_streams(struct channel_fixture *fixture, bool close)
{
    if (close)
        CHECK_OK(sluice_device_close(&fixture->device));
    else
        CHECK_OK(sluice_device_reset(fixture->device));
    if (close)
        fixture->device = gpu_open();
}

static void outlive(bool close)
{
    struct channel_fixture fixture = channel_fixture();
    sluice_reader *reader = channel_reader(1);
    struct sluice_frame in, out;
    struct sluice_array array;

    channel_commit(fixture.writer, fixture.writing, SPIN, 1);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &in));
    CHECK_OK(sluice_writer_begin(fixture.writer, 20 * SLUICE_S, &out));
    CHECK_OK(sluice_frame_array(&out, NULL, &array));
    gpu_fill(gpu_native(fixture.writing), (uintptr_t)array.data, CHANNEL_WORDS, 2);
    end_streams(&fixture, close);
    CHECK_SAYS(sluice_writer_commit(fixture.writer, &out, fixture.writing), SLUICE_E_STALE, close ? "closed" : "reset");
    CHECK_SAYS(sluice_writer_cancel(fixture.writer, &out, fixture.writing), SLUICE_E_STALE, close ? "closed" : "reset");
    CHECK_SAYS(sluice_reader_release(reader, &in, fixture.reading), SLUICE_E_STALE, close ? "closed" : "reset");
    CHECK_SAYS(sluice_reader_acquire(reader, fixture.reading, 0, &out), SLUICE_E_STALE, close ? "closed" : "reset");

    /* Both frames are still there for streams that live. */
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.writing));
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.reading));
    CHECK_OK(sluice_writer_commit(fixture.writer, &out, fixture.writing));
    channel_check(&in, fixture.reading, 1);
    CHECK_OK(sluice_reader_release(reader, &in, fixture.reading));
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &in));
    CHECK_EQ(in.sequence, 2);
    channel_check(&in, fixture.reading, 2);
    CHECK_OK(sluice_reader_release(reader, &in, fixture.reading));
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

TEST(channels_outlive_a_reset_of_their_device)
{
    outlive(false);
}

TEST(channels_outlive_their_devices_handle)
{
    outlive(true);
}

/* ---- streams made before the GPU was reset ---- */

/* Native streams end with their context, even if there are handles of them; and a new context may reuse their
 * addresses. */
TEST(streams_of_before_a_reset_are_refused_after_it)
{
    static uint32_t fetched[CHANNEL_WORDS];
    struct channel_fixture old = channel_fixture();
    struct sluice_frame in, out;
    struct sluice_ticket ticket;
    struct sluice_array array;
    struct sl_cu_context *again;

    TEST_KEEPS_FDS();
    CHECK_OK(sluice_writer_close(&old.writer));
    CU(DevicePrimaryCtxReset, 0);
    CU(DevicePrimaryCtxRetain, &again, 0);
    CU(CtxSetCurrent, again);
    struct channel_fixture now = channel_fixture();
    sluice_reader *reader = channel_reader(1);
    channel_commit(now.writer, now.writing, 0, 1);
    CHECK_OK(sluice_reader_acquire(reader, now.reading, 20 * SLUICE_S, &in));
    CHECK_OK(sluice_writer_begin(now.writer, 20 * SLUICE_S, &out));
    CHECK_OK(sluice_frame_array(&in, NULL, &array));
    array.data = fetched;
    CHECK_SAYS(sluice_writer_commit(now.writer, &out, old.writing), SLUICE_E_DRIVER, "has reset the GPU");
    CHECK_SAYS(sluice_writer_cancel(now.writer, &out, old.writing), SLUICE_E_DRIVER, "has reset the GPU");
    CHECK_SAYS(sluice_reader_fetch(reader, &in, &array, 1, old.reading, &ticket), SLUICE_E_DRIVER, "has reset the GPU");
    CHECK_SAYS(sluice_reader_release(reader, &in, old.reading), SLUICE_E_DRIVER, "has reset the GPU");
    CHECK_OK(sluice_writer_commit(now.writer, &out, now.writing)); /* the new ones live */
    CHECK_OK(sluice_reader_release(reader, &in, now.reading));
    CHECK_RESULT(sluice_device_close(&old.device), SLUICE_E_DRIVER);
    CHECK_OK(sluice_reader_close(&reader));
    CU(DevicePrimaryCtxRelease, 0);
    channel_end(&now);
}
