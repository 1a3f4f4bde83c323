/* SPDX-License-Identifier: MIT
 *
 * What the files gpu*.c share.
 */
#ifndef GST_SLUICE_GPU_PRIVATE_H
#define GST_SLUICE_GPU_PRIVATE_H

#define GST_USE_UNSTABLE_API
#include <gst/cuda/gstcuda.h>

#include "gpu.h"

struct gst_sluice_gpu {
    gint refs;
    char name[64];
    struct sluice_device device;
    struct sluice_stream everything; /* the default stream, which is behind all blocking ones */
    struct sluice_stream stream;     /* a blocking one of ours */
    GstCudaContext *context;
    GMutex lock;
    GQueue idle; /* memory of slots whose frames have ended, of this session and generation */
    guint64 session;
    guint32 generation;
    GstCudaPoolAllocator *copies; /* of frames that cannot stay in place; NULL: none yet */
};

/* The primary context of the GPU, shared by all elements of this process while somebody refers to it. `offered` is
 * taken if it is the same context. NULL: there is no driver, or it refuses. */
GstCudaContext *gst_sluice_gpu_primary(gint index, GstCudaContext *offered);

/* Memory of a leased slot, which ends the lease when its last reference is dropped. NULL if GStreamer cannot describe
 * the layout. */
GstMemory *gst_sluice_gpu_slot_memory(struct gst_sluice_gpu *gpu, struct gst_sluice_lease *lease,
                                      const struct gst_sluice_layout *layout, const struct sluice_array *array);
void gst_sluice_gpu_forget_slots(struct gst_sluice_gpu *gpu);

#endif
