/* SPDX-License-Identifier: MIT
 *
 * Writers of "cipd:" channels that are ahead of their GPU: one finished frame stays, and readers find it. Close waits
 * for the GPU only for a limited time.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/cipd_kit.h"

/* ---- frames behind a gate are not finished ---- */

static struct cipd_side gated(uint32_t slots, int64_t wait_ns, struct gpu_gate *gate)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);

    params.slots = slots;
    params.wait_ns = wait_ns;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    *gate = gpu_gate_new();
    return side;
}

static void ungated(struct cipd_side *side, struct gpu_gate *gate, sluice_reader *reader)
{
    gpu_gate_end(gate);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(side);
}

/* Sends a frame that is finished. */
static void send(struct cipd_side *side, uint32_t value)
{
    CHECK_OK(cipd_send(side->writer, &side->array, side->stream, value, NULL));
    CHECK_OK(sluice_stream_synchronize(side->stream));
}

/* Without calls that wait for the whole GPU, such as freeing memory. */
static uint32_t first_word(const struct sluice_frame *frame, struct sl_cu_stream *stream)
{
    uint32_t word = 0;

    CU(MemcpyDtoHAsync, &word, channel_words(frame), 4, stream);
    CU(StreamSynchronize, stream);
    return word;
}

/* Takes the frame that is there, and gives it back. */
static void take(sluice_reader *reader, struct sluice_stream stream, uint32_t value, uint64_t missed)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame));
    CHECK_EQ(first_word(&frame, gpu_native(stream)), value);
    CHECK_EQ(frame.missed, missed);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
}

TEST(cipd_a_reader_takes_the_newest_frame_that_is_finished)
{
    struct gpu_gate gate;
    struct cipd_side side = gated(4, 0, &gate);
    sluice_reader *reader = cipd_reader();
    struct sluice_stream reading;
    struct sluice_frame frame;

    CHECK_OK(sluice_stream_create(side.device, NULL, &reading));
    send(&side, 1);
    take(reader, reading, 1, 0);
    send(&side, 2);
    send(&side, 3);
    gpu_gate_close(&gate, gpu_native(side.stream));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 4, NULL));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 5, NULL)); /* in the slot of the first */
    take(reader, reading, 3, 1);
    /* None is taken twice, nor is an older one. */
    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT, "not finished");
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(side.stream));
    take(reader, reading, 5, 1);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
    ungated(&side, &gate, reader);
}

TEST(cipd_of_two_slots_the_finished_one_is_taken)
{
    struct gpu_gate gate;
    struct cipd_side side = gated(2, 0, &gate);
    sluice_reader *reader = cipd_reader();
    struct sluice_stream reading;
    struct sluice_frame frame, begun;

    CHECK_OK(sluice_stream_create(side.device, NULL, &reading));
    send(&side, 1);
    take(reader, reading, 1, 0);
    send(&side, 2);
    gpu_gate_close(&gate, gpu_native(side.stream));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 3, NULL));
    CHECK_RESULT(sluice_writer_begin(side.writer, 0, &begun), SLUICE_NO_SLOT); /* 2 is the only one that is finished */
    take(reader, reading, 2, 0);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(side.stream));
    CHECK_OK(sluice_writer_begin(side.writer, 0, &begun));
    gpu_gate_close(&gate, gpu_native(side.stream));
    gpu_fill(gpu_native(side.stream), channel_words(&begun), cipd_words(&side.format), 4);
    take(reader, reading, 3, 0);
    CHECK_OK(sluice_writer_commit(side.writer, &begun, side.stream));
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(side.stream));
    take(reader, reading, 4, 0);
    ungated(&side, &gate, reader);
}

/* The part of the segment that only Sluice's writers and readers use (docs/cuda-link-wire.md). */
struct segment {
    _Alignas(4096) unsigned char wire[2048];
    uint32_t magic, asleep;
    uint64_t version;
    uint32_t pid, begun;
};

static struct segment *map_segment(void)
{
    char path[128];

    snprintf(path, sizeof path, "/dev/shm/%s", cipd_name() + strlen("cipd:"));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK_GE(fd, 0);
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    CHECK(close(fd) == 0);
    return at;
}

TEST(cipd_a_finished_frame_is_not_taken_once_its_slot_is_begun_again)
{
    struct gpu_gate gate;
    struct cipd_side side = gated(3, 0, &gate);
    sluice_reader *reader = cipd_reader();
    struct sluice_stream reading;
    struct sluice_frame frame;

    CHECK_OK(sluice_stream_create(side.device, NULL, &reading));
    send(&side, 1);
    take(reader, reading, 1, 0);
    send(&side, 2);
    gpu_gate_close(&gate, gpu_native(side.stream));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 3, NULL));
    struct segment *segment = map_segment();
    CHECK_EQ(segment->begun, 3);
    segment->begun = 5;
    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT, "not finished");
    segment->begun = 4;
    take(reader, reading, 2, 0);
    CHECK(munmap(segment, 4096) == 0);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(side.stream));
    ungated(&side, &gate, reader);
}

/* Beside a writer of cuda-link's, which does not report what it has begun: it may always be the next one. */
static void with_another_program(uint32_t slots, bool found)
{
    struct gpu_gate gate;
    struct cipd_side side = gated(slots, 0, &gate);
    cipd_disguise();
    send(&side, 1);
    sluice_reader *reader = cipd_reader();
    struct sluice_stream reading;
    struct sluice_frame frame;

    CHECK_OK(sluice_stream_create(side.device, NULL, &reading));
    take(reader, reading, 1, 0);
    send(&side, 2);
    gpu_gate_close(&gate, gpu_native(side.stream));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 3, NULL));
    if (found)
        take(reader, reading, 2, 0);
    else
        CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT, "not finished");
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(side.stream));
    take(reader, reading, 3, found ? 0 : 1);
    ungated(&side, &gate, reader);
}

TEST(cipd_an_older_frame_of_another_writers_is_taken)
{
    with_another_program(3, true);
}
TEST(cipd_an_older_frame_of_another_writers_two_slots_is_not)
{
    with_another_program(2, false);
}

/* ---- one is kept ---- */

static void left_alone(uint32_t slots)
{
    struct gpu_gate gate;
    struct cipd_side side = gated(slots, SLUICE_MS, &gate);
    sluice_reader *reader = cipd_reader();
    struct sluice_writer_stats stats = { .size = sizeof stats };
    struct sluice_stream reading;
    struct sluice_frame begun;

    CHECK_OK(sluice_stream_create(side.device, NULL, &reading));
    for (uint32_t i = 1; i <= slots + 1; i++)
        send(&side, i);
    gpu_gate_close(&gate, gpu_native(side.stream));
    for (uint32_t i = 1; i < slots; i++)
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 100 + i, NULL));
    for (uint32_t i = 0; i < 2; i++)
        CHECK_SAYS(cipd_send(side.writer, &side.array, side.stream, 200, NULL), SLUICE_NO_SLOT, "only finished one");
    CHECK_RESULT(sluice_writer_begin(side.writer, SLUICE_MS, &begun), SLUICE_NO_SLOT);
    CHECK_RESULT(sluice_writer_wait(side.writer, 0), SLUICE_NO_SLOT); /* without a frame */
    CHECK_OK(sluice_writer_stats(side.writer, &stats));
    CHECK_EQ(stats.dropped, 3);
    CHECK_EQ(stats.committed, 2 * slots);
    CHECK_GE(stats.waited_ns, 3 * SLUICE_MS);
    take(reader, reading, slots + 1, 0);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(side.stream));
    CHECK_OK(sluice_writer_wait(side.writer, 0));
    take(reader, reading, 100 + slots - 1, slots - 2);
    send(&side, 300);
    take(reader, reading, 300, 0);
    ungated(&side, &gate, reader);
}

TEST(cipd_a_writer_of_two_slots_leaves_a_finished_frame)
{
    left_alone(2);
}
TEST(cipd_a_writer_of_three_slots_leaves_a_finished_frame)
{
    left_alone(3);
}
TEST(cipd_a_writer_of_ten_slots_leaves_a_finished_frame)
{
    left_alone(10);
}

TEST(cipd_a_send_waits_until_one_is_finished)
{
    struct gpu_gate gate;
    struct cipd_side side = gated(2, 20 * SLUICE_S, &gate);
    sluice_reader *reader = cipd_reader();

    for (uint32_t i = 1; i <= 2; i++)
        send(&side, i);
    gpu_gate_close(&gate, gpu_native(side.stream));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 3, NULL));
    gpu_gate_open_later(&gate);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 4, NULL));
    gpu_gate_join(&gate);
    ungated(&side, &gate, reader);
}

TEST(cipd_a_writer_of_one_slot_has_none_to_leave)
{
    struct gpu_gate gate;
    struct cipd_side side = gated(1, SLUICE_MS, &gate);
    sluice_reader *reader = cipd_reader();

    gpu_gate_close(&gate, gpu_native(side.stream));
    for (uint32_t i = 1; i <= 5; i++)
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i, NULL));
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(side.stream));
    take(reader, side.stream, 5, 0);
    ungated(&side, &gate, reader);
}

/* The GPU's work on a cancelled frame is waited for, even if an earlier frame is finished. */
TEST(cipd_a_slot_is_lent_when_a_cancelled_frame_has_left_it)
{
    struct gpu_gate gate;
    struct cipd_side side = gated(2, SLUICE_MS, &gate);
    sluice_reader *reader = cipd_reader();
    struct sluice_frame frame;

    for (uint32_t i = 1; i <= 3; i++)
        send(&side, i);
    CHECK_OK(sluice_writer_begin(side.writer, 0, &frame));
    gpu_gate_close(&gate, gpu_native(side.stream));
    CHECK_OK(sluice_writer_cancel(side.writer, &frame, side.stream));
    CHECK_SAYS(sluice_writer_begin(side.writer, 0, &frame), SLUICE_NO_SLOT, "did not finish the work on slot");
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(side.stream));
    CHECK_OK(sluice_writer_begin(side.writer, 0, &frame));
    CHECK_OK(sluice_writer_cancel(side.writer, &frame, SLUICE_ON_CPU));
    ungated(&side, &gate, reader);
}

/* ---- beside a writer that never pauses ---- */

/* Sends until its stdin ends, if possible always with at least 64 frames that its GPU has not finished. Arguments: the
 * channel; slots. */
ROLE(cipd_endless_writer)
{
    struct sluice_cipd_writer_params cipd;
    struct sl_cu_event *marks[2];

    CHECK_EQ(argc, 3);
    cipd_set_name(argv[1]);
    struct cipd_side side = cipd_begin();
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
    params.slots = (uint32_t)atoi(argv[2]);
    params.wait_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    for (int i = 0; i < 2; i++) {
        CU(EventCreate, &marks[i], SL_CU_EVENT_DISABLE_TIMING);
        CU(EventRecord, marks[i], gpu_native(side.stream));
    }
    role_say("open");
    struct pollfd input = { .fd = 0, .events = POLLIN };
    for (uint32_t i = 1; poll(&input, 1, 0) == 0; i++) {
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i, NULL));
        if (i % 64)
            continue;
        CU(EventRecord, marks[i / 64 % 2], gpu_native(side.stream));
        CU(EventSynchronize, marks[(i / 64 + 1) % 2]);
    }
    cipd_end(&side);
    return 0;
}

static void starve(const char *slots, bool ahead)
{
    struct cipd_side side = cipd_begin();
    CHECK(setenv("SLUICE_FAKE_DELAY", "3000", 1) == 0); /* of the writer: each frame takes its GPU twice that */
    struct child writer = role_start("cipd_endless_writer", cipd_name(), slots, NULL);
    CHECK(unsetenv("SLUICE_FAKE_DELAY") == 0);
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    struct sluice_frame frame;
    sluice_reader *reader;
    uint32_t last = 0, lost = 0;

    child_expect(&writer, "open", 20);
    params.ahead = ahead;
    cipd.wait_ns = 60 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(sluice_reader_acquire(reader, side.stream, 20 * SLUICE_S, &frame));
        CHECK(frame.sequence > last);
        last = (uint32_t)frame.sequence;
        CHECK_OK(sluice_stream_synchronize(side.stream));
        int r = sluice_reader_release(reader, &frame, side.stream);
        CHECK(r == 0 || r == SLUICE_E_LOST);
        lost += r != 0;
    }
    CHECK(lost < 20);
    role_stop(&writer);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

TEST_TIMEOUT(cipd_a_reader_does_not_starve_beside_a_fast_writer, 60)
{
    starve("3", false);
}
TEST_TIMEOUT(cipd_a_reader_of_two_slots_does_not_starve_either, 60)
{
    starve("2", false);
}
TEST_TIMEOUT(cipd_a_reader_whose_stream_waits_does_not_starve_either, 60)
{
    starve("3", true);
}

/* ---- the end ---- */

/* What it leaves behind ends with its process. */
ROLE(cipd_closes_in_the_middle)
{
    CHECK_EQ(argc, 2);
    cipd_set_name(argv[1]);
    struct cipd_side side = cipd_begin();
    side.writer = cipd_writer(&side.format);
    struct gpu_gate gate = gpu_gate_new();
    gpu_gate_close(&gate, gpu_native(side.stream));
    CHECK_OK(sluice_writer_send(side.writer, &side.array, 1, side.stream, NULL));
    int64_t began = test_now();
    CHECK_OK(sluice_writer_close(&side.writer));
    CHECK_LE(test_now() - began, (int64_t)(10e9 * test_slowness()));
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(side.stream));
    role_say("closed");
    _exit(0);
}

/* Work on the GPU does not delay close for long, and its memory is not freed under it. */
TEST_TIMEOUT(cipd_close_does_not_wait_for_ever, 60)
{
    gpu_begin();
    struct child child = role_start("cipd_closes_in_the_middle", cipd_name(), NULL);
    child_expect(&child, "closed", 50);
    CHECK_EQ(child_wait(&child, 20), 0);
}
