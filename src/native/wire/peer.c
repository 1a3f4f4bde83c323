/* SPDX-License-Identifier: MIT
 *
 * One connection to a writer, from accept to the end. Runs on the service thread, under its lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/hooks.h"
#include "util/result.h"
#include "native/wire/native.h"

#define HELLO_PATIENCE SLUICE_S          /* for HELLO after connecting */
#define ARRIVAL_PATIENCE SLUICE_S        /* for the first memory's ACK, once places are short */
#define OBSERVER_PATIENCE (10 * SLUICE_S) /* between two queries */
#define SEND_AGAIN (5 * SLUICE_MS)       /* if the socket's buffer was full */
#define PAGE_PATIENCE (SLUICE_S / 2)     /* for a driver to register a page; a reader waits 1 s for its WELCOME */
#define PAGE_LOOK (SLUICE_MS / 5)
#define MESSAGES_A_TURN 8                /* so that one peer cannot keep the thread from others */

void sl_peer_log_departure(const struct sl_peer *peer, const char *how)
{
    if (sl_peer_is_reader(peer))
        sl_log(SLUICE_LOG_INFO, "channel '%s': reader '%s' (process %u) %s", peer->serve->name, peer->hello.program,
               peer->identity.pid, how);
}

/* ---- ending ---- */

static void send_rest(struct sl_peer *peer);

void sl_peer_close(struct sl_peer *peer, uint32_t reason)
{
    struct sl_native_serve *serve = peer->serve;

    for (struct sl_peer **link = &serve->peers; *link; link = &(*link)->next) {
        if (*link == peer) {
            *link = peer->next;
            break;
        }
    }
    if (!sl_peer_is_reader(peer))
        serve->guests--;
    if (sl_table_has(peer)) {
        /* Before its slots are reused: if the reader is alive, its release can report this, and it
         * takes no further frames. */
        if (reason != SL_BYE_CLOSED)
            sl_store(&peer->page->evicted, 1, seq_cst);
        sl_add(&peer->page->bell, 1);
        sl_os_wake(&peer->page->bell, 1);
        (void)sl_os_send(peer->wake.fd, "", 1, NULL, 0);
    }
    sl_table_leave(peer);
    if (reason == SL_BYE_CLOSED)
        send_rest(peer);
    if (reason) {
        union sl_message bye = SL_MESSAGE(SL_MSG_BYE, bye);
        bye.bye.reason = reason;
        (void)sl_os_send(peer->socket.fd, &bye, bye.header.size, NULL, 0);
    }
    sl_service_remove(&peer->socket);
    sl_service_remove(&peer->process);
    sl_service_remove(&peer->wake);
    sl_os_hang_up(peer->socket.fd);
    sl_os_close(peer->process.fd);
    sl_os_hang_up(peer->wake.fd);
    sl_os_close(peer->page_fd);
    sl_os_close(peer->wake_end);
    sl_shared_page_drop(peer->shared);
    free(peer);
}

/* A release while begin waits for a slot (protocol 3.9). */
static void wake_ready(struct sl_watch *watch, bool readable, bool hung_up_too)
{
    struct sl_peer *peer = SL_PEER_OF(watch, wake);

    if (hung_up_too)
        peer->left_ns = sl_os_now();
    if (readable && sl_os_drain(watch->fd)) {
        sl_add(&peer->serve->base.freed, 1);
        sl_os_wake(&peer->serve->base.freed, INT32_MAX);
    }
}

/* ---- beginning ---- */

/* Sends the client the reason and ends the connection. The text is this thread's last error
 * message. */
static void refuse(struct sl_peer *peer, int result)
{
    union sl_message message = SL_MESSAGE(SL_MSG_REFUSE, refuse);

    message.refuse.result = result;
    message.refuse.version_min = SLUICE_WIRE_VERSION_MIN;
    message.refuse.version_max = SLUICE_WIRE_VERSION_MAX;
    snprintf(message.refuse.text, sizeof message.refuse.text, "%s", sl_last_error());
    sl_log(SLUICE_LOG_WARN, "channel '%s': refused process %u: %s", peer->serve->name, peer->identity.pid,
           message.refuse.text);
    peer->serve->base.refused++;
    (void)sl_os_send(peer->socket.fd, &message, message.header.size, NULL, 0);
    sl_peer_close(peer, 0);
}

/* Makes the reader's page here, so that the reader cannot shrink it (protocol 1.7, 5.12). */
static int make_page(struct sl_peer *peer)
{
    int ends[2], r;
    void *address;

    uint64_t bytes = sl_native_page_size(sl_os_page_size());
    if ((r = sl_os_memory_create("sluice-reader", bytes, &peer->page_fd)) != 0)
        return r;
    if ((r = sl_os_memory_seal(peer->page_fd, false)) != 0)
        return r;
    if ((r = sl_os_map(peer->page_fd, bytes, true, &address)) != 0)
        return r;
    peer->shared = malloc(sizeof *peer->shared);
    if (!peer->shared) {
        sl_os_unmap(address, bytes);
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for a reader's page");
    }
    *peer->shared = (struct sl_shared_page){
        .words = sl_page_words(address), .address = address, .bytes = bytes, .users = 1
    };
    peer->page = address;
    peer->serve->guests--; /* a reader from here on */
    peer->page->magic = SL_NATIVE_MAGIC;
    peer->page->session = peer->serve->params.session;
    if ((r = sl_os_socket_pair(ends)) != 0)
        return r;
    sl_os_take_no_descriptors(ends[0]);
    peer->wake.fd = ends[0];
    peer->wake_end = ends[1];
    if ((r = sl_os_close_in_child(ends[0])) != 0 || (r = sl_os_close_in_child(ends[1])) != 0)
        return r;
    peer->wake.ready = wake_ready;
    return sl_service_add(&peer->wake);
}

/* If places are short: peers that have hung up are removed without further waiting, and a reader
 * that never accepted its first memory, because it is stopped or silent, loses its place to a
 * newcomer. */
static bool make_room(struct sl_native_serve *serve)
{
    struct sl_peer *gone = NULL, *mute = NULL;

    for (struct sl_peer *peer = serve->peers; peer; peer = peer->next) {
        if (peer->state == SL_PEER_HUNG_UP && sl_peer_may_lapse(peer))
            gone = peer;
        else if (sl_table_has(peer) && !peer->arrived && sl_os_now() - peer->joined_ns > ARRIVAL_PATIENCE)
            mute = peer;
    }
    if (gone) {
        sl_peer_died(gone, "hung up without a word");
    } else if (mute) {
        sl_log(SLUICE_LOG_WARN, "channel '%s': process %u took a place and nothing else: it is given away", serve->name,
               mute->identity.pid);
        serve->base.refused++;
        sl_peer_close(mute, SL_BYE_EVICTED);
    }
    return gone || mute;
}

static int admit_reader(struct sl_peer *peer)
{
    int r = make_page(peer);

    if (r != 0)
        return r;
    if (peer->process.fd >= 0 && (r = sl_service_add(&peer->process)) != 0)
        return r;
    /* A forked child has the GPU's descriptors, too, so it must keep this end of the connection,
     * like the other end (4.1). */
    if (peer->serve->control->memory_kind != SL_MEM_HOST)
        sl_os_keep_in_child(peer->socket.fd);
    peer->depth = sl_peer_grant_depth(peer);
    peer->joined_ns = sl_os_now();
    peer->state = SL_PEER_WELCOME;
    sl_table_enter(peer); /* before its descriptors are sent */
    if (peer->hello.ahead)
        peer->serve->params.joined_ahead(peer->serve->params.context, peer->shared);
    SL_KILL_POINT("before_welcome");
    sl_log(SLUICE_LOG_INFO, "channel '%s': reader '%s' (process %u) joins", peer->serve->name, peer->hello.program,
           peer->identity.pid);
    sl_peer_pump(peer);
    return 0;
}

/* Peers that have hung up must not keep their places until they are read, as the newcomer's HELLO
 * may be read first. True if any place became free. */
static bool read_departures(struct sl_native_serve *serve)
{
    uint32_t before = serve->base.reader_count;
    struct sl_peer *next;

    for (struct sl_peer *peer = serve->peers; peer; peer = next) {
        next = peer->next;
        if (sl_table_has(peer) && peer->socket.fd >= 0 && sl_os_hung_up(peer->socket.fd))
            (void)sl_peer_read(peer, SL_LAST_MESSAGES);
    }
    return serve->base.reader_count < before;
}

/* Returns false if the peer was freed. */
static bool hello(struct sl_peer *peer, const union sl_message *message, int *fds, int fd_count)
{
    sl_service_set_deadline(&peer->socket, 0);
    if (message->header.type != SL_MSG_HELLO) {
        peer->serve->base.refused++;
        sl_peer_close(peer, 0);
        return false;
    }
    peer->hello = message->hello;
    if (peer->identity.pidfd < 0 && fd_count > 0 && sl_os_pidfd_valid(fds[0])) {
        peer->process.fd = fds[0];
        fds[0] = -1;
    }
    int r = sl_peer_check(peer);
    if (r == SLUICE_E_LIMIT && read_departures(peer->serve))
        r = sl_peer_check(peer);
    while (r == SLUICE_E_LIMIT && peer->serve->base.reader_count >= peer->serve->writer.readers &&
           make_room(peer->serve))
        r = sl_peer_check(peer);
    if (r == 0 && message->hello.role == SL_ROLE_READER)
        r = admit_reader(peer);
    if (r != 0) {
        refuse(peer, r);
        return false;
    }
    if (message->hello.role == SL_ROLE_OBSERVER) {
        peer->state = SL_PEER_OBSERVER;
        sl_service_set_deadline(&peer->socket, sl_os_deadline(OBSERVER_PATIENCE));
    }
    return true;
}

/* ---- sending ---- */

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

/* A reader that waits ahead may do so from the frame after its WELCOME on, so its page is
 * registered first (native/writer/reader_semaphores.h). */
static bool is_made_ready(const struct sl_peer *peer)
{
    return peer->hello.ahead && sl_load(&peer->shared->state, relaxed) == SL_PAGE_UNKNOWN &&
           sl_os_now() - peer->joined_ns < PAGE_PATIENCE;
}

void sl_peer_pump(struct sl_peer *peer)
{
    int r = 0;

    if (peer->state == SL_PEER_WELCOME && is_made_ready(peer)) {
        sl_service_set_deadline(&peer->socket, sl_os_deadline(PAGE_LOOK));
        return;
    }
    if (peer->state == SL_PEER_WELCOME) {
        if ((r = send_welcome(peer)) == 0) {
            peer->state = SL_PEER_LIVE;
            sl_os_close(peer->page_fd);
            sl_os_close(peer->wake_end);
            peer->page_fd = peer->wake_end = -1;
        }
    }
    /* At most one unacknowledged descriptor (protocol 5.3). */
    const struct sl_native_memory *memory;
    if (r == 0 && peer->state == SL_PEER_LIVE && peer->unacknowledged == 0 && (memory = memory_to_send(peer))) {
        SL_KILL_POINT("before_memory");
        if ((r = send_memory(peer, &memory->announce)) == 0) {
            peer->unacknowledged = memory->announce.memory;
            peer->next_memory = memory->announce.memory + 1;
        }
    }
    /* A peer that has shut down half of its socket has not hung up; other failures, such as lack of
     * memory, may pass. */
    peer->deaf = r == SLUICE_CLOSED;
    if (r != 0)
        sl_service_set_deadline(&peer->socket, sl_os_deadline(r < 0 ? SEND_AGAIN * 20 : SEND_AGAIN));
}

/* Sends the memories that are still waiting to be sent: unread frames may be in them, and this
 * writer is closing. */
static void send_rest(struct sl_peer *peer)
{
    const struct sl_native_memory *memory;

    while (peer->state == SL_PEER_LIVE && (memory = memory_to_send(peer)) && send_memory(peer, &memory->announce) == 0)
        peer->next_memory = memory->announce.memory + 1;
}

/* ---- receiving ---- */

/* Logged for the case that the reader cannot open this writer's memory: nobody may read its own
 * log. */
static void compare_drivers(struct sl_peer *peer, uint32_t theirs)
{
    const struct sl_native_serve *serve = peer->serve;
    uint32_t ours = sl_mem_driver(sl_mem_of_kind(serve->control->memory_kind));

    if (!ours || !theirs || ours == theirs || peer->mixed)
        return;
    peer->mixed = true;
    sl_log(SLUICE_LOG_INFO, "channel '%s': the reader in process %u has a driver for CUDA %u.%u, its writer one for %u.%u",
           serve->name, peer->identity.pid, theirs / 1000, theirs % 1000 / 10, ours / 1000, ours % 1000 / 10);
}

/* Returns false if the peer was freed. */
static bool handle(struct sl_peer *peer, const union sl_message *message, int *fds, int fd_count)
{
    if (peer->state == SL_PEER_NEW)
        return hello(peer, message, fds, fd_count);
    switch (message->header.type) {
    case SL_MSG_ACK:
        if (peer->state != SL_PEER_LIVE || message->ack.memory != peer->unacknowledged)
            break;
        peer->unacknowledged = 0;
        peer->arrived = true;
        compare_drivers(peer, message->ack.driver);
        sl_peer_pump(peer);
        return true;
    case SL_MSG_QUERY:
        if (peer->state != SL_PEER_OBSERVER)
            break;
        if (sl_status_send(peer->serve, peer->socket.fd) != 0) { /* it has left, or does not read */
            sl_peer_close(peer, 0);
            return false;
        }
        sl_service_set_deadline(&peer->socket, sl_os_deadline(OBSERVER_PATIENCE));
        return true;
    case SL_MSG_BYE:
        sl_peer_log_departure(peer, "leaves");
        sl_peer_close(peer, 0);
        return false;
    default:
        break;
    }
    sl_log(SLUICE_LOG_WARN, "channel '%s': process %u broke the protocol with a message of type %u", peer->serve->name,
           peer->identity.pid, message->header.type);
    peer->serve->base.refused++;
    sl_peer_close(peer, 0);
    return false;
}

bool sl_peer_read(struct sl_peer *peer, int most)
{
    union sl_message message;

    for (int i = 0; i < most && peer->socket.fd >= 0; i++) {
        int fds[SL_OS_MAX_FDS], fd_count;
        int r = sl_message_receive(peer->socket.fd, &message, fds, &fd_count);
        if (r == SLUICE_AGAIN)
            break;
        if (r == SLUICE_CLOSED) {
            sl_peer_hung_up(peer);
            return false;
        }
        bool alive = r == 0 && handle(peer, &message, fds, fd_count);
        sl_os_discard(fds, fd_count);
        if (r != 0)
            refuse(peer, r);
        if (r != 0 || !alive)
            return false;
    }
    return true;
}

static void socket_ready(struct sl_watch *watch, bool readable, bool hung_up_too)
{
    (void)readable;
    (void)hung_up_too;
    (void)sl_peer_read(SL_PEER_OF(watch, socket), MESSAGES_A_TURN);
}

static void socket_timer(struct sl_watch *watch)
{
    struct sl_peer *peer = SL_PEER_OF(watch, socket);

    if (peer->state == SL_PEER_NEW) {
        /* Its HELLO may have arrived before this thread ran. */
        if (!sl_peer_read(peer, MESSAGES_A_TURN) || peer->state != SL_PEER_NEW)
            return;
        peer->serve->base.refused++;
        sl_peer_close(peer, 0);
    } else if (peer->state == SL_PEER_OBSERVER) {
        sl_peer_close(peer, 0);
    } else if (!peer->deaf) {
        sl_peer_pump(peer);
    } else if (sl_peer_read(peer, MESSAGES_A_TURN)) {
        sl_peer_hung_up(peer);
    }
}

int sl_peer_open(struct sl_native_serve *serve, int fd)
{
    struct sl_peer *peer = NULL;
    int r;

    if (serve->guests >= SL_MAX_GUESTS)
        sl_peer_drop_a_guest(serve);
    peer = calloc(1, sizeof *peer);
    if (!peer) {
        r = sl_fail(SLUICE_E_NO_MEMORY, "no memory for a connection");
        goto err;
    }
    peer->serve = serve;
    peer->socket = (struct sl_watch){ .fd = fd, .ready = socket_ready, .timer = socket_timer };
    peer->process = sl_peer_process_watch();
    peer->wake.fd = peer->page_fd = peer->wake_end = -1;
    peer->place = SLUICE_MAX_READERS;
    if ((r = sl_os_peer(fd, &peer->identity)) != 0)
        goto err;
    peer->process.fd = peer->identity.pidfd;
    if ((r = sl_os_close_in_child(fd)) != 0)
        goto err_pidfd;
    peer->socket.deadline = sl_os_deadline(HELLO_PATIENCE);
    if ((r = sl_service_add(&peer->socket)) != 0)
        goto err_pidfd;
    peer->next = serve->peers;
    serve->peers = peer;
    serve->guests++;
    socket_ready(&peer->socket, true, false); /* usually its HELLO has already arrived */
    return 0;

err_pidfd:
    sl_os_close(peer->process.fd);
err:
    sl_os_close(fd);
    free(peer);
    return r;
}
