/* SPDX-License-Identifier: MIT
 *
 * Internals of graphs, and the table of functions that each kind of device provides. graph.c is the one file that
 * lists the kinds.
 */
#ifndef SL_KERNEL_GRAPH_H
#define SL_KERNEL_GRAPH_H

#include <sluice/graph.h>

#include "device/device.h"

struct sl_cu_graph;

/* Objects that a graph needs, with a reference to each. */
struct sl_need {
    struct sl_need *next;
    struct sl_object *object;
};
void sl_needs_drop(struct sl_need *needs);

struct sl_graph {
    struct sl_object object;
    sl_mutex lock; /* guards the members below */
    void *native;  /* the kind's */
    uint32_t nodes, edges, updates, rebuilds;
    struct sl_need *needs;
};

struct sl_graph_ops {
    const char *kind; /* of device: "host" */

    /* The stream is not a default stream, and was not capturing a moment ago. */
    int (*begin)(struct sl_stream *stream);
    /* Ends the capture, even if it fails, unless it cannot be ended on this stream or thread. Returns SLUICE_E_CAPTURE.
     */
    int (*end)(struct sl_stream *stream, void **recording);
    void (*discard)(struct sl_device *device, void *recording);

    /* Both with the graph's lock held. set: puts a recording into the graph: the first one, an update or a rebuild;
     * sets its numbers, and leaves in *recording what must be discarded. On failure the graph is as before. */
    int (*set)(struct sl_graph *graph, void **recording);
    int (*launch)(struct sl_graph *graph, struct sl_stream *stream);

    void (*finish)(struct sl_graph *graph); /* queued launches still run */
};

extern const struct sl_graph_ops sl_graph_host;
extern const struct sl_graph_ops sl_graph_cuda;

/* ---- captures.c: those on GPUs that sluice_capture_begin has begun, and what their graphs will need ---- */

struct sl_recording {
    struct sl_recording *next;
    uint64_t stream, thread; /* the stream where it began: a handle and a number */
    uint64_t capture;        /* the driver's number */
    struct sl_cu_graph *graph;
    struct sl_need *needs;
};

extern _Atomic uint32_t sl_captures; /* how many there are */

/* Replaces an older one of the same stream: the program ended that capture without Sluice. */
int sl_captures_add(uint64_t stream, uint64_t capture);

/* Takes the recording of this stream off the list. Returns SLUICE_E_CAPTURE if another thread began it,
 * SLUICE_NOT_READY if there is none. refuse: makes the message for that; `capture`: the one in which the stream takes
 * part (0: none). */
int sl_captures_take(uint64_t stream, struct sl_recording **recording);
int sl_captures_refuse(uint64_t stream, uint64_t capture);
void sl_recording_free(struct sl_recording *recording);

/* The graph that a capture becomes keeps the object alive: to be called before a kernel is launched on a GPU.
 * `capture`: the driver's number, which is not 0. SLUICE_E_NO_MEMORY. */
int sl_capture_needs(uint64_t capture, struct sl_object *object);

/* ---- behind the public calls of sluice/graph.h, which checks their pointers ---- */

int sl_capture_begin(struct sluice_stream stream);
int sl_capture_end(struct sluice_stream stream, struct sluice_graph *graph);
int sl_graph_launch(struct sluice_graph graph, struct sluice_stream stream);
int sl_graph_info(struct sluice_graph graph, struct sluice_graph_info *info);
int sl_graph_destroy(struct sluice_graph *graph);

#endif
