/* SPDX-License-Identifier: MIT
 *
 * What "cipd:" channels refuse.
 */
#include <string.h>

#include "gpu/cipd_kit.h"

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
    REFUSES(readers, 3, SLUICE_E_UNSUPPORTED, "they are not counted");
    REFUSES(writable, 1, SLUICE_E_UNSUPPORTED, "nothing keeps readers from writing");
    params.uids = params.gids = &someone; /* empty lists, as Python's are, promise nothing */
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
    memset(frame.meta, 7, SLUICE_MAX_META); /* is not transmitted, and harms nobody */
    CHECK_OK(sluice_frame_reshape(&frame, NULL, 3, shape));
    CHECK_SAYS(sluice_writer_commit(side.writer, &frame, SLUICE_ON_CPU), SLUICE_E_UNSUPPORTED, "another shape");
    CHECK_RESULT(sluice_writer_reformat(side.writer, &side.format), SLUICE_E_BUSY);
    CHECK_RESULT(sluice_cipd_set_slots(side.writer, 2), SLUICE_E_BUSY);
    CHECK_RESULT(sluice_writer_send(side.writer, &side.array, 1, side.stream, NULL), SLUICE_E_BUSY);
    CHECK_OK(sluice_writer_cancel(side.writer, &frame, SLUICE_ON_CPU));
    cipd_end(&side);
}

TEST(cipd_a_send_must_name_its_stream)
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

/* The driver of a busy GPU takes its time to close the memory of the session before. */
static int acquire_of_the_next_session(sluice_reader *reader, struct sluice_frame *frame)
{
    int64_t until = test_now() + 20 * SLUICE_S;
    int r;

    do
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 100 * SLUICE_MS, frame);
    while (r == SLUICE_AGAIN && test_now() < until);
    return r;
}

/* The writer may announce any size; the driver knows how much memory there is. */
TEST(cipd_frames_that_are_larger_than_their_memory_are_refused)
{
    struct cipd_side side = cipd_begin();
    struct child writer = cipd_start_writer("3");
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    sluice_reader *reader = cipd_reader(), *another;
    struct sluice_frame frame;

    cipd_command(&writer, "1");
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    cipd_announce(3, 2048, 1024);
    cipd_command(&writer, "2");
    CHECK_SAYS(acquire_of_the_next_session(reader, &frame), SLUICE_NO_WRITER,
               "announced 8388608 bytes of GPU memory, and its handle is of 2097152");
    params.open_timeout_ns = 0;
    CHECK_SAYS(sluice_reader_open(&another, &params), SLUICE_TIMEOUT, "announced 8388608 bytes of GPU memory");
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
    cipd_end(&side);
}
