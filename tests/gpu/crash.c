/* SPDX-License-Identifier: MIT
 *
 * Channels whose GPU fails one side while its process lives: kernels that crash or never end, contexts and
 * devices that are reset or closed. Whoever is hit is told the cause at its next call; the others go on.
 */
#include <signal.h>
#include <string.h>

#include "gpu/channel.h"
#include "gpu/peers.h"

/* The GPU has come to what crashes it; a writer that does not know yet gives its frames' slots away. */
static void let_crash(struct child *writer)
{
    PLAYER(writer, "settle", "settled");
    test_nap(SLUICE_S / 5); /* and the frame is late, which has the driver asked */
}

/* Asks until the answer has `word` in it: a GPU says what befell it in its own time. Returns how many frames
 * were committed until then. */
static uint64_t told(struct child *player, const char *line, const char *word)
{
    uint64_t committed = 0;
    const char *said = "";

    CHECK_SOON((said = player_ask(player, line), committed += strstr(said, "committed") != NULL, strstr(said, word)), 5);
    return committed;
}

/* ---- the writer's side ---- */

/* A writer whose first frame is there, and a reader of each of its frames. */
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
    watched.writer = player_writer("");
    PLAYER(&watched.writer, first, "committed 1");
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

static void crash_and_be_told(const char *begin)
{
    struct watched watched = watch("commit 0");
    struct sluice_stream stream = watched.stream;
    sluice_reader *reader = watched.reader;
    struct sluice_frame frame;

    const char *said = player_ask(&watched.writer, "crash");
    uint64_t committed = strstr(said, "committed 2") != NULL;
    if (!committed)
        CHECK_HAS(said, "E_DRIVER");
    let_crash(&watched.writer);
    committed += told(&watched.writer, begin, "E_DRIVER");
    told(&watched.writer, begin, "may only read");
    CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
    channel_check(&frame, stream, 1);
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    int64_t began = test_now();
    CHECK_RESULT(sluice_reader_acquire(reader, stream, SLUICE_S / 5, &frame), SLUICE_TIMEOUT);
    CHECK_LE(test_now() - began, 5 * SLUICE_S);
    PLAYER(&watched.writer, "close", "closed");
    CHECK_RESULT(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame), SLUICE_CLOSED);
    CHECK_EQ(channel_lost(watched.reader), committed);
    role_stop(&watched.writer);

    watched.writer = player_writer("");
    PLAYER(&watched.writer, "commit 0", "committed 1");
    CHECK_SOON(sluice_reader_acquire(reader, stream, SLUICE_S, &frame) == 0, 5);
    channel_check(&frame, stream, 1);
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    end(&watched);
}

TEST_TIMEOUT(a_writer_whose_kernel_crashed_is_told_by_commit, 60)
{
    crash_and_be_told("commit -1");
}

TEST_TIMEOUT(a_writer_whose_kernel_crashed_is_told_by_begin, 60)
{
    crash_and_be_told("begin 0");
}

/* One that only sends never begins a frame, and begin is what looks after frames of a device that is gone. */
TEST_TIMEOUT(a_writer_whose_kernel_crashed_is_told_by_send, 60)
{
    struct watched watched = watch("send");
    struct sluice_stream stream = watched.stream;
    sluice_reader *reader = watched.reader;
    struct sluice_frame frame;

    CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    uint64_t committed = strstr(player_ask(&watched.writer, "crash"), "committed") != NULL;
    let_crash(&watched.writer);
    committed += told(&watched.writer, "send", "E_DRIVER");
    CHECK_RESULT(sluice_reader_acquire(reader, stream, SLUICE_S / 5, &frame), SLUICE_TIMEOUT);
    CHECK_EQ(channel_lost(watched.reader), committed); /* it has not closed yet */
    end(&watched);
}

/* It waits for a slot in vain, and not until the end of its time-out without an answer. */
TEST_TIMEOUT(a_writer_that_waits_for_a_slot_is_told_of_a_crash, 60)
{
    gpu_begin();
    struct child writer = player_writer("few");
    struct child reader = player_reader("");
    PLAYER(&writer, "commit 0", "committed 1");
    PLAYER(&reader, "take 20000", "took 1");
    if (strstr(player_ask(&writer, "crash"), "committed"))
        player_ask(&writer, "commit -1");
    let_crash(&writer);
    told(&writer, "begin 100", "may only read");
    PLAYER(&writer, "begin 0", "E_DRIVER");
    role_stop(&reader);
    role_stop(&writer);
}

TEST_TIMEOUT(a_writer_whose_kernel_never_ends_is_told_and_can_close, 60)
{
    struct sluice_frame frame;
    struct sluice_stream stream;

    gpu_begin();
    gpu_use(0);
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    struct child writer = player_writer("few");
    PLAYER(&writer, "commit 0", "committed 1");
    sluice_reader *reader = channel_reader(1);
    PLAYER(&writer, "commit " PLAYER_ENDLESS, "committed 2");
    PLAYER(&writer, "commit 0", "committed 3");
    CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
    CHECK_EQ(frame.sequence, 1);
    PLAYER(&writer, "begin 50", "2 not finished by the device");
    int64_t began = test_now();
    struct sluice_frame other;
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    CHECK_RESULT(sluice_reader_acquire(reader, stream, SLUICE_S / 5, &other), SLUICE_TIMEOUT);
    CHECK_LE(test_now() - began, 5 * SLUICE_S);
    began = test_now();
    PLAYER(&writer, "close", "closed");
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

/* What the writer does for a reader that waits ahead is undone when that does not wait for the kernel. */
TEST_TIMEOUT(a_writer_whose_kernel_never_ends_goes_on_when_readers_leave, 60)
{
    gpu_begin();
    struct child writer = player_writer("");
    PLAYER(&writer, "commit 0", "committed 1");
    struct child reader = player_reader("ahead");
    PLAYER(&writer, "commit 0", "committed 2");
    PLAYER(&reader, "take 20000", "took");
    PLAYER(&reader, "release 0", "released");
    PLAYER(&writer, "commit " PLAYER_ENDLESS, "committed 3");
    PLAYER(&reader, "close", "closed");
    test_nap(SLUICE_S / 10);
    int64_t began = test_now();
    PLAYER(&writer, "begin 0", "begun");
    PLAYER(&writer, "begin 0", "begun");
    CHECK_LE(test_now() - began, 5 * SLUICE_S);
    child_kill(&writer, SIGKILL);
    role_stop(&reader);
}

/* To undo that the driver waits for all that the program has on the GPU: that is nothing to begin. */
TEST_TIMEOUT(a_writer_goes_on_beside_the_programs_own_work_when_readers_leave, 60)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_stream busy;
    struct sluice_frame frame;

    CHECK_OK(sluice_stream_create(scene.device, NULL, &busy));
    channel_commit(scene.writer, scene.writing, 0, 1);
    struct child reader = player_reader("ahead");
    channel_commit(scene.writer, scene.writing, 0, 2);
    PLAYER(&reader, "take 20000", "took");
    PLAYER(&reader, "release 0", "released");
    channel_commit(scene.writer, scene.writing, 0, 3);
    CHECK_OK(sluice_stream_synchronize(scene.writing));
    gpu_gate_close(&gate, gpu_native(busy));
    PLAYER(&reader, "close", "closed");
    int64_t began = test_now();
    for (int i = 0; i < 50; i++) {
        CHECK_OK(sluice_writer_begin(scene.writer, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_writer_cancel(scene.writer, &frame, SLUICE_ON_CPU));
        test_nap(10 * SLUICE_MS);
    }
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(busy));
    gpu_gate_end(&gate);
    role_stop(&reader);
    channel_end(&scene);
}

/* Nor to close, after a moment; what the writer had there is given back later. Until then NVIDIA's driver may keep other calls of
 * this program waiting, too: nothing is asked of it before the work is over. */
TEST_TIMEOUT(a_writer_closes_beside_the_programs_own_work, 60)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_stream busy;

    CHECK_OK(sluice_stream_create(scene.device, NULL, &busy));
    channel_commit(scene.writer, scene.writing, 0, 1);
    CHECK_OK(sluice_stream_synchronize(scene.writing));
    gpu_gate_close(&gate, gpu_native(busy));
    int64_t began = test_now();
    CHECK_OK(sluice_writer_close(&scene.writer));
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(busy));
    scene.writer = channel_writer(); /* the name is free */
    channel_commit(scene.writer, scene.writing, 0, 1);
    CHECK_OK(sluice_stream_synchronize(scene.writing));
    gpu_gate_end(&gate);
    channel_end(&scene);
}

/* ---- the reader's side ---- */

/* It keeps nothing, and the writer and another reader go on. */
static void check_others(struct scene *scene, sluice_reader *other, uint32_t from)
{
    struct sluice_frame frames[2];
    struct sluice_frame frame;

    for (uint32_t i = from; i < from + 5; i++) {
        channel_commit(scene->writer, scene->writing, 0, i);
        CHECK_OK(sluice_reader_acquire(other, scene->reading, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.sequence, i);
        channel_check(&frame, scene->reading, i);
        CHECK_OK(sluice_reader_release(other, &frame, scene->reading));
    }
    CHECK_OK(sluice_stream_synchronize(scene->reading));
    CHECK_OK(sluice_writer_begin(scene->writer, 20 * SLUICE_S, &frames[0]));
    CHECK_OK(sluice_writer_begin(scene->writer, 20 * SLUICE_S, &frames[1]));
    CHECK_OK(sluice_writer_cancel(scene->writer, &frames[0], SLUICE_ON_CPU));
    CHECK_OK(sluice_writer_cancel(scene->writer, &frames[1], SLUICE_ON_CPU));
}

static struct scene few_slots(void)
{
    struct scene scene = channel_scene();

    CHECK_OK(sluice_writer_close(&scene.writer));
    scene.writer = channel_writer_of(3);
    return scene;
}

static void be_hit(const char *blow, const char *next, const char *word)
{
    struct scene scene = few_slots();
    sluice_reader *other = channel_reader(1);
    struct sluice_writer_stats stats = { .size = sizeof stats };
    struct sluice_frame frame;

    channel_commit(scene.writer, scene.writing, 0, 1);
    struct child reader = player_reader("");
    PLAYER(&reader, "take 20000", "took 1");
    CHECK_OK(sluice_reader_acquire(other, scene.reading, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(other, &frame, scene.reading));
    player_ask(&reader, blow);
    if (strcmp(next, "release 0") == 0)
        player_ask(&reader, next);
    else
        told(&reader, next, word);
    told(&reader, "take 0", word);
    told(&reader, "take 0", "E_DRIVER");
    CHECK_SOON((sluice_writer_stats(scene.writer, &stats), stats.readers == 1), 5);
    CHECK_EQ(stats.readers_died, 0); /* it said goodbye */
    check_others(&scene, other, 2);
    PLAYER(&reader, "close", "closed");
    role_stop(&reader);
    CHECK_OK(sluice_reader_close(&other));
    channel_end(&scene);
}

TEST_TIMEOUT(a_reader_whose_kernel_stored_into_a_frame_is_told_the_cause, 60)
{
    be_hit("store", "release 0", "may only read");
}

TEST_TIMEOUT(a_reader_that_only_acquires_is_told_the_cause, 60)
{
    be_hit("store", "take 0", "may only read");
}

TEST_TIMEOUT(a_reader_whose_gpu_was_reset_is_told, 60)
{
    be_hit("reset", "release 0", "has reset the GPU");
}

TEST_TIMEOUT(a_writer_whose_gpu_was_reset_is_told, 60)
{
    struct child writer;

    gpu_begin();
    writer = player_writer("");
    PLAYER(&writer, "commit 0", "committed 1");
    PLAYER(&writer, "reset", "reset");
    test_nap(20 * SLUICE_MS);
    const char *said = player_ask(&writer, "begin 0");
    if (!strstr(said, "E_DRIVER")) /* nothing was in flight: whoever asks the driver is told */
        CHECK_HAS(said, "begun");
    PLAYER(&writer, "close", "closed");
    role_stop(&writer);
    writer = player_writer("");
    PLAYER(&writer, "commit 0", "committed 1");
    role_stop(&writer);
}

/* ---- streams that end under a frame ---- */

static void end_streams(struct scene *scene, bool close)
{
    if (close)
        CHECK_OK(sluice_device_close(&scene->device));
    else
        CHECK_OK(sluice_device_reset(scene->device));
    if (close)
        scene->device = gpu_open();
}

static void outlive(bool close)
{
    struct scene scene = channel_scene();
    sluice_reader *reader = channel_reader(1);
    struct sluice_frame in, out;
    struct sluice_array array;

    channel_commit(scene.writer, scene.writing, SPIN, 1);
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &in));
    CHECK_OK(sluice_writer_begin(scene.writer, 20 * SLUICE_S, &out));
    CHECK_OK(sluice_frame_array(&out, NULL, &array));
    gpu_fill(gpu_native(scene.writing), (uintptr_t)array.data, CHANNEL_WORDS, 2);
    end_streams(&scene, close);
    CHECK_SAYS(sluice_writer_commit(scene.writer, &out, scene.writing), SLUICE_E_STALE, close ? "closed" : "reset");
    CHECK_SAYS(sluice_writer_cancel(scene.writer, &out, scene.writing), SLUICE_E_STALE, close ? "closed" : "reset");
    CHECK_SAYS(sluice_reader_release(reader, &in, scene.reading), SLUICE_E_STALE, close ? "closed" : "reset");
    CHECK_SAYS(sluice_reader_acquire(reader, scene.reading, 0, &out), SLUICE_E_STALE, close ? "closed" : "reset");

    /* Both frames are there still, for streams that live. */
    CHECK_OK(sluice_stream_create(scene.device, NULL, &scene.writing));
    CHECK_OK(sluice_stream_create(scene.device, NULL, &scene.reading));
    CHECK_OK(sluice_writer_commit(scene.writer, &out, scene.writing));
    channel_check(&in, scene.reading, 1);
    CHECK_OK(sluice_reader_release(reader, &in, scene.reading));
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &in));
    CHECK_EQ(in.sequence, 2);
    channel_check(&in, scene.reading, 2);
    CHECK_OK(sluice_reader_release(reader, &in, scene.reading));
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}

TEST(channels_outlive_a_reset_of_their_device) { outlive(false); }

TEST(channels_outlive_their_devices_handle) { outlive(true); }

/* ---- streams from before somebody's reset of the GPU ---- */

/* Native streams end with their context, whoever holds handles of them; and a new context may give their addresses away again. */
TEST(streams_of_before_a_reset_are_refused_after_it)
{
    static uint32_t fetched[CHANNEL_WORDS];
    struct scene old = channel_scene();
    struct sluice_frame in, out;
    struct sluice_ticket ticket;
    struct sluice_array array;
    struct sl_cu_context *again;

    TEST_KEEPS_FDS();
    CHECK_OK(sluice_writer_close(&old.writer));
    CU(DevicePrimaryCtxReset, 0);
    CU(DevicePrimaryCtxRetain, &again, 0);
    CU(CtxSetCurrent, again);
    struct scene now = channel_scene();
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
