/* SPDX-License-Identifier: MIT
 *
 * Captures on host: streams record commands instead of running them, and which of them come after which, by the rules
 * of CUDA.
 */
#include "device/host.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "util/atomic.h"
#include "util/result.h"

/* A stream that takes part in a capture. */
struct part {
    struct part *next;
    struct sl_stream *stream; /* a reference */
    struct capture *capture;
    struct sl_host_nodes ends; /* what its next command comes after */
};

struct capture {
    struct sl_host_graph graph; /* what it becomes; at the beginning, as it is freed as that */
    struct capture *next;
    uint64_t id, thread;
    struct sl_stream *origin;
    struct part *parts;
};

static struct capture *captures; /* under way */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct part *part_of(const struct sl_stream *stream)
{
    return (struct part *)(uintptr_t)sl_load(&stream->part, acquire);
}

static int no_memory(void)
{
    return sl_fail(SLUICE_E_NO_MEMORY, "no memory for the graph that is being captured on \"host\"");
}

/* ---- sets of commands ---- */

static bool has(const struct sl_host_nodes *nodes, uint32_t node)
{
    for (uint32_t i = 0; i < nodes->count; i++)
        if (nodes->list[i] == node)
            return true;
    return false;
}

/* The list with room for one more element, or NULL. It has room for a power of two. */
static void *grown(void *list, uint32_t count, size_t size)
{
    if ((count & (count - 1)) != 0)
        return list;
    return count > UINT32_MAX / 2 ? NULL : realloc(list, (count ? 2 * (size_t)count : 1) * size);
}

static bool push(struct sl_host_nodes *nodes, uint32_t node)
{
    uint32_t *list = grown(nodes->list, nodes->count, sizeof *list);

    if (!list)
        return false;
    nodes->list = list;
    list[nodes->count++] = node;
    return true;
}

static int unite(struct sl_host_nodes *to, const struct sl_host_nodes *from)
{
    for (uint32_t i = 0; i < from->count; i++)
        if (!has(to, from->list[i]) && !push(to, from->list[i]))
            return no_memory();
    return 0;
}

/* ---- begin and end ---- */

void sl_host_graph_free(struct sl_host_graph *graph)
{
    if (!graph)
        return;
    for (uint32_t i = 0; i < graph->count; i++)
        if (graph->commands[i].drop)
            graph->commands[i].drop(graph->commands[i].data);
    free(graph->commands);
    free(graph->edges);
    free(graph);
}

static int join(struct capture *capture, struct sl_stream *stream, struct part **joined)
{
    struct part *part = calloc(1, sizeof *part);

    if (!part)
        return no_memory();
    *part = (struct part){ .next = capture->parts, .stream = stream, .capture = capture };
    sl_object_keep(&stream->object);
    capture->parts = part;
    sl_store(&stream->part, (uintptr_t)part, release);
    *joined = part;
    return 0;
}

/* With no lock held, as streams may end. */
static void drop_parts(struct capture *capture)
{
    while (capture->parts) {
        struct part *part = capture->parts;
        capture->parts = part->next;
        sl_object_drop(&part->stream->object);
        free(part->ends.list);
        free(part);
    }
}

static int begin(struct sl_stream *stream, struct capture *capture)
{
    static uint64_t last;
    struct part *part;

    if (part_of(stream)) /* another thread's, since the caller checked */
        return sl_fail(SLUICE_E_CAPTURING, "stream 0x%" PRIx64 " is capturing a graph already",
                       sl_object_id(&stream->object));
    int r = join(capture, stream, &part);
    if (r != 0)
        return r;
    capture->id = ++last;
    capture->next = captures;
    captures = capture;
    return 0;
}

int sl_host_capture_begin(struct sl_stream *stream)
{
    struct capture *capture = calloc(1, sizeof *capture);

    if (!capture)
        return no_memory();
    capture->thread = sl_os_thread_number();
    capture->origin = stream;
    pthread_mutex_lock(&lock);
    int r = begin(stream, capture);
    pthread_mutex_unlock(&lock);
    if (r != 0)
        free(capture);
    return r;
}

static int may_end(const struct sl_stream *stream)
{
    const struct part *part = part_of(stream);

    if (!part)
        return sl_fail(SLUICE_E_CAPTURE, "stream 0x%" PRIx64 " is not capturing: call sluice_capture_begin first",
                       sl_object_id(&stream->object));
    if (part->capture->origin != stream)
        return sl_fail(SLUICE_E_CAPTURE,
                       "the capture did not begin on stream 0x%" PRIx64 ", but on 0x%" PRIx64 ": end it there",
                       sl_object_id(&stream->object), sl_object_id(&part->capture->origin->object));
    if (part->capture->thread != sl_os_thread_number())
        return sl_fail(SLUICE_E_CAPTURE,
                       "the capture on stream 0x%" PRIx64 " was begun by another thread: end it on that thread",
                       sl_object_id(&stream->object));
    return 0;
}

/* Marks the commands that those in `reached` come after. Edges are sorted by `to`. */
static void spread(const struct sl_host_graph *graph, bool *reached)
{
    for (uint32_t i = graph->edge_count; i-- > 0;)
        if (reached[graph->edges[i].to])
            reached[graph->edges[i].from] = true;
}

static bool all_reached(const struct sl_host_nodes *ends, const bool *reached)
{
    for (uint32_t i = 0; i < ends->count; i++)
        if (!reached[ends->list[i]])
            return false;
    return true;
}

/* SLUICE_E_CAPTURE, with the streams that must still be waited for. */
static int check_joined(const struct capture *capture)
{
    const struct sl_host_nodes *ends = &part_of(capture->origin)->ends;
    struct sl_names names = { .count = 0 };
    bool *reached = calloc(capture->graph.count + 1u, sizeof *reached);

    if (!reached)
        return no_memory();
    for (uint32_t i = 0; i < ends->count; i++)
        reached[ends->list[i]] = true;
    spread(&capture->graph, reached);
    for (const struct part *part = capture->parts; part; part = part->next)
        if (!all_reached(&part->ends, reached))
            sl_names_add(&names, sl_object_id(&part->stream->object));
    free(reached);
    return names.count ? sl_capture_unjoined(sl_object_id(&capture->origin->object), &names) : 0;
}

static void leave(struct capture *capture)
{
    struct capture **at = &captures;

    for (struct part *part = capture->parts; part; part = part->next)
        sl_store(&part->stream->part, 0, release);
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
}

int sl_host_capture_end(struct sl_stream *stream, struct sl_host_graph **graph)
{
    struct capture *capture = NULL;

    pthread_mutex_lock(&lock);
    int r = may_end(stream);
    if (r == 0) {
        capture = part_of(stream)->capture;
        r = check_joined(capture);
        leave(capture);
    }
    pthread_mutex_unlock(&lock);
    if (!capture)
        return r;
    drop_parts(capture);
    if (r == 0)
        *graph = &capture->graph;
    else
        sl_host_graph_free(&capture->graph);
    return r;
}

/* ---- commands ---- */

static bool push_edge(struct sl_host_graph *graph, uint32_t from)
{
    struct sl_host_edge *edges = grown(graph->edges, graph->edge_count, sizeof *edges);

    if (!edges)
        return false;
    graph->edges = edges;
    edges[graph->edge_count++] = (struct sl_host_edge){ from, graph->count };
    return true;
}

static int add(struct sl_host_graph *graph, struct sl_host_nodes *ends, const struct sl_host_command *command)
{
    uint32_t edge_count = graph->edge_count, end_count = ends->count;
    struct sl_host_command *commands = grown(graph->commands, graph->count, sizeof *commands);
    bool there = commands != NULL;

    if (commands)
        graph->commands = commands;
    for (uint32_t i = 0; i < end_count && there; i++)
        there = push_edge(graph, ends->list[i]);
    ends->count = 0;
    if (!there || !push(ends, graph->count)) {
        ends->count = end_count;
        graph->edge_count = edge_count;
        return no_memory();
    }
    commands[graph->count++] = *command;
    return 0;
}

int sl_host_capture_add(struct sl_stream *stream, int (*run)(void *data), void (*drop)(void *data), void *data)
{
    const struct sl_host_command command = { .run = run, .drop = drop, .data = data };

    if (!sl_host_captures(stream))
        return SLUICE_NOT_READY;
    pthread_mutex_lock(&lock);
    struct part *part = part_of(stream);
    int r = part ? add(&part->capture->graph, &part->ends, &command) : SLUICE_NOT_READY;
    pthread_mutex_unlock(&lock);
    return r;
}

/* ---- events and waits ---- */

int sl_host_capture_record(struct sl_stream *stream, struct sl_event *event)
{
    struct sl_host_nodes *mark = &sl_host_event_of(event)->mark;
    int r = 0;

    if (!sl_host_captures(stream) && sl_load(&event->capture, relaxed) == 0)
        return 0;
    pthread_mutex_lock(&lock);
    const struct part *part = part_of(stream);
    mark->count = 0;
    if (part)
        r = unite(mark, &part->ends);
    sl_store(&event->capture, part ? part->capture->id : 0, release);
    pthread_mutex_unlock(&lock);
    return r;
}

int sl_host_capture_moment(struct sl_event *event)
{
    if (sl_load(&event->capture, acquire) == 0)
        return 0;
    return sl_fail(SLUICE_E_CAPTURING,
                   "host: the event was last recorded in a capture, so no moment belongs to it; record it again");
}

static struct capture *find(uint64_t id)
{
    struct capture *capture = captures;

    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

/* Of work that belongs to capture `id` (0: none). */
static int may_wait(const struct sl_stream *stream, uint64_t id)
{
    const struct part *part = part_of(stream);

    if (id != 0 && !find(id))
        return sl_fail(SLUICE_E_CAPTURING,
                       "host: the event was last recorded in a capture, which has ended; record it again");
    return sl_capture_may_wait(stream, sl_stream_is_default(stream), part ? part->capture->id : 0, id);
}

static int wait_for(struct sl_stream *stream, uint64_t id, const struct sl_host_nodes *nodes)
{
    struct part *part = part_of(stream);
    int r = may_wait(stream, id);

    if (r == 0 && id != 0 && !part)
        r = join(find(id), stream, &part);
    return r == 0 && id != 0 ? unite(&part->ends, nodes) : r;
}

int sl_host_capture_wait_event(struct sl_stream *stream, struct sl_event *event)
{
    if (!sl_host_captures(stream) && sl_load(&event->capture, acquire) == 0)
        return 0;
    pthread_mutex_lock(&lock);
    int r = wait_for(stream, sl_load(&event->capture, relaxed), &sl_host_event_of(event)->mark);
    pthread_mutex_unlock(&lock);
    return r;
}

int sl_host_capture_wait_stream(struct sl_stream *stream, struct sl_stream *other)
{
    static const struct sl_host_nodes none = { .count = 0 };

    if (!sl_host_captures(stream) && !sl_host_captures(other))
        return 0;
    pthread_mutex_lock(&lock);
    const struct part *part = part_of(other);
    int r = wait_for(stream, part ? part->capture->id : 0, part ? &part->ends : &none);
    pthread_mutex_unlock(&lock);
    return r;
}
