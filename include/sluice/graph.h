/* SPDX-License-Identifier: MIT
 *
 * Parallel sections and graphs. A graph is work that was recorded once and is then launched as a whole: kernels,
 * waits, copies.
 *
 *     sluice_capture_begin(stream);
 *     sluice_launch(blur, stream, ...);            // recorded, not run
 *     sluice_capture_end(stream, &graph);          // {0}: a new graph; else this one is updated
 *     sluice_graph_launch(graph, stream);
 */
#ifndef SLUICE_GRAPH_H
#define SLUICE_GRAPH_H

#include <sluice/base.h>
#include <sluice/device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_graph {
    uint64_t id;
};

/* ---- parallel sections ---- */

#define SLUICE_MAX_FORK 32 /* streams that a device lends at once */

/* Lends `count` streams for work that runs at the same time, after the work queued on `parent` so far. Idle streams are
 * lent first. If `parent` captures a graph, they become part of it.
 * Owns: the device; give them back by sluice_join, all together. Do not destroy them.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for a count of 0; SLUICE_E_LIMIT if the device has lent SLUICE_MAX_FORK with these. */
SLUICE_API int sluice_fork(struct sluice_stream parent, uint32_t count, struct sluice_stream *streams);

/* Makes `parent` wait for the work on the streams, takes them back and clears the handles. The CPU does not wait.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID, and nothing was done, for a stream that no fork has lent to `parent`. After any other
 * failure the streams have been taken back, too. */
SLUICE_API int sluice_join(struct sluice_stream parent, uint32_t count, struct sluice_stream *streams);

/* ---- graphs ---- */

/* Begins a capture: from now on, work that anybody queues on `stream` is recorded and does not run. So is the work on
 * streams that wait for it, until it waits for them. Calls that need the work to be done, or that allocate memory,
 * return SLUICE_E_CAPTURING, and so does the launch of another graph. On a GPU other threads are not affected (CUDA's
 * thread-local mode).
 * Thread: end it on the same thread.
 * Returns: 0; SLUICE_E_INVALID for a default stream; SLUICE_E_CAPTURING if it captures already. */
SLUICE_API int sluice_capture_begin(struct sluice_stream stream);

/* Ends the capture that was begun on `stream`. With a zero *graph it makes a new graph. Else it updates that one with
 * the arguments, pointers and sizes recorded now, for later launches only; if the structure has changed, it rebuilds
 * the graph. sluice_graph_info counts both. A graph keeps the modules of its kernels loaded. It only points to frames
 * and other memory: they must exist, and nothing else may use them, whenever it runs.
 * Owns: the device of `stream`; end it with sluice_graph_destroy.
 * Thread: the one that began it. Blocks: on host, while another thread launches the graph.
 * Returns: 0; SLUICE_E_CAPTURE if something invalidated the capture, or if another stream that takes part was not
 * joined: the message says which. After a failure the capture has ended, the streams can be used again, and *graph is
 * as before. One failure does not end the capture: SLUICE_E_CAPTURE because it was not begun on this stream, or on this
 * thread. */
SLUICE_API int sluice_capture_end(struct sluice_stream stream, struct sluice_graph *graph);

/* Queues a graph's work on a stream of its device; on host it has run when the call returns. Launches of one graph
 * never overlap.
 * Thread: any. Blocks: on host, while it runs.
 * Returns: 0; SLUICE_E_WRONG_DEVICE; SLUICE_E_CAPTURING; SLUICE_E_DRIVER. */
SLUICE_API int sluice_graph_launch(struct sluice_graph graph, struct sluice_stream stream);

struct sluice_graph_info {
    uint32_t size;
    uint32_t nodes;    /* pieces of work: kernels, copies, ... */
    uint32_t edges;    /* pairs in which one waits for the other, as CUDA counts them */
    uint32_t updates;  /* captures that changed only arguments */
    uint32_t rebuilds; /* captures that changed the structure */
    uint32_t reserved;
};

/* Describes a graph. Fills in as much as fits into info->size bytes.
 * Thread: any. Blocks: on host, while another thread launches the graph.
 * Returns: 0; SLUICE_E_INVALID if info->size was not set. */
SLUICE_API int sluice_graph_info(struct sluice_graph graph, struct sluice_graph_info *info);

/* Ends a graph and clears the handle. Launches that are queued still run.
 * Thread: any.
 * Returns: 0; SLUICE_E_CLOSED if it was destroyed already. */
SLUICE_API int sluice_graph_destroy(struct sluice_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
