/* SPDX-License-Identifier: MIT
 *
 * Elements queue work on streams of their own and go on, as cudaconvert does: a frame must not end, or be published,
 * before that work.
 */
#define GST_USE_UNSTABLE_API
#include <gst/cuda/gstcuda.h>
#include <stdlib.h>
#include <string.h>

#include "gstreamer/gpu_kit.h"
#include "gstreamer/hash.h"

enum {
    FRAMES = 20,
    WIDTH = 128, /* rows of 512 bytes: no padding */
    HEIGHT = 24,
    BYTES = WIDTH * HEIGHT * 4,
    DETOUR = 10,
    TOKEN = 1000
};

/* ---- one buffer of GPU memory for each frame, and a stream ---- */

static struct {
    GstCudaStream *stream;
    CUdeviceptr memory; /* FRAMES pictures, and room for the detour */
    guint seen, memories;
} late;

static void open_late(GstCudaContext *context)
{
    if (late.memory)
        return;
    CHECK(gst_cuda_context_push(context));
    CHECK_EQ(CuMemAlloc(&late.memory, (FRAMES + 1) * BYTES), CUDA_SUCCESS);
    CHECK(gst_cuda_context_pop(NULL));
    late.stream = gst_cuda_stream_new(context);
}

/* Copies behind other work, which takes a while. */
static void copy_late(GstCudaContext *context, CUdeviceptr to, CUdeviceptr from, GstCudaStream *stream)
{
    CUstream handle = gst_cuda_stream_get_handle(stream);

    CHECK(gst_cuda_context_push(context));
    for (int i = 0; i < DETOUR; i++)
        CHECK_EQ(CuMemcpyDtoDAsync(late.memory + FRAMES * BYTES, late.memory, BYTES, handle), CUDA_SUCCESS);
    CHECK_EQ(CuMemcpyDtoDAsync(to, from, BYTES, handle), CUDA_SUCCESS);
    CHECK(gst_cuda_context_pop(NULL));
}

static void close_late(void)
{
    GstCudaContext *context = gst_object_ref(late.stream->context);

    gst_clear_cuda_stream(&late.stream);
    CHECK(gst_cuda_context_push(context));
    CHECK_EQ(CuMemFree(late.memory), CUDA_SUCCESS);
    CHECK(gst_cuda_context_pop(NULL));
    gst_object_unref(context);
}

/* ---- a pipeline whose buffers are looked at ---- */

/* `context`: the program's, or NULL. */
static void run(const char *text, GstPadProbeCallback on_buffer, GstPadProbeCallback on_query, GstContext *context)
{
    GstElement *pipeline = gst_parse_launch(text, NULL), *element = gst_bin_get_by_name(GST_BIN(pipeline), "late");
    GstPad *pad = gst_element_get_static_pad(element, "src");
    GstBus *bus = gst_element_get_bus(pipeline);

    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, on_buffer, NULL, NULL);
    if (on_query)
        gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM | GST_PAD_PROBE_TYPE_PULL, on_query, NULL, NULL);
    if (context)
        gst_element_set_context(pipeline, context);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    GstMessage *message = gst_bus_timed_pop_filtered(bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    CHECK_EQ(GST_MESSAGE_TYPE(message), GST_MESSAGE_EOS);
    gst_message_unref(message);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(bus);
    gst_object_unref(pad);
    gst_object_unref(element);
    gst_object_unref(pipeline);
}

static CUdeviceptr map(GstCudaMemory *memory, GstMapInfo *info, GstMapFlags flags)
{
    CHECK(gst_memory_map(GST_MEMORY_CAST(memory), info, flags | GST_MAP_CUDA));
    return (CUdeviceptr)(uintptr_t)info->data;
}

/* ---- reading ---- */

static GstPadProbeReturn read_late(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    GstCudaMemory *memory = GST_CUDA_MEMORY_CAST(gst_buffer_peek_memory(GST_PAD_PROBE_INFO_BUFFER(info), 0));
    GstMapInfo mapped;
    (void)pad;
    (void)user;

    open_late(memory->context);
    if (!gst_cuda_memory_get_token_data(memory, TOKEN)) { /* as a texture would be kept there */
        gst_cuda_memory_set_token_data(memory, TOKEN, &late, NULL);
        late.memories++;
    }
    CUdeviceptr from = map(memory, &mapped, GST_MAP_READ);
    copy_late(memory->context, late.memory + late.seen++ * BYTES, from, late.stream);
    gst_memory_unmap(GST_MEMORY_CAST(memory), &mapped);
    return GST_PAD_PROBE_DROP; /* the work is still queued */
}

ROLE(late_reader)
{
    static uint8_t pixels[BYTES];

    gst_init(NULL, NULL);
    role_say("runs");
    run("sluicesrc channel=in framerate=60/1 mode=in-order ! identity name=late ! fakesink", read_late, NULL, NULL);
    CHECK_EQ(late.seen, FRAMES);
    CHECK_LE(late.memories, 8); /* one for each slot that there can be */
    GstCudaContext *context = gst_object_ref(late.stream->context);
    CHECK(gst_cuda_context_push(context));
    CHECK_EQ(CuStreamSynchronize(gst_cuda_stream_get_handle(late.stream)), CUDA_SUCCESS);
    for (guint i = 0; i < FRAMES; i++) {
        CHECK_EQ(CuMemcpyDtoH(pixels, late.memory + i * BYTES, BYTES), CUDA_SUCCESS);
        role_say("%016llx", (unsigned long long)hash_bytes(HASH_START, pixels, BYTES));
    }
    CHECK(gst_cuda_context_pop(NULL));
    gst_object_unref(context);
    close_late();
    (void)argc;
    (void)argv;
    return 0;
}

TEST_TIMEOUT(a_frame_ends_behind_work_on_any_stream, 60)
{
    uint64_t hashes[FRAMES];
    char text[32];

    need_gpu();
    gstreamer_environment();
    sluice_writer *writer = gpu_writer("in", SLUICE_PIXEL_RGBA, WIDTH, HEIGHT, 0);
    struct child reader = role_start("late_reader", NULL);
    child_expect(&reader, "runs", 30);
    CHECK_SOON(reader_count("in") == 1, 30);
    for (uint32_t i = 0; i < FRAMES; i++)
        hashes[i] = gpu_commit(writer, i);
    CHECK_OK(sluice_writer_close(&writer));
    for (int i = 0; i < FRAMES; i++) {
        snprintf(text, sizeof text, "%016llx", (unsigned long long)hashes[i]);
        child_expect(&reader, text, 30);
    }
    CHECK_EQ(child_wait(&reader, 30), 0);
}

/* ---- writing ---- */

/* Slots are to be filled on our stream, as cudaconvert asks it of a pool. */
static GstPadProbeReturn ask_pool(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    GstQuery *query = GST_PAD_PROBE_INFO_QUERY(info);
    GstBufferPool *pool;
    (void)pad;
    (void)user;

    if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION || gst_query_get_n_allocation_pools(query) == 0)
        return GST_PAD_PROBE_OK;
    gst_query_parse_nth_allocation_pool(query, 0, &pool, NULL, NULL, NULL);
    open_late(GST_CUDA_BUFFER_POOL(pool)->context);
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_cuda_stream(config, late.stream);
    CHECK(gst_buffer_pool_set_config(pool, config));
    gst_object_unref(pool);
    return GST_PAD_PROBE_OK;
}

static GstPadProbeReturn write_late(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    static uint8_t pixels[BYTES];
    GstCudaMemory *memory = GST_CUDA_MEMORY_CAST(gst_buffer_peek_memory(GST_PAD_PROBE_INFO_BUFFER(info), 0));
    GstMapInfo mapped;
    (void)pad;
    (void)user;

    open_late(memory->context);
    CUdeviceptr picture = late.memory + late.seen * BYTES, to = map(memory, &mapped, GST_MAP_WRITE);
    role_say(gst_cuda_memory_get_stream(memory) ? "own stream" : "default stream");
    memset(pixels, (int)++late.seen, sizeof pixels);
    CHECK(gst_cuda_context_push(memory->context));
    CHECK_EQ(CuMemcpyHtoD(picture, pixels, BYTES), CUDA_SUCCESS);
    CHECK(gst_cuda_context_pop(NULL));
    copy_late(memory->context, to, picture, gst_cuda_memory_get_stream(memory));
    gst_memory_unmap(GST_MEMORY_CAST(memory), &mapped);
    return GST_PAD_PROBE_OK; /* the work is still queued */
}

ROLE(late_writer)
{
    gst_init(NULL, NULL);
    GstContext *context = NULL;
    if (argc > 2) { /* not the primary one */
        CHECK(gst_cuda_load_library());
        GstCudaContext *own = gst_cuda_context_new(0);
        context = gst_context_new_cuda_context(own);
        gst_object_unref(own);
    }
    run(argv[1], write_late, ask_pool, context);
    close_late();
    if (context)
        gst_context_unref(context);
    return 0;
}

static void check_late_writer(const char *between, const char *stream, const char *context)
{
    static uint8_t pixels[BYTES];
    char text[512];

    need_gpu();
    gstreamer_environment();
    sluice_reader *reader = image_reader("out");
    snprintf(text, sizeof text,
             "videotestsrc num-buffers=%d ! video/x-raw,format=RGBA,width=%d,height=%d ! cudaupload ! "
             "video/x-raw(memory:CUDAMemory) ! identity name=late ! %s sluicesink channel=out sync=false "
             "policy=wait timeout=0",
             FRAMES, WIDTH, HEIGHT, between);
    struct child writer = role_start("late_writer", text, context, NULL);
    for (int i = 1; i <= FRAMES; i++) {
        memset(pixels, i, sizeof pixels);
        child_expect(&writer, stream, 30);
        CHECK_EQ(gpu_take(reader), hash_bytes(HASH_START, pixels, sizeof pixels));
    }
    CHECK_EQ(child_wait(&writer, 30), 0);
    CHECK_OK(sluice_reader_close(&reader));
}

TEST_TIMEOUT(a_frame_is_published_behind_the_work_on_it, 60)
{
    check_late_writer("", "own stream", NULL);
}

TEST_TIMEOUT(a_copy_is_made_behind_the_work_on_the_picture, 60)
{
    check_late_writer("identity drop-allocation=true !", "default stream", NULL);
}

TEST_TIMEOUT(pictures_of_another_context_are_copied, 60)
{
    check_late_writer("", "default stream", "own");
}
