/* SPDX-License-Identifier: MIT
 *
 * memory:CUDAMemory, on the fake driver: frames in place, copies, contexts, sessions, and what is refused.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "gstreamer/gpu_kit.h"

static void expect_buffer(struct child *pipeline, uint64_t hash)
{
    char text[32];

    snprintf(text, sizeof text, " %016llx", (unsigned long long)hash);
    CHECK_HAS(pipeline_says(pipeline, "buffer"), text);
}

static uint64_t said_hash(struct child *pipeline)
{
    return strtoull(strrchr(pipeline_says(pipeline, "buffer"), ' ') + 1, NULL, 16);
}

/* ---- sluicesrc ---- */

/* Without caps behind it, cudadownload passes CUDA memory on. */
#define DOWNLOAD "cudadownload ! video/x-raw ! "

/* Downloads frames of a channel. Returns how many were in place. */
static uint64_t download(uint32_t pixel_format, uint32_t width, uint32_t height, uint32_t pitch_align, int frames)
{
    sluice_writer *writer = gpu_writer("in", pixel_format, width, height, pitch_align);
    struct child pipeline = pipeline_start(
        "sluicesrc name=src channel=in framerate=60/1 mode=in-order ! video/x-raw(memory:CUDAMemory) ! " DOWNLOAD
        "identity name=look ! fakesink sync=false");

    CHECK_SOON(reader_count("in") == 1, 30);
    for (int i = 1; i <= frames; i++)
        expect_buffer(&pipeline, gpu_commit(writer, (uint32_t)i));
    uint64_t in_place = pipeline_stat(&pipeline, "src", "in-place");
    CHECK_EQ(in_place + pipeline_stat(&pipeline, "src", "copied"), frames);
    CHECK_OK(sluice_writer_close(&writer));
    pipeline_says(&pipeline, "eos");
    pipeline_stop(&pipeline);
    return in_place;
}

TEST_TIMEOUT(frames_on_a_gpu_are_read_in_place, 120)
{
    need_gpu();
    CHECK_EQ(download(SLUICE_PIXEL_NV12, 322, 242, 512, 12), 12);
    CHECK_EQ(download(SLUICE_PIXEL_RGBA, 333, 47, 0, 4), 4);
    CHECK_EQ(download(SLUICE_PIXEL_YUV420P, 322, 242, 0, 4), 4);
}

/* GStreamer cannot describe narrow planes with padding as CUDA memory. */
TEST_TIMEOUT(padded_narrow_planes_are_copied_on_the_gpu, 60)
{
    need_gpu();
    CHECK_EQ(download(SLUICE_PIXEL_YUV420P, 322, 242, 256, 12), 0);
}

/* `look` maps CUDA memory for the CPU. */
TEST_TIMEOUT(the_cpu_may_map_them, 60)
{
    need_gpu();
    sluice_writer *writer = gpu_writer("in", SLUICE_PIXEL_NV12, 322, 242, 512);
    struct child pipeline = pipeline_start("sluicesrc name=src channel=in framerate=60/1 mode=in-order ! "
                                           "identity name=look ! fakesink sync=false");

    CHECK_SOON(reader_count("in") == 1, 30);
    uint64_t hash = gpu_commit(writer, 1);
    CHECK_HAS(pipeline_says(&pipeline, "caps"), "video/x-raw(memory:CUDAMemory)");
    expect_buffer(&pipeline, hash);
    CHECK_EQ(pipeline_stat(&pipeline, "src", "in-place"), 1);
    pipeline_stop(&pipeline);
    CHECK_SOON(reader_count("in") == 0, 20);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(what_is_over_the_limit_is_copied_on_the_gpu, 60)
{
    enum { FRAMES = 30 };
    uint64_t hashes[FRAMES];

    need_gpu();
    sluice_writer *writer = gpu_writer("in", SLUICE_PIXEL_RGBA, 64, 48, 0);
    struct child pipeline = pipeline_start("sluicesrc name=src channel=in framerate=60/1 mode=in-order ! "
                                           "queue min-threshold-buffers=20 max-size-time=0 ! " DOWNLOAD
                                           "identity name=look ! fakesink sync=false");
    CHECK_SOON(reader_count("in") == 1, 30);
    for (uint32_t i = 0; i < FRAMES; i++)
        hashes[i] = gpu_commit(writer, i);
    CHECK_OK(sluice_writer_close(&writer));
    for (int i = 0; i < FRAMES; i++)
        expect_buffer(&pipeline, hashes[i]);
    pipeline_says(&pipeline, "eos");
    CHECK_GE(pipeline_stat(&pipeline, "src", "copied"), 10);
    CHECK_GE(pipeline_stat(&pipeline, "src", "in-place"), 5);
    pipeline_stop(&pipeline);
}

/* ---- sluicesink ---- */

#define UPLOAD "cudaupload ! video/x-raw(memory:CUDAMemory) ! "

/* Pictures of videotestsrc, through the GPU; how many were rendered in place. */
static uint64_t upload(const char *caps, const char *properties, int frames)
{
    sluice_reader *reader = image_reader("out");
    struct child pipeline =
        pipeline_start("videotestsrc num-buffers=%d pattern=ball ! video/x-raw,%s ! identity name=look ! " UPLOAD
                       "identity name=gate ! sluicesink name=sink channel=out sync=false policy=wait %s",
                       frames, caps, properties);

    CHECK_SOON(reader_count("out") == 2, 30); /* the test's and the sink's own */
    for (int i = 0; i < frames; i++) {
        uint64_t hash = said_hash(&pipeline);
        child_send(&pipeline, "next");
        CHECK_EQ(gpu_take(reader), hash);
    }
    pipeline_says(&pipeline, "eos");
    uint64_t in_place = pipeline_stat(&pipeline, "sink", "in-place");
    CHECK_EQ(in_place + pipeline_stat(&pipeline, "sink", "copied"), frames);
    CHECK_OK(sluice_reader_close(&reader));
    pipeline_stop(&pipeline);
    return in_place;
}

TEST_TIMEOUT(pictures_are_rendered_in_place_on_a_gpu, 120)
{
    need_gpu();
    CHECK_EQ(upload("format=NV12,width=322,height=242", "", 12), 12);
    CHECK_EQ(upload("format=I420,width=322,height=242", "", 4), 4);
    CHECK_EQ(upload("format=RGB,width=333,height=47", "pitch-align=64", 4), 4);
}

/* Memory of another pool: from one channel to another. */
TEST_TIMEOUT(other_memory_is_copied_on_the_gpu, 60)
{
    need_gpu();
    sluice_writer *writer = gpu_writer("in", SLUICE_PIXEL_P010, 322, 242, 512);
    sluice_reader *reader = image_reader("out");
    struct child pipeline = pipeline_start("sluicesrc name=src channel=in framerate=60/1 mode=in-order ! "
                                           "sluicesink name=sink channel=out sync=false policy=wait");
    CHECK_SOON(reader_count("in") == 1, 30);
    for (uint32_t i = 0; i < 12; i++) {
        uint64_t hash = gpu_commit(writer, i);
        CHECK_EQ(gpu_take(reader), hash);
    }
    CHECK_EQ(pipeline_stat(&pipeline, "src", "in-place"), 12);
    CHECK_SOON(pipeline_stat(&pipeline, "sink", "copied") == 12, 20);
    CHECK_OK(sluice_writer_close(&writer));
    pipeline_says(&pipeline, "eos");
    CHECK_OK(sluice_reader_close(&reader));
    pipeline_stop(&pipeline);
}

TEST_TIMEOUT(it_starts_and_stops_many_times_on_a_gpu, 120)
{
    need_gpu();
    struct child pipeline = pipeline_start("videotestsrc ! video/x-raw,format=RGBA,width=64,height=48 ! " UPLOAD
                                           "sluicesink channel=out sync=false");
    pipeline_cycle(&pipeline, test_scale(10));
    pipeline_stop(&pipeline);
    CHECK_EQ(reader_count("out"), UINT32_MAX); /* closed */
}

TEST_TIMEOUT(the_channel_may_be_on_another_gpu, 60)
{
    need_gpu();
    struct sluice_channel_info info = { .size = sizeof info };
    sluice_reader *reader = image_reader("out");
    struct child pipeline =
        pipeline_start("videotestsrc num-buffers=4 ! video/x-raw,format=NV12,width=64,height=48 ! "
                       "identity name=look ! cudaupload cuda-device-id=1 ! video/x-raw(memory:CUDAMemory) ! "
                       "identity name=gate ! sluicesink name=sink channel=out sync=false cuda-device-id=1");

    CHECK_SOON(reader_count("out") == 2, 30);
    CHECK_OK(sluice_channel_info("out", 10 * SLUICE_S, &info, NULL, 0));
    CHECK_STR(info.device, "cuda:1");
    for (int i = 0; i < 4; i++) {
        uint64_t hash = said_hash(&pipeline);
        child_send(&pipeline, "next");
        CHECK_EQ(gpu_take(reader), hash);
    }
    pipeline_says(&pipeline, "eos");
    CHECK_EQ(pipeline_stat(&pipeline, "sink", "in-place"), 4);
    CHECK_OK(sluice_reader_close(&reader));
    pipeline_stop(&pipeline);
}

/* ---- peers that die, and devices that change ---- */

/* Sends a frame of this size for each line. */
ROLE(gpu_player)
{
    uint32_t number = 0;

    sluice_writer *writer = gpu_writer(argv[1], SLUICE_PIXEL_RGBA, (uint32_t)atoi(argv[2]), 48, 0);
    role_say("open");
    (void)argc;
    while (role_line())
        role_say("%016llx", (unsigned long long)gpu_commit(writer, ++number));
    CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

static void play_one(struct child *player, struct child *pipeline)
{
    char hash[32];

    child_send(player, "one");
    snprintf(hash, sizeof hash, "%s", child_line(player, 20));
    CHECK_HAS(pipeline_says(pipeline, "buffer"), hash);
}

TEST_TIMEOUT(a_killed_writer_on_a_gpu_comes_back_at_another_size, 60)
{
    need_gpu();
    struct child player = role_start("gpu_player", "in", "64", NULL);
    child_expect(&player, "open", 20);
    struct child pipeline = pipeline_start("sluicesrc name=src channel=in framerate=30/1 ! " DOWNLOAD
                                           "identity name=look ! fakesink sync=false");
    CHECK_SOON(reader_count("in") == 1, 30);
    play_one(&player, &pipeline);
    child_kill(&player, SIGKILL);

    struct child next = role_start("gpu_player", "in", "320", NULL);
    child_expect(&next, "open", 20);
    CHECK_SOON(reader_count("in") == 1, 30);
    play_one(&next, &pipeline);
    CHECK_EQ(pipeline_stat(&pipeline, "src", "sessions"), 2);
    CHECK_EQ(pipeline_stat(&pipeline, "src", "copied"), 0);
    role_stop(&next);
    pipeline_says(&pipeline, "eos");
    pipeline_stop(&pipeline);
}

TEST_TIMEOUT(a_killed_pipeline_frees_what_it_held, 60)
{
    need_gpu();
    sluice_writer *writer = gpu_writer("in", SLUICE_PIXEL_RGBA, 64, 48, 0);
    struct child pipeline = pipeline_start("sluicesrc name=src channel=in framerate=30/1 mode=in-order ! "
                                           "identity name=look ! queue min-threshold-buffers=20 ! fakesink sync=false");

    CHECK_SOON(reader_count("in") == 1, 30);
    for (uint32_t i = 0; i < 3; i++)
        expect_buffer(&pipeline, gpu_commit(writer, i));
    child_kill(&pipeline, SIGKILL);
    CHECK_SOON(reader_count("in") == 0, 20);
    for (uint32_t i = 0; i < 20; i++) /* more than there are slots */
        gpu_commit(writer, i);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(a_channel_may_come_back_in_host_memory, 60)
{
    need_gpu();
    sluice_writer *writer = gpu_writer("in", SLUICE_PIXEL_NV12, 64, 48, 0);
    struct child pipeline = pipeline_start("sluicesrc name=src channel=in framerate=30/1 on-close=wait ! " DOWNLOAD
                                           "identity name=look ! fakesink sync=false");
    CHECK_SOON(reader_count("in") == 1, 30);
    expect_buffer(&pipeline, gpu_commit(writer, 1));
    CHECK_OK(sluice_writer_close(&writer));
    writer = image_writer("in", SLUICE_PIXEL_NV12, 64, 48, 0);
    CHECK_SOON(reader_count("in") == 1, 30);
    expect_buffer(&pipeline, image_commit(writer, 2));
    CHECK_OK(sluice_writer_close(&writer));
    writer = gpu_writer("in", SLUICE_PIXEL_NV12, 64, 48, 0);
    CHECK_SOON(reader_count("in") == 1, 30);
    expect_buffer(&pipeline, gpu_commit(writer, 3));
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_writer_close(&writer));
}

static bool is_on(const char *channel, const char *device)
{
    struct sluice_channel_info info = { .size = sizeof info };

    return sluice_channel_info(channel, SLUICE_S, &info, NULL, 0) == 0 && strcmp(info.device, device) == 0 &&
           info.committed == 1;
}

TEST_TIMEOUT(the_sink_follows_to_a_gpu_and_back, 60)
{
    need_gpu();
    sluice_writer *writer = image_writer("in", SLUICE_PIXEL_NV12, 64, 48, 0);
    struct child pipeline = pipeline_start("sluicesrc channel=in framerate=30/1 on-close=wait ! "
                                           "sluicesink name=sink channel=out sync=false");
    for (int i = 0; i < 3; i++) {
        CHECK_SOON(reader_count("in") == 1, 30);
        (void)(i == 1 ? gpu_commit(writer, 1) : image_commit(writer, 1));
        CHECK_SOON(is_on("out", i == 1 ? "cuda:0" : "host"), 30);
        CHECK_OK(sluice_writer_close(&writer));
        writer =
            i == 0 ? gpu_writer("in", SLUICE_PIXEL_NV12, 64, 48, 0) : image_writer("in", SLUICE_PIXEL_NV12, 64, 48, 0);
    }
    CHECK_EQ(pipeline_stat(&pipeline, "sink", "copied"), 3);
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- what is refused ---- */

TEST_TIMEOUT(formats_without_cuda_memory_are_refused, 60)
{
    need_gpu();
    sluice_writer *writer = gpu_writer("in", SLUICE_PIXEL_GRAY8, 64, 48, 0);
    struct child pipeline = pipeline_start("sluicesrc channel=in framerate=1/1 ! fakesink");

    CHECK_SOON(reader_count("in") == 1, 30);
    gpu_commit(writer, 1);
    CHECK_HAS(pipeline_says(&pipeline, "error"), "has gray on a GPU, and GStreamer no such CUDA memory");
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(a_channel_on_a_gpu_needs_cuda_memory, 60)
{
    test_dir();
    use_fake_gpu();
    sluice_writer *writer = gpu_writer("in", SLUICE_PIXEL_RGBA, 64, 48, 0);
    struct child pipeline = pipeline_start("sluicesrc channel=in framerate=1/1 ! video/x-raw ! fakesink");

    CHECK_SOON(reader_count("in") == 1, 30);
    gpu_commit(writer, 1);
#ifdef GST_SLUICE_CUDA
    CHECK_HAS(pipeline_says(&pipeline, "error"), "put cudadownload behind sluicesrc");
#else
    CHECK_HAS(pipeline_says(&pipeline, "error"), "memory:CUDAMemory, which takes GStreamer 1.24 or later");
#endif
    pipeline_stop(&pipeline);
    CHECK_OK(sluice_writer_close(&writer));
}
