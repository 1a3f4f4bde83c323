/* SPDX-License-Identifier: MIT
 *
 * Scratch memory, allocated and freed in the order of streams. Each block remembers the streams on which launches used
 * it, and is freed after the work on all of them.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "kernel/check.h"
#include "util/atomic.h"
#include "util/result.h"

struct block {
    struct sl_object object;
    void *memory; /* NULL: freed already */
    size_t bytes;
    uint64_t id;
    struct block *next; /* in the list */
    struct sluice_stream *uses;
    uint32_t use_count; /* at each power of two, room is made for as many more */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and the uses of blocks in it */
static struct block *blocks;
static sl_word32 block_count; /* for a quick look without the lock */

static void list(struct block *block)
{
    pthread_mutex_lock(&lock);
    block->next = blocks;
    blocks = block;
    sl_add(&block_count, 1);
    pthread_mutex_unlock(&lock);
}

/* With the lock held. False if it is not in the list. */
static bool unlist(struct block *block)
{
    struct block **at = &blocks;

    while (*at && *at != block)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = block->next;
    sl_add(&block_count, (uint32_t)-1);
    return true;
}

static void finish_block(struct sl_object *object)
{
    struct block *block = (struct block *)object;

    pthread_mutex_lock(&lock);
    unlist(block);
    pthread_mutex_unlock(&lock);
    if (block->memory)
        (void)sl_kernel_kind(object->device)->memory_free(object->device, NULL, block->memory);
    free(block->uses);
}

/* Called with the lock held. */
static struct block *find(const void *memory)
{
    for (struct block *b = blocks; b; b = b->next)
        if ((uintptr_t)memory - (uintptr_t)b->memory < b->bytes)
            return b;
    return NULL;
}

/* Also called with the lock held. False if there is no memory to remember it. */
static bool add_use(struct block *block, struct sluice_stream stream)
{
    for (uint32_t i = 0; i < block->use_count; i++)
        if (block->uses[i].id == stream.id)
            return true;
    if ((block->use_count & (block->use_count - 1)) == 0) {
        struct sluice_stream *larger = realloc(block->uses, (block->use_count * 2 + 1) * sizeof *larger);
        if (!larger)
            return false;
        block->uses = larger;
    }
    block->uses[block->use_count++] = stream;
    return true;
}

bool sl_memory_block(const void *memory, const void **start, uint64_t *bytes)
{
    struct block *block;

    pthread_mutex_lock(&lock);
    if ((block = find(memory))) {
        *start = block->memory;
        *bytes = block->bytes;
    }
    pthread_mutex_unlock(&lock);
    return block != NULL;
}

int sl_memory_used(const void *memory, struct sluice_stream stream)
{
    int r = 0;

    if (sl_load(&block_count, relaxed) == 0)
        return 0;
    pthread_mutex_lock(&lock);
    struct block *block = find(memory);
    if (block && !add_use(block, stream))
        r = sl_fail(SLUICE_E_NO_MEMORY, "no memory to remember that a stream uses %p", memory);
    pthread_mutex_unlock(&lock);
    return r;
}

/* ---- alloc ---- */

static int check_stream(const struct sl_stream *stream, const struct sl_device *device)
{
    if (stream->object.device == device)
        return 0;
    return sl_fail(SLUICE_E_WRONG_DEVICE,
                   "scratch memory of \"%s\" was given a stream of \"%s\": each sluice_device_open makes a device of "
                   "its own",
                   device->name, stream->object.device->name);
}

static int alloc(struct block *block, struct sl_stream *stream, struct sluice_stream handle)
{
    int r = check_stream(stream, block->object.device);

    if (r == 0)
        r = sl_stream_not_capturing(stream, "no memory can be allocated on it");
    if (r == 0 && !add_use(block, handle)) /* the first use */
        r = sl_fail(SLUICE_E_NO_MEMORY, "no memory for the streams of scratch memory");
    if (r == 0)
        r = sl_kernel_kind(block->object.device)->memory_alloc(stream, block->bytes, &block->memory);
    return r;
}

int sl_memory_alloc(struct sluice_device device, struct sluice_stream handle, size_t bytes, void **memory)
{
    struct sl_stream *stream;
    void *object;

    if (bytes == 0)
        return sl_fail(SLUICE_E_INVALID, "sluice_memory_alloc: 0 bytes");
    int r = sl_device_object(device, SL_HANDLE_MEMORY, sizeof(struct block), &object);
    if (r != 0)
        return r;
    struct block *block = object;
    block->bytes = bytes;
    block->object.finish = finish_block;
    if ((r = sl_stream_hold(handle, &stream)) == 0) {
        r = alloc(block, stream, handle);
        sl_object_drop(&stream->object);
    }
    if (r != 0) {
        sl_object_drop(&block->object);
        return r;
    }
    void *address = block->memory;
    if (sl_checks_streams())
        sl_history_begin(address, bytes, handle, "it is allocated only");
    list(block);
    r = sl_device_adopt(&block->object, NULL, &block->id);
    if (r == 0)
        *memory = address;
    return r;
}

/* ---- free ---- */

/* Only the device can still wait for a stream that was destroyed. */
static int wait_for(struct sl_device *device, struct sluice_stream stream, struct sluice_stream use)
{
    if (use.id == stream.id)
        return 0;
    if (sl_stream_is_alive(use))
        return sl_stream_wait_stream(stream, use);
    return device->ops->synchronize(device);
}

/* Takes the block off the list, with a reference; NULL if there is none. */
static struct block *take(const void *memory)
{
    pthread_mutex_lock(&lock);
    struct block *block = find(memory);
    bool found = block && block->memory == memory;
    struct sl_object *object = found ? sl_object_find(block->id, SL_HANDLE_MEMORY) : NULL;
    if (object)
        unlist(block);
    pthread_mutex_unlock(&lock);
    return (struct block *)object;
}

static int free_behind(struct block *block, struct sl_stream *stream, struct sluice_stream handle)
{
    struct sl_device *device = block->object.device;
    int r = check_stream(stream, device);

    if (r == 0)
        r = sl_stream_not_capturing(stream, "no memory can be freed on it");
    for (uint32_t i = 0; i < block->use_count && r == 0; i++)
        r = wait_for(device, handle, block->uses[i]);
    if (r != 0)
        return r;
    sl_mutex_lock(&device->lock);
    bool mine = sl_device_disown(&block->object, SL_END_DESTROYED);
    sl_mutex_unlock(&device->lock);
    if (sl_checks_streams())
        sl_history_begin(block->memory, block->bytes, SLUICE_ON_CPU, "");
    r = sl_kernel_kind(device)->memory_free(device, stream, block->memory);
    block->memory = NULL;
    if (mine) /* else it has just ended with its device */
        sl_object_drop(&block->object);
    return r;
}

int sl_memory_free(struct sluice_stream handle, void **memory)
{
    struct sl_stream *stream;
    int r = sl_stream_hold(handle, &stream);

    if (r != 0)
        return r;
    struct block *block = take(*memory);
    if (block) {
        r = free_behind(block, stream, handle);
        if (r != 0 && block->memory)
            list(block);
        sl_object_drop(&block->object);
    } else {
        r = sl_fail(SLUICE_E_INVALID, "%p is not scratch memory of sluice_memory_alloc, or was freed already", *memory);
    }
    sl_object_drop(&stream->object);
    if (r == 0)
        *memory = NULL;
    return r;
}
