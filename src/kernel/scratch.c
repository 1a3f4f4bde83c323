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
    struct block *next, **place; /* in the list */
    struct sluice_stream *uses;
    uint32_t use_count, use_room;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and the uses */
static struct block *blocks;
static sl_word32 block_count; /* for a quick look without the lock */

static void list(struct block *block)
{
    pthread_mutex_lock(&lock);
    block->next = blocks;
    block->place = &blocks;
    if (blocks)
        blocks->place = &block->next;
    blocks = block;
    sl_add(&block_count, 1);
    pthread_mutex_unlock(&lock);
}

static void unlist(struct block *block)
{
    pthread_mutex_lock(&lock);
    if (block->place) {
        *block->place = block->next;
        if (block->next)
            block->next->place = block->place;
        block->place = NULL;
        sl_add(&block_count, (uint32_t)-1);
    }
    pthread_mutex_unlock(&lock);
}

static void finish_block(struct sl_object *object)
{
    struct block *block = (struct block *)object;

    unlist(block);
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
    if (block->use_count == block->use_room) {
        uint32_t room = block->use_room ? block->use_room * 2 : 4;
        struct sluice_stream *larger = realloc(block->uses, room * sizeof *larger);
        if (!larger)
            return false;
        block->uses = larger;
        block->use_room = room;
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

/* Copies the block's uses and its handle: NULL and 0 if there is no such block. */
static int look_up(const void *memory, uint64_t *id, struct sluice_stream **uses, uint32_t *count)
{
    int r = 0;

    *id = 0;
    *uses = NULL;
    pthread_mutex_lock(&lock);
    struct block *block = find(memory);
    if (!block || block->memory != memory)
        r = sl_fail(SLUICE_E_INVALID, "%p is not scratch memory of sluice_memory_alloc, or was freed already", memory);
    else if (!(*uses = malloc(block->use_count * sizeof **uses)))
        r = sl_fail(SLUICE_E_NO_MEMORY, "no memory to free scratch memory");
    for (uint32_t i = 0; r == 0 && i < block->use_count; i++)
        (*uses)[i] = block->uses[i];
    if (r == 0) {
        *id = block->id;
        *count = block->use_count;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* Only the device can still wait for a stream that was destroyed. */
static int wait_for(struct sl_device *device, struct sluice_stream stream, struct sluice_stream use)
{
    if (use.id == stream.id)
        return 0;
    if (sl_stream_is_alive(use))
        return sl_stream_wait_stream(stream, use);
    return device->ops->synchronize(device);
}

static int free_behind(struct block *block, struct sl_stream *stream, struct sluice_stream handle,
                       const struct sluice_stream *uses, uint32_t count)
{
    struct sl_device *device = block->object.device;
    int r = check_stream(stream, device);

    if (r == 0)
        r = sl_stream_not_capturing(stream, "no memory can be freed on it");
    for (uint32_t i = 0; i < count && r == 0; i++)
        r = wait_for(device, handle, uses[i]);
    if (r != 0)
        return r;
    sl_mutex_lock(&device->lock);
    bool mine = sl_device_disown(&block->object, SL_END_DESTROYED);
    sl_mutex_unlock(&device->lock);
    if (!mine)
        return sl_fail(SLUICE_E_INVALID, "this scratch memory was freed already");
    unlist(block);
    if (sl_checks_streams())
        sl_history_begin(block->memory, block->bytes, SLUICE_ON_CPU, "");
    r = sl_kernel_kind(device)->memory_free(device, stream, block->memory);
    block->memory = NULL;
    sl_object_drop(&block->object); /* the handle's reference */
    return r;
}

int sl_memory_free(struct sluice_stream handle, void **memory)
{
    struct sluice_stream *uses;
    struct sl_stream *stream;
    struct sl_object *object;
    uint32_t count = 0;
    uint64_t id;

    int r = look_up(*memory, &id, &uses, &count);
    if (r == 0 && (r = sl_stream_hold(handle, &stream)) == 0) {
        if ((r = sl_object_hold(id, SL_HANDLE_MEMORY, &object)) == 0) {
            r = free_behind((struct block *)object, stream, handle, uses, count);
            sl_object_drop(object);
        }
        sl_object_drop(&stream->object);
    }
    free(uses);
    if (r == 0)
        *memory = NULL;
    return r;
}
