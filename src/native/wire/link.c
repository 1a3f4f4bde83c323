/* SPDX-License-Identifier: MIT
 *
 * A reader's link to one session: the control page, its own page, and the memories.
 */
#include <stdlib.h>
#include <string.h>

#include "native/wire/native.h"
#include "util/result.h"

/* Clocks of different time namespaces differ by more (protocol 5.14). */
#define CLOCK_TOLERANCE SLUICE_S
/* Each has a descriptor; a correct writer has announced fewer, not counting those it has freed. */
#define MAX_LINK_MEMORIES 256

static void set_words(struct sl_native_link *link, uint32_t ids)
{
    struct sl_control *control = link->control;
    struct sl_reader_page *page = link->page;

    link->base.words = (struct sl_words){
        .head = &control->head,
        .slot_seq = control->slot_seq,
        .ready = control->ready,
        .slot_memory = control->slot_memory,
        .ids = ids,
    };
    link->base.closed = &control->closed;
    link->base.waiting = &control->waiting;
    link->base.oldest_memory = &control->oldest_memory;
    link->base.page = sl_page_words(page);
}

/* The writer read its clock between our HELLO and now. The two may be far apart if a process was
 * suspended in between, which does not mean another clock. The value is untrusted. */
static int64_t clock_offset(int64_t theirs, int64_t hello_ns)
{
    int64_t now = sl_os_now();
    int64_t least = (int64_t)((uint64_t)theirs - (uint64_t)now),
            most = (int64_t)((uint64_t)theirs - (uint64_t)hello_ns);

    if (least <= CLOCK_TOLERANCE && most >= -CLOCK_TOLERANCE)
        return 0;
    return (int64_t)((uint64_t)least + (uint64_t)(now - hello_ns) / 2);
}

static int map_pages(struct sl_native_link *link, const struct sl_msg_welcome *welcome, const int *fds)
{
    uint32_t ids;
    void *address;
    int r;

    if ((r = sl_os_memory_check(fds[0], welcome->control_size, true)) != 0 ||
        (r = sl_os_memory_check(fds[1], welcome->page_size, false)) != 0)
        return r;
    if ((r = sl_os_map(fds[0], welcome->control_size, false, &address)) != 0)
        return r;
    link->control = address;
    link->control_size = welcome->control_size;
    if ((r = sl_control_check(link->control, welcome, &ids, &link->base.memory_kind)) != 0)
        return r;
    if ((r = sl_os_map(fds[1], welcome->page_size, true, &address)) != 0)
        return r;
    link->page = address;
    link->base.pages = address;
    link->base.page_bytes = welcome->page_size;
    memcpy(link->base.uuid, link->control->device_uuid, sizeof link->base.uuid);
    if (link->page->magic != SL_NATIVE_MAGIC || link->page->session != welcome->session)
        return sl_fail(SLUICE_E_PROTOCOL, "the reader's page is not of this session");
    set_words(link, ids);
    return 0;
}

int sl_native_link_open(const struct sl_msg_welcome *welcome, int64_t hello_ns, int *fds, int fd_count,
                        struct sl_native_link **out)
{
    struct sl_native_link *link = NULL;
    int r = sl_welcome_check(welcome);

    if (r == 0 && fd_count < 3)
        r = sl_fail(SLUICE_E_PROTOCOL, "a welcome with %d descriptors", fd_count);
    if (r == 0 && !sl_os_is_wake_socket(fds[2]))
        r = sl_fail(SLUICE_E_PROTOCOL, "a welcome whose wake socket is none");
    if (r != 0)
        goto out;
    link = calloc(1, sizeof *link);
    if (!link) {
        r = sl_fail(SLUICE_E_NO_MEMORY, "no memory for a link");
        goto out;
    }
    link->base.wake_fd = -1;
    link->base.session = welcome->session;
    link->base.clock_offset_ns = clock_offset(welcome->clock_ns, hello_ns);
    link->base.depth = welcome->depth;
    link->base.most = welcome->max_slots > 2 ? welcome->max_slots - 2 : 1;
    link->base.writable = welcome->writable != 0;
    if ((r = map_pages(link, welcome, fds)) == 0 && (r = sl_os_close_in_child(fds[2])) == 0) {
        link->base.wake_fd = fds[2];
        fds[2] = -1;
        *out = link;
    } else {
        sl_link_close(&link->base);
    }
out:
    for (int i = 0; i < fd_count && i < 3; i++) {
        sl_os_discard(&fds[i], 1);
        fds[i] = -1;
    }
    return r;
}

static void free_memory(struct sl_mem_shared *shared)
{
    struct sl_link_memory *memory = (struct sl_link_memory *)shared;

    memory->object.ops->destroy(&memory->object);
    free(memory);
}

/* A reader that takes no frames for a long time must not accumulate descriptors of memories that
 * the writer has freed. Memories that it has mapped it frees itself. */
static void forget_unused(struct sl_native_link *link)
{
    for (struct sl_link_memory **at = &link->base.memories; *at;) {
        struct sl_link_memory *memory = *at;
        if (sl_load(&memory->held, acquire) > 0 || memory->object.address ||
            !sl_link_forgot(&link->base, memory->memory)) {
            at = &memory->next;
            continue;
        }
        *at = memory->next;
        sl_mem_drop(&memory->shared);
        sl_add(&link->base.memory_count, (uint32_t)-1);
    }
}

int sl_native_link_add(struct sl_native_link *link, const struct sl_msg_memory *message, int fd)
{
    struct sl_link_memory *memory;
    int r;

    if (message->memory <= link->last_memory || message->generation == 0)
        return sl_fail(SLUICE_E_PROTOCOL, "memory %u of generation %u was announced after memory %u", message->memory,
                       message->generation, link->last_memory);
    if (message->kind != link->base.memory_kind)
        return sl_fail(SLUICE_E_PROTOCOL, "memory of kind %u in a session of kind %u", message->kind,
                       link->base.memory_kind);
    forget_unused(link);
    if (sl_load(&link->base.memory_count, relaxed) >= MAX_LINK_MEMORIES)
        return sl_fail(SLUICE_E_PROTOCOL, "over %d memories are announced", MAX_LINK_MEMORIES);
    memory = calloc(1, sizeof *memory);
    if (!memory)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to take memory %u", message->memory);
    memory->shared.users = 1;
    memory->shared.end = free_memory;
    memory->memory = message->memory;
    memory->generation = message->generation;
    memory->object.fd = -1;
    memory->object.driver = message->driver;
    memory->object.ops = sl_mem_of_kind(message->kind);
    if ((r = sl_format_from_wire(&memory->format, &message->format)) != 0 ||
        (r = memory->object.ops->import(&memory->object, fd, message->bytes, link->base.writable)) != 0) {
        free(memory);
        return r;
    }
    memory->next = link->base.memories;
    link->base.memories = memory;
    link->last_memory = message->memory;
    sl_add(&link->base.memory_count, 1);
    forget_unused(link);
    return 0;
}

static char *record_address(struct sl_link *link, uint32_t slot)
{
    return sl_record_address(((struct sl_native_link *)link)->control, slot);
}

const struct sl_record *sl_link_record(struct sl_link *link, uint32_t slot)
{
    return (const struct sl_record *)record_address(link, slot);
}

const void *sl_link_meta(struct sl_link *link, uint32_t slot)
{
    return record_address(link, slot) + SL_NATIVE_META_OFFSET;
}

void sl_link_close(struct sl_link *base)
{
    struct sl_native_link *link = (struct sl_native_link *)base;

    while (base->memories) {
        struct sl_link_memory *memory = base->memories;
        base->memories = memory->next;
        sl_mem_drop(&memory->shared);
    }
    sl_os_hang_up(base->wake_fd);
    if (link->page)
        sl_os_unmap(link->page, link->base.page_bytes);
    if (link->control)
        sl_os_unmap(link->control, link->control_size);
    free(link);
}
