/* SPDX-License-Identifier: MIT
 *
 * Graphs, captured or made node by node, and what a program does with them.
 */
#include <stdlib.h>
#include <string.h>

#include "fake/internal.h"

/* Which nodes depend on which, by the first of each one's work. Sorted by `to`. */
struct edges {
    size_t count;
    struct edge {
        size_t from, to;
    } * list;
};

struct sl_cu_node {
    struct sl_cu_graph *graph;
    size_t first, count; /* of the graph's work */
    bool batch;
    struct sl_cu_node *next;
};

struct sl_cu_graph {
    bool owned, ended; /* the library's; it went with its context */
    struct sl_cu_context *context;
    struct work work;
    struct edges edges;
    struct sl_cu_node *nodes; /* that were added one by one, the last first */
    struct sl_cu_graph *next;
};

struct sl_cu_exec {
    bool owned, ended;
    struct sl_cu_context *context;
    struct work work;
    struct edges edges;
    struct sl_cu_graph *of; /* NULL: that is gone */
    struct sl_cu_exec *next;
};

static struct sl_cu_graph *graphs;
static struct sl_cu_exec *execs;

struct sl_cu_graph *fake_graph_new(struct sl_cu_context *context)
{
    struct sl_cu_graph *graph = calloc(1, sizeof *graph);

    if (!graph)
        abort();
    *graph = (struct sl_cu_graph){ .owned = fake_thread.library, .context = context, .next = graphs };
    fake_living.graphs += graph->owned;
    return graphs = graph;
}

static void add_edge(struct edges *edges, size_t from, size_t to)
{
    edges->list = realloc(edges->list, (edges->count + 1) * sizeof *edges->list);
    if (!edges->list)
        abort();
    edges->list[edges->count++] = (struct edge){ from, to };
}

static bool same_edges(const struct edges *a, const struct edges *b)
{
    return a->count == b->count && (a->count == 0 || memcmp(a->list, b->list, a->count * sizeof *a->list) == 0);
}

void fake_graph_add(struct sl_cu_graph *graph, const struct op *op, struct frontier *frontier)
{
    for (unsigned i = 0; i < frontier->count; i++)
        add_edge(&graph->edges, frontier->nodes[i], graph->work.count);
    *frontier = (struct frontier){ 1, { graph->work.count } };
    fake_append(&graph->work, op);
}

void fake_frontier_add(struct frontier *to, const struct frontier *from)
{
    for (unsigned i = 0; i < from->count; i++) {
        unsigned at = 0;
        while (at < to->count && to->nodes[at] != from->nodes[i])
            at++;
        if (at == sizeof to->nodes / sizeof *to->nodes)
            abort();
        to->nodes[at] = from->nodes[i];
        to->count += at == to->count;
    }
}

bool fake_graph_joined(const struct sl_cu_graph *graph, const struct frontier *ends, const struct frontier *nodes)
{
    bool *reached = calloc(graph->work.count + 1, sizeof *reached), all = true;

    if (!reached)
        abort();
    for (unsigned i = 0; i < ends->count; i++)
        reached[ends->nodes[i]] = true;
    for (size_t i = graph->edges.count; i-- > 0;)
        if (reached[graph->edges.list[i].to])
            reached[graph->edges.list[i].from] = true;
    for (unsigned i = 0; i < nodes->count; i++)
        all = all && reached[nodes->nodes[i]];
    free(reached);
    return all;
}

static void drop(struct work *work)
{
    while (work->first) {
        struct op *op = work->first;
        work->first = op->next;
        fake_op_end(op);
    }
}

void fake_graph_end(struct sl_cu_graph *graph)
{
    struct sl_cu_graph **at = &graphs;

    while (*at != graph)
        at = &(*at)->next;
    *at = graph->next;
    for (struct sl_cu_exec *e = execs; e; e = e->next)
        if (e->of == graph)
            e->of = NULL;
    while (graph->nodes) {
        struct sl_cu_node *node = graph->nodes;
        graph->nodes = node->next;
        free(node);
    }
    if (!graph->ended)
        fake_living.graphs -= graph->owned;
    drop(&graph->work);
    free(graph->edges.list);
    free(graph);
}

void fake_graphs_end(struct sl_cu_context *context)
{
    for (struct sl_cu_graph *g = graphs; g; g = g->next) {
        if (g->context != context || g->ended)
            continue;
        g->ended = true;
        fake_living.graphs -= g->owned;
    }
    for (struct sl_cu_exec *e = execs; e; e = e->next) {
        if (e->context != context || e->ended)
            continue;
        e->ended = true;
        fake_living.graphs -= e->owned;
    }
}

static struct sl_cu_node *new_node(struct sl_cu_graph *graph, size_t first, size_t count, bool batch)
{
    struct sl_cu_node *node = calloc(1, sizeof *node);

    if (!node)
        abort();
    *node = (struct sl_cu_node){ .graph = graph, .first = first, .count = count, .batch = batch, .next = graph->nodes };
    return graph->nodes = node;
}

/* What was captured is a node for each piece of work. */
static void make_nodes(struct sl_cu_graph *graph)
{
    for (size_t i = graph->nodes ? graph->nodes->first + graph->nodes->count : 0; i < graph->work.count; i++)
        new_node(graph, i, 1, false);
}

/* `nodes` NULL: how many there are. */
int fake_cuGraphGetNodes(struct sl_cu_graph *graph, struct sl_cu_node **nodes, size_t *count)
{
    size_t all = 0;

    pthread_mutex_lock(&fake_lock);
    make_nodes(graph);
    for (struct sl_cu_node *n = graph->nodes; n; n = n->next)
        all++;
    size_t at = all, room = nodes ? *count : 0;
    for (struct sl_cu_node *n = graph->nodes; n; n = n->next)
        if (--at < room)
            nodes[at] = n;
    *count = nodes && room < all ? room : all;
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

static struct sl_cu_node *node_at(struct sl_cu_graph *graph, size_t first)
{
    struct sl_cu_node *node = graph->nodes;

    while (node && node->first != first)
        node = node->next;
    return node;
}

/* `from` and `to` NULL: how many there are. */
int fake_cuGraphGetEdges(struct sl_cu_graph *graph, struct sl_cu_node **from, struct sl_cu_node **to, size_t *count)
{
    pthread_mutex_lock(&fake_lock);
    make_nodes(graph);
    for (size_t i = 0; from && i < *count && i < graph->edges.count; i++) {
        from[i] = node_at(graph, graph->edges.list[i].from);
        to[i] = node_at(graph, graph->edges.list[i].to);
    }
    if (!from || *count > graph->edges.count)
        *count = graph->edges.count;
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

int fake_cuGraphDestroy(struct sl_cu_graph *graph)
{
    pthread_mutex_lock(&fake_lock);
    if (graph->ended)
        fake_break_rule("of a graph that went with its context");
    fake_graph_end(graph);
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

/* ---- made node by node ---- */

int fake_cuGraphCreate(struct sl_cu_graph **graph, unsigned flags)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context && flags)
        code = SL_CU_INVALID_VALUE;
    if (code == 0)
        *graph = fake_graph_new(context);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static bool is_of(const struct sl_cu_graph *graph, const struct sl_cu_node *node)
{
    struct sl_cu_node *n = graph->nodes;

    while (n && n != node)
        n = n->next;
    return n;
}

/* Nodes that do not depend on each other run in any order; the library's must depend on each other. */
static int check_order(const struct sl_cu_graph *graph, struct sl_cu_node *const *after, size_t count)
{
    bool last = !graph->nodes;

    for (size_t i = 0; i < count; i++) {
        if (!is_of(graph, after[i]))
            return SL_CU_INVALID_VALUE;
        last = last || after[i] == graph->nodes;
    }
    if (!last)
        fake_break_rule("a node that does not wait for the one before it");
    return SL_CU_OK;
}

static void depend(const struct sl_cu_node *node, struct sl_cu_node *const *after, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_edge(&node->graph->edges, after[i]->first, node->first);
}

int fake_cuGraphAddMemcpyNode(struct sl_cu_node **node, struct sl_cu_graph *graph, struct sl_cu_node *const *after,
                              size_t count, const struct sl_cu_copy_3d *copy, struct sl_cu_context *context)
{
    struct op op;

    pthread_mutex_lock(&fake_lock);
    int code = check_order(graph, after, count);
    if (code == 0 && (!context || !context->alive))
        code = SL_CU_INVALID_CONTEXT;
    if (code == 0)
        code = fake_copy_3d(copy, context->device, &op);
    if (code == 0) {
        *node = new_node(graph, graph->work.count, 1, false);
        depend(*node, after, count);
        fake_append(&graph->work, &op);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* The work of a batch. */
static int read_batch(const struct sl_cu_batch *batch, struct work *work)
{
    struct op op;

    if (!batch->context || !batch->context->alive)
        return SL_CU_INVALID_CONTEXT;
    if (!fake_can(SL_CU_CAN_WRITE_64))
        return SL_CU_NOT_SUPPORTED;
    if (batch->count == 0 || batch->count > 256 || batch->flags)
        return SL_CU_INVALID_VALUE;
    for (unsigned i = 0; i < batch->count; i++) {
        if (!fake_read_operation(&batch->operations[i], batch->context->device, &op))
            return SL_CU_INVALID_VALUE;
        fake_append(work, &op);
    }
    return SL_CU_OK;
}

int fake_cuGraphAddBatchMemOpNode(struct sl_cu_node **node, struct sl_cu_graph *graph, struct sl_cu_node *const *after,
                                  size_t count, const struct sl_cu_batch *batch)
{
    struct work work = { .count = 0 };

    pthread_mutex_lock(&fake_lock);
    int code = check_order(graph, after, count);
    if (code == 0)
        code = read_batch(batch, &work);
    if (code == 0) {
        *node = new_node(graph, graph->work.count, work.count, true);
        depend(*node, after, count);
        for (const struct op *op = work.first; op; op = op->next)
            fake_append(&graph->work, op);
    }
    drop(&work);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* ---- what is launched ---- */

int fake_cuGraphInstantiateWithFlags(struct sl_cu_exec **exec, struct sl_cu_graph *graph, unsigned long long flags)
{
    (void)flags;
    pthread_mutex_lock(&fake_lock);
    struct sl_cu_exec *made = calloc(1, sizeof *made);
    if (!made)
        abort();
    *made = (struct sl_cu_exec){ .owned = fake_thread.library, .context = graph->context, .of = graph, .next = execs };
    for (const struct op *op = graph->work.first; op; op = op->next)
        fake_append(&made->work, op);
    for (size_t i = 0; i < graph->edges.count; i++)
        add_edge(&made->edges, graph->edges.list[i].from, graph->edges.list[i].to);
    fake_living.graphs += made->owned;
    *exec = execs = made;
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

int fake_cuGraphExecDestroy(struct sl_cu_exec *exec)
{
    struct sl_cu_exec **at = &execs;

    pthread_mutex_lock(&fake_lock);
    if (exec->ended)
        fake_break_rule("of a graph that went with its context");
    else
        fake_living.graphs -= exec->owned;
    while (*at != exec)
        at = &(*at)->next;
    *at = exec->next;
    drop(&exec->work);
    free(exec->edges.list);
    free(exec);
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

/* Kinds of memory, too: measured on an H200. */
static bool same_kind(const struct op *a, const struct op *b)
{
    return a->kind == b->kind && a->to_type == b->to_type && a->from_type == b->from_type;
}

static bool same_kinds(const struct work *a, const struct work *b)
{
    const struct op *op = a->first, *other = b->first;

    for (; op && other && same_kind(op, other); op = op->next)
        other = other->next;
    return !op && !other;
}

/* Addresses and values may be new; their number and kinds may not. Earlier launches keep theirs. */
static int replace(struct sl_cu_exec *exec, const struct sl_cu_node *node, const struct work *work)
{
    const struct op *from = work->first;
    struct op *op = exec->work.first;

    if (work->count != node->count)
        return SL_CU_INVALID_VALUE;
    for (size_t i = 0; i < node->first; i++)
        op = op->next;
    for (; from; from = from->next, op = op->next) {
        if (!same_kind(op, from))
            return SL_CU_INVALID_VALUE;
        struct op *next = op->next;
        fake_launch_drop(op->launch);
        *op = *from;
        fake_launch_hold(op->launch);
        op->next = next;
    }
    return SL_CU_OK;
}

int fake_cuGraphExecBatchMemOpNodeSetParams(struct sl_cu_exec *exec, struct sl_cu_node *node,
                                            const struct sl_cu_batch *batch)
{
    struct work work = { .count = 0 };
    int code = SL_CU_INVALID_VALUE;

    pthread_mutex_lock(&fake_lock);
    if (exec->ended)
        fake_break_rule("of a graph that went with its context");
    else if (!exec->of || !is_of(exec->of, node) || !node->batch)
        fake_break_rule("of a node that the graph does not have");
    else
        code = read_batch(batch, &work);
    if (code == 0)
        code = replace(exec, node, &work);
    drop(&work);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Kernels may be others; the kinds of nodes, and which depend on which, may not. */
int fake_cuGraphExecUpdate(struct sl_cu_exec *exec, struct sl_cu_graph *graph, struct sl_cu_update *update)
{
    const struct sl_cu_node all = { .count = exec->work.count };

    *update = (struct sl_cu_update){ .result = 0 };
    pthread_mutex_lock(&fake_lock);
    if (exec->ended || graph->ended) {
        fake_break_rule("of a graph that went with its context");
        update->result = SL_CU_UPDATE_FAILED;
    } else if (exec->work.count != graph->work.count || !same_edges(&exec->edges, &graph->edges)) {
        update->result = SL_CU_UPDATE_TOPOLOGY_CHANGED;
    } else if (!same_kinds(&exec->work, &graph->work)) {
        update->result = SL_CU_UPDATE_TYPE_CHANGED;
    } else {
        replace(exec, &all, &graph->work);
    }
    pthread_mutex_unlock(&fake_lock);
    return update->result ? SL_CU_EXEC_UPDATE_FAILURE : SL_CU_OK;
}

/* Of a row. */
int fake_cuGraphMemcpyNodeGetParams(struct sl_cu_node *node, struct sl_cu_copy_3d *copy)
{
    pthread_mutex_lock(&fake_lock);
    const struct op *op = node->graph->work.first;
    for (size_t i = 0; i < node->first; i++)
        op = op->next;
    bool known = !node->batch && op->kind == OP_COPY && op->rows == 1;
    if (known) {
        *copy = (struct sl_cu_copy_3d){
            .from_type = op->from_type, .to_type = op->to_type, .width = op->size, .height = 1, .depth = 1
        };
        if (op->from_type == SL_CU_MEMORY_HOST)
            copy->from_host = (void *)(uintptr_t)op->target;
        else
            copy->from_device = op->target;
        if (op->to_type == SL_CU_MEMORY_HOST)
            copy->to_host = (void *)(uintptr_t)op->address;
        else
            copy->to_device = op->address;
    }
    pthread_mutex_unlock(&fake_lock);
    return known ? SL_CU_OK : SL_CU_INVALID_VALUE;
}

int fake_cuGraphExecMemcpyNodeSetParams(struct sl_cu_exec *exec, struct sl_cu_node *node,
                                        const struct sl_cu_copy_3d *copy, struct sl_cu_context *context)
{
    struct work work = { .count = 0 };
    struct op op;

    pthread_mutex_lock(&fake_lock);
    int code = !exec->of || !is_of(exec->of, node) || node->batch ? SL_CU_INVALID_VALUE : SL_CU_OK;
    if (code == 0 && (!context || !context->alive))
        code = SL_CU_INVALID_CONTEXT;
    if (code == 0)
        code = fake_copy_3d(copy, context->device, &op);
    if (code == 0) {
        fake_append(&work, &op);
        code = replace(exec, node, &work);
    }
    drop(&work);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuGraphLaunch(struct sl_cu_exec *exec, struct sl_cu_stream *handle)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (stream && exec->ended) {
        fake_break_rule("of a graph that went with its context");
        code = SL_CU_INVALID_VALUE;
    } else if (stream && stream->capture) {
        stream->capture->broken = true; /* measured, driver 580 */
        code = SL_CU_CAPTURE_UNSUPPORTED;
    }
    for (struct op *op = exec->work.first; op && stream && code == 0; op = op->next) {
        if (op->module && !fake_module_usable(op->module))
            fake_break_rule("of a graph with a kernel whose module was unloaded");
        code = fake_queue(stream, op);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}
