/* SPDX-License-Identifier: MIT
 *
 * A slot that is added to a generation. The memory of a GPU is made on a thread of its own: the GPU clears it behind what else it
 * does, perhaps, and begin must not wait for that. The rest (its number, and telling readers of it) is begin's, in whose call it is
 * finished.
 */
#include <stdio.h>
#include <stdlib.h>

#include "native/writer/writer.h"
#include "util/result.h"

#define AGAIN SLUICE_S /* after there was no memory to grow */

enum { MAKING, MADE, LEFT /* by the writer: who has made it frees it */ };

struct sl_growth {
    sl_word32 state;
    struct sl_writer_memory *memory;
    char name[SL_MEMORY_NAME], device[SL_DEVICE_NAME]; /* the writer may end before */
    bool writable;
    int64_t began_ns;
    int result;
    char why[640];
};

static void make(struct sl_growth *growth)
{
    growth->result = sl_mem_create(&growth->memory->object, growth->name, growth->memory->object.size, growth->writable);
    if (growth->result != 0)
        snprintf(growth->why, sizeof growth->why, "%s", sl_last_error());
}

static void drop(struct sl_growth *growth)
{
    if (growth->result == 0)
        sl_mem_drop(&growth->memory->shared);
    else
        free(growth->memory);
    free(growth);
}

static void make_apart(void *argument)
{
    struct sl_growth *growth = argument;
    uint32_t making = MAKING;

    make(growth);
    if (atomic_compare_exchange_strong(&growth->state, &making, MADE))
        sl_os_futex_wake(&growth->state, 1); /* at worst the memory is another's by now, and a waiter there looks once more */
    else
        drop(growth);
}

static int start(struct sl_writer *writer)
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
    if (writer->mem->kind == SL_MEM_HOST || !sl_background_start(make_apart, growth)) {
        make(growth);
        sl_store(&growth->state, MADE, relaxed);
    }
    return 0;
}

/* It cannot be added: the writer goes on with the slots that it has. */
static int give_up(struct sl_writer *writer, int result)
{
    writer->in_flight.stuck = writer->in_flight.stuck || result == SLUICE_TIMEOUT;
    writer->grow_again_ns = result == SLUICE_TIMEOUT ? INT64_MAX : sl_os_now() + AGAIN;
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
    return r == 0 ? 0 : give_up(writer, r);
}

/* Waits for the thread until so long after it began: while it takes long, that is once for all calls. */
static void await(const struct sl_growth *growth, int64_t patience_ns)
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
        r = start(writer);
    if (r == 0)
        await(writer->growth, patience_ns);
    SL_STAGE_END(MAKE_SLOTS);
    return r == 0 ? sl_grow_settle(writer) : give_up(writer, r);
}

void sl_grow_leave(struct sl_writer *writer)
{
    struct sl_growth *growth = writer->growth;
    uint32_t making = MAKING;

    writer->growth = NULL;
    if (growth && !atomic_compare_exchange_strong(&growth->state, &making, LEFT))
        drop(growth);
}
