/* SPDX-License-Identifier: MIT
 *
 * GPUs, and which one an element uses.
 */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

#include "gpu_private.h"

/* ---- a GPU ---- */

/* Its number, by a name of Sluice's: "cuda:0", or "cuda:" and its UUID. -1: there is none. */
static gint index_of(const char *name)
{
    struct sluice_device_report report = { .size = sizeof report };
    guint32 count = 0;
    char *end;

    if (strncmp(name, "cuda:", 5) != 0)
        return -1;
    gint64 number = g_ascii_strtoll(name + 5, &end, 10);
    if (end != name + 5 && *end == '\0')
        return (gint)number;
    if (sluice_device_count(&count) == 0)
        for (guint32 i = 0; i < count; i++)
            if (sluice_device_probe(i, &report) == 0 && strcmp(name + 5, report.uuid) == 0)
                return (gint)i;
    return -1;
}

static struct gst_sluice_gpu *open_gpu(const char *name, GstCudaContext *offered, char **why)
{
    struct sluice_stream_params blocking = { .size = sizeof blocking, .blocking = 1 };
    struct gst_sluice_gpu *gpu = g_new0(struct gst_sluice_gpu, 1);

    gpu->refs = 1;
    g_mutex_init(&gpu->lock);
    g_queue_init(&gpu->idle);
    g_strlcpy(gpu->name, name, sizeof gpu->name);
    if (sluice_device_open(&gpu->device, name) != 0 || sluice_stream_default(gpu->device, &gpu->everything) != 0 ||
        sluice_stream_create(gpu->device, &blocking, &gpu->stream) != 0)
        *why = g_strdup(sluice_last_error());
    else if (!(gpu->context = gst_sluice_gpu_primary(index_of(name), offered)))
        *why = g_strdup_printf("GStreamer's CUDA library cannot use %s: is libcuda.so.1 there, of a driver that it "
                               "supports? GST_DEBUG=cuda*:3 says more",
                               name);
    if (gpu->context)
        return gpu;
    gst_sluice_gpu_unref(gpu);
    return NULL;
}

void gst_sluice_gpu_ref(struct gst_sluice_gpu *gpu)
{
    g_atomic_int_inc(&gpu->refs);
}

void gst_sluice_gpu_unref(struct gst_sluice_gpu *gpu)
{
    if (!gpu || !g_atomic_int_dec_and_test(&gpu->refs))
        return;
    if (gpu->context)
        gst_sluice_gpu_forget_slots(gpu);
    if (gpu->copies)
        gst_cuda_allocator_set_active(GST_CUDA_ALLOCATOR(gpu->copies), FALSE);
    gst_clear_object(&gpu->copies);
    gst_clear_object(&gpu->context);
    if (gpu->device.id)
        sluice_device_close(&gpu->device);
    g_mutex_clear(&gpu->lock);
    g_free(gpu);
}

const char *gst_sluice_gpu_name(const struct gst_sluice_gpu *gpu)
{
    return gpu->name;
}

struct sluice_stream gst_sluice_gpu_behind_all(const struct gst_sluice_gpu *gpu)
{
    if (sluice_stream_wait_stream(gpu->stream, gpu->everything) != 0)
        GST_WARNING("a frame may end too soon: %s", sluice_last_error());
    return gpu->stream;
}

/* ---- caps ---- */

gboolean gst_sluice_gpu_is_built(void)
{
    return TRUE;
}

gboolean gst_sluice_gpu_has_caps(GstCaps *caps)
{
    GstCapsFeatures *features = gst_caps_get_features(caps, 0);

    return features && gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY);
}

void gst_sluice_gpu_mark_caps(GstCaps *caps)
{
    gst_caps_set_features_simple(caps, gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY, NULL));
}

/* ---- which GPU an element uses ---- */

void gst_sluice_gpu_use_init(struct gst_sluice_gpu_use *use)
{
    g_mutex_init(&use->lock);
}

void gst_sluice_gpu_use_nothing(struct gst_sluice_gpu_use *use)
{
    g_mutex_lock(&use->lock);
    gst_sluice_gpu_unref(use->gpu);
    use->gpu = NULL;
    g_mutex_unlock(&use->lock);
}

void gst_sluice_gpu_use_end(struct gst_sluice_gpu_use *use)
{
    gst_sluice_gpu_use_nothing(use);
    gst_clear_object(&use->offered);
    g_mutex_clear(&use->lock);
}

struct gst_sluice_gpu *gst_sluice_gpu_use_device(struct gst_sluice_gpu_use *use, const char *device, char **why)
{
    char name[64];
    guint index = 0;

    g_mutex_lock(&use->lock);
    GstCudaContext *offered = use->offered ? GST_CUDA_CONTEXT(use->offered) : NULL;
    if (!device && offered)
        g_object_get(offered, "cuda-device-id", &index, NULL);
    g_snprintf(name, sizeof name, "cuda:%u", index);
    if (!device)
        device = name;
    if (!use->gpu || strcmp(use->gpu->name, device) != 0) {
        struct gst_sluice_gpu *opened = open_gpu(device, offered, why);
        gst_sluice_gpu_unref(use->gpu);
        use->gpu = opened;
    }
    struct gst_sluice_gpu *gpu = use->gpu;
    if (gpu)
        gst_sluice_gpu_ref(gpu);
    g_mutex_unlock(&use->lock);
    return gpu;
}

void gst_sluice_gpu_use_context(struct gst_sluice_gpu_use *use, GstElement *element, GstContext *context, gint index)
{
    GstCudaContext *offered = NULL;

    gst_cuda_handle_set_context(element, context, index, &offered);
    if (!offered)
        return;
    g_mutex_lock(&use->lock);
    gst_clear_object(&use->offered);
    use->offered = GST_OBJECT(offered);
    g_mutex_unlock(&use->lock);
}

gboolean gst_sluice_gpu_is_query(GstQuery *query)
{
    const gchar *type = NULL;

    if (GST_QUERY_TYPE(query) != GST_QUERY_CONTEXT)
        return FALSE;
    gst_query_parse_context_type(query, &type);
    return g_strcmp0(type, GST_CUDA_CONTEXT_TYPE) == 0;
}

gboolean gst_sluice_gpu_answer(const struct gst_sluice_gpu *gpu, GstElement *element, GstQuery *query)
{
    return gst_cuda_handle_context_query(element, query, gpu->context);
}

void gst_sluice_gpu_announce(const struct gst_sluice_gpu *gpu, GstElement *element)
{
    gst_element_post_message(
        element, gst_message_new_have_context(GST_OBJECT(element), gst_context_new_cuda_context(gpu->context)));
}
