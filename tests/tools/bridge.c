/* SPDX-License-Identifier: MIT
 *
 * The command: bridge, between channels in host memory and on the fake driver's GPUs. The test writes one channel and
 * reads the other; the bridge is another process.
 */
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#define WIDTH  64
#define HEIGHT 48
#define META   "{\"shot\": 7}"

static struct program bridge;

/* ---- the two ends ---- */

static sluice_writer *open_writer(const char *device, struct sluice_format *format)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer;
    test_dir();
    params.name = "from";
    params.device = device;
    params.format = format;
    params.resize = 1;
    params.policy = SLUICE_WAIT; /* wait for the bridge, so that it gets every frame */
    params.wait_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static void two_arrays(struct sluice_format *format, enum sluice_pixel_format pixels, uint32_t width)
{
    struct sluice_dtype f32 = { SLUICE_FLOAT, 32, 1 };
    int64_t three = 3;
    *format = (struct sluice_format)SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_image(format, "image", pixels, width, HEIGHT));
    format->arrays[0].image.colour.transfer = 13;
    format->arrays[0].image.row_order = SLUICE_BOTTOM_UP;
    CHECK_OK(sluice_format_add_tensor(format, "place", f32, 1, &three));
}

static sluice_reader *open_reader_of(const char *name)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;
    params.name = name;
    params.mode = SLUICE_IN_ORDER;
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

/* The expected byte of frame `number`; it differs between arrays and rows. */
static uint8_t byte_of(unsigned number, unsigned array, size_t at)
{
    return (uint8_t)(number * 31 + array * 101 + at * 7 + at / 251);
}

/* Sends frame `number` with the arrays of the format. */
static void send_frame(sluice_writer *writer, unsigned number)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_frame frame = { .capture_ns = 1000 + number, .capture_clock = SLUICE_CLOCK_MEDIA };
    char meta[] = META;
    CHECK_OK(sluice_writer_format(writer, &format));
    for (uint32_t i = 0; i < format.array_count; i++) {
        struct sluice_array *array = &format.arrays[i];
        uint8_t *bytes = malloc(array->nbytes);
        for (size_t k = 0; k < array->nbytes; k++)
            bytes[k] = byte_of(number, i, k);
        array->data = bytes;
    }
    frame.meta = meta;
    frame.meta_size = sizeof meta;
    CHECK_OK(sluice_writer_send_frame(writer, &frame, format.arrays, format.array_count, SLUICE_ON_CPU, NULL));
    for (uint32_t i = 0; i < format.array_count; i++)
        free(format.arrays[i].data);
}

/* Acquires the next frame of TO and compares every byte. `first` is the index of its first array in FROM. */
static void check_frame(sluice_reader *reader, const char *device, unsigned number, unsigned first,
                        struct sluice_array *kept)
{
    struct sluice_frame frame;
    char on[64];
    int result;
    while ((result = sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_S, &frame)) == SLUICE_AGAIN)
        continue;
    CHECK_RESULT(result, 0);
    CHECK_OK(sluice_frame_device(&frame, on, sizeof on));
    CHECK_EQ(strncmp(on, device, 4), 0);
    CHECK_EQ(frame.capture_ns, 1000 + number);
    CHECK_EQ(frame.capture_clock, SLUICE_CLOCK_MEDIA);
    CHECK_EQ(frame.meta_size, sizeof META);
    CHECK_MEM(frame.meta, META, sizeof META);
    for (uint32_t i = 0; i < frame.array_count; i++) {
        struct sluice_array array;
        CHECK_OK(sluice_frame_array_at(&frame, i, &array));
        if (i == 0)
            *kept = array;
        uint8_t *bytes = malloc(array.nbytes);
        array.data = bytes;
        array.read_only = 0;
        CHECK_OK(sluice_reader_fetch(reader, &frame, &array, 1, SLUICE_ON_CPU, NULL));
        for (size_t k = 0; k < array.nbytes; k++)
            if (bytes[k] != byte_of(number, first + i, k))
                FAIL("frame %u, array %s, byte %zu is %u", number, array.name, k, bytes[k]);
        free(bytes);
    }
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
}

/* ---- whole frames, formats ---- */

static uint32_t readers_of(const char *channel)
{
    struct sluice_channel_info info = { .size = sizeof info };
    return sluice_channel_info(channel, SLUICE_S, &info, NULL, 0) == SLUICE_OK ? info.readers : 0;
}

static bool is_read(const char *channel)
{
    return readers_of(channel) > 0;
}

static void pass(const char *from, const char *to)
{
    struct sluice_format format;
    struct sluice_array array;
    two_arrays(&format, SLUICE_PIXEL_BGRA, WIDTH);
    sluice_writer *writer = open_writer(from, &format);
    sluice_start(&bridge, "bridge", "from", "to", "--wait", "--device", to);
    CHECK_SOON(is_read("from"), 10);
    sluice_reader *reader = open_reader_of("to");
    for (unsigned i = 1; i <= 10; i++) {
        send_frame(writer, i);
        check_frame(reader, to, i, 0, &array);
        CHECK_EQ(array.image.pixel_format, SLUICE_PIXEL_BGRA);
        CHECK_EQ(array.image.row_order, SLUICE_BOTTOM_UP);
        CHECK_EQ(array.image.colour.transfer, 13);
    }
    two_arrays(&format, SLUICE_PIXEL_NV12, 2 * WIDTH); /* larger, and of another pixel format */
    CHECK_OK(sluice_writer_reformat(writer, &format));
    for (unsigned i = 11; i <= 15; i++) {
        send_frame(writer, i);
        check_frame(reader, to, i, 0, &array);
        CHECK_EQ(array.image.pixel_format, SLUICE_PIXEL_NV12);
        CHECK_EQ(array.image.width, 2 * WIDTH);
    }
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    CHECK_HAS(bridge.err, "'to' is open: 64x48 bgra");
    CHECK_HAS(bridge.err, "'to' changed to 128x48 nv12");
    CHECK_STR(bridge.out, "bridged 15 frames, missed 0, dropped 0\n");
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(bridge_in_host_memory, 60)
{
    pass("host", "host");
}

TEST_TIMEOUT(bridge_onto_a_gpu, 60)
{
    use_fake_gpu();
    pass("host", "cuda:0");
}

TEST_TIMEOUT(bridge_off_a_gpu, 60)
{
    use_fake_gpu();
    pass("cuda:0", "host");
}

TEST_TIMEOUT(bridge_on_one_gpu, 60)
{
    use_fake_gpu();
    pass("cuda:0", "cuda:0");
}

TEST_TIMEOUT(bridge_between_gpus, 60)
{
    use_fake_gpu();
    pass("cuda:0", "cuda:1");
}

TEST_TIMEOUT(bridge_of_frames_with_shapes_of_their_own, 60)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    int64_t shape[2] = { 10, 100 };
    CHECK_OK(sluice_format_add_tensor(&format, "rows", u8, 2, shape));
    sluice_writer *writer = open_writer("host", &format);
    sluice_start(&bridge, "bridge", "from", "to", "--wait", "-q");
    CHECK_SOON(is_read("from"), 10);
    sluice_reader *reader = open_reader_of("to");
    for (int64_t rows = 3; rows <= 12; rows++) { /* the last two exceed its capacity */
        struct sluice_array array;
        struct sluice_frame frame;
        uint8_t bytes[1200];
        memset(bytes, (int)rows, sizeof bytes);
        shape[0] = rows;
        CHECK_OK(sluice_array_wrap(&array, "rows", bytes, u8, 2, shape, NULL));
        CHECK_OK(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_S, &frame));
        CHECK_OK(sluice_frame_array(&frame, "rows", &array));
        CHECK_EQ(array.shape[0], rows);
        CHECK_EQ(((uint8_t *)array.data)[array.nbytes - 1], rows);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_EQ(program_end(&bridge, SIGTERM), 0);
    CHECK_STR(bridge.err, "");
    CHECK_STR(bridge.out, "");
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* A bridge that waits for a slow reader reports no dropped frames to it. */
TEST_TIMEOUT(bridge_that_waits_drops_nothing, 60)
{
    struct sluice_frame frame;
    static struct program player;
    player_start(&player, "from", "--pattern", "--size", "64x48", "--fps", "100", "-q");
    sluice_start(&bridge, "bridge", "from", "to", "--wait");
    sluice_reader *reader = open_reader_of("to");
    int result;
    for (int i = 0; i < 30; i++) {
        if (i == 1)
            test_nap(500 * SLUICE_MS);
        while ((result = sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_S, &frame)) > 0)
            CHECK(result == SLUICE_AGAIN || result == SLUICE_NO_WRITER || i == 0);
        CHECK_RESULT(result, 0);
        if (i > 0) /* the bridge may have begun before this reader was connected */
            CHECK_EQ(frame.missed, 0);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    CHECK_HAS(bridge.out, ", dropped 0\n");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST_TIMEOUT(bridge_of_one_array, 60)
{
    struct sluice_format format;
    struct sluice_array array;
    two_arrays(&format, SLUICE_PIXEL_GRAY8, WIDTH);
    sluice_writer *writer = open_writer("host", &format);
    sluice_start(&bridge, "bridge", "from", "to", "--wait", "--array", "place", "--frames", "3");
    CHECK_SOON(is_read("from"), 10);
    sluice_reader *reader = open_reader_of("to");
    for (unsigned i = 1; i <= 3; i++) {
        send_frame(writer, i);
        check_frame(reader, "host", i, 1, &array);
        CHECK_STR(array.name, "place");
    }
    CHECK_EQ(program_end(&bridge, 0), 0);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_EQ(sluice_run(&bridge, "bridge", "from", "to", "--array", "plaec"), 1); /* not in the frame */
    CHECK_HAS(bridge.err, "'plaec'");
    CHECK_HAS(bridge.err, "'image', 'place'");
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(bridge_goes_on_where_its_array_comes_back, 60)
{
    struct sluice_format format, other = SLUICE_FORMAT_INIT;
    struct sluice_array array;
    two_arrays(&format, SLUICE_PIXEL_GRAY8, WIDTH);
    CHECK_OK(sluice_format_add_image(&other, "image", SLUICE_PIXEL_GRAY8, WIDTH, 24));
    sluice_writer *writer = open_writer("host", &format);
    sluice_start(&bridge, "bridge", "from", "to", "--wait", "--array", "place");
    CHECK_SOON(is_read("from"), 10);
    sluice_reader *reader = open_reader_of("to");
    send_frame(writer, 1);
    check_frame(reader, "host", 1, 1, &array);
    CHECK_OK(sluice_writer_reformat(writer, &other));
    CHECK_SOON((send_frame(writer, 2), strstr(program_so_far(&bridge, "err"), "Dropping frames")), 20);
    CHECK_OK(sluice_writer_reformat(writer, &format));
    send_frame(writer, 3);
    check_frame(reader, "host", 3, 1, &array);
    CHECK_STR(array.name, "place");
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    CHECK_HAS(bridge.err, "'place'");
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- programs that close, die and restart ---- */

/* Waits for a frame whose session is not `session` (0: any frame); returns its session. */
static uint64_t frame_of_another(sluice_reader *reader, uint64_t session, uint32_t width)
{
    struct sluice_frame frame = { 0 };
    struct sluice_array array = { .ndim = 0 };
    int64_t end = test_now() + (int64_t)(30 * test_slowness() * 1e9);
    do {
        CHECK_LE(test_now(), end);
        int result = sluice_reader_acquire(reader, SLUICE_ON_CPU, 100 * SLUICE_MS, &frame);
        CHECK_GE(result, 0);
        if (result)
            continue;
        CHECK_OK(sluice_frame_array(&frame, NULL, &array));
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    } while (frame.session == 0 || frame.session == session || array.image.width != width);
    return frame.session;
}

static void source_dies(const char *device, const char *to)
{
    static struct program player, p;
    sluice_start(&bridge, "bridge", "from", "to", "--device", to);
    CHECK_SOON(strstr(program_so_far(&bridge, "err"), "waiting for 'from'."), 10);
    sluice_reader *reader = open_reader_of("to");
    player_start(&player, "from", "--pattern", "--size", "64x48", "--device", device, "-q");
    uint64_t session = frame_of_another(reader, 0, 64);

    /* A reader of TO dies, without an effect on others. */
    sluice_start(&p, "record", "to", in_dir("a.slr"), "--quiet");
    CHECK_SOON(readers_of("to") == 2, 10);
    program_end(&p, SIGKILL);
    CHECK_SOON(readers_of("to") == 1, 10);
    CHECK_EQ(frame_of_another(reader, 0, 64), session);

    /* FROM's writer dies and is restarted, then closes and opens again. */
    program_end(&player, SIGKILL);
    CHECK_SOON(strstr(program_so_far(&bridge, "err"), "the writer of 'from' is gone"), 10);
    player_start(&player, "from", "--pattern", "--size", "32x16", "--device", device, "-q");
    CHECK_EQ(frame_of_another(reader, 0, 32),
             session); /* the session of TO belongs to the bridge, which kept running */
    CHECK_SOON(strstr(program_so_far(&bridge, "err"), "'from' is back."), 10);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    CHECK_SOON(strstr(program_so_far(&bridge, "err"), "'from' has closed; waiting"), 10);
    player_start(&player, "from", "--pattern", "--size", "64x48", "--device", "host", "-q");
    CHECK_EQ(frame_of_another(reader, 0, 64), session);

    /* The bridge dies and is restarted. */
    program_end(&bridge, SIGKILL);
    sluice_start(&bridge, "bridge", "from", "to", "--device", to, "--quiet");
    CHECK_NE(frame_of_another(reader, session, 64), session);
    CHECK_EQ(sluice_run(&p, "bridge", "other", "to"), 1);
    CHECK_HAS(p.err, "'to' already has a writer, sluice[");

    /* After Ctrl-C both sides are closed. */
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    struct sluice_frame frame;
    int result;
    while ((result = sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_S, &frame)) == SLUICE_OK)
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_EQ(result, SLUICE_CLOSED);
    CHECK_SOON(!is_read("from"), 10);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST_TIMEOUT(bridge_outlives_its_source, 90)
{
    source_dies("host", "host");
}

TEST_TIMEOUT(bridge_outlives_its_source_on_a_gpu, 90)
{
    use_fake_gpu();
    source_dies("cuda:0", "cuda:0");
}

TEST_TIMEOUT(bridge_ends_or_closes_with_its_source, 60)
{
    static struct program player;
    struct sluice_frame frame;
    int result;
    player_start(&player, "from", "--pattern", "--size", "64x48", "-q");
    sluice_start(&bridge, "bridge", "from", "to", "--close");
    sluice_reader *reader = open_reader_of("to");
    uint64_t session = frame_of_another(reader, 0, 64);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    while ((result = sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_S, &frame)) == SLUICE_OK)
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_EQ(result, SLUICE_CLOSED);
    player_start(&player, "from", "--pattern", "--size", "64x48", "-q");
    CHECK_NE(frame_of_another(reader, session, 64), session);
    CHECK_EQ(program_end(&bridge, SIGTERM), 0);
    CHECK_HAS(bridge.out, ", over 2 sessions of the writer\n");
    sluice_start(&bridge, "bridge", "from", "to", "--once");
    CHECK_SOON(is_read("from"), 10);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    CHECK_EQ(program_end(&bridge, 0), 0);
    CHECK_HAS(bridge.err, "'from' has closed.");
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_EQ(sluice_run(&bridge, "bridge", "from", "to", "--timeout", "0.05"), 3);
    CHECK_HAS(bridge.err, "no channel 'from'");
    CHECK_EQ(sluice_run(&bridge, "bridge", "from", "to", "--seconds", "0.05"), 0);
    CHECK_STR(bridge.out, "bridged 0 frames, missed 0, dropped 0\n");
}

/* ---- drops ---- */

static struct sluice_frame held[8];

static sluice_reader *holder(unsigned frames)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;
    params.name = "to";
    params.mode = SLUICE_IN_ORDER;
    params.hold = frames;
    params.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    for (unsigned i = 0; i < frames; i++)
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_S, &held[i]));
    return reader;
}

TEST_TIMEOUT(bridge_counts_what_it_drops, 60)
{
    static struct program player;
    struct sluice_frame frame;
    unsigned bridged, missed, dropped;
    player_start(&player, "from", "--pattern", "--size", "64x48", "--fps", "100", "-q");
    sluice_start(&bridge, "bridge", "from", "to", "--slots", "3", "--stats");
    /* At most six slots: one has the newest frame, four are held here, one by another reader. */
    sluice_reader *four = holder(4);
    sluice_reader *one = open_reader_of("to");
    CHECK_OK(sluice_reader_acquire(one, SLUICE_ON_CPU, 10 * SLUICE_S, &frame));
    while (frame.sequence <= held[3].sequence && sluice_reader_release(one, &frame, SLUICE_ON_CPU) == 0)
        CHECK_OK(sluice_reader_acquire(one, SLUICE_ON_CPU, 10 * SLUICE_S, &frame));
    struct sluice_channel_info info = { .size = sizeof info };
    CHECK_SOON((sluice_channel_info("to", SLUICE_S, &info, NULL, 0), info.dropped > 20), 20);
    program_end(&bridge, SIGINT);
    CHECK_EQ(bridge.status, 0);
    char *last = strstr(bridge.out, "bridged");
    CHECK(last);
    CHECK_EQ(sscanf(last, "bridged %u frames, missed %u, dropped %u", &bridged, &missed, &dropped), 3);
    CHECK_GE(dropped, 20);
    CHECK_GE(bridged, 5);
    CHECK_OK(sluice_reader_close(&four));
    CHECK_OK(sluice_reader_close(&one));
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

static unsigned missed_so_far(void)
{
    const char *at = program_so_far(&bridge, "out"), *next;
    unsigned missed = 0;
    while ((next = strstr(at, " fps, ")))
        at = next + 1;
    return sscanf(at, "fps, %*u frames, %u missed", &missed) == 1 ? missed : 0;
}

/* A stopped bridge misses the frames that FROM's slots cannot keep, and reports their number. */
TEST_TIMEOUT(bridge_counts_what_it_missed, 60)
{
    struct sluice_channel_info info = { .size = sizeof info };
    unsigned bridged, missed;
    static struct program player;
    player_start(&player, "from", "--pattern", "--size", "64x48", "--fps", "100", "-q");
    sluice_start(&bridge, "bridge", "from", "to", "--stats");
    sluice_reader *reader = open_reader_of("to");
    frame_of_another(reader, 0, 64);
    kill(bridge.pid, SIGSTOP);
    CHECK_OK(sluice_channel_info("from", 20 * SLUICE_S, &info, NULL, 0));
    uint64_t before = info.committed;
    CHECK_SOON((sluice_channel_info("from", SLUICE_S, &info, NULL, 0), info.committed > before + 30), 20);
    kill(bridge.pid, SIGCONT);
    CHECK_SOON(missed_so_far() >= 20, 20);
    CHECK_EQ(program_end(&bridge, SIGTERM), 0);
    CHECK_EQ(sscanf(strstr(bridge.out, "bridged"), "bridged %u frames, missed %u", &bridged, &missed), 2);
    CHECK_GE(missed, 20);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}
