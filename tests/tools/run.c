/* SPDX-License-Identifier: MIT
 *
 * The command: run, in host memory and on the fake driver's GPU. The test writes one channel and reads the other.
 */
#include "kit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sluice/sluice.h>

#define WIDTH  24
#define HEIGHT 10
#define META   "{\"shot\": 7}"

static const char *device = "host";
static struct program run;
static sluice_writer *camera, *titles;
static sluice_reader *out;
static int64_t sent; /* the capture time of the last frame */

#define SOURCE(parameters, body) \
    "__global__ void fx(sluice_out out" parameters ")\n" \
    "{\n" \
    "    SLUICE_PIXEL(out, x, y);\n" \
    "    uchar4 &to = sluice_row<uchar4>(out, y)[x];\n" body "}\n"
#define READ "    uchar4 c = sluice_row<uchar4>(in, y)[x];\n"

/* ---- the ends ---- */

/* The fake driver's; with SLUICE_TEST_DEVICE=cuda:0 a real one, by dev/gpu-check. */
static void use_gpu(void)
{
    struct sluice_device first;

    device = getenv("SLUICE_TEST_DEVICE");
    if (device) { /* the threads and descriptors of a real driver stay until the process ends */
        CHECK_OK(sluice_device_open(&first, device));
        CHECK_OK(sluice_device_close(&first));
        TEST_BEGINS_HERE();
        TEST_KEEPS_FDS();
        return;
    }
    use_fake_gpu();
    setenv("SLUICE_NVRTC", FAKE_NVRTC, 1);
    device = "cuda:0";
}

/* Saves a file as editors do. */
static const char *save(const char *text)
{
    FILE *file = fopen(in_dir("fx.new"), "wb");
    CHECK(file);
    fputs(text, file);
    fclose(file);
    CHECK_EQ(rename(in_dir("fx.new"), in_dir("fx.cu")), 0);
    return in_dir("fx.cu");
}

static sluice_writer *open_writer(const char *name)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer;
    test_dir();
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_RGBA, WIDTH, HEIGHT));
    params.name = name;
    params.device = device;
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static uint32_t readers_of(const char *channel)
{
    struct sluice_channel_info info = { .size = sizeof info };
    return sluice_channel_info(channel, SLUICE_S, &info, NULL, 0) == SLUICE_OK ? info.readers : 0;
}

static void open_out(void)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    test_dir();
    params.name = "out";
    params.mode = SLUICE_IN_ORDER;
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&out, &params));
}

/* Opens both ends and starts the command between them. */
#define START(...) start((const char *const[]){ "run", __VA_ARGS__, NULL })
static void start(const char *const arguments[])
{
    camera = open_writer("camera");
    open_out();
    start_program(&run, arguments);
    CHECK_SOON(readers_of("camera") == 1, 20);
}

static void end(int status)
{
    CHECK_EQ(program_end(&run, SIGTERM), status);
    sluice_reader_close(&out);
    sluice_writer_close(&camera);
    sluice_writer_close(&titles);
}

/* Sends a frame all of whose bytes are `value`; those of the right half are `right`. */
static void send_halves(sluice_writer *writer, uint8_t value, uint8_t right)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_frame frame = { .capture_ns = ++sent, .meta = (char[]){ META }, .meta_size = sizeof META };
    CHECK_OK(sluice_writer_format(writer, &format));
    uint8_t *bytes = malloc(format.arrays[0].nbytes);
    CHECK(bytes);
    for (size_t i = 0; i < format.arrays[0].nbytes; i++)
        bytes[i] = i / 4 % format.arrays[0].image.width < format.arrays[0].image.width / 2 ? value : right;
    format.arrays[0].data = bytes;
    CHECK_OK(sluice_writer_send_frame(writer, &frame, format.arrays, 1, SLUICE_ON_CPU, NULL));
    free(bytes);
}

static void send(sluice_writer *writer, uint8_t value)
{
    send_halves(writer, value, value);
}

/* The next frame of `out`, and a pixel of it; false if none comes. */
static bool receive(struct sluice_frame *frame, int x, int y, uint8_t pixel[4])
{
    struct sluice_array array;
    int result = sluice_reader_acquire(out, SLUICE_ON_CPU, SLUICE_S, frame);
    if (result != SLUICE_OK)
        return false;
    CHECK_OK(sluice_frame_array(frame, "image", &array));
    uint8_t *bytes = malloc(array.nbytes);
    CHECK(bytes);
    array.data = bytes;
    array.read_only = 0;
    CHECK_OK(sluice_reader_fetch(out, frame, &array, 1, SLUICE_ON_CPU, NULL));
    memcpy(pixel, bytes + ((size_t)y * array.image.width + (size_t)x) * 4, 4);
    free(bytes);
    CHECK_OK(sluice_reader_release(out, frame, SLUICE_ON_CPU));
    return true;
}

/* Sends a frame and returns the red of what it becomes, -1 if nothing comes. Every frame comes, and in order. */
static int through(uint8_t value)
{
    struct sluice_frame frame;
    uint8_t pixel[4];
    send(camera, value);
    do
        if (!receive(&frame, WIDTH - 1, HEIGHT - 1, pixel))
            return -1;
    while (frame.capture_ns != sent);
    return pixel[0];
}

/* The same for the first frame, for which the source is compiled. */
static int first_through(uint8_t value)
{
    struct sluice_frame frame;
    uint8_t pixel[4];
    send(camera, value);
    CHECK_SOON(receive(&frame, 0, 0, pixel), 60);
    CHECK_EQ(frame.capture_ns, sent);
    return pixel[0];
}

/* ---- filters ---- */

static void filter(void)
{
    struct sluice_frame frame;
    uint8_t pixel[4];
    START(save(SOURCE(", sluice_in in, int frame", READ "    to = make_uchar4(255 - c.x, x, y, frame);\n")), "camera",
          "out");
    CHECK_EQ(first_through(5), 250);
    send(camera, 7);
    CHECK(receive(&frame, WIDTH - 1, HEIGHT - 1, pixel));
    CHECK_MEM(pixel, ((uint8_t[]){ 248, WIDTH - 1, HEIGHT - 1, 1 }), 4);
    CHECK_EQ(frame.capture_ns, sent);
    CHECK_EQ(frame.meta_size, sizeof META);
    end(0);
    CHECK_HAS(run.err, "sluice: run: 'out' is open: 24x10 rgba on ");
    CHECK_HAS(run.out, "ran fx.cu on 2 frames, dropped 0\n");
}

TEST_TIMEOUT(a_filter, 120)
{
    filter();
}

TEST_TIMEOUT(a_filter_on_a_gpu, 120)
{
    use_gpu();
    filter();
}

/* What the README says: a test picture, a kernel, a file. */
TEST_TIMEOUT(from_play_to_snap, 120)
{
    static struct program player, snap;
    size_t size;
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--fps", "0.01");
    sluice_start(&run, "run", save(SOURCE(", sluice_in in", READ "    to = make_uchar4(c.z, c.y, c.x, 255);\n")),
                 "camera", "out");
    CHECK_EQ(sluice_run(&snap, "snap", "camera", in_dir("in.npy"), "--timeout", "60"), 0);
    CHECK_EQ(sluice_run(&snap, "snap", "out", in_dir("out.npy"), "--timeout", "60"), 0);
    uint8_t *before = (uint8_t *)read_all(in_dir("in.npy"), &size),
            *after = (uint8_t *)read_all(in_dir("out.npy"), NULL);
    for (size_t i = size - 64 * 48 * 4; i < size; i += 4)
        CHECK_MEM(after + i, ((uint8_t[]){ before[i + 2], before[i + 1], before[i], 255 }), 4);
    free(before);
    free(after);
    CHECK_EQ(program_end(&run, SIGINT), 0);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST_TIMEOUT(two_channels, 120)
{
    struct sluice_frame frame;
    uint8_t pixel[4];
    titles = open_writer("titles");
    START(save(SOURCE(", sluice_in a, sluice_in b", "    to = make_uchar4(sluice_row<uchar4>(a, y)[x].x,\n"
                                                    "                     sluice_row<uchar4>(b, y)[x].x, 0, 0);\n")),
          "camera", "titles", "out");
    CHECK_SOON(readers_of("titles") == 1, 20);
    send(titles, 9);
    CHECK_EQ(first_through(5), 5);
    CHECK_EQ(through(6), 6); /* with the same title */
    send(titles, 10);
    send(camera, 7);
    CHECK(receive(&frame, 0, 0, pixel));
    CHECK_MEM(pixel, ((uint8_t[]){ 7, 10, 0, 0 }), 4);
    end(0);
}

static void feedback(void)
{
    START(save(SOURCE(", sluice_in in, sluice_in last",
                      READ "    to = sluice_row<uchar4>(last, y)[x];\n    to.x += c.x;\n")),
          "camera", "out");
    CHECK_EQ(first_through(5), 5);
    CHECK_EQ(through(1), 6);
    CHECK_EQ(through(100), 106);
    CHECK_EQ(through(0), 106);
    end(0);
}

TEST_TIMEOUT(the_frame_before, 120)
{
    feedback();
}

TEST_TIMEOUT(the_frame_before_on_a_gpu, 120)
{
    use_gpu();
    feedback();
}

static const char passes[] =
    "__device__ uchar4 plus(uchar4 c, int n) { return make_uchar4(c.x + n, c.y + n, c.z + n, c.w); }\n"
    "__global__ void one(sluice_out out, sluice_in in)\n"
    "{\n"
    "    SLUICE_PIXEL(out, x, y);\n"
    "    sluice_row<uchar4>(out, y)[x] = plus(sluice_row<uchar4>(in, y)[x], 1);\n"
    "}\n"
    "__global__ void no_pass(int *numbers) { *numbers = 1; }\n"
    "__global__ void ten(sluice_out out, sluice_in before)\n"
    "{\n"
    "    SLUICE_PIXEL(out, x, y);\n"
    "    sluice_row<uchar4>(out, y)[x] = plus(sluice_row<uchar4>(before, y)[x], 10);\n"
    "}\n"
    "__global__ void all(sluice_out out, sluice_in before, sluice_in in)\n"
    "{\n"
    "    SLUICE_PIXEL(out, x, y);\n"
    "    sluice_row<uchar4>(out, y)[x] = plus(sluice_row<uchar4>(before, y)[x], 2 * sluice_row<uchar4>(in, y)[x].x);\n"
    "}\n";

TEST_TIMEOUT(kernels_are_passes, 120)
{
    START(save(passes), "camera", "out");
    CHECK_EQ(first_through(20), 71);
    CHECK_EQ(through(0), 11);
    end(0);
}

TEST_TIMEOUT(one_kernel_of_several, 120)
{
    START(save(passes), "camera", "out", "--kernel", "ten");
    CHECK_EQ(first_through(20), 30);
    end(0);
}

TEST_TIMEOUT(a_generator, 120)
{
    struct sluice_frame frame;
    uint8_t pixel[4];
    open_out();
    sluice_start(&run, "run",
                 save(SOURCE(", float time, int frame, float rate", "    to = make_uchar4(x, y, frame, rate);\n")),
                 "out", "--size", "40x30", "--rate", "50", "--device", "host");
    CHECK_SOON(receive(&frame, 39, 29, pixel), 60);
    uint8_t first = pixel[2];
    CHECK_MEM(pixel, ((uint8_t[]){ 39, 29, first, 50 }), 4);
    CHECK(receive(&frame, 39, 29, pixel));
    CHECK_MEM(pixel, ((uint8_t[]){ 39, 29, (uint8_t)(first + 1 + frame.missed), 50 }), 4);
    CHECK_EQ(program_end(&run, SIGTERM), 0);
    sluice_reader_close(&out);
}

TEST_TIMEOUT(options_of_the_compiler, 120)
{
    FILE *file = fopen(in_dir("amount.cuh"), "wb");
    fputs("#define AMOUNT (HALF * 2)\n", file);
    fclose(file);
    START(save("#include \"amount.cuh\"\n" SOURCE(", sluice_in in", READ "    to = c; to.x += AMOUNT;\n")), "camera",
          "out", "-DHALF=4", "-I", in_dir(""));
    CHECK_EQ(first_through(20), 28);
    end(0);
}

TEST_TIMEOUT(the_picture_changes_its_size, 120)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_frame frame;
    uint8_t pixel[4];
    START(save(SOURCE(", sluice_in in, sluice_in last", READ "    to = make_uchar4(c.x, x, y, 0);\n")), "camera",
          "out");
    CHECK_EQ(first_through(5), 5);
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_RGBA, 64, 48));
    CHECK_OK(sluice_writer_reformat(camera, &format));
    send(camera, 6);
    CHECK(receive(&frame, 63, 47, pixel));
    CHECK_MEM(pixel, ((uint8_t[]){ 6, 63, 47, 0 }), 4);
    end(0);
}

TEST_TIMEOUT(the_camera_starts_again, 120)
{
    START(save(SOURCE(", sluice_in in", READ "    to = c;\n")), "camera", "out");
    CHECK_EQ(first_through(5), 5);
    sluice_writer_close(&camera);
    CHECK_SOON(strstr(program_so_far(&run, "err"), "'camera' has closed; waiting for it to open again."), 20);
    camera = open_writer("camera");
    CHECK_SOON(readers_of("camera") == 1, 20);
    CHECK_EQ(through(6), 6);
    end(0);
}

TEST_TIMEOUT(once, 120)
{
    START(save(SOURCE(", sluice_in in", READ "    to = c;\n")), "camera", "out", "--once");
    CHECK_EQ(first_through(5), 5);
    sluice_writer_close(&camera);
    CHECK_EQ(program_end(&run, 0), 0);
    sluice_reader_close(&out);
}

/* ---- examples/kernels ---- */

/* The red of a pixel when the left half of the picture is black, and the right half white. */
static int of_halves(int x)
{
    struct sluice_frame frame;
    uint8_t pixel[4];
    send_halves(camera, 0, 255);
    CHECK_SOON(receive(&frame, x, 5, pixel), 60);
    return pixel[0];
}

static void edges(void)
{
    START(KERNELS "/edges.cu", "camera", "out", "--set", "gain=0.125");
    CHECK_EQ(of_halves(10), 0);
    CHECK_EQ(of_halves(11), 128);
    CHECK_EQ(of_halves(12), 128);
    CHECK_EQ(of_halves(13), 0);
    end(0);
}

TEST_TIMEOUT(example_edges, 120)
{
    edges();
}

TEST_TIMEOUT(example_edges_on_a_gpu, 120)
{
    use_gpu();
    edges();
}

TEST_TIMEOUT(example_blur, 120)
{
    START(KERNELS "/blur.cu", "camera", "out", "--set", "radius=1");
    CHECK_EQ(of_halves(10), 0);
    CHECK_EQ(of_halves(11), 85);
    CHECK_EQ(of_halves(12), 170);
    CHECK_EQ(of_halves(13), 255);
    end(0);
}

TEST_TIMEOUT(example_blend, 120)
{
    titles = open_writer("titles");
    START(KERNELS "/blend.cu", "camera", "titles", "out", "--set", "opacity=0.5");
    CHECK_SOON(readers_of("titles") == 1, 20);
    send(titles, 200); /* its alpha, too */
    CHECK_EQ(first_through(10), 85);
    CHECK_EQ(through(200), 200);
    end(0);
}

static void example_trails(void)
{
    START(KERNELS "/feedback.cu", "camera", "out", "--set", "fade=0.5");
    CHECK_EQ(first_through(100), 100);
    CHECK_EQ(through(0), 50);
    CHECK_EQ(through(30), 30);
    CHECK_EQ(through(0), 15);
    end(0);
}

TEST_TIMEOUT(example_feedback, 120)
{
    example_trails();
}

TEST_TIMEOUT(example_feedback_on_a_gpu, 120)
{
    use_gpu();
    example_trails();
}

/* ---- settings ---- */

static const char gain[] = SOURCE(", sluice_in in, float gain /* = 1 (0..4) */, bool on, // = true\n int n /* =3 */",
                                  READ "    to = make_uchar4(on ? c.x * gain + n : 0, 0, 0, 0);\n");

TEST_TIMEOUT(settings_change_by_lines, 120)
{
    int pipes[2];
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    camera = open_writer("camera");
    open_out();
    const char *const arguments[] = { "run", save(gain), "camera", "out", "--set", "n=4", NULL };
    start_program_from(&run, pipes[0], arguments);
    close(pipes[0]);
    CHECK_SOON(readers_of("camera") == 1, 20);
    CHECK_EQ(first_through(10), 14);
    CHECK_EQ(write(pipes[1], "gain 2\n", 7), 7);
    CHECK_SOON(through(10) == 24, 20);
    CHECK_EQ(write(pipes[1], "gian 3\ngain 5\nn 1.5\ngain\non maybe\nn 2\n", 38), 38);
    CHECK_SOON(through(10) == 22, 20);
    CHECK_EQ(write(pipes[1], "on false\n", 9), 9);
    CHECK_SOON(through(10) == 0, 20);
    close(pipes[1]);
    CHECK_EQ(through(10), 0); /* the end of its input is not its own */
    end(0);
}

TEST_TIMEOUT(wrong_settings, 120)
{
    camera = open_writer("camera");
    send(camera, 1);
    CHECK_EQ(sluice_run(&run, "run", save(gain), "camera", "out", "--set", "gian=2"), 2);
    CHECK_STR(run.err, "sluice: run: fx.cu has no setting 'gian'; did you mean 'gain'?\n");
    CHECK_EQ(sluice_run(&run, "run", save(gain), "camera", "out", "--set", "gain=5"), 2);
    CHECK_STR(run.err, "sluice: run: gain takes a number from 0 to 4, not '5'.\n");
    CHECK_EQ(sluice_run(&run, "run", save(gain), "camera", "out", "--set", "gain"), 2);
    CHECK_STR(run.err, "sluice: run: 'gain' is no setting: write its name and its value, such as: gain 2\n");
    CHECK_EQ(sluice_run(&run, "run", save(SOURCE(", sluice_in in, int n /* = 9 (0..4) */", "")), "camera", "out"), 1);
    CHECK_STR(run.err, "sluice: run: fx.cu: the comment of 'n' is not understood: '= 9 (0..4) '. Write a default and a "
                       "range in it: = 1 (0..4)\n");
    sluice_writer_close(&camera);
}

/* ---- kernels that do not fit ---- */

#define REFUSED(text, message) \
    do { \
        CHECK_EQ(sluice_run(&run, "run", save(text), "camera", "out"), 1); \
        CHECK_STR(run.err, "sluice: run: " message "\n"); \
    } while (0)

TEST_TIMEOUT(kernels_that_do_not_fit, 120)
{
    camera = open_writer("camera");
    send(camera, 1);
    REFUSED("__global__ void k(sluice_out out) {}\n", "fx.cu reads 0 channels, 1 is given.");
    REFUSED("__global__ void k(sluice_out out, sluice_in a, sluice_in b) {}\n", "fx.cu reads 2 channels, 1 is given.");
    REFUSED("__global__ void k(int *numbers) {}\n", "fx.cu has no kernel with a sluice_out, which would write frames.");
    REFUSED("__global__ void k(sluice_out out, sluice_in in, float *table) {}\n",
            "fx.cu: parameter 'table' of kernel 'k' is neither a picture nor a number: sluice run has nothing for it.");
    REFUSED("#define MORE , int n\n__global__ void k(sluice_out out, sluice_in in MORE) {}\n",
            "fx.cu: the parameters of kernel 'k' are not in its text: write them without macros.");
    sluice_writer_close(&camera);
}

TEST_TIMEOUT(without_a_compiler, 60)
{
    camera = open_writer("camera");
    send(camera, 1);
    setenv("SLUICE_CXX", "/none", 1);
    setenv("PATH", "/none", 1);
    CHECK_EQ(sluice_run(&run, "run", save(gain), "camera", "out"), 1);
    CHECK_HAS(run.err, "install one (Debian: apt install g++)");
    sluice_writer_close(&camera);
}

TEST(wrong_usage)
{
    CHECK_EQ(sluice_run(&run, "run", "fx.cu"), 2);
    CHECK_EQ(sluice_run(&run, "run", "fx.cu", "a", "a"), 2);
    CHECK_HAS(run.err, "FROM and TO are both 'a'");
    CHECK_EQ(sluice_run(&run, "run", in_dir("none.cu"), "a", "b"), 1);
    CHECK_HAS(run.err, "none.cu: No such file or directory.");
    CHECK_EQ(sluice_run(&run, "run", in_dir("none.cu"), "a", "b", "--watch"), 1);
    CHECK_HAS(run.err, "none.cu: No such file or directory.");
}

/* ---- new versions ---- */

static bool has_said(const char *text)
{
    return strstr(program_so_far(&run, "err"), text) != NULL;
}

/* Saves a version and sends frames until it is there. No frame is lost meanwhile. */
static void check_version(const char *text, int value)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    int found;
    save(text);
    CHECK_SOON((found = through(10), CHECK_NE(found, -1), found == value), 60);
    CHECK_OK(sluice_reader_stats(out, &stats));
    CHECK_EQ(stats.missed, 0);
}

#define PLUS(n) SOURCE(", sluice_in in, float gain /* = 1 (0..4) */", READ "    to = c; to.x += " #n " * gain;\n")

static void watch(void)
{
    START(save(PLUS(1)), "camera", "out", "--watch", "--set", "gain=2");
    CHECK_EQ(first_through(10), 12);
    check_version(PLUS(3), 16); /* with its settings */
    save("__global__ void fx(sluice_out out, sluice_in in)\n{\n    int n = none;\n}\n");
    CHECK_SOON((CHECK_EQ(through(10), 16), has_said("fx.cu(3): error: ")), 60);
    CHECK_SOON((CHECK_EQ(through(10), 16), has_said("the last version goes on.")), 20);
    save("__global__ void fx(sluice_out out) {}\n"); /* compiles, but does not fit */
    CHECK_SOON((CHECK_EQ(through(10), 16), has_said("fx.cu reads 0 channels, 1 is given")), 60);
    check_version(PLUS(4), 18);
    end(0);
}

TEST_TIMEOUT(a_saved_file_replaces_the_running_one, 200)
{
    watch();
}

TEST_TIMEOUT(a_saved_file_replaces_the_running_one_on_a_gpu, 200)
{
    use_gpu();
    watch();
}

TEST_TIMEOUT(a_first_version_with_an_error, 120)
{
    START(save("__global__ void fx(sluice_out out, sluice_in in)\n{\n    int n = none;\n}\n"), "camera", "out",
          "--watch");
    send(camera, 1);
    CHECK_SOON(has_said("fx.cu(3): error: "), 60);
    save(PLUS(1));
    CHECK_SOON(through(10) == 11, 60);
    end(0);
}

#define CRASH SOURCE(", sluice_in in", "    if (x == 3) *(volatile int *)0 = 1;\n")

static void crash(const char *crashing)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    START(save(PLUS(1)), "camera", "out", "--watch", "--set", "gain=2");
    CHECK_EQ(first_through(10), 12);
    save(crashing);
    CHECK_SOON((through(10), has_said("fx.cu has crashed")), 60);
    CHECK_SOON(through(10) == 12, 60);
    CHECK_OK(sluice_reader_stats(out, &stats));
    CHECK_EQ(stats.sessions, 2);
    check_version(PLUS(3), 16);
    end(0);
    CHECK_HAS(run.err, "; the last version that worked goes on.\n");
    CHECK(!strstr(strstr(run.err, "has crashed") + 1, "has crashed")); /* it says so once */
}

TEST_TIMEOUT(a_kernel_that_crashes_is_replaced, 200)
{
    crash(CRASH);
}

/* The GPU's context fails while its process lives; the test makes that of the fake driver fail. */
TEST_TIMEOUT(a_kernel_that_crashes_is_replaced_on_a_gpu, 200)
{
    use_gpu();
    if (getenv("SLUICE_TEST_DEVICE"))
        crash(CRASH);
    else
        crash("extern \"C\" void *dlopen(const char *, int);\n"
              "extern \"C\" void *dlsym(void *, const char *);\n" SOURCE(
                  ", sluice_in in", "    if (x == 3) reinterpret_cast<void (*)(int, int)>(dlsym(dlopen(\"" FAKE_CUDA
                                    "\", 1), \"fake_lose\"))(0, 700);\n"));
    CHECK_HAS(run.err, "sluice: run: fx.cu has crashed (the GPU's driver failed)");
}

TEST_TIMEOUT(a_first_version_that_crashes, 120)
{
    camera = open_writer("camera");
    send(camera, 1);
    CHECK_EQ(sluice_run(&run, "run", save(CRASH), "camera", "out"), 1);
    CHECK_STR(run.err, "sluice: run: 'out' is open: 24x10 rgba on host.\n"
                       "sluice: run: fx.cu has crashed (signal 11, Segmentation fault).\n");
    sluice_writer_close(&camera);
}

#define CRASH_AT_9 SOURCE(", sluice_in in", READ "    if (c.x == 9) *(volatile int *)0 = 1;\n    to = c;\n")

/* A version that worked before is started again, but after three crashes within ten seconds it is given up. */
TEST_TIMEOUT(a_kernel_that_crashes_again_and_again, 120)
{
    START(save(CRASH_AT_9), "camera", "out");
    CHECK_EQ(first_through(10), 10);
    for (int i = 0; i < 2; i++) {
        send(camera, 9);
        CHECK_SOON(through(10) == 10, 60);
    }
    send(camera, 9);
    CHECK_SOON((send(camera, 9), has_said("again and again")), 60);
    CHECK_EQ(program_end(&run, 0), 1);
    sluice_reader_close(&out);
    sluice_writer_close(&camera);
}

/* Its process does not outlive it. */
TEST_TIMEOUT(a_killed_command_leaves_nothing, 120)
{
    START(save(PLUS(1)), "camera", "out");
    CHECK_EQ(first_through(10), 11);
    pid_t worker = first_child(run.pid);
    CHECK(worker > 0);
    CHECK_EQ(program_end(&run, SIGKILL), -SIGKILL);
    CHECK_SOON(readers_of("camera") == 0, 20);
    sluice_reader_close(&out);
    sluice_writer_close(&camera);
}
