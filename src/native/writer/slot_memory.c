/* SPDX-License-Identifier: MIT
 *
 * The memory of a writer's slots, and their numbers: planned, announced to readers, and given back once no reader needs
 * the slots.
 */
#include <stdio.h>
#include <stdlib.h>

#include "native/writer/writer.h"
#include "util/checked.h"
#include "util/hooks.h"
#include "util/result.h"

uint32_t sl_slot_memory_free_numbers(const struct sl_writer *writer)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < writer->ring.words.ids; s++)
        n += writer->ring.slots[s].state == SL_SLOT_NONE;
    return n;
}

static void free_memory(struct sl_mem_shared *shared)
{
    struct sl_writer_memory *memory = (struct sl_writer_memory *)shared;

    memory->object.ops->destroy(&memory->object);
    free(memory);
}

int sl_slot_memory_plan(const struct sl_writer *writer, const struct sluice_format *format, uint32_t slots,
                        char name[SL_MEMORY_NAME], struct sl_writer_memory **out)
{
    struct sl_writer_memory *memory;
    uint64_t size, unit = writer->mem->alignment > sl_os_page_size() ? writer->mem->alignment : sl_os_page_size();

    if (!sl_checked_mul(format->slot_bytes, slots, &size) || !sl_checked_align(size, unit, &size))
        return sl_fail(SLUICE_E_FORMAT, "channel '%s': %u slots of %llu bytes are more than can be addressed",
                       writer->base.name, slots, (unsigned long long)format->slot_bytes);
    memory = calloc(1, sizeof *memory);
    if (!memory)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel '%s': no memory for a table of slots", writer->base.name);
    snprintf(name, SL_MEMORY_NAME, "sluice-%.*s", SLUICE_MAX_NAME, writer->base.name);
    memory->object.ops = writer->mem;
    memory->object.fd = -1;
    memory->object.device = writer->device_name;
    memory->object.size = size;
    memory->slots = slots;
    memory->shared.users = 1;
    memory->shared.end = free_memory;
    memory->shared.in_background = writer->mem->kind != SL_MEM_HOST;
    *out = memory;
    return 0;
}

int sl_slot_memory_announce(struct sl_writer *writer, struct sl_writer_memory *memory,
                            const struct sluice_format *format)
{
    memory->number = writer->next_memory;
    struct sl_announce announce = {
        .memory = memory->number,
        .generation = memory->generation,
        .format = format,
        .object = &memory->object,
    };
    int r = sl_serve_announce(writer->serve, &announce);
    if (r != 0)
        sl_mem_drop(&memory->shared);
    return r;
}

/* Writes the part of its record that all frames in this slot share. */
static void prepare_record(struct sl_writer *writer, uint32_t slot, const struct sl_writer_memory *memory,
                           uint64_t offset, const struct sluice_format *format)
{
    struct sl_record *record = sl_serve_record(writer->serve, slot);

    record->generation = memory->generation;
    record->memory = memory->number;
    record->offset = offset;
    record->array_count = format->array_count;
    for (uint32_t i = 0; i < format->array_count; i++)
        sl_geometry_from_array(&record->arrays[i], &format->arrays[i]);
}

void sl_slot_memory_number(struct sl_writer *writer, struct sl_writer_memory *memory,
                           const struct sluice_format *format)
{
    uint32_t given = 0;

    for (uint32_t s = 0; s < writer->ring.words.ids && given < memory->slots; s++) {
        if (writer->ring.slots[s].state != SL_SLOT_NONE)
            continue;
        uint64_t offset = given++ * format->slot_bytes;
        writer->ring.slots[s].memory = memory->number;
        writer->ring.slots[s].state = SL_SLOT_IDLE;
        if (writer->ring.used <= s)
            writer->ring.used = s + 1;
        writer->slots[s] = (struct sl_writer_slot){ .address = (char *)memory->object.address + offset };
        prepare_record(writer, s, memory, offset, format);
        sl_store(&writer->ring.words.slot_memory[s], memory->number, release);
    }
    memory->next = writer->memories;
    writer->memories = memory;
    writer->next_memory++;
}

int sl_slot_memory_add(struct sl_writer *writer, struct sl_writer_memory *memory)
{
    int r = sl_slot_memory_announce(writer, memory, &writer->format);

    if (r != 0)
        return r;
    SL_KILL_POINT("before_growing");
    sl_mutex_lock(&writer->serve->lock);
    sl_slot_memory_number(writer, memory, &writer->format);
    writer->slot_count++;
    sl_mutex_unlock(&writer->serve->lock);
    return 0;
}

static struct sl_writer_memory *memory_of(struct sl_writer *writer, uint32_t number)
{
    struct sl_writer_memory *memory = writer->memories;
    while (memory && memory->number != number)
        memory = memory->next;
    return memory;
}

struct sl_mem_shared *sl_slot_memory_pin(struct sl_writer *writer, uint32_t slot)
{
    struct sl_writer_memory *memory = memory_of(writer, writer->ring.slots[slot].memory);

    sl_add(&memory->shared.users, 1);
    return &memory->shared;
}

void sl_slot_memory_retire(struct sl_writer *writer, enum sl_keep keep)
{
    struct sl_serve *serve = writer->serve;

    writer->old_slots = false;
    sl_mutex_lock(&serve->lock);
    for (uint32_t s = 0; s < writer->ring.words.ids; s++) {
        if (writer->ring.slots[s].state != SL_SLOT_OLD)
            continue;
        struct sl_writer_memory *memory = memory_of(writer, writer->ring.slots[s].memory);
        bool stolen = false;
        if (sl_ring_retire(&writer->ring, s, serve->readers, serve->reader_count, keep, &stolen)) {
            writer->totals.stolen += stolen;
            sl_store(&writer->ring.words.slot_memory[s], 0, release);
            memory->slots--;
        } else {
            writer->old_slots = true;
        }
    }
    sl_mutex_unlock(&serve->lock);

    for (struct sl_writer_memory **link = &writer->memories; *link;) {
        struct sl_writer_memory *memory = *link;
        if (memory->slots > 0) {
            link = &memory->next;
            continue;
        }
        *link = memory->next;
        SL_KILL_POINT("before_forget");
        sl_serve_forget(serve, memory->number);
        sl_copier_forget(&writer->copier, memory->object.address, memory->object.size);
        sl_mem_drop(&memory->shared);
    }
}

void sl_slot_memory_destroy(struct sl_writer *writer)
{
    while (writer->memories) {
        struct sl_writer_memory *memory = writer->memories;
        writer->memories = memory->next;
        sl_mem_drop(&memory->shared);
    }
}
