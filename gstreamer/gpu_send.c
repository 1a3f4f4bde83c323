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

/* The stream on which a memory is filled; the default one if it has none, or that cannot be wrapped. */
static struct sluice_stream begin_stream(const struct gst_sluice_gpu *gpu, GstCudaMemory *memory)
{
    GstCudaStream *stream = gst_cuda_memory_get_stream(memory);
    struct sluice_stream wrapped;

    if (!stream)
        return gpu->stream;
    if (sluice_stream_wrap(gpu->device, (uintptr_t)gst_cuda_stream_get_handle(stream), unref_stream, stream,
                           &wrapped) != 0)
        return gpu->stream;
    gst_cuda_stream_ref(stream);
    return wrapped;
}

static void end_stream(const struct gst_sluice_gpu *gpu, struct sluice_stream stream)
{
    if (stream.id != gpu->stream.id)
        sluice_stream_destroy(&stream);
}

int gst_sluice_gpu_commit(const struct gst_sluice_gpu *gpu, sluice_writer *writer, struct sluice_frame *frame,
                          GstMemory *memory)
{
    struct sluice_stream stream = begin_stream(gpu, GST_CUDA_MEMORY_CAST(memory));
    int r = sluice_writer_commit(writer, frame, stream);

    end_stream(gpu, stream);
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

/* Behind the work on the memory's own stream, and the CPU does not wait. If the memory is of another context, its
 * stream cannot be used here: the CPU waits for it, and for the copy. */
static int send(const struct gst_sluice_gpu *gpu, sluice_writer *writer, struct sluice_frame *frame,
                const struct sluice_array *array, GstCudaMemory *memory)
{
    struct sluice_ticket ticket;
    int r;

    if (is_ours(gpu, memory->context)) {
        struct sluice_stream stream = begin_stream(gpu, memory);
        r = sluice_writer_send_frame(writer, frame, array, 1, stream, NULL);
        end_stream(gpu, stream);
        return r;
    }
    gst_cuda_memory_sync(memory);
    r = sluice_writer_send_frame(writer, frame, array, 1, SLUICE_ON_CPU, &ticket);
    if (r == 0 && sluice_ticket_wait(ticket, COPY_TIME) != 0)
        GST_WARNING("a copy of a frame is still under way: %s", sluice_last_error());
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
