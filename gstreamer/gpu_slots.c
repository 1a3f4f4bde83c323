/* SPDX-License-Identifier: MIT
 *
 * Memory of slots that are read. It stays from frame to frame: GStreamer keeps textures in it, makes them once, and
 * destroys them with it, though kernels may still use them. So nothing of it ends before the GPU's work has.
 */
#include "gpu_private.h"

/* What a memory is of. */
struct slot {
    void *data;
    guint64 session;
    guint32 generation;
    struct gst_sluice_gpu *gpu; /* while its frame is leased, with a reference */
    struct gst_sluice_lease *lease;
};

static struct slot *slot_of(GstMemory *memory)
{
    return gst_cuda_memory_get_user_data(GST_CUDA_MEMORY_CAST(memory));
}

static void wait_for_gpu(const struct gst_sluice_gpu *gpu)
{
    sluice_stream_synchronize(gst_sluice_gpu_behind_all(gpu));
}

static void free_memory(gpointer memory)
{
    GST_MINI_OBJECT_CAST(memory)->dispose = NULL;
    gst_memory_unref(memory);
}

void gst_sluice_gpu_forget_slots(struct gst_sluice_gpu *gpu)
{
    GQueue idle = G_QUEUE_INIT;

    g_mutex_lock(&gpu->lock);
    while (!g_queue_is_empty(&gpu->idle))
        g_queue_push_tail(&idle, g_queue_pop_head(&gpu->idle));
    g_mutex_unlock(&gpu->lock);
    if (g_queue_is_empty(&idle))
        return;
    wait_for_gpu(gpu);
    g_queue_clear_full(&idle, free_memory);
}

/* The last reference is dropped, on any thread: the frame ends. FALSE: the memory stays. */
static gboolean on_dispose(GstMiniObject *object)
{
    GstMemory *memory = GST_MEMORY_CAST(object);
    struct slot *slot = slot_of(memory);
    struct gst_sluice_gpu *gpu = slot->gpu;

    slot->lease->behind = gst_sluice_gpu_behind_all(gpu);
    gst_sluice_lease_end(slot->lease);
    slot->lease = NULL;
    slot->gpu = NULL;
    g_mutex_lock(&gpu->lock);
    gboolean stays = slot->session == gpu->session && slot->generation == gpu->generation;
    if (stays)
        g_queue_push_tail(&gpu->idle, gst_memory_ref(memory));
    g_mutex_unlock(&gpu->lock);
    if (!stays)
        wait_for_gpu(gpu);
    gst_sluice_gpu_unref(gpu);
    return !stays;
}

/* Memory of another session or generation is not there any more. */
static void follow_generation(struct gst_sluice_gpu *gpu, const struct sluice_frame *frame)
{
    g_mutex_lock(&gpu->lock);
    gboolean other = gpu->session != frame->session || gpu->generation != frame->generation;
    gpu->session = frame->session;
    gpu->generation = frame->generation;
    g_mutex_unlock(&gpu->lock);
    if (other)
        gst_sluice_gpu_forget_slots(gpu);
}

static GstMemory *take_idle(struct gst_sluice_gpu *gpu, const void *data)
{
    GstMemory *memory = NULL;

    g_mutex_lock(&gpu->lock);
    for (GList *at = gpu->idle.head; at && !memory; at = at->next)
        if (slot_of(at->data)->data == data)
            memory = at->data;
    if (memory)
        g_queue_remove(&gpu->idle, memory);
    g_mutex_unlock(&gpu->lock);
    return memory;
}

static gboolean has_layout(GstMemory *memory, const struct gst_sluice_layout *layout)
{
    const GstVideoInfo *info = &GST_CUDA_MEMORY_CAST(memory)->info;
    gboolean same = GST_VIDEO_INFO_FORMAT(info) == GST_VIDEO_INFO_FORMAT(&layout->format.info) &&
                    GST_VIDEO_INFO_WIDTH(info) == GST_VIDEO_INFO_WIDTH(&layout->format.info) &&
                    GST_VIDEO_INFO_HEIGHT(info) == GST_VIDEO_INFO_HEIGHT(&layout->format.info);

    for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES(info); i++)
        same = same && info->offset[i] == layout->offset[i] && info->stride[i] == layout->stride[i];
    return same;
}

static GstMemory *make(struct gst_sluice_gpu *gpu, const struct gst_sluice_layout *layout,
                       const struct sluice_array *array, const struct sluice_frame *frame)
{
    struct slot *slot = g_new0(struct slot, 1);

    slot->data = array->data;
    slot->session = frame->session;
    slot->generation = frame->generation;
    GstMemory *memory = gst_sluice_gpu_memory(gpu, layout, array->data, array->nbytes, NULL, slot, g_free);
    if (memory)
        GST_MINI_OBJECT_FLAG_SET(memory, GST_MEMORY_FLAG_READONLY);
    else
        g_free(slot);
    return memory;
}

GstMemory *gst_sluice_gpu_slot_memory(struct gst_sluice_gpu *gpu, struct gst_sluice_lease *lease,
                                      const struct gst_sluice_layout *layout, const struct sluice_array *array)
{
    follow_generation(gpu, &lease->frame);
    GstMemory *memory = take_idle(gpu, array->data);
    if (memory && !has_layout(memory, layout)) {
        wait_for_gpu(gpu);
        free_memory(memory);
        memory = NULL;
    }
    if (!memory && !(memory = make(gpu, layout, array, &lease->frame)))
        return NULL;
    gst_sluice_gpu_ref(gpu);
    slot_of(memory)->gpu = gpu;
    slot_of(memory)->lease = lease;
    GST_MINI_OBJECT_CAST(memory)->dispose = on_dispose;
    GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_DOWNLOAD); /* should the CPU map it */
    return memory;
}
