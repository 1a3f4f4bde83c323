/* SPDX-License-Identifier: MIT
 *
 * Adds a slot to a generation. The memory of a GPU is made on a thread of its own: the GPU clears it after the work
 * that it has already, and begin must not wait for that. A later begin numbers the slot and announces its memory.
 */
#include <stdio.h>
#include <stdlib.h>

#include "native/writer/writer.h"
#include "util/result.h"

#define RETRY_DELAY SLUICE_S /* after there was no memory to grow */

enum { MAKING, MADE, ABANDONED /* by the writer: the thread frees the memory */ };

struct sl_growth {
    sl_word32 state;
    struct sl_writer_memory *memory;
    char name[SL_MEMORY_NAME], device[SL_DEVICE_NAME]; /* the writer may end before */
    bool writable;
    int64_t began_ns;
    int result;
    char why[640];
};

static void make_memory(struct sl_growth *growth)
{
    growth->result =
        sl_mem_create(&growth->memory->object, growth->name, growth->memory->object.size, growth->writable);
    if (growth->result != 0)
        snprintf(growth->why, sizeof growth->why, "%s", sl_last_error());
}

static void free_growth(struct sl_growth *growth)
{
    if (growth->result == 0)
        sl_mem_drop(&growth->memory->shared);
    else
        free(growth->memory);
    free(growth);
}

static void make_in_background(void *argument)
{
    struct sl_growth *growth = argument;
    uint32_t making = MAKING;

    make_memory(growth);
    if (atomic_compare_exchange_strong(&growth->state, &making, MADE))
        sl_os_futex_wake(&growth->state,
                         1); /* the growth may be freed by now: then a waiter at this address checks once more */
    else
        free_growth(growth);
}

static int start_growth(struct sl_writer *writer)
{
    struct sl_growth *growth = calloc(1, sizeof *growth);

    if (!growth)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel '%s': no memory to add a slot", writer->base.name);
    int r = sl_slot_memory_plan(writer, &writer->format, 1, growth->name, &growth->memory);
    if (r != 0) {
        free(growth);
        return r;
    }
    snprintf(growth->device, sizeof growth->device, "%s", writer->device_name);
    growth->memory->object.device = growth->device;
    growth->memory->generation = writer->generation;
    growth->writable = writer->params.writable != 0;
    growth->began_ns = sl_os_now();
    writer->growth = growth;
    if (writer->mem->kind == SL_MEM_HOST || !sl_background_start(make_in_background, growth)) {
        make_memory(growth);
        sl_store(&growth->state, MADE, relaxed);
    }
    return 0;
}

/* The writer continues with the slots that it has. */
static int report_failure(struct sl_writer *writer, int result)
{
    writer->in_flight.stuck = writer->in_flight.stuck || result == SLUICE_TIMEOUT;
    writer->grow_again_ns = result == SLUICE_TIMEOUT ? INT64_MAX : sl_os_now() + RETRY_DELAY;
    sl_log(SLUICE_LOG_WARN, "channel '%s': cannot grow beyond %u slots: %s", writer->base.name, writer->slot_count,
           sl_last_error());
    return SLUICE_NO_SLOT;
}

int sl_grow_settle(struct sl_writer *writer)
{
    struct sl_growth *growth = writer->growth;

    if (!growth || sl_load(&growth->state, acquire) == MAKING)
        return SLUICE_NO_SLOT;
    struct sl_writer_memory *memory = growth->memory;
    int r = growth->result;
    if (r != 0) {
        (void)sl_fail_text(r, growth->why);
        free(memory);
    } else {
        memory->object.device = writer->device_name;
        r = sl_slot_memory_add(writer, memory);
    }
    writer->growth = NULL;
    free(growth);
    return r == 0 ? 0 : report_failure(writer, r);
}

/* The time counts from the beginning of the growth, so several calls together wait no longer. */
static void wait_for_memory(const struct sl_growth *growth, int64_t patience_ns)
{
    int64_t until = growth->began_ns + patience_ns;

    while (sl_load(&growth->state, acquire) == MAKING && sl_os_now() < until)
        (void)sl_os_futex_wait(&growth->state, MAKING, until);
}

int sl_grow(struct sl_writer *writer, int64_t patience_ns)
{
    int r = 0;

    if (writer->slot_count >= writer->params.max_slots || sl_slot_memory_free_numbers(writer) == 0 ||
        (!writer->growth && sl_os_now() < writer->grow_again_ns))
        return SLUICE_NO_SLOT;
    SL_STAGE_BEGIN(MAKE_SLOTS);
    if (!writer->growth)
        r = start_growth(writer);
    if (r == 0)
        wait_for_memory(writer->growth, patience_ns);
    SL_STAGE_END(MAKE_SLOTS);
    return r == 0 ? sl_grow_settle(writer) : report_failure(writer, r);
}

void sl_grow_leave(struct sl_writer *writer)
{
    struct sl_growth *growth = writer->growth;
    uint32_t making = MAKING;

    writer->growth = NULL;
    if (growth && !atomic_compare_exchange_strong(&growth->state, &making, ABANDONED))
        free_growth(growth);
}
