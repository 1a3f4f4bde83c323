/* SPDX-License-Identifier: MIT
 *
 * Memory on a GPU as GstCudaMemory, and frames that are read there.
 */
#include <string.h>

#include "gpu_private.h"
#include "meta.h"

/* ---- layouts ---- */

static gint first_component(const GstVideoInfo *info, guint plane)
{
    gint components[GST_VIDEO_MAX_COMPONENTS];

    gst_video_format_info_component(info->finfo, plane, components);
    return components[0];
}

static gint row_bytes(const GstVideoInfo *info, guint plane)
{
    gint component = first_component(info, plane);

    return GST_VIDEO_INFO_COMP_WIDTH(info, component) * GST_VIDEO_INFO_COMP_PSTRIDE(info, component);
}

/* GStreamer copies CUDA memory, to map it for the CPU for one, as rows of the first plane. Sets the size that makes it
 * copy all planes; FALSE if such rows do not contain them. */
static gboolean complete(GstVideoInfo *info, guint64 nbytes)
{
    gint pitch = info->stride[0], width = row_bytes(info, 0);
    guint last = GST_VIDEO_INFO_N_PLANES(info) - 1;
    gint rows = GST_VIDEO_INFO_COMP_HEIGHT(info, first_component(info, last));
    gsize end = info->offset[last] + (gsize)(rows - 1) * (gsize)info->stride[last] + (gsize)row_bytes(info, last);

    if (pitch < width || end > nbytes)
        return FALSE;
    for (guint plane = 0; plane <= last && pitch != width; plane++)
        if (info->stride[plane] != pitch || info->offset[plane] % (gsize)pitch != 0 || row_bytes(info, plane) != width)
            return FALSE;
    info->size = pitch == width ? end : end + (gsize)(pitch - width);
    return info->size % (gsize)pitch == 0;
}

/* ---- memory ---- */

GstMemory *gst_sluice_gpu_memory(const struct gst_sluice_gpu *gpu, const struct gst_sluice_layout *layout, void *data,
                                 guint64 nbytes, gpointer stream, gpointer user, void (*free)(gpointer user))
{
    GstVideoInfo info = layout->format.info;

    memcpy(info.offset, layout->offset, sizeof info.offset);
    memcpy(info.stride, layout->stride, sizeof info.stride);
    if (layout->format.bayer || !complete(&info, nbytes))
        return NULL;
    return gst_cuda_allocator_alloc_wrapped(NULL, gpu->context, stream, &info, (CUdeviceptr)(guintptr)data, user, free);
}

gpointer gst_sluice_gpu_memory_user(GstMemory *memory)
{
    return gst_is_cuda_memory(memory) ? gst_cuda_memory_get_user_data(GST_CUDA_MEMORY_CAST(memory)) : NULL;
}

static GstBuffer *buffer_of(struct gst_sluice_lease *lease, GstMemory *memory)
{
    const GstVideoInfo *info = &GST_CUDA_MEMORY_CAST(memory)->info;
    GstBuffer *buffer = gst_buffer_new();

    gst_sluice_meta_add(buffer, &lease->frame);
    gst_buffer_append_memory(buffer, memory);
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(info),
                                   (guint)GST_VIDEO_INFO_WIDTH(info), (guint)GST_VIDEO_INFO_HEIGHT(info),
                                   GST_VIDEO_INFO_N_PLANES(info), info->offset, info->stride);
    return buffer;
}

/* ---- frames in place ---- */

static GstBuffer *in_place(struct gst_sluice_gpu *gpu, struct gst_sluice_lease *lease, const struct sluice_array *array,
                           const struct gst_sluice_format *format)
{
    struct gst_sluice_layout layout = { .format = *format };

    for (guint i = 0; i < array->image.plane_count; i++) {
        layout.offset[i] = array->image.planes[i].offset;
        layout.stride[i] = (gint)array->image.planes[i].pitch;
    }
    GstMemory *memory = gst_sluice_gpu_slot_memory(gpu, lease, &layout, array);
    return memory ? buffer_of(lease, memory) : NULL;
}

/* ---- copies on the GPU ---- */

static GstMemory *take_copy(struct gst_sluice_gpu *gpu, const GstVideoInfo *info)
{
    GstMemory *memory = NULL;

    g_mutex_lock(&gpu->lock);
    if (gpu->copies && !gst_video_info_is_equal(&gpu->copies->info, info)) {
        gst_cuda_allocator_set_active(GST_CUDA_ALLOCATOR(gpu->copies), FALSE);
        gst_clear_object(&gpu->copies);
    }
    if (!gpu->copies && (gpu->copies = gst_cuda_pool_allocator_new(gpu->context, NULL, info)))
        gst_cuda_allocator_set_active(GST_CUDA_ALLOCATOR(gpu->copies), TRUE);
    if (gpu->copies)
        gst_cuda_pool_allocator_acquire_memory(gpu->copies, &memory);
    g_mutex_unlock(&gpu->lock);
    return memory;
}

/* Describes memory as an array of the same name and picture. */
static int describe(struct sluice_format *to, const struct sluice_array *array, const GstVideoInfo *info, void *data)
{
    const struct sluice_image *image = &array->image;
    int r = sluice_format_add_image(to, array->name, (enum sluice_pixel_format)image->pixel_format, image->width,
                                    image->height);

    if (r >= 0)
        r = gst_sluice_layout_place(to, info->offset, info->stride);
    to->arrays[0].data = data;
    return r;
}

/* The CPU waits: then any stream may read the copy. */
static GstBuffer *copy(struct gst_sluice_gpu *gpu, struct gst_sluice_lease *lease, const struct sluice_array *array,
                       const GstVideoInfo *info)
{
    struct sluice_format to = SLUICE_FORMAT_INIT;
    GstMemory *memory = take_copy(gpu, info);
    GstBuffer *buffer = NULL;
    GstMapInfo map;

    if (memory && gst_memory_map(memory, &map, GST_MAP_WRITE | GST_MAP_CUDA)) {
        int r = describe(&to, array, &GST_CUDA_MEMORY_CAST(memory)->info, map.data);
        if (r == 0)
            r = sluice_reader_fetch(lease->reader->handle, &lease->frame, to.arrays, 1, gst_sluice_gpu_behind_all(gpu),
                                    NULL);
        gst_memory_unmap(memory, &map);
        if (r == 0)
            buffer = buffer_of(lease, memory);
    }
    if (memory && !buffer)
        gst_memory_unref(memory);
    gst_sluice_lease_end(lease);
    return buffer;
}

GstBuffer *gst_sluice_gpu_wrap(struct gst_sluice_gpu *gpu, struct gst_sluice_lease *lease,
                               const struct sluice_array *array, const struct gst_sluice_format *format, gboolean room,
                               gboolean *copied, char **why)
{
    GstBuffer *buffer = NULL;

    *copied = FALSE;
    if (array->image.row_order == SLUICE_BOTTOM_UP) {
        *why = g_strdup("its rows begin at the bottom: on a GPU sluicesrc takes them from the top only");
        gst_sluice_lease_end(lease);
        return NULL;
    }
    if (room)
        buffer = in_place(gpu, lease, array, format);
    if (buffer)
        return buffer;
    *copied = TRUE;
    buffer = copy(gpu, lease, array, &format->info);
    if (!buffer)
        *why = g_strdup_printf("a frame could not be copied on %s: %s", gpu->name, sluice_last_error());
    return buffer;
}
