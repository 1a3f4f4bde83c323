/* SPDX-License-Identifier: MIT
 *
 * What a writer sends to a reader: its WELCOME, then the memories, one after the other. Runs on the service thread,
 * under its lock.
 */
#include "native/wire/native.h"
#include "util/hooks.h"
#include "util/result.h"

#define RETRY_DELAY          (5 * SLUICE_MS) /* if the socket's buffer was full */
#define RETRY_DELAY_ON_ERROR (20 * RETRY_DELAY)
#define PAGE_TIMEOUT         (SLUICE_S / 2) /* for a driver to register a page; a reader waits 1 s for its WELCOME */
#define PAGE_POLL_INTERVAL   (SLUICE_MS / 5)

static int send_welcome(struct sl_peer *peer)
{
    struct sl_native_serve *serve = peer->serve;
    union sl_message message = SL_MESSAGE(SL_MSG_WELCOME, welcome);
    int fds[4] = { serve->control_fd, peer->page_fd, peer->wake_end };
    int count = 3;

    message.welcome.magic = SL_NATIVE_MAGIC;
    message.welcome.version = sl_version_agree(peer->hello.version_min, peer->hello.version_max);
    message.welcome.depth = peer->depth;
    message.welcome.features = SL_NATIVE_FEATURES;
    message.welcome.session = serve->params.session;
    message.welcome.control_size = serve->control_size;
    message.welcome.page_size = peer->shared->bytes;
    message.welcome.max_slots = serve->writer.max_slots;
    message.welcome.writable = peer->hello.writable;
    message.welcome.clock_ns = sl_os_now();
    int self = peer->identity.pidfd < 0 ? sl_os_self_pidfd() : -1;
    if (self >= 0)
        fds[count++] = self;
    int r = sl_os_send(peer->socket.fd, &message, message.header.size, fds, count);
    sl_os_close(self);
    return r;
}

static const struct sl_native_memory *memory_to_send(const struct sl_peer *peer)
{
    for (uint32_t i = 0; i < peer->serve->memory_count; i++)
        if (peer->serve->memories[i]->announce.memory >= peer->next_memory)
            return peer->serve->memories[i];
    return NULL;
}

static int send_memory(struct sl_peer *peer, const struct sl_announce *announce)
{
    union sl_message message = SL_MESSAGE(SL_MSG_MEMORY, memory);

    message.memory.memory = announce->memory;
    message.memory.generation = announce->generation;
    message.memory.bytes = announce->object->size;
    message.memory.kind = announce->object->ops->kind;
    message.memory.driver = sl_mem_driver(announce->object->ops);
    sl_format_to_wire(&message.memory.format, announce->format);
    return sl_os_send(peer->socket.fd, &message, message.header.size, &announce->object->fd, 1);
}

/* A reader that waits ahead may do so from the frame after its WELCOME on, so its page is registered first
 * (native/writer/reader_semaphores.h). */
static bool waits_for_registration(const struct sl_peer *peer)
{
    return peer->hello.ahead && sl_load(&peer->shared->state, relaxed) == SL_PAGE_UNKNOWN &&
           sl_os_now() - peer->joined_ns < PAGE_TIMEOUT;
}

static int welcome(struct sl_peer *peer)
{
    int r = send_welcome(peer);

    if (r != 0)
        return r;
    peer->state = SL_PEER_LIVE;
    sl_os_close(peer->page_fd);
    sl_os_close(peer->wake_end);
    peer->page_fd = peer->wake_end = -1;
    return 0;
}

/* At most one descriptor is sent that was not acknowledged (protocol 5.3). */
static int send_next_memory(struct sl_peer *peer)
{
    const struct sl_native_memory *memory = peer->unacknowledged_memory == 0 ? memory_to_send(peer) : NULL;
    int r;

    if (!memory)
        return 0;
    SL_KILL_POINT("before_memory");
    if ((r = send_memory(peer, &memory->announce)) == 0) {
        peer->unacknowledged_memory = memory->announce.memory;
        peer->next_memory = memory->announce.memory + 1;
    }
    return r;
}

void sl_peer_send_pending(struct sl_peer *peer)
{
    int r = 0;

    if (peer->state == SL_PEER_WELCOME && waits_for_registration(peer)) {
        sl_service_set_deadline(&peer->socket, sl_os_deadline(PAGE_POLL_INTERVAL));
        return;
    }
    if (peer->state == SL_PEER_WELCOME)
        r = welcome(peer);
    if (r == 0 && peer->state == SL_PEER_LIVE)
        r = send_next_memory(peer);
    /* A peer that has shut down half of its socket has not hung up; other failures, such as lack of memory, may pass.
     */
    peer->accepts_nothing = r == SLUICE_CLOSED;
    if (r != 0)
        sl_service_set_deadline(&peer->socket, sl_os_deadline(r < 0 ? RETRY_DELAY_ON_ERROR : RETRY_DELAY));
}

void sl_peer_send_all_memories(struct sl_peer *peer)
{
    const struct sl_native_memory *memory;

    while (peer->state == SL_PEER_LIVE && (memory = memory_to_send(peer)) && send_memory(peer, &memory->announce) == 0)
        peer->next_memory = memory->announce.memory + 1;
}
