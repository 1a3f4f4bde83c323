/* SPDX-License-Identifier: MIT
 *
 * Makes a writer's next generation: the slots of a new format, in one memory. The slots of the format before are
 * retired once no reader uses them (slot_memory.c).
 */
#include <stdio.h>
#include <stdlib.h>

#include "format/format.h"
#include "native/writer/writer.h"
#include "util/hooks.h"
#include "util/result.h"

#define MIN_SLOTS 2 /* to begin a generation with: for the newest frame, and one being written */

static int make_memory(struct sl_writer *writer, const struct sluice_format *format, uint32_t slots,
                       struct sl_writer_memory **out)
{
    struct sl_writer_memory *memory;
    char name[SL_MEMORY_NAME];
    int r = sl_slot_memory_plan(writer, format, slots, name, &memory);

    if (r != 0)
        return r;
    SL_STAGE_BEGIN(MAKE_SLOTS);
    r = sl_mem_create(&memory->object, name, memory->object.size, writer->params.writable != 0);
    SL_STAGE_END(MAKE_SLOTS);
    if (r != 0) {
        writer->in_flight.stuck = writer->in_flight.stuck || r == SLUICE_TIMEOUT;
        free(memory);
        return r;
    }
    *out = memory;
    return 0;
}

static bool has_enough_numbers(struct sl_writer *writer, int *count)
{
    sl_slot_memory_retire(writer, SL_KEEP_ALL);
    *count = (int)sl_slot_memory_free_numbers(writer);
    return *count >= MIN_SLOTS;
}

/* How many slot numbers a new generation can have. If frames of earlier formats use them all, the policy decides, as in
 * begin: a waiting writer waits for its readers, a dropping one takes the slots of the oldest unread frames. */
static uint32_t free_numbers(struct sl_writer *writer)
{
    int count;

    if (writer->params.policy == SLUICE_WAIT) {
        (void)sl_free_slot_wait(writer, sl_os_now(), writer->params.wait_ns, has_enough_numbers, &count);
        return (uint32_t)count;
    }
    sl_slot_memory_retire(writer, SL_KEEP_DEPTH);
    if (sl_slot_memory_free_numbers(writer) < MIN_SLOTS)
        (void)sl_serve_evict(writer->serve, writer->params.lease_timeout_ns);
    if (sl_slot_memory_free_numbers(writer) < MIN_SLOTS)
        sl_slot_memory_retire(writer, SL_KEEP_LEASED);
    return sl_slot_memory_free_numbers(writer);
}

/* No slot number became free: because the device is lost, or as readers hold frames. */
static int report_no_numbers(struct sl_writer *writer)
{
    char holders[512];
    int r = writer->in_flight.sync->alive(writer->in_flight.pages);

    if (r != 0)
        return r;
    sl_mutex_lock(&writer->serve->lock);
    sl_serve_holders(writer->serve, holders, sizeof holders);
    sl_mutex_unlock(&writer->serve->lock);
    return sl_fail(SLUICE_E_BUSY, "channel '%s': readers still hold frames of formats before this one: %s",
                   writer->base.name, holders);
}

/* From now on begin takes slots of this memory only. */
static void switch_memory(struct sl_writer *writer, struct sl_writer_memory *memory, const struct sluice_format *format)
{
    sl_mutex_lock(&writer->serve->lock);
    for (uint32_t s = 0; s < writer->ring.used; s++) {
        if (writer->ring.slots[s].state == SL_SLOT_IDLE) {
            writer->ring.slots[s].state = SL_SLOT_OLD;
            writer->old_slots = true;
        }
    }
    SL_KILL_POINT("before_numbering");
    writer->slot_count = memory->slots;
    sl_slot_memory_number(writer, memory, format);
    writer->format = *format;
    writer->generation = memory->generation;
    sl_mutex_unlock(&writer->serve->lock);
}

static int make_generation(struct sl_writer *writer, const struct sluice_format *format)
{
    struct sl_writer_memory *memory;
    uint32_t numbers = free_numbers(writer), slots = writer->params.slots < numbers ? writer->params.slots : numbers;
    int r;

    if (slots < MIN_SLOTS)
        return report_no_numbers(writer);
    if ((r = make_memory(writer, format, slots, &memory)) != 0)
        return r;
    memory->generation = writer->generation + 1;
    if ((r = sl_slot_memory_announce(writer, memory, format)) != 0)
        return r;
    SL_KILL_POINT("after_announce");
    sl_grow_leave(writer);
    switch_memory(writer, memory, format);
    return 0;
}

int sl_generation_make(struct sl_writer *writer, const struct sluice_format *format)
{
    int r = make_generation(writer, format);

    return r < 0 ? sl_format_refused(r, format) : r;
}
