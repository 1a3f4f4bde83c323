/* SPDX-License-Identifier: MIT
 *
 * What kind of memory a program's pointer refers to. All attributes of a pointer are queried once,
 * after that only its buffer ID. The driver never reuses an ID, so the attributes are valid as long
 * as the ID is the same: freed memory has none, and new memory at the same address has another.
 * Memory that several adjacent buffers make up is looked at anew each time.
 */
#include <stdio.h>
#include <string.h>

#include "copy/cuda.h"
#include "util/result.h"

#define MAX_PIECES 4096 /* adjacent mappings that make up one array's memory */

struct facts {
    unsigned type;    /* 0: unknown to the driver */
    unsigned managed; /* the driver writes one byte, or four */
    int ordinal;
    unsigned long long buffer;
    uint64_t start;
    size_t size;
    struct sl_cu_context *context;
};

static uint64_t address_of(const void *pointer)
{
    return (uintptr_t)pointer;
}

static int query_pointer(struct sl_copy_gpu *gpu, uint64_t pointer, struct facts *facts)
{
    int attributes[] = { SL_CU_POINTER_MEMORY_TYPE, SL_CU_POINTER_IS_MANAGED,  SL_CU_POINTER_ORDINAL,
                         SL_CU_POINTER_BUFFER_ID,   SL_CU_POINTER_RANGE_START, SL_CU_POINTER_RANGE_SIZE,
                         SL_CU_POINTER_CONTEXT };
    void *values[] = { &facts->type,  &facts->managed, &facts->ordinal, &facts->buffer,
                       &facts->start, &facts->size,    &facts->context };

    memset(facts, 0, sizeof *facts);
    return sl_cu(gpu->context, PointerGetAttributes, sizeof values / sizeof *values, attributes, values, pointer);
}

/* 0 for memory unknown to the driver. */
static int query_buffer_id(struct sl_copy_gpu *gpu, uint64_t pointer, unsigned long long *buffer)
{
    int attribute = SL_CU_POINTER_BUFFER_ID;
    void *value = buffer;

    *buffer = 0;
    return sl_cu(gpu->context, PointerGetAttributes, 1, &attribute, &value, pointer);
}

/* ---- what is known ---- */

static struct sl_pointer_info *find_known(struct sl_copy_gpu *gpu, const struct sl_copy_side *side)
{
    for (int i = 0; i < SL_POINTER_INFOS; i++)
        if (gpu->known[i].buffer && gpu->known[i].first == side->first)
            return &gpu->known[i];
    return NULL;
}

static void remember(struct sl_copy_gpu *gpu, const struct sl_copy_side *side, unsigned long long buffer)
{
    struct sl_pointer_info *known = find_known(gpu, side);

    if (!known)
        known = &gpu->known[gpu->next_known++ % SL_POINTER_INFOS];
    *known =
        (struct sl_pointer_info){ side->first, side->bytes, buffer, (enum sl_memory_kind)side->memory, side->context };
}

/* ---- finding out ---- */

/* The end of the contiguous range, without gaps, that the driver knows. */
static int find_end(struct sl_copy_gpu *gpu, const struct sl_copy_side *side, const struct facts *first, uint64_t *end)
{
    uint64_t wanted = address_of(side->first) + side->bytes;
    struct facts facts = *first;
    int r = 0;

    *end = facts.size ? facts.start + facts.size : wanted; /* some kinds of memory have no range */
    for (int i = 0; i < MAX_PIECES && r == 0 && *end < wanted; i++) {
        r = query_pointer(gpu, *end, &facts);
        if (r != 0 || facts.type != first->type || facts.ordinal != first->ordinal || !facts.size)
            break;
        *end = facts.start + facts.size;
    }
    return r;
}

static int fail_missing(struct sl_copy_gpu *gpu, const struct sl_copy_side *side)
{
    return sl_fail(SLUICE_E_INVALID,
                   "channel '%s': array '%.31s': there is no memory at %p (%llu bytes); it %s, or has "
                   "fewer bytes than the array says",
                   gpu->copier->channel, side->name, side->first, (unsigned long long)side->bytes,
                   find_known(gpu, side) ? "was a GPU's when it was copied before and has been freed since"
                                         : "was freed");
}

/* Memory unknown to the driver. Freed GPU memory is of this kind, too, and accessing that on the
 * CPU would crash. */
static int classify_host(struct sl_copy_gpu *gpu, struct sl_copy_side *side)
{
    const char *first = side->first;

    if (!sl_os_readable(first) || !sl_os_readable(first + side->bytes - 1))
        return fail_missing(gpu, side);
    side->memory = SL_MEMORY_PAGEABLE;
    return 0;
}

/* The context in which to copy another GPU's memory. That GPU's primary context is retained, and
 * from now on copies go directly between the two, if they are peers. If not, the driver stages them
 * through host memory. */
static int peer_context(struct sl_copy_gpu *gpu, const struct facts *facts, struct sl_cu_context **context)
{
    char name[16];

    if (facts->context && facts->ordinal == gpu->context->device) {
        *context = facts->context; /* the memory is on this very GPU */
        return 0;
    }
    if (facts->ordinal < 0 || facts->ordinal >= SL_PEERS)
        return sl_fail(SLUICE_E_WRONG_DEVICE, "channel '%s': there is no GPU %d", gpu->copier->channel, facts->ordinal);
    struct sl_cuda_context **peer = &gpu->peers[facts->ordinal];
    snprintf(name, sizeof name, "cuda:%d", facts->ordinal);
    if (!*peer) {
        struct sl_cuda_scope scope;
        int r = sl_cuda_context_open(name, peer);
        if (r == 0 && (r = sl_cuda_relax(gpu->context, &scope)) == 0) {
            (void)sl_cuda.CtxEnablePeerAccess((*peer)->handle, 0);
            sl_cuda_leave(&scope);
        }
        if (r != 0)
            return r;
    }
    *context = facts->context ? facts->context : (*peer)->handle;
    return 0;
}

static int classify_gpu(struct sl_copy_gpu *gpu, struct sl_copy_side *side, const struct facts *facts)
{
    struct sl_cu_context *context = NULL;
    bool here = facts->managed ||
                (facts->ordinal == gpu->context->device && (!facts->context || facts->context == gpu->context->handle));
    int r = here ? 0 : peer_context(gpu, facts, &context);

    if (r == 0) {
        side->memory = here ? SL_MEMORY_GPU : SL_MEMORY_PEER;
        side->context = context;
    }
    return r;
}

static int classify_side(struct sl_copy_gpu *gpu, struct sl_copy_side *side)
{
    struct facts facts;
    uint64_t end = 0;
    int r = query_pointer(gpu, address_of(side->first), &facts);

    if (r == 0 && facts.type != 0)
        r = find_end(gpu, side, &facts, &end);
    if (r != 0)
        return r;
    bool whole = end >= address_of(side->first) + side->bytes;
    bool host = facts.type == SL_CU_MEMORY_HOST && !facts.managed;
    if (facts.type == 0 || (host && !whole))
        return classify_host(gpu, side); /* memory that is pinned only in part counts as pageable */
    if (!whole)
        return sl_fail(SLUICE_E_INVALID,
                       "channel '%s': array '%.31s': it says %llu bytes at %p, but its memory ends "
                       "after %llu",
                       gpu->copier->channel, side->name, (unsigned long long)side->bytes, side->first,
                       (unsigned long long)(end - address_of(side->first)));
    if (host)
        side->memory = SL_MEMORY_PINNED;
    else
        r = classify_gpu(gpu, side, &facts);
    /* The ID says nothing of the pieces behind the first one: those are looked at each time. */
    bool single = !facts.size || facts.start + facts.size >= address_of(side->first) + side->bytes;
    if (!single)
        side->buffer = 0;
    else if (r == 0 && facts.buffer)
        remember(gpu, side, facts.buffer);
    return r;
}

/* By what is known of the buffer, or by the driver. */
static int resolve_side(struct sl_copy_gpu *gpu, struct sl_copy_side *side)
{
    struct sl_pointer_info *known = find_known(gpu, side);

    if (!known || known->buffer != side->buffer || side->bytes > known->bytes)
        return classify_side(gpu, side);
    side->memory = known->memory;
    side->context = known->context;
    return 0;
}

int sl_copy_classify(const struct sl_copy_job *job, struct sl_copy_side *side)
{
    struct sl_copy_gpu *gpu = job->copier->state;
    bool exclusive = job->way == SL_COPY_SEND; /* only one thread at a time sends */
    unsigned long long buffer;

    side->memory = SL_MEMORY_PAGEABLE;
    side->context = NULL;
    side->buffer = 0;
    if (side->bytes == 0)
        return 0; /* nothing to copy */
    int r = query_buffer_id(gpu, address_of(side->first), &buffer);
    if (r != 0)
        return r;
    side->buffer = buffer;
    if (!exclusive)
        sl_mutex_lock(&gpu->known_lock);
    r = resolve_side(gpu, side);
    if (!exclusive)
        sl_mutex_unlock(&gpu->known_lock);
    return r;
}

void sl_copy_forget_pointers(struct sl_copy_gpu *gpu)
{
    for (int i = 0; i < SL_PEERS; i++)
        sl_cuda_context_close(gpu->peers[i]);
}
