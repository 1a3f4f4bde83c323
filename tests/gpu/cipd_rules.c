/* SPDX-License-Identifier: MIT
 *
 * What "cipd:" channels refuse, whom they make way for, and what they say of themselves.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/cipd.h"

/* ---- parameters ---- */

#define REFUSES(field, value, result, word) \
    do { \
        struct sluice_writer_params bad = params; \
        bad.field = (value); \
        CHECK_SAYS(sluice_writer_open(&writer, &bad), result, word); \
    } while (0)

TEST(cipd_a_writer_refuses_what_its_protocol_cannot_promise)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
    uint32_t someone = 1000;
    sluice_writer *writer;

    REFUSES(policy, SLUICE_WAIT, SLUICE_E_UNSUPPORTED, "knows no readers");
    REFUSES(max_slots, 5, SLUICE_E_UNSUPPORTED, "sluice_cipd_set_slots");
    REFUSES(lease_timeout_ns, 1, SLUICE_E_UNSUPPORTED, "no leases");
    REFUSES(readers, 3, SLUICE_E_UNSUPPORTED, "nobody counts");
    REFUSES(writable, 1, SLUICE_E_UNSUPPORTED, "nothing keeps readers from writing");
    params.uids = params.gids = &someone; /* lists of nobody, as Python's are, promise nothing */
    CHECK_OK(sluice_writer_open(&writer, &params));
    sluice_writer_close(&writer);
    REFUSES(uid_count, 1, SLUICE_E_UNSUPPORTED, "this user alone");
    REFUSES(gid_count, 1, SLUICE_E_UNSUPPORTED, "this user alone");
    REFUSES(slots, 11, SLUICE_E_LIMIT, "1 to 10");
    REFUSES(format, NULL, SLUICE_E_INVALID, "no format");
    REFUSES(device, "host", SLUICE_E_UNSUPPORTED, "memory of a GPU alone");
    REFUSES(device, NULL, SLUICE_E_UNSUPPORTED, "\"cuda:0\"");
    REFUSES(device, "cuda:77", SLUICE_E_UNSUPPORTED, "no such GPU");
    REFUSES(name, "cipd:", SLUICE_E_NAME, "");
    REFUSES(name, "cipd:a/b", SLUICE_E_NAME, "slash");
    REFUSES(name, "nonsense:a", SLUICE_E_NAME, "cipd:NAME");
    REFUSES(name, "plain", SLUICE_E_INVALID, "cipd");
    cipd.flags = 4;
    REFUSES(slots, 3, SLUICE_E_INVALID, "lowest three");
    cipd.flags = 0;
    cipd.order = 3;
    REFUSES(slots, 3, SLUICE_E_INVALID, "order");
    cipd.order = 0;
    cipd.barrier = 3;
    REFUSES(slots, 3, SLUICE_E_INVALID, "barrier");
    cipd.barrier = 0;
    cipd.size = 2;
    REFUSES(slots, 3, SLUICE_E_INVALID, "size");
    cipd_end(&side);
}

TEST(cipd_a_writer_refuses_formats_that_the_wire_cannot_hold)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_format format = SLUICE_FORMAT_INIT, image = SLUICE_FORMAT_INIT, wide = SLUICE_FORMAT_INIT;
    int64_t shape[4] = { 4, 4, 4, 4 };
    sluice_writer *writer;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &format);

    CHECK_OK(sluice_format_add_tensor(&format, "a", cipd_uint8, 4, shape));
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_FORMAT, "(height, width, components)");
    format = (struct sluice_format)SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_tensor(&format, "a", (struct sluice_dtype){ SLUICE_FLOAT, 64, 1 }, 3, shape));
    CHECK_RESULT(sluice_writer_open(&writer, &params), SLUICE_E_FORMAT);
    format = (struct sluice_format)SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_tensor(&format, "a", cipd_uint8, 3, shape));
    CHECK_OK(sluice_format_add_tensor(&format, "b", cipd_uint8, 3, shape));
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_FORMAT, "one array");
    CHECK_OK(sluice_format_add_image(&image, "a", SLUICE_PIXEL_NV12, 64, 64));
    params.format = &image;
    CHECK_RESULT(sluice_writer_open(&writer, &params), SLUICE_E_FORMAT);
    wide.pitch_align = 256;
    CHECK_OK(sluice_format_add_image(&wide, "a", SLUICE_PIXEL_RGBA, 50, 64));
    params.format = &wide;
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_FORMAT, "dense");
    cipd_end(&side);
}

#define READER_REFUSES(field, value, result, word) \
    do { \
        struct sluice_reader_params bad = params; \
        bad.field = (value); \
        CHECK_SAYS(sluice_reader_open(&reader, &bad), result, word); \
    } while (0)

TEST(cipd_a_reader_refuses_what_its_protocol_cannot_promise)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    sluice_reader *reader;

    side.writer = cipd_writer(&side.format);
    READER_REFUSES(mode, SLUICE_IN_ORDER, SLUICE_E_UNSUPPORTED, "older frames");
    READER_REFUSES(depth, 2, SLUICE_E_UNSUPPORTED, "depth");
    READER_REFUSES(every, 2, SLUICE_E_UNSUPPORTED, "every");
    READER_REFUSES(staged, 1, SLUICE_E_UNSUPPORTED, "copy");
    READER_REFUSES(uid_count, 1, SLUICE_E_UNSUPPORTED, "user alone");
    READER_REFUSES(hold, 11, SLUICE_E_LIMIT, "10 at most");
    READER_REFUSES(device, "host", SLUICE_E_UNSUPPORTED, "sluice_reader_fetch");
    READER_REFUSES(name, "plain", SLUICE_E_INVALID, "cipd");
    cipd.undeclared = 3;
    READER_REFUSES(hold, 1, SLUICE_E_INVALID, "undeclared");
    cipd.undeclared = 0;
    cipd.wait_ns = -1;
    READER_REFUSES(hold, 1, SLUICE_E_INVALID, "negative");
    cipd_end(&side);
}

TEST(cipd_a_format_that_cannot_be_is_named)
{
    struct cipd_side side = cipd_begin();
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int64_t shape[3] = { 1 << 16, 1 << 16, 4 };

    side.writer = cipd_writer(&side.format);
    CHECK_OK(sluice_format_add_tensor(&format, "frame", (struct sluice_dtype){ SLUICE_FLOAT, 32, 1 }, 3, shape));
    CHECK_RESULT(sluice_writer_reformat(side.writer, &format), SLUICE_E_FORMAT);
    CHECK_HAS(sluice_last_error(), "there can be no frames of 'frame' float32 (65536, 65536, 4): ");
    cipd_end(&side);
}

TEST(cipd_a_frame_has_the_channels_shape)
{
    struct cipd_side side = cipd_begin();
    struct sluice_frame frame;
    int64_t shape[3] = { 1, 1, 4 };

    side.writer = cipd_writer(&side.format);
    CHECK_OK(sluice_writer_begin(side.writer, 0, &frame));
    memset(frame.meta, 7, SLUICE_MAX_META); /* goes nowhere, and harms nobody */
    CHECK_OK(sluice_frame_reshape(&frame, NULL, 3, shape));
    CHECK_SAYS(sluice_writer_commit(side.writer, &frame, SLUICE_ON_CPU), SLUICE_E_UNSUPPORTED, "another shape");
    CHECK_RESULT(sluice_writer_reformat(side.writer, &side.format), SLUICE_E_BUSY);
    CHECK_RESULT(sluice_cipd_set_slots(side.writer, 2), SLUICE_E_BUSY);
    CHECK_RESULT(sluice_writer_send(side.writer, &side.array, 1, side.stream, NULL), SLUICE_E_BUSY);
    CHECK_OK(sluice_writer_cancel(side.writer, &frame, SLUICE_ON_CPU));
    cipd_end(&side);
}

TEST(cipd_a_send_says_behind_which_work_it_is)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
    static unsigned char plain[CIPD_WIDTH * CIPD_HEIGHT * 16];
    struct sluice_array array = cipd_array((uintptr_t)plain, &side.format);

    cipd.strict_device = 1;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    CHECK_RESULT(sluice_writer_send(side.writer, &side.array, 1, (struct sluice_stream){ 0 }, NULL), SLUICE_E_INVALID);
    CHECK_SAYS(sluice_writer_send(side.writer, &array, 1, SLUICE_ON_CPU, NULL), SLUICE_E_WRONG_DEVICE, "strict_device");
    CHECK_EQ(cipd_info_of_writer(side.writer).failed, 2);
    CHECK_EQ(cipd_info_of_writer(side.writer).published, 0);
    CHECK_OK(sluice_writer_send(side.writer, &side.array, 1, SLUICE_ON_CPU, NULL));
    cipd_end(&side);
}

/* As Python's resource tracker does when a process that was attached ends. */
TEST(cipd_a_name_that_was_taken_away_is_given_back)
{
    struct cipd_side side = cipd_begin();
    char path[128];

    side.writer = cipd_writer(&side.format);
    snprintf(path, sizeof path, "/dev/shm/%s", cipd_name() + strlen("cipd:"));
    CHECK_EQ(unlink(path), 0);
    CHECK_SOON(access(path, F_OK) == 0, 10);
    CHECK_SOON(cipd_info_of_writer(side.writer).relinked == 1, 10);
    sluice_reader *reader = cipd_reader();
    CHECK_OK(sluice_reader_close(&reader));
    /* Where another has put a segment in its place, nobody sees our frames. */
    CHECK_EQ(unlink(path), 0);
    FILE *other = fopen(path, "w");
    CHECK(other && fputs("something else", other) >= 0 && fclose(other) == 0);
    CHECK_SOON(cipd_send(side.writer, &side.array, side.stream, 1, NULL) == SLUICE_E_EXISTS, 10);
    cipd_end(&side);
}

/* ---- one writer a name ---- */

ROLE(cipd_rival)
{
    struct sluice_format format = cipd_format(cipd_uint8, 8, 8);
    struct sluice_cipd_writer_params cipd;
    sluice_writer *writer;

    CHECK_EQ(argc, 2);
    gpu_begin();
    cipd_call(argv[1]);
    struct sluice_writer_params params = cipd_writer_params(&cipd, &format);
    int r = sluice_writer_open(&writer, &params);
    role_say("%d", r);
    if (r == 0 && role_line())
        CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

TEST(cipd_a_name_has_one_writer)
{
    struct cipd_side side = cipd_begin();
    sluice_writer *writer;

    side.writer = cipd_writer(&side.format);
    struct child child = role_start("cipd_rival", cipd_name(), NULL);
    char text[8];
    snprintf(text, sizeof text, "%d", SLUICE_E_EXISTS);
    child_expect(&child, text, 20);
    CHECK_EQ(child_wait(&child, 20), 0);
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
    CHECK_RESULT(sluice_writer_open(&writer, &params), SLUICE_E_EXISTS);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL)); /* which is as it was */
    CHECK_OK(sluice_writer_close(&side.writer));
    child = role_start("cipd_rival", cipd_name(), NULL);
    child_expect(&child, "0", 20);
    child_kill(&child, SIGKILL);
    side.writer = cipd_writer(&side.format); /* at once */
    cipd_end(&side);
}

/* Its frames are too rare for an open to see that it lives. */
TEST(cipd_a_writer_is_told_of_another_program_in_its_segment)
{
    struct cipd_side side = cipd_begin();

    side.writer = cipd_writer(&side.format);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    cipd_publish_as_another(77);
    CHECK_SOON(cipd_send(side.writer, &side.array, side.stream, 1, NULL) == SLUICE_E_EXISTS, 10);
    CHECK_HAS(sluice_last_error(), "another program writes into the same segment");
    CHECK_OK(sluice_writer_close(&side.writer));
    side.writer = cipd_writer(&side.format);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    cipd_end(&side);
}

/* Nothing is sent in between, by which the writer could have been told. */
static void leave_another_alone(bool same_handles)
{
    struct cipd_side side = cipd_begin();
    struct sluice_format other = cipd_format(cipd_uint8, 32, 16);
    unsigned char before[CIPD_SEGMENT], after[CIPD_SEGMENT];

    side.writer = cipd_writer(&side.format);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    CHECK_OK(sluice_stream_synchronize(side.stream));
    cipd_begin_as_another(same_handles);
    cipd_load_segment(before);
    CHECK_SAYS(sluice_writer_reformat(side.writer, &other), SLUICE_E_EXISTS, "another program");
    CHECK_SAYS(sluice_cipd_set_slots(side.writer, 2), SLUICE_E_EXISTS, "another program");
    CHECK_SAYS(sluice_writer_reformat(side.writer, &side.format), SLUICE_E_EXISTS, "another program");
    cipd_load_segment(after);
    CHECK_MEM(after, before, sizeof before);
    CHECK_OK(sluice_writer_close(&side.writer));
    cipd_load_segment(after);
    CHECK_MEM(after, before, 2048); /* the rest is not the protocol's: there the writer says that its memory is gone */
    cipd_end(&side);
}

TEST(cipd_a_writer_begins_no_session_over_another_programs) { leave_another_alone(false); }
TEST(cipd_a_writer_begins_no_session_over_another_programs_with_its_handles) { leave_another_alone(true); }

/* ---- the barrier ---- */

/* Raises it and stays. */
ROLE(cipd_holder)
{
    struct sluice_format format = cipd_format(cipd_uint8, 8, 8);
    struct sluice_cipd_writer_params cipd;
    sluice_writer *writer;
    char name[160];

    CHECK_EQ(argc, 2);
    gpu_begin();
    cipd_call(argv[1]);
    struct sluice_writer_params params = cipd_writer_params(&cipd, &format);
    snprintf(name, sizeof name, "%s.holder", argv[1]);
    params.name = name;
    cipd.holds_barrier = 1;
    cipd.settle_frames = 2;
    CHECK_OK(sluice_writer_open(&writer, &params));
    role_say("up");
    while (role_line()) {
        struct sluice_frame frame;
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
        CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
        struct sluice_cipd_info info = cipd_info_of_writer(writer);
        role_say(info.holds_barrier ? "up" : "down");
    }
    CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

static bool skips(sluice_writer *writer)
{
    struct sluice_frame frame;
    int r = sluice_writer_begin(writer, SLUICE_DEFAULT, &frame);

    if (r == 0)
        CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
    return r == SLUICE_NO_SLOT;
}

/* A busy GPU's driver takes its time to close the memory of the session before. */
static int acquire_of_the_next_session(sluice_reader *reader, struct sluice_frame *frame)
{
    int64_t until = test_now() + 20 * SLUICE_S;
    int r;

    do
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 100 * SLUICE_MS, frame);
    while (r == SLUICE_AGAIN && test_now() < until);
    return r;
}

/* What the writer says of its frames may be anything; how much memory there is, the driver knows. */
TEST(cipd_frames_that_are_larger_than_their_memory_are_refused)
{
    struct cipd_side side = cipd_begin();
    struct child writer = cipd_start_writer("3");
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    sluice_reader *reader = cipd_reader(), *another;
    struct sluice_frame frame;

    cipd_tell(&writer, "1");
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    cipd_announce(3, 2048, 1024);
    cipd_tell(&writer, "2");
    CHECK_SAYS(acquire_of_the_next_session(reader, &frame), SLUICE_NO_WRITER,
               "announced 8388608 bytes of GPU memory, and its handle is of 2097152");
    params.open_timeout_ns = 0;
    CHECK_SAYS(sluice_reader_open(&another, &params), SLUICE_TIMEOUT, "announced 8388608 bytes of GPU memory");
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
    cipd_end(&side);
}

TEST(cipd_frames_are_skipped_while_a_barrier_is_up)
{
    struct cipd_side side = cipd_begin();

    side.writer = cipd_writer(&side.format);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    struct child child = role_start("cipd_holder", cipd_name(), NULL);
    child_expect(&child, "up", 20);
    CHECK_SOON(skips(side.writer), 20); /* the kernel tells of it, or it is looked for every 10 ms */
    CHECK_SAYS(cipd_send(side.writer, &side.array, side.stream, 2, NULL), SLUICE_NO_SLOT, "barrier");
    struct sluice_cipd_info info = cipd_info_of_writer(side.writer);
    CHECK_EQ(info.barrier_skips, 2);
    CHECK_EQ(info.index, 1);
    CHECK_EQ(info.published, 1);
    child_send(&child, "frame");
    child_expect(&child, "up", 20);
    child_send(&child, "frame");
    child_expect(&child, "down", 20);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 3, NULL));
    role_stop(&child);
    cipd_end(&side);
}

TEST(cipd_a_barrier_can_be_ignored_and_gets_stale)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);

    struct child child = role_start("cipd_holder", cipd_name(), NULL);
    child_expect(&child, "up", 20);
    cipd.barrier = SLUICE_CIPD_OFF;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    CHECK_OK(sluice_writer_close(&side.writer));
    cipd.barrier = SLUICE_CIPD_ON;
    cipd.barrier_stale_ns = 1; /* so it is by now */
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    role_stop(&child);
    cipd_end(&side);
}

/* ---- what it says of itself ---- */

static int count_own(void *user, const char *name)
{
    int *found = user;

    *found += strcmp(name, cipd_name() + 5) == 0;
    return 0;
}

TEST(cipd_a_channel_can_be_looked_at_from_outside)
{
    struct cipd_side side = cipd_begin();
    struct sluice_channel_info channel = { .size = sizeof channel };
    struct sluice_cipd_info info = { .size = sizeof info };
    struct sluice_cipd_writer_params cipd;
    struct sluice_format format = cipd_format(cipd_uint8, 32, 16);
    struct sluice_writer_params params = cipd_writer_params(&cipd, &format);
    int found = 0;

    CHECK_RESULT(sluice_cipd_look(cipd_name(), &info), SLUICE_E_NOT_FOUND);
    CHECK_RESULT(sluice_channel_info(cipd_name(), 20 * SLUICE_S, &channel, NULL, 0), SLUICE_E_NOT_FOUND);
    cipd.order = SLUICE_CIPD_BGRA;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    struct sluice_array array = cipd_array((uintptr_t)side.array.data, &format);
    CHECK_OK(cipd_send(side.writer, &array, side.stream, 1, NULL));
    CHECK_OK(sluice_cipd_look(cipd_name(), &info));
    CHECK_EQ(info.state, SLUICE_CIPD_RUNNING);
    CHECK_EQ(info.width, 32);
    CHECK_EQ(info.height, 16);
    CHECK_EQ(info.components, 4);
    CHECK_EQ(info.frame_bytes, 32 * 16 * 4);
    CHECK_EQ(info.flags, 4);
    CHECK_EQ(info.order, SLUICE_CIPD_BGRA);
    CHECK_EQ(info.order_declared, 1);
    CHECK_EQ(info.index, 1);
    CHECK_EQ(info.by_sluice, 1);
    CHECK_STR(info.name, cipd_name() + 5);
    CHECK_OK(sluice_channel_info(cipd_name(), 20 * SLUICE_S, &channel, NULL, 0));
    CHECK_EQ(channel.slots, 3);
    CHECK_EQ(channel.memory, SLUICE_MEMORY_CUDA_IPC);
    CHECK_EQ(channel.writable, 1);
    CHECK_EQ(channel.committed, 1);
    CHECK_EQ(channel.format.arrays[0].shape[1], 32);
    CHECK_OK(sluice_cipd_list(count_own, &found));
    CHECK_EQ(found, 1);
    cipd_end(&side);
}

static uint32_t order_seen(uint32_t writers, uint32_t undeclared, uint32_t *pixel_format)
{
    struct sluice_format format = cipd_format(cipd_uint8, 8, 8), seen = SLUICE_FORMAT_INIT;
    struct sluice_cipd_writer_params cipd;
    struct sluice_cipd_reader_params other;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &format);
    struct sluice_reader_params reading = cipd_reader_params(&other);
    sluice_writer *writer;
    sluice_reader *reader;

    cipd.order = writers;
    other.undeclared = undeclared;
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_reader_open(&reader, &reading));
    CHECK_OK(sluice_reader_format(reader, &seen));
    *pixel_format = seen.arrays[0].image.pixel_format;
    uint32_t order = cipd_info_of_reader(reader).order;
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    return order;
}

TEST(cipd_readers_say_what_four_bytes_are_that_no_flag_tells_of)
{
    struct cipd_side side = cipd_begin();
    uint32_t pixels;

    CHECK_EQ(order_seen(SLUICE_CIPD_BGRA, SLUICE_CIPD_RGBA, &pixels), SLUICE_CIPD_BGRA); /* the flag wins */
    CHECK_EQ(pixels, SLUICE_PIXEL_BGRA);
    CHECK_EQ(order_seen(SLUICE_CIPD_RGBA, SLUICE_CIPD_UNKNOWN, &pixels), SLUICE_CIPD_UNKNOWN); /* there is no flag for that */
    CHECK_EQ(pixels, SLUICE_PIXEL_NONE);
    CHECK_EQ(order_seen(SLUICE_CIPD_UNKNOWN, SLUICE_CIPD_RGBA, &pixels), SLUICE_CIPD_RGBA);
    CHECK_EQ(pixels, SLUICE_PIXEL_RGBA);
    CHECK_EQ(order_seen(SLUICE_CIPD_UNKNOWN, SLUICE_CIPD_BGRA, &pixels), SLUICE_CIPD_BGRA);
    CHECK_EQ(pixels, SLUICE_PIXEL_BGRA);
    cipd_end(&side);
}

TEST(cipd_calls_know_channels_of_another_kind)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_info info = { .size = sizeof info };
    struct sluice_cipd_variable variables[4];
    struct sluice_frame frame;
    size_t count = 0;
    sluice_writer *writer = channel_writer();
    sluice_reader *reader = channel_reader(1);

    CHECK_RESULT(sluice_cipd_writer_info(writer, &info), SLUICE_E_UNSUPPORTED);
    CHECK_RESULT(sluice_cipd_reader_info(reader, &info), SLUICE_E_UNSUPPORTED);
    CHECK_RESULT(sluice_cipd_set_slots(writer, 3), SLUICE_E_UNSUPPORTED);
    CHECK_RESULT(sluice_cipd_retry(reader), SLUICE_E_UNSUPPORTED);
    channel_commit(writer, side.stream, 0, 1);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_RESULT(sluice_cipd_mark(reader, &frame, side.stream), SLUICE_E_UNSUPPORTED);
    CHECK_RESULT(sluice_cipd_check_mark(reader, &frame), SLUICE_E_UNSUPPORTED);
    CHECK_OK(sluice_reader_check(reader, &frame)); /* of those: its lease holds it */
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_RESULT(sluice_reader_check(reader, &frame), SLUICE_E_STALE);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_cipd_variables(variables, 4, &count));
    CHECK_GE(count, 20);
    CHECK_HAS(variables[0].name, "CUDALINK_");
    struct sluice_cipd_writer_params writing = SLUICE_CIPD_WRITER_PARAMS_INIT;
    struct sluice_cipd_reader_params reading = SLUICE_CIPD_READER_PARAMS_INIT;
    CHECK_OK(sluice_cipd_environment(&writing, &reading));
    CHECK_EQ(writing.graph, SLUICE_CIPD_ON);
    CHECK_EQ(writing.block, 0);
    CHECK_EQ(writing.settle_frames, 30);
    CHECK_EQ(reading.reconnect, SLUICE_CIPD_ON);
    CHECK_EQ(reading.wait_spin_ns, 200000);
    CHECK_OK(sluice_cipd_environment(NULL, NULL));
    cipd_end(&side);
}

struct settings {
    struct sluice_cipd_writer_params writing;
    struct sluice_cipd_reader_params reading;
};

/* What a process of its own says: they are read once. */
static struct settings settings_with(const char *variable, const char *value)
{
    struct settings *said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), found;
    int status;

    CHECK(said != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        said->writing = (struct sluice_cipd_writer_params)SLUICE_CIPD_WRITER_PARAMS_INIT;
        said->reading = (struct sluice_cipd_reader_params)SLUICE_CIPD_READER_PARAMS_INIT;
        said->writing.holds_barrier = 1;
        bool set = !variable || setenv(variable, value, 1) == 0;
        _exit(!set || sluice_cipd_environment(&said->writing, &said->reading) != 0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    found = *said;
    munmap(said, sizeof *said);
    return found;
}

static const char *another(const char *value)
{
    return strcmp(value, "0") == 0 ? "1" : strcmp(value, "1") == 0 ? "0" : strcmp(value, "high") == 0 ? "normal" : "7";
}

/* What is said to be honoured changes something. */
TEST(cipd_settings_that_are_honoured_are)
{
    struct sluice_cipd_variable variables[64];
    struct settings usual = settings_with(NULL, NULL);
    size_t count, honoured = 0;

    CHECK_OK(sluice_cipd_variables(variables, 64, &count));
    CHECK_LE(count, 64);
    for (size_t i = 0; i < count; i++) {
        struct settings other = settings_with(variables[i].name, another(variables[i].usual));
        bool changed = memcmp(&usual, &other, sizeof usual) != 0;
        honoured += changed;
        if (changed != (variables[i].used == SLUICE_CIPD_USED))
            CHECK_STR(variables[i].name, "what it is said to be");
    }
    CHECK_GE(honoured, 10);
}

/* A process reads them once. */
TEST(cipd_settings_of_the_barrier_may_be_zero)
{
    struct sluice_cipd_writer_params writing = SLUICE_CIPD_WRITER_PARAMS_INIT;

    CHECK_EQ(setenv("CUDALINK_BARRIER_STALE_NS", "0", 1), 0);
    CHECK_EQ(setenv("CUDALINK_TD_BARRIER_SETTLE_FRAMES", "0", 1), 0);
    CHECK_EQ(setenv("CUDALINK_TD_ACTIVATION_BARRIER", "0", 1), 0);
    writing.holds_barrier = 1;
    CHECK_OK(sluice_cipd_environment(&writing, NULL));
    CHECK_EQ(writing.barrier, SLUICE_CIPD_OFF); /* none is so fresh that it counts */
    CHECK_EQ(writing.settle_frames, UINT32_MAX); /* as with cuda-link: until it closes */
    CHECK_EQ(writing.holds_barrier, 0);
}

TEST(cipd_a_writer_that_holds_the_barrier_does_unless_the_environment_forbids_it)
{
    struct sluice_cipd_writer_params writing = SLUICE_CIPD_WRITER_PARAMS_INIT;

    CHECK_OK(sluice_cipd_environment(&writing, NULL));
    CHECK_EQ(writing.holds_barrier, 0);
    writing.holds_barrier = 1;
    CHECK_OK(sluice_cipd_environment(&writing, NULL));
    CHECK_EQ(writing.holds_barrier, 1);
    CHECK_EQ(writing.barrier, SLUICE_CIPD_ON);
}

TEST(cipd_a_channel_without_frames_counts_as_stalled)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_cipd_writer_params writing;
    int64_t shape[3] = { 8, 8, 2 };
    struct sluice_frame frame;
    sluice_reader *reader;

    CHECK_OK(sluice_format_add_tensor(&format, "x", cipd_uint8, 3, shape));
    struct sluice_writer_params opening = cipd_writer_params(&writing, &format);
    writing.mono_alpha = 1;
    CHECK_OK(sluice_writer_open(&side.writer, &opening));
    cipd.stall_ns = 20 * SLUICE_MS;
    CHECK_OK(sluice_reader_open(&reader, &params));
    CHECK_EQ(cipd_info_of_reader(reader).mono_alpha, 1);
    test_nap(30 * SLUICE_MS);
    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_MS, &frame), SLUICE_TIMEOUT, "pauses, hangs, or was killed");
    struct sluice_cipd_info info = cipd_info_of_reader(reader);
    CHECK_EQ(info.state, SLUICE_CIPD_STALLED);
    CHECK_HAS(info.why, "no frame for");
    CHECK_OK(sluice_reader_close(&reader));
    cipd.pair = SLUICE_CIPD_RED_GREEN;
    CHECK_OK(sluice_reader_open(&reader, &params));
    CHECK_EQ(cipd_info_of_reader(reader).mono_alpha, 0);
    CHECK_OK(sluice_reader_close(&reader));
    cipd_end(&side);
}

/* ---- the end ---- */

/* What it leaves behind then goes with its process. */
ROLE(cipd_closes_in_the_middle)
{
    CHECK_EQ(argc, 2);
    cipd_call(argv[1]);
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

/* What the GPU works on still does not hold up the end for long, and is not freed under it. */
TEST_TIMEOUT(cipd_close_does_not_wait_for_ever, 60)
{
    gpu_begin();
    struct child child = role_start("cipd_closes_in_the_middle", cipd_name(), NULL);
    child_expect(&child, "closed", 50);
    CHECK_EQ(child_wait(&child, 20), 0);
}
