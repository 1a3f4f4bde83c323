/* SPDX-License-Identifier: MIT
 *
 * Frames on a GPU, as memory:CUDAMemory. That takes GStreamer 1.24 with its CUDA library; in a build without it
 * (gpu_none.c) there is no GPU, and caps have no such memory.
 *
 * Which stream: a frame that a reader has is ready, so any stream may read it. Elements read it on streams of their own
 * and drop the buffer while the work is still queued, so nobody knows the last user's stream. But all of GStreamer's
 * streams are blocking ones: the context's default stream runs behind them. So frames end behind what that has reached.
 */
#ifndef GST_SLUICE_GPU_H
#define GST_SLUICE_GPU_H

#include "lease.h"
#include "slots.h"

/* The formats of which GStreamer allocates memory on a GPU. */
#ifdef GST_SLUICE_CUDA
#define GST_SLUICE_GPU_CAPS \
    GST_VIDEO_CAPS_MAKE_WITH_FEATURES("memory:CUDAMemory", "{ NV12, P010_10LE, I420, RGBA, BGRA, RGBx, BGRx, RGB, " \
                                                           "BGR, Y444, Y42B, I422_10LE }") \
    "; "
#else
#define GST_SLUICE_GPU_CAPS ""
#endif

/* A GPU: its primary context, which Sluice uses, as GStreamer's. */
struct gst_sluice_gpu;
void gst_sluice_gpu_ref(struct gst_sluice_gpu *gpu);
void gst_sluice_gpu_unref(struct gst_sluice_gpu *gpu); /* NULL is allowed */
const char *gst_sluice_gpu_name(const struct gst_sluice_gpu *gpu);

/* A stream whose next work runs behind all work that GStreamer has queued so far. */
struct sluice_stream gst_sluice_gpu_behind_all(const struct gst_sluice_gpu *gpu);

gboolean gst_sluice_gpu_is_built(void);
gboolean gst_sluice_gpu_has_caps(GstCaps *caps);
void gst_sluice_gpu_mark_caps(GstCaps *caps);

/* ---- which GPU an element uses, and the context that it shares with other elements; on any thread ---- */

struct gst_sluice_gpu_use {
    GMutex lock;
    struct gst_sluice_gpu *gpu;
    GstObject *offered; /* a context that the pipeline has */
};
void gst_sluice_gpu_use_init(struct gst_sluice_gpu_use *use);
void gst_sluice_gpu_use_nothing(struct gst_sluice_gpu_use *use); /* until it is told again */
void gst_sluice_gpu_use_end(struct gst_sluice_gpu_use *use);

/* Takes a GPU from now on, with a reference for the caller; `device` is a name of Sluice's, or NULL: that of the
 * context which the pipeline has, or the first. NULL, with a sentence in *why (free it), if it cannot be used. */
struct gst_sluice_gpu *gst_sluice_gpu_use_device(struct gst_sluice_gpu_use *use, const char *device, char **why);

/* For set_context. `index`: the only GPU that may be used; -1: any. */
void gst_sluice_gpu_use_context(struct gst_sluice_gpu_use *use, GstElement *element, GstContext *context, gint index);

gboolean gst_sluice_gpu_is_query(GstQuery *query); /* for a context? */
gboolean gst_sluice_gpu_answer(const struct gst_sluice_gpu *gpu, GstElement *element, GstQuery *query);
void gst_sluice_gpu_announce(const struct gst_sluice_gpu *gpu, GstElement *element);

/* ---- reading ---- */

/* As gst_sluice_picture_wrap. NULL, with the lease ended: *why says why (free it). */
GstBuffer *gst_sluice_gpu_wrap(struct gst_sluice_gpu *gpu, struct gst_sluice_lease *lease,
                               const struct sluice_array *array, const struct gst_sluice_format *format, gboolean room,
                               gboolean *copied, char **why);

/* ---- writing ---- */

/* How rows should be aligned if nobody says it: so that GStreamer's kernels can read them as textures. */
guint gst_sluice_gpu_pitch_align(const struct gst_sluice_format *format, guint wanted);

/* Memory at `data`, which has `nbytes` there; `stream`, a GstCudaStream, fills it (NULL: the default one). NULL if
 * GStreamer cannot describe the layout. */
GstMemory *gst_sluice_gpu_memory(const struct gst_sluice_gpu *gpu, const struct gst_sluice_layout *layout, void *data,
                                 guint64 nbytes, gpointer stream, gpointer user, void (*free)(gpointer user));
gpointer gst_sluice_gpu_memory_user(GstMemory *memory); /* of whoever wrapped it */

/* Commits a frame behind the work that was queued to fill `memory`. */
int gst_sluice_gpu_commit(const struct gst_sluice_gpu *gpu, sluice_writer *writer, struct sluice_frame *frame,
                          GstMemory *memory);

/* Copies a buffer of any context into a slot and commits it. Returns: as sluice_writer_send_frame. */
int gst_sluice_gpu_send(const struct gst_sluice_gpu *gpu, sluice_writer *writer, struct sluice_frame *frame,
                        const struct gst_sluice_format *format, GstBuffer *buffer);

/* A pool of slots, as gst_sluice_pool_new. */
GstBufferPool *gst_sluice_gpu_pool_new(struct gst_sluice_gpu *gpu, struct gst_sluice_channel *channel,
                                       guint pitch_align);

#endif
