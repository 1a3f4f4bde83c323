/* SPDX-License-Identifier: MIT
 *
 * Repeated sends as CUDA graphs: the copies, and the words that are raised behind them, are one
 * launch instead of one driver call each. Graphs are built node by node; no stream is captured.
 *
 * A graph is for exactly the same copies, from the same buffer into the same slot. It is made when
 * they are sent for the second time, and kept, so memory that is sent only once costs no more than
 * a lookup.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "copy/cuda.h"
#include "util/result.h"

#define MAX_GRAPHS     32   /* sources times slots; enough for most programs */
#define MAX_COPIES     4    /* in one graph */
#define MIN_IDLE_SENDS 1024 /* sends after which a graph makes room for another */

/* `rows` rows of `run` bytes each. */
struct copy {
    uint64_t to, from, buffer;
    uint64_t run, rows;
    int64_t to_pitch, from_pitch;
};

/* Compared bytewise, with as many copies as are in use. */
struct work {
    uint64_t count, words;
    struct copy copies[MAX_COPIES];
};

struct entry {
    uint64_t used;           /* the number of the send that used it last; 0: free */
    struct sl_cu_exec *exec; /* NULL: this work was sent only once */
    struct sl_copy_key key;  /* the key of the last send of this work */
    struct work work;
    struct sl_cu_graph *graph;
    struct sl_cu_node *batch; /* the graph's node that writes the words */
    bool is_set;              /* these are set already for the next launch: */
    struct sl_signal signals[SL_SIGNALS];
};

struct sl_graphs {
    bool words;  /* graphs raise the words; else they are raised behind the graph */
    bool failed; /* the driver failed to make a graph */
    uint64_t sends;
    struct entry entries[MAX_GRAPHS];
    uint32_t filled; /* entries from here on were never used */
    /* The entry after the last one that was launched again: slots are used in turn, and so are their graphs. */
    uint32_t next;
    struct work held;                             /* the copies held for launch, */
    const struct sl_copy_side *sides[MAX_COPIES]; /* the program's side of each, */
    /* Or the entry whose graph to launch; NULL: `held` applies. */
    struct entry *reused;
};

/* Inside sl_cuda_enter, as is every function here that calls the driver. */
static void drop_entry(struct sl_copy_gpu *gpu, struct entry *entry)
{
    struct sl_cuda_scope scope;

    if (entry->graph && sl_cuda_relax(gpu->context, &scope) == 0) {
        if (entry->exec) /* the driver lets a graph that is running complete first */
            (void)sl_cu(gpu->context, GraphExecDestroy, entry->exec);
        (void)sl_cu(gpu->context, GraphDestroy, entry->graph);
        sl_cuda_leave(&scope);
    }
    *entry = (struct entry){ .used = 0 };
}

int sl_graphs_begin(struct sl_copy_gpu *gpu)
{
    if (sl_cuda_is_disabled(gpu->context, "graphs")) {
        sl_log(SLUICE_LOG_INFO, "channel '%s': sends without graphs: SLUICE_WITHOUT has \"graphs\"",
               gpu->copier->channel);
        return 0;
    }
    gpu->graphs = calloc(1, sizeof *gpu->graphs);
    if (!gpu->graphs)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel '%s': no memory for a table of graphs (%zu bytes)",
                       gpu->copier->channel, sizeof *gpu->graphs);
    gpu->graphs->words = gpu->pages && sl_sync_cuda.direct(gpu->pages);
    return 0;
}

static bool copies_into(const struct entry *entry, uint64_t to, uint64_t bytes)
{
    return entry->used && entry->work.copies[0].to - to < bytes;
}

void sl_graphs_forget(struct sl_copy_gpu *gpu, const void *to, uint64_t bytes)
{
    struct sl_cuda_scope scope;

    if (!gpu->graphs || sl_cuda_enter(gpu->context, SL_CUDA_PLAIN, &scope) != 0)
        return; /* none, or destroyed with the context */
    for (int i = 0; i < MAX_GRAPHS; i++)
        if (copies_into(&gpu->graphs->entries[i], (uintptr_t)to, bytes))
            drop_entry(gpu, &gpu->graphs->entries[i]);
    sl_cuda_leave(&scope);
}

void sl_graphs_end(struct sl_copy_gpu *gpu)
{
    sl_graphs_forget(gpu, NULL, UINT64_MAX);
    free(gpu->graphs);
    gpu->graphs = NULL;
}

/* ---- one send ---- */

static size_t size_of(const struct work *work)
{
    return offsetof(struct work, copies) + work->count * sizeof *work->copies;
}

void sl_graphs_clear(struct sl_copy_gpu *gpu)
{
    if (!gpu->graphs)
        return;
    gpu->graphs->held.count = 0;
    gpu->graphs->reused = NULL;
}

/* In a steady sequence of frames each entry is the next in turn, so one comparison is enough. */
bool sl_graphs_reuse(struct sl_copy_job *job, const struct sl_copy_key *key)
{
    struct sl_copy_gpu *gpu = job->copier->state;
    struct sl_graphs *graphs = gpu->graphs;

    if (!graphs || graphs->failed)
        return false;
    struct entry *entry = &graphs->entries[graphs->next < graphs->filled ? graphs->next : 0];
    if (!entry->exec || entry->key.plan != key->plan || entry->key.from != key->from || entry->key.to != key->to ||
        entry->work.copies[0].buffer != job->sides[0].buffer)
        return false;
    for (uint64_t i = 0; i < entry->work.count; i++)
        job->bytes += entry->work.copies[i].run * entry->work.copies[i].rows;
    graphs->reused = entry;
    return true;
}

static struct copy copy_of_part(const struct sl_copy_side *side, const struct sl_copy_part *part)
{
    const struct sl_copy_step *rows = part->depth && part->steps[0].count > 1 ? &part->steps[0] : NULL;

    return (struct copy){ .to = (uintptr_t)part->to,
                          .from = (uintptr_t)part->from,
                          .buffer = side->buffer,
                          .run = part->run,
                          .rows = rows ? (uint64_t)rows->count : 1,
                          .to_pitch = rows ? rows->to : 0,
                          .from_pitch = rows ? rows->from : 0 };
}

static struct sl_copy_part part_of_copy(const struct copy *copy)
{
    return (struct sl_copy_part){ .to = (char *)(uintptr_t)copy->to,
                                  .from = (const char *)(uintptr_t)copy->from,
                                  .run = copy->run,
                                  .depth = copy->rows > 1,
                                  .steps = { { (int64_t)copy->rows, copy->to_pitch, copy->from_pitch } } };
}

bool sl_graphs_hold(struct sl_copy_gpu *gpu, const struct sl_copy_side *side, const struct sl_copy *copy)
{
    struct sl_graphs *graphs = gpu->graphs;

    if (!graphs || graphs->failed || side->memory != SL_MEMORY_GPU || !side->buffer ||
        graphs->held.count + (uint64_t)copy->count > MAX_COPIES)
        return false;
    for (int p = 0; p < copy->count; p++)
        if (!sl_copy_is_single(side, &copy->parts[p]))
            return false;
    for (int p = 0; p < copy->count; p++) {
        graphs->sides[graphs->held.count] = side;
        graphs->held.copies[graphs->held.count++] = copy_of_part(side, &copy->parts[p]);
    }
    return true;
}

/* Restores the held copies from the entry whose graph was to be launched. */
static void restore_held(const struct sl_copy_job *job, struct sl_graphs *graphs)
{
    memcpy(&graphs->held, &graphs->reused->work, size_of(&graphs->reused->work));
    for (uint64_t i = 0; i < graphs->held.count; i++)
        graphs->sides[i] = &job->sides[0];
    graphs->reused = NULL;
}

int sl_graphs_queue(struct sl_copy_job *job)
{
    struct sl_copy_gpu *gpu = job->copier->state;
    struct sl_graphs *graphs = gpu->graphs;
    int r = 0;

    if (graphs->reused)
        restore_held(job, graphs);
    for (uint64_t i = 0; i < graphs->held.count && r == 0; i++) {
        struct sl_copy_part part = part_of_copy(&graphs->held.copies[i]);
        r = sl_copy_queue_part(job, graphs->sides[i], &part);
    }
    return r;
}

static struct entry *find_entry(struct sl_graphs *graphs, const struct work *work)
{
    for (uint32_t n = 0, i = graphs->next; n < graphs->filled; n++, i++) {
        i = i < graphs->filled ? i : 0;
        struct entry *entry = &graphs->entries[i];
        if (!entry->used || memcmp(&entry->work, work, size_of(work)) != 0)
            continue;
        graphs->next = i + 1;
        return entry;
    }
    return NULL;
}

/* Records that the work was sent: in a free entry, or in the least recently used one; an entry with
 * a graph is replaced only if it was unused for MIN_IDLE_SENDS sends. */
static void remember_work(struct sl_copy_gpu *gpu, const struct work *work)
{
    struct sl_graphs *graphs = gpu->graphs;
    struct entry *oldest = NULL;

    for (int i = 0; i < MAX_GRAPHS; i++) {
        struct entry *entry = &graphs->entries[i];
        if (entry->exec && graphs->sends - entry->used < MIN_IDLE_SENDS)
            continue;
        if (!oldest || entry->used < oldest->used)
            oldest = entry;
    }
    if (!oldest)
        return;
    drop_entry(gpu, oldest);
    memcpy(&oldest->work, work, size_of(work));
    oldest->used = graphs->sends;
    if (graphs->filled <= oldest - graphs->entries)
        graphs->filled = (uint32_t)(oldest - graphs->entries) + 1;
}

/* ---- the graph ---- */

/* Each copy depends on the one before, so that the words depend on all of them. */
static int add_copies(struct sl_copy_gpu *gpu, struct entry *entry, struct sl_cu_node **last)
{
    int r = 0;

    for (uint64_t i = 0; i < entry->work.count && r == 0; i++) {
        const struct copy *copy = &entry->work.copies[i];
        struct sl_cu_node *before = *last;
        struct sl_cu_copy_3d what = {
            .from_type = SL_CU_MEMORY_DEVICE,
            .from_device = copy->from,
            .from_pitch = (size_t)copy->from_pitch,
            .to_type = SL_CU_MEMORY_DEVICE,
            .to_device = copy->to,
            .to_pitch = (size_t)copy->to_pitch,
            .width = copy->run,
            .height = copy->rows,
            .depth = 1,
        };
        r = sl_cu(gpu->context, GraphAddMemcpyNode, last, entry->graph, &before, i > 0, &what, gpu->context->handle);
    }
    return r;
}

static int build_graph(struct sl_copy_gpu *gpu, struct entry *entry, const struct sl_cu_batch *words)
{
    struct sl_cu_node *last = NULL;
    int r = sl_cu(gpu->context, GraphCreate, &entry->graph, 0);

    if (r == 0)
        r = add_copies(gpu, entry, &last);
    if (r == 0 && words->count)
        r = sl_cu(gpu->context, GraphAddBatchMemOpNode, &entry->batch, entry->graph, &last, 1, words);
    if (r == 0)
        r = sl_cu(gpu->context, GraphInstantiateWithFlags, &entry->exec, entry->graph, 0);
    return r;
}

static int write_words(struct sl_copy_gpu *gpu, const struct sl_signal *signals, uint32_t count,
                       union sl_cu_mem_op operations[SL_SIGNALS])
{
    int r = 0;

    for (uint32_t i = 0; i < count && r == 0; i++) {
        operations[i] =
            (union sl_cu_mem_op){ .write = { .operation = SL_CU_MEM_OP_WRITE_64, .value = signals[i].value } };
        r = sl_cuda_address(gpu->context, signals[i].word, &operations[i].write.address);
    }
    return r;
}

static bool has_signals(const struct entry *entry, const struct sl_signal *signals)
{
    return entry->is_set && memcmp(entry->signals, signals, (size_t)entry->work.words * sizeof *signals) == 0;
}

/* In an existing graph only the words change: their values, and which readers they belong to. */
static int set_words(struct sl_copy_gpu *gpu, struct entry *entry, const struct sl_signal *signals)
{
    union sl_cu_mem_op operations[SL_SIGNALS];
    struct sl_cu_batch words = { gpu->context->handle, (unsigned)entry->work.words, operations, 0 };
    struct sl_cuda_scope scope;
    int r = write_words(gpu, signals, words.count, operations);

    entry->is_set = false;
    if (r != 0 || (r = sl_cuda_relax(gpu->context, &scope)) != 0)
        return r;
    if (!entry->exec)
        r = build_graph(gpu, entry, &words);
    else
        r = sl_cu(gpu->context, GraphExecBatchMemOpNodeSetParams, entry->exec, entry->batch, &words);
    sl_cuda_leave(&scope);
    if (r != 0 || !words.count)
        return r;
    /* Else a page mapped at the address of an earlier one may have another address on the device. */
    entry->is_set = gpu->context->same_addresses;
    memcpy(entry->signals, signals, words.count * sizeof *signals);
    return 0;
}

static int disable_graphs(struct sl_copy_gpu *gpu)
{
    sl_log(SLUICE_LOG_INFO, "channel '%s': sends without graphs from now on: %s", gpu->copier->channel,
           sl_last_error());
    gpu->graphs->failed = true;
    return SLUICE_NOT_READY;
}

static int launch_entry(struct sl_copy_job *job, struct entry *entry, const struct sl_signal *signals)
{
    struct sl_copy_gpu *gpu = job->copier->state;
    struct sl_cu_stream *target;
    int r = sl_copy_target_stream(job, &target);

    if (r != 0)
        return r;
    if (!entry->exec || (entry->work.words && !has_signals(entry, signals)))
        r = set_words(gpu, entry, signals);
    if (r == 0)
        r = sl_cu(gpu->context, GraphLaunch, entry->exec, target);
    if (r == 0 && entry->work.words)
        sl_cuda_flush(gpu->context, target);
    return r == 0 ? 0 : disable_graphs(gpu);
}

void sl_graphs_prepare(struct sl_copy_gpu *gpu, const struct sl_signal *signals, uint32_t count)
{
    struct sl_graphs *graphs = gpu->graphs;

    if (!graphs || graphs->failed)
        return;
    for (uint32_t n = 0, i = graphs->next; n < graphs->filled; n++, i++) {
        i = i < graphs->filled ? i : 0;
        struct entry *entry = &graphs->entries[i];
        if (!entry->exec || entry->work.words != count || entry->signals[0].word != signals[0].word)
            continue;
        if (!has_signals(entry, signals) && set_words(gpu, entry, signals) != 0)
            (void)disable_graphs(gpu);
        return;
    }
}

/* The entry with the graph for the held copies, or one to make it in. NULL if they are sent for the
 * first time. */
static struct entry *find_or_remember(struct sl_copy_job *job, struct sl_graphs *graphs, uint64_t words)
{
    struct entry *entry = graphs->reused;

    if (entry && entry->work.words == words) {
        graphs->next = (uint32_t)(entry - graphs->entries) + 1;
        return entry;
    }
    if (entry)
        restore_held(job, graphs);
    graphs->held.words = words;
    entry = find_entry(graphs, &graphs->held);
    if (entry)
        entry->key = job->key;
    else
        remember_work(job->copier->state, &graphs->held);
    return entry;
}

int sl_graphs_launch(struct sl_copy_job *job, const struct sl_signal *signals, uint32_t count, bool *raised)
{
    struct sl_graphs *graphs = ((struct sl_copy_gpu *)job->copier->state)->graphs;
    uint64_t words = graphs->words ? count : 0;

    if (graphs->failed)
        return SLUICE_NOT_READY;
    graphs->sends++;
    struct entry *entry = find_or_remember(job, graphs, words);
    if (entry)
        entry->used = graphs->sends;
    int r = entry ? launch_entry(job, entry, signals) : SLUICE_NOT_READY;
    *raised = r == 0 && words;
    return r;
}
