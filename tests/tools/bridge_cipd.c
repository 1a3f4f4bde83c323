/* SPDX-License-Identifier: MIT
 *
 * The command: bridge from and to channels of cuda-link's protocol, on the fake driver's GPU.
 */
#include "kit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sluice/sluice.h>

#define HEIGHT 24

static const struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 }, f32 = { SLUICE_FLOAT, 32, 1 };

static struct program bridge;
static int64_t captured;           /* capture_ns of the last frame read from TO */
static char first[64], second[64]; /* names of segments, unique on the machine */

static void begin(void)
{
    use_fake_gpu();
    test_dir();
    snprintf(first, sizeof first, "cipd:tools from>>%ld", (long)getpid());
    snprintf(second, sizeof second, "cipd:tools to>>%ld", (long)getpid());
}

/* ---- the two ends ---- */

static struct sluice_format image(enum sluice_pixel_format pixels, uint32_t width)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_image(&format, "picture", pixels, width, HEIGHT));
    return format;
}

static struct sluice_format tensor(struct sluice_dtype dtype, int64_t width, int64_t components)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    int64_t shape[3] = { HEIGHT, width, components };
    CHECK_OK(sluice_format_add_tensor(&format, "field", dtype, 3, shape));
    return format;
}

static sluice_writer *open_writer(const char *name, const char *device, const struct sluice_format *format,
                                  uint32_t mono_alpha)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_cipd_writer_params cipd = SLUICE_CIPD_WRITER_PARAMS_INIT;
    sluice_writer *writer;
    params.name = name;
    params.device = device;
    params.format = format;
    cipd.mono_alpha = mono_alpha;
    cipd.barrier = SLUICE_CIPD_OFF; /* other tests on this machine may set it */
    params.cipd = strncmp(name, "cipd:", 5) == 0 ? &cipd : NULL;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static sluice_reader *open_reader_of(const char *name)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;
    params.name = name;
    params.device = strncmp(name, "cipd:", 5) == 0 ? "cuda:0" : NULL;
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

static uint8_t byte_of(unsigned number, size_t at)
{
    return (uint8_t)(number * 31 + at * 7 + at / 251);
}

static void send_frame(sluice_writer *writer, unsigned number)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_writer_format(writer, &format));
    struct sluice_array *array = &format.arrays[0];
    uint8_t *bytes = malloc(array->nbytes);
    for (size_t k = 0; k < array->nbytes; k++)
        bytes[k] = byte_of(number, k);
    array->data = bytes;
    CHECK_OK(sluice_writer_send(writer, array, 1, SLUICE_ON_CPU, NULL));
    free(bytes);
}

/* Sends the frame until it arrives at the other end: frames sent before the bridge is connected, or while it changes
 * the format, may be lost. Compares every byte. */
static struct sluice_array pass_frame(sluice_writer *writer, sluice_reader *reader, unsigned number)
{
    int64_t end = test_now() + (int64_t)(30 * test_slowness() * 1e9);
    for (;;) {
        struct sluice_frame frame;
        struct sluice_array array;
        CHECK_LE(test_now(), end);
        send_frame(writer, number);
        int result = sluice_reader_acquire(reader, SLUICE_ON_CPU, 200 * SLUICE_MS, &frame);
        CHECK(result >= 0 || result == SLUICE_E_LOST); /* late, because the GPU was stopped */
        if (result)
            continue;
        captured = frame.capture_ns;
        CHECK_OK(sluice_frame_array_at(&frame, 0, &array));
        struct sluice_array found = array;
        uint8_t *bytes = malloc(array.nbytes);
        array.data = bytes;
        array.read_only = 0;
        CHECK_OK(sluice_reader_fetch(reader, &frame, &array, 1, SLUICE_ON_CPU, NULL));
        bool same = true, other = bytes[0] != byte_of(number, 0);
        for (size_t k = 0; k < array.nbytes; k++)
            same = same && bytes[k] == byte_of(number, k);
        free(bytes);
        result = sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
        CHECK(result == SLUICE_OK || result == SLUICE_E_LOST);
        if (same)
            return found;
        if (!other && result == SLUICE_OK)
            FAIL("frame %u came with other bytes", number);
    }
}

static void end_bridge(void)
{
    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    CHECK_HAS(bridge.out, "bridged ");
}

/* ---- from cuda-link's ---- */

static struct sluice_cipd_info look(const char *name)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    CHECK_OK(sluice_cipd_look(name, &info));
    return info;
}

static void from_cipd(const char *device)
{
    struct sluice_format bgra = image(SLUICE_PIXEL_BGRA, 32), field = tensor(f32, 20, 2);
    begin();
    sluice_writer *writer = open_writer(first, "cuda:0", &bgra, 0);
    sluice_start(&bridge, "bridge", first, "to", "--device", device);
    sluice_reader *reader = open_reader_of("to");
    struct sluice_array array = pass_frame(writer, reader, 1);
    CHECK_EQ(array.image.pixel_format, SLUICE_PIXEL_BGRA);
    CHECK_EQ(array.image.width, 32);
    unsigned timely = 0; /* with the time in the segment, unless the frame was sent several times */
    for (unsigned i = 2; i < 8 || !timely; i++) {
        CHECK_LE(i, 100);
        pass_frame(writer, reader, i);
        timely += captured == look(first).last_frame_ns;
    }
    CHECK_OK(sluice_writer_reformat(writer, &field));
    array = pass_frame(writer, reader, 8);
    CHECK_EQ(array.image.pixel_format, 0);
    CHECK_EQ(array.dtype.bits, 32);
    CHECK_EQ(array.shape[1], 20);
    CHECK_EQ(array.shape[2], 2);
    end_bridge();
    CHECK_HAS(bridge.err, "'to' is open: 32x24 bgra on ");
    CHECK_HAS(bridge.err, "'to' changed to float32[24,20,2] on ");
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(bridge_from_cuda_link_to_host, 90)
{
    from_cipd("host");
}

TEST_TIMEOUT(bridge_from_cuda_link_to_a_gpu, 90)
{
    from_cipd("cuda:0");
}

/* Four bytes in an undeclared order: an array, or an image by --undeclared. */
TEST_TIMEOUT(bridge_of_an_undeclared_order, 90)
{
    static const struct {
        const char *says;
        uint32_t pixels;
    } cases[] = { { NULL, 0 }, { "rgba", SLUICE_PIXEL_RGBA }, { "bgra", SLUICE_PIXEL_BGRA } };
    struct sluice_format four = tensor(u8, 32, 4);
    begin();
    sluice_writer *writer = open_writer(first, "cuda:0", &four, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sluice_start(&bridge, "bridge", first, "to", "--device", "host", "--quiet",
                     cases[i].says ? "--undeclared" : NULL, cases[i].says);
        sluice_reader *reader = open_reader_of("to");
        CHECK_EQ(pass_frame(writer, reader, 1 + (unsigned)i).image.pixel_format, cases[i].pixels);
        CHECK_EQ(program_end(&bridge, SIGINT), 0);
        CHECK_STR(bridge.err, "");
        CHECK_OK(sluice_reader_close(&reader));
    }
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- to cuda-link's ---- */

static void to_cipd(const char *device)
{
    struct sluice_format bgra = image(SLUICE_PIXEL_BGRA, 32), rgba = image(SLUICE_PIXEL_RGBA, 40),
                         field = tensor(f32, 20, 1);
    begin();
    sluice_writer *writer = open_writer("from", device, &bgra, 0);
    sluice_start(&bridge, "bridge", "from", second, "--slots", "4");
    sluice_reader *reader = open_reader_of(second);
    CHECK_EQ(pass_frame(writer, reader, 1).image.pixel_format, SLUICE_PIXEL_BGRA);
    CHECK_EQ(look(second).flags, 4);
    CHECK_EQ(look(second).slot_count, 4);
    for (unsigned i = 2; i < 8; i++)
        pass_frame(writer, reader, i);
    CHECK_OK(sluice_writer_reformat(writer, &rgba));
    struct sluice_array array = pass_frame(writer, reader, 8);
    CHECK_EQ(array.shape[1], 40);
    CHECK_EQ(array.shape[2], 4);
    CHECK_EQ(look(second).flags, 0);
    CHECK_OK(sluice_writer_reformat(writer, &field));
    array = pass_frame(writer, reader, 9);
    CHECK_EQ(array.dtype.code, SLUICE_FLOAT);
    CHECK_EQ(array.shape[1], 20);

    /* A format that the protocol does not support is reported once, and its frames are dropped. */
    struct sluice_format nv12 = image(SLUICE_PIXEL_NV12, 32), bayer = image(SLUICE_PIXEL_BAYER_RGGB8, 32);
    CHECK_OK(sluice_writer_reformat(writer, &nv12));
    CHECK_SOON((send_frame(writer, 10), strstr(program_so_far(&bridge, "err"), "Dropping frames")), 20);
    CHECK_OK(sluice_writer_reformat(writer, &bayer)); /* its bytes would be misread as another format */
    for (unsigned i = 0; i < 3; i++)
        send_frame(writer, 13 + i);
    CHECK_OK(sluice_writer_reformat(writer, &bgra));
    CHECK_EQ(pass_frame(writer, reader, 20).image.pixel_format, SLUICE_PIXEL_BGRA);
    end_bridge();
    CHECK_HAS(bridge.err, "an image in 'nv12' cannot be said in its protocol");
    char *told = strstr(bridge.err, "Dropping frames until 'from' changes.");
    CHECK(told && !strstr(told + 1, "Dropping frames"));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(bridge_from_host_to_cuda_link, 90)
{
    to_cipd("host");
}

TEST_TIMEOUT(bridge_from_a_gpu_to_cuda_link, 90)
{
    to_cipd("cuda:0");
}

TEST_TIMEOUT(bridge_takes_one_array_of_several, 90)
{
    struct sluice_format format = tensor(f32, 20, 1);
    CHECK_OK(sluice_format_add_image(&format, "picture", SLUICE_PIXEL_RGBA, 16, 8));
    struct sluice_array array;
    struct sluice_frame frame;
    begin();
    sluice_writer *writer = open_writer("from", "host", &format, 0);
    sluice_start(&bridge, "bridge", "from", second);
    sluice_reader *reader = open_reader_of(second);
    int64_t end = test_now() + (int64_t)(30 * test_slowness() * 1e9);
    int result;
    do {
        CHECK_LE(test_now(), end);
        CHECK_OK(sluice_writer_begin(writer, SLUICE_S, &frame));
        CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    } while ((result = sluice_reader_acquire(reader, SLUICE_ON_CPU, 200 * SLUICE_MS, &frame)) > 0);
    CHECK_RESULT(result, 0);
    CHECK_OK(sluice_frame_array_at(&frame, 0, &array)); /* the image */
    CHECK_EQ(array.shape[0], 8);
    CHECK_EQ(array.shape[1], 16);
    (void)sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
    end_bridge();
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(bridge_between_two_of_cuda_links, 90)
{
    struct sluice_format pair = tensor(u8, 32, 2), bgra = image(SLUICE_PIXEL_BGRA, 32), four = tensor(u8, 32, 4);
    begin();
    sluice_writer *writer = open_writer(first, "cuda:0", &pair, 1);
    sluice_start(&bridge, "bridge", first, second);
    sluice_reader *reader = open_reader_of(second);
    pass_frame(writer, reader, 1);
    CHECK_EQ(look(second).flags, 2);
    CHECK_OK(sluice_writer_close(&writer));
    writer = open_writer(first, "cuda:0", &bgra, 0);
    pass_frame(writer, reader, 2);
    CHECK_EQ(look(second).flags, 4);
    CHECK_OK(sluice_writer_reformat(writer, &four)); /* undeclared */
    pass_frame(writer, reader, 3);
    CHECK_EQ(look(second).flags, 0);
    end_bridge();
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- programs that close, die and restart ---- */

static const char *so_far(const struct program *program)
{
    static char text[8192];
    char name[64];
    snprintf(name, sizeof name, "err-%u.txt", program->number);
    FILE *file = fopen(in_dir(name), "rb");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = 0;
    return text;
}

static void wait_for_width(sluice_reader *reader, uint32_t width)
{
    struct sluice_frame frame;
    struct sluice_array array = { .ndim = 0 };
    int64_t end = test_now() + (int64_t)(30 * test_slowness() * 1e9);
    do {
        CHECK_LE(test_now(), end);
        int result = sluice_reader_acquire(reader, SLUICE_ON_CPU, 100 * SLUICE_MS, &frame);
        CHECK(result >= 0 || result == SLUICE_E_LOST);
        if (result)
            continue;
        CHECK_OK(sluice_frame_array_at(&frame, 0, &array));
        (void)sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
    } while (array.shape[1] != width);
}

static bool is_running(const char *name)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    return sluice_cipd_look(name, &info) == SLUICE_OK && info.state == SLUICE_CIPD_RUNNING && info.index;
}

static void play(struct program *player, const char *size)
{
    sluice_start(player, "play", "test", first, "--pattern", "--size", size, "--quiet");
    CHECK_SOON(is_running(first), 10);
}

TEST_TIMEOUT(bridge_outlives_both_ends_of_cuda_links, 120)
{
    static struct program player, p;
    begin();
    setenv("CUDALINK_ACTIVATION_BARRIER", "0", 1);
    sluice_start(&bridge, "bridge", first, second);
    CHECK_SOON(strstr(so_far(&bridge), "waiting for '"), 10);
    sluice_reader *reader = open_reader_of(second);
    play(&player, "64x48");
    wait_for_width(reader, 64);
    program_end(&player, SIGKILL);
    CHECK_SOON(strstr(so_far(&bridge), "is gone; waiting for the next one."), 20);
    play(&player, "32x16");
    wait_for_width(reader, 32);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    CHECK_SOON(strstr(so_far(&bridge), "has closed; waiting"), 20);
    play(&player, "64x48");
    wait_for_width(reader, 64);

    /* A second bridge to the same segment is refused; after this one is killed, another takes the segment over. */
    CHECK_EQ(sluice_run(&p, "bridge", first, second), 1);
    CHECK_HAS(p.err, "already has a writer");
    program_end(&bridge, SIGKILL);
    CHECK_SOON(!is_running(second), 20);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    sluice_start(&bridge, "bridge", first, second);
    play(&player, "32x16");
    wait_for_width(reader, 32);

    CHECK_EQ(program_end(&bridge, SIGINT), 0);
    CHECK_SOON(!is_running(second), 10);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

/* ---- another program's session, which the bridge cannot read: docs/cuda-link-wire.md ---- */

static void put(unsigned char *at, uint64_t value, size_t size)
{
    memcpy(at, &value, size);
}

/* Its segment, with frames of four components of this type and size. */
static void make_segment(uint32_t slots, uint32_t kind, uint32_t bits)
{
    char path[80];
    unsigned char bytes[4096] = { 0 }, *metadata = bytes + 21 + 128 * slots;
    double now = (double)test_now() / 1e9;
    snprintf(path, sizeof path, "/%s", first + strlen("cipd:"));
    put(bytes, 0x43495044, 4);
    put(bytes + 4, 1000, 8);
    put(bytes + 12, slots, 4);
    put(bytes + 16, 7, 4);
    memset(bytes + 20, 7, 128 * slots);
    put(metadata, 16, 4);
    put(metadata + 4, 8, 4);
    put(metadata + 8, 4, 4);
    put(metadata + 12, kind | bits << 8, 4);
    put(metadata + 16, 16 * 8 * bits / 2, 4);
    memcpy(metadata + 20, &now, sizeof now);
    (void)shm_unlink(path);
    int fd = shm_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK_GE(fd, 0);
    CHECK_EQ(write(fd, bytes, 49 + 128 * slots), 49 + 128 * (long)slots);
    close(fd);
}

static void remove_segment(void)
{
    CHECK_EQ(shm_unlink(first + strlen("cipd:")), 0);
}

static unsigned count_of(const char *text, const char *what)
{
    unsigned count = 0;
    for (; (text = strstr(text, what)); text++)
        count++;
    return count;
}

/* Twice: the bridge reports each session once, and continues with the next writer. */
static void outlive_session(uint32_t slots, uint32_t kind, const char *why)
{
    struct sluice_format bgra = image(SLUICE_PIXEL_BGRA, 32);
    begin();
    sluice_writer *writer = open_writer(first, "cuda:0", &bgra, 0);
    sluice_start(&bridge, "bridge", first, "to");
    sluice_reader *reader = open_reader_of("to");
    pass_frame(writer, reader, 1);
    for (unsigned i = 2; i < 4; i++) {
        CHECK_OK(sluice_writer_close(&writer));
        make_segment(slots, kind, 8);
        CHECK_SOON(count_of(so_far(&bridge), why) == i - 1, 20);
        test_nap(500 * SLUICE_MS); /* time for it to report it again */
        remove_segment();
        writer = open_writer(first, "cuda:0", &bgra, 0);
        pass_frame(writer, reader, i);
    }
    end_bridge();
    CHECK_EQ(count_of(bridge.err, why), 2);
    CHECK_EQ(count_of(bridge.err, "'to' is open"), 1);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));

    /* With --timeout it does not wait for another session at first. */
    make_segment(slots, kind, 8);
    CHECK_EQ(sluice_run(&bridge, "bridge", first, "to", "--timeout", "60"), 1);
    CHECK_HAS(bridge.err, why);
    remove_segment();
}

TEST_TIMEOUT(bridge_outlives_a_session_of_one_slot, 90)
{
    outlive_session(1, 1, "the writer has a single slot");
}
TEST_TIMEOUT(bridge_outlives_a_session_of_an_unknown_data_type, 90)
{
    outlive_session(3, 7, "none that is known");
}

TEST(bridge_says_what_cuda_links_channels_cannot)
{
    static const struct {
        const char *argv[7], *says;
    } cases[] = {
        { { "bridge", "a", "cipd:tools-x", "--wait" }, "cannot wait for readers" },
        { { "bridge", "a", "cipd:tools-x", "--slots", "11" }, "at most 10 slots" },
        { { "bridge", "cipd:tools-x", "a", "--depth", "4" }, "keep and count no unread frames" },
        { { "bridge", "a", "b", "--undeclared", "bgra" }, "is for cipd: channels" },
        { { "bridge", "cipd:tools-x", "b", "--undeclared", "argb" }, "takes rgba or bgra" },
        { { "bridge", "a", "b", "--from-device", "cuda:0" }, "if FROM is a cipd: channel" },
        { { "record", "cipd:tools-x", "x.slr", "--every", "2" }, "--every does not work with" },
        { { "snap", "a", "x.npy", "--undeclared", "bgra" }, "is for cipd: channels" },
        { { "play", "test", "cipd:tools-x", "--wait" }, "--wait and --readers do not work" },
    };
    static struct program p;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *a = cases[i].argv;
        CHECK_EQ(sluice_run(&p, a[0], a[1], a[2], a[3], a[4], a[5]), 2);
        CHECK_HAS(p.err, cases[i].says);
    }
    CHECK_EQ(sluice_run(&p, "bridge", "a", "cipd:a/b"), 1);
    CHECK_HAS(p.err, "without a slash");
}
