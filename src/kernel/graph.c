/* SPDX-License-Identifier: MIT
 *
 * Graphs: captured, launched, described. The list of the kinds of devices.
 */
#include "kernel/graph.h"

#include <inttypes.h>
#include <string.h>

#include "util/params.h"
#include "util/result.h"

static const struct sl_graph_ops *const kinds[] = { &sl_graph_host, &sl_graph_cuda };

static const struct sl_graph_ops *ops_of(const struct sl_device *device)
{
    size_t i = 0;

    while (strcmp(kinds[i]->kind, device->ops->name) != 0) /* each kind of device has one */
        i++;
    return kinds[i];
}

static int graph_hold(struct sluice_graph handle, struct sl_graph **graph)
{
    struct sl_object *object;
    int r = sl_object_hold(handle.id, SL_HANDLE_GRAPH, &object);

    if (r == 0)
        *graph = (struct sl_graph *)object;
    return r;
}

static int same_device(const struct sl_graph *graph, const struct sl_stream *stream)
{
    const struct sl_device *device = graph->object.device, *other = stream->object.device;

    if (device == other)
        return 0;
    return sl_fail(SLUICE_E_WRONG_DEVICE,
                   "graph 0x%" PRIx64 " is of \"%s\", stream 0x%" PRIx64
                   " of %s\"%s\": each sluice_device_open makes a "
                   "device of its own; capture the graph on a stream of the same one",
                   sl_object_id(&graph->object), device->name, sl_object_id(&stream->object),
                   strcmp(device->name, other->name) == 0 ? "another open of " : "", other->name);
}

/* ---- capture ---- */

int sl_capture_begin(struct sluice_stream handle)
{
    struct sl_stream *stream;
    int r = sl_stream_hold(handle, &stream);

    if (r != 0)
        return r;
    if (sl_stream_is_default(stream))
        r = sl_fail(SLUICE_E_INVALID,
                    "stream 0x%" PRIx64 " is a default stream, on which no graph can be captured; "
                    "create one (sluice_stream_create)",
                    handle.id);
    if (r == 0)
        r = sl_stream_not_capturing(stream, "no other capture can begin on it");
    if (r == 0)
        r = ops_of(stream->object.device)->begin(stream);
    sl_object_drop(&stream->object);
    return r;
}

static void finish_graph(struct sl_object *object)
{
    struct sl_graph *graph = (struct sl_graph *)object;

    ops_of(object->device)->finish(graph);
    sl_needs_drop(graph->needs);
    sl_mutex_finish(&graph->lock);
}

static int make(struct sl_device *device, struct sl_graph **graph)
{
    struct sluice_device owner = { sl_object_id(&device->object) };
    void *object;
    int r = sl_device_object(owner, SL_HANDLE_GRAPH, sizeof **graph, &object);

    if (r != 0)
        return r;
    *graph = object;
    sl_mutex_init(&(*graph)->lock);
    (*graph)->object.finish = finish_graph;
    return 0;
}

static int set(struct sl_graph *graph, const struct sl_stream *stream, void **recording)
{
    int r = same_device(graph, stream);

    if (r == 0) {
        sl_mutex_lock(&graph->lock);
        r = ops_of(graph->object.device)->set(graph, recording);
        sl_mutex_unlock(&graph->lock);
    }
    return r;
}

/* Updates the graph, or makes one. */
static int keep(const struct sl_stream *stream, void **recording, struct sluice_graph *handle)
{
    bool new = handle->id == 0;
    struct sl_graph *graph;
    int r = new ? make(stream->object.device, &graph) : graph_hold(*handle, &graph);

    if (r != 0)
        return r;
    r = set(graph, stream, recording);
    if (r == 0 && new)
        return sl_device_adopt(&graph->object, NULL, &handle->id);
    sl_object_drop(&graph->object);
    return r;
}

int sl_capture_end(struct sluice_stream handle, struct sluice_graph *graph)
{
    struct sl_stream *stream;
    void *recording;
    int r = sl_stream_hold(handle, &stream);

    if (r != 0)
        return r;
    const struct sl_graph_ops *ops = ops_of(stream->object.device);
    r = ops->end(stream, &recording);
    if (r == 0) {
        r = keep(stream, &recording, graph);
        ops->discard(stream->object.device, recording);
    }
    sl_object_drop(&stream->object);
    return r;
}

/* ---- graphs ---- */

int sl_graph_launch(struct sluice_graph handle, struct sluice_stream stream_handle)
{
    struct sl_graph *graph;
    struct sl_stream *stream;
    int r = graph_hold(handle, &graph);

    if (r != 0)
        return r;
    r = sl_stream_hold(stream_handle, &stream);
    if (r == 0) {
        r = same_device(graph, stream);
        if (r == 0) {
            sl_mutex_lock(&graph->lock);
            r = ops_of(graph->object.device)->launch(graph, stream);
            sl_mutex_unlock(&graph->lock);
        }
        sl_object_drop(&stream->object);
    }
    sl_object_drop(&graph->object);
    return r;
}

int sl_graph_info(struct sluice_graph handle, struct sluice_graph_info *info)
{
    struct sl_graph *graph;
    int r = graph_hold(handle, &graph);

    if (r != 0)
        return r;
    sl_mutex_lock(&graph->lock);
    struct sluice_graph_info mine = {
        .nodes = graph->nodes, .edges = graph->edges, .updates = graph->updates, .rebuilds = graph->rebuilds
    };
    sl_mutex_unlock(&graph->lock);
    r = sl_params_store(info, &mine, sizeof mine, sizeof info->size, "struct sluice_graph_info");
    sl_object_drop(&graph->object);
    return r;
}

int sl_graph_destroy(struct sluice_graph *handle)
{
    return sl_device_end(&handle->id, SL_HANDLE_GRAPH);
}
