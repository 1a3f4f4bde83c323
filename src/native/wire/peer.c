/* SPDX-License-Identifier: MIT
 *
 * One connection to a writer: accepted, asked for its HELLO, then served until it ends. Runs on the service thread,
 * under its lock. admit.c decides who may read, liveness.c when a reader is dead; peer_send.c and peer_close.c do the
 * rest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native/wire/native.h"
#include "util/hooks.h"
#include "util/result.h"

#define HELLO_TIMEOUT     SLUICE_S              /* for the HELLO, after connecting */
#define OBSERVER_TIMEOUT  (10 * SLUICE_S)       /* between two queries */
#define MESSAGES_PER_TURN 8                     /* so that one peer cannot keep the thread from others */
#define MAX_LAST_MESSAGES (2 * SL_MAX_MEMORIES) /* read from a peer that is gone: more than a correct one has sent */

static bool read_messages(struct sl_peer *peer, int limit);

/* ---- refusing ---- */

/* Sends this thread's last error message to the peer, and ends the connection. */
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

static void close_refused(struct sl_peer *peer)
{
    peer->serve->base.refused++;
    sl_peer_close(peer, 0);
}

/* ---- admitting ---- */

/* Reads the goodbyes and hang-ups that have arrived: the newcomer's HELLO may be read before them. True if a place
 * became free. */
static bool read_departures(struct sl_native_serve *serve)
{
    uint32_t before = serve->base.reader_count;
    struct sl_peer *next;

    for (struct sl_peer *peer = serve->peers; peer; peer = next) {
        next = peer->next;
        if (sl_reader_table_has(peer) && peer->socket.fd >= 0 && sl_os_hung_up(peer->socket.fd))
            (void)read_messages(peer, MAX_LAST_MESSAGES);
    }
    return serve->base.reader_count < before;
}

/* Removes one reader that need not be waited for. False if there is none. */
static bool replace_reader(struct sl_native_serve *serve)
{
    struct sl_peer *peer = sl_admit_find_replaceable_reader(serve);

    if (!peer)
        return false;
    if (peer->state == SL_PEER_HUNG_UP && sl_liveness_may_end_leases(peer)) {
        sl_liveness_remove(peer, "hung up without a goodbye");
        return true;
    }
    sl_log(SLUICE_LOG_WARN,
           "channel '%s': process %u joined but never accepted a memory: its place goes to another reader", serve->name,
           peer->identity.pid);
    serve->base.refused++;
    sl_peer_close(peer, SL_BYE_EVICTED);
    return true;
}

static bool is_full(const struct sl_native_serve *serve)
{
    return serve->base.reader_count >= serve->writer.readers;
}

static int check_admission(struct sl_peer *peer)
{
    int r = sl_admit_check(peer);

    if (r == SLUICE_E_LIMIT && read_departures(peer->serve))
        r = sl_admit_check(peer);
    while (r == SLUICE_E_LIMIT && is_full(peer->serve) && replace_reader(peer->serve))
        r = sl_admit_check(peer);
    return r;
}

static int add_reader(struct sl_peer *peer)
{
    struct sl_native_serve *serve = peer->serve;
    int r = sl_reader_page_make(peer);

    if (r != 0)
        return r;
    if (peer->process.fd >= 0 && (r = sl_service_add(&peer->process)) != 0)
        return r;
    /* A forked child has the GPU's descriptors, too, so it must keep both ends of the connection (protocol 4.1). */
    if (serve->control->memory_kind != SL_MEM_HOST)
        sl_os_keep_in_child(peer->socket.fd);
    peer->depth = sl_admit_depth(peer);
    peer->hello.hold = sl_admit_hold(peer);
    peer->joined_ns = sl_os_now();
    peer->state = SL_PEER_WELCOME;
    sl_reader_table_add(peer); /* before its descriptors are sent */
    if (peer->hello.ahead)
        serve->params.joined_ahead(serve->params.context, peer->shared);
    SL_KILL_POINT("before_welcome");
    sl_log(SLUICE_LOG_INFO, "channel '%s': reader '%s' (process %u) joins", serve->name, peer->hello.program,
           peer->identity.pid);
    sl_peer_send_pending(peer);
    return 0;
}

/* ---- messages: each function returns false if the peer was freed ---- */

static bool handle_hello(struct sl_peer *peer, const union sl_message *message, int *fds, int fd_count)
{
    sl_service_set_deadline(&peer->socket, 0);
    if (message->header.type != SL_MSG_HELLO) {
        close_refused(peer);
        return false;
    }
    peer->hello = message->hello;
    if (peer->identity.pidfd < 0 && fd_count > 0 && sl_os_pidfd_valid(fds[0])) {
        peer->process.fd = fds[0];
        fds[0] = -1;
    }
    int r = check_admission(peer);
    if (r == 0 && message->hello.role == SL_ROLE_READER)
        r = add_reader(peer);
    if (r != 0) {
        refuse(peer, r);
        return false;
    }
    if (message->hello.role == SL_ROLE_OBSERVER) {
        peer->state = SL_PEER_OBSERVER;
        sl_service_set_deadline(&peer->socket, sl_os_deadline(OBSERVER_TIMEOUT));
    }
    return true;
}

/* Logged here, as nobody may read the log of a reader that cannot open this writer's memory. */
static void compare_drivers(struct sl_peer *peer, uint32_t theirs)
{
    const struct sl_native_serve *serve = peer->serve;
    uint32_t ours = sl_mem_driver(sl_mem_of_kind(serve->control->memory_kind));

    if (!ours || !theirs || ours == theirs || peer->driver_logged)
        return;
    peer->driver_logged = true;
    sl_log(SLUICE_LOG_INFO,
           "channel '%s': the reader in process %u has a driver for CUDA %u.%u, its writer one for %u.%u", serve->name,
           peer->identity.pid, theirs / 1000, theirs % 1000 / 10, ours / 1000, ours % 1000 / 10);
}

static bool handle_ack(struct sl_peer *peer, const struct sl_msg_ack *ack)
{
    peer->unacknowledged_memory = 0;
    peer->has_memory = true;
    compare_drivers(peer, ack->driver);
    sl_peer_send_pending(peer);
    return true;
}

static bool handle_query(struct sl_peer *peer)
{
    if (sl_status_send(peer->serve, peer->socket.fd) != 0) { /* it has left, or does not read */
        sl_peer_close(peer, 0);
        return false;
    }
    sl_service_set_deadline(&peer->socket, sl_os_deadline(OBSERVER_TIMEOUT));
    return true;
}

static bool handle_bye(struct sl_peer *peer)
{
    sl_peer_log_departure(peer, "leaves");
    sl_peer_close(peer, 0);
    return false;
}

static bool handle_message(struct sl_peer *peer, const union sl_message *message, int *fds, int fd_count)
{
    uint32_t type = message->header.type;

    if (peer->state == SL_PEER_NEW)
        return handle_hello(peer, message, fds, fd_count);
    if (type == SL_MSG_ACK && peer->state == SL_PEER_LIVE && message->ack.memory == peer->unacknowledged_memory)
        return handle_ack(peer, &message->ack);
    if (type == SL_MSG_QUERY && peer->state == SL_PEER_OBSERVER)
        return handle_query(peer);
    if (type == SL_MSG_BYE)
        return handle_bye(peer);
    sl_log(SLUICE_LOG_WARN, "channel '%s': process %u broke the protocol with a message of type %u", peer->serve->name,
           peer->identity.pid, type);
    close_refused(peer);
    return false;
}

static bool read_messages(struct sl_peer *peer, int limit)
{
    union sl_message message;

    for (int i = 0; i < limit && peer->socket.fd >= 0; i++) {
        int fds[SL_OS_MAX_FDS], fd_count;
        int r = sl_message_receive(peer->socket.fd, &message, fds, &fd_count);
        if (r == SLUICE_AGAIN)
            break;
        if (r == SLUICE_CLOSED) {
            sl_liveness_hung_up(peer);
            return false;
        }
        bool alive = r == 0 && handle_message(peer, &message, fds, fd_count);
        sl_os_discard(fds, fd_count);
        if (r != 0)
            refuse(peer, r);
        if (r != 0 || !alive)
            return false;
    }
    return true;
}

/* ---- events ---- */

static void socket_ready(struct sl_watch *watch, bool readable, bool hung_up)
{
    (void)readable;
    (void)hung_up;
    (void)read_messages(SL_PEER_OF(watch, socket), MESSAGES_PER_TURN);
}

static void hello_timer(struct sl_peer *peer)
{
    /* The HELLO may have arrived before this thread ran. */
    if (read_messages(peer, MESSAGES_PER_TURN) && peer->state == SL_PEER_NEW)
        close_refused(peer);
}

static void socket_timer(struct sl_watch *watch)
{
    struct sl_peer *peer = SL_PEER_OF(watch, socket);

    if (peer->state == SL_PEER_NEW)
        hello_timer(peer);
    else if (peer->state == SL_PEER_OBSERVER)
        sl_peer_close(peer, 0);
    else if (!peer->accepts_nothing)
        sl_peer_send_pending(peer);
    else if (read_messages(peer, MESSAGES_PER_TURN))
        sl_liveness_hung_up(peer);
}

/* The process may have sent a goodbye before it ended (protocol 5.11). */
static void process_ready(struct sl_watch *watch, bool readable, bool hung_up)
{
    struct sl_peer *peer = SL_PEER_OF(watch, process);

    (void)hung_up;
    if (readable && read_messages(peer, MAX_LAST_MESSAGES))
        sl_liveness_process_ended(peer);
}

static void process_timer(struct sl_watch *watch)
{
    sl_liveness_timer(SL_PEER_OF(watch, process));
}

/* ---- accepting ---- */

/* Ends another connection that is not a reader's, to make room for this one. */
static void replace_nonreader(struct sl_native_serve *serve)
{
    struct sl_peer *peer = sl_admit_find_replaceable_nonreader(serve);

    if (peer && peer->state == SL_PEER_NEW)
        close_refused(peer);
    else if (peer)
        sl_peer_close(peer, 0);
}

static int watch_socket(struct sl_peer *peer)
{
    int r = sl_os_close_in_child(peer->socket.fd);

    if (r != 0)
        return r;
    peer->socket.deadline = sl_os_deadline(HELLO_TIMEOUT);
    return sl_service_add(&peer->socket);
}

/* Owns the descriptor only on success. */
static int add_peer(struct sl_native_serve *serve, int fd, struct sl_peer **out)
{
    struct sl_peer *peer = calloc(1, sizeof *peer);
    int r;

    if (!peer)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for a connection");
    peer->serve = serve;
    peer->socket = (struct sl_watch){ .fd = fd, .ready = socket_ready, .timer = socket_timer };
    peer->process = (struct sl_watch){ .fd = -1, .ready = process_ready, .timer = process_timer };
    peer->wake.fd = peer->page_fd = peer->wake_end = -1;
    peer->table_index = SLUICE_MAX_READERS;
    if ((r = sl_os_peer(fd, &peer->identity)) == 0) {
        peer->process.fd = peer->identity.pidfd;
        if ((r = watch_socket(peer)) != 0)
            sl_os_close(peer->process.fd);
    }
    if (r != 0) {
        free(peer);
        return r;
    }
    peer->next = serve->peers;
    serve->peers = peer;
    serve->nonreader_count++;
    *out = peer;
    return 0;
}

int sl_peer_open(struct sl_native_serve *serve, int fd)
{
    struct sl_peer *peer;
    int r;

    if (serve->nonreader_count >= SL_MAX_NONREADERS)
        replace_nonreader(serve);
    if ((r = add_peer(serve, fd, &peer)) != 0) {
        sl_os_close(fd);
        return r;
    }
    (void)read_messages(peer, MESSAGES_PER_TURN); /* usually its HELLO has already arrived */
    return 0;
}
