/* SPDX-License-Identifier: MIT
 *
 * The primary contexts of GPUs as contexts of GStreamer.
 */
#include <dlfcn.h>

#include "gpu_private.h"

#define MAX_GPUS 64

/* Of the driver that GStreamer loads; it has these two not in its own table. */
static struct {
    CUresult (*retain)(CUcontext *context, CUdevice device);
    CUresult (*release)(CUdevice device);
} primary;

static gboolean find_driver(void)
{
    static gsize looked;

    if (g_once_init_enter(&looked)) {
        void *driver = gst_cuda_load_library() ? dlopen("libcuda.so.1", RTLD_NOW) : NULL;
        if (driver) {
            *(void **)&primary.retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
            *(void **)&primary.release = dlsym(driver, "cuDevicePrimaryCtxRelease_v2");
        }
        g_once_init_leave(&looked, 1);
    }
    return primary.retain && primary.release;
}

static void release(gpointer index)
{
    primary.release(GPOINTER_TO_INT(index) - 1);
}

static GstCudaContext *wrap(CUcontext handle, gint index)
{
    GstCudaContext *context = gst_cuda_context_new_wrapped(handle, index);

    if (context)
        g_object_set_qdata_full(G_OBJECT(context), g_quark_from_static_string("sluice-primary-context"),
                                GINT_TO_POINTER(index + 1), release);
    return context;
}

GstCudaContext *gst_sluice_gpu_primary(gint index, GstCudaContext *offered)
{
    static GMutex lock;
    static GWeakRef contexts[MAX_GPUS];
    GstCudaContext *context = NULL;
    CUcontext handle;

    if (index < 0 || index >= MAX_GPUS || !find_driver() || primary.retain(&handle, index) != CUDA_SUCCESS)
        return NULL;
    if (offered && gst_cuda_context_get_handle(offered) == (gpointer)handle)
        context = gst_object_ref(offered);
    g_mutex_lock(&lock);
    if (!context)
        context = g_weak_ref_get(&contexts[index]);
    if (context) {
        primary.release(index); /* it is retained already */
    } else if ((context = wrap(handle, index))) {
        g_weak_ref_set(&contexts[index], context);
    } else {
        primary.release(index);
    }
    g_mutex_unlock(&lock);
    return context;
}
