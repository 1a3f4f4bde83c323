/* SPDX-License-Identifier: MIT
 *
 * Graphs on a GPU: the driver's.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cuda/cuda.h"
#include "kernel/graph.h"
#include "util/result.h"

static struct sl_cuda_context *context_of(const struct sl_object *object)
{
    return object->device->state;
}

static struct sl_cu_stream *native_of(const struct sl_stream *stream)
{
    return (struct sl_cu_stream *)stream->native;
}

/* ---- captures ---- */

static int note(struct sl_cuda_context *context, struct sl_stream *stream)
{
    enum sl_cuda_capture state;
    uint64_t capture;
    int r = sl_cuda_capture(context, native_of(stream), &state, &capture);

    return r == 0 ? sl_captures_add(sl_object_id(&stream->object), capture) : r;
}

static int cuda_begin(struct sl_stream *stream)
{
    struct sl_cuda_context *context = context_of(&stream->object);
    struct sl_cu_graph *graph = NULL;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_PLAIN, &scope);

    if (r != 0)
        return r;
    r = sl_cu(context, StreamBeginCapture, native_of(stream), SL_CU_CAPTURE_MODE_THREAD_LOCAL);
    if (r == 0 && (r = note(context, stream)) != 0 && sl_cuda.StreamEndCapture(native_of(stream), &graph) == 0 && graph)
        sl_cuda.GraphDestroy(graph);
    sl_cuda_leave(&scope);
    return r;
}

/* The device's streams that joined this capture and were not joined back. */
static int unjoined(struct sl_stream *origin, uint64_t capture)
{
    struct sl_device *device = origin->object.device;
    struct sl_names names = { .count = 0 };

    sl_mutex_lock(&device->lock);
    for (struct sl_object *object = device->objects; object; object = object->next) {
        const struct sl_stream *stream = (const struct sl_stream *)object;
        if (object->kind == SL_HANDLE_STREAM && sl_load(&stream->part, relaxed) == capture && stream != origin)
            sl_names_add(&names, sl_object_id(&stream->object));
    }
    sl_mutex_unlock(&device->lock);
    return sl_capture_unjoined(sl_object_id(&origin->object), &names);
}

static int check_end(struct sl_stream *stream, uint64_t capture, int code)
{
    if (code == SL_CU_CAPTURE_UNJOINED)
        return unjoined(stream, capture);
    if (code >= SL_CU_CAPTURE_UNSUPPORTED && code <= SL_CU_CAPTURE_WRONG_THREAD)
        return sl_fail(SLUICE_E_CAPTURE, "the capture on stream 0x%" PRIx64 " has ended without a graph: %s (%s)",
                       sl_object_id(&stream->object), sl_cuda_code_remedy(code), sl_cuda_code_name(code));
    return sl_cuda_check(context_of(&stream->object), code, "cuStreamEndCapture");
}

static int refuse_end(struct sl_cuda_context *context, const struct sl_stream *stream)
{
    enum sl_cuda_capture state;
    uint64_t capture;
    int r = sl_cuda_capture(context, native_of(stream), &state, &capture);

    return r == 0 ? sl_captures_refuse(sl_object_id(&stream->object), capture) : r;
}

static int cuda_end(struct sl_stream *stream, void **result)
{
    struct sl_cuda_context *context = context_of(&stream->object);
    struct sl_recording *recording;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_PLAIN, &scope);

    if (r != 0)
        return r;
    r = sl_captures_take(sl_object_id(&stream->object), &recording);
    if (r == 0) {
        r = check_end(stream, recording->capture, sl_cuda.StreamEndCapture(native_of(stream), &recording->graph));
        if (r != 0)
            sl_recording_free(recording);
        *result = recording;
    } else if (r == SLUICE_NOT_READY) {
        r = refuse_end(context, stream);
    }
    sl_cuda_leave(&scope);
    return r;
}

static void cuda_discard(struct sl_device *device, void *data)
{
    struct sl_recording *recording = data;
    struct sl_cuda_scope scope;

    if (sl_cuda_enter(device->state, SL_CUDA_RELAXED, &scope) == 0) {
        sl_cuda.GraphDestroy(recording->graph);
        sl_cuda_leave(&scope);
    } /* else it ended with the context */
    sl_recording_free(recording);
}

/* ---- graphs ---- */

/* Returns SLUICE_NOT_READY if the structure is different. */
static int update(struct sl_cuda_context *context, struct sl_graph *graph, struct sl_cu_graph *recorded)
{
    struct sl_cu_update why;
    int code = sl_cuda.GraphExecUpdate(graph->native, recorded, &why);

    if (code == SL_CU_EXEC_UPDATE_FAILURE)
        return SLUICE_NOT_READY;
    return sl_cuda_check(context, code, "cuGraphExecUpdate");
}

static int count(struct sl_cuda_context *context, struct sl_cu_graph *recorded, size_t *nodes, size_t *edges)
{
    int r = sl_cu(context, GraphGetNodes, recorded, NULL, nodes);

    return r == 0 ? sl_cu(context, GraphGetEdges, recorded, NULL, NULL, edges) : r;
}

/* Launches of the old one that are queued still run. */
static int build(struct sl_cuda_context *context, struct sl_graph *graph, struct sl_cu_graph *recorded)
{
    struct sl_cu_exec *exec, *old = graph->native;
    size_t nodes, edges;

    int r = count(context, recorded, &nodes, &edges);
    if (r == 0)
        r = sl_cu(context, GraphInstantiateWithFlags, &exec, recorded, 0);
    if (r != 0)
        return r;
    graph->native = exec;
    graph->nodes = (uint32_t)nodes;
    graph->edges = (uint32_t)edges;
    graph->rebuilds += old != NULL;
    if (old)
        sl_cuda.GraphExecDestroy(old);
    return 0;
}

static int set(struct sl_cuda_context *context, struct sl_graph *graph, struct sl_cu_graph *recorded)
{
    int r = graph->native ? update(context, graph, recorded) : SLUICE_NOT_READY;

    if (r == SLUICE_NOT_READY)
        return build(context, graph, recorded);
    graph->updates += r == 0;
    return r;
}

static int cuda_set(struct sl_graph *graph, void **data)
{
    struct sl_cuda_context *context = context_of(&graph->object);
    struct sl_recording *recording = *data;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);

    if (r != 0)
        return r;
    r = set(context, graph, recording->graph);
    sl_cuda_leave(&scope);
    if (r == 0) {
        struct sl_need *old = graph->needs;
        graph->needs = recording->needs;
        recording->needs = old;
    }
    return r;
}

static int cuda_launch(struct sl_graph *graph, struct sl_stream *stream)
{
    struct sl_cuda_context *context = context_of(&graph->object);
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_PLAIN, &scope);

    if (r != 0)
        return r;
    if (!sl_cuda_is_not_capturing(native_of(stream))) /* the driver would refuse it, and invalidate that capture */
        r = sl_stream_not_capturing(stream, "no graph can be launched on it");
    if (r == 0)
        r = sl_cu(context, GraphLaunch, graph->native, native_of(stream));
    sl_cuda_leave(&scope);
    return r;
}

static void cuda_finish(struct sl_graph *graph)
{
    struct sl_cuda_context *context = context_of(&graph->object);
    struct sl_cuda_scope scope;

    if (!graph->native || sl_cuda_enter(context, SL_CUDA_RELAXED, &scope) != 0)
        return; /* it ended with the context */
    if (sl_cu(context, GraphExecDestroy, graph->native) != 0)
        sl_log(SLUICE_LOG_WARN, "a graph could not be destroyed: %s", sl_last_error());
    sl_cuda_leave(&scope);
}

const struct sl_graph_ops sl_graph_cuda = {
    .kind = "cuda",
    .begin = cuda_begin,
    .end = cuda_end,
    .discard = cuda_discard,
    .set = cuda_set,
    .launch = cuda_launch,
    .finish = cuda_finish,
};
