/* SPDX-License-Identifier: MIT
 *
 * Frames that are written on a GPU.
 */
#include "gpu_private.h"

#define TEXTURE_ALIGN 512 /* of a plane's address, on NVIDIA's GPUs */
#define COPY_TIME     (10 * SLUICE_S)

guint gst_sluice_gpu_pitch_align(const struct gst_sluice_format *format, guint wanted)
{
    const GstVideoInfo *info = &format->info;
    gboolean narrow = GST_VIDEO_INFO_N_PLANES(info) == 3 && GST_VIDEO_FORMAT_INFO_W_SUB(info->finfo, 1) > 0;

    /* GStreamer describes CUDA memory by one pitch, so narrow planes can have no padding. */
    return wanted ? wanted : narrow ? 0 : TEXTURE_ALIGN;
}

/* ---- streams ---- */

static gboolean is_ours(const struct gst_sluice_gpu *gpu, const GstCudaContext *context)
{
    return gst_cuda_context_get_handle((GstCudaContext *)context) == gst_cuda_context_get_handle(gpu->context);
}

static void unref_stream(gpointer stream)
{
    gst_cuda_stream_unref(stream);
}

/* A stream behind the work that fills a memory. TRUE if it is the memory's own. */
static gboolean begin_stream(const struct gst_sluice_gpu *gpu, GstCudaMemory *memory, struct sluice_stream *stream)
{
    GstCudaStream *own = gst_cuda_memory_get_stream(memory);

    if (own &&
        sluice_stream_wrap(gpu->device, (uintptr_t)gst_cuda_stream_get_handle(own), unref_stream, own, stream) == 0) {
        gst_cuda_stream_ref(own);
        return TRUE;
    }
    *stream = gst_sluice_gpu_behind_all(gpu);
    return FALSE;
}

int gst_sluice_gpu_commit(const struct gst_sluice_gpu *gpu, sluice_writer *writer, struct sluice_frame *frame,
                          GstMemory *memory)
{
    struct sluice_stream stream;
    gboolean own = begin_stream(gpu, GST_CUDA_MEMORY_CAST(memory), &stream);
    int r = sluice_writer_commit(writer, frame, stream);

    if (own)
        sluice_stream_destroy(&stream);
    return r;
}

/* ---- copies ---- */

/* Describes a picture as the array "image". Its planes are parts of one memory, of which the first comes first. */
static int describe(struct sluice_format *to, const struct gst_sluice_format *format, const GstVideoFrame *picture)
{
    const struct sluice_image *image = &format->image;
    const guint8 *base = picture->data[0];
    gsize offset[GST_VIDEO_MAX_PLANES];
    int r = sluice_format_add_image(to, "image", (enum sluice_pixel_format)image->pixel_format, image->width,
                                    image->height);

    for (guint i = 0; i < GST_VIDEO_FRAME_N_PLANES(picture); i++)
        offset[i] = (gsize)((const guint8 *)picture->data[i] - base);
    if (r >= 0)
        r = gst_sluice_layout_place(to, offset, picture->info.stride);
    to->arrays[0].data = picture->data[0];
    return r;
}

static void wait_for(const GstCudaMemory *memory)
{
    gst_cuda_context_push(memory->context);
    CuStreamSynchronize(gst_cuda_stream_get_handle(gst_cuda_memory_get_stream((GstCudaMemory *)memory)));
    gst_cuda_context_pop(NULL);
}

static int send_and_wait(sluice_writer *writer, struct sluice_frame *frame, const struct sluice_array *array,
                         struct sluice_stream stream)
{
    struct sluice_ticket ticket;
    int r = sluice_writer_send_frame(writer, frame, array, 1, stream, &ticket);

    if (r == 0 && sluice_ticket_wait(ticket, COPY_TIME) != 0)
        GST_WARNING("a copy of a frame is still under way: %s", sluice_last_error());
    return r;
}

/* On the memory's own stream, on which it will also be used again, the CPU need not wait. A stream of another context
 * cannot be used here. */
static int send(const struct gst_sluice_gpu *gpu, sluice_writer *writer, struct sluice_frame *frame,
                const struct sluice_array *array, GstCudaMemory *memory)
{
    struct sluice_stream stream;

    if (!is_ours(gpu, memory->context)) {
        wait_for(memory);
        return send_and_wait(writer, frame, array, SLUICE_ON_CPU);
    }
    if (!begin_stream(gpu, memory, &stream))
        return send_and_wait(writer, frame, array, stream);
    int r = sluice_writer_send_frame(writer, frame, array, 1, stream, NULL);
    sluice_stream_destroy(&stream);
    return r;
}

int gst_sluice_gpu_send(const struct gst_sluice_gpu *gpu, sluice_writer *writer, struct sluice_frame *frame,
                        const struct gst_sluice_format *format, GstBuffer *buffer)
{
    GstMemory *memory = gst_buffer_n_memory(buffer) == 1 ? gst_buffer_peek_memory(buffer, 0) : NULL;
    struct sluice_format from = SLUICE_FORMAT_INIT;
    GstVideoInfo info = format->info;
    GstVideoFrame picture;

    if (!memory || !gst_is_cuda_memory(memory) ||
        !gst_video_frame_map(&picture, &info, buffer, GST_MAP_READ | GST_MAP_CUDA))
        return SLUICE_E_FORMAT;
    int r = describe(&from, format, &picture);
    if (r == 0)
        r = send(gpu, writer, frame, from.arrays, GST_CUDA_MEMORY_CAST(memory));
    gst_video_frame_unmap(&picture);
    return r;
}
