/* SPDX-License-Identifier: MIT
 *
 * The filter of filter.c on a GPU: a kernel reads the frame in the slot of one channel and writes its edges into a slot
 * of another. Pixels are copied to the CPU only to be checked: they must be the same at the end of the lease as at its
 * beginning, they must have the hash in the metadata, and the first result must be the same as the CPU's.
 *
 *     gpu_filter IN OUT [DEVICE]
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include <sluice/sluice.h>

#include "driver.h"
#include "edges.h"
#include "hash.h"

/* ---- the kernel, as text that the driver compiles for the installed GPU ---- */

/* %edge and a quarter of one colour of %pixel, in its place of %result. */
#define COLOUR(shift) \
    "    bfe.u32 %part, %pixel, " shift ", 8;\n" \
    "    shr.u32 %part, %part, 2;\n" \
    "    add.u32 %part, %part, %edge;\n" \
    "    min.u32 %part, %part, 255;\n" \
    "    shl.b32 %part, %part, " shift ";\n" \
    "    or.b32 %result, %result, %part;\n"

static const char kernel_text[] =
    ".version 6.4\n"
    ".target sm_50\n"
    ".address_size 64\n"
    /* the brightness of the pixel at this row and column, which is a byte offset */
    ".func (.reg .u32 %luma) luma_at(.reg .u64 %row, .reg .u64 %column)\n"
    "{\n"
    "    .reg .u64 %at;\n"
    "    .reg .u32 %pixel, %part;\n"
    "    add.u64 %at, %row, %column;\n"
    "    ld.global.u32 %pixel, [%at];\n"
    "    and.b32 %part, %pixel, 255;\n"
    "    mul.lo.u32 %luma, %part, 54;\n"
    "    bfe.u32 %part, %pixel, 8, 8;\n"
    "    mad.lo.u32 %luma, %part, 183, %luma;\n"
    "    bfe.u32 %part, %pixel, 16, 8;\n"
    "    mad.lo.u32 %luma, %part, 19, %luma;\n"
    "    shr.u32 %luma, %luma, 8;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry edges(.param .u64 to, .param .u64 from, .param .u32 width, .param .u32 height,\n"
    "                      .param .u32 to_pitch, .param .u32 from_pitch)\n"
    "{\n"
    "    .reg .u64 %to, %from, %at, %above, %here, %below, %left, %mid, %right;\n"
    "    .reg .u32 %w, %h, %x, %y, %n, %m, %pixel, %part, %edge, %result, %pitch;\n"
    "    .reg .u32 %al, %am, %ar, %hl, %hr, %bl, %bm, %br;\n"
    "    .reg .s32 %across, %down;\n"
    "    .reg .pred %out;\n"
    "    ld.param.u64 %to, [to];\n"
    "    ld.param.u64 %from, [from];\n"
    "    ld.param.u32 %w, [width];\n"
    "    ld.param.u32 %h, [height];\n"
    /* one thread a pixel */
    "    mov.u32 %n, %ctaid.x;\n"
    "    mov.u32 %m, %ntid.x;\n"
    "    mov.u32 %x, %tid.x;\n"
    "    mad.lo.u32 %x, %n, %m, %x;\n"
    "    mov.u32 %y, %ctaid.y;\n"
    "    setp.ge.u32 %out, %x, %w;\n"
    "    @%out bra done;\n"
    /* three rows and three columns; at the border the last one twice */
    "    ld.param.u32 %pitch, [from_pitch];\n"
    "    mad.wide.u32 %here, %y, %pitch, %from;\n"
    "    max.u32 %n, %y, 1;\n"
    "    sub.u32 %n, %n, 1;\n"
    "    mad.wide.u32 %above, %n, %pitch, %from;\n"
    "    add.u32 %n, %y, 1;\n"
    "    sub.u32 %m, %h, 1;\n"
    "    min.u32 %n, %n, %m;\n"
    "    mad.wide.u32 %below, %n, %pitch, %from;\n"
    "    mul.wide.u32 %mid, %x, 4;\n"
    "    max.u32 %n, %x, 1;\n"
    "    sub.u32 %n, %n, 1;\n"
    "    mul.wide.u32 %left, %n, 4;\n"
    "    add.u32 %n, %x, 1;\n"
    "    sub.u32 %m, %w, 1;\n"
    "    min.u32 %n, %n, %m;\n"
    "    mul.wide.u32 %right, %n, 4;\n"
    "    call (%al), luma_at, (%above, %left);\n"
    "    call (%am), luma_at, (%above, %mid);\n"
    "    call (%ar), luma_at, (%above, %right);\n"
    "    call (%hl), luma_at, (%here, %left);\n"
    "    call (%hr), luma_at, (%here, %right);\n"
    "    call (%bl), luma_at, (%below, %left);\n"
    "    call (%bm), luma_at, (%below, %mid);\n"
    "    call (%br), luma_at, (%below, %right);\n"
    /* across = ar + 2 hr + br - al - 2 hl - bl; down = bl + 2 bm + br - al - 2 am - ar */
    "    sub.s32 %across, %hr, %hl;\n"
    "    shl.b32 %across, %across, 1;\n"
    "    add.s32 %across, %across, %ar;\n"
    "    add.s32 %across, %across, %br;\n"
    "    sub.s32 %across, %across, %al;\n"
    "    sub.s32 %across, %across, %bl;\n"
    "    sub.s32 %down, %bm, %am;\n"
    "    shl.b32 %down, %down, 1;\n"
    "    add.s32 %down, %down, %bl;\n"
    "    add.s32 %down, %down, %br;\n"
    "    sub.s32 %down, %down, %al;\n"
    "    sub.s32 %down, %down, %ar;\n"
    "    abs.s32 %across, %across;\n"
    "    abs.s32 %down, %down;\n"
    "    add.s32 %edge, %across, %down;\n"
    "    add.u64 %at, %here, %mid;\n"
    "    ld.global.u32 %pixel, [%at];\n"
    "    mov.u32 %result, 0xff000000;\n" COLOUR("0") COLOUR("8") COLOUR("16") "    ld.param.u32 %pitch, [to_pitch];\n"
                                                                              "    mad.wide.u32 %at, %y, %pitch, %to;\n"
                                                                              "    add.u64 %at, %at, %mid;\n"
                                                                              "    st.global.u32 [%at], %result;\n"
                                                                              "done:\n"
                                                                              "    ret;\n"
                                                                              "}\n";

/* ---- the filter ---- */

struct filter {
    const char *out_name, *device;
    struct sluice_device gpu;
    struct sluice_stream stream;
    CUstream native; /* the same */
    CUfunction kernel;
    sluice_reader *reader;
    sluice_writer *writer;
    uint32_t width, height;
    void *in, *out; /* pixels for the CPU to check, pinned */
    uint8_t *wanted, *luma;
    bool compared;
    uint64_t torn;
};

static _Atomic bool stop; /* signals arrive on any thread */

static void on_signal(int signal_number)
{
    (void)signal_number;
    stop = true;
}

static int fail(const char *what)
{
    fprintf(stderr, "gpu_filter: %s: %s\n", what, sluice_last_error());
    return 1;
}

/* A stream of Sluice's, and the kernel in the context that Sluice uses, too. */
static int open_gpu(struct filter *filter)
{
    const char *digits = filter->device + strcspn(filter->device, "0123456789");
    CUmodule module;
    uintptr_t native;
    if (driver_open(atoi(digits)) || driver_check(driver.ModuleLoadData(&module, kernel_text), "cuModuleLoadData") ||
        driver_check(driver.ModuleGetFunction(&filter->kernel, module, "edges"), "cuModuleGetFunction"))
        return 1;
    if (sluice_device_open(&filter->gpu, filter->device) || sluice_stream_create(filter->gpu, NULL, &filter->stream) ||
        sluice_stream_native(filter->stream, &native))
        return fail(filter->device);
    filter->native = (CUstream)native;
    return 0;
}

static void free_memory(struct filter *filter)
{
    sluice_device_host_free(&filter->in);
    sluice_device_host_free(&filter->out);
    free(filter->wanted);
    free(filter->luma);
    filter->wanted = filter->luma = NULL;
}

/* The output channel is opened with the first frame, and reshaped when the size changes. */
static int prepare(struct filter *filter, const struct sluice_image *image)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    size_t bytes = (size_t)image->width * image->height * 4;
    if (filter->writer && filter->width == image->width && filter->height == image->height)
        return 0;
    free_memory(filter);
    filter->width = image->width;
    filter->height = image->height;
    filter->compared = false;
    filter->wanted = malloc(bytes);
    filter->luma = malloc((size_t)image->width * 3);
    if (!filter->wanted || !filter->luma || sluice_device_host_alloc(filter->gpu, bytes, &filter->in) ||
        sluice_device_host_alloc(filter->gpu, bytes, &filter->out))
        return fail("memory");
    if (sluice_format_add_image(&format, "image", SLUICE_PIXEL_RGBA, image->width, image->height))
        return fail("format");
    format.arrays[0].image.colour = image->colour;
    if (filter->writer)
        return sluice_writer_reformat(filter->writer, &format) ? fail(filter->out_name) : 0;
    params.name = filter->out_name;
    params.device = filter->device;
    params.format = &format;
    return sluice_writer_open(&filter->writer, &params) ? fail(filter->out_name) : 0;
}

/* Pixels of a held frame, rows without gaps: after the work on the stream, and waits for it. */
static int fetch(struct filter *filter, const struct sluice_frame *frame, uint64_t *hash)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    if (sluice_format_add_image(&format, "image", SLUICE_PIXEL_RGBA, filter->width, filter->height))
        return fail("format");
    struct sluice_array *array = &format.arrays[0];
    array->name[0] = 0; /* the frame's only one */
    array->data = filter->in;
    if (sluice_reader_fetch(filter->reader, frame, array, 1, filter->stream, NULL))
        return fail("fetch");
    *hash = hash_of(filter->in, array->nbytes);
    return 0;
}

/* Queues the kernel, and a copy of its result. */
static int draw(struct filter *filter, const struct sluice_array *from, const struct sluice_array *to)
{
    CUdeviceptr in = (uintptr_t)from->data, out = (uintptr_t)to->data;
    uint32_t in_pitch = (uint32_t)from->image.planes[0].pitch, out_pitch = (uint32_t)to->image.planes[0].pitch;
    void *arguments[] = { &out, &in, &filter->width, &filter->height, &out_pitch, &in_pitch };
    return driver_check(driver.LaunchKernel(filter->kernel, (filter->width + 127) / 128, filter->height, 1, 128, 1, 1,
                                            0, filter->native, arguments, NULL),
                        "cuLaunchKernel") ||
           driver_check(driver.MemcpyDtoHAsync(filter->out, out, to->nbytes, filter->native), "cuMemcpyDtoHAsync");
}

/* Does the GPU draw what the CPU would? */
static int compare(struct filter *filter, size_t bytes)
{
    size_t pitch = (size_t)filter->width * 4;
    if (filter->compared)
        return 0;
    edges(filter->luma, filter->width, filter->height, filter->in, pitch, filter->wanted, pitch);
    filter->compared = true;
    if (memcmp(filter->out, filter->wanted, bytes) == 0)
        return 0;
    fprintf(stderr, "gpu_filter: the GPU draws other edges than the CPU\n");
    return 1;
}

static void write_meta(struct filter *filter, struct sluice_frame *frame, const char *in_meta, size_t bytes,
                       int64_t latency)
{
    const char *index = find_key(in_meta, "\"index\":");
    frame->meta_size = (uint32_t)snprintf(
        frame->meta, SLUICE_MAX_META,
        "{\"index\":%llu,\"hash\":\"%016" PRIx64 "\",\"torn\":%" PRIu64 ",\"latency_ns\":%" PRId64 "}",
        index ? strtoull(index, NULL, 10) : 0, hash_of(filter->out, bytes), filter->torn, latency);
}

/* One frame from IN to OUT. Returns 0, or 1 after printing an error. */
static int pass(struct filter *filter, const struct sluice_frame *in, int64_t latency)
{
    struct sluice_frame out;
    struct sluice_array from, to;
    uint64_t before, after;
    char meta[SLUICE_MAX_META + 1];
    if (sluice_frame_array(in, NULL, &from))
        return fail("frame");
    if (from.image.pixel_format != SLUICE_PIXEL_RGBA) {
        fprintf(stderr, "gpu_filter: it takes rgba, not %s\n", sluice_pixel_format_name(from.image.pixel_format));
        return 1;
    }
    memcpy(meta, in->meta, in->meta_size);
    meta[in->meta_size] = 0;
    const char *said = find_key(meta, "\"hash\":\"");
    if (prepare(filter, &from.image) || fetch(filter, in, &before))
        return 1;
    int result = sluice_writer_begin(filter->writer, SLUICE_DEFAULT, &out);
    if (result == SLUICE_NO_SLOT)
        return 0; /* all slots are held: this frame is dropped */
    if (result || sluice_frame_array(&out, NULL, &to))
        return fail("begin");
    if (draw(filter, &from, &to) || fetch(filter, in, &after) || compare(filter, to.nbytes))
        return 1;
    if (after != before || (said && strtoull(said, NULL, 16) != before))
        filter->torn++;
    sluice_frame_inherit(&out, in);
    write_meta(filter, &out, meta, to.nbytes, latency);
    return sluice_writer_commit(filter->writer, &out, filter->stream) ? fail("commit") : 0;
}

static int run(struct filter *filter)
{
    struct sluice_frame frame;
    int failed = 0;
    while (!stop && !failed) {
        int result = sluice_reader_acquire(filter->reader, filter->stream, 100 * SLUICE_MS, &frame);
        if (result == SLUICE_OK) {
            struct sluice_reader_stats stats = { .size = sizeof stats };
            sluice_reader_stats(filter->reader, &stats);
            failed = pass(filter, &frame, (int64_t)stats.latency_ns);
            sluice_reader_release(filter->reader, &frame, filter->stream);
        } else if (result == SLUICE_CLOSED) {
            /* It returns this at once until a new writer starts. */
            thrd_sleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
        } else if (result < 0 && result != SLUICE_E_LOST) {
            failed = fail("acquire");
        }
    }
    return failed;
}

int main(int argc, char **argv)
{
    struct filter filter = { .device = argc > 3 ? argv[3] : "cuda:0" };
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: gpu_filter IN OUT [DEVICE]\n");
        return 2;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (open_gpu(&filter))
        return 1;
    params.name = argv[1];
    params.device = filter.device;
    params.open_timeout_ns = SLUICE_LATER; /* the writer may start later */
    filter.out_name = argv[2];
    if (sluice_reader_open(&filter.reader, &params))
        return fail(argv[1]);
    int failed = run(&filter);
    sluice_writer_close(&filter.writer);
    sluice_reader_close(&filter.reader);
    free_memory(&filter);
    sluice_device_close(&filter.gpu);
    return failed;
}
