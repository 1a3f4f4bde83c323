/* SPDX-License-Identifier: MIT
 *
 * A slot's memory, as GstMemory.
 */
#include "memory.h"

#include <string.h>

struct block {
    gint refs;
    guint8 *data;
    gpointer user;
    void (*free)(gpointer user);
};

struct memory {
    GstMemory base;
    struct block *block;
};

G_DECLARE_FINAL_TYPE(GstSluiceAllocator, gst_sluice_allocator, GST, SLUICE_ALLOCATOR, GstAllocator)
struct _GstSluiceAllocator {
    GstAllocator parent;
};
G_DEFINE_TYPE(GstSluiceAllocator, gst_sluice_allocator, GST_TYPE_ALLOCATOR)

static GstMemory *refer(struct block *block, GstMemoryFlags flags, GstMemory *parent, gsize maxsize, gsize offset,
                        gsize size)
{
    struct memory *memory = g_new0(struct memory, 1);
    GstAllocator *allocator = g_object_new(gst_sluice_allocator_get_type(), NULL);

    g_atomic_int_inc(&block->refs);
    memory->block = block;
    gst_memory_init(GST_MEMORY_CAST(memory), flags, gst_object_ref_sink(allocator), parent, maxsize, 0, offset, size);
    gst_object_unref(allocator); /* the memory has it */
    return GST_MEMORY_CAST(memory);
}

static gpointer map(GstMemory *memory, gsize maxsize, GstMapFlags flags)
{
    (void)maxsize;
    (void)flags;
    return ((struct memory *)memory)->block->data;
}

static void unmap(GstMemory *memory)
{
    (void)memory;
}

static GstMemory *share(GstMemory *memory, gssize offset, gssize size)
{
    GstMemory *parent = memory->parent ? memory->parent : memory;
    gsize length = size < 0 ? memory->size - (gsize)offset : (gsize)size;

    return refer(((struct memory *)memory)->block, GST_MINI_OBJECT_FLAGS(parent) | GST_MINI_OBJECT_FLAG_LOCK_READONLY,
                 parent, memory->maxsize, memory->offset + (gsize)offset, length);
}

static gboolean is_mapped_for_writing(GstMemory *memory)
{
    return (g_atomic_int_get(&memory->mini_object.lockstate) & GST_LOCK_FLAG_WRITE) != 0;
}

static GstMemory *copy(GstMemory *memory, gssize offset, gssize size)
{
    struct memory *own = (struct memory *)memory;
    gsize length = size < 0 ? memory->size - (gsize)offset : (gsize)size;
    GstMapInfo to;

    if (offset == 0 && length == memory->maxsize && !GST_MEMORY_IS_READONLY(memory) && is_mapped_for_writing(memory))
        return refer(own->block, GST_MEMORY_FLAG_READONLY, NULL, memory->maxsize, 0, length);
    GstMemory *result = gst_allocator_alloc(NULL, length, NULL);
    gst_memory_map(result, &to, GST_MAP_WRITE);
    memcpy(to.data, own->block->data + memory->offset + offset, length);
    gst_memory_unmap(result, &to);
    return result;
}

static void release(GstAllocator *allocator, GstMemory *memory)
{
    struct block *block = ((struct memory *)memory)->block;

    (void)allocator;
    if (g_atomic_int_dec_and_test(&block->refs)) {
        block->free(block->user);
        g_free(block);
    }
    g_free(memory);
}

static void gst_sluice_allocator_class_init(GstSluiceAllocatorClass *class)
{
    GST_ALLOCATOR_CLASS(class)->free = release;
}

static void gst_sluice_allocator_init(GstSluiceAllocator *self)
{
    GstAllocator *allocator = GST_ALLOCATOR(self);

    allocator->mem_type = "SluiceSlot";
    allocator->mem_map = map;
    allocator->mem_unmap = unmap;
    allocator->mem_share = share;
    allocator->mem_copy = copy;
    GST_OBJECT_FLAG_SET(self, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

GstMemory *gst_sluice_memory_new(void *data, gsize size, gpointer user, void (*free)(gpointer user))
{
    struct block *block = g_new0(struct block, 1);

    block->data = data;
    block->user = user;
    block->free = free;
    return refer(block, 0, NULL, size, 0, size);
}

gpointer gst_sluice_memory_user(GstMemory *memory)
{
    if (!gst_memory_is_type(memory, "SluiceSlot") || memory->parent || memory->offset != 0 ||
        memory->size != memory->maxsize)
        return NULL;
    return ((struct memory *)memory)->block->user;
}
