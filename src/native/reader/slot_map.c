/* SPDX-License-Identifier: MIT
 *
 * Where the slots of a session are mapped. A memory is mapped when its first frame is taken, and unmapped once the
 * writer will not use it again and no frame in it is held.
 */
#include "native/reader/reader.h"
#include "util/result.h"

/* Marks the memory as held while the caller maps it: the service thread removes memory that is neither held nor mapped.
 */
static struct sl_link_memory *hold_memory(struct sl_session *session, uint32_t number)
{
    struct sl_link_memory *memory;

    sl_service_lock();
    for (memory = session->link->memories; memory && memory->memory != number; memory = memory->next)
        ;
    if (memory)
        sl_store(&memory->held, 1, relaxed);
    sl_service_unlock();
    return memory;
}

static int map_memory(const struct sl_session *session, struct sl_link_memory *memory)
{
    int r;

    memory->object.device = session->peer_mapped ? session->device : session->owner;
    memory->object.home = session->remote && session->peer_mapped ? session->owner : NULL;
    if (memory->object.address)
        return 0;
    if (session->pages)
        sl_background_await_capacity(); /* else what earlier generations had would pile up */
    SL_STAGE_BEGIN(MAP);
    r = memory->object.ops->map(&memory->object, session->link->writable);
    SL_STAGE_END(MAP);
    memory->shared.in_background = r == 0 && session->pages;
    return r;
}

int sl_slot_map_get(struct sl_session *session, uint32_t slot, const struct sl_record *record,
                    struct sl_link_memory **out)
{
    struct sl_slot_map *map = &session->maps[slot];
    uint32_t number = record->memory;

    if (map->number == number && map->memory) {
        *out = map->memory;
        return 0;
    }
    struct sl_link_memory *memory = hold_memory(session, number);
    if (!memory)
        return SLUICE_AGAIN;
    int r = map_memory(session, memory);
    sl_store(&memory->held, 0, release);
    if (r != 0)
        return r;
    *map = (struct sl_slot_map){ .memory = memory, .number = number };
    *out = memory;
    return 0;
}

static void forget_maps(struct sl_session *session, const struct sl_link_memory *memory)
{
    for (uint32_t s = 0; s < SL_MAX_IDS; s++)
        if (session->maps[s].memory == memory)
            session->maps[s] = (struct sl_slot_map){ .number = 0 };
}

/* With no lock held: unmapping may call a driver. */
static void free_memories(struct sl_link_memory *memory)
{
    while (memory) {
        struct sl_link_memory *next = memory->next;
        sl_mem_drop(&memory->shared);
        memory = next;
    }
}

void sl_slot_map_prune(struct sl_reader *reader)
{
    struct sl_session *session = reader->session;
    uint32_t oldest = sl_load(session->link->oldest_memory, acquire);
    uint32_t came = sl_load(&session->link->memory_count, acquire);
    struct sl_link_memory *unused = NULL;
    bool left = false;

    if (oldest == session->oldest_memory && came == session->memory_count)
        return;
    sl_service_lock();
    for (struct sl_link_memory **link = &session->link->memories; *link;) {
        struct sl_link_memory *memory = *link;
        if (!sl_link_forgot(session->link, memory->memory) || sl_held_uses(reader, session, memory)) {
            left = left || memory->memory < oldest;
            link = &memory->next;
            continue;
        }
        *link = memory->next;
        forget_maps(session, memory);
        memory->next = unused;
        unused = memory;
        sl_store(&session->link->memory_count, sl_load(&session->link->memory_count, relaxed) - 1, relaxed);
    }
    session->memory_count = sl_load(&session->link->memory_count, relaxed);
    sl_service_unlock();
    free_memories(unused);
    if (!left)
        session->oldest_memory = oldest;
}

void sl_slot_map_free(struct sl_session *session)
{
    sl_service_lock();
    struct sl_link_memory *memories = session->link->memories;
    session->link->memories = NULL;
    sl_service_unlock();
    free_memories(memories);
}
